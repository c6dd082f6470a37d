"""N01: the corpus apart, is the gain a matter of recipe first, then of shape, then of size?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Finding, OneByOne, Result, Trial
from thermostats.claims.rule import Above
from thermostats.claims.worlds import worlds_of_line
from thermostats.plots.general import drawing
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.crossed import ALIKE, RECIPE, worlds_of
from thermostats.studies.nursery.crossed import SHAPE_OF_WORLDS as SHAPE
from thermostats.studies.nursery.third_tests import (
    NAMES,
    by_other_choices,
    by_ratios,
    ratios_of,
    rule,
    spreads_of,
    weights_of,
    with_choices,
)
from thermostats.studies.nursery.training_choices import (
    QUARTER,
    SAVED,
    by_predictions,
    compared,
    published_rows,
    slopes_of_all,
    with_predictions,
)
from thermostats.tables.schemas import NURSERY

PREDICTED = worlds_of_line("log_gain", "predicted", QUARTER, mean=True)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def published(evidence: Evidence) -> pd.DataFrame:
    """The comparable published models."""
    return published_rows(evidence.named(PUBLISHED))


@CLAIM.overall(all_of=("recipe", "shape"))
def whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The order by the third study: recipe against architecture, and shape against size."""
    parts = {name: found[name] for name in ("recipe", "shape", "alike")}
    first = parts["recipe"]
    words: dict[str, Any] = {"parts": parts}
    if first.table is not None:
        words |= {
            "weights": weights_of(third.enough(evidence)),
            "extent": third.extent(third.ends(evidence)),
        }
    return Result(
        words=words,
        table=first.table,
        draw=first.figure.draw,
        n_models=first.sample.n_models,
        n_groups=first.sample.n_groups,
    )


def of_third(name: str) -> dict[str, Any]:
    """What a finding of the third study's ratios declares."""
    trial = Trial(
        third.read,
        OneByOne(partial(by_ratios, name=name), ratios_of(name)),
        "recipe",
        worlds_of(name, NAMES[name]),
        version=2,
    )
    return {"primary": rule(name), "trial": trial, **third.STUDY}


@CLAIM.finding("recipe", **of_third(RECIPE))
def recipe(evidence: Evidence) -> Result:
    """Does the recipe do more than the architecture among models of one corpus?"""
    rows = third.enough(evidence)
    table = spreads_of(rows)
    others = by_other_choices(evidence, rows)
    seeds = third.repeats(evidence)
    words = {
        "spreads": table.pivot(index="of", columns="block", values="estimate").to_dict("index"),
        "others": others.to_dict("records"),
        "seed": float(np.sqrt(np.square(seeds).mean() / 2)) if len(seeds) else None,
        "repeats": len(seeds),
        "prompts": third.prompts_of_others(rows).to_dict("records"),
        "learned": int((rows["learned"].astype(bool) & (rows["trained_on"] != "shuffled")).sum()),
        "asked": int((rows["trained_on"] != "shuffled").sum()),
    }
    draw = partial(glance.spreads, table)
    return with_choices(RECIPE, rows).adding(words=words, table=table, draw=draw)


@CLAIM.finding("shape", **of_third(SHAPE))
def shape(evidence: Evidence) -> Result:
    """Does shape at one size do more than size?"""
    rows = third.enough(evidence)
    scored = third.scored(evidence, rows)
    outside = [
        f"{row.quantity} ({third.IN_WORDS[row.corpus]})"
        for row in scored[~scored["inside"]].itertuples()
    ]
    return with_choices(SHAPE, rows).adding(
        words={"predicted": len(scored), "outside": outside}, table=scored
    )


@CLAIM.finding("alike", **of_third(ALIKE))
def alike(evidence: Evidence) -> Result:
    """Does a recipe do the same whatever it is trained on?"""
    rows = third.enough(evidence)
    named = rows.assign(trained_on=rows["trained_on"].map(third.IN_WORDS))
    return with_choices(ALIKE, rows).adding(draw=drawing(glance.by_recipe, named))


def of_published_by_third(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the third study's slopes predict about their mean."""
    return with_predictions(published(evidence), slopes_of_all(third.enough(evidence)))


@CLAIM.finding(
    "carry_over_third",
    primary=Above(SAVED, 0),
    trial=Trial(of_published_by_third, OneByOne(by_predictions), worlds=PREDICTED, version=2),
    evidence=NURSERY,
    group="lab",
)
def carry_over_of_third(evidence: Evidence) -> Result:
    """Do the third study's slopes predict the published gains better than their mean does?"""
    return compared(of_published_by_third(evidence))


if __name__ == "__main__":
    CLAIM.main()
