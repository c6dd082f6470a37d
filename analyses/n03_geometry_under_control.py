"""N03: depth and head density, set by design, move the gain as the study says."""

import pandas as pd

from thermostats.claims.claim import Case, Claim, Evidence, Result, Trial
from thermostats.studies.nursery import third
from thermostats.studies.nursery.third_tests import (
    CROSSED_SLOPES,
    IN_EVERY,
    build_slope_worlds,
    show_corpus_slopes,
)

CLAIM = Claim.read(__file__)
TERMS = (
    Case("depth", third.WORDS["log_L"], "log_L"),
    Case("density", third.WORDS["log_rho"], "log_rho"),
    Case("shape", third.WORDS["log_shape"], "log_shape"),
)


def add_term(rows: pd.DataFrame, term: Case) -> pd.DataFrame:
    """Models with the term that is asked about, and its values as `column`."""
    return rows.assign(term=term.column, column=lambda frame: frame[term.column])


def select_models(evidence: Evidence, term: Case) -> pd.DataFrame:
    """What tests read of the third study's models."""
    return add_term(third.read(evidence), term)


def build_trial(term: Case) -> Trial:
    """The test of a term in worlds whose errors go as far along it as residuals allow."""
    return Trial(select_models, CROSSED_SLOPES, "recipe", build_slope_worlds(term.column))


@CLAIM.finding("third", primary=IN_EVERY, over=TERMS, trial=build_trial, **third.STUDY)
def judge_slopes(evidence: Evidence, term: Case) -> Result:
    """Slopes of the third study, recipes that were each trained on four corpora as the unit."""
    return show_corpus_slopes(add_term(third.require_enough(evidence), term), term.words)


if __name__ == "__main__":
    CLAIM.main()
