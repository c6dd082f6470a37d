"""N01: with recipes given by design, is the gain a matter of recipe first, then of shape, then of size?"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import PUBLISHED, Case, Claim, Estimate, Evidence, Result, TooFew, Trial
from thermostats.claims.rule import NEVER, Above, AtLeast, Below, Decide, Posterior, V
from thermostats.claims.worlds import worlds_in_groups, worlds_of_causes, worlds_of_groups, worlds_of_line
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.held_out import leave_one_out
from thermostats.modelling.heritage.shares import block_f, freedman_lane
from thermostats.plots.general import drawing, forest
from thermostats.plots.posterior import left_out_errors
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery import components, second, shares, together
from thermostats.studies.nursery.component_worlds import worlds_of_components
from thermostats.studies.nursery.glance import at_a_glance
from thermostats.studies.nursery.rows import (
    CONTROLLED,
    ENOUGH,
    GEOMETRY,
    SCALE,
    distinct,
    final,
    fit_recipes,
    judged,
    read_by_tests,
)
from thermostats.tables.vocabulary import NURSERY

SEED = 101
SMALL, SURE = 0.05, 0.98
"""C04's bar for "almost nothing", and the level of its order's intervals."""
FIRST, SECOND, SHARE = "recipe − geometry", "geometry − scale", "share of the seed"
OWN = "geometry, given the other blocks"
ORDERED = Above(FIRST, 0) & Above(SECOND, 0) & Decide(V(OWN).p <= 0.05, NEVER)
"""As in C04."""
SAVED = "squared error saved"
LITTLE, QUARTER, BETWEEN = 0.01, 0.5, 0.2
"""What would be of interest: 1% of the variance between seeds (null: 5%); r = 0.5, a quarter of the variance, of
depth or of predictions (null: 0), where 20% lie between recipes."""
PAIRS = AtLeast(rows={"pairs of seeds": 5})
STATED = ORDER.replace("heritage", "recipe")
PREDICTS = Posterior("the nursery's slopes err less than the published mean")
PRIMARY = Case("penultimate_gain", "penultimate gain (block L − 1), models of four blocks or more")
GAINS = (
    PRIMARY,
    Case("last_gain", "last gain"),
    Case("geometric_gain", "mean gain per block, blocks 2 to L"),
    Case("max_gain", "largest gain, blocks 2 to L"),
    Case("total_amplification", "product of gains, blocks 2 to L"),
)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Models that a gain is judged by."""
    return ENOUGH.of(judged(final(evidence), gain.id))


def read(evidence: Evidence, gain: Case = PRIMARY) -> pd.DataFrame:
    """What tests read of them; `pair`: the distinct model that each is."""
    rows = read_by_tests(models(evidence, gain))
    return rows.assign(pair=distinct(rows))


@CLAIM.shared
def recipe_fit(evidence: Evidence, gain: Case) -> HeritageFit:
    """C04's model with recipes in the place of labs."""
    return fit_recipes(models(evidence, gain), gain.id, seed=SEED, left_out=gain is PRIMARY)


@CLAIM.shared
def answering(evidence: Evidence) -> HeritageFit:
    """That of the primary gain; with other residuals where normal ones do not reproduce the gains."""
    fit = recipe_fit(evidence, PRIMARY)
    return fit and fit.answer


@CLAIM.shared
def published(evidence: Evidence) -> pd.DataFrame:
    """The comparable published models."""
    return shares.published_rows(evidence.named(PUBLISHED))


HALF = AtLeast(models=192, groups=16)
"""Half of the second study's models and recipes."""
OVER, ABOVE = "SD of recipe / SD of geometry", "SD of geometry / SD of scale"
IN_ORDER = Posterior("recipe > geometry > scale, over the published models' shapes")


def of_second(evidence: Evidence) -> pd.DataFrame:
    """Models of the second study, recipes drawn at random, first seeds."""
    return HALF.of(second.ends(evidence))


def ratios(rows: pd.DataFrame, found: components.Components) -> Result:
    """Ratios of the components of variance, geometry and scale over the published models' shapes."""
    own = components.ratios(found)
    interval = "95% interval of draws, recipes as the unit"
    quantities = {OVER: Estimate(*own.first, interval), ABOVE: Estimate(*own.second, interval)}
    names = ("recipe", "geometry", "scale", "depth", "residual")
    words = {"sizes": {name: float(np.median(getattr(found, name))) for name in names}}
    statements = {IN_ORDER.statement: (found.recipe > found.geometry) & (found.geometry > found.scale)}
    return Result.of(rows, quantities, words=words, statements=statements)


def by_components(rows: pd.DataFrame) -> Result:
    """Of the second study, recipes that were seen at every shape."""
    found = ratios(rows, components.components(*second.whole(rows), seed=SEED))
    return replace(found, words={**found.words, "learned": int(rows["learned"].astype(bool).sum())})


def by_both(rows: pd.DataFrame) -> Result:
    """Of both studies, each with a level of its own."""
    return ratios(rows, together.components(rows, seed=SEED))


@CLAIM.finding(
    "second",
    primary=Above(OVER, 1) & Above(ABOVE, 1),
    robustness=IN_ORDER,
    trial=Trial(of_second, by_components, "recipe", worlds_of_components()),
    evidence=NURSERY,
    needs=HALF,
)
def ratio(evidence: Evidence) -> Result:
    """In the second study, how do recipe, geometry and scale compare in size over the published shapes?"""
    rows = of_second(evidence)
    found = by_components(rows)
    learned = rows.groupby("recipe")["learned"].transform("all").astype(bool)
    seeds = second.repeats(evidence)
    words = {**found.words, "repeats": len(seeds), "in_order": found.probability(IN_ORDER.statement)}
    if len(seeds):
        words["seed"] = float(np.sqrt(np.square(seeds).mean() / 2))
    if learned.sum() and not learned.all():
        words["without"] = by_components(rows[learned]).quantities
    table = second.scored(rows, components.components(*second.whole(rows), seed=SEED))
    alone = together.contrasts(second.recipes(evidence), second.FACTORS).set_index("factor")["share"]
    words |= {"factor": alone.idxmax(), "of_recipe": float(alone.max())}
    scored = table[table["inside"].notna()]
    outside = scored.loc[~scored["inside"].astype(bool), "quantity"]
    words |= {"predicted": len(scored), "outside": list(outside.str.replace("_", " "))}
    return replace(found, words=words, table=table, draw=drawing(at_a_glance, second.ends(evidence, drawn=False)))


def by_shares(rows: pd.DataFrame) -> Result:
    """Corrected shares of the design's blocks and their differences."""
    table = shares.shares(rows, shares.design_blocks(rows), seed=SEED, level=SURE)
    interval = f"{SURE:.0%} t interval, parametric bootstrap with the design fixed"
    known = table.set_index("what").to_dict("index")
    found = {what: Estimate(row["estimate"], row["lower"], row["upper"], interval) for what, row in known.items()}
    own = Estimate(known["geometry"]["unique"], p=known["geometry"]["p"])
    return Result.of(rows, found | {OWN: own}, estimate=FIRST, table=table)


@CLAIM.finding(
    "order",
    primary=ORDERED,
    robustness=Posterior(STATED),
    over=GAINS,
    trial=Trial(read, by_shares, worlds=worlds_of_causes("log_gain", GEOMETRY, *SCALE, levels="pair")),
    **CONTROLLED,
)
def order(evidence: Evidence, gain: Case) -> Result:
    """Do recipe, geometry and scale come in the claimed order?"""
    rows = models(evidence, gain)
    fit = answering(evidence) if gain is PRIMARY else recipe_fit(evidence, gain)
    found, columns = by_shares(rows), shares.design_blocks(rows)
    tests = block_f(rows, "log_gain", columns)
    shuffled = {name: freedman_lane(rows, "log_gain", columns, name, seed=SEED).p_value for name in tests}
    more: dict[str, Any] = {}
    words: dict[str, Any] = {"blocks": list(columns), "tests": tests, "shuffled": shuffled}
    if fit is not None:
        more["fit_tables"] = {"orders of the blocks": fit.orders(), "recipes": fit.labs()}
        more |= {"fit": fit, "statements": {STATED: fit.statements[ORDER]}}
    if gain is PRIMARY:
        others = published(evidence)
        more["table"] = both = shares.caused_and_observed(rows, others, seed=SEED, level=SURE)
        own = both[both["columns"] == "the design's"]
        named = own.assign(row=own["what"] + ", " + own["study"].str.split(",").str[0])
        xlabel = "corrected share of the variance of the log gain"
        more["draw"] = drawing(forest, named, label="row", null=0.0, xlabel=xlabel)
        observed = own[own["study"] == "published, observed"].set_index("what")["estimate"]
        words |= {"n_published": len(others), "observed": observed, "level": SURE}
        words |= shares.other_choices(final(evidence), gain.id)
        if fit is not None:
            more["panels"] = (fit.panels["variance-shares"],)
    return replace(found, words=words, **more)


def by_seeds(rows: pd.DataFrame) -> Result:
    """The seed's share of the variance."""
    found = shares.seed_share(rows)
    pairs = found.pairs.reset_index()
    if len(pairs) < PAIRS.rows["pairs of seeds"]:
        raise TooFew(Result.of(rows, words={"pairs": len(pairs)}))
    interval = "95% χ² interval, variance over all models taken as known"
    estimate = Estimate(found.estimate, found.lower, found.upper, interval)
    own = rows[rows["pair"].isin(pairs["pair"])]
    return Result.of(own, {SHARE: estimate}, table=None, rows={"pairs of seeds": pairs}, words={"found": found})


@CLAIM.finding(
    "seed",
    primary=Below(SHARE, SMALL),
    evidence=NURSERY,
    needs=PAIRS,
    trial=Trial(read, by_seeds, "pair", worlds_of_groups("log_gain", "pair", 1 - LITTLE, 1 - SMALL), "pair"),
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


def by_recipes_left_out(rows: pd.DataFrame) -> Result:
    """Squared error that geometry and scale save in a recipe that the lines were not fitted to."""
    saved = shares.saved_by_recipe(rows)
    middle, error = float(saved.mean()), float(saved.sem())
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(saved) - 1)) * error
    interval = "95% t interval over recipes left out"
    return Result.of(rows, {SAVED: Estimate(middle, middle - half, middle + half, interval)})


@CLAIM.finding(
    "unseen_recipes",
    primary=Above(SAVED, 0),
    trial=Trial(read, by_recipes_left_out, worlds=worlds_in_groups("log_gain", "log_L", QUARTER, BETWEEN)),
    **CONTROLLED,
)
def unseen_recipes(evidence: Evidence) -> Result:
    """Do geometry and scale predict the models of a recipe that was not seen?"""
    rows = models(evidence, PRIMARY)
    held = leave_one_out(recipe_fit(evidence, PRIMARY), by="heritage", seed=SEED)
    predictions = held.predictions.rename(columns={"heritage": "recipe"})
    draw = drawing(left_out_errors, held.predictions)
    failed = int((held.predictions["status"] != "passed").sum())
    return replace(by_recipes_left_out(rows), table=predictions, draw=draw, words={"held": held, "failed": failed})


def of_published(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the nursery's slopes, posterior means, predict about their mean."""
    drawn = shares.drawn_slopes(answering(evidence), models(evidence, PRIMARY))
    return shares.with_predictions(published(evidence), drawn.mean(axis=0))


def by_predictions(rows: pd.DataFrame) -> Result:
    """Squared error that predictions save over the mean."""
    saved = shares.jackknifed_error_saved(rows)
    return Result.of(rows, {SAVED: Estimate(*saved, "95% jackknife t interval, labs left out")})


@CLAIM.finding(
    "carry_over",
    primary=Above(SAVED, 0),
    robustness=PREDICTS,
    trial=Trial(of_published, by_predictions, worlds=worlds_of_line("log_gain", "predicted", QUARTER)),
    evidence=NURSERY,
    group="lab",
)
def carry_over(evidence: Evidence) -> Result:
    """Do the nursery's slopes predict the published gains better than their mean does?"""
    rows, others, fit = models(evidence, PRIMARY), published(evidence), answering(evidence)
    drawn, shown = shares.drawn_slopes(fit, rows), of_published(evidence)
    skill = shares.error_saved(others, drawn).reshape(fit.draws["tau"].shape)
    return replace(
        by_predictions(shown),
        draw=lambda axes: shares.scatter(axes, shown),
        fit=fit,
        statements={PREDICTS.statement: skill > 0},
        words={
            "variance": float(others["log_gain"].var(ddof=0)),
            "r": float(np.corrcoef(shown["predicted"], shown["log_gain"])[0, 1]),
            "slopes": dict(zip(shares.SLOPES, drawn.mean(axis=0), strict=True)),
            "ranges": [(name, others[c].min(), others[c].max()) for name, c in (("L", "n_layers"), ("d", "d_model"))],
        },
    )


def of_both(evidence: Evidence) -> pd.DataFrame:
    """Models of both studies, where the second is enough."""
    return together.models(evidence) if len(of_second(evidence)) else pd.DataFrame()


@CLAIM.finding(
    "together",
    primary=Above(OVER, 1) & Above(ABOVE, 1),
    robustness=IN_ORDER,
    trial=Trial(of_both, by_both, "recipe", worlds_of_components()),
    evidence=NURSERY,
    needs=HALF,
)
def of_both_studies(evidence: Evidence) -> Result:
    """The same of both studies together."""
    rows = of_both(evidence)
    widths = {str(study): together.slope(own, "log_d") for study, own in rows.groupby("study")}
    found = by_both(rows)
    in_order = found.probability(IN_ORDER.statement)
    return replace(found, words={**found.words, "widths": widths, "in_order": in_order})


def of_published_by_both(evidence: Evidence) -> pd.DataFrame:
    """Published models with what the slopes within recipes of both studies predict about their mean."""
    slopes = together.within(of_both(evidence)).slopes[: len(together.LINES)]
    return shares.with_predictions(published(evidence), slopes)


@CLAIM.finding(
    "carry_over_both",
    primary=Above(SAVED, 0),
    trial=Trial(of_published_by_both, by_predictions, worlds=worlds_of_line("log_gain", "predicted", QUARTER)),
    evidence=NURSERY,
    group="lab",
)
def carry_over_of_both(evidence: Evidence) -> Result:
    """Do the slopes of both studies predict the published gains better than their mean does?"""
    shown = of_published_by_both(evidence)
    r = float(np.corrcoef(shown["predicted"], shown["log_gain"])[0, 1])
    variance = float(shown["log_gain"].var(ddof=0))
    return replace(
        by_predictions(shown), draw=lambda axes: shares.scatter(axes, shown), words={"r": r, "variance": variance}
    )


if __name__ == "__main__":
    CLAIM.main()
