"""logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: where in the network is the transition layer?

How it and its rivals predict networks that they were not fitted on is asked by `transition_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import expit, logit

from thermostats.errors import UsageError, unknown
from thermostats.modelling import transition_rules as rules
from thermostats.modelling.bounds import between
from thermostats.modelling.calls import fits
from thermostats.modelling.classical.estimates import columns_of, is_constant, labels, models_missing, named, numbers
from thermostats.modelling.columns import Columns, gain_columns, units_once
from thermostats.modelling.draws import SEED, Array
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.laws import Law, Prior
from thermostats.modelling.lines import Line, LineDesign, line_law
from thermostats.modelling.predictions import OutcomeScale
from thermostats.modelling.statements import LOCATION, Statement, Statistic
from thermostats.modelling.transition_rules import Formula
from thermostats.plots.marks import ABOVE

CENTRE_SD, SLOPE_SD, SPREAD = 1.5, 0.5, 0.5
"""Prior scales on the logit: places from 5% to 95% of the depth; slopes (over one SD), labs and the rest share 1."""
SHAPE = {"n_layers": "b", "n_heads": "c"}
PRIORS: dict[str, Prior] = {
    "a": ("a", f"N(0, {CENTRE_SD:g}²)", "places from 5% to 95% of the depth are no surprise"),
    "n_layers": ("b", f"N(0, {SLOPE_SD:g}²)", "over one SD of log L: up to 12% of the depth at its middle"),
    "n_heads": ("c", f"N(0, {SLOPE_SD:g}²)", "over one SD of log H: the same"),
    "τ": ("τ", f"half-normal({SPREAD:g})", "labs differ as much as slopes may move"),
    "σ": ("σ", f"half-normal({SPREAD:g})", "networks of one lab differ as much"),
}


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One row per network with its transition layer."""

    rows: pd.DataFrame
    """model_id, heritage, n_layers, n_heads, L_star, their logs, and on the logit `place` with its `rounding`."""
    line: Line
    """On the logit, with depth and heads where they vary."""
    sources: tuple[str, ...]
    warnings: tuple[str, ...]


def transition_rows(
    table: pd.DataFrame, definition: str, *, column: str = "", source: str | Sequence[str] | None = None
) -> Placed:
    """The rows of `fit_transition` and their line; raises as it does."""
    rows, sources, warnings = _rows(table, column or f"L_star_{definition}", source)
    L, H = (numbers(rows[name], name, positive=True) for name in ("n_layers", "n_heads"))
    star = numbers(rows["L_star"], definition, least=4)
    if (outside := np.flatnonzero((star < 1) | (star > L))).size:
        at = int(outside[0])
        raise UsageError(
            "a transition layer outside its network",
            where=f"{definition} of {rows['model_id'][at]}",
            got=float(star[at]),
            allowed=f"1 to {L[at]:g}, layers counted from 1",
        )
    labs = rows["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError("no other lab to predict", where="heritage", got=labs.unique()[0], allowed="2 labs or more")
    shape = tuple(f"log_{name}" for name in SHAPE if np.ptp(rows[name]))
    line = _on_logit(shape)
    logs = rows.assign(log_n_layers=np.log(L), log_n_heads=np.log(H), place=0.0, rounding=0.0)
    with np.errstate(divide="ignore"):
        lower, upper = logit(np.maximum(star - 1, 0) / L), logit(np.minimum(star, L) / L)
    place, rounding = between(line, logs, lower, upper, seed=L.size)
    return Placed(
        rows=logs.assign(place=place, rounding=rounding),
        line=line,
        sources=sources,
        warnings=(*warnings, *_warnings(L, H, star, labs)),
    )


@fits
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
    """logit p_i = a + b z(log L_i) + c z(log H_i) + u_lab + ε_i, L* = ⌈p L⌉: p lies between (L* − 1)/L and L*/L.

    In the first and the last layer one of these bounds is infinite on the logit (`between`).

    `table`: rows of `features` with the column `L_star_<definition>` (1-based; `<definition>_<trace variant>` where
    there is one), or your own, whose columns `outcome` (L*), `model`, `lab`, `depth` and `heads` name; of several rows
    of a model the mean is taken. L* is no gain, so models whose gains are near 1 by construction count too. On the
    logit no prediction leaves the network. Next to it, each fitted without the lab that is predicted: the polynomial L*
    = L (a + b L + c/H) and the mean fraction, and without any fit L/2 and the `published` formula, the polynomial with
    these a, b, c. Quantities: depth (p of a network of middling shape), new_network (of a new network of a new lab),
    slopes, lab_sd, residual_sd. Tables: `models` (L* and every prediction from other labs with the logit model's
    interval), `errors` (`error_of_depth` = mean |predicted − L*|/L, `mape` relative to L*, `better_than_half`: the
    error of L/2 minus the rule's, with paired t interval, share of predictions and of intervals inside the network,
    coverage and width of the intervals), `errors_within_labs` (the same of networks whose lab has others, each
    predicted from all others, so that its lab is known), `polynomial` (its terms).

    Networks without an L* are left out with a warning. Raises UsageError for fewer than 4 models, fewer than 2 labs, a
    layer outside 1 to L, missing depth, heads or lab, a model with two of one of these.
    """
    unprefixed = not outcome and definition in table and f"L_star_{definition}" not in table
    column = outcome or (definition if unprefixed else f"L_star_{definition}")
    _check_definition(table, column)
    if published is not None and len(published) != len("abc"):
        raise UsageError("a published formula has three terms", got=published, allowed="a, b, c of L (a + b L + c/H)")
    columns = gain_columns("fit_transition", column, model=model, lab=lab, depth=depth, heads=heads)
    placed = transition_rows(columns.read(table), outcome or definition, column=column, source=source)
    slopes = tuple(name.removeprefix("log_") for name in placed.line.covariates)
    statements: dict[str, Statement] = {"behind the middle": lambda q: q["depth"] > 0.5}
    statements["L* of a network like these lies behind the middle"] = lambda q: q["new_network"] > 0.5
    if "n_layers" in slopes:
        statements["deeper networks turn relatively later"] = lambda q: q["slope_n_layers"] > 0
    if "n_heads" in slopes:
        statements["more heads turn relatively earlier"] = lambda q: q["slope_n_heads"] < 0
    law = Law(
        name="transition",
        of=placed.line.of,
        quantities=partial(_quantities, slopes),
        statements=statements,
        statistics=partial(_statistics, placed.rows),
        equations=_equations(slopes, published),
        priors=tuple(PRIORS[name] for name in ("a", *slopes, "τ", "σ")),
        tables={
            "errors": partial(rules.across_labs, placed.line, published),
            "errors_within_labs": partial(rules.within_labs, placed.line, published),
            "models": partial(rules.predictions, placed.line, published),
            "polynomial": partial(rules.terms, published),
        },
        figures={"fit": _figure},
    )
    return law_fitted(
        line_law(law, placed.line),
        placed.rows,
        seed=seed,
        estimand=outcome or definition,
        sources=placed.sources,
        warnings=placed.warnings,
        reads=partial(_of_new, columns),
    )


DEPTH = OutcomeScale(word="logit", back=expit, outcome="share_of_depth")
"""L*, in the middle of its layer, as a share of the depth."""


def _on_logit(shape: tuple[str, ...]) -> Line:
    sd = (CENTRE_SD, *[SLOPE_SD] * len(shape))
    return Line(outcome="place", covariates=shape, sd=sd, sigma=SPREAD, tau=SPREAD, error="rounding", scale=DEPTH)


def _quantities(slopes: Sequence[str], values: Mapping[str, Array], design: LineDesign) -> dict[str, Array]:
    beta, scales = values["beta"], values["scale"]
    rng = np.random.default_rng(beta.size)
    spread = np.sqrt(np.square(scales).sum(axis=-1))
    new = expit(beta[..., 0] + spread * rng.standard_normal(spread.shape))
    by_shape = {f"slope_{name}": beta[..., i] for i, name in enumerate(slopes, 1)}
    spreads = {"lab_sd": scales[..., 0]} if scales.shape[-1] > 1 else {}
    return {"depth": expit(beta[..., 0]), **by_shape, **spreads, "residual_sd": scales[..., -1], "new_network": new}


def _equations(slopes: Sequence[str], published: Formula | None) -> tuple[str, ...]:
    logs = {"n_layers": "log Lᵢ", "n_heads": "log Hᵢ"}
    terms = "".join(f" + {SHAPE[name]} z({logs[name]})" for name in slopes)
    stated = ";  published: " + ", ".join(f"{n} = {v:g}" for n, v in zip("abc", published or (), strict=False))
    return (
        f"logit((L*ᵢ − ½)/Lᵢ) = a{terms} + u_lab(i) + εᵢ",
        "u_lab ~ N(0, τ²),  εᵢ ~ N(0, σ² + rᵢ²),  rᵢ the rounding of L*ᵢ to whole layers on the logit",
        f"fitted polynomial: L*ᵢ/Lᵢ = a + b Lᵢ + c/Hᵢ + εᵢ{stated if published else ''}",
    )


def _of_new(columns: Columns, new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict, with the logs of depth and heads."""
    rows = columns.of_new(new)
    return rows.assign(**{f"log_{n}": np.log(numbers(rows[n], n, least=1, positive=True)) for n in SHAPE})


def _check_definition(table: pd.DataFrame, column: str) -> None:
    """UsageError for a definition that rows of `features` do not have."""
    defined = [str(name) for name in table if str(name).startswith("L_star_") and not str(name).endswith("_sd")]
    if column not in table and defined:
        definitions = [name.removeprefix("L_star_") for name in defined]
        raise unknown("no such definition of L*", column.removeprefix("L_star_"), definitions)


def _rows(
    table: pd.DataFrame, column: str, source: str | Sequence[str] | None
) -> tuple[pd.DataFrame, tuple[str, ...], list[str]]:
    """One row per network, the files they are from, and what was left out or put together."""
    columns_of(table, "model_id", "heritage", "source", "n_layers", "n_heads", column)
    table = table.reset_index(drop=True)
    chosen = table
    if source is not None:
        chosen = table[table["source"].isin([source] if isinstance(source, str) else list(source))]
    rows = chosen[chosen[column].notna()]
    if not pd.api.types.is_numeric_dtype(rows[column]):
        rows = rows.assign(**{column: numbers(rows[column], column, least=1)})
    warnings = models_missing(chosen["model_id"], rows["model_id"], "no L* of this definition")
    units_once(rows, ())
    models = rows.groupby("model_id")
    facts = models[["heritage", "n_layers", "n_heads"]]
    if (differ := facts.nunique().gt(1).any(axis=1)).any():
        raise UsageError(
            "a model has two labs or two geometries", got=named(differ.index[differ]), allowed="one of each"
        )
    if twice := models.size().loc[lambda n: n > 1].index.tolist():
        warnings.append("several rows, so their mean is used: " + named(twice))
    networks = facts.first().assign(L_star=models[column].mean().astype("float64")).reset_index()
    if len(networks):
        labels(networks["heritage"], "heritage")
    return networks, tuple(sorted(set(rows["source"]) - {""})), warnings


def _warnings(L: Array, H: Array, star: Array, labs: pd.Series) -> tuple[str, ...]:
    edge, same_place = int(((star == 1) | (star == L)).sum()), is_constant(star / L)
    rank = np.linalg.matrix_rank(np.column_stack([np.ones(L.size), L, 1 / H]))
    r = float(np.corrcoef(np.log(L), np.log(H))[0, 1]) if np.ptp(L) and np.ptp(H) else 0.0
    small = L.size < 12 or labs.nunique() < 4
    words = {
        f"L* is the first or the last layer of {edge} networks: there the logit is known on one side only": edge,
        "L*/L is the same in every network: its spread is known up to the rounding of L* and its prior": same_place,
        f"L* is {star[0]:g} in every network: L*/L varies with the depth alone": is_constant(star) and not same_place,
        "one network of every lab: labs cannot be separated from networks, so their prior decides": labs.is_unique,
        f"the three terms of the polynomial have rank {rank} in these networks: their priors decide between them": (
            rank < 3
        ),
        "L is the same in every network: no slope": not np.ptp(L),
        "H is the same in every network: no slope": not np.ptp(H),
        f"log L and log H are correlated (r = {r:.2f}): their slopes cannot be separated": abs(r) > 0.95,
        f"{L.size} networks of {labs.nunique()} labs: intervals of other labs are wide and rest on the priors": small,
    }
    return tuple(line for line, holds in words.items() if holds)


def _statistics(rows: pd.DataFrame, design: LineDesign) -> Mapping[str, Statistic]:
    L = rows.loc[list(design.outcomes), "n_layers"].to_numpy(dtype=np.float64)
    deep = np.median(L) <= L
    if not deep.any() or deep.all():
        return LOCATION
    return {**LOCATION, "deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1)}


def _figure(fit: Fit, axes: Axes) -> Axes:
    table = fit.table("models").sort_values("n_layers", ignore_index=True)
    rows, L = np.arange(len(table)), table["n_layers"].astype("float64")
    axes.hlines(rows, table["logit_lower"] / L, table["logit_upper"] / L, alpha=0.4, linewidth=4)
    axes.plot(table["logit"] / L, rows, "|", label="predicted from other labs")
    if "published formula" in table:
        axes.plot(table["published formula"] / L, rows, "x", label="published formula")
    axes.plot(table["L_star"] / L, rows, "o", label="L*")
    axes.axvline(0.5, linewidth=0.8, linestyle="--")
    axes.set_yticks(rows, [str(name) for name in table["model_id"]])
    axes.set_xlabel("L* / L")
    axes.legend(**ABOVE)
    return axes
