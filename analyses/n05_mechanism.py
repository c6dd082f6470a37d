"""N05: rate and weight decay set the spectra of W_V and W_O as one law says, and the gain follows
the spectra."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import Case, Claim, Estimate, Evidence, OneByOne, Result, Trial
from thermostats.claims.rule import NEVER, AtLeast, Decide, V, Within
from thermostats.claims.worlds import worlds_of_line
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.study_rows import jackknife
from thermostats.studies.nursery.third_tests import mediation
from thermostats.studies.nursery.training_choices import DECAY, EXPONENTS, LAW, MARGIN, RATE, worlds
from thermostats.tables.schemas import NURSERY

RECIPES = AtLeast(groups=8)
"""Recipes with decay whose steps have a set size."""
R = float(np.sqrt(0.5))
MATRICES = (Case("log_wv", "‖W_V‖"), Case("log_wo", "‖W_O‖"))
FOLLOWS = Within(RATE, LAW - MARGIN, LAW + MARGIN) & Within(DECAY, LAW - MARGIN, LAW + MARGIN)
INDIRECT = V("effect through the spectra")
CLAIM = Claim.read(__file__)
MEDIATED = worlds_of_line("log_gain", "log_norm", R, ordered=False, group="")


@CLAIM.shared
def crossed(evidence: Evidence) -> pd.DataFrame:
    """Means of the third study's recipes with decay whose steps have a set size, means over the
    corpora."""
    return RECIPES.of(third.by_recipe(third.enough(evidence)))


def of_third(evidence: Evidence, matrix: Case) -> pd.DataFrame:
    """Recipes of the third study with the spectrum of one matrix."""
    rows = crossed(evidence)
    return rows.assign(spectrum=rows[matrix.id])


@CLAIM.finding(
    "third",
    primary=FOLLOWS,
    over=MATRICES,
    trial=Trial(of_third, EXPONENTS, "recipe", worlds(), "recipe"),
    evidence=NURSERY,
    needs=RECIPES,
)
def of_crossed_recipes(evidence: Evidence, matrix: Case) -> Result:
    """Does the spectral norm go with rate and with decay as the law says, in recipes trained on
    four corpora each?"""
    by = {
        third.IN_WORDS[str(corpus)]: EXPONENTS(
            third.by_recipe(own).assign(spectrum=lambda f: f[matrix.id])
        ).quantities
        for corpus, own in third.enough(evidence).groupby("trained_on")
    }
    return with_figure(of_third(evidence, matrix), matrix).adding(words={"by": by})


def with_figure(rows: pd.DataFrame, matrix: Case) -> Result:
    """The exponents with their figure and table."""
    draw = partial(glance.spectra, rows, what=matrix.words)
    table = rows[["recipe", "optimiser", "n", "log_rate", "log_decay", "log_ratio", "spectrum"]]
    return replace(EXPONENTS(rows), n_models=int(rows["n"].sum()), table=table, draw=draw)


def by_mediation(rows: pd.DataFrame) -> Result:
    """What of the effect on the gain goes through the spectra, recipes left out for its
    interval."""
    whole, _, half = jackknife(rows["recipe"], lambda kept: third.mediated(rows, kept)[0])
    effect = Estimate(
        float(whole[0]),
        float(whole[0] - half[0]),
        float(whole[0] + half[0]),
        "95% jackknife t interval",
    )
    return Result.of(rows, {INDIRECT.name: effect}, words={"vanishes": third.mediated(rows)[1]})


THROUGH = Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER)


@CLAIM.finding(
    "third_mediation",
    primary=THROUGH,
    trial=Trial(
        crossed,
        OneByOne(by_mediation, partial(mediation, quantity=INDIRECT.name)),
        "recipe",
        MEDIATED,
        version=2,
    ),
    evidence=NURSERY,
    needs=RECIPES,
)
def mediation_of_crossed_recipes(evidence: Evidence) -> Result:
    """Does the gain follow the spectra in recipes trained on four corpora each?"""
    rows = third.enough(evidence)
    on = {
        third.IN_WORDS[corpus]: by_mediation(
            third.by_recipe(rows.assign(log_gain=rows[column]))
        ).headline
        for corpus, column in third.ON.items()
    }
    return mediates(crossed(evidence)).adding(words={"on": on})


def mediates(rows: pd.DataFrame) -> Result:
    """The effect through the spectra with its table."""
    table = rows[["recipe", "optimiser", "n", "log_ratio", "log_norm", "log_gain"]]
    return replace(by_mediation(rows), n_models=int(rows["n"].sum()), table=table)


if __name__ == "__main__":
    CLAIM.main()
