"""N04: the sign of the gain is fixed early in training, and tuning cannot change it."""

import math
from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import Claim, Evidence, OneByOne, Result, Trial
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.third_tests import settled
from thermostats.studies.nursery.training_choices import (
    ACROSS,
    CAN_CROSS,
    LESS,
    SETTLES,
    STIFF,
    STIFFER,
    STIFFNESS,
    TUNED,
    along_training,
    at_end,
    by_bases,
    by_corpora,
    changes_by_kind,
    crossings,
    of_corpus,
    with_changes,
)
from thermostats.tables.schemas import NURSERY

CLAIM = Claim.read(__file__)


def crossed(evidence: Evidence) -> pd.DataFrame:
    """Log gains of the third study at a tenth of training and at the end."""
    return third.HALF.of(third.early_and_late(evidence))


@CLAIM.finding(
    "third",
    primary=SETTLES,
    trial=Trial(crossed, OneByOne(by_corpora, settled), "recipe", at_end(32, 640), version=3),
    **third.STUDY,
)
def of_third_study(evidence: Evidence) -> Result:
    """Does a tenth of training go with the end, among models of one shape and corpus, in four
    corpora?"""
    rows = crossed(evidence)
    table = along_training(partial(third.early_and_late, evidence), third.SHARES)
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "by": {
            third.IN_WORDS[str(name)]: of_corpus(own) for name, own in rows.groupby("trained_on")
        },
        "on": {
            words: of_corpus(third.early_and_late(evidence, on=name))
            for name, words in third.IN_WORDS.items()
        },
        "flips": third.pairs(evidence)["flips"],
    }
    return replace(by_corpora(rows), table=table, words=words, draw=partial(glance.settling, table))


def tuned_of_third(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model of the third study."""
    return TUNED.of(third.pairs(evidence))


@CLAIM.finding(
    "third_tuning",
    primary=CAN_CROSS,
    trial=Trial(tuned_of_third, OneByOne(by_bases), "", ACROSS, "pair"),
    evidence=NURSERY,
    needs=TUNED,
)
def tuning_of_third(evidence: Evidence) -> Result:
    """Can tuning cross 1, and from how far?"""
    rows = tuned_of_third(evidence)
    words = crossings(rows) | {"on_new": int(rows["flips_on_new"].sum())}
    return by_bases(rows).adding(words=words, draw=partial(glance.tuned, rows))


def changed(evidence: Evidence) -> pd.DataFrame:
    """The pairs with how much tuning changed them."""
    return with_changes(tuned_of_third(evidence))


@CLAIM.finding(
    "third_stiffness",
    primary=LESS,
    trial=Trial(changed, STIFFNESS, "side", STIFFER, "recipe"),
    evidence=NURSERY,
    needs=TUNED,
)
def stiffness_of_third(evidence: Evidence) -> Result:
    """Do models that dampen change less under tuning than models that expand?"""
    rows = changed(evidence)
    dampening, expanding = (
        rows.loc[rows["dampens"] == side, "side"].nunique() for side in (True, False)
    )
    found = STIFFNESS(rows)
    words = {
        "times": math.exp(found.quantities[STIFF.name].value or 0.0),
        "kinds": changes_by_kind(rows),
        "dampening": dampening,
        "expanding": expanding,
        "least_p": (1 + (dampening == expanding)) / math.comb(dampening + expanding, dampening),
    }
    return found.adding(words=words, draw=partial(glance.changes, rows))


if __name__ == "__main__":
    CLAIM.main()
