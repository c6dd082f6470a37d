"""N06: where models end on both sides of 1, is the side settled early, and can tuning cross 1?"""

from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import AtLeast, Decide, Given, V
from thermostats.claims.worlds import worlds_of_line, worlds_of_share
from thermostats.modelling.classical.counts import clustered_share
from thermostats.studies.nursery import glance
from thermostats.studies.nursery.second import CHOSEN, HALF_WITH_CHOSEN, early_and_late, pairs
from thermostats.studies.nursery.shipped import SHARES
from thermostats.studies.nursery.signs import HALF, KAPPA, RARE, RARER, R, by_ranks
from thermostats.tables.vocabulary import NURSERY

SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should be found."""
PAIRS, CROSSED = AtLeast(models=40), V("share of pairs that cross 1")
CLAIM = Claim.read(__file__)


def moments(evidence: Evidence) -> pd.DataFrame:
    """Log gains at a tenth of training and at the end."""
    return HALF_WITH_CHOSEN.of(early_and_late(evidence))


@CLAIM.finding(
    "sign",
    primary=Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF)),
    trial=Trial(moments, by_ranks, "heritage", worlds_of_line("end", "ranked", 0.9)),
    evidence=NURSERY,
    needs=HALF_WITH_CHOSEN,
)
def sign(evidence: Evidence) -> Result:
    """Does the gain at a tenth of training go with that at the end, among models of one shape?"""
    rows = moments(evidence)
    found, table = by_ranks(rows), along_training(evidence)
    words = {
        "settled": table.to_dict("records"),
        "agree": int(((rows["early"] > 0) == (rows["end"] > 0)).sum()),
        "chosen": int(((rows["end"] < 0) & rows["recipe"].str.startswith(CHOSEN)).sum()),
    }
    return replace(found, table=table, words=words, draw=partial(glance.settling, table))


def along_training(evidence: Evidence) -> pd.DataFrame:
    """By share of training: models that dampen, correlation with the end inside cells and κ, with their intervals."""
    rows = []
    for share in SHARES[:-1]:
        if (own := early_and_late(evidence, share)).empty:
            continue
        known = by_ranks(own).quantities
        row: dict[str, float | None] = {"share": share, "models": len(own), "dampen": int((own["early"] < 0).sum())}
        for name, q in (("r", known[R.name]), ("kappa", known[KAPPA])):
            row |= {name: q.value, f"{name}_lower": q.lower, f"{name}_upper": q.upper}
        rows.append(row)
    return pd.DataFrame(rows)


def tuned(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model."""
    return PAIRS.of(pairs(evidence))


def by_pairs(rows: pd.DataFrame) -> Result:
    """Share of pairs that cross 1 clearly."""
    return Result.of(rows, {CROSSED.name: Estimate.of(clustered_share(rows["flips"], rows["pair"]))})


@CLAIM.finding(
    "tuning",
    primary=Decide(CROSSED.lower > SOME, CROSSED.upper < MANY),
    trial=Trial(tuned, by_pairs, "", worlds_of_share("flips", SHOULD, 0.0, "pair"), "pair"),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning(evidence: Evidence) -> Result:
    """Can tuning cross 1?"""
    rows = tuned(evidence)
    crossing = rows[rows["flips"]]
    words = {
        "flips": len(crossing),
        "pairs": len(rows),
        "kinds": rows.groupby("kind")["flips"].agg(["sum", "size"]).to_dict("index"),
        "bases": rows["pair"].nunique(),
        "crossed": crossing["pair"].nunique(),
        "dampened": int(rows.drop_duplicates("pair")["dampens"].sum()),
    }
    return replace(by_pairs(rows), words=words)


if __name__ == "__main__":
    CLAIM.main()
