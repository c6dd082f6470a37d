"""N02: which part of the recipe moves the gain, by how much, and can any of it put the gain on the other side of 1?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, AtLeast, Decide, Each, Pick, Posterior, Some, V
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.inference.draws import Array
from thermostats.plots.general import forest
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.factor_effects import (
    contrasts,
    covariates,
    estimate,
    factor_columns,
    factor_tests,
    half_width,
    intervals,
    level_rows,
    split,
    with_curves,
)
from thermostats.studies.nursery.factors import RECIPE
from thermostats.studies.nursery.rows import LEAST_MODELS, LEAST_RECIPES, final, fit_recipes, judged, too_few
from thermostats.tables.vocabulary import NURSERY

SEED = 102
ALPHA, MOST = 0.05, 0.5
NEGLIGIBLE = 0.05
"""As in C11."""
PRIMARY = "penultimate_gain"
COMMON: dict[str, Any] = {"evidence": NURSERY, "needs": AtLeast(models=LEAST_MODELS, groups=LEAST_RECIPES)}
RATIO, LOWEST, SHARE = "ratio", "lowest mean gain", "share through the ratio"
STILL = (V(RATIO).lower > 1 / (1 + NEGLIGIBLE)) & (V(RATIO).upper < 1 + NEGLIGIBLE)
MOVES = Posterior("levels of {factor} differ by more than 5%", pick=Pick("factors", smallest="p"))
FLIPS = Posterior("levels of {factor} have mean gains on both sides of 1", pick=Pick("factors", largest="p_flip"))
APART = (V("largest lower end") > 1) & (V("smallest upper end") < 1)
ONE_SIDE = Each("levels", V("gain").lower > 1) | Each("levels", V("gain").upper < 1)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """Models that the penultimate gain is judged by."""
    rows = judged(final(evidence), PRIMARY)
    return rows if too_few(rows) else with_curves(rows)


@CLAIM.shared
def recipe_fit(evidence: Evidence) -> HeritageFit:
    """The fit of both findings."""
    return pooled(models(evidence), PRIMARY)


def pooled(rows: pd.DataFrame, gain: str) -> HeritageFit:
    """C04's model with recipes as heritage; architecture stands with geometry, so that only the seed's part is left."""
    beside = [name for name in covariates(rows) if name != "log_d"]
    return fit_recipes(rows, gain, geometry=beside, scale=["log_d"], seed=SEED)


def drawn_levels(fit: HeritageFit, rows: pd.DataFrame) -> dict[tuple[str, str], Array]:
    """Draws, chain × draw, of the mean log gain at every level of every factor, all other columns at their mean.

    Effects of factors are those of least squares on the factors' columns of the recipes' partially pooled effects.
    """
    factors = factor_columns(rows)
    names = [column for own in factors.values() for column in own]
    x = rows.set_index("model").loc[list(fit.design.models), names].to_numpy(np.float64)
    centres, mean = x.mean(axis=0), fit.draws["m"].mean(axis=-1)
    slopes = fit.contributions["heritage"] @ np.linalg.pinv(x - centres).T
    found = {}
    for (factor, level), row in level_rows(names).items():
        own = np.isin(names, factors[factor])
        found[factor, level] = np.asarray(mean + slopes[..., own] @ (row - centres)[own])
    return found


def by_factor(drawn: dict[tuple[str, str], Array]) -> dict[str, Array]:
    """Draws of the levels of every factor, chain × draw × levels."""
    return {name: np.stack([drawn[name, level] for level in levels], axis=-1) for name, levels in RECIPE.items()}


def effects_table(rows: pd.DataFrame, fit: HeritageFit | None) -> pd.DataFrame:
    """A row a contrast: factor, what, ratio with its simultaneous interval, p_holm, and the posterior's beside."""
    fitted = estimate(rows, "log_gain")
    chosen = contrasts(fitted.columns)
    table = intervals(fitted, chosen, mean=False, level=LEVEL)
    adjusted = factor_tests(rows, seed=SEED).set_index("factor")["p_holm"]
    shown = pd.DataFrame(
        {
            "factor": table["factor"],
            "what": table["what"],
            "ratio": np.exp(table["log_ratio"]),
            "lower": np.exp(table["lower"]),
            "upper": np.exp(table["upper"]),
            "p_holm": table["factor"].map(adjusted),
        }
    )
    if fit is None:
        return shown
    drawn = drawn_levels(fit, rows)
    pooled = []
    for factor, what in zip(shown["factor"], shown["what"], strict=True):
        first, second = what.split(" against ")
        against = np.mean([drawn[factor, one] for one in RECIPE[factor]], axis=0) if second == "the mean" else None
        ratio = np.exp(drawn[factor, first] - (drawn[factor, second] if against is None else against))
        pooled.append((float(np.median(ratio)), *np.quantile(ratio, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])))
    flips = {name: float(both_sides(levels).mean()) for name, levels in by_factor(drawn).items()}
    shown[["pooled", "pooled_lower", "pooled_upper"]] = pooled
    return shown.assign(p_flip=shown["factor"].map(flips))


def both_sides(levels: Array) -> NDArray[np.bool_]:
    """Where the levels' means lie on both sides of no change, chain × draw."""
    return np.asarray((levels.min(axis=-1) < 0) & (levels.max(axis=-1) > 0), dtype=np.bool_)


def counts(rows: pd.DataFrame) -> dict[str, Any]:
    """Models and recipes."""
    return {"n_models": len(rows), "n_groups": rows["recipe"].nunique()}


@CLAIM.finding(
    "effect",
    primary=Decide(Some("factors", V("p_holm") <= ALPHA), Each("contrasts", STILL)),
    robustness=MOVES,
    **COMMON,
)
def effect(evidence: Evidence) -> Result:
    """Does a factor of the recipe move the gain?"""
    rows = models(evidence)
    if too_few(rows):
        return Result(**counts(rows))
    fit, tests = recipe_fit(evidence), factor_tests(rows, seed=SEED)
    table, strongest = effects_table(rows, fit), tests.loc[tests["p"].idxmin()]
    own = table[table["factor"] == strongest["factor"]]
    most = own.loc[np.log(own["ratio"]).abs().idxmax()]
    interval = f"95 % t interval, Bonferroni over {len(table)} contrasts"
    levels = by_factor(drawn_levels(fit, rows)) if fit is not None else {}

    def draw(axes: Axes) -> None:
        forest(table.assign(row=table["factor"] + ": " + table["what"]), axes, label="row", estimate="ratio", null=1.0)
        axes.set_xlabel("ratio of geometric mean gains")
        log_axis(axes, "x")

    return Result(
        quantities={RATIO: Estimate(most["ratio"], most["lower"], most["upper"], interval, strongest["p_holm"])},
        rows={"factors": tests, "contrasts": table},
        **counts(rows),
        table=table,
        draw=draw,
        fit=fit,
        statements={
            MOVES.statement.format(factor=name): np.ptp(own, axis=-1) > np.log1p(NEGLIGIBLE)
            for name, own in levels.items()
        },
        words={
            "most": most,
            "tests": tests.to_dict("records"),
            "moved": tests[tests["p_holm"] <= ALPHA].to_dict("records"),
        },
    )


@CLAIM.finding("sign", primary=Decide(Some("factors", APART), ONE_SIDE), robustness=FLIPS, **COMMON)
def sign(evidence: Evidence) -> Result:
    """Do levels of a factor have mean gains on both sides of 1?"""
    rows = models(evidence)
    if too_few(rows):
        return Result(**counts(rows))
    fit, fitted = recipe_fit(evidence), estimate(rows, "log_gain")
    table = intervals(fitted, level_rows(fitted.columns), mean=True, level=LEVEL)
    table = table.assign(gain=np.exp(table["log_ratio"]), lower=np.exp(table["lower"]), upper=np.exp(table["upper"]))
    table = table[["factor", "what", "gain", "lower", "upper"]]
    ends = table.groupby("factor", sort=False).agg(
        **{"largest lower end": ("lower", "max"), "smallest upper end": ("upper", "min")}
    )
    flips = {n: both_sides(own) for n, own in by_factor(drawn_levels(fit, rows)).items()} if fit is not None else {}
    chances = {name: float(truth.mean()) for name, truth in flips.items()}
    factors = ends.reset_index().assign(p_flip=lambda f: f["factor"].map(chances))
    apart = (factors["largest lower end"] > 1) & (factors["smallest upper end"] < 1)
    low, high = table.loc[table["gain"].idxmin()], table.loc[table["gain"].idxmax()]
    interval = f"95 % t interval, Bonferroni over {len(table)} levels"
    return Result(
        quantities={LOWEST: Estimate(low["gain"], low["lower"], low["upper"], interval)},
        rows={"factors": factors, "levels": table},
        **counts(rows),
        table=table,
        fit=fit,
        statements={FLIPS.statement.format(factor=name): truth for name, truth in flips.items()},
        words={
            "low": low,
            "high": high,
            "sets": list(factors.loc[apart, "factor"]),
            "dampen": int((rows["log_gain"] < 0).sum()),
            "flips": chances,
        },
    )


@CLAIM.finding("mediator", primary=Above(SHARE, MOST), **COMMON)
def mediator(evidence: Evidence) -> Result:
    """Does most of the recipe's effect go through the ratio of W_V and W_O?"""
    rows = models(evidence)
    if too_few(rows):
        return Result(**counts(rows))
    rows = rows[rows["wv_wo_ratio"].notna()].reset_index(drop=True)
    rows = rows.assign(log_ratio=np.log(rows["wv_wo_ratio"].astype("float64")))
    (share, slope), half = split(rows), half_width(rows, LEVEL)
    tests = factor_tests(rows.assign(log_gain=rows["log_ratio"]), seed=SEED)
    interval = "95 % jackknife t interval over distinct models"
    return Result(
        quantities={SHARE: Estimate(share, share - half, share + half, interval)},
        **counts(rows),
        words={"moves": list(tests.loc[tests["p_holm"] <= ALPHA, "factor"]), "doubled": 2**slope},
    )


if __name__ == "__main__":
    CLAIM.main()
