"""N05: weight decay and rate set the spectra of W_V and W_O, and the gain follows the spectra."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.claim import Case, Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import NEVER, AtLeast, Decide, V
from thermostats.claims.worlds import worlds_of_exponent, worlds_of_line
from thermostats.studies.nursery import glance
from thermostats.studies.nursery.rows import by_t, jackknife, slope_within
from thermostats.studies.nursery.second import by_recipe, enough, mediated
from thermostats.tables.vocabulary import NURSERY

LOW, HIGH = 0.5, 1.5
"""A slope of 1 is what a balance of rate and decay comes to; at half of it the spectra do not follow."""
SCATTER = 0.3
"""SD of what else differs between recipes, as in the design's simulation (rules.csv)."""
RECIPES = AtLeast(groups=8)
"""Recipes with decay whose steps have a set size."""
MATRICES = (Case("log_wv", "‖W_V‖"), Case("log_wo", "‖W_O‖"))
SLOPE, INDIRECT = V("slope on log √(rate/decay)"), V("effect through the spectra")
CLAIM = Claim.read(__file__)


@CLAIM.shared
def recipes(evidence: Evidence) -> pd.DataFrame:
    """Means of recipes with decay whose steps have a set size."""
    return RECIPES.of(by_recipe(enough(evidence)))


def of_matrix(evidence: Evidence, matrix: Case) -> pd.DataFrame:
    """The same with the spectrum of one matrix."""
    rows = recipes(evidence)
    return rows.assign(spectrum=rows[matrix.id])


def by_line(rows: pd.DataFrame) -> Result:
    """Least squares of the log of the spectral norm on log √(rate/decay)."""
    found = slope_within(rows, "spectrum", "log_ratio", "optimiser")
    return Result.of(rows, {SLOPE.name: by_t(*found, "95% t interval over recipes")})


@CLAIM.finding(
    "spectra",
    primary=Decide((SLOPE.lower > LOW) & (SLOPE.upper < HIGH), SLOPE.upper < LOW),
    over=MATRICES,
    trial=Trial(of_matrix, by_line, "recipe", worlds_of_exponent("spectrum", "log_ratio", 1.0, 0.5, SCATTER)),
    evidence=NURSERY,
    needs=RECIPES,
)
def spectra(evidence: Evidence, matrix: Case) -> Result:
    """Does the spectral norm follow √(rate/decay)?"""
    rows = of_matrix(evidence, matrix)
    draw = partial(glance.spectra, rows, what=matrix.words)
    table = rows[["recipe", "optimiser", "n", "log_ratio", "spectrum"]]
    return replace(by_line(rows), n_models=int(rows["n"].sum()), table=table, draw=draw)


def by_mediation(rows: pd.DataFrame) -> Result:
    """What of the effect on the gain goes through the spectra, recipes left out for its interval."""
    whole, _, half = jackknife(rows["recipe"], lambda kept: mediated(rows, kept)[0])
    effect = Estimate(float(whole[0]), float(whole[0] - half[0]), float(whole[0] + half[0]), "95% jackknife t interval")
    return Result.of(rows, {INDIRECT.name: effect}, words={"vanishes": mediated(rows)[1]})


@CLAIM.finding(
    "mediation",
    primary=Decide((INDIRECT.lower > 0) | (INDIRECT.upper < 0), NEVER),
    trial=Trial(recipes, by_mediation, "recipe", worlds_of_line("log_gain", "log_norm", float(np.sqrt(0.5)))),
    evidence=NURSERY,
    needs=RECIPES,
)
def mediation(evidence: Evidence) -> Result:
    """Does the gain follow the spectra?"""
    rows = recipes(evidence)
    table = rows[["recipe", "optimiser", "n", "log_ratio", "log_norm", "log_gain"]]
    return replace(by_mediation(rows), n_models=int(rows["n"].sum()), table=table)


if __name__ == "__main__":
    CLAIM.main()
