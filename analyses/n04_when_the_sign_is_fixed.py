"""N04: the sign of the gain is fixed early in training, and tuning cannot change it."""

import math
from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import Claim, Evidence, Result, Trial
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.training_choices import (
    ACROSS,
    CAN_CROSS,
    CORPUS_RANKS,
    CROSSING,
    LESS,
    SETTLES,
    STIFF,
    STIFFER,
    STIFFNESS,
    TUNED,
    add_changes,
    build_end_worlds,
    count_crossings,
    describe_corpus,
    summarise_changes,
    summarise_training,
)
from thermostats.tables.schemas import NURSERY

CLAIM = Claim.read(__file__)


def select_early_and_late(evidence: Evidence) -> pd.DataFrame:
    """Log gains of the third study at a tenth of training and at the end."""
    return third.HALF.check_rows(third.select_early_and_late(evidence))


@CLAIM.finding(
    "third",
    primary=SETTLES,
    trial=Trial(
        select_early_and_late, CORPUS_RANKS, "recipe", build_end_worlds(32, 640), version=3
    ),
    **third.STUDY,
)
def judge_early_sign(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and corpus, in four
    corpora?"""
    rows = select_early_and_late(evidence)
    table = summarise_training(partial(third.select_early_and_late, evidence), third.SHARES)
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "by": {
            third.IN_WORDS[str(name)]: describe_corpus(own)
            for name, own in rows.groupby("trained_on")
        },
        "on": {
            words: describe_corpus(third.select_early_and_late(evidence, on=name))
            for name, words in third.IN_WORDS.items()
        },
        "flips": third.build_pairs(evidence)["flips"],
    }
    return replace(
        CORPUS_RANKS(rows), table=table, words=words, draw=partial(glance.draw_settling, table)
    )


def select_tuned_pairs(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model of the third study."""
    return TUNED.check_rows(third.build_pairs(evidence))


@CLAIM.finding(
    "third_tuning",
    primary=CAN_CROSS,
    trial=Trial(select_tuned_pairs, CROSSING, "", ACROSS, "pair"),
    evidence=NURSERY,
    needs=TUNED,
)
def judge_tuning(evidence: Evidence) -> Result:
    """Can tuning cross 1, and from how far?"""
    rows = select_tuned_pairs(evidence)
    words = count_crossings(rows) | {"on_new": int(rows["flips_on_new"].sum())}
    return CROSSING(rows).adding(words=words, draw=partial(glance.draw_tuned, rows))


def measure_changes(evidence: Evidence) -> pd.DataFrame:
    """The pairs with how much tuning changed them."""
    return add_changes(select_tuned_pairs(evidence))


@CLAIM.finding(
    "third_stiffness",
    primary=LESS,
    trial=Trial(measure_changes, STIFFNESS, "side", STIFFER, "recipe"),
    evidence=NURSERY,
    needs=TUNED,
)
def judge_stiffness(evidence: Evidence) -> Result:
    """Do models that dampen change less under tuning than models that expand?"""
    rows = measure_changes(evidence)
    dampening, expanding = (
        rows.loc[rows["dampens"] == side, "side"].nunique() for side in (True, False)
    )
    found = STIFFNESS(rows)
    words = {
        "times": math.exp(found.quantities[STIFF.name].value or 0.0),
        "kinds": summarise_changes(rows),
        "dampening": dampening,
        "expanding": expanding,
        "least_p": (1 + (dampening == expanding)) / math.comb(dampening + expanding, dampening),
    }
    return found.adding(words=words, draw=partial(glance.draw_changes, rows))


if __name__ == "__main__":
    CLAIM.main()
