"""N06: where models end on both sides of 1, is the side settled early, and can tuning cross 1?"""

from dataclasses import replace
from functools import partial

import pandas as pd

from thermostats.claims.claim import Claim, Estimate, Evidence, Result, Trial
from thermostats.claims.rule import AtLeast, Decide, Given, V
from thermostats.claims.worlds import worlds_of_line, worlds_of_share
from thermostats.modelling.classical.counts import proportion
from thermostats.studies.nursery import glance
from thermostats.studies.nursery.second import early_and_late, pairs
from thermostats.studies.nursery.signs import kappa, within_cells
from thermostats.tables.vocabulary import NURSERY

SEED = 106
HALF, RARER = 0.71, 10
"""As N04: half of the variance of the ranks, and the least on the rarer side."""
SOME, MANY, SHOULD = 0.01, 0.10, 0.20
"""Crossings in more than 1% are some; in fewer than 10% tuning as good as never crosses; 20% should be found."""
ENOUGH, PAIRS = AtLeast(models=216, groups=18), AtLeast(models=40)
R, RARE, CROSSED = V("within-cell rank correlation"), V("models on the rarer side"), V("share of pairs that cross 1")
KAPPA = "agreement beyond chance (κ)"
CLAIM = Claim.read(__file__)


def moments(evidence: Evidence) -> pd.DataFrame:
    """Log gains at a tenth of training and at the end."""
    return ENOUGH.of(early_and_late(evidence))


def by_ranks(rows: pd.DataFrame) -> Result:
    """Correlation of a tenth of training with the end inside cells of one shape; agreement of the sides."""
    found = within_cells(rows["early"], rows["end"], rows["cell"], seed=SEED)
    up = rows["end"] > 0
    agreed, low, high = (None if pd.isna(end) else end for end in kappa(rows["early"] > 0, up, rows["heritage"]))
    quantities = {
        R.name: Estimate(found.estimate, found.lower, found.upper, "95% Fisher-z interval", found.p),
        KAPPA: Estimate(agreed, low, high, "95% jackknife t interval over recipes"),
        RARE.name: Estimate(float(min(up.sum(), (~up).sum()))),
    }
    return Result.of(rows, quantities)


@CLAIM.finding(
    "sign",
    primary=Given(RARE >= RARER, Decide(R.lower > HALF, R.upper < HALF)),
    trial=Trial(moments, by_ranks, "heritage", worlds_of_line("end", "ranked", 0.9)),
    evidence=NURSERY,
    needs=ENOUGH,
)
def sign(evidence: Evidence) -> Result:
    """Does the gain at a tenth of training go with that at the end, among models of one shape?"""
    rows = moments(evidence)
    return replace(by_ranks(rows), draw=partial(glance.early_and_late, rows))


def tuned(evidence: Evidence) -> pd.DataFrame:
    """Pairs of a base and a tuned model."""
    return PAIRS.of(pairs(evidence))


def by_pairs(rows: pd.DataFrame) -> Result:
    """Share of pairs that cross 1 clearly."""
    flips = int(rows["flips"].sum())
    share = Estimate.of(proportion(flips, len(rows)), "Clopper–Pearson exact interval, 95%")
    kinds = rows.groupby("kind")["flips"].agg(["sum", "size"]).to_dict("index")
    words = {"flips": flips, "dampened": int(rows["dampens"].sum()), "pairs": len(rows), "kinds": kinds}
    return Result.of(rows, {CROSSED.name: share}, words=words)


@CLAIM.finding(
    "tuning",
    primary=Decide(CROSSED.lower > SOME, CROSSED.upper < MANY),
    trial=Trial(tuned, by_pairs, "", worlds_of_share("flips", SHOULD, 0.0, "pair"), "pair"),
    evidence=NURSERY,
    needs=PAIRS,
)
def tuning(evidence: Evidence) -> Result:
    """Can tuning cross 1?"""
    return by_pairs(tuned(evidence))


if __name__ == "__main__":
    CLAIM.main()
