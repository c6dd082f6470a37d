"""N02: which part of the recipe moves the gain, by how much, and can any of it put the gain on the other side of 1?"""

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Above, Decide, Each, Pick, Posterior, Some, V
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery import factor_effects as effects
from thermostats.studies.nursery.factor_effects import half_width, split
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, fit_recipes, judged

SEED = 102
ALPHA, MOST = 0.05, 0.5
NEGLIGIBLE = 0.05
"""As in C11."""
PRIMARY = "penultimate_gain"
RATIO, LOWEST, SHARE = "ratio", "lowest mean gain", "share through the ratio"
STILL = (V(RATIO).lower > 1 / (1 + NEGLIGIBLE)) & (V(RATIO).upper < 1 + NEGLIGIBLE)
MOVES = Posterior("levels of {factor} differ by more than 5%", pick=Pick("factors", smallest="p"))
FLIPS = Posterior("levels of {factor} have mean gains on both sides of 1", pick=Pick("factors", largest="p_flip"))
APART = (V("largest lower end") > 1) & (V("smallest upper end") < 1)
ONE_SIDE = Each("levels", V("gain").interval > 1) | Each("levels", V("gain").interval < 1)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """Models that the penultimate gain is judged by."""
    return effects.with_curves(ENOUGH.of(judged(final(evidence), PRIMARY)))


@CLAIM.shared
def recipe_fit(evidence: Evidence) -> HeritageFit:
    """C04's model with recipes as heritage; architecture stands with geometry, so that only the seed's part is left."""
    rows = models(evidence)
    others = [name for name in effects.covariates(rows) if name != "log_d"]
    return fit_recipes(rows, PRIMARY, geometry=others, scale=["log_d"], seed=SEED)


@CLAIM.finding(
    "effect",
    primary=Decide(Some("factors", V("p_holm") <= ALPHA), Each("contrasts", STILL)),
    robustness=MOVES,
    **CONTROLLED,
)
def effect(evidence: Evidence) -> Result:
    """Does a factor of the recipe move the gain?"""
    rows, fit = models(evidence), recipe_fit(evidence)
    drawn = effects.pooled_levels(fit, rows) if fit is not None else {}
    tests = effects.factor_tests(rows, seed=SEED)
    table = effects.effects_table(rows, tests, drawn, level=LEVEL)
    strongest = tests.loc[tests["p"].idxmin()]
    own = table[table["factor"] == strongest["factor"]]
    most = own.loc[np.log(own["ratio"]).abs().idxmax()]
    interval = f"95 % t interval, Bonferroni over {len(table)} contrasts"
    named = table.assign(row=table["factor"] + ": " + table["what"])
    xlabel = "ratio of geometric mean gains"
    return Result.of(
        rows,
        {RATIO: Estimate(most["ratio"], most["lower"], most["upper"], interval, strongest["p_holm"])},
        rows={"factors": tests, "contrasts": table},
        table=table,
        draw=drawing(forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x"),
        fit=fit,
        statements={
            MOVES.statement.format(factor=name): np.ptp(levels, axis=-1) > np.log1p(NEGLIGIBLE)
            for name, levels in (effects.by_factor(drawn) if drawn else {}).items()
        },
        words={
            "most": most,
            "tests": tests.to_dict("records"),
            "moved": tests[tests["p_holm"] <= ALPHA].to_dict("records"),
        },
    )


@CLAIM.finding("sign", primary=Decide(Some("factors", APART), ONE_SIDE), robustness=FLIPS, **CONTROLLED)
def sign(evidence: Evidence) -> Result:
    """Do levels of a factor have mean gains on both sides of 1?"""
    rows, fit = models(evidence), recipe_fit(evidence)
    drawn = effects.by_factor(effects.pooled_levels(fit, rows)) if fit is not None else {}
    flips = {name: effects.both_sides(levels) for name, levels in drawn.items()}
    chances = {name: float(truth.mean()) for name, truth in flips.items()}
    table = effects.level_gains(rows, level=LEVEL)
    ends = table.groupby("factor", sort=False).agg(
        **{"largest lower end": ("lower", "max"), "smallest upper end": ("upper", "min")}
    )
    factors = ends.reset_index().assign(p_flip=lambda f: f["factor"].map(chances))
    apart = (factors["largest lower end"] > 1) & (factors["smallest upper end"] < 1)
    low, high = table.loc[table["gain"].idxmin()], table.loc[table["gain"].idxmax()]
    interval = f"95 % t interval, Bonferroni over {len(table)} levels"
    return Result.of(
        rows,
        {LOWEST: Estimate(low["gain"], low["lower"], low["upper"], interval)},
        rows={"factors": factors, "levels": table},
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


@CLAIM.finding("mediator", primary=Above(SHARE, MOST), **CONTROLLED)
def mediator(evidence: Evidence) -> Result:
    """Does most of the recipe's effect go through the ratio of W_V and W_O?"""
    rows = models(evidence)
    rows = rows[rows["wv_wo_ratio"].notna()].reset_index(drop=True)
    rows = rows.assign(log_ratio=np.log(rows["wv_wo_ratio"].astype("float64")))
    (share, slope), half = split(rows), half_width(rows, LEVEL)
    tests = effects.factor_tests(rows.assign(log_gain=rows["log_ratio"]), seed=SEED)
    interval = "95 % jackknife t interval over distinct models"
    words = {"moves": list(tests.loc[tests["p_holm"] <= ALPHA, "factor"]), "doubled": 2**slope}
    estimate = Estimate(share, share - half, share + half, interval)
    return Result.of(rows, {SHARE: estimate}, table=None, words=words)


if __name__ == "__main__":
    CLAIM.main()
