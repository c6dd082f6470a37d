"""N02: which part of the recipe moves the gain, and by how much?"""

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import Claim, Evidence, Result, Trial
from thermostats.claims.worlds import build_line_worlds
from thermostats.studies.nursery import third, third_tests
from thermostats.studies.nursery.third_tests import (
    CORPUS,
    EVERY_FACTOR,
    MOVED,
    OTHER_FACTORS,
    add_headline,
)

SIZE, BETWEEN = 0.55, 0.2
"""What would be of interest: a factor with 30% of the variance (r = 0.55; the null is none);
recipes differ by 20% whatever their factors."""
DRAWN = partial(build_line_worlds, "log_gain", "log_embed", SIZE, ordered=False)
"""Recipes were drawn independently, so errors of neighbours along a factor are no nuisance."""

CLAIM = Claim.read(__file__)


def select_corpus_recipes(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study in every corpus, means over shapes."""
    return third.build_recipes(evidence)


def select_recipes(evidence: Evidence) -> pd.DataFrame:
    """Recipes of the third study, means over corpora and shapes."""
    return third.combine_corpora(third.build_recipes(evidence))


@CLAIM.finding(
    "third",
    primary=MOVED,
    trial=Trial(
        select_corpus_recipes,
        EVERY_FACTOR,
        "recipe",
        DRAWN(group="recipe", measured="third_recipe_gain"),
    ),
    **third.STUDY,
)
def judge_crossed_recipes(evidence: Evidence) -> Result:
    """Does the corpus, or a factor of recipes that were each trained on every corpus, move the
    gain?"""
    rows = select_corpus_recipes(evidence)
    ends = third.require_enough(evidence)
    words = {
        "below": int((ends["log_gain"] < 0).sum()),
        "prompts": third.compare_prompt_sets(ends).to_dict("records"),
        "means": {
            third.IN_WORDS[c]: float(np.exp(y))
            for c, y in third.build_corpus_matrix(rows).mean().items()
        },
        "on": evaluate_prompt_sets(evidence, CORPUS),
        "without": {
            third.IN_WORDS[name]: p for name, p in third_tests.drop_each_corpus(rows).items()
        },
    }
    return add_headline(
        EVERY_FACTOR(rows), rows, third_tests.compare_factors(rows, corpus=True)
    ).adding(words=words)


def evaluate_prompt_sets(evidence: Evidence, factor: str) -> dict[str, float]:
    """p of a factor with all models on the prompts of one corpus, each in turn."""
    found = {}
    for corpus, column in third.ON.items():
        tests = third_tests.run_tests(third.build_recipes(evidence, column), corpus=True)
        found[third.IN_WORDS[corpus]] = float(tests.set_index("factor").loc[factor, "p"])
    return found


@CLAIM.finding(
    "third_given_corpus",
    primary=MOVED,
    trial=Trial(
        select_recipes,
        OTHER_FACTORS,
        "recipe",
        DRAWN(group="", measured="third_recipe_mean"),
        "recipe",
    ),
    **third.STUDY,
)
def judge_corpus_recipes(evidence: Evidence) -> Result:
    """Does anything but the corpus move the gain, given the corpus?"""
    rows = select_corpus_recipes(evidence)
    table = third_tests.compare_factors(select_corpus_recipes(evidence), corpus=False)
    found = OTHER_FACTORS(select_recipes(evidence))
    words = {
        "least": float(found.rows["factors"]["p"].min()),
        "each": third_tests.compare_each_corpus(rows, found.words["factor"]).to_dict("records"),
        "on": evaluate_prompt_sets(evidence, found.words["factor"]),
    }
    return add_headline(found, rows, table).adding(words=words)


if __name__ == "__main__":
    CLAIM.main()
