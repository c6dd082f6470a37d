"""Labs: their models at hand, their population of models, their next model; spreads of the
superpopulation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, permutations
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
    compute_indicator_sd,
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
    take_effects,
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
    sd = spread[..., None]
    below = stats.norm.cdf(0.0, centre, sd)
    exact = ["effect"] if fit.draws.exact else []
    summary = summarise_quantities({"effect": effect}, level=fit.level, exact=exact)
    table = summary.drop(columns="quantity")
    table.insert(0, "heritage", list(labs.names))
    table.insert(1, "n_models", np.bincount(labs.codes))
    dampens = mean < 0
    population_dampens = centre @ means < 0
    axes = (0, 1)
    return table.assign(
        mean_log_gain=mean.mean(axis=axes),
        probability_dampens=dampens.mean(axis=axes),
        population_dampens=population_dampens.mean(axis=axes),
        next_dampens=below.mean(axis=axes) @ means,
    )


def _simulate_new_models(fit: Fit) -> tuple[Array, Array]:
    """Mean log gain (chain × draw × M) and its SD (chain × draw) of new models like those at hand,
    of new families."""
    values = fit.draws.values
    design = fit.designed(MixedDesign)
    parts = compute_contributions(values, design)
    model_scale = values["scale"][..., -1]
    variance = np.square(model_scale)
    kept = [part for name, part in parts.items() if name not in (FAMILY, OWN)]
    centre = values["beta"] + sum(kept)
    if FAMILY in parts:
        place = list(parts).index(FAMILY)
        scale = values["scale"][..., place]
        shares = list_shares(design, FAMILY).to_numpy()
        unit = 1 / compute_indicator_sd(shares)  # what a family's effect of 1 adds to its models
        effects = take_effects(values, FAMILY, shares.size)
        family_mean = unit * (effects @ shares)
        centre = centre - family_mean[..., None]
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
            scaled = design.mixed.scale_priors(factor)
            law = replace(fit.law, of=scaled.design_rows)
            fits[name] = fit.refit_law(law)
    rows = []
    for block, n in groups.items():
        for prior, other_fit in fits.items():
            if prior == "as fitted" or n < FEW_GROUPS:
                place = blocks.index(f"u_{block}")
                sd = other_fit.draws["scale"][..., place]
                summary = summarise_quantities({"sd": sd}, level=fit.level, exact=["sd"])
                interval = summary[["median", "lower", "upper"]].iloc[0]
                row = {"block": block, "groups": n, "prior": prior}
                rows.append(row | interval.to_dict())
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
        figures = dict(vars(self))
        del figures["predictions"]
        return pd.DataFrame([figures])


def score_left_out(fit: Fit) -> pd.DataFrame:
    """A row of figures for models, and one for labs."""
    tables = [leave_one_out(fit, by=by).table() for by in WAYS]
    return pd.concat(tables, ignore_index=True)


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
        names = ", ".join(kind.name for kind in mixed.kinds)
        raise UsageError(
            "models and labs are left out of fits with labs and normal residuals alone",
            got=f"blocks {names}; residuals {mixed.rest.shape}, lab_df {df:g}",
            next_step='residuals="normal", lab_df=0',
        )
    labs = name_groups(fit.rows, groups[lab].columns)
    folds = labs if by == "heritage" else fit.rows["model_id"].astype(str)
    chosen = labs.duplicated(keep=False).to_numpy() | (by == "heritage")
    out = []
    for kind in mixed.kinds:
        if (kind.name in groups) == (by == "model"):
            out.append(kind.block)
    reduced = mixed.drop_kinds(*out)
    law = replace(fit.law, of=reduced.design_rows)
    rival = fit.refit_law(law)
    left, other = (
        leave_folds_out(f.model, f.draws, folds.tolist(), seed=fit.seed)
        for f in (fit, rival)
        if isinstance(f.model, Gaussian)
    )
    lower, upper = left.interval(fit.level)
    y = pd.Series(fit.model.y, index=fit.rows.index)
    together = pd.Series("all", index=y.index)
    columns = {
        "model_id": fit.rows["model_id"],
        "heritage": labs,
        "observed": y,
        "predicted": left.draws.mean(axis=0),
        "lower": lower,
        "upper": upper,
        "covered": y.between(lower, upper),
        "baseline": _take_mean_of_others(y, folds, together),
        "lab_mean": _take_mean_of_others(y, folds, labs),
        "rival": other.draws.mean(axis=0),
    }
    predictions = pd.DataFrame(columns)[chosen].reset_index(drop=True)
    scored = list(dict.fromkeys(folds[chosen]))
    densities = [left.log_density[fold] for fold in scored]
    gained = np.array(densities) - [other.log_density[fold] for fold in scored]
    error = gained.size**0.5 * gained.std(ddof=1)
    return HeldOut(
        left_out=by,
        predictions=predictions,
        rmse=_measure_rmse(predictions, "predicted"),
        rmse_baseline=_measure_rmse(predictions, "baseline"),
        rmse_lab_mean=_measure_rmse(predictions, "lab_mean"),
        rmse_rival=_measure_rmse(predictions, "rival"),
        coverage=float(predictions["covered"].mean()),
        elpd=float(sum(densities)),
        elpd_difference=float(gained.sum()),
        elpd_difference_error=float(error),
    )


def _take_mean_of_others(y: pd.Series, folds: pd.Series, groups: pd.Series) -> pd.Series:
    """Mean of every row's group without its fold; NaN where none is left."""
    by_group = y.groupby(groups)
    own = y.groupby([groups, folds])
    n_others = by_group.transform("size") - own.transform("size")
    sum_of_others = by_group.transform("sum") - own.transform("sum")
    return sum_of_others / n_others.where(n_others > 0)


def _measure_rmse(table: pd.DataFrame, column: str) -> float:
    """NaN where any prediction is missing."""
    off = table["observed"] - table[column]
    mean_square = off.pow(2).mean(skipna=False)
    return float(np.sqrt(mean_square))


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
        x = rows[list(columns)].to_numpy(float)
        rounding = 1e-12 * np.abs(x).max()
        constant = np.ptp(x, axis=0) <= rounding
        if constant.all():
            step = ""
            if name in ("geometry", "scale"):
                without: dict[str, Any] = {name: []}
                step = repeat_call(**without)
            raise UsageError(
                "a block without variation",
                where=name,
                got=f"{', '.join(columns)} constant",
                allowed="one column that varies",
                next_step=step,
            )
        left = [column for column, same in zip(columns, constant, strict=True) if same]
        warnings += [f"{column} is the same in all models and left out" for column in left]
        logs = read_logs(rows, columns, logs=is_logged(heritage))
        rank = build_scaled_map(logs).shape[1]
        n_columns = len(columns) - len(left)
        if rank < n_columns:
            warnings.append(f"{name} has rank {rank} of {n_columns} columns")
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
    logs = rows["log_gain"].to_numpy(float)
    mean = float(np.exp(logs.mean()))
    n = len(logs)
    if n < 2:
        return f"whose gain is {mean:.3g}"
    quantile = stats.t.ppf((1 + LEVEL) / 2, n - 1)
    half = float(quantile * logs.std(ddof=1) / np.sqrt(n))
    interval = f"{mean * np.exp(-half):.3g} to {mean * np.exp(half):.3g}"
    reach = f"{np.exp(logs.min()):.3g} to {np.exp(logs.max()):.3g}"
    return (
        f"whose geometric mean gain is {mean:.3g}, {LEVEL:.0%} interval {interval}, "
        f"and whose gains go from {reach}"
    )


def _check_groups(name: str, sizes: pd.Series, step: str, say: str) -> list[str]:
    """Refuse groups that cannot be separated from the mean or from the residual."""
    what = "lab" if name == LAB else name
    if len(sizes) < 2:
        raise UsageError(
            f"one {what}: its effect cannot be separated from the mean",
            got=f"{sizes.index[0]} with {int(sizes.sum())} models, {say}",
            allowed="2 or more",
            next_step=step,
        )
    if sizes.max() == 1:
        unseparated = f"{name} cannot be separated from the residual between models"
        raise UsageError(
            f"every {what} has one model: {unseparated}",
            got=f"{len(sizes)} {what}s, {say}",
            allowed="two models or more in at least one",
            next_step=step,
        )
    if (sizes > 1).sum() < 2:
        rests = f"{name} rests on the spread within it"
        return [f"only one {what} has two models or more: {rests}"]
    return []


def _check_families(rows: pd.DataFrame) -> list[str]:
    warnings = list[str]()
    family = name_groups(rows, (LAB, "family"))
    if (lacking := rows["family"].isna()).any():
        models = list_names(rows.loc[lacking, "model_id"])
        warnings.append(f"treated as a separate family, since none is stated: {models}")
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
            group = "lab" if kind.columns == (LAB,) else kind.columns[-1]
            lines.append(f"{kind.name}: X u = c·(u_{group}(i) − mean over models)")
        else:
            lines.append(describe_numbers(kind, logs=is_logged(heritage)))
    orders = list_orders(names)
    order = f"; order: {orders[-1]}" if orders else ""
    lineage = []
    if FAMILY in names:
        lineage.append(f"{LINEAGE}: f_{name_lab(heritage)} + f_{FAMILY}")
    residual = RESIDUALS[heritage.rest.shape]
    return (
        f"e_i ~ N(0, se_i²), se_i²: {errors}   (model i)",
        "; ".join(lines),
        f"f_i,{OWN} ~ {residual}",
        f"estimands: S_b = SD over the M models of f_b (finite population){order}",
        *lineage,
    )


@lru_cache(maxsize=1)
def draw_prior_quantities(design: MixedDesign, seed: int) -> dict[str, Array]:
    """Quantities under the prior alone, simulated for the models of a fit, once for its tables."""
    size = min(PRIOR_DRAWS, PRIOR_NUMBERS // len(design.fitted))
    rng = np.random.default_rng(seed)
    before = design.model.draw_prior(size, rng)
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
        before = float(mark_ordered(order, prior).mean())
        rows.append((order, after, before))
    return pd.DataFrame(rows, columns=["statement", "probability", "prior"])


def summarise_orders(fit: Fit) -> pd.DataFrame:
    """Per order of blocks: posterior and prior probability (by simulation), and the Bayes factor of
    the restriction; where geometry gives the size also the lowest and highest over divisions."""
    prior = draw_prior_quantities(fit.designed(MixedDesign), fit.seed)
    rows = []
    for order, probability in fit.probabilities.items():
        expected = float(mark_ordered(order, prior).mean())
        factor = compute_bayes_factor(probability, expected)
        rows.append((order, probability, expected, factor))
    table = pd.DataFrame(rows, columns=["statement", "probability", "prior", "bayes_factor"])
    if fit.ranges:
        ends = pd.DataFrame(fit.ranges, index=["lowest", "highest"]).T
        table = table.join(ends, on="statement")
    return table


def list_models(fit: Fit) -> pd.DataFrame:
    """Per model: log gain over prompts, and P(model dampens) = P(log gain < 0)."""
    design = fit.designed(MixedDesign)
    m = log_gains(fit.draws.values, design)
    exact = ["m"] if fit.draws.exact else []
    summary = summarise_quantities({"m": m}, level=fit.level, exact=exact)
    table = summary.drop(columns="quantity")
    table.insert(0, "model_id", list(design.outcomes))
    if lab := name_lab(design.mixed):
        labs = list_groups(design.mixed)[lab]
        names = name_groups(fit.rows, labs.columns)
        table.insert(1, "heritage", list(names))
    dampens = m < 0
    return table.assign(probability_dampens=dampens.mean(axis=(0, 1)))


def draw_blocks(fit: Fit, axes: Axes) -> Axes:
    """Finite-population standard deviations of the blocks with their intervals."""
    kinds = fit.designed(MixedDesign).mixed.kinds
    names = [kind.name for kind in kinds]
    spreads = [f"sd_{name}" for name in (*names, OWN)]
    rows = fit.summary().loc[spreads].reset_index()
    rows["quantity"] = [*names, "residual between models"]
    draw_forest(rows, axes, label="quantity", estimate="median", null=0.0)
    gain = fit.estimand.replace("_", " ")
    axes.set_xlabel(f"standard deviation over models, log {gain}")
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
    if not outcome:
        outcome = "gain" if "gain" in table or estimand not in table else estimand
    roles = {"geometry": geometry, "scale": scale}
    columns = {"model": model, "lab": lab, "prompt": prompt}
    if isinstance(se, str):
        columns["se"] = se
    request, gone = _read_request(table, outcome, columns, roles, blocks)
    estimand = estimand or outcome
    before = table
    per_cent = _ask_per_cent(request, before, se)
    table = request.read(table, optional=("prompt",))
    keys = [model]
    if prompt in table and se is None:
        keys.append(prompt)
    check_distinct_units(table, keys, _suggest_single_rows(outcome, table))
    table, incomplete = _leave_incomplete_out(request, table)
    chosen = _collect_blocks(request) if blocks is None else _list_blocks(blocks)
    table = _read_sizes(table, chosen)
    suggest_call = partial(_suggest_blocks, request, before, named=blocks is not None)
    check_distinct_columns(chosen, suggest_call, outcome)
    heritage = _declare_heritage(
        table, estimand, chosen, blocks is None, concentration, residuals, lab_df
    )
    groups = list_groups(heritage)
    names: list[str] = []
    for block in groups.values():
        names += block.columns
    others: list[str] = []
    for kind in heritage.kinds:
        others += kind.covariates
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
        families = declare_groups(FAMILY, (LAB, "family"))
        heritage = replace(heritage, kinds=(*heritage.kinds, families))
    without_labs = _suggest_dropping_labs(request, before)
    undetermined = warn_undetermined(rows, heritage, without_labs, _look(request))
    read_numbers(rows["log_gain"], f"log {estimand}", varied=True)
    heritage = give_priors(heritage, priors)
    warnings = (*warn_determined(rows, heritage), *read_remarks(before), *per_cent, *gone)
    warnings += (*incomplete, *models.warnings, *undetermined)
    given = tuple(priors or ())
    law = build_heritage_law(heritage, rows, stated=se is not None, priors=given)
    return build_fit(
        law,
        rows,
        seed=seed,
        settings=settings,
        estimand=models.estimand,
        sources=models.sources,
        warnings=warnings,
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
    numbers = {}
    if blocks is None:
        for name, of_block in blocks_of.items():
            numbers[name] = make_list(of_block, name)
    unnamed = [name for name, columns in numbers.items() if columns is None]
    there = {named["model"], named["lab"]} - {None} <= set(table)
    for name in unnamed:
        usual = standard[name]
        numbers[name] = list(usual)
        if there and not set(usual) & set(table):
            numbers[name] = []
            lacking = f"the table has no {', '.join(usual)}"
            gone.append(f"no {name}: {lacking}, and {name}=[…] names no others")
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
    with_gain = table.dropna(subset=names.named["outcome"])
    rows, _ = keep_comparable(with_gain)
    named = {}
    for name in ("geometry", "scale"):
        in_block = names.named.get(name) or ()
        named[name] = list(in_block)
    columns = list(chain(*named.values()))
    if rows.empty:
        return table, []
    if unknown := [column for column in columns if rows[column].isna().all()]:
        full = {}
        for name, in_block in named.items():
            if name in names.named:
                full[name] = [column for column in in_block if column not in unknown]
        known = replace(names, named={**names.named, **full})
        step = known.fill_call(table, {})
        raise UsageError(
            "missing geometry",
            where=", ".join(unknown),
            got="no value",
            allowed="a number above 0 for every model",
            next_step=step,
        )
    lacking = [column for column in columns if rows[column].isna().any()]
    incomplete = rows[lacking].isna().any(axis=1)
    gone = rows["model_id"][incomplete].astype(str)
    if gone.empty:
        return table, []
    models = set(gone)
    n_models = rows["model_id"].nunique()
    count = f"{len(models)} of {n_models} models"
    left_out = f"{count} ({list_names(models, 5)})"
    words = f"no {', '.join(lacking)}, left out: {left_out}"
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
    step = _repeat_assigned({outcome: numbers})
    raise UsageError(
        "gains are texts in per cent",
        where=outcome,
        got=repr(values.iloc[0]),
        allowed="numbers, 1 for a stream that keeps its norm",
        next_step=step,
    )


def _repeat_assigned(changed: Mapping[str, Code]) -> str:
    """The call with some columns of its table converted."""
    pairs = [f"{write_value(name)}: {write_value(code)}" for name, code in changed.items()]
    return repeat_call(Code(f"df.assign(**{{{', '.join(pairs)}}})"))


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
            step = suggest_numbers(column, table[column], "NUMBERS")
            raise UsageError(
                "a size is no number, and would count as a name",
                where=column,
                got=repr(strange[0]),
                allowed="numbers, in any unit; names are a block of another name",
                next_step=step,
            )
    return table.astype(dict.fromkeys(texts, str)).astype(dict.fromkeys(texts, "float64"))


def _suggest_dropping_labs(names: Columns, table: pd.DataFrame) -> str:
    """The call that asks nothing of labs: of geometry and scale, or without these of the mean."""
    if names.named.get("geometry") or names.named.get("scale"):
        without_labs = replace(names, named={**names.named, "lab": None})
        return without_labs.fill_call(table, {})
    return (
        f'thermostats.fit_line(df, "{names.named["outcome"]}", model="{names.named["model"]}", '
        f"group=None)"
    )


def _look(names: Columns) -> str:
    """The call that shows gains by lab."""
    lab = names.named.get("lab")
    outcome = names.named["outcome"]
    if lab:
        return f'df.groupby("{lab}")["{outcome}"].describe()'
    return f'df["{outcome}"].describe()'


def _collect_blocks(columns: Columns) -> dict[str, Sequence[str]]:
    """Labs, geometry and scale, as far as there are columns of them."""
    blocks: dict[str, Sequence[str]] = {}
    if columns.named.get("lab"):
        blocks[LAB] = (LAB,)
    for name in ("geometry", "scale"):
        if columns.named.get(name):
            in_block = columns.named[name] or ()
            blocks[name] = tuple(in_block)
    return blocks


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
        in_block = list(blocks.get(name, ()))
        numbers[name] = in_block or None
    asked = replace(request, named={**request.named, **numbers})
    return asked.fill_call(table, {})


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
    joint = ("sd_geometry_and_scale", "sd_geometry_alone", "sd_scale_alone")
    of_all = (f"sd_{LINEAGE}", f"{LINEAGE}_share", "total_sd", POPULATION_MEAN)
    spreads = (f"sd_{name}" for name in parts)
    shares = (f"share_{name}" for name in parts)
    labs = groups[name_lab(heritage)].columns if groups else ()
    statements = {}
    for order in list_questions(names):
        statements[order] = partial(mark_ordered, order)
    law = Law(
        name="heritage",
        of=heritage.design_rows,
        quantities=compute_quantities,
        reported=(*spreads, *shares, *of_all, *joint),
        statements=statements,
        statistics=build_statistics,
        equations=(*describe_blocks(heritage, stated=stated), *describe_given(heritage, priors)),
        priors=(("se_i", "known", "the table states them") if stated else MODERATED,),
        tables=_list_tables(heritage, rows),
        figures=_list_figures(heritage),
        units=(*labs, "model_id"),
    )
    others = vary_given(heritage, priors) | vary_heritage(heritage, rows)
    return state_law(law, heritage, others)


def _list_tables(heritage: Mixed, rows: pd.DataFrame) -> dict[str, Callable[[Fit], pd.DataFrame]]:
    """Tables that these blocks and rows have."""
    names = [kind.name for kind in heritage.kinds]
    groups = list_groups(heritage)
    tables: dict[str, Callable[[Fit], pd.DataFrame]] = {"orders": summarise_orders}
    if 2 < len(set(names) - {FAMILY}) <= MOST_ORDERED:
        tables["every order"] = summarise_every_order
    if is_divided(rows, heritage):
        tables["divisions"] = tabulate_divisions
    tables["models"] = list_models
    if groups:
        tables["labs"] = list_labs
        tables["superpopulation"] = summarise_superpopulation
    if groups and is_exact(heritage):
        tables["left out"] = score_left_out
    return tables | variance_shares.TABLES


def _list_figures(heritage: Mixed) -> dict[str, Callable[[Fit, Axes], object]]:
    figures: dict[str, Callable[[Fit, Axes], object]] = {
        "blocks": draw_blocks,
        "shares": lambda fit, axes: posterior.draw_variance_shares(
            fit.summary().reset_index(), axes
        ),
        "orders": lambda fit, axes: posterior.order_probability_bar(fit.table("orders"), axes),
    }
    if list_groups(heritage):
        figures["labs"] = lambda fit, axes: posterior.draw_lab_forest(fit.table("labs"), axes)
    return figures


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
        step = mean_alone if not chosen else ""
        raise UsageError(
            "no such blocks",
            got=chosen or "none",
            allowed=f"one block or more, each of one column or more, none called {FAMILY}, {OWN} "
            f"or {LINEAGE}",
            next_step=step,
        )
    check_columns(table, *chain(*chosen.values()))
    groups = []
    for name, columns in chosen.items():
        texts = []
        for column in columns:
            is_number = pd.api.types.is_numeric_dtype(table[column])
            texts.append(not is_number)
        if name == LAB or all(texts):
            groups.append(name)
        elif any(texts):
            raise UsageError(
                "a block of names and numbers",
                where=name,
                got=", ".join(columns),
                allowed="one kind",
            )
    total_sd = SUMMED_TOTAL_SD if estimand in SUMMED else TOTAL_SD
    return declare_heritage(
        chosen,
        groups,
        logs=logs,
        total_sd=total_sd,
        concentration=concentration,
        lab_df=lab_df,
        residuals=residuals,
    )
