"""N02: which part of the recipe moves the gain, by how much, and can any of it put the gain on the other side of 1?"""

from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import NEVER, Above, AtLeast, Decide, Each, Pick, Posterior, Some, V
from thermostats.claims.worlds import worlds_in_groups, worlds_of_line, worlds_of_path
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.plots.general import drawing, forest
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery import factor_effects as effects
from thermostats.studies.nursery import second, together
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, fit_recipes, judged, read_by_tests
from thermostats.tables.vocabulary import NURSERY

SEED = 102
ALPHA, MOST = 0.05, 0.5
NEGLIGIBLE = 0.05
"""As in C11."""
PRIMARY = "penultimate_gain"
RATIO, LOWEST, SHARE = "ratio", "lowest mean gain", "share through the ratio"
STILL = (V(RATIO).lower > 1 / (1 + NEGLIGIBLE)) & (V(RATIO).upper < 1 + NEGLIGIBLE)
MOVES = Posterior("levels of {factor} differ by more than 5%", pick=Pick("factors", smallest="p"))
FLIPS = Posterior("levels of {factor} have mean gains on both sides of 1", pick=Pick("factors", largest="p_flip"))
APART = (V("highest").lower > 1) & (V("lowest").upper < 1)
ONE_SIDE = Each("levels", V("gain").interval > 1) | Each("levels", V("gain").interval < 1)

SIZE, BETWEEN = 0.55, 0.2
"""What would be of interest: a factor with 30% of the variance (r = 0.55; the null is none), most of a recipe's effect
through a ratio that has as much, or none of it; recipes differ by 20% whatever their factors."""
A_FACTOR = worlds_in_groups("log_gain", "x corpus", SIZE, BETWEEN)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """Models that the penultimate gain is judged by."""
    return effects.with_curves(ENOUGH.of(judged(final(evidence), PRIMARY)))


@CLAIM.shared
def recipe_fit(evidence: Evidence) -> HeritageFit:
    """C04's model with recipes as heritage; architecture stands with geometry, so that only the seed's part is left.

    With other residuals where normal ones do not reproduce the gains.
    """
    rows = models(evidence)
    others = [name for name in effects.covariates(rows) if name != "log_d"]
    fit = fit_recipes(rows, PRIMARY, geometry=others, scale=["log_d"], seed=SEED)
    return fit and fit.answer


def read(evidence: Evidence) -> pd.DataFrame:
    """What tests read of them."""
    return read_by_tests(models(evidence), "log_L2", "log_rho2")


HALF, LEAST = AtLeast(models=192, groups=16), AtLeast(groups=16)
"""Half of the second study's models, and of its recipes."""
MOVED = Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), NEVER)
STRONGEST = "F of the strongest factor"
A_LINE = worlds_of_line("log_gain", "embed", SIZE)
LEVELS = dict.fromkeys(together.LEVELS, "levels")
IN_WORDS = {
    "log_rate": "log rate",
    "shrinking": "decay over training",
    "depth_power": "init by depth",
    "log_init": "log init",
    "log_embed": "log embedding",
}
"""Factors whose columns do not say what they are."""


def with_number(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Recipes with the factor that worlds make the gain by."""
    return table.assign(embed=table[name] - table[name].mean())


def of_second(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the second study, means over shapes."""
    HALF.of(second.ends(evidence))
    return with_number(LEAST.of(second.recipes(evidence)), "log_embed")


def by_tests(rows: pd.DataFrame, factors: dict[str, str]) -> Result:
    """Every factor alone; the strongest."""
    tests = together.factor_tests(rows, factors)
    best = tests.loc[tests["p"].idxmin()]
    strongest = Estimate(float(best["F"]), p=float(min(1.0, best["p"] * len(tests))), p_kind="p-value, Bonferroni")
    return Result.of(
        rows, {STRONGEST: strongest}, rows={"factors": tests}, table=tests, words={"factor": best["factor"]}
    )


def by_nine(rows: pd.DataFrame) -> Result:
    """The second study's nine factors."""
    return by_tests(rows.assign(log_embed=rows["embed"]), second.FACTORS)


@CLAIM.finding(
    "second", primary=MOVED, trial=Trial(of_second, by_nine, "recipe", A_LINE), evidence=NURSERY, needs=LEAST
)
def of_drawn_recipes(evidence: Evidence) -> Result:
    """Does a factor of recipes that were drawn at random move the gain?"""
    rows = of_second(evidence)
    return with_ratios(by_nine(rows), rows, second.FACTORS)


def with_ratios(found: Result, rows: pd.DataFrame, factors: dict[str, str]) -> Result:
    """The same, headed by the strongest factor's ratio of geometric mean gains."""
    table = together.contrasts(rows, factors)
    own = table.set_index("factor").loc[found.words["factor"]]
    interval = f"95% t interval, recipes as the unit, Bonferroni over {len(table)} factors"
    ratio = replace(
        found.quantities[STRONGEST], value=own["ratio"], lower=own["lower"], upper=own["upper"], interval=interval
    )
    words = {"factor": own.name, "what": own["what"], "of_variance": own["share"], "tests": len(table)}
    named = table.assign(row=table["factor"].replace(IN_WORDS) + ": " + table["what"])
    xlabel = "ratio of geometric mean gains"
    return replace(
        found,
        quantities={RATIO: ratio, **found.quantities},
        n_models=int(rows["n"].sum()),
        table=table,
        words=words,
        draw=drawing(forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x"),
    )


def by_factors(rows: pd.DataFrame) -> Result:
    """Every factor against the variance between recipes, and its contrasts."""
    given = effects.covariates(rows)
    tests, table = effects.factor_tests(rows, given), effects.ratios(rows, given, level=LEVEL)
    strongest = tests.loc[tests["p"].idxmin()]
    own = table[table["factor"] == strongest["factor"]]
    most = own.loc[np.log(own["ratio"]).abs().idxmax()]
    interval = f"95% t interval by the variance between recipes, Bonferroni over {len(table)} contrasts"
    ratio = Estimate(most["ratio"], most["lower"], most["upper"], interval, strongest["p_holm"])
    return Result.of(rows, {RATIO: ratio}, rows={"factors": tests, "contrasts": table}, words={"most": most})


@CLAIM.finding(
    "effect",
    primary=Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), Each("contrasts", STILL)),
    robustness=MOVES,
    trial=Trial(read, by_factors, "recipe", A_FACTOR),
    **CONTROLLED,
)
def effect(evidence: Evidence) -> Result:
    """Does a factor of the recipe move the gain?"""
    found, fit = by_factors(read(evidence)), recipe_fit(evidence)
    drawn = effects.pooled_levels(fit, models(evidence)) if fit is not None else {}
    tests, table = found.rows["factors"], found.rows["contrasts"]
    named = table.assign(row=table["factor"] + ": " + table["what"])
    xlabel = "ratio of geometric mean gains"
    return replace(
        found,
        table=effects.with_posterior(table, drawn, level=LEVEL) if drawn else table,
        draw=drawing(forest, named, label="row", estimate="ratio", null=1.0, xlabel=xlabel, log="x"),
        fit=fit,
        statements={
            MOVES.statement.format(factor=name): np.ptp(levels, axis=-1) > np.log1p(NEGLIGIBLE)
            for name, levels in (effects.by_factor(drawn) if drawn else {}).items()
        },
        words={
            **found.words,
            "tests": tests.to_dict("records"),
            "moved": tests[tests["p_holm"] <= ALPHA].to_dict("records"),
        },
    )


def by_levels(rows: pd.DataFrame) -> Result:
    """Mean gains at the levels of every factor; of a factor the surest above and the surest below."""
    table = effects.level_gains(rows, effects.covariates(rows), level=LEVEL)
    by = table.groupby("factor", sort=False)
    up, down = (table.loc[place].set_index("factor") for place in (by["lower"].idxmax(), by["upper"].idxmin()))
    ends = {"highest": up["gain"], "highest_lower": up["lower"], "lowest": down["gain"], "lowest_upper": down["upper"]}
    low = table.loc[table["gain"].idxmin()]
    interval = f"95% t interval by the variance between recipes, Bonferroni over {len(table)} levels"
    lowest = Estimate(low["gain"], low["lower"], low["upper"], interval)
    return Result.of(
        rows, {LOWEST: lowest}, rows={"factors": pd.DataFrame(ends).reset_index(), "levels": table}, table=table
    )


@CLAIM.finding(
    "sign",
    primary=Decide(Some("factors", APART), ONE_SIDE),
    robustness=FLIPS,
    trial=Trial(read, by_levels, "recipe", A_FACTOR),
    **CONTROLLED,
)
def sign(evidence: Evidence) -> Result:
    """Do levels of a factor have mean gains on both sides of 1?"""
    rows, fit = models(evidence), recipe_fit(evidence)
    drawn = effects.by_factor(effects.pooled_levels(fit, rows)) if fit is not None else {}
    flips = {name: effects.both_sides(levels) for name, levels in drawn.items()}
    chances = {name: float(truth.mean()) for name, truth in flips.items()}
    found = by_levels(read(evidence))
    table, factors = found.rows["levels"], found.rows["factors"].assign(p_flip=lambda f: f["factor"].map(chances))
    apart = (factors["highest_lower"] > 1) & (factors["lowest_upper"] < 1)
    return replace(
        found,
        rows={"factors": factors, "levels": table},
        fit=fit,
        statements={FLIPS.statement.format(factor=name): truth for name, truth in flips.items()},
        words={
            "low": table.loc[table["gain"].idxmin()],
            "high": table.loc[table["gain"].idxmax()],
            "sets": list(factors.loc[apart, "factor"]),
            "dampen": int((rows["log_gain"] < 0).sum()),
            "flips": chances,
        },
    )


def of_ratios(evidence: Evidence) -> pd.DataFrame:
    """Models whose ratio of W_V and W_O was measured, with its log."""
    rows = read_by_tests(models(evidence), "log_L2", "log_rho2", "wv_wo_ratio")
    rows = rows[rows["wv_wo_ratio"].notna()].reset_index(drop=True)
    return rows.assign(log_ratio=np.log(rows["wv_wo_ratio"].astype("float64")))


def by_split(rows: pd.DataFrame) -> Result:
    """Share of the recipe's effect that goes through the ratio."""
    given = effects.covariates(rows)
    (share, slope), half = effects.split(rows, given), effects.half_width(rows, given, LEVEL)
    estimate = Estimate(share, share - half, share + half, "95% jackknife t interval over recipes")
    return Result.of(rows, {SHARE: estimate}, table=None, words={"doubled": 2**slope})


@CLAIM.finding(
    "mediator",
    primary=Above(SHARE, MOST),
    trial=Trial(of_ratios, by_split, "recipe", worlds_of_path("log_gain", "x corpus", "log_ratio", SIZE)),
    **CONTROLLED,
)
def mediator(evidence: Evidence) -> Result:
    """Does most of the recipe's effect go through the ratio of W_V and W_O?"""
    rows = of_ratios(evidence)
    found = by_split(rows)
    tests = effects.factor_tests(rows, effects.covariates(rows), "log_ratio")
    return replace(found, words={**found.words, "moves": list(tests.loc[tests["p_holm"] <= ALPHA, "factor"])})


def of_both(evidence: Evidence) -> pd.DataFrame:
    """Recipes of both studies, the log gain at one shape."""
    HALF.of(second.ends(evidence))
    rows = together.recipes(together.models(evidence))
    return with_number(rows.assign(corpus=(rows["corpus"] == "english").astype(float)), "corpus")


def by_shared(rows: pd.DataFrame) -> Result:
    """The factors that both studies have."""
    return by_tests(rows.assign(corpus=rows["embed"]), LEVELS | {"corpus": "number"})


@CLAIM.finding(
    "together", primary=MOVED, trial=Trial(of_both, by_shared, "recipe", A_LINE), evidence=NURSERY, needs=LEAST
)
def of_both_studies(evidence: Evidence) -> Result:
    """Does a factor that both studies have move the gain?"""
    rows = of_both(evidence)
    named = rows.assign(corpus=np.where(rows["corpus"] > 0, "english", "synthetic"))
    return with_ratios(by_shared(rows), named, LEVELS)


if __name__ == "__main__":
    CLAIM.main()
