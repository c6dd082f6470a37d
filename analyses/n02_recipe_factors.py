"""N02: which part of the recipe moves the gain, and by how much?"""

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Evidence, OneByOne, Result, Trial
from thermostats.claims.worlds import worlds_of_line
from thermostats.studies.nursery import third, third_tests
from thermostats.studies.nursery.third_tests import (
    CORPUS,
    MOVED,
    by_all_else,
    by_corpus_and_others,
    factors,
    factors_and_corpus,
    headed,
)

SIZE, BETWEEN = 0.55, 0.2
"""What would be of interest: a factor with 30% of the variance (r = 0.55; the null is none);
recipes differ by 20% whatever their factors."""
DRAWN = partial(worlds_of_line, "log_gain", "log_embed", SIZE, ordered=False)
"""Recipes were drawn independently, so errors of neighbours along a factor are no nuisance."""

CLAIM = Claim.read(__file__)


def of_third(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study in every corpus, means over shapes."""
    return third.recipes(evidence)


def of_third_recipes(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study, means over corpora and shapes."""
    return third.over_corpora(third.recipes(evidence))


@CLAIM.finding(
    "third",
    primary=MOVED,
    trial=Trial(
        of_third,
        OneByOne(by_corpus_and_others, factors_and_corpus),
        "recipe",
        DRAWN(group="recipe"),
    ),
    **third.STUDY,
)
def of_crossed_recipes(evidence: Evidence) -> Result:
    """Does the corpus, or a factor of recipes that were each trained on every corpus, move the
    gain?"""
    rows = of_third(evidence)
    ends = third.enough(evidence)
    words = {
        "below": int((ends["log_gain"] < 0).sum()),
        "prompts": third.prompts_of_others(ends).to_dict("records"),
        "means": {third.IN_WORDS[c]: float(np.exp(y)) for c, y in third.wide(rows).mean().items()},
        "on": on_each_set(evidence, CORPUS),
        "without": {third.IN_WORDS[name]: p for name, p in third_tests.without_each(rows).items()},
    }
    return headed(
        by_corpus_and_others(rows), rows, third_tests.contrasts(rows, corpus=True)
    ).adding(words=words)


def on_each_set(evidence: Evidence, factor: str) -> dict[str, float]:
    """p of a factor with all models on the prompts of one corpus, each in turn."""
    found = {}
    for corpus, column in third.ON.items():
        tests = third_tests.tests(third.recipes(evidence, column), corpus=True)
        found[third.IN_WORDS[corpus]] = float(tests.set_index("factor").loc[factor, "p"])
    return found


@CLAIM.finding(
    "third_given_corpus",
    primary=MOVED,
    trial=Trial(
        of_third_recipes, OneByOne(by_all_else, factors), "recipe", DRAWN(group=""), "recipe"
    ),
    **third.STUDY,
)
def of_crossed_recipes_of_a_corpus(evidence: Evidence) -> Result:
    """Does anything but the corpus move the gain, given the corpus?"""
    rows = of_third(evidence)
    table = third_tests.contrasts(of_third(evidence), corpus=False)
    found = by_all_else(of_third_recipes(evidence))
    words = {
        "least": float(found.rows["factors"]["p"].min()),
        "each": third_tests.in_each(rows, found.words["factor"]).to_dict("records"),
        "on": on_each_set(evidence, found.words["factor"]),
    }
    return headed(found, rows, table).adding(words=words)


if __name__ == "__main__":
    CLAIM.main()
