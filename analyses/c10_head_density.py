"""C10: head density ρ = H/d_h drives the sign, with a threshold between 0.15 and 0.20."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, Estimate, Evidence, Result
from thermostats.claims.rule import Above, Below, Decide, Each, Posterior, Some, V
from thermostats.modelling.classical.association import correlation, slope
from thermostats.modelling.classical.counts import roc_threshold
from thermostats.modelling.laws.crowding import crowding_rows, fit_crowding, thresholds
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import reference, scatter_labelled
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.gains import GAIN_WORDS, HUNT, PYTHIA, features_of, gains, prompt_counts

ALPHA = 0.05
WEAK = -0.3
SEED = 10
SCALE = 0.25
"""Gains that differ by a factor e^0.25 = 1.3 over one SD of log ρ would be no surprise."""
FAMILY, DENSE, SPARSE = "pythia", "Pythia-6.9B", "GPT-J"
RANK = V("rank correlation")
FALLS = Decide(
    (RANK < 0) & (RANK.p <= ALPHA), ((RANK > 0) & (RANK.p <= ALPHA)) | ((RANK.p > ALPHA) & (RANK.lower > WEAK))
)
ENDS = "ends of the published range"
BETTER = Decide(Some(ENDS, V("p") <= ALPHA), Each(ENDS, V("accuracy") <= V("share of the commoner sign")))
STEP = Posterior("threshold within the published range, expanding below and dampening above")
SLOPE = Posterior("slope over log ρ < 0", draws=V("log_rho") < 0)

CLAIM = Claim.read(__file__)


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """One row a model."""
    return gains(evidence)


def by_family(evidence: Evidence, inside: bool) -> pd.DataFrame:
    """Comparable models of the family on which the rule was made, or of all others."""
    rows = models(evidence)
    return rows[rows["comparable"] & ((rows["family"] == FAMILY) == inside)].reset_index(drop=True)


@CLAIM.finding("threshold", primary=BETTER, robustness=STEP)
def threshold(evidence: Evidence) -> Result:
    """The rule on models that it was not made on, at the better end of the published range."""
    every, inside, outside = models(evidence), by_family(evidence, True), by_family(evidence, False)
    low, high = audit.published_thresholds(evidence)
    tried = {cut: audit.named_by_density(outside, cut) for cut in (low, high)}
    found = max(tried.values(), key=lambda one: one.estimate)
    ends = [(cut, one.estimate, one.majority, one.p_value) for cut, one in tried.items()]
    features = features_of(evidence, PYTHIA, HUNT)
    features = features[features["family"] != FAMILY]
    known: dict[str, Any] = {"source": [PYTHIA, HUNT], "prompt_counts": prompt_counts(evidence, features)}
    fit = fit_crowding(features, **known, seed=SEED)
    *_, drawn = thresholds(crowding_rows(features, **known), seed=SEED)
    within = (drawn["threshold"] >= low) & (drawn["threshold"] <= high)
    fair = every[every["comparable"]]
    best = roc_threshold(fair["rho"], fair["gain"] < 1, seed=SEED)

    def draw(axes: Axes) -> None:
        axes.axvspan(low, high, color="#d5d2cb", alpha=0.5, linewidth=0)
        reference(axes, 1.0)
        axes.set_xscale("log")
        scatter_labelled(every, axes, x="rho", y="gain", lower="lower", upper="upper")
        axes.set_ylabel(GAIN_WORDS["penultimate_gain"])
        log_axis(axes, "x")

    columns = ["model_id", "heritage", "rho", "n_layers", "gain", "lower", "upper", "comparable"]
    both = "log_gain ~ n_layers + rho"
    return Result(
        quantities={"accuracy": Estimate.of(found, p=found.p_value, p_kind="one-sided p-value")},
        rows={ENDS: pd.DataFrame(ends, columns=["threshold", "accuracy", "share of the commoner sign", "p"])},
        n_models=found.n,
        n_groups=outside["heritage"].nunique(),
        table=every[columns].sort_values("rho"),
        draw=draw,
        fit=fit,
        fit_tables=("threshold", "rivals", "models"),
        statements={STEP.statement: (within & (drawn["below"] > 0) & (drawn["above"] < 0))[None]},
        audit=audit.density(evidence, every, best.estimate),
        words={
            "found": found,
            "tried": tried,
            "best": best,
            "learned": audit.named_by_density(inside, high),
            "high": high,
            "shown": len(every),
            "p": {term: slope(inside, both, term=term, errors="classical").p_value for term in ("rho", "n_layers")},
        },
    )


def association(rows: pd.DataFrame) -> Result:
    """ρ against the gain over some models, by ranks and by a line over log ρ."""
    r = correlation(rows["rho"], rows["gain"], method="spearman", seed=SEED)
    error = (rows["upper"] - rows["lower"]) / 2 / stats.t.ppf(0.975, rows["n_prompts"] - 1) / rows["gain"]
    shown = rows.assign(log_rho=np.log(rows["rho"].astype(float)), error=error)
    fit = fit_line(shown, "log_gain", ["log_rho"], scale=SCALE, error="error", sources=[PYTHIA, HUNT], seed=SEED)
    rank = Estimate.of(r, p=r.p_permutation)
    return Result.of(rows, {RANK.name: rank}, table=None, fit=fit, fit_tables=("rows",))


@CLAIM.finding("density.pythia", primary=FALLS, robustness=SLOPE)
def pythia(evidence: Evidence) -> Result:
    """Inside the family on which the rule was made."""
    rows = by_family(evidence, True)
    return replace(association(rows), audit=audit.density_in_the_family(evidence, rows, seed=SEED))


@CLAIM.finding("density.others", primary=FALLS, robustness=SLOPE)
def others(evidence: Evidence) -> Result:
    """Outside it."""
    return association(by_family(evidence, False))


@CLAIM.finding("pair", primary=Below(DENSE, 1) & Above(SPARSE, 1))
def pair(evidence: Evidence) -> Result:
    """The two models that the study names, from the file with most prompts."""
    rows = models(evidence).set_index("model_id")
    dense, sparse = (rows.loc[name] for name in (audit.DENSE, audit.SPARSE))
    named = {name: Estimate(r["gain"], r["lower"], r["upper"]) for name, r in ((DENSE, dense), (SPARSE, sparse))}
    return Result(
        quantities={"difference": Estimate(float(dense["gain"] - sparse["gain"])), **named},
        n_models=2,
        n_groups=1,
        audit=audit.density_of_the_pair(evidence),
        words={"dense": dense, "sparse": sparse},
    )


if __name__ == "__main__":
    CLAIM.main()
