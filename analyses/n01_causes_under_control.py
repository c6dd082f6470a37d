"""N01: the corpus apart, is the gain a matter of recipe first, then of shape, then of size?"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Finding, Result, Trial
from thermostats.claims.rule import Above
from thermostats.claims.worlds import build_line_worlds
from thermostats.plots.general import prepare_drawing
from thermostats.studies.nursery import third
from thermostats.studies.nursery import training_choices as glance
from thermostats.studies.nursery.crossed import ALIKE, RECIPE, build_worlds
from thermostats.studies.nursery.crossed import SHAPE_OF_WORLDS as SHAPE
from thermostats.studies.nursery.third_tests import (
    NAMES,
    build_ratio_test,
    build_rule,
    estimate_corpora,
    estimate_other_choices,
    judge_ratio_choices,
    summarise_spreads,
    weigh_corpora,
)
from thermostats.studies.nursery.training_choices import (
    PREDICTED,
    QUARTER,
    SAVED,
    add_predictions,
    combine_slopes,
    judge_predictions,
    load_published_rows,
)
from thermostats.tables.schemas import NURSERY

RIGHT = build_line_worlds("log_gain", "predicted", QUARTER, mean=True, measured="penultimate_gain")

CLAIM = Claim.read(__file__)


@CLAIM.shared
def select_published(evidence: Evidence) -> pd.DataFrame:
    """The comparable published models."""
    return load_published_rows(evidence.named(PUBLISHED))


@CLAIM.overall(all_of=("recipe", "shape"))
def judge_whole(evidence: Evidence, found: Mapping[str, Finding]) -> Result:
    """The order by the third study: recipe against architecture, and shape against size."""
    parts = {name: found[name] for name in ("recipe", "shape", "alike")}
    first = parts["recipe"]
    words: dict[str, Any] = {"parts": parts}
    if first.table is not None:
        rows = third.require_enough(evidence)
        words |= {
            "weights": weigh_corpora(rows),
            "alone": estimate_corpora(rows),
            "extent": third.describe_extent(third.select_ends(evidence)),
        }
    return Result(
        words=words,
        table=first.table,
        draw=first.figure.draw,
        n_models=first.sample.n_models,
        n_groups=first.sample.n_groups,
    )


def declare_finding(name: str) -> dict[str, Any]:
    """What a finding of the third study's ratios declares."""
    trial = Trial(
        third.read, build_ratio_test(name), "recipe", build_worlds(name, NAMES[name]), version=2
    )
    return {"primary": build_rule(name), "trial": trial, **third.STUDY}


@CLAIM.finding("recipe", **declare_finding(RECIPE))
def judge_recipe(evidence: Evidence) -> Result:
    """Does the recipe do more than the architecture among models of one corpus?"""
    rows = third.require_enough(evidence)
    table = summarise_spreads(rows)
    others = estimate_other_choices(evidence, rows)
    seeds = third.measure_repeats(evidence)
    words = {
        "spreads": table.pivot(index="of", columns="block", values="estimate").to_dict("index"),
        "others": others.to_dict("records"),
        "seed": float(np.sqrt(np.square(seeds).mean() / 2)) if len(seeds) else None,
        "repeats": len(seeds),
        "prompts": third.compare_prompt_sets(rows).to_dict("records"),
        "learned": int((rows["learned"].astype(bool) & (rows["trained_on"] != "shuffled")).sum()),
        "asked": int((rows["trained_on"] != "shuffled").sum()),
    }
    draw = partial(glance.draw_spreads, table)
    return judge_ratio_choices(RECIPE, rows).adding(words=words, table=table, draw=draw)


@CLAIM.finding("shape", **declare_finding(SHAPE))
def judge_shape(evidence: Evidence) -> Result:
    """Does shape at one size do more than size?"""
    rows = third.require_enough(evidence)
    scored = third.score_predictions(evidence, rows)
    outside = [
        f"{row.quantity} ({third.IN_WORDS[row.corpus]})"
        for row in scored[~scored["inside"]].itertuples()
    ]
    return judge_ratio_choices(SHAPE, rows).adding(
        words={"predicted": len(scored), "outside": outside}, table=scored
    )


@CLAIM.finding("alike", **declare_finding(ALIKE))
def judge_alike(evidence: Evidence) -> Result:
    """Does a recipe do the same whatever it is trained on?"""
    rows = third.require_enough(evidence)
    named = rows.assign(trained_on=rows["trained_on"].map(third.IN_WORDS))
    return judge_ratio_choices(ALIKE, rows).adding(draw=prepare_drawing(glance.draw_recipes, named))


def load_predictions(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the third study's slopes predict about their mean."""
    return add_predictions(
        select_published(evidence), combine_slopes(third.require_enough(evidence))
    )


@CLAIM.finding(
    "carry_over_third",
    primary=Above(SAVED, 0),
    trial=Trial(load_predictions, PREDICTED, worlds=RIGHT, version=2),
    evidence=NURSERY,
    group="lab",
)
def judge_transfer(evidence: Evidence) -> Result:
    """Do the third study's slopes predict the published gains better than their mean does?"""
    return judge_predictions(load_predictions(evidence))


if __name__ == "__main__":
    CLAIM.main()
