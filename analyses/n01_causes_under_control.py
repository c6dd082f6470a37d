"""N01: with recipes given by design, is the gain a matter of recipe first, then of shape, then of size?"""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import PUBLISHED, Case, Claim, Estimate, Evidence, Result, TooFew
from thermostats.claims.rule import Above, AtLeast, Below, Decide, Posterior, V
from thermostats.modelling.heritage.blocks import ORDER
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.held_out import leave_one_out
from thermostats.modelling.heritage.shares import block_f, freedman_lane
from thermostats.plots.general import drawing, forest
from thermostats.plots.posterior import left_out_errors
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery import shares
from thermostats.studies.nursery.rows import CONTROLLED, ENOUGH, final, fit_recipes, judged
from thermostats.tables.vocabulary import NURSERY

SEED = 101
SMALL = 0.05
"""C04's bar for "almost nothing"."""
FIRST, SECOND, SHARE = "recipe − geometry", "geometry − scale", "share of the seed"
DENSITY, SAVED = "gain in log predictive density", "squared error saved"
PAIRS = AtLeast(rows={"pairs of seeds": 5})
PASSED = V("refits that failed") <= 0
PREDICTS = Posterior("the nursery's slopes err less than the published mean")
PRIMARY = Case("penultimate_gain", "penultimate gain (block L − 1), models of four blocks or more")
GAINS = (
    PRIMARY,
    Case("last_gain", "last gain"),
    Case("geometric_gain", "mean gain a block, blocks 2 to L"),
    Case("max_gain", "largest gain, blocks 2 to L"),
    Case("total_amplification", "product of gains, blocks 2 to L"),
)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence, gain: Case) -> pd.DataFrame:
    """Models that a gain is judged by."""
    return ENOUGH.of(judged(final(evidence), gain.id))


@CLAIM.shared
def recipe_fit(evidence: Evidence, gain: Case) -> HeritageFit:
    """C04's model with recipes in the place of labs."""
    return fit_recipes(models(evidence, gain), gain.id, seed=SEED, left_out=gain is PRIMARY)


@CLAIM.shared
def published(evidence: Evidence) -> pd.DataFrame:
    """The comparable published models."""
    return shares.published_rows(evidence.named(PUBLISHED))


@CLAIM.finding(
    "order", primary=Above(FIRST, 0) & Above(SECOND, 0), robustness=Posterior(ORDER), over=GAINS, **CONTROLLED
)
def order(evidence: Evidence, gain: Case) -> Result:
    """Do recipe, geometry and scale come in the claimed order?"""
    rows, fit = models(evidence, gain), recipe_fit(evidence, gain)
    columns = shares.design_blocks(rows)
    table = shares.shares(rows, columns, seed=SEED)
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
        others = published(evidence)
        more["table"] = both = shares.caused_and_observed(rows, others, seed=SEED)
        own = both[both["columns"] == "the design's"]
        named = own.assign(row=own["what"] + ", " + own["study"].str.split(",").str[0])
        xlabel = "share of the variance of the log gain, corrected for columns"
        more["draw"] = drawing(forest, named, label="row", null=0.0, xlabel=xlabel)
        observed = own[own["study"] == "published, observed"].set_index("what")["estimate"]
        words |= {"n_published": len(others), "observed": observed, **shares.other_choices(final(evidence), gain.id)}
        if fit is not None:
            more["panels"] = (fit.panels["variance-shares"],)
    return Result.of(rows, found, estimate=FIRST, words=words, **more)


@CLAIM.finding("seed", primary=Below(SHARE, SMALL), evidence=NURSERY, needs=PAIRS)
def seed(evidence: Evidence) -> Result:
    """Has the seed almost nothing to do with it?"""
    rows = models(evidence, PRIMARY)
    own = shares.seed_pairs(rows)
    pairs = own.drop_duplicates("unit")
    if len(pairs) < PAIRS.rows["pairs of seeds"]:
        raise TooFew(Result.of(rows, words={"pairs": len(pairs)}))
    found = shares.seed_share(rows)
    interval = "95 % χ² interval, variance over all models taken as known"
    estimate = Estimate(found.estimate, found.lower, found.upper, interval)
    words = {"found": found, "pairs": len(pairs)}
    return Result.of(own, {SHARE: estimate}, table=None, rows={"pairs of seeds": pairs}, words=words)


@CLAIM.finding(
    "unseen_recipes", primary=Decide((V(DENSITY).lower > 0) & PASSED, (V(DENSITY).upper < 0) & PASSED), **CONTROLLED
)
def unseen_recipes(evidence: Evidence) -> Result:
    """Do geometry and scale predict the models of a recipe that was not seen?"""
    rows = models(evidence, PRIMARY)
    held = leave_one_out(recipe_fit(evidence, PRIMARY), by="heritage", seed=SEED)
    half = float(stats.t.ppf((1 + LEVEL) / 2, rows["recipe"].nunique() - 1)) * held.elpd_difference_error
    middle, interval = held.elpd_difference, "95 % t interval over recipes left out, exact refits"
    failed = int((held.predictions["status"] != "passed").sum())
    return Result.of(
        rows,
        {DENSITY: Estimate(middle, middle - half, middle + half, interval), "refits that failed": Estimate(failed)},
        table=held.predictions,
        draw=drawing(left_out_errors, held.predictions),
        words={"held": held},
    )


@CLAIM.finding("carry_over", primary=Above(SAVED, 0), robustness=PREDICTS, evidence=NURSERY, group="lab")
def carry_over(evidence: Evidence) -> Result:
    """Do the nursery's slopes predict the published gains better than their mean does?"""
    rows, others, fit = models(evidence, PRIMARY), published(evidence), recipe_fit(evidence, PRIMARY)
    drawn = shares.drawn_slopes(fit, rows)
    middle = drawn.mean(axis=0)
    shown = shares.with_predictions(others, middle)
    interval = "95 % jackknife t interval, labs left out"
    skill = shares.error_saved(others, drawn).reshape(fit.draws["tau"].shape)
    return Result.of(
        others,
        {SAVED: Estimate(*shares.jackknifed_error_saved(others, middle), interval)},
        table=shown,
        draw=lambda axes: shares.scatter(axes, shown),
        fit=fit,
        statements={PREDICTS.statement: skill > 0},
        words={
            "variance": float(others["log_gain"].var(ddof=0)),
            "r": float(np.corrcoef(shown["predicted"], shown["log_gain"])[0, 1]),
            "slopes": dict(zip(shares.SLOPES, middle, strict=True)),
            "ranges": [(name, others[c].min(), others[c].max()) for name, c in (("L", "n_layers"), ("d", "d_model"))],
        },
    )


if __name__ == "__main__":
    CLAIM.main()
