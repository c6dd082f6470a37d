"""Effects of depth and head density in the controlled study: slopes, curves, mediators, comparison with published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.modelling.classical.counts import one_sample_bound
from thermostats.modelling.classical.mediation import mediation
from thermostats.modelling.classical.mixed import MixedSlope, mixed_slope
from thermostats.modelling.heritage.partial_f import block_f, freedman_lane
from thermostats.plots.general import DASHES, MUTED, legend_above, reference
from thermostats.plots.scales import log_axis
from thermostats.studies.nursery.design import blocks, model_matrix
from thermostats.studies.nursery.factor_effects import CURVED, covariates, with_curves
from thermostats.studies.nursery.largest import LARGEST, PENULTIMATE, TOTAL
from thermostats.studies.nursery.rows import by_t, published_rows, slope_within, too_few

LINES = ("log_L", "log_rho", "log_d")
"""Depth, head density and width, whose straight lines stand in every model here."""


def held(rows: pd.DataFrame) -> list[str]:
    """Columns of architecture that rows of `judged` tell apart, then the lines: what is held when one is asked."""
    return [name for name in covariates(with_curves(rows)) if name not in CURVED] + list(LINES)


def slope_on(rows: pd.DataFrame, term: str, others: Sequence[str], group: str) -> MixedSlope:
    """Slope of `log_gain` on `term` given the other columns, every value of `group` with a random level of its own."""
    columns = {name: f"x{number}" for number, name in enumerate(dict.fromkeys([term, *others]))}
    return mixed_slope(rows.rename(columns=columns), f"log_gain ~ {' + '.join(columns.values())}", group, term="x0")


def slope_of(rows: pd.DataFrame, term: str) -> Estimate:
    """Slope of `log_gain` on `term` given what is held, every recipe with a level of its own: least squares, 95% t."""
    others = [name for name in held(rows) if name != term]
    return by_t(*slope_within(rows, "log_gain", term, "recipe", others), "95% t interval, a level for every recipe")


def by_slope(rows: pd.DataFrame) -> Result:
    """Slope of the first study, every recipe with a level of its own."""
    return Result.of(rows, {"slope": slope_of(rows, rows["term"].iloc[0])}, table=None)


def doubled(slope: Estimate) -> list[float]:
    """What a slope comes to where its logarithm's argument doubles, as a change of the gain, with its interval."""
    return [float(np.expm1(v * np.log(2))) for v in (slope.value, slope.lower, slope.upper) if v is not None]


def combined(by: pd.DataFrame, sign: float) -> Estimate:
    """Mean of two slopes (sign 1), or how far the second lies from the first (−1): t interval by Satterthwaite.

    by: columns slope, error and df.
    """
    slope, error, df = by[["slope", "error", "df"]].to_numpy(np.float64).T
    value, scale = (slope.mean(), 0.5) if sign > 0 else (slope[1] - slope[0], 1.0)
    total = float(np.square(error).sum())
    freedom = total**2 / float((error**4 / df).sum())
    words = "95% t interval, recipes as the unit, either corpus by itself"
    return by_t(float(value), scale * total**0.5, freedom, words)


def with_terms(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `judged` with the design's columns of geometry and of recipe × geometry."""
    terms, x = blocks(), model_matrix(rows)
    return rows.join(x[[name for name in (*terms["geometry"], *terms["recipe x geometry"]) if name not in rows]])


TERMS = {
    "curvature over depth": ("geometry", "(log_L)"),
    "curvature over head density": ("geometry", "(log_rho)"),
    "recipe factors × depth": ("recipe x geometry", " x log_L"),
    "recipe factors × head density": ("recipe x geometry", " x log_rho"),
}
"""What straight lines leave out: block of the design's model, and how its columns end."""


def extra_terms(rows: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
    """F tests of what straight lines leave out: curvature, and recipe factors × depth or × head density.

    rows: of `with_terms`. Columns: what, columns, residual_df, f, p (of F), gained (R²), and with a seed p_shuffled
    (Freedman and Lane). Every block is tested given recipes (a level each), architecture and the lines. Raises
    UsageError where no degree of freedom is left.
    """
    choices, rows_of = {"given": ["recipe", *held(rows)]}, []
    for what, (block, ending) in TERMS.items():
        columns = [name for name in blocks()[block] if name.endswith(ending) and rows[name].nunique() > 1]
        chosen = choices | {what: columns}
        f = block_f(rows, "log_gain", chosen)[what]
        row = {"what": what, "columns": f.df_block, "residual_df": f.df_residual, "f": f.f, "p": f.p_value}
        if seed is not None:
            row["p_shuffled"] = freedman_lane(rows, "log_gain", chosen, what, seed=seed).p_value
        rows_of.append(row | {"gained": f.estimate})
    return pd.DataFrame(rows_of)


def mean_traces(tables: Evidence, source: str) -> pd.Series:
    """Trace of the sheaf Laplacian, all heads, mean over layers and prompts, by model."""
    rows = tables.table("attention", source=source)
    rows = rows[(rows["variant"] == "exact") & (rows["head"] == "") & rows["trace"].notna()]
    return rows.groupby("model_id")["trace"].mean().astype("float64")


def draw_depth(rows: pd.DataFrame, slope: float, axes: Axes, *, seed: int) -> None:
    """Penultimate gain over depth, marked by head density, with the slope through the mean."""
    mean, centre = rows["log_gain"].mean(), np.log(rows["n_layers"].astype(float)).mean()
    L = _over_depth(axes, rows, PENULTIMATE, seed)
    line = np.exp(mean + slope * (np.log(L) - centre))
    axes.plot(L, line, color=MUTED, label="slope within recipes")
    axes.set(ylabel="penultimate gain")
    legend_above(axes)


def draw_largest(rows: pd.DataFrame, axes: Axes, *, seed: int) -> None:
    """Largest gain over depth, marked by head density, with the published curve."""
    L = _over_depth(axes, rows, LARGEST, seed)
    axes.plot(L, TOTAL ** (1 / L), color=MUTED, linestyle=DASHES[1], label="10^(1/L)")
    axes.set(ylabel="largest gain, blocks 2 to L − 1")
    legend_above(axes)


def draw_density(rows: pd.DataFrame, axes: Axes, *, seed: int) -> None:
    """Penultimate gain over head density, marked by depth."""
    _scatter(axes, rows, "rho", PENULTIMATE, by=("n_layers", "L = {}"), shift=0.1, seed=seed)
    axes.set(xlabel="head density ρ = H / d_h", ylabel="penultimate gain")
    legend_above(axes)


def _over_depth(axes: Axes, rows: pd.DataFrame, gain: str, seed: int) -> np.ndarray:
    """A gain over depth, marked by head density, with a tick at every depth; depths from the least to the largest."""
    _scatter(axes, rows, "n_layers", gain, by=("rho", "ρ = {:g}"), shift=0.06, seed=seed)
    depths = sorted(set(rows["n_layers"]))
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.set(xlabel="layers, L")
    return np.linspace(float(depths[0]), float(depths[-1]), 100)


def _scatter(axes: Axes, rows: pd.DataFrame, x: str, y: str, *, by: tuple[str, str], shift: float, seed: int) -> None:
    """One colour a value of a column, shifted at random along x; both axes logarithmic."""
    reference(axes, 1.0)
    spread = np.random.default_rng(seed)
    column, label = by
    for value, group in rows.groupby(column, sort=True):
        shifted = group[x] * np.exp(spread.uniform(-shift, shift, len(group)))
        axes.scatter(shifted, group[y], s=26, alpha=0.85, label=label.format(value))
    log_axis(axes, "x")
    log_axis(axes, "y")


MEDIATORS = {"trace": "trace of the sheaf Laplacian", "wv_norm": "‖W_V‖", "wo_norm": "‖W_O‖"}


def mediated(rows: pd.DataFrame, mediators: Sequence[str] = tuple(MEDIATORS)) -> pd.DataFrame:
    """By mediator the part of the slope on log ρ that goes through it, with its interval, and the rest.

    Columns: mediator, indirect, lower, upper, total, direct, interval, n_models, groups; mediators that too few models
    have are left out.
    """
    others = [name for name in held(rows) if name != "log_rho"]
    tests = []
    for column in mediators:
        measured = rows[rows[column].notna() & (rows[column] > 0)]
        if too_few(measured):
            continue
        logs = measured.assign(mediator=np.log(measured[column].astype("float64")))
        m = mediation(logs, "log_gain", "log_rho", "mediator", others, group="recipe")
        tests.append((MEDIATORS[column], m.estimate, m.lower, m.upper, m.total, m.direct, m.interval, m.n, m.n_groups))
    columns = ["mediator", "indirect", "lower", "upper", "total", "direct", "interval", "n_models", "groups"]
    return pd.DataFrame(tests, columns=columns)


WORDS = {"log_L": "the log of depth", "log_rho": "the log of head density ρ"}


def both_slopes(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Slopes on depth and on head density of some rows, by what they are on."""
    slopes_of = {on: slope_on(rows, term, held(rows), "recipe") for term, on in WORDS.items()}
    return {on: Estimate(slope.estimate, slope.lower, slope.upper) for on, slope in slopes_of.items()}


def against_published(tables: Evidence, rows: pd.DataFrame, *, tolerated: float) -> pd.DataFrame:
    """The same estimands here and over the published models, whose labs take the place of recipes.

    Columns: what, study, estimate, lower, upper, n_models, groups.
    """
    published = published_rows(tables)
    studies = (
        ("here, by design", rows, held(rows), "recipe"),
        ("published models", published, list(LINES), "heritage"),
    )
    comparisons = []
    for term, words in WORDS.items():
        for study, frame, columns, group in studies:
            s = slope_on(frame, term, columns, group)
            comparisons.append((f"slope on {words}", study, s.estimate, s.lower, s.upper, s.n, s.n_groups))
    for study, frame, _, group in studies:
        of = frame.dropna(subset=LARGEST)
        b = one_sample_bound(of[LARGEST], TOTAL ** (1 / of["n_layers"]), tolerated=tolerated)
        comparisons.append(("share above 10^(1/L)", study, b.estimate, b.lower, b.upper, b.n, of[group].nunique()))
    return pd.DataFrame(comparisons, columns=["what", "study", "estimate", "lower", "upper", "n_models", "groups"])
