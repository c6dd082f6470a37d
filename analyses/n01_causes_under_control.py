"""N01: the corpus apart, is the gain a matter of recipe first, then of shape, then of size?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.claim import PUBLISHED, Claim, Evidence, Finding, Inference, Result, Trial
from thermostats.claims.heritage import tables_of, variance_shares
from thermostats.claims.noise import ERRORS
from thermostats.claims.rule import Above, Below, Posterior
from thermostats.claims.worlds import (
    BRIEF,
    searches_among,
    worlds_in_groups,
    worlds_of_causes,
    worlds_of_groups,
    worlds_of_line,
)
from thermostats.claims.worlds.boundary import Boundary, searches_at
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.left_out import leave_one_out
from thermostats.modelling.heritage.partial_f import block_f, freedman_lane
from thermostats.plots.general import drawing, forest
from thermostats.plots.posterior import left_out_errors
from thermostats.studies.nursery import components, glance, languages, second, shares, third, together, universes
from thermostats.studies.nursery.component_worlds import searches_at_the_edge, worlds_of_components, worlds_of_corpus
from thermostats.studies.nursery.crossed_ratios import (
    by_other_choices,
    by_ratios,
    largest_corpus,
    rule,
    slopes_of_all,
    spreads_of,
    with_choices,
)
from thermostats.studies.nursery.crossed_worlds import ALIKE, RECIPE, SHAPE, searches_of, worlds_of
from thermostats.studies.nursery.rows import (
    CONTROLLED,
    ENOUGH,
    GEOMETRY,
    SCALE,
    distinct,
    final,
    fit_recipes,
    judged,
    published_rows,
    read_by_tests,
)
from thermostats.studies.nursery.second import STUDY
from thermostats.studies.nursery.shares import (
    BETWEEN,
    LITTLE,
    ORDERED,
    PAIRS,
    QUARTER,
    SAVED,
    SEED,
    SHARE,
    SMALL,
    SURE,
    by_predictions,
    by_recipes_left_out,
    by_seeds,
    by_shares,
    compared,
)
from thermostats.studies.nursery.together import by_both, by_components, by_corpora
from thermostats.tables.vocabulary import NURSERY

STATED = ORDER.replace("heritage", "recipe")
PREDICTED = worlds_of_line("log_gain", "predicted", QUARTER)
PREDICTED_AT_WORST = searches_among(PREDICTED, along="predicted", outcome="log_gain", mean=(-1.0, 1.0))
CAUSES = worlds_of_causes("log_gain", GEOMETRY, *SCALE, levels="pair")
SEEDS = worlds_of_groups("log_gain", "pair", 1 - LITTLE, 1 - SMALL)
UNSEEN = worlds_in_groups("log_gain", "log_L", QUARTER, BETWEEN)
EVEN = Boundary(
    "log_gain",
    ({"recipe": ("heritage",), "geometry": GEOMETRY, "scale": SCALE},),
    ("recipe", "geometry"),
    ("heritage",),
    GEOMETRY,
    "recipe and geometry alike",
)
KINDS = tuple(kind for kind in ERRORS if kind != "one outlying lab")
"""A recipe that lies off is what a recipe does."""
PREDICTS = Posterior("the nursery's slopes err less than the published mean")
PRIMARY = "penultimate_gain"
OTHERS = {
    "last gain": "last_gain",
    "mean gain per block, blocks 2 to L": "geometric_gain",
    "largest gain, blocks 2 to L": "max_gain",
    "product of gains, blocks 2 to L": "total_amplification",
}
"""Gains by which the order of the first study is shown too."""
CORPORA = ("english", "synthetic")
ORDER_EDGES = ("recipe = geometry", "geometry = scale")
IN_ORDER = "recipe > geometry > scale"
"""What `second` and `together` both ask."""

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence, gain: str = PRIMARY) -> pd.DataFrame:
    """Models that a gain is judged by."""
    return ENOUGH.of(judged(final(evidence), gain))


def read(evidence: Evidence, gain: str = PRIMARY) -> pd.DataFrame:
    """What tests read of them; `pair`: the distinct model that each is."""
    rows = read_by_tests(models(evidence, gain))
    return rows.assign(pair=distinct(rows))


@CLAIM.shared
def recipe_fit(evidence: Evidence) -> Fit:
    """C04's model with recipes in the place of labs."""
    return fit_recipes(models(evidence), PRIMARY, seed=SEED, left_out=True)


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
        corpus, least, most = largest_corpus(first.table)
        words |= {
            "largest": {"corpus": corpus, "least": least, "most": most},
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
    test, worlds, searches = partial(by_ratios, name=name), worlds_of(name), searches_of(name)
    trial = Trial(third.read, test, "recipe", worlds, searches=searches)
    return {"primary": rule(name), "trial": trial, **third.STUDY}


@CLAIM.finding("recipe", **of_third(RECIPE))
def recipe(evidence: Evidence) -> Result:
    """Does the recipe do more than the architecture among models of one corpus?"""
    rows = third.enough(evidence)
    table, others = spreads_of(rows), by_other_choices(evidence, rows)
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
    draw = partial(glance.spreads, table, blocks=glance.CROSSED)
    return with_choices(RECIPE, rows).adding(words=words, table=table, draw=draw)


@CLAIM.finding("shape", **of_third(SHAPE))
def shape(evidence: Evidence) -> Result:
    """Does shape at one size do more than size?"""
    rows = third.enough(evidence)
    scored = third.scored(rows)
    outside = [f"{row.quantity} ({third.IN_WORDS[row.corpus]})" for row in scored[~scored["inside"]].itertuples()]
    return with_choices(SHAPE, rows).adding(words={"predicted": len(scored), "outside": outside}, table=scored)


@CLAIM.finding("alike", **of_third(ALIKE))
def alike(evidence: Evidence) -> Result:
    """Does a recipe do the same whatever it is trained on?"""
    rows = third.enough(evidence)
    named = rows.assign(trained_on=rows["trained_on"].map(third.IN_WORDS))
    return with_choices(ALIKE, rows).adding(draw=drawing(glance.by_recipe, named))


@CLAIM.finding(
    "second",
    primary=components.ORDERED,
    trial=Trial(
        second.enough, by_components, "recipe", worlds_of_components(), searches=searches_at_the_edge(*ORDER_EDGES)
    ),
    statement=IN_ORDER,
    **STUDY,
)
def ratio(evidence: Evidence) -> Result:
    """In the second study, how do recipe within a corpus, geometry and scale compare over the published shapes?"""
    rows = second.enough(evidence)
    found, seeds = by_components(rows), second.repeats(evidence)
    tables = second.by_corpus(rows)
    drawn = {"both corpora": components.components(tables, seed=SEED)}
    drawn |= {name: components.components([own], seed=SEED) for name, own in zip(CORPORA, tables, strict=True)}
    learned = rows.groupby("recipe")["learned"].transform("all")
    words = {"learned": int(rows["learned"].sum()), "repeats": len(seeds), "errors": second.checked(rows)}
    words["alone"] = {name: components.ratios(drawn[name]) for name in CORPORA}
    if len(seeds):
        words["seed"] = float(np.sqrt(np.square(seeds).mean() / 2))
    if learned.any() and not learned.all():
        words["without"] = by_components(rows[learned]).quantities
    table = second.scored(rows, drawn["both corpora"])
    outside = table.loc[table["inside"].eq(False), "quantity"].str.replace("_", " ")
    words |= {"predicted": int(table["inside"].notna().sum()), "outside": list(outside), "power": second.power()}
    return found.adding(words=words, table=table, draw=partial(glance.spreads, glance.drawn_spreads(drawn)))


@CLAIM.finding(
    "corpus",
    primary=Above(components.CORPUS, 1),
    trial=Trial(
        second.enough, by_corpora, "recipe", worlds_of_corpus(), searches=searches_at_the_edge("corpus = geometry")
    ),
    **STUDY,
)
def corpus(evidence: Evidence) -> Result:
    """Does the corpus do more than a shape does?"""
    rows = second.enough(evidence)
    alone = together.contrasts(second.recipes(evidence), second.FACTORS).set_index("factor")["share"]
    words = {"factor": alone.idxmax(), "of_recipe": float(alone.max()), **languages.in_second(evidence)}
    return by_corpora(rows).adding(words=words, draw=drawing(glance.at_a_glance, second.ends(evidence, drawn=False)))


@CLAIM.finding(
    "order",
    primary=ORDERED,
    robustness=Posterior(STATED),
    trial=Trial(
        read, by_shares, worlds=CAUSES, searches=searches_at(EVEN, KINDS, "log_L", families=(0.0, 0.0), effort=BRIEF)
    ),
    **CONTROLLED,
)
def order(evidence: Evidence) -> Result:
    """Do recipe, geometry and scale of the first study come in the claimed order?"""
    rows, fit = models(evidence), recipe_fit(evidence)
    found, columns = by_shares(rows), shares.design_blocks(rows)
    tests = block_f(rows, "log_gain", columns)
    others = published(evidence)
    both = shares.caused_and_observed(rows, others, seed=SEED, level=SURE)
    own = both[both["columns"] == "the design's"]
    observed = own[own["study"] == "published, observed"].set_index("what")["estimate"]
    words = {
        "blocks": list(columns),
        "tests": tests,
        "shuffled": {name: freedman_lane(rows, "log_gain", columns, name, seed=SEED).p_value for name in tests},
        "n_published": len(others),
        "observed": observed,
        "level": SURE,
        "gains": {name: by_shares(read(evidence, gain)).quantities for name, gain in OTHERS.items()},
        **shares.other_choices(final(evidence), PRIMARY),
    }
    named = own.assign(row=own["what"] + ", " + own["study"].str.split(",").str[0])
    xlabel = "corrected share of the variance of the log gain"
    return found.adding(
        words=words,
        inference=Inference(
            fit,
            tables=tables_of(fit, ("orders",)) | {"recipes": fit.table("labs").rename(columns={"heritage": "recipe"})},
            panels=(variance_shares(fit),),
        ),
        table=both,
        draw=drawing(forest, named, label="row", null=0.0, xlabel=xlabel),
    )


CLAIM.curve(
    "order",
    rows=universes.every_universe,
    choices=universes.ORDER,
    estimate=universes.difference,
    null=universes.NULL,
    test=universes.tested(by_shares),
)


@CLAIM.finding(
    "seed",
    primary=Below(SHARE, SMALL),
    evidence=NURSERY,
    needs=PAIRS,
    trial=Trial(
        read, by_seeds, "pair", SEEDS, "pair", searches_among(SEEDS, along="log_L", ordered=False, group="", sided=True)
    ),
)
def seed(evidence: Evidence) -> Result:
    """Has the seed almost nothing to do with it?"""
    rows = read(evidence)
    found = by_seeds(rows)
    largest = found.rows["pairs of seeds"]["pair"].iloc[0]
    rest, one = rows[rows["pair"] != largest], rows[rows["pair"] == largest]
    words = {
        **found.words,
        "pairs": len(found.rows["pairs of seeds"]),
        "lack_of_fit": shares.lack_of_fit(rows),
        "largest": largest,
        "learned": bool(one["learned"].any()),
        "without": shares.seed_share(rest),
    }
    return replace(found, words=words)


@CLAIM.finding(
    "unseen_recipes",
    primary=Above(SAVED, 0),
    trial=Trial(
        read,
        by_recipes_left_out,
        worlds=UNSEEN,
        searches=searches_among(UNSEEN, along="log_L", ordered=False, group="recipe"),
    ),
    **CONTROLLED,
)
def unseen_recipes(evidence: Evidence) -> Result:
    """Do geometry and scale predict the models of a recipe that was not seen?"""
    rows = models(evidence)
    held = leave_one_out(recipe_fit(evidence), by="heritage")
    predictions = held.predictions.rename(columns={"heritage": "recipe"})
    draw = drawing(left_out_errors, held.predictions)
    return replace(by_recipes_left_out(rows), table=predictions, draw=draw, words={"held": held})


def of_published(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the nursery's slopes, posterior means, predict about their mean."""
    drawn = shares.drawn_slopes(recipe_fit(evidence), models(evidence))
    return shares.with_predictions(published(evidence), drawn.mean(axis=0))


@CLAIM.finding(
    "carry_over",
    primary=Above(SAVED, 0),
    robustness=PREDICTS,
    trial=Trial(of_published, by_predictions, worlds=PREDICTED, searches=PREDICTED_AT_WORST, version=2),
    evidence=NURSERY,
    group="lab",
)
def carry_over(evidence: Evidence) -> Result:
    """Do the nursery's slopes predict the published gains better than their mean does?"""
    others, fit = published(evidence), recipe_fit(evidence)
    drawn, found = shares.drawn_slopes(fit, models(evidence)), compared(of_published(evidence))
    skill = shares.error_saved(others, drawn).reshape(fit.draws["scale"].shape[:2])
    words = {
        **found.words,
        "slopes": dict(zip(shares.SLOPES, drawn.mean(axis=0), strict=True)),
        "ranges": [(name, others[c].min(), others[c].max()) for name, c in (("L", "n_layers"), ("d", "d_model"))],
    }
    return replace(found, inference=Inference(fit, statements={PREDICTS.statement: skill > 0}), words=words)


@CLAIM.finding(
    "together",
    primary=components.ORDERED,
    trial=Trial(
        together.models, by_both, "recipe", worlds_of_components(), searches=searches_at_the_edge(*ORDER_EDGES)
    ),
    statement=IN_ORDER,
    **STUDY,
)
def of_both_studies(evidence: Evidence) -> Result:
    """Components of both controlled studies together."""
    rows = together.models(evidence)
    return by_both(rows).adding(words={"slopes": together.by_study(rows).to_dict("records")})


def of_published_by_third(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the third study's slopes predict about their mean."""
    return shares.with_predictions(published(evidence), slopes_of_all(third.enough(evidence)))


@CLAIM.finding(
    "carry_over_third",
    primary=Above(SAVED, 0),
    trial=Trial(of_published_by_third, by_predictions, worlds=PREDICTED, searches=PREDICTED_AT_WORST, version=2),
    evidence=NURSERY,
    group="lab",
)
def carry_over_of_third(evidence: Evidence) -> Result:
    """Do the third study's slopes predict the published gains better than their mean does?"""
    return compared(of_published_by_third(evidence))


if __name__ == "__main__":
    CLAIM.main()
