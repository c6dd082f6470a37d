"""logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: where in the network is
the transition layer?

How it and its rivals predict networks that they were not fitted on is in the table `errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from thermostats.errors import UsageError, build_unknown_error
from thermostats.modelling.columns import (
    Columns,
    build_gain_columns,
    check_columns,
    check_distinct_units,
    is_constant,
    list_names,
    read_labels,
    read_numbers,
    warn_missing_models,
)
from thermostats.modelling.draws import (
    LOCATION,
    SEED,
    Array,
    Statement,
    Statistic,
    find_equal_tailed,
)
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.laws import Law, OutcomeScale
from thermostats.modelling.leave_out import build_folds, leave_folds_out
from thermostats.modelling.lines import vary_line
from thermostats.modelling.mixed_model import (
    LEVEL,
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    look_along_line,
    name_draws,
)
from thermostats.plots.general import ABOVE
from thermostats.settings import options

ROUNDS, DRAWS = 4, 600
"""Rounds of expectation propagation, and predictive draws in each."""
BEYOND = 1.0
"""Where an open outcome is put at first: this far beyond its one bound."""
LEAST_KNOWN = 30.0
"""Standard error of an outcome of which its bounds say nothing."""


def impute_outcomes(
    line: Mixed, rows: pd.DataFrame, lower: Array, upper: Array, *, seed: int
) -> tuple[Array, Array]:
    """Outcomes and their errors that stand for y_i only known to lie between lower_i and upper_i.

    By expectation propagation every indicator lower_i < y_i < upper_i becomes the normal factor
    N(y_i | m_i, r_i²) that gives the mean and variance of y_i under its prediction from the other
    rows, truncated to the bounds (Minka 2001, arXiv:1301.2294). For narrow bounds that is their
    middle and width/√12; one bound may be infinite.
    """
    closed = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        half_open = np.where(np.isfinite(lower), lower + BEYOND, upper - BEYOND)
        y = np.where(closed, (lower + upper) / 2, half_open)
        error = np.where(closed, (upper - lower) / 12**0.5, BEYOND)
    names = build_folds([str(i) for i in range(y.size)])
    for _ in range(ROUNDS):
        model = line.design_rows(rows.assign(place=y, rounding=error)).gaussian
        drawn = _draw_left_out(model, names, seed, DRAWS)
        centre = drawn.mean(axis=0)
        spread = drawn.std(axis=0)
        a = np.clip((lower - centre) / spread, -35, 35)
        b = np.clip((upper - centre) / spread, -35, 35)
        b = np.maximum(b, a + 1e-9)
        mean, variance = stats.truncnorm.stats(a, b, centre, spread, moments="mv")
        prior_variance = np.square(spread)
        precision = 1 / variance - 1 / prior_variance
        usable = precision > LEAST_KNOWN**-2
        precision = np.where(usable, precision, LEAST_KNOWN**-2)
        truncated = mean / variance
        difference = truncated - centre / prior_variance
        y = np.where(usable, difference / precision, mean)
        error = precision**-0.5
    return np.asarray(y), np.asarray(error)


def _draw_left_out(
    model: Gaussian, names: Sequence[str], seed: int, size: int, *, measured: bool = False
) -> Array:
    """Draws of every fold from all others."""
    draws = model.sample(seed=seed)
    return leave_folds_out(model, draws, names, seed=seed, size=size, measured=measured).draws


Formula = tuple[float, float, float]
"""a, b, c of L* = L (a + b L + c/H)."""
ROUNDING = 12**-0.5
"""Standard error of L* in layers: it is a whole number."""
FRACTION_SD, FRACTION_SPREAD = 0.5, 0.25
"""Prior scales of the refitted polynomial's terms and residual, in units of the depth."""


def list_predictions(line: Mixed, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """L* and every rule's prediction from other labs, one row per network."""
    return _compare_rules_across_labs(line, published, fit)[0]


def score_across_labs(line: Mixed, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """Errors of every rule with each lab left out."""
    return _compare_rules_across_labs(line, published, fit)[1]


def _compare_rules_across_labs(
    line: Mixed, published: Formula | None, fit: Fit
) -> tuple[pd.DataFrame, pd.DataFrame]:
    labs = build_folds(fit.rows["heritage"].astype(str).tolist())
    every = np.ones(len(fit.rows), dtype=bool)
    return _compare_rules(line, fit, labs, every, published)


def score_within_labs(line: Mixed, published: Formula | None, fit: Fit) -> pd.DataFrame:
    """Errors with each network left out alone, of many every twentieth together; empty where no lab
    has two."""
    several = fit.rows["heritage"].duplicated(keep=False).to_numpy()
    if not several.any():
        return pd.DataFrame(columns=["rule", "error_of_depth"])
    networks = build_folds(fit.rows["model_id"].astype(str).tolist())
    return _compare_rules(line, fit, networks, several, published)[1]


def _compare_rules(
    line: Mixed,
    fit: Fit,
    names: Sequence[str],
    counted: NDArray[np.bool_],
    published: Formula | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions of every rule and L*, one row per network, and their errors, one row per rule,
    the best first.

    Rules that are fitted predict every fold from the others; only networks `counted` count.
    """
    every = fit.rows
    seed = fit.seed
    depth = every["n_layers"].to_numpy(dtype=np.float64)
    rows = every.loc[counted, ["model_id", "heritage", "n_layers", "n_heads", "L_star"]].copy()
    L = depth[counted]
    star = rows["L_star"].to_numpy()
    fixed = {"L/2": L / 2}
    if published:
        a, b, c = published
        heads = rows["n_heads"].to_numpy(dtype=np.float64)
        fixed["published formula"] = L * (a + b * L + c / heads)
    drawn = {}
    for name, each in (("logit", line), ("mean fraction", replace(line, fixed=line.fixed[:1]))):
        model = each.design_rows(every).gaussian
        logits = _draw_left_out(model, names, seed, size=4000)
        depths = expit(logits) * depth
        layers = np.ceil(depths)
        drawn[name] = np.clip(layers, 1, depth)
    model = _build_polynomial(every)
    shares = _draw_left_out(model, names, seed, size=4000, measured=True)
    drawn["polynomial"] = shares * depth
    errors: list[dict[str, object]] = []
    for name, layers in fixed.items():
        rows[name] = layers
        errors.append({"rule": name, "fitted": False, **_measure_errors(layers, star, L)})
    for name, values in drawn.items():
        draws = values[:, counted]
        low, high = find_equal_tailed(draws)
        middle = np.median(draws, axis=0)
        rows[name] = middle
        rows[f"{name}_lower"] = low
        rows[f"{name}_upper"] = high
        covered = (low <= star) & (star <= high)
        inside = (low >= 0.5) & (high <= L + 0.5)
        spread = {
            "coverage": covered.mean(),
            "width_of_depth": ((high - low) / L).mean(),
            "interval_inside": inside.mean(),
        }
        errors.append({"rule": name, "fitted": True, **_measure_errors(middle, star, L), **spread})
    table = pd.DataFrame(errors)
    return rows, table.sort_values("error_of_depth", ignore_index=True)


def _measure_errors(predicted: Array, star: Array, L: Array) -> dict[str, float]:
    """Errors of one rule, and the error of depth of L/2 minus the rule's, paired by network, with
    its t interval."""
    off = np.abs(predicted - star)
    of_depth = off / L
    gained = np.abs(L / 2 - star) / L - of_depth
    mean = gained.mean()
    quantile = stats.t.ppf((1 + options.level) / 2, gained.size - 1)
    reach = quantile * gained.std(ddof=1) / gained.size**0.5
    inside = (predicted >= 0.5) & (predicted <= L + 0.5)
    errors = {
        "error_of_depth": of_depth.mean(),
        "mape": (off / star).mean(),
        "inside": inside.mean(),
        "better_than_half": mean,
        "better_than_half_lower": mean - reach,
        "better_than_half_upper": mean + reach,
    }
    return {name: float(error) for name, error in errors.items()}


def _read_shape(rows: pd.DataFrame) -> tuple[Array, Array]:
    """L and H."""
    L, H = (rows[name].to_numpy(dtype=np.float64) for name in SHAPE)
    return L, H


def _build_polynomial(rows: pd.DataFrame) -> Gaussian:
    """L*/L as a + b L + c/H, with L in units of the largest and 1/H of the smallest."""
    L, H = _read_shape(rows)
    terms = [np.ones(L.size), L / L.max(), H.min() / H]
    star = rows["L_star"].to_numpy(dtype=np.float64)
    return Gaussian(
        y=star / L,
        X=np.column_stack(terms),
        sd=np.full(3, FRACTION_SD),
        blocks={},
        prior=HalfNormals((FRACTION_SPREAD,)),
        error=ROUNDING / L,
    )


def list_terms(published: Formula | None, fit: Fit) -> pd.DataFrame:
    """The polynomial's terms as published and as fitted."""
    L, H = _read_shape(fit.rows)
    units = np.array([1.0, L.max(), 1 / H.min()])
    drawn = _build_polynomial(fit.rows).sample(seed=fit.seed).flat("beta") / units
    low, high = find_equal_tailed(drawn)
    stated = {"published": published} if published else {}
    medians = np.median(drawn, axis=0)
    fitted = {"median": medians, "lower": low, "upper": high}
    return pd.DataFrame({"term": [*"abc"], **stated, **fitted})


CENTRE_SD, SLOPE_SD, SPREAD = 1.5, 0.5, 0.5
"""Prior scales on the logit: places from 5% to 95% of the depth; slopes (over one SD), labs and the
rest share 1."""
SHAPE = {"n_layers": "b", "n_heads": "c"}
LOGS = {"n_layers": "log L_i", "n_heads": "log H_i"}
WHY = {
    "a": "places from 5% to 95% of the depth are no surprise",
    "n_layers": "over one SD of log L: up to 12% of the depth at its middle",
    "n_heads": "over one SD of log H: the same",
    "τ": "labs differ as much as slopes may move",
    "σ": "networks of one lab differ as much",
}


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One row per network with its transition layer."""

    rows: pd.DataFrame
    """model_id, heritage, n_layers, n_heads, L_star, their logs, and on the logit `place` with its
    `rounding`."""
    line: Mixed
    """On the logit, with depth and heads where they vary."""
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


def read_transition_rows(
    table: pd.DataFrame,
    definition: str,
    *,
    column: str = "",
    source: str | Sequence[str] | None = None,
) -> Placed:
    """The rows of `fit_transition` and their line; raises as it does."""
    rows, sources, warnings = _read_rows(table, column or f"L_star_{definition}", source)
    L = read_numbers(rows["n_layers"], "n_layers", positive=True)
    H = read_numbers(rows["n_heads"], "n_heads", positive=True)
    star = read_numbers(rows["L_star"], definition, least=4)
    if (outside := np.flatnonzero((star < 1) | (star > L))).size:
        at = int(outside[0])
        model = rows["model_id"][at]
        raise UsageError(
            "a transition layer outside its network",
            where=f"{definition} of {model}",
            got=float(star[at]),
            allowed=f"1 to {L[at]:g}, layers counted from 1",
        )
    labs = rows["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError(
            "no other lab to predict",
            where="heritage",
            got=labs.unique()[0],
            allowed="2 labs or more",
        )
    line = declare_places([name for name in SHAPE if np.ptp(rows[name])])
    logs = rows.assign(log_n_layers=np.log(L), log_n_heads=np.log(H), place=0.0, rounding=0.0)
    with np.errstate(divide="ignore"):
        lower = logit(np.maximum(star - 1, 0) / L)
        upper = logit(np.minimum(star, L) / L)
    place, rounding = impute_outcomes(line, logs, lower, upper, seed=L.size)
    warnings += _collect_warnings(L, H, star, labs)
    return Placed(
        rows=logs.assign(place=place, rounding=rounding),
        line=line,
        sources=sources,
        warnings=tuple(warnings),
    )


@record_call
def fit_transition(
    table: pd.DataFrame,
    definition: str = "first_sign_change",
    *,
    outcome: str = "",
    model: str = "model_id",
    lab: str = "heritage",
    depth: str = "n_layers",
    heads: str = "n_heads",
    source: str | Sequence[str] | None = None,
    published: Formula | None = None,
    seed: int = SEED,
) -> Fit:
    """Predict in which layer of a network its transition lies, from depth and heads.

        logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉:
        p lies between (L* − 1)/L and L*/L

    In the first and the last layer one of these bounds is infinite on the logit
    (`impute_outcomes`). On the logit no prediction leaves the network. Next to it, each fitted
    without the lab that is predicted: the polynomial L* = L (a + b L + c/H) and the mean fraction,
    and without any fit L/2 and the `published` formula. Networks without an L* are left out with a
    warning. L* is no gain, so models whose gains are near 1 by construction count too.

    Parameters
    ----------
    table : DataFrame
        Rows of `features` with the column `L_star_<definition>` (1-based; `<definition>_<trace
        variant>` where there is one), or your own. Of several rows of a model the mean is taken.
    definition : str
        Which layer is called L*.
    outcome, model, lab, depth, heads : str
        Columns of L*, the model's name, its lab, its number of layers and of heads.
    source : str or sequence of str
        Files to take; all by default.
    published : Formula
        The polynomial with these a, b, c.
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: depth (p of a network of middling shape), new_network (of a new network of a new
        lab), slopes, lab_sd, residual_sd. Tables: `models` (L* and every prediction from other labs
        with the logit model's interval), `errors` (`error_of_depth` = mean |predicted − L*|/L,
        `mape` relative to L*, `better_than_half`: the error of L/2 minus the rule's, with paired t
        interval, share of predictions and of intervals inside the network, coverage and width of
        the intervals), `errors_within_labs` (the same of networks whose lab has others, each
        predicted from all others, so that its lab is known), `polynomial` (its terms).

    Raises
    ------
    UsageError
        For fewer than 4 models, fewer than 2 labs, a layer outside 1 to L, missing depth, heads or
        lab, a model with two of one of these.

    Examples
    --------
    >>> import thermostats
    >>> fit = thermostats.fit_transition(thermostats.features(), "first_sign_change")
    >>> fit.table("errors")[["rule", "error_of_depth"]].round(2)
                rule  error_of_depth
    0          logit            0.04
    1     polynomial            0.06
    2  mean fraction            0.08
    3            L/2            0.31
    """
    unprefixed = not outcome and definition in table and f"L_star_{definition}" not in table
    column = outcome or (definition if unprefixed else f"L_star_{definition}")
    _check_definition(table, column)
    if published is not None and len(published) != len("abc"):
        raise UsageError(
            "a published formula has three terms",
            got=published,
            allowed="a, b, c of L (a + b L + c/H)",
        )
    columns = build_gain_columns(
        "fit_transition", column, model=model, lab=lab, depth=depth, heads=heads
    )
    placed = read_transition_rows(
        columns.read(table), outcome or definition, column=column, source=source
    )
    slopes = tuple(name.removeprefix("log_") for name in placed.line.covariates)
    statements: dict[str, Statement] = {"behind the middle": lambda q: q["depth"] > 0.5}
    statements["L* of a network like these lies behind the middle"] = lambda q: (
        q["new_network"] > 0.5
    )
    if "n_layers" in slopes:
        statements["deeper networks turn relatively later"] = lambda q: q["slope_n_layers"] > 0
    if "n_heads" in slopes:
        statements["more heads turn relatively earlier"] = lambda q: q["slope_n_heads"] < 0
    slope_names = (f"slope_{name}" for name in slopes)
    tables: dict[str, Callable[[Fit], pd.DataFrame]] = {
        "errors": partial(score_across_labs, placed.line, published),
        "errors_within_labs": partial(score_within_labs, placed.line, published),
        "models": partial(list_predictions, placed.line, published),
        "polynomial": partial(list_terms, published),
    }
    law = Law(
        name="transition",
        of=placed.line.design_rows,
        quantities=_compute_quantities,
        reported=("depth", *slope_names, "lab_sd", "residual_sd", "new_network"),
        statements=statements,
        statistics=_build_statistics,
        equations=describe_terms(published),
        tables=tables,
        figures={"fit": _draw_figure},
    )
    return build_fit(
        declare_law(law, placed.line, vary_line(placed.line)),
        placed.rows,
        seed=seed,
        estimand=outcome or definition,
        sources=placed.sources,
        warnings=placed.warnings,
        reads=partial(_read_new_rows, columns),
    )


DEPTH = OutcomeScale(word="logit", back=expit, outcome="share_of_depth")
"""L*, in the middle of its layer, as a share of the depth."""


def declare_places(shape: Sequence[str]) -> Mixed:
    """A line of places on the logit, with slopes on logs of some of depth and heads."""
    slopes = []
    for name in shape:
        slopes.append(
            Fixed(
                column=f"log_{name}",
                sd=SLOPE_SD,
                symbol=SHAPE[name],
                why=WHY[name],
                term=f"z({LOGS[name]})",
                quantity=f"slope_{name}",
                standardised=True,
            )
        )
    labs = Levels(
        column="heritage",
        scale=SPREAD,
        symbol="τ",
        why=WHY["τ"],
        effect="u_lab(i)",
        quantity="lab_sd",
        name=LEVEL,
    )
    rest = Rest(
        scale=SPREAD, why=WHY["σ"], quantity="residual_sd", error="rounding", error_symbol="r_i"
    )
    return Mixed(
        outcome="place",
        left="logit p_i",
        fixed=(Fixed(sd=CENTRE_SD, symbol="a", why=WHY["a"]), *slopes),
        kinds=(labs,),
        rest=rest,
        scale=DEPTH,
        regress=look_along_line,
    )


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    centre = values["beta"][..., 0]
    spread = np.sqrt(np.square(values["scale"]).sum(axis=-1))
    noise = np.random.default_rng(values["beta"].size).standard_normal(spread.shape)
    drawn = name_draws(values, design)
    return {"depth": expit(centre), **drawn, "new_network": expit(centre + spread * noise)}


def describe_terms(published: Formula | None) -> tuple[str, ...]:
    """What the symbols of the model stand for, and the polynomial next to it."""
    terms = []
    for name, value in zip("abc", published or (), strict=False):
        terms.append(f"{name} = {value:g}")
    stated = f";  published: {', '.join(terms)}" if terms else ""
    return (
        "L*_i = ⌈p_i L_i⌉;  r_i the rounding of L*_i to whole layers on the logit",
        f"fitted polynomial: L*_i/L_i = a + b L_i + c/H_i + ε_i{stated}",
    )


def _read_new_rows(columns: Columns, new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict, with the logs of depth and heads."""
    rows = columns.read_new(new)
    logs = {}
    for name in SHAPE:
        numbers = read_numbers(rows[name], name, least=1, positive=True)
        logs[f"log_{name}"] = np.log(numbers)
    return rows.assign(**logs)


def _check_definition(table: pd.DataFrame, column: str) -> None:
    """UsageError for a definition that rows of `features` do not have."""
    defined = []
    for name in table:
        if str(name).startswith("L_star_") and not str(name).endswith("_sd"):
            defined.append(str(name))
    if column not in table and defined:
        definitions = [name.removeprefix("L_star_") for name in defined]
        raise build_unknown_error(
            "no such definition of L*", column.removeprefix("L_star_"), definitions
        )


def _read_rows(
    table: pd.DataFrame, column: str, source: str | Sequence[str] | None
) -> tuple[pd.DataFrame, tuple[str, ...], list[str]]:
    """One row per network, the files they are from, and what was left out or put together."""
    check_columns(table, "model_id", "heritage", "source", "n_layers", "n_heads", column)
    table = table.reset_index(drop=True)
    chosen = table
    if source is not None:
        files = [source] if isinstance(source, str) else list(source)
        is_chosen = table["source"].isin(files)
        chosen = table[is_chosen]
    is_known = chosen[column].notna()
    rows = chosen[is_known]
    if len(rows):
        rows = rows.assign(**{column: read_numbers(rows[column], column, least=1)})
    warnings = warn_missing_models(chosen["model_id"], rows["model_id"], "no L* of this definition")
    check_distinct_units(rows, ())
    models = rows.groupby("model_id")
    facts = models[["heritage", "n_layers", "n_heads"]]
    if (differ := facts.nunique().gt(1).any(axis=1)).any():
        raise UsageError(
            "a model has two labs or two geometries",
            got=list_names(differ.index[differ]),
            allowed="one of each",
        )
    if twice := models.size().loc[lambda n: n > 1].index.tolist():
        warnings.append("several rows, so their mean is used: " + list_names(twice))
    for name in SHAPE:
        if len(rows):
            numbers = read_numbers(rows[name], name, least=1, positive=True)
            rows = rows.assign(**{name: numbers})
    facts = rows.groupby("model_id")[["heritage", *SHAPE]].first()
    star = models[column].mean().astype("float64")
    networks = facts.assign(L_star=star).reset_index()
    if len(networks):
        read_labels(networks["heritage"], "heritage")
    return networks, tuple(sorted(set(rows["source"]) - {""})), warnings


def _collect_warnings(L: Array, H: Array, star: Array, labs: pd.Series) -> tuple[str, ...]:
    edge = int(((star == 1) | (star == L)).sum())
    same_place = is_constant(star / L)
    same_layer = is_constant(star) and not same_place
    terms = np.column_stack([np.ones(L.size), L, 1 / H])
    rank = np.linalg.matrix_rank(terms)
    r = 0.0
    if np.ptp(L) and np.ptp(H):
        r = float(np.corrcoef(np.log(L), np.log(H))[0, 1])
    small = L.size < 12 or labs.nunique() < 4
    words = {
        f"L* is the first or the last layer of {edge} networks: there the logit is known on one "
        f"side only": edge,
        "L*/L is the same in every network: its spread is known up to the rounding of L* and its "
        "prior": same_place,
        f"L* is {star[0]:g} in every network: L*/L varies with the depth alone": same_layer,
        "one network of every lab: labs cannot be separated from networks, so their prior "
        "decides": labs.is_unique,
        f"the three terms of the polynomial have rank {rank} in these networks: their priors "
        f"decide between them": rank < 3,
        "L is the same in every network: no slope": not np.ptp(L),
        "H is the same in every network: no slope": not np.ptp(H),
        f"log L and log H are correlated (r = {r:.2f}): their slopes cannot be separated": (
            abs(r) > 0.95
        ),
        f"{L.size} networks of {labs.nunique()} labs: intervals of other labs are wide and rest on "
        f"the priors": small,
    }
    return tuple(line for line, holds in words.items() if holds)


def _build_statistics(design: MixedDesign) -> Mapping[str, Statistic]:
    L = design.table["n_layers"].to_numpy(dtype=np.float64)
    deep = np.median(L) <= L
    if not deep.any() or deep.all():
        return LOCATION

    def compare_depths(y: Array) -> Array:
        return np.asarray(y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1))

    return {**LOCATION, "deep less shallow": compare_depths}


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    models = fit.table("models")
    table = models.sort_values("n_layers", ignore_index=True)
    rows = np.arange(len(table))
    L = table["n_layers"].astype("float64")
    lower = table["logit_lower"] / L
    axes.hlines(rows, lower, table["logit_upper"] / L, alpha=0.4, linewidth=4)
    predicted = table["logit"] / L
    axes.plot(predicted, rows, "|", label="predicted from other labs")
    if "published formula" in table:
        stated = table["published formula"] / L
        axes.plot(stated, rows, "x", label="published formula")
    observed = table["L_star"] / L
    axes.plot(observed, rows, "o", label="L*")
    axes.axvline(0.5, linewidth=0.8, linestyle="--")
    axes.set_yticks(rows, [str(name) for name in table["model_id"]])
    axes.set_xlabel("L* / L")
    axes.legend(**ABOVE)
    return axes
