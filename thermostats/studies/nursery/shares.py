"""Shares of variance of recipe, architecture, geometry, scale and seed; the published models as predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.result import Estimate, Result, TooFew
from thermostats.claims.rule import NEVER, Above, AtLeast, Decide, V
from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.partial_f import block_f
from thermostats.modelling.heritage.variance_shares import corrected_shares, share_table
from thermostats.plots.general import reference
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.rows import GEOMETRY, SCALE, columns_of_block, distinct, jackknife, judged, slopes

SEED = 101
SMALL, SURE = 0.05, 0.98
"""C04's bar for "almost nothing", and the level of its order's intervals."""
FIRST, SECOND, SHARE = "recipe − geometry", "geometry − scale", "share of the seed"
OWN = "geometry, given the other blocks"
ORDERED = Above(FIRST, 0) & Above(SECOND, 0) & Decide(V(OWN).p <= 0.05, NEVER)
"""As in C04."""
SAVED = "squared error saved"
LITTLE, QUARTER, BETWEEN = 0.01, 0.5, 0.2
"""What would be of interest: 1% of the variance between seeds (null: 5%); r = 0.5, a quarter of the variance, of
depth or of predictions (null: 0), where 20% lie between recipes."""
PAIRS = AtLeast(rows={"pairs of seeds": 5})
SLOPES = [*GEOMETRY, *SCALE]
UNITS = {"labs": "heritage", "models": "model_id"}
C04_GEOMETRY, C04_SCALE = ("log_L", "log_H", "log_d_h"), ("log_n",)


def design_blocks(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of every block of rows of `judged`."""
    return {
        "recipe": ["recipe"],
        "architecture": columns_of_block(rows, "architecture"),
        "geometry": list(GEOMETRY),
        "scale": list(SCALE),
    }


def shares(rows: pd.DataFrame, columns: dict[str, list[str]], *, seed: int, level: float = LEVEL) -> pd.DataFrame:
    """Corrected shares of all blocks, first − geometry and geometry − scale: what, estimate, lower, upper."""
    differences = ((next(iter(columns)), "geometry"), ("geometry", "scale"))
    return share_table(rows, "log_gain", columns, differences, seed=seed, level=level)


def caused_and_observed(rows: pd.DataFrame, published: pd.DataFrame, *, seed: int, level: float) -> pd.DataFrame:
    """Shares of the nursery and of the published models, by the design's columns and by C04's: one row per block."""
    frames = []
    for columns, geometry, scale in (("the design's", GEOMETRY, SCALE), ("C04's", C04_GEOMETRY, C04_SCALE)):
        nursery = design_blocks(rows) | {"geometry": list(geometry), "scale": list(scale)}
        lab = {"lab": ["heritage"], "geometry": list(geometry), "scale": list(scale)}
        frames += [
            shares(rows, nursery, seed=seed, level=level).assign(study="nursery, caused", columns=columns),
            shares(published, lab, seed=seed, level=level).assign(study="published, observed", columns=columns),
        ]
    table = pd.concat(frames, ignore_index=True)
    return table[["study", "columns", "what", "estimate", "lower", "upper"]]


def other_choices(everything: pd.DataFrame, gain: str) -> dict[str, Any]:
    """Corrected shares of rows of `final` by other choices of models: `others`, name → (models, shares, error).

    With the number of models `measured`, those whose gains are `pinned` and those `flagged` as not having learned.
    """
    rows, learned = judged(everything, gain), everything["learned"].astype(bool)
    others = {
        "with models whose norm pins gains near 1": judged(everything, gain, pinned=True),
        "without models flagged as not having learned": rows[rows["learned"].astype(bool)].reset_index(drop=True),
        "without second seeds": rows[~distinct(rows).duplicated()].reset_index(drop=True),
    }
    choices: dict[str, tuple[int, Mapping[str, float], str]] = {}
    for name, chosen in others.items():
        try:
            choices[name] = (len(chosen), corrected_shares(chosen, "log_gain", design_blocks(chosen)), "")
        except UsageError as error:
            choices[name] = (len(chosen), {}, str(error))
    pinned = int((~everything["comparable"]).sum())
    return {"others": choices, "measured": len(everything), "pinned": pinned, "flagged": int((~learned).sum())}


@dataclass(frozen=True)
class SeedShare:
    """Variance between two trainings of the same model, over that of all models."""

    estimate: float
    lower: float
    upper: float
    """95% χ² interval, the variance over all models taken as known."""
    one_side: int
    """Pairs of which both stand on one side of 1."""
    factor: float
    """By which two seeds differ, root mean square."""
    pairs: pd.Series
    """Difference of the log gains of every pair, by `pair`, the largest first."""


def seed_share(rows: pd.DataFrame) -> SeedShare:
    """The seed's share of the variance over rows of `judged`; `pair`, the distinct model, is the same in both seeds."""
    two = rows.loc[rows["pair"].duplicated(keep=False), ["pair", "log_gain"]].sort_values("pair", kind="stable")
    first, second = two["log_gain"].to_numpy(np.float64).reshape(-1, 2).T
    differences = pd.Series(first - second, index=pd.Index(two["pair"].iloc[::2], name="pair"), name="difference")
    k, total = len(differences), float(rows["log_gain"].var(ddof=1))
    squares = float(np.square(differences).sum()) / 2
    lower, upper = (squares / stats.chi2.ppf(q, k) / total for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return SeedShare(
        estimate=squares / k / total if k else np.nan,
        lower=float(lower),
        upper=float(upper),
        one_side=int(((first > 0) == (second > 0)).sum()),
        factor=float(np.exp(np.sqrt(2 * squares / k))) if k else np.nan,
        pairs=differences.sort_values(key=np.abs, ascending=False),
    )


def lack_of_fit(rows: pd.DataFrame) -> tuple[int, int, float, float]:
    """Of the additive model against the seeds' pure error: degrees of freedom, F and p."""
    differences = seed_share(rows).pairs
    k, squares = len(differences), float(np.square(differences).sum()) / 2
    full = block_f(rows, "log_gain", design_blocks(rows))["recipe"]
    rss = (1 - full.r_squared) * float(rows["log_gain"].var(ddof=0)) * len(rows)
    df = full.df_residual - k
    f = (rss - squares) / df / (squares / k)
    return df, k, f, float(stats.f.sf(f, df, k))


def saved_by_recipe(rows: pd.DataFrame) -> pd.Series:
    """Squared error saved in every recipe by lines on geometry and scale, fitted to the others, over their mean."""
    recipe, names = pd.factorize(rows["recipe"])
    y, x = rows["log_gain"].to_numpy(np.float64), rows[SLOPES].to_numpy(np.float64)
    x, indicators = np.column_stack([np.ones(len(rows)), x]), np.eye(len(names))[recipe].T
    squares, products = np.einsum("ri,ij,ik->rjk", indicators, x, x), indicators @ (x * y[:, None])
    lines = np.linalg.solve(squares.sum(axis=0) - squares, (products.sum(axis=0) - products)[..., None])[..., 0]
    mean = (y.sum() - indicators @ y) / (indicators.shape[1] - indicators.sum(axis=1))
    saved = np.square(y - mean[recipe]) - np.square(y - (x * lines[recipe]).sum(axis=1))
    return pd.Series(indicators @ saved / indicators.sum(axis=1), index=names)


def drawn_slopes(fit: Fit, rows: pd.DataFrame) -> Array:
    """Draws of the nursery's slopes on SLOPES, draws × slopes."""
    return np.column_stack([slopes(fit, rows, "geometry", GEOMETRY), slopes(fit, rows, "scale", SCALE)])


def error_saved(published: pd.DataFrame, slope: Array) -> Array:
    """Mean squared error of the published mean minus that of slopes about it, one number per row of slopes."""
    x, y = (published[c].to_numpy(np.float64) for c in (SLOPES, "log_gain"))
    x, y = x - x.mean(axis=0), y - y.mean()
    return np.asarray(np.square(y).mean() - np.square(y - np.atleast_2d(slope) @ x.T).mean(axis=-1))


def jackknifed_error_saved(predictions: pd.DataFrame) -> Estimate:
    """`error_saved` of rows of `with_predictions`: the wider of two 95% jackknife t intervals, over labs and models.

    Of five labs of unequal size the one over labs alone can be a quarter of that over models.
    """
    y, predicted = (predictions[c].to_numpy(np.float64) for c in ("log_gain", "predicted"))

    def saved(remaining: npt.NDArray[np.bool_]) -> float:
        deviations, off = y[remaining] - y[remaining].mean(), predicted[remaining] - predicted[remaining].mean()
        return float(np.square(deviations).mean() - np.square(deviations - off).mean())

    left_out = {unit: jackknife(predictions[column], saved) for unit, column in UNITS.items()}
    unit, (estimate, _, half) = max(left_out.items(), key=lambda item: float(item[1][2][0]))
    interval = f"the wider of two 95% jackknife t intervals, over labs and over models (that over {unit})"
    return Estimate(float(estimate[0]), float(estimate[0] - half[0]), float(estimate[0] + half[0]), interval)


def with_predictions(published: pd.DataFrame, slope: Array) -> pd.DataFrame:
    """Per published model: model_id, heritage, log_gain, and predicted by one row of slopes about the mean."""
    x = published[SLOPES].to_numpy(np.float64)
    predicted = published["log_gain"].mean() + (x - x.mean(axis=0)) @ slope
    return published[["model_id", "heritage", "log_gain"]].assign(predicted=predicted)


def scatter(axes: Axes, predictions: pd.DataFrame) -> None:
    """Published against predicted, with the line of agreement."""
    axes.scatter(predictions["predicted"], predictions["log_gain"], s=28, color="0.2")
    ends = [float(predictions["predicted"].min()), float(predictions["predicted"].max())]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    reference(axes, 0.0)
    axes.set_xlabel("log penultimate gain as predicted by the nursery")
    axes.set_ylabel("as published")


def by_shares(rows: pd.DataFrame) -> Result:
    """Corrected shares of the design's blocks and their differences."""
    table = shares(rows, design_blocks(rows), seed=SEED, level=SURE)
    interval = f"{SURE:.0%} t interval, parametric bootstrap with the design fixed"
    by_cause = table.set_index("what").to_dict("index")
    quantities = {
        what: Estimate(row["estimate"], row["lower"], row["upper"], interval) for what, row in by_cause.items()
    }
    geometry = Estimate(by_cause["geometry"]["unique"], p=by_cause["geometry"]["p"])
    return Result.of(rows, quantities | {OWN: geometry}, estimate=FIRST, table=table)


def by_seeds(rows: pd.DataFrame) -> Result:
    """The seed's share of the variance."""
    share = seed_share(rows)
    pairs = share.pairs.reset_index()
    if len(pairs) < PAIRS.rows["pairs of seeds"]:
        raise TooFew(Result.of(rows, words={"pairs": len(pairs)}))
    interval = "95% χ² interval, variance over all models taken as known"
    estimate = Estimate(share.estimate, share.lower, share.upper, interval)
    repeated = rows[rows["pair"].isin(pairs["pair"])]
    return Result.of(repeated, {SHARE: estimate}, table=None, rows={"pairs of seeds": pairs}, words={"found": share})


def by_recipes_left_out(rows: pd.DataFrame) -> Result:
    """Squared error that geometry and scale save in a recipe that the lines were not fitted to."""
    saved = saved_by_recipe(rows)
    middle, error = float(saved.mean()), float(saved.sem())
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(saved) - 1)) * error
    interval = "95% t interval over recipes left out"
    return Result.of(rows, {SAVED: Estimate(middle, middle - half, middle + half, interval)})


def by_predictions(rows: pd.DataFrame) -> Result:
    """Squared error that predictions save over the mean."""
    return Result.of(rows, {SAVED: jackknifed_error_saved(rows)})


def compared(predictions: pd.DataFrame) -> Result:
    """Squared error saved with its figure, and how predictions go with what was published."""
    r = float(np.corrcoef(predictions["predicted"], predictions["log_gain"])[0, 1])
    words = {"r": r, "variance": float(predictions["log_gain"].var(ddof=0))}
    return replace(by_predictions(predictions), draw=lambda axes: scatter(axes, predictions), words=words)
