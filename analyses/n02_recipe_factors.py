"""N02: which part of the recipe moves the gain, by how much, and can any of it put the gain on the other side of 1?"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Evidence, Inference, Result, Trial
from thermostats.claims.rule import Above, AtLeast, Decide, Each, Pick, Posterior, Some, V
from thermostats.claims.worlds import SPARE, searches_among, worlds_in_groups, worlds_of_line, worlds_of_path
from thermostats.modelling.draws import Array
from thermostats.modelling.fit import Fit
from thermostats.studies.nursery import crossed_factors, languages, second, third, together
from thermostats.studies.nursery import factor_effects as effects
from thermostats.studies.nursery.crossed_factors import CORPUS
from thermostats.studies.nursery.factor_effects import RATIO, SHARE, by_factors, by_levels, by_split
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, fit_recipes, judged, read_by_tests
from thermostats.studies.nursery.strongest import (
    ALPHA,
    MOVED,
    by_all_else,
    by_corpus_and_others,
    by_nine,
    by_others,
    by_shared,
    headed,
    of_ratios,
    with_ratios,
)
from thermostats.tables.vocabulary import NURSERY

SEED = 102
MOST = 0.5
NEGLIGIBLE = 0.05
"""As in C11."""
PRIMARY = "penultimate_gain"
STILL = (V(RATIO).lower > 1 / (1 + NEGLIGIBLE)) & (V(RATIO).upper < 1 + NEGLIGIBLE)
MOVES = Posterior("levels of {factor} differ by more than 5%", pick=Pick("factors", smallest="p"))
FLIPS = Posterior("levels of {factor} have mean gains on both sides of 1", pick=Pick("factors", largest="p_flip"))
APART = (V("highest").lower > 1) & (V("lowest").upper < 1)
ONE_SIDE = Each("levels", V("gain").interval > 1) | Each("levels", V("gain").interval < 1)

SIZE, BETWEEN = 0.55, 0.2
"""What would be of interest: a factor with 30% of the variance (r = 0.55; the null is none), most of a recipe's effect
through a ratio that has as much, or none of it; recipes differ by 20% whatever their factors."""
A_FACTOR = worlds_in_groups("log_gain", "x corpus", SIZE, BETWEEN)
EMBEDDED = worlds_in_groups("log_gain", "log_embed", SIZE, BETWEEN)
MEDIATED = worlds_of_path("log_gain", "x corpus", "log_ratio", SIZE)
DRAWN = partial(searches_among, ordered=False, group="recipe")
"""Recipes were drawn independently, so errors of neighbours along a factor are no nuisance."""

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """Models that the penultimate gain is judged by."""
    return effects.with_curves(ENOUGH.of(judged(final(evidence), PRIMARY)))


@CLAIM.shared
def recipe_fit(evidence: Evidence) -> Fit:
    """C04's model with recipes as heritage; architecture stands with geometry, so that only the seed's part is left."""
    rows = models(evidence)
    others = [name for name in effects.covariates(rows) if name != "log_d"]
    return fit_recipes(rows, PRIMARY, geometry=others, scale=["log_d"], seed=SEED)


@CLAIM.shared
def pooled(evidence: Evidence) -> dict[str, Array]:
    """Its draws of the mean log gain at the levels of every factor."""
    return effects.pooled_levels(recipe_fit(evidence), models(evidence))


def read(evidence: Evidence) -> pd.DataFrame:
    """What tests read of them."""
    return read_by_tests(models(evidence), "log_L2", "log_rho2")


LEAST = AtLeast(groups=16)
"""Half of the second study's recipes."""
RECIPES: dict[str, Any] = {"primary": MOVED, "evidence": NURSERY, "needs": LEAST}
"""What findings over recipes of the second study declare."""


def on_a_line(
    rows: Callable[..., pd.DataFrame], test: Callable[[pd.DataFrame], Result], along: str, **more: Any
) -> Trial:
    """A trial over recipes, one row each, along a factor."""
    worlds = worlds_of_line("log_gain", along, SIZE)
    return Trial(rows, test, "recipe", worlds, searches=DRAWN(worlds, along=along, group=""), **more)


def of_second(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the second study, means over shapes."""
    second.enough(evidence)
    return LEAST.of(second.recipes(evidence))


def of_both(evidence: Evidence) -> pd.DataFrame:
    """Recipes of both studies, the log gain at one shape."""
    rows = together.recipes(together.models(evidence))
    return rows.assign(english=(rows["corpus"] == "english").astype(float))


def of_third(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study in every corpus, means over shapes."""
    return third.recipes(evidence)


def of_third_recipes(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study, means over corpora and shapes."""
    return crossed_factors.means(third.recipes(evidence))


@CLAIM.finding(
    "third",
    primary=MOVED,
    trial=Trial(of_third, by_corpus_and_others, "recipe", EMBEDDED, searches=DRAWN(EMBEDDED, along="log_embed")),
    **third.STUDY,
)
def of_crossed_recipes(evidence: Evidence) -> Result:
    """Does the corpus, or a factor of recipes that were each trained on every corpus, move the gain?"""
    rows = of_third(evidence)
    ends = third.enough(evidence)
    words = {
        "below": int((ends["log_gain"] < 0).sum()),
        "prompts": third.prompts_of_others(ends).to_dict("records"),
        "means": {third.IN_WORDS[c]: float(np.exp(y)) for c, y in crossed_factors.wide(rows).mean().items()},
        "on": on_each_set(evidence, CORPUS),
        "without": {third.IN_WORDS[name]: p for name, p in crossed_factors.without_each(rows).items()},
    }
    return headed(by_corpus_and_others(rows), rows, crossed_factors.contrasts(rows, corpus=True)).adding(words=words)


def on_each_set(evidence: Evidence, factor: str) -> dict[str, float]:
    """p of a factor with all models on the prompts of one corpus, each in turn."""
    found = {}
    for corpus, column in third.ON.items():
        tests = crossed_factors.tests(third.recipes(evidence, column), corpus=True)
        found[third.IN_WORDS[corpus]] = float(tests.set_index("factor").loc[factor, "p"])
    return found


@CLAIM.finding(
    "third_given_corpus",
    primary=MOVED,
    trial=on_a_line(of_third_recipes, by_all_else, "log_embed", larger="recipe"),
    **third.STUDY,
)
def of_crossed_recipes_of_a_corpus(evidence: Evidence) -> Result:
    """Does anything but the corpus move the gain, given the corpus?"""
    rows, table = of_third(evidence), crossed_factors.contrasts(of_third(evidence), corpus=False)
    found = by_all_else(of_third_recipes(evidence))
    words = {
        "least": float(found.rows["factors"]["p"].min()),
        "each": crossed_factors.in_each(rows, found.words["factor"]).to_dict("records"),
        "on": on_each_set(evidence, found.words["factor"]),
    }
    return headed(found, rows, table).adding(words=words)


@CLAIM.finding("second", trial=on_a_line(of_second, by_nine, "log_embed"), **RECIPES)
def of_drawn_recipes(evidence: Evidence) -> Result:
    """Does a factor of recipes that were drawn at random move the gain?"""
    rows = of_second(evidence)
    words = {"languages": languages.by_language(evidence).to_dict("records"), **languages.in_second(evidence)}
    return with_ratios(by_nine(rows), rows, second.FACTORS).adding(words=words)


@CLAIM.finding("given_corpus", trial=on_a_line(of_second, by_others, "log_embed"), **RECIPES)
def of_recipes_of_a_corpus(evidence: Evidence) -> Result:
    """Does anything but the corpus move the gain, given the corpus?"""
    rows = of_second(evidence)
    found = by_others(rows)
    least = float(found.rows["factors"]["p"].min())
    return with_ratios(found, rows, second.GIVEN_CORPUS, "corpus").adding(words={"least": least})


@CLAIM.finding(
    "effect",
    primary=Decide(Some("factors", V("F").p <= ALPHA, adjust="holm"), Each("contrasts", STILL)),
    robustness=MOVES,
    trial=Trial(read, by_factors, "recipe", A_FACTOR, searches=DRAWN(A_FACTOR, along="x corpus")),
    **CONTROLLED,
)
def effect(evidence: Evidence) -> Result:
    """Does a factor of the recipe move the gain?"""
    found, drawn = by_factors(read(evidence)), pooled(evidence)
    tests, table = found.rows["factors"], found.rows["contrasts"]
    return replace(
        found,
        table=effects.with_posterior(table, drawn),
        draw=of_ratios(table),
        inference=Inference(
            recipe_fit(evidence),
            statements={
                MOVES.statement.format(factor=name): np.ptp(levels, axis=-1) > np.log1p(NEGLIGIBLE)
                for name, levels in drawn.items()
            },
        ),
        words={
            **found.words,
            "tests": tests.to_dict("records"),
            "moved": tests[tests["p_holm"] <= ALPHA].to_dict("records"),
        },
    )


@CLAIM.finding(
    "sign",
    primary=Decide(Some("factors", APART), ONE_SIDE),
    robustness=FLIPS,
    trial=Trial(
        read,
        by_levels,
        "recipe",
        A_FACTOR,
        searches=DRAWN(A_FACTOR, along="x corpus", outcome="log_gain", mean=(-1.0, 1.0)),
    ),
    **CONTROLLED,
)
def sign(evidence: Evidence) -> Result:
    """Do levels of a factor have mean gains on both sides of 1?"""
    flips = {name: effects.both_sides(levels) for name, levels in pooled(evidence).items()}
    chances = {name: float(truth.mean()) for name, truth in flips.items()}
    found = by_levels(read(evidence))
    table, factors = found.rows["levels"], found.rows["factors"].assign(p_flip=lambda f: f["factor"].map(chances))
    apart = (factors["highest_lower"] > 1) & (factors["lowest_upper"] < 1)
    return replace(
        found,
        rows={"factors": factors, "levels": table},
        inference=Inference(
            recipe_fit(evidence),
            statements={FLIPS.statement.format(factor=name): truth for name, truth in flips.items()},
        ),
        words={
            "low": table.loc[table["gain"].idxmin()],
            "high": table.loc[table["gain"].idxmax()],
            "sets": list(factors.loc[apart, "factor"]),
            "dampen": int((models(evidence)["log_gain"] < 0).sum()),
            "flips": chances,
        },
    )


def with_norms(evidence: Evidence) -> pd.DataFrame:
    """Models whose ratio of W_V and W_O was measured, with its log."""
    rows = read_by_tests(models(evidence), "log_L2", "log_rho2", "wv_wo_ratio")
    rows = rows[rows["wv_wo_ratio"].notna()].reset_index(drop=True)
    return rows.assign(log_ratio=np.log(rows["wv_wo_ratio"].astype("float64")))


@CLAIM.finding(
    "mediator",
    primary=Above(SHARE, MOST),
    trial=Trial(with_norms, by_split, "recipe", MEDIATED, searches=DRAWN(MEDIATED, along="x corpus", effort=SPARE)),
    **CONTROLLED,
)
def mediator(evidence: Evidence) -> Result:
    """Does most of the recipe's effect go through the ratio of W_V and W_O?"""
    rows = with_norms(evidence)
    found = by_split(rows)
    tests = effects.factor_tests(rows, effects.covariates(rows), "log_ratio")
    return replace(found, words={**found.words, "moves": list(tests.loc[tests["p_holm"] <= ALPHA, "factor"])})


@CLAIM.finding("together", trial=on_a_line(of_both, by_shared, "english"), **RECIPES)
def of_both_studies(evidence: Evidence) -> Result:
    """Does a factor that both studies have move the gain?"""
    rows = of_both(evidence)
    return with_ratios(by_shared(rows), rows, together.LEVELS)


if __name__ == "__main__":
    CLAIM.main()
