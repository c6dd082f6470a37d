"""N05: rate and weight decay set the spectra of W_V and W_O as one law says, and the gain follows
the spectra."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import Case, Claim, Evidence, Result, Trial
from thermostats.claims.rule import NEVER, AtLeast, Decide, V, Within
from thermostats.claims.worlds import build_line_worlds
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.third_tests import MEDIATION, THROUGH_SPECTRA
from thermostats.studies.nursery.training_choices import (
    DECAY,
    EXPONENTS,
    LAW,
    MARGIN,
    RATE,
    build_exponent_worlds,
)
from thermostats.tables.schemas import NURSERY

RECIPES = AtLeast(groups=8)
"""Recipes with decay whose steps have a set size."""
R = float(np.sqrt(0.5))
MATRICES = (Case("log_wv", "‖W_V‖"), Case("log_wo", "‖W_O‖"))
OUTCOMES = {"log_wv": "third_wv", "log_wo": "third_wo"}
"""Spectra by the names that their residuals have."""
FOLLOWS = Within(RATE, LAW - MARGIN, LAW + MARGIN) & Within(DECAY, LAW - MARGIN, LAW + MARGIN)
INDIRECT = V(THROUGH_SPECTRA)
CLAIM = Claim.read(__file__)
MEDIATED = build_line_worlds(
    "log_gain", "log_norm", R, ordered=False, group="", measured="third_mediated_gain"
)


@CLAIM.shared
def select_recipes(evidence: Evidence) -> pd.DataFrame:
    """Means of the third study's recipes with decay whose steps have a set size, means over the
    corpora."""
    return RECIPES.check_rows(third.group_decay_recipes(third.require_enough(evidence)))


def select_spectra(evidence: Evidence, matrix: Case) -> pd.DataFrame:
    """Recipes of the third study with the spectrum of one matrix."""
    rows = select_recipes(evidence)
    return rows.assign(spectrum=rows[matrix.id])


def build_trial(matrix: Case) -> Trial:
    """The test of a matrix in worlds whose errors go as far as residuals of its spectrum allow."""
    worlds = build_exponent_worlds(OUTCOMES[matrix.id])
    return Trial(select_spectra, EXPONENTS, "recipe", worlds, "recipe")


@CLAIM.finding(
    "third", primary=FOLLOWS, over=MATRICES, trial=build_trial, evidence=NURSERY, needs=RECIPES
)
def judge_exponents(evidence: Evidence, matrix: Case) -> Result:
    """Does the spectral norm go with rate and with decay as the law says, in recipes trained on
    four corpora each?"""
    by = {
        third.IN_WORDS[str(corpus)]: EXPONENTS(
            third.group_decay_recipes(own).assign(spectrum=lambda f: f[matrix.id])
        ).quantities
        for corpus, own in third.require_enough(evidence).groupby("trained_on")
    }
    return show_exponents(select_spectra(evidence, matrix), matrix).adding(words={"by": by})


def show_exponents(rows: pd.DataFrame, matrix: Case) -> Result:
    """The exponents with their figure and table."""
    draw = partial(glance.draw_spectra, rows, what=matrix.words)
    table = rows[["recipe", "optimiser", "n", "log_rate", "log_decay", "log_ratio", "spectrum"]]
    return replace(EXPONENTS(rows), n_models=int(rows["n"].sum()), table=table, draw=draw)


THROUGH = Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER)


@CLAIM.finding(
    "third_mediation",
    primary=THROUGH,
    trial=Trial(select_recipes, MEDIATION, "recipe", MEDIATED, version=2),
    evidence=NURSERY,
    needs=RECIPES,
)
def judge_mediation(evidence: Evidence) -> Result:
    """Does the gain follow the spectra in recipes trained on four corpora each?"""
    rows = third.require_enough(evidence)
    on = {
        third.IN_WORDS[corpus]: MEDIATION(
            third.group_decay_recipes(rows.assign(log_gain=rows[column]))
        ).headline
        for corpus, column in third.ON.items()
    }
    return show_mediation(select_recipes(evidence)).adding(words={"on": on})


def show_mediation(rows: pd.DataFrame) -> Result:
    """The effect through the spectra with its table."""
    table = rows[["recipe", "optimiser", "n", "log_ratio", "log_norm", "log_gain"]]
    return replace(MEDIATION(rows), n_models=int(rows["n"].sum()), table=table)


if __name__ == "__main__":
    CLAIM.main()
