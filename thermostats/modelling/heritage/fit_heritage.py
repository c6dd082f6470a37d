"""Labs: their models at hand, their population of models, their next model; spreads of the
superpopulation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.errors import UsageError, build_unknown_error, make_list
from thermostats.modelling.columns import (
    Columns,
    check_columns,
    check_distinct_units,
    keep_comparable,
    list_names,
    read_numbers,
    suggest_numbers,
)
from thermostats.modelling.draws import SEED, Array, Settings, read_only, summarise_quantities
from thermostats.modelling.fit import Fit, Law, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.heritage import variance_shares
from thermostats.modelling.heritage.divisions import is_divided, tabulate_divisions, warn_determined
from thermostats.modelling.heritage.given_priors import describe_given, give_priors, vary_given
from thermostats.modelling.heritage.law import (
    FAMILY,
    LAB,
    LINEAGE,
    MODERATED,
    NORMAL,
    OWN,
    POPULATION_MEAN,
    RESIDUALS,
    TOTAL_SD,
    GroupBlock,
    build_lab_means,
    build_scaled_map,
    build_statistics,
    check_distinct_columns,
    compute_bayes_factor,
    compute_contributions,
    compute_quantities,
    declare_groups,
    declare_heritage,
    describe_numbers,
    is_exact,
    is_logged,
    list_groups,
    list_orders,
    list_questions,
    list_shares,
    log_gains,
    mark_ordered,
    name_groups,
    name_lab,
    read_logs,
    vary_heritage,
)
from thermostats.modelling.leave_out import leave_folds_out
from thermostats.modelling.mixed_model import Mixed, MixedDesign, state_law
from thermostats.modelling.model_gains import (
    GEOMETRY,
    SCALE,
    add_moderated_errors,
    read_model_gains,
    read_remarks,
)
from thermostats.next_steps import Code, call, get_argument, repeat_call, write_value
from thermostats.plots import posterior
from thermostats.plots.general import draw_forest
from thermostats.tables.schemas import GAINS
from thermostats.tables.validation import NUMBER

FEW_GROUPS = 8
"""With fewer a superpopulation's standard deviation mostly repeats its prior."""
SCALES = {"half the prior scale": 0.5, "double the prior scale": 2.0}


def list_labs(fit: Fit) -> pd.DataFrame:
    """Per lab: its effect, partially pooled, and three probabilities that it dampens.

    `probability_dampens`: of P(mean log gain of its models at hand < 0); `population_dampens`: of
    the mean of all models that the lab could make, with the geometry and scale of those at hand;
    `next_dampens`: of one new model, of a new family where families are in the model, with the
    geometry and scale of one of those at hand.
    """
    values = fit.draws.values
    design = fit.designed(MixedDesign)
    lab = name_lab(design.mixed)
    means = build_lab_means(design)
    effect = compute_contributions(values, design)[lab] @ means
    mean = log_gains(values, design) @ means
    labs = design.effects[f"u_{lab}"]
    centre, spread = _simulate_new_models(fit)
    below = stats.norm.cdf(0.0, centre, spread[..., None])
    exact = ["effect"] if fit.draws.exact else []
    table = summarise_quantities({"effect": effect}, level=fit.level, exact=exact).drop(
        columns="quantity"
    )
    table.insert(0, "heritage", list(labs.names))
    table.insert(1, "n_models", np.bincount(labs.codes))
    dampens = mean < 0
    population_dampens = centre @ means < 0
    return table.assign(
        mean_log_gain=mean.mean(axis=(0, 1)),
        probability_dampens=dampens.mean(axis=(0, 1)),
        population_dampens=population_dampens.mean(axis=(0, 1)),
        next_dampens=below.mean(axis=(0, 1)) @ means,
    )


def _simulate_new_models(fit: Fit) -> tuple[Array, Array]:
    """Mean log gain (chain × draw × M) and its SD (chain × draw) of new models like those at hand,
    of new families."""
    values = fit.draws.values
    design = fit.designed(MixedDesign)
    parts = compute_contributions(values, design)
    variance = np.square(values["scale"][..., -1])
    centre = values["beta"] + sum(
        part for name, part in parts.items() if name not in (FAMILY, "model")
    )
    if FAMILY in parts:
        scale = values["scale"][..., list(parts).index(FAMILY)]
        shares = list_shares(design, FAMILY).to_numpy()
        unit = 1 / np.sqrt(
            1 - np.square(shares).sum()
        )  # what a family's effect of 1 adds to its models
        centre = centre - unit * (values[f"u_{FAMILY}"][..., : shares.size] @ shares)[..., None]
        variance = variance + np.square(scale * unit)
    return centre, np.sqrt(variance)


def summarise_superpopulation(fit: Fit) -> pd.DataFrame:
    """Standard deviation τ√φ of all labs (and families) there could be: block, groups, prior,
    median, lower, upper.

    With fewer than `FEW_GROUPS` groups also under half and double the prior scale of τ, by refits;
    no rule reads it.
    """
    design = fit.designed(MixedDesign)
    groups = {}
    for name in list_groups(design.mixed):
        groups[name] = len(list_shares(design, name))
    fits = {"as fitted": fit}
    blocks = list(design.effects)
    if min(groups.values()) < FEW_GROUPS:
        for name, factor in SCALES.items():
            fits[name] = fit.refit_law(
                replace(fit.law, of=design.mixed.scale_priors(factor).design_rows)
            )
    rows = []
    for block, n in groups.items():
        for prior, other_fit in fits.items():
            if prior == "as fitted" or n < FEW_GROUPS:
                sd = other_fit.draws["scale"][..., blocks.index(f"u_{block}")]
                row = summarise_quantities({"sd": sd}, level=fit.level, exact=["sd"])[
                    ["median", "lower", "upper"]
                ].iloc[0]
                rows.append({"block": block, "groups": n, "prior": prior, **row.to_dict()})
    return pd.DataFrame(rows)


WAYS = ("model", "heritage")


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Predictions of the log gain of models from fits that have not seen them."""

    left_out: str
    """`model` or `heritage`."""
    predictions: pd.DataFrame
    """Per model: observed, predicted, lower, upper, covered; baseline, the mean of all models left;
    lab_mean, that of the other models of its lab; and rival, predicted without the blocks in
    question."""
    rmse: float
    rmse_baseline: float
    rmse_lab_mean: float
    """NaN where labs are left out."""
    rmse_rival: float
    coverage: float
    """Share of models inside their prediction interval of the session's level."""
    elpd: float
    """Sum of the log predictive densities of what was left out, the models of a lab jointly."""
    elpd_difference: float
    """That minus the rival's: above 0, the blocks in question help."""
    elpd_difference_error: float
    """Its standard error over what was left out."""

    def table(self) -> pd.DataFrame:
        """One row of the figures."""
        return pd.DataFrame(
            [{name: value for name, value in vars(self).items() if name != "predictions"}]
        )


def score_left_out(fit: Fit) -> pd.DataFrame:
    """A row of figures for models, and one for labs."""
    return pd.concat([leave_one_out(fit, by=by).table() for by in WAYS], ignore_index=True)


def leave_one_out(fit: Fit, *, by: str) -> HeldOut:
    """Predict each model of labs of two or more (`by="model"`) or each lab (`by="heritage"`) from
    all others.

    Raises UsageError for another `by`, for fits without labs, and for residuals or lab effects that
    are not normal.
    """
    if by not in WAYS:
        raise build_unknown_error("nothing to leave out", by, WAYS)
    mixed = fit.designed(MixedDesign).mixed
    groups = list_groups(mixed)
    lab = name_lab(mixed)
    if not lab or not isinstance(fit.model, Gaussian):
        df = groups[lab].df if lab else 0.0
        raise UsageError(
            "models and labs are left out of fits with labs and normal residuals alone",
            got=f"blocks {', '.join(kind.name for kind in mixed.kinds)}; residuals "
            f"{mixed.rest.shape}, lab_df {df:g}",
            next_step='residuals="normal", lab_df=0',
        )
    labs = name_groups(fit.rows, groups[lab].columns)
    folds = labs if by == "heritage" else fit.rows["model_id"].astype(str)
    chosen = labs.duplicated(keep=False).to_numpy() | (by == "heritage")
    out = []
    for kind in mixed.kinds:
        if (kind.name in groups) == (by == "model"):
            out.append(kind.block)
    rival = fit.refit_law(replace(fit.law, of=mixed.drop_kinds(*out).design_rows))
    left, other = (
        leave_folds_out(f.model, f.draws, folds.tolist(), seed=fit.seed)
        for f in (fit, rival)
        if isinstance(f.model, Gaussian)
    )
    lower, upper = left.interval(fit.level)
    y = pd.Series(fit.model.y, index=fit.rows.index)
    together = pd.Series("all", index=y.index)
    every = pd.DataFrame(
        {
            "model_id": fit.rows["model_id"],
            "heritage": labs,
            "observed": y,
            "predicted": left.draws.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "covered": (lower <= y) & (y <= upper),
            "baseline": _take_mean_of_others(y, folds, together),
            "lab_mean": _take_mean_of_others(y, folds, labs),
            "rival": other.draws.mean(axis=0),
        }
    )
    predictions = every[chosen].reset_index(drop=True)
    scored = list(dict.fromkeys(folds[chosen]))
    gained = np.array([left.log_density[fold] - other.log_density[fold] for fold in scored])
    return HeldOut(
        left_out=by,
        predictions=predictions,
        rmse=_measure_rmse(predictions, "predicted"),
        rmse_baseline=_measure_rmse(predictions, "baseline"),
        rmse_lab_mean=_measure_rmse(predictions, "lab_mean"),
        rmse_rival=_measure_rmse(predictions, "rival"),
        coverage=float(predictions["covered"].mean()),
        elpd=float(sum(left.log_density[fold] for fold in scored)),
        elpd_difference=float(gained.sum()),
        elpd_difference_error=float(gained.size**0.5 * gained.std(ddof=1)),
    )


def _take_mean_of_others(y: pd.Series, folds: pd.Series, groups: pd.Series) -> pd.Series:
    """Mean of every row's group without its fold; NaN where none is left."""
    sums, sizes = (y.groupby(groups).transform(how) for how in ("sum", "size"))
    both = [groups, folds]
    own_sums, own_sizes = (y.groupby(both).transform(how) for how in ("sum", "size"))
    return (sums - own_sums) / (sizes - own_sizes).where(sizes > own_sizes)


def _measure_rmse(table: pd.DataFrame, column: str) -> float:
    """NaN where any prediction is missing."""
    return float(np.sqrt((table["observed"] - table[column]).pow(2).mean(skipna=False)))


LEAST = 4
SMALL_STUDY = 10
LEVEL = 0.95
NO_FAMILIES = "families are not stated, so each model is its own: they have no share"


def warn_undetermined(
    rows: pd.DataFrame, heritage: Mixed, without_labs: str, look: str
) -> list[str]:
    """What the rows cannot say, in words; UsageError where they say nothing of a block.

    without_labs: the call that asks nothing of labs; look: one that shows rows which are too few
    for any fit.
    """
    if len(rows) < LEAST:
        step = f"add models, your own or from thermostats.features; of these alone: {look}"
        got = f"{len(rows)}, {describe_rows(rows)}"
        raise UsageError(
            "too few models for shares", got=got, allowed=f"{LEAST} or more", next_step=step
        )
    warnings = list[str]()
    used = 1
    for kind in heritage.kinds:
        name = kind.name
        if name == FAMILY:
            continue
        if isinstance(kind, GroupBlock):
            sizes = name_groups(rows, kind.columns).value_counts()
            warnings += _check_groups(name, sizes, without_labs, describe_rows(rows))
            used += len(sizes) - 1
            continue
        columns = kind.covariates
        x = rows[list(columns)].to_numpy(np.float64)
        constant = np.ptp(x, axis=0) <= 1e-12 * np.abs(x).max()
        if constant.all():
            without: dict[str, Any] = {name: []} if name in ("geometry", "scale") else {}
            raise UsageError(
                "a block without variation",
                where=name,
                got=f"{', '.join(columns)} constant",
                allowed="one column that varies",
                next_step=repeat_call(**without) if without else "",
            )
        left = [column for column, same in zip(columns, constant, strict=True) if same]
        warnings += [f"{column} is the same in all models and left out" for column in left]
        rank = build_scaled_map(read_logs(rows, columns, logs=is_logged(heritage))).shape[1]
        if rank < len(columns) - len(left):
            warnings.append(f"{name} has rank {rank} of {len(columns) - len(left)} columns")
        used += rank
    if len(rows) < SMALL_STUDY:
        warnings.append(f"{len(rows)} models: shares stay close to their prior")
    groups = list_groups(heritage)
    if name_lab(heritage) == LAB:
        warnings += _check_families(rows) if FAMILY in groups else [NO_FAMILIES]
    if used >= len(rows):
        warnings.append(
            f"{len(rows)} models for {used} effects: the shares depend strongly on the prior"
        )
    return warnings


def describe_rows(rows: pd.DataFrame) -> str:
    """The geometric mean of the gains with its t interval, models as units, and their range; one
    gain as it is."""
    logs = rows["log_gain"].to_numpy(np.float64)
    mean = float(np.exp(logs.mean()))
    n = len(logs)
    if n < 2:
        return f"whose gain is {mean:.3g}"
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * logs.std(ddof=1) / np.sqrt(n))
    low = mean * np.exp(-half)
    high = mean * np.exp(half)
    return (
        f"whose geometric mean gain is {mean:.3g}, {LEVEL:.0%} interval {low:.3g} to {high:.3g}, "
        f"and whose gains go from {np.exp(logs.min()):.3g} to {np.exp(logs.max()):.3g}"
    )


def _check_groups(name: str, sizes: pd.Series, step: str, say: str) -> list[str]:
    """Refuse groups that cannot be separated from the mean or from the residual."""
    if len(sizes) < 2:
        single = "one lab: its effect" if name == LAB else f"one {name}: its effect"
        got = f"{sizes.index[0]} with {int(sizes.sum())} models, {say}"
        raise UsageError(
            f"{single} cannot be separated from the mean",
            got=got,
            allowed="2 or more",
            next_step=step,
        )
    if sizes.max() == 1:
        what = "lab" if name == LAB else name
        raise UsageError(
            f"every {what} has one model: {name} cannot be separated from the residual between "
            f"models",
            got=f"{len(sizes)} {what}s, {say}",
            allowed="two models or more in at least one",
            next_step=step,
        )
    if (sizes > 1).sum() < 2:
        return [
            f"only one {'lab' if name == LAB else name} has two models or more: {name} rests on "
            f"the spread within it"
        ]
    return []


def _check_families(rows: pd.DataFrame) -> list[str]:
    warnings = list[str]()
    family = name_groups(rows, (LAB, "family"))
    if (lacking := rows["family"].isna()).any():
        warnings.append(
            "treated as a separate family, since none is stated: "
            + list_names(rows.loc[lacking, "model_id"])
        )
    if family.groupby(rows[LAB]).nunique().max() < 2:
        warnings.append(
            "no lab has two families: effects of lab and family cannot be separated and are "
            "divided by the prior; "
            "their sum, the lineage, can be estimated"
        )
    if family.value_counts().max() < 2:
        warnings.append("no family has two models: effects of family and model cannot be separated")
    return warnings


MOST_ORDERED = 5
"""Blocks of which every order is listed; 5 have 120 orders."""
PRIOR_DRAWS, PRIOR_NUMBERS = 20_000, 2_000_000
"""Draws for prior probabilities, and draws times models at most: of very many models fewer
draws."""


def describe_blocks(heritage: Mixed, *, stated: bool) -> tuple[str, ...]:
    """What the symbols of the model stand for; `stated`: errors are those of the table."""
    errors = (
        "as stated, by the delta method"
        if stated
        else "standard error from n_i prompts, spreads moderated"
    )
    lines = []
    names = [kind.name for kind in heritage.kinds]
    for kind in heritage.kinds:
        if isinstance(kind, GroupBlock):
            group = kind.columns[-1] if kind.columns != (LAB,) else "lab"
            lines.append(f"{kind.name}: X u = c·(u_{group}(i) − mean over models)")
        else:
            lines.append(describe_numbers(kind, logs=is_logged(heritage)))
    orders = list_orders(names)
    order = f"; order: {orders[-1]}" if orders else ""
    lineage = (f"{LINEAGE}: f_{name_lab(heritage)} + f_{FAMILY}",) if FAMILY in names else ()
    return (
        f"e_i ~ N(0, se_i²), se_i²: {errors}   (model i)",
        "; ".join(lines),
        f"f_i,{OWN} ~ {RESIDUALS[heritage.rest.shape]}",
        f"estimands: S_b = SD over the M models of f_b (finite population){order}",
        *lineage,
    )


@lru_cache(maxsize=1)
def draw_prior_quantities(design: MixedDesign, seed: int) -> dict[str, Array]:
    """Quantities under the prior alone, simulated for the models of a fit, once for its tables."""
    size = min(PRIOR_DRAWS, PRIOR_NUMBERS // len(design.fitted))
    before = design.model.draw_prior(size, np.random.default_rng(seed))
    values = {name: drawn[None] for name, drawn in before.items()}
    return read_only(compute_quantities(values, design))


def summarise_every_order(fit: Fit) -> pd.DataFrame:
    """Per order that the blocks can come in, families and the single model apart: its posterior
    and its prior probability, by simulation; they add up to 1."""
    names = []
    for kind in fit.designed(MixedDesign).mixed.kinds:
        if kind.name != FAMILY:
            names.append(kind.name)
    prior = draw_prior_quantities(fit.designed(MixedDesign), fit.seed)
    rows = []
    for blocks in permutations(names):
        order = " > ".join(blocks)
        after = float(mark_ordered(order, fit.quantities).mean())
        rows.append((order, after, float(mark_ordered(order, prior).mean())))
    return pd.DataFrame(rows, columns=["statement", "probability", "prior"])


def summarise_orders(fit: Fit) -> pd.DataFrame:
    """Per order of blocks: posterior and prior probability (by simulation), and the Bayes factor of
    the restriction; where geometry gives the size also the lowest and highest over divisions."""
    prior = draw_prior_quantities(fit.designed(MixedDesign), fit.seed)
    rows = []
    for order, probability in fit.probabilities.items():
        expected = float(mark_ordered(order, prior).mean())
        rows.append((order, probability, expected, compute_bayes_factor(probability, expected)))
    table = pd.DataFrame(rows, columns=["statement", "probability", "prior", "bayes_factor"])
    if fit.ranges:
        ends = pd.DataFrame(fit.ranges, index=["lowest", "highest"]).T
        table = table.join(ends, on="statement")
    return table


def list_models(fit: Fit) -> pd.DataFrame:
    """Per model: log gain over prompts, and P(model dampens) = P(log gain < 0)."""
    m = log_gains(fit.draws.values, fit.designed(MixedDesign))
    table = summarise_quantities(
        {"m": m}, level=fit.level, exact=["m"] if fit.draws.exact else []
    ).drop(columns="quantity")
    design = fit.designed(MixedDesign)
    table.insert(0, "model_id", list(design.outcomes))
    if lab := name_lab(design.mixed):
        table.insert(
            1, "heritage", list(name_groups(fit.rows, list_groups(design.mixed)[lab].columns))
        )
    return table.assign(probability_dampens=(m < 0).mean(axis=(0, 1)))


def draw_blocks(fit: Fit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    blocks = [*(kind.name for kind in fit.designed(MixedDesign).mixed.kinds), OWN]
    rows = fit.summary().loc[[f"sd_{name}" for name in blocks]].reset_index()
    rows["quantity"] = ["residual between models" if name == OWN else name for name in blocks]
    draw_forest(rows, axes, label="quantity", estimate="median", null=0.0)
    axes.set_xlabel(f"standard deviation over models, log {fit.estimand.replace('_', ' ')}")
    return axes


SUMMED = ("total_amplification", "total_amplification_from_input")
SUMMED_TOTAL_SD = 2.0
"""For gains that multiply over all layers."""
CAREFUL = Settings(target_accept=0.98)
"""Settings of PyMC: shares near 0 need smaller steps."""


@record_call
def fit_heritage(
    table: pd.DataFrame,
    *,
    outcome: str = "",
    model: str = "model_id",
    lab: str | None = "heritage",
    geometry: str | Sequence[str] | None = None,
    scale: str | Sequence[str] | None = None,
    prompt: str = "prompt_id",
    se: str | float | None = None,
    estimand: str = "",
    seed: int = SEED,
    blocks: Mapping[str, Sequence[str]] | None = None,
    concentration: float = 1.0,
    residuals: str = NORMAL,
    lab_df: float = 0.0,
    priors: Mapping[str, Any] | None = None,
    settings: Settings = CAREFUL,
) -> Fit:
    """Share the variance of a gain among lab (heritage), geometry and scale.

        ȳ_i = α + Σ_b f_b,i + f_i,model + error_i, shares φ of τ² ~ Dirichlet(a, …, a)

    Models enter by their mean log gain ȳ_i with its standard error. Predicted are log gains. Models
    whose gains are near 1 by construction (`comparable` false) are left out with a warning.
    `family`, where known, is a block of its own within labs.

    Parameters
    ----------
    table : DataFrame
        One row per model, one per model and prompt, or averages with `gain_sd` (divisor n − 1) and
        `n_prompts`; as `gain_rows` gives it, or your own.
    outcome : str
        Column of the gain; by default `gain`, or the `estimand`.
    model, prompt : str
        Columns of the model's name and the prompt's.
    lab : str
        Column of the lab; None: no labs.
    geometry, scale : str or sequence of str
        Columns of shape and size, which enter as logs, in any unit. Without either those of
        `gain_rows` count, and where there are none the fit goes without and says so.
    se : str or float
        Known standard errors of the gain as given, a column or a number, of any n; by the delta
        method that of ȳ_i is se/gain.
    estimand : str
        Which gain it is; sets the prior scale of τ.
    seed : int
        Of the draws.
    blocks : mapping of str to columns
        Other blocks in the order that is asked about, of names (groups, the first of which stand
        for labs) or of numbers as they are.
    concentration : float
        The a of the prior of the shares.
    residuals : str
        `normal`, `student` or `skew`. Normal ones are drawn exactly, others by PyMC, which takes a
        minute.
    lab_df : float
        Above 2: Student-t lab effects.
    priors : mapping
        In the place of ours, frozen distributions of `scipy.stats` or numbers; `fit.priors` prints
        all. `intercept`: norm(mean, sd), or the sd of one about 0, of α. `total_sd`: halfnorm,
        halfcauchy, expon, gamma or lognorm, or the scale of a half-normal, of τ. `shares`: the
        concentration a of all, or {block: a_b}, `family` and `model` among them. The model's own SD
        is τ times the root of its share. `fit.sensitivity()` halves and doubles what was given.
    settings : Settings
        How to draw.

    Returns
    -------
    Fit
        Quantities: `sd_<block>` and `share_<block>` of every block and of the single `model`,
        total_sd (τ); population_mean_log_gain (of models that there could be: those at hand are a
        sample) and, not printed, models_mean_log_gain (of those at hand); with families sd_lineage
        and lineage_share, of lab and family together. Statements: heritage > geometry and scale,
        which is the lab above shape and size together; then orders of the blocks. Tables: orders,
        labs, models, superpopulation, left out (by exact refits, of normal residuals alone), and
        classical counterparts: classical, dominance, commonality.

    Raises
    ------
    UsageError
        For gains that are not positive and finite or all the same, missing geometry, a model in
        several rows that no prompt tells apart, a model with two labs, fewer than 4 models, one
        lab, one model in every lab, a block without variation, a prompt twice in one model, blocks
        of names and numbers together, errors that are missing, below 0 or not below their gains,
        priors out of range.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.gain_rows("penultimate_gain")
    >>> fit = thermostats.fit_heritage(rows, estimand="penultimate_gain")
    >>> fit.params[["share_heritage", "share_geometry", "share_scale"]].round(1)
    quantity
    share_heritage    0.2
    share_geometry    0.2
    share_scale       0.2
    Name: mean, dtype: float64
    """
    outcome = outcome or ("gain" if "gain" in table or estimand not in table else estimand)
    roles = {"geometry": geometry, "scale": scale}
    columns = {"model": model, "lab": lab, "prompt": prompt} | (
        {"se": se} if isinstance(se, str) else {}
    )
    request, gone = _read_request(table, outcome, columns, roles, blocks)
    estimand = estimand or outcome
    before = table
    per_cent = _ask_per_cent(request, before, se)
    table = request.read(table, optional=("prompt",))
    check_distinct_units(
        table,
        [model, prompt] if prompt in table and se is None else [model],
        _suggest_single_rows(outcome, table),
    )
    table, incomplete = _leave_incomplete_out(request, table)
    chosen = _collect_blocks(request) if blocks is None else _list_blocks(blocks)
    table = _read_sizes(table, chosen)
    check_distinct_columns(
        chosen, partial(_suggest_blocks, request, before, named=blocks is not None), outcome
    )
    heritage = _declare_heritage(
        table, estimand, chosen, blocks is None, concentration, residuals, lab_df
    )
    groups = list_groups(heritage)
    names = [column for kind in groups.values() for column in kind.columns]
    others = [column for kind in heritage.kinds for column in kind.covariates]
    models = read_model_gains(
        table,
        estimand,
        outcome=outcome,
        errors=add_moderated_errors,
        names=names,
        quantities=others,
        optional=["family"],
        positive=is_logged(heritage),
        se=se,
    )
    rows = models.table
    if "family" in rows and any(kind.columns == (LAB,) for kind in [*groups.values()][:1]):
        heritage = replace(
            heritage, kinds=(*heritage.kinds, declare_groups(FAMILY, (LAB, "family")))
        )
    undetermined = warn_undetermined(
        rows, heritage, _suggest_dropping_labs(request, before), _look(request)
    )
    read_numbers(rows["log_gain"], f"log {estimand}", varied=True)
    heritage = give_priors(heritage, priors)
    of_rows = (*read_remarks(before), *per_cent, *gone, *incomplete, *models.warnings)
    return build_fit(
        build_heritage_law(heritage, rows, stated=se is not None, priors=tuple(priors or ())),
        rows,
        seed=seed,
        settings=settings,
        estimand=models.estimand,
        sources=models.sources,
        warnings=(*warn_determined(rows, heritage), *of_rows, *undetermined),
        reads=request.read_new,
    )


def _read_request(
    table: pd.DataFrame,
    outcome: str,
    named: Mapping[str, str | None],
    blocks_of: Mapping[str, str | Sequence[str] | None],
    blocks: Mapping[str, Sequence[str]] | None,
) -> tuple[Columns, list[str]]:
    """What a call says of its columns, and which blocks the fit goes without since nothing names
    their columns."""
    standard = {"geometry": GEOMETRY, "scale": SCALE}
    gone = list[str]()
    numbers = (
        {name: make_list(columns, name) for name, columns in blocks_of.items()}
        if blocks is None
        else {}
    )
    unnamed = [name for name, columns in numbers.items() if columns is None]
    there = {named["model"], named["lab"]} - {None} <= set(table)
    for name in unnamed:
        numbers[name] = list(standard[name])
        if there and not set(standard[name]) & set(table):
            numbers[name] = []
            gone.append(
                f"no {name}: the table has no {', '.join(standard[name])}, and {name}=[…] names no "
                f"others"
            )
    labelled = {}
    for name, column in named.items():
        if name != "lab" or blocks is None or column in table:
            labelled[name] = column
    columns = {"outcome": outcome, **labelled, **numbers}
    in_blocks: list[str] = []
    for name, of_block in (blocks or {}).items():
        in_blocks += make_list(of_block, name) or ()
    further = tuple(dict.fromkeys(in_blocks))
    return Columns(call="fit_heritage", named=columns, further=further), gone


def _leave_incomplete_out(names: Columns, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rows without those of models with a gain that lack geometry or scale, and which these are.

    UsageError where a column is known of no model, with the call of what is there.
    """
    rows, _ = keep_comparable(table.dropna(subset=names.named["outcome"]))
    named = {}
    for name in ("geometry", "scale"):
        named[name] = list(names.named.get(name) or ())
    columns = [column for name in named for column in named[name]]
    if rows.empty:
        return table, []
    if unknown := [column for column in columns if rows[column].isna().all()]:
        full: dict[str, list[str]] = {}
        for name, in_block in named.items():
            if name in names.named:
                full[name] = [column for column in in_block if column not in unknown]
        raise UsageError(
            "missing geometry",
            where=", ".join(unknown),
            got="no value",
            allowed="a number above 0 for every model",
            next_step=replace(names, named={**names.named, **full}).fill_call(table, {}),
        )
    lacking = [column for column in columns if rows[column].isna().any()]
    gone = rows["model_id"][rows[lacking].isna().any(axis=1)].astype(str)
    if gone.empty:
        return table, []
    models = set(gone)
    count = f"{len(models)} of {rows['model_id'].nunique()} models"
    words = f"no {', '.join(lacking)}, left out: {count} ({list_names(models, 5)})"
    return table.drop(index=gone.index), [words]


PER_CENT = re.compile(r"\s*[-+]?[0-9.]+\s*%\s*")
LIKE_PER_CENT = (50.0, 200.0)
"""Between these lies the middle one of gains that may be in per cent."""


def _ask_per_cent(request: Columns, table: pd.DataFrame, se: str | float | None) -> list[str]:
    """That gains may be in per cent, with the call that converts them; UsageError where they are
    texts that say so."""
    outcome = str(request.named["outcome"])
    if outcome not in table or outcome in SUMMED:
        return []
    values = table[outcome].dropna()
    column = f"df[{write_value(outcome)}]"
    if pd.api.types.is_numeric_dtype(values):
        low, high = LIKE_PER_CENT
        if values.empty or not low <= float(values.median()) <= high:
            return []
        changed = {outcome: Code(f"{column} / 100")}
        if isinstance(se, str):
            changed[se] = Code(f"df[{write_value(se)}] / 100")
        step = _repeat_assigned(changed)
        return [f"the middle gain is {values.median():.4g}: in per cent? Then {step}"]
    if values.empty or not values.astype(str).map(PER_CENT.fullmatch).notna().all():
        return []
    numbers = Code(f'{column}.str.rstrip("% ").astype(float) / 100')
    raise UsageError(
        "gains are texts in per cent",
        where=outcome,
        got=repr(values.iloc[0]),
        allowed="numbers, 1 for a stream that keeps its norm",
        next_step=_repeat_assigned({outcome: numbers}),
    )


def _repeat_assigned(changed: Mapping[str, Code]) -> str:
    """The call with some columns of its table converted."""
    pairs = ", ".join(f"{write_value(name)}: {write_value(code)}" for name, code in changed.items())
    return repeat_call(Code(f"df.assign(**{{{pairs}}})"))


def _read_sizes(table: pd.DataFrame, blocks: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Geometry and scale as numbers, where a file has them as texts; UsageError where such a text
    is no number: it would be taken for a name."""
    columns = [*blocks.get("geometry", ()), *blocks.get("scale", ())]
    present = [c for c in columns if c in table]
    texts = []
    for c in present:
        if not pd.api.types.is_numeric_dtype(table[c]):
            texts.append(c)
    for column in texts:
        strange = []
        for v in table[column].dropna().unique():
            if not NUMBER.fullmatch(str(v)):
                strange.append(v)
        if strange:
            raise UsageError(
                "a size is no number, and would count as a name",
                where=column,
                got=repr(strange[0]),
                allowed="numbers, in any unit; names are a block of another name",
                next_step=suggest_numbers(column, table[column], "NUMBERS"),
            )
    return table.assign(**{column: table[column].astype(str).astype("float64") for column in texts})


def _suggest_dropping_labs(names: Columns, table: pd.DataFrame) -> str:
    """The call that asks nothing of labs: of geometry and scale, or without these of the mean."""
    if names.named.get("geometry") or names.named.get("scale"):
        return replace(names, named={**names.named, "lab": None}).fill_call(table, {})
    return (
        f'thermostats.fit_line(df, "{names.named["outcome"]}", model="{names.named["model"]}", '
        f"group=None)"
    )


def _look(names: Columns) -> str:
    """The call that shows gains by lab."""
    lab = names.named.get("lab")
    outcome = names.named["outcome"]
    return f'df.groupby("{lab}")["{outcome}"].describe()' if lab else f'df["{outcome}"].describe()'


def _collect_blocks(columns: Columns) -> dict[str, Sequence[str]]:
    """Labs, geometry and scale, as far as there are columns of them."""
    labs = {LAB: (LAB,)} if columns.named.get("lab") else {}
    return labs | {
        name: tuple(columns.named[name] or ())
        for name in ("geometry", "scale")
        if columns.named.get(name)
    }


def _list_blocks(blocks: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Blocks as they were asked for, a single column as a list of one."""
    blocks_by_name: dict[str, Sequence[str]] = {}
    for name, columns in blocks.items():
        blocks_by_name[str(name)] = make_list(columns, str(name)) or []
    return blocks_by_name


def _suggest_blocks(
    request: Columns, table: pd.DataFrame, blocks: Mapping[str, Sequence[str]], *, named: bool
) -> str:
    """The call with these blocks where they are `named`, else with geometry and scale."""
    if named:
        return f"thermostats.fit_heritage(df, blocks={dict(blocks)!r})"
    numbers = {}
    for name in ("geometry", "scale"):
        numbers[name] = list(blocks.get(name, ())) or None
    return replace(request, named={**request.named, **numbers}).fill_call(table, {})


def _suggest_single_rows(outcome: str, table: pd.DataFrame) -> str:
    """What to do about models in several rows: the package's own measurements have rows for it."""
    if "run_id" in table and outcome in GAINS:
        return f'thermostats.fit_heritage(thermostats.gain_rows("{outcome}"), estimand="{outcome}")'
    return ""


def build_heritage_law(
    heritage: Mixed, rows: pd.DataFrame, *, stated: bool, priors: Sequence[str] = ()
) -> Law:
    """The law of these blocks; of the rows, what its alternatives can leave out; `stated`: errors
    are the table's; `priors`: of what a call gives them."""
    names = [kind.name for kind in heritage.kinds]
    groups = list_groups(heritage)
    parts = (*names, OWN)
    lineage = (f"sd_{LINEAGE}", f"{LINEAGE}_share")
    joint = ("sd_geometry_and_scale", "sd_geometry_alone", "sd_scale_alone")
    of_labs = {"labs": list_labs, "superpopulation": summarise_superpopulation} if groups else {}
    causes = len(names) - (FAMILY in names)
    every_order = {"every order": summarise_every_order} if 2 < causes <= MOST_ORDERED else {}
    divisions = {"divisions": tabulate_divisions} if is_divided(rows, heritage) else {}
    left_out = {"left out": score_left_out} if groups and is_exact(heritage) else {}
    spreads = (f"sd_{name}" for name in parts)
    shares = (f"share_{name}" for name in parts)
    tables: dict[str, Callable[[Fit], pd.DataFrame]] = {
        "orders": summarise_orders,
        **every_order,
        **divisions,
        "models": list_models,
        **of_labs,
        **left_out,
        **variance_shares.TABLES,
    }
    figures: dict[str, Callable[[Fit, Axes], object]] = {
        "blocks": draw_blocks,
        "shares": lambda fit, axes: posterior.draw_variance_shares(
            fit.summary().reset_index(), axes
        ),
        "orders": lambda fit, axes: posterior.order_probability_bar(fit.table("orders"), axes),
    }
    if groups:
        figures["labs"] = lambda fit, axes: posterior.draw_lab_forest(fit.table("labs"), axes)
    labs = groups[name_lab(heritage)].columns if groups else ()
    law = Law(
        name="heritage",
        of=heritage.design_rows,
        quantities=compute_quantities,
        reported=(*spreads, *shares, *lineage, "total_sd", POPULATION_MEAN, *joint),
        statements={order: partial(mark_ordered, order) for order in list_questions(names)},
        statistics=build_statistics,
        equations=(*describe_blocks(heritage, stated=stated), *describe_given(heritage, priors)),
        priors=(("se_i", "known", "the table states them") if stated else MODERATED,),
        tables=tables,
        figures=figures,
        units=(*labs, "model_id"),
    )
    others = {**vary_given(heritage, priors), **vary_heritage(heritage, rows)}
    return state_law(law, heritage, others)


def _declare_heritage(
    table: pd.DataFrame,
    estimand: str,
    blocks: Mapping[str, Sequence[str]],
    logs: bool,
    concentration: float,
    residuals: str,
    lab_df: float,
) -> Mixed:
    """Blocks and priors as they were asked for."""
    if not (0 < concentration < math.inf and (lab_df == 0 or 2 < lab_df < math.inf)):
        raise UsageError(
            "priors out of range",
            got=f"concentration {concentration}, lab_df {lab_df}",
            allowed="concentration above 0; lab_df 0 or above 2",
        )
    if residuals not in RESIDUALS:
        raise build_unknown_error("no such law of the residuals", residuals, RESIDUALS)
    chosen = {name: tuple(columns) for name, columns in blocks.items()}
    if not chosen or not all(chosen.values()) or {FAMILY, OWN, LINEAGE} & set(chosen):
        outcome = get_argument("outcome") or "gain"
        mean_alone = call(
            "fit_line", Code("df"), outcome, model=get_argument("model"), group=get_argument("lab")
        )
        raise UsageError(
            "no such blocks",
            got=chosen or "none",
            allowed=f"one block or more, each of one column or more, none called {FAMILY}, {OWN} "
            f"or {LINEAGE}",
            next_step=mean_alone if not chosen else "",
        )
    check_columns(table, *(column for columns in chosen.values() for column in columns))
    groups = []
    for name, columns in chosen.items():
        texts = []
        for column in columns:
            texts.append(not pd.api.types.is_numeric_dtype(table[column]))
        if name == LAB or all(texts):
            groups.append(name)
        elif any(texts):
            raise UsageError(
                "a block of names and numbers",
                where=name,
                got=", ".join(columns),
                allowed="one kind",
            )
    return declare_heritage(
        chosen,
        groups,
        logs=logs,
        total_sd=SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD,
        concentration=concentration,
        lab_df=lab_df,
        residuals=residuals,
    )
