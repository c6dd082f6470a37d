"""log gᵢ = a + b_w (xᵢ − x̄_lab) + b_b (x̄_lab − x̄) + u_lab + εᵢ, x = log ρ: does head density ρ =
H/d_h move the gain?

Sign and size within and between labs; and is there a threshold, log gᵢ = a + δ [ρᵢ > c] + u_lab +
εᵢ?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.columns import (
    Columns,
    build_gain_columns,
    drop_computed,
    is_constant,
    read_numbers,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.laws import LOG, Law, Prior
from thermostats.modelling.leave_out import build_model_and_lab_folds
from thermostats.modelling.lines import build_lab_statistics, compare, draw_points, vary_line
from thermostats.modelling.mixed_model import (
    LEVEL,
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    MixtureDesign,
    Rest,
    declare_law,
    look_along_line,
    name_draws,
)
from thermostats.modelling.model_gains import (
    ModelGains,
    Preference,
    fill_known_errors,
    read_model_gains,
)
from thermostats.plots.general import ABOVE, log_axis

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; both slopes (over one SD of log ρ), labs and the rest
share it, half each."""
SHARE = SCALE / 2
MOST_CUTS = 24
ERRORS = "s_i the standard error of log g_i over prompts"
SPREADS = ("residual_sd", "lab_sd")
SLOPES: dict[str, Statement] = {
    "within < 0": lambda q: q["within"] < 0,
    "between < 0": lambda q: q["between"] < 0,
    "both < 0": lambda q: (q["within"] < 0) & (q["between"] < 0),
}
STEPS: dict[str, Statement] = {
    "gain falls at the step": lambda q: q["step"] < 0,
    "expands below and dampens above": lambda q: (q["below"] > 0) & (q["above"] < 0),
}


def read_crowding_rows(
    table: pd.DataFrame, estimand: str = "penultimate_gain", **chosen: Any
) -> ModelGains:
    """The rows of `fit_crowding`: besides rho its logarithm, in all and within and between labs,
    each about its mean.

    Raises as it does. `chosen`: source, error_from, prompt_counts.
    """
    models = _read_models(table, estimand, 5, quantities=["rho"], **chosen)
    frame = models.table
    warnings = list(models.warnings)
    rho = read_numbers(frame["rho"], "rho", varied=True)
    labs = frame["heritage"].astype(str)
    x = pd.Series(np.log(rho))
    if labs.nunique() < 2:
        raise UsageError(
            "there is no variation between labs",
            where="heritage",
            got=labs.unique()[0],
            allowed="2 labs or more",
        )
    lab_mean = x.groupby(labs.to_numpy()).transform("mean")
    mean = x.mean()
    within = x - lab_mean
    between = lab_mean - mean
    if is_constant((within + 1).to_numpy()):
        warnings.append("ρ does not vary within any lab: the slope within labs is its prior")
    if is_constant((between + 1).to_numpy()):
        warnings.append("every lab has the same mean of log ρ: the slope between labs is its prior")
    if labs.nunique() < 4:
        warnings.append(f"{labs.nunique()} labs: the slope between labs rests on as many points")
    logs = {"log_rho": x, "within": within, "between": between, "centred": x - mean}
    rows = frame.assign(rho=rho, **logs)
    return replace(models, table=rows, warnings=tuple(warnings))


def _read_models(
    table: pd.DataFrame, estimand: str, least: int, *, quantities: Sequence[str] = (), **chosen: Any
) -> ModelGains:
    """One row per model, with its lab and a known error; UsageError for fewer than `least`, and
    gains all the same."""
    models = read_model_gains(
        table,
        estimand,
        outcome=estimand,
        errors=fill_known_errors,
        names=["heritage"],
        quantities=quantities,
        preference=Preference(**chosen),
    )
    read_numbers(models.table["log_gain"], f"log {estimand}", least=least, varied=True)
    return models


@record_call
def fit_crowding(
    table: pd.DataFrame,
    outcome: str = "penultimate_gain",
    *,
    model: str = "model_id",
    lab: str = "heritage",
    density: str = "rho",
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int = SEED,
) -> Fit:
    """Fit the slope of the log gain on head density, within labs and between them.

        log g_i = a + b_w (x_i − x̄_lab) + b_b (x̄_lab − x̄) + u_lab + ε_i with x = log ρ

    Parameters
    ----------
    table : DataFrame
        Rows of `features`, or your own, one per model or per model and prompt (`prompt_id`).
        `<outcome>_sd` (divisor n − 1) with `n_prompts`, where there, are the errors.
    outcome, model, lab, density : str
        Columns of the gain, the model's name, its lab and ρ.
    source : str or sequence of str
        Files to take, in order of preference, all but the controlled study by default.
    error_from : str
        The gain whose relative spread stands in where that of the outcome is not known.
    prompt_counts : mapping of str to int
        Prompts of each prompt set, for averages that have no number of prompts, whose standard
        deviations then count as published (divisor n).
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: within (b_w), between (b_b), their difference, lab_sd, residual_sd; a slope is
        the change of log gain when ρ grows by a factor e. Tables: `models`, and `rivals` (constant,
        slope, step, slopes within and between apart: evidence, leave one model out, leave one lab
        out).

    Raises
    ------
    UsageError
        For fewer than 5 models, fewer than 2 labs, ρ constant, or a gain not above 0.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_crowding
    >>> rows = thermostats.features(evidence="pooled").dropna(subset="penultimate_gain")
    >>> fit_crowding(rows).params[["within", "between"]].round(2)
    quantity
    within    -0.04
    between    0.02
    Name: mean, dtype: float64
    """
    columns = build_gain_columns("fit_crowding", outcome, model=model, lab=lab, density=density)
    crowded = read_crowding_rows(
        columns.read(table),
        outcome,
        source=source,
        error_from=error_from,
        prompt_counts=prompt_counts,
    )
    line = declare_slopes(crowded.table, "within", "between")
    law = Law(
        name="crowding",
        of=line.design_rows,
        quantities=_compute_slopes,
        reported=("within", "between", "between_less_within", *SPREADS),
        statements=SLOPES,
        statistics=_build_statistics,
        equations=("x_i = log ρ_i = log(H_i/d_h,i)", ERRORS),
        tables={"models": _list_models, "rivals": _compare_rivals},
        figures={"fit": _draw_figure},
    )
    return _build_fit(declare_law(law, line, vary_line(line)), crowded, seed, columns)


@record_call
def fit_threshold(
    table: pd.DataFrame,
    outcome: str = "penultimate_gain",
    *,
    model: str = "model_id",
    lab: str = "heritage",
    density: str = "rho",
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int = SEED,
) -> Fit:
    """Fit a step of the log gain at a threshold of head density.

        log g_i = a + δ [ρ_i > c] + u_lab + ε_i,
        log c uniform between the smallest and the largest log ρ

    Parameters
    ----------
    table, outcome, model, lab, density, source, error_from, prompt_counts, seed
        As in `fit_crowding`.

    Returns
    -------
    Fit
        Quantities: threshold (c), step (δ), below (a), above (a + δ), lab_sd, residual_sd. Tables:
        `models`, `threshold` (posterior of c over the gaps between neighbouring values of ρ),
        `rivals`.

    Raises
    ------
    UsageError
        As `fit_crowding` does.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_threshold
    >>> rows = thermostats.features(evidence="pooled").dropna(subset="penultimate_gain")
    >>> fit = fit_threshold(rows)
    >>> sorted(fit.reported)
    ['above', 'below', 'lab_sd', 'residual_sd', 'step', 'threshold']
    """
    columns = build_gain_columns("fit_threshold", outcome, model=model, lab=lab, density=density)
    crowded = read_crowding_rows(
        columns.read(table),
        outcome,
        source=source,
        error_from=error_from,
        prompt_counts=prompt_counts,
    )
    tables = {"models": _list_models, "threshold": _summarise_thresholds, "rivals": _compare_rivals}
    law = Law(
        name="threshold",
        of=design_steps,
        quantities=_compute_steps,
        reported=("threshold", "step", "below", "above", *reversed(SPREADS)),
        statements=STEPS,
        statistics=_build_statistics,
        equations=(*STEP.equations, "ρ_i = H_i/d_h,i", ERRORS),
        priors=(*STEP.priors, PLACE),
        tables=tables,
        figures={"fit": _draw_figure},
    )
    return _build_fit(law, crowded, seed, columns)


def _build_fit(law: Law, crowded: ModelGains, seed: int, columns: Columns) -> Fit:
    read_new = partial(_read_new_rows, columns, crowded.table)
    return build_fit(
        law,
        crowded.table,
        seed=seed,
        estimand=crowded.estimand,
        sources=crowded.sources,
        warnings=crowded.warnings,
        reads=read_new,
    )


def _read_new_rows(columns: Columns, fitted: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict: log ρ within and between labs; the mean of a lab not seen is that of its
    rows."""
    rows = columns.read_new(drop_computed(new))
    rho = read_numbers(rows["rho"], "rho", least=1, positive=True)
    x = pd.Series(np.log(rho), index=rows.index)
    labs = rows["heritage"]
    by_lab = fitted.groupby("heritage")["log_rho"].mean()
    middle = fitted["log_rho"].mean()
    of_rows = x.groupby(labs).transform("mean")
    of_lab = labs.map(by_lab).fillna(of_rows).astype("float64")
    logs = {"log_rho": x, "within": x - of_lab, "between": of_lab - middle, "centred": x - middle}
    return rows.assign(rho=rho, **logs)


def declare_labs(slopes: Sequence[Fixed], share: float, labs: str, models: str) -> Mixed:
    """A line of log gains with levels of labs and known errors; `share`: prior scale of labs and of
    models in them."""
    first = "mean log gain: a factor 1.6 either way is one standard deviation"
    effects = Levels(
        column="heritage",
        scale=share,
        symbol="τ",
        why=f"labs: {labs}",
        effect="u_lab(i)",
        quantity="lab_sd",
        name=LEVEL,
    )
    rest = Rest(
        scale=share,
        why=f"models within labs: {models}",
        quantity="residual_sd",
        error="error",
        error_symbol="s_i",
    )
    mean = Fixed(sd=SCALE, symbol="a", why=first)
    return Mixed(
        outcome="log_gain",
        left="log g_i",
        fixed=(mean, *slopes),
        kinds=(effects,),
        rest=rest,
        scale=LOG,
        regress=look_along_line,
    )


HALVES = ("half the scale of log gains", "the other half")
SYMBOLS = {
    "within": ("b_w", "(x_i − x̄_lab(i))"),
    "between": ("b_b", "(x̄_lab(i) − x̄)"),
    "centred": ("b", "(x_i − x̄)"),
}
BEYOND_CUT = Fixed(
    column="above",
    sd=2 * SHARE,
    symbol="δ",
    why="a step is as large as two SD of a slope",
    term="[ρ_i > c]",
    quantity="step",
)
STEP = declare_labs([BEYOND_CUT], SHARE, *HALVES)
PLACE: Prior = (
    "c",
    "log c uniform between the smallest and the largest ρ",
    "no place of a threshold is preferred",
)


def declare_slopes(rows: pd.DataFrame, *columns: str) -> Mixed:
    """A line of the gains on columns made of log ρ."""
    sd = SHARE / float(rows["log_rho"].std(ddof=0))
    why = "half of that over one SD of log ρ; no sign is preferred"
    slopes = []
    for name in columns:
        symbol, term = SYMBOLS[name]
        slope = Fixed(column=name, sd=sd, symbol=symbol, why=why, term=term, quantity=name)
        slopes.append(slope)
    return declare_labs(slopes, SHARE, *HALVES)


@dataclass(frozen=True, kw_only=True, eq=False)
class StepDesign(MixtureDesign):
    """Lines of one step each, at every gap."""

    model: Mixture
    cuts: Array
    widths: Array


def design_steps(rows: pd.DataFrame) -> StepDesign:
    """The step model: one line a gap of log ρ, with its width as prior weight."""
    cuts, widths = find_gaps(rows["rho"].to_numpy())
    designs = []
    for cut in cuts:
        step = replace(STEP, tabulate=partial(cut_rows, cut))
        designs.append(step.design_rows(rows))
    nodes = tuple(design.gaussian for design in designs)
    model = Mixture(nodes=nodes, weights=widths / widths.sum(), seed=len(cuts))
    return StepDesign.mix(designs, model, cuts=cuts, widths=widths)


def cut_rows(cut: float, rows: pd.DataFrame, _: pd.DataFrame | None) -> pd.DataFrame:
    """Rows and whether their head density is above a cut."""
    return rows.assign(above=(rows["rho"] > cut).astype(float))


def find_gaps(rho: Array) -> tuple[Array, Array]:
    """Middle of every gap between neighbouring values of ρ and its width, both on the log scale.

    Of more than `MOST_CUTS` gaps the narrowest are put to their neighbours.
    """
    values = np.log(np.unique(rho))
    if values.size > MOST_CUTS + 1:
        near = np.linspace(values[0], values[-1], MOST_CUTS + 1)
        nearest = np.abs(values[:, None] - near).argmin(axis=0)
        values = np.unique(values[nearest])
    middles = (values[1:] + values[:-1]) / 2
    return np.exp(middles), np.diff(values)


def _compute_slopes(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    drawn = name_draws(values, design)
    return {**drawn, "between_less_within": drawn["between"] - drawn["within"]}


def _compute_steps(values: Mapping[str, Array], design: StepDesign) -> dict[str, Array]:
    """Within a gap the threshold is uniform in its logarithm."""
    gap = values["node"].astype(np.int64)
    place = np.random.default_rng(gap.size).uniform(-0.5, 0.5, gap.shape)
    drawn = name_draws(values, design.designs[0])
    below = values["beta"][..., 0]
    log_cut = np.log(design.cuts[gap])
    log_threshold = log_cut + design.widths[gap] * place
    above = below + drawn["step"]
    return {**drawn, "threshold": np.exp(log_threshold), "below": below, "above": above}


def _build_statistics(design: MixedDesign | MixtureDesign) -> Mapping[str, Statistic]:
    """Statistics by lab of the rows that were laid out."""
    rows = design.designs[0].table if isinstance(design, MixtureDesign) else design.table
    return build_lab_statistics(rows["heritage"], rows["log_rho"].to_numpy(), "log ρ")


def _summarise_thresholds(fit: Fit) -> pd.DataFrame:
    """Posterior over the gaps, and what the step is there."""
    design = fit.designed(StepDesign)
    widths = design.widths
    model = design.model
    means = [draws.flat("beta").mean(axis=0) for draws in model.fits]
    beta = np.array(means)
    log_cuts = np.log(design.cuts)
    half = widths / 2
    return pd.DataFrame(
        {
            "lower": np.exp(log_cuts - half),
            "upper": np.exp(log_cuts + half),
            "prior": widths / widths.sum(),
            "probability": model.probability,
            "step": beta[:, 1],
            "below": beta[:, 0],
            "above": beta.sum(axis=1),
        }
    )


def _compare_rivals(fit: Fit) -> pd.DataFrame:
    rows = fit.rows
    straight = {"constant": (), "slope": ("centred",), "slopes apart": ("within", "between")}
    rivals: dict[str, Gaussian | Mixture] = {}
    for name, columns in straight.items():
        line = declare_slopes(rows, *columns)
        rivals[name] = line.design_rows(rows).gaussian
    rivals["step"] = design_steps(rows).model
    return compare(rivals, build_model_and_lab_folds(rows), seed=fit.seed)


def _list_models(fit: Fit) -> pd.DataFrame:
    models = fit.rows[["model_id", "heritage", "rho", "log_gain", "error"]]
    lab_mean = fit.rows["log_rho"] - fit.rows["within"]
    return models.assign(lab_mean_log_rho=lab_mean)


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    models = fit.table("models")
    points = models.assign(gain=np.exp(models["log_gain"]))
    draw_points(axes, points, "rho", "gain")
    if "threshold" in fit.law.tables:
        threshold = fit.table("threshold")
        second = axes.twinx()
        lower = threshold["lower"]
        upper = threshold["upper"]
        density = threshold["probability"] / np.log(upper / lower)
        edges = [*lower, upper.iloc[-1]]
        second.stairs(density, edges, alpha=0.3, fill=True)
        second.set_yticks([])
        second.set_ylabel("posterior density of a threshold")
    axes.axhline(1, linewidth=0.8)
    log_axis(axes, "x")
    axes.set_xlabel("head density ρ = H / d_h")
    axes.set_ylabel(fit.estimand.replace("_", " "))
    axes.legend(**ABOVE)
    return axes
