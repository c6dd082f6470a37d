"""N01: with recipes given by design, is the gain a matter of recipe first, then of shape, then of size?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import PUBLISHED, Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, AtLeast, Below, Decide, Posterior, V
from thermostats.errors import UsageError
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.held_out import leave_one_out
from thermostats.modelling.heritage.shares import block_f, corrected_shares, freedman_lane
from thermostats.plots.general import forest
from thermostats.plots.posterior import left_out_errors
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.rows import LEAST_MODELS, LEAST_RECIPES, distinct, final, fit_recipes, judged, too_few
from thermostats.studies.nursery.shares import (
    SLOPES,
    caused_and_observed,
    design_blocks,
    drawn_slopes,
    error_saved,
    jackknifed_error_saved,
    published_rows,
    scatter,
    seed_pairs,
    seed_share,
    shares,
    with_predictions,
)
from thermostats.tables.vocabulary import NURSERY

SEED = 101
SMALL = 0.05
"""C04's bar for "almost nothing"."""
FIRST, SECOND, SHARE = "recipe − geometry", "geometry − scale", "share of the seed"
DENSITY, SAVED = "gain in log predictive density", "squared error saved"
ENOUGH = AtLeast(models=LEAST_MODELS, groups=LEAST_RECIPES)
PAIRS = AtLeast(rows={"models": LEAST_MODELS, "recipes": LEAST_RECIPES, "pairs of seeds": 5})
NURSERY_MODELS = AtLeast(rows={"models of the controlled study": LEAST_MODELS, "recipes": LEAST_RECIPES})
PASSED = V("refits that failed") <= 0
PREDICTS = Posterior("the nursery's slopes err less than the published mean")

CLAIM = Claim.read(__file__)


@dataclass(frozen=True)
class Gain:
    """A named gain, and what it is in words."""

    id: str
    words: str


PRIMARY = Gain("penultimate_gain", "penultimate gain (block L − 1), models of four blocks or more")
GAINS = (
    PRIMARY,
    Gain("last_gain", "last gain"),
    Gain("geometric_gain", "mean gain a block, blocks 2 to L"),
    Gain("max_gain", "largest gain, blocks 2 to L"),
    Gain("total_amplification", "product of gains, blocks 2 to L"),
)


@CLAIM.shared
def models(evidence: Evidence, gain: Gain) -> pd.DataFrame:
    """Models that a gain is judged by."""
    return judged(final(evidence), gain.id)


@CLAIM.shared
def recipe_fit(evidence: Evidence, gain: Gain) -> HeritageFit:
    """C04's model with recipes in the place of labs."""
    return fit_recipes(models(evidence, gain), gain.id, seed=SEED, left_out=gain is PRIMARY)


@CLAIM.shared
def published(evidence: Evidence) -> pd.DataFrame:
    """The comparable published models."""
    return published_rows(evidence.named(PUBLISHED))


def over_recipes(judged_by: pd.DataFrame, quantities: dict[str, Estimate], **more: Any) -> Result:
    """A result over models of recipes."""
    counted = {"n_models": len(judged_by), "n_groups": judged_by["recipe"].nunique()}
    return Result(quantities=quantities, **{**counted, **more})


@CLAIM.finding(
    "order",
    primary=Above(FIRST, 0) & Above(SECOND, 0),
    robustness=Posterior(ORDER),
    over=GAINS,
    evidence=NURSERY,
    needs=ENOUGH,
)
def order(evidence: Evidence, gain: Gain) -> Result:
    """Do recipe, geometry and scale come in the claimed order?"""
    rows = models(evidence, gain)
    if too_few(rows):
        return over_recipes(rows, {})
    columns, fit = design_blocks(rows), recipe_fit(evidence, gain)
    table = shares(rows, columns, seed=SEED)
    interval = f"95 % t interval of {FIRST}, residuals bootstrapped with the design fixed"
    found = {r["what"]: Estimate(r["estimate"], r["lower"], r["upper"], interval) for r in table.to_dict("records")}
    tests = block_f(rows, "log_gain", columns)
    shuffled = {name: freedman_lane(rows, "log_gain", columns, name, seed=SEED).p_value for name in tests}
    more: dict[str, Any] = {"table": table}
    words: dict[str, Any] = {"blocks": list(columns), "tests": tests, "shuffled": shuffled}
    if fit is not None:
        more["fit_tables"] = {"orders of the blocks": fit.orders(), "recipes": fit.labs()}
        more |= {"fit": fit, "statements": {ORDER: fit.holds(ORDER)}}
    if gain is PRIMARY:
        both = caused_and_observed(rows, published(evidence), seed=SEED)
        more |= {"table": both, "draw": lambda axes: draw(axes, both)}
        if fit is not None:
            more["panels"] = (fit.panels["variance-shares"],)
        words |= {"n_published": len(published(evidence)), "observed": observed(both), **sensitivity(evidence)}
    return over_recipes(rows, found, estimate=FIRST, words=words, **more)


def observed(table: pd.DataFrame) -> dict[str, float]:
    """Shares of the published models by the design's columns."""
    chosen = (table["study"] == "published, observed") & (table["columns"] == "the design's")
    return dict(table.loc[chosen, ["what", "estimate"]].itertuples(index=False, name=None))


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """Shares by the design's columns, nursery above published."""
    shown = table[table["columns"] == "the design's"]
    forest(shown.assign(row=shown["what"] + ", " + shown["study"].str.split(",").str[0]), axes, label="row", null=0.0)
    axes.set_xlabel("share of the variance of the log gain, corrected for columns")


def sensitivity(evidence: Evidence) -> dict[str, Any]:
    """Shares of the primary gain by other choices of models, and how many were measured."""
    everything, rows = final(evidence), models(evidence, PRIMARY)
    learned = everything["learned"].astype(bool)
    others = {
        "with models whose norm pins gains near 1": judged(everything, PRIMARY.id, pinned=True),
        "without models flagged as not having learned": rows[rows["learned"].astype(bool)].reset_index(drop=True),
        "without second seeds": rows[~distinct(rows).duplicated()].reset_index(drop=True),
    }
    found = {}
    for name, chosen in others.items():
        try:
            found[name] = (len(chosen), corrected_shares(chosen, "log_gain", design_blocks(chosen)), "")
        except UsageError as error:
            found[name] = (len(chosen), {}, str(error))
    pinned = int((~everything["comparable"]).sum())
    return {"others": found, "measured": len(everything), "pinned": pinned, "flagged": int((~learned).sum())}


@CLAIM.finding("seed", primary=Below(SHARE, SMALL), evidence=NURSERY, needs=PAIRS)
def seed(evidence: Evidence) -> Result:
    """Has the seed almost nothing to do with it?"""
    rows = models(evidence, PRIMARY)
    own = seed_pairs(rows)
    pairs = own.drop_duplicates("unit")
    known = {"models": rows, "recipes": rows.drop_duplicates("recipe"), "pairs of seeds": pairs}
    if any(len(known[name]) < least for name, least in PAIRS.rows.items()):
        return over_recipes(rows, {}, rows=known, words={"pairs": len(pairs)})
    found = seed_share(rows)
    interval = "95 % χ² interval, variance over all models taken as known"
    estimate = Estimate(found.estimate, found.lower, found.upper, interval)
    return over_recipes(own, {SHARE: estimate}, rows=known, words={"found": found, "pairs": len(pairs)})


@CLAIM.finding(
    "unseen_recipes",
    primary=Decide((V(DENSITY).lower > 0) & PASSED, (V(DENSITY).upper < 0) & PASSED),
    evidence=NURSERY,
    needs=ENOUGH,
)
def unseen_recipes(evidence: Evidence) -> Result:
    """Do geometry and scale predict the models of a recipe that was not seen?"""
    rows = models(evidence, PRIMARY)
    if too_few(rows):
        return over_recipes(rows, {})
    held = leave_one_out(recipe_fit(evidence, PRIMARY), by="heritage", seed=SEED)
    half = float(stats.t.ppf((1 + LEVEL) / 2, rows["recipe"].nunique() - 1)) * held.elpd_difference_error
    middle, interval = held.elpd_difference, "95 % t interval over recipes left out, exact refits"
    failed = int((held.predictions["status"] != "passed").sum())
    return over_recipes(
        rows,
        {DENSITY: Estimate(middle, middle - half, middle + half, interval), "refits that failed": Estimate(failed)},
        table=held.predictions,
        draw=lambda axes: left_out_errors(held.predictions, axes),
        words={"held": held},
    )


@CLAIM.finding(
    "carry_over", primary=Above(SAVED, 0), robustness=PREDICTS, evidence=NURSERY, needs=NURSERY_MODELS, group="lab"
)
def carry_over(evidence: Evidence) -> Result:
    """Do the nursery's slopes predict the published gains better than their mean does?"""
    rows, others = models(evidence, PRIMARY), published(evidence)
    known = {"models of the controlled study": rows, "recipes": rows.drop_duplicates("recipe")}
    if too_few(rows):
        return Result.of(others, {}, rows=known, table=None)
    fit = recipe_fit(evidence, PRIMARY)
    drawn = drawn_slopes(fit, rows)
    middle = drawn.mean(axis=0)
    shown = with_predictions(others, middle)
    interval = "95 % jackknife t interval, labs left out"
    skill = error_saved(others, drawn).reshape(fit.draws["tau"].shape)
    return Result.of(
        others,
        {SAVED: Estimate(*jackknifed_error_saved(others, middle), interval)},
        rows=known,
        table=shown,
        draw=lambda axes: scatter(axes, shown),
        fit=fit,
        statements={PREDICTS.statement: skill > 0},
        words={
            "variance": float(others["log_gain"].var(ddof=0)),
            "r": float(np.corrcoef(shown["predicted"], shown["log_gain"])[0, 1]),
            "slopes": dict(zip(SLOPES, middle, strict=True)),
            "ranges": [(name, others[c].min(), others[c].max()) for name, c in (("L", "n_layers"), ("d", "d_model"))],
        },
    )


if __name__ == "__main__":
    CLAIM.main()
