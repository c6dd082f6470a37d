"""C10: head density ρ = H/d_h drives the sign, with a threshold between 0.15 and 0.20.

Claim: models with ρ above 0.15 to 0.20 dampen and models below expand; Pythia-6.9B (0.25) dampens, GPT-J (0.0625)
expands.
Estimand: share of models whose side of gain 1 (penultimate) follows from ρ ≥ threshold, over comparable models outside
the Pythia family, on which the rule was made, at the better of the two ends of the published range. Unit: the model.
Rule: supported where that share beats the share of the commoner sign at one-sided exact p of at most ALPHA; not
supported where it does not exceed it even at the better end; everything else is inconclusive. Inside the Pythia family
and outside: correlation of ρ with the gain, supported where negative with two-sided permutation p of at most ALPHA, not
supported where positive with such a p or where its interval lies above WEAK. The two named models: supported where both
intervals over prompts lie on the claimed sides, not supported where one lies on the other side. Beside the primary
finding a step in the log gain at a threshold of ρ to be found, labs with levels of their own: supported where
P(threshold within the published range, models expand below it and dampen above) is at least 0.95, not supported where
it is at most 0.05; beside the associations a line of the log gain over log ρ, P(slope < 0) by the same limits. A
finding has the verdict that both come to, and is inconclusive where they differ or where a check of the fit fails.
Source: sections 5.4 and 7; files of the Pythia family, of the hunt and of the clean residual.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_above, if_all, if_below
from thermostats.modelling.classical.association import correlation, slope
from thermostats.modelling.classical.counts import Accuracy, classification_accuracy, roc_threshold
from thermostats.modelling.laws.crowding import crowding_rows, fit_crowding, steps_of, threshold_of
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import reference, scatter_labelled
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.gains import CLEAN, GAIN_WORDS, HUNT, PYTHIA, features_of, gains, prompt_counts
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import number, relation, short_name

ALPHA = 0.05
WEAK = -0.3
SEED = 10
SCALE = 0.25
"""Gains that differ by a factor e^0.25 = 1.3 over one SD of log ρ would be no surprise."""
FAMILY = "pythia"
CUTS = {"lower": "section 7 lower", "upper": "section 7 upper"}
IN_THE_FAMILY = {
    "r of ρ and gain in the file": "/analysis/rho_gain_correlation",
    "its p": "/analysis/correlation_p_value",
    "share of dense models that dampen": "/analysis/high_rho_dampen_rate",
    "share of other models that expand": "/analysis/low_rho_expand_rate",
}
ACCURACY = {HUNT: "accuracy in the hunt's file, share", CLEAN: "accuracy in the clean residual's file, %"}
DENSE, SPARSE = "EleutherAI/pythia-6.9b", "EleutherAI/gpt-j-6b"
STATED = {
    "accuracy in the hunt, %": "appendix B with",
    "ρ of Pythia-6.9B": "section 5.4 Pythia-6.9B",
    "ρ of GPT-J-6B": "section 5.4 GPT-J-6B",
    "ratio of the two": "section 5.4 ratio",
}

CLAIM = Claim(
    id="C10",
    title="Head density ρ = H/d_h drives the sign",
    said="Above a head density of 0.15 to 0.20 models dampen and below they expand: Pythia-6.9B (0.25) dampens, "
    "GPT-J (0.0625) expands.",
    estimand="share of models outside the Pythia family whose side of gain 1 follows from ρ ≥ threshold; unit: the "
    "model",
    rule=f"Supported where that share beats always naming the commoner sign with one-sided exact p of at most "
    f"{ALPHA:g}; not supported where it does not exceed it at either end of the published range of the threshold. "
    "Beside it the posterior of a step at a threshold; the verdict is what both come to.",
    source="Sections 5.4 and 7; pythia_family, high_rho_hunt, clean_residual",
    rows="study",
)


def accuracy(rows: pd.DataFrame, cut: float) -> Accuracy:
    """How often ρ ≥ cut says on which side of 1 the gain is."""
    words = {True: "dampens", False: "expands"}
    return classification_accuracy((rows["rho"] >= cut).map(words), (rows["gain"] < 1).map(words))


def held_out(rows: pd.DataFrame, cuts: dict[str, float]) -> Finding:
    """The primary finding: the rule on models that it was not made on."""
    tried = {cut: accuracy(rows, cut) for cut in cuts.values()}
    best = max(tried, key=lambda cut: tried[cut].estimate)
    found = tried[best]
    decided = SUPPORTED if found.p_value <= ALPHA else AGAINST if found.estimate <= found.majority else OPEN
    both = ", ".join(f"{result.estimate:.0%} at {cut:g}" for cut, result in tried.items())
    return Finding(
        claim="C10",
        estimand="accuracy of ρ ≥ threshold outside the Pythia family",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: on {found.n} models outside the family on which it was found, the rule names "
        f"the right side of gain 1 in {found.estimate:.0%} (95 % interval {found.lower:.0%} to {found.upper:.0%}) at "
        f"the better of the published thresholds ({both}), and always naming the commoner side in "
        f"{found.majority:.0%} (one-sided p of being better "
        f"{relation(found.p_value)}). Its balanced accuracy is {found.balanced_accuracy:.0%}, where a coin has 50%.",
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        interval=f"95 % {found.interval}",
        probability=found.p_value,
        probability_kind="one-sided p-value",
        n_models=found.n,
        n_heritages=rows["heritage"].nunique(),
    )


def with_step(tables: Evidence, finding: Finding, cuts: dict[str, float]) -> Finding:
    """The primary finding with the posterior of a step at a threshold, on the same models."""
    features = features_of(tables, PYTHIA, HUNT)
    outside = features[features["family"] != FAMILY]
    counted = prompt_counts(tables, outside)
    fit = fit_crowding(outside, source=[PYTHIA, HUNT], prompt_counts=counted, seed=SEED)
    rows = crowding_rows(outside, source=[PYTHIA, HUNT], prompt_counts=counted)
    _, drawn = threshold_of(*steps_of(rows), seed=SEED)
    inside = (drawn["threshold"] >= cuts["lower"]) & (drawn["threshold"] <= cuts["upper"])
    told = posterior_of(
        fit,
        model="Step of the log penultimate gain at a threshold of ρ, and slopes within and between labs beside it.",
        statement=f"threshold within {cuts['lower']:g} to {cuts['upper']:g}, expanding below and dampening above",
        truth=(inside & (drawn["below"] > 0) & (drawn["above"] < 0))[None],
        classical=finding.verdict,
        tables=["threshold", "rivals", "models"],
        sensitivity=fit.table("sensitivity"),
    )
    return beside(finding, fit, told)


def with_slope(rows: pd.DataFrame, finding: Finding) -> Finding:
    """The finding on an association with the posterior of a line over log ρ."""
    error = (rows["upper"] - rows["lower"]) / 2 / stats.t.ppf(0.975, rows["n_prompts"] - 1) / rows["gain"]
    shown = rows.assign(log_rho=np.log(rows["rho"].astype(float)), error=error)
    fit = fit_line(shown, "log_gain", ["log_rho"], scale=SCALE, error="error", sources=[PYTHIA, HUNT], seed=SEED)
    told = posterior_of(
        fit,
        model="Line of the log penultimate gain over log ρ, labs with levels of their own where there are several.",
        statement="slope over log ρ < 0",
        truth=fit.quantities["log_rho"] < 0,
        classical=finding.verdict,
        tables=["rows"],
    )
    return beside(finding, fit, told)


def association(rows: pd.DataFrame, words: str, limit: str = "") -> Finding:
    """The finding on ρ and the gain over some models; `limit` says with the verdict what the models cannot show."""
    r = correlation(rows["rho"], rows["gain"], method="spearman", seed=SEED)
    decided = AGAINST if r.lower > WEAK else OPEN
    if r.p_permutation <= ALPHA:
        decided = SUPPORTED if r.estimate < 0 else AGAINST
    return Finding(
        claim="C10",
        estimand=f"ρ against penultimate gain, {words}",
        verdict=decided,
        plain=f"{SENTENCES[decided]}{limit}: over {r.n} models ({words}) the rank correlation of ρ with the gain is "
        f"{number(r.estimate)} (95 % interval {number(r.lower)} to {number(r.upper)}, "
        f"two-sided p {relation(r.p_permutation)}).",
        estimate=r.estimate,
        lower=r.lower,
        upper=r.upper,
        interval=f"95 % {r.interval}",
        probability=r.p_permutation,
        probability_kind="p-value",
        n_models=r.n,
        n_heritages=rows["heritage"].nunique(),
    )


def named_pair(rows: pd.DataFrame) -> Finding:
    """The finding on the two models that the study names, from the source with most prompts."""
    dense, sparse = (rows[rows["model_id"] == name].iloc[0] for name in (DENSE, SPARSE))
    sides = (if_below(dense["lower"], dense["upper"], 1.0), if_above(sparse["lower"], sparse["upper"], 1.0))
    decided = if_all(sides)
    return Finding(
        claim="C10",
        estimand="Pythia-6.9B below 1 and GPT-J above",
        verdict=decided,
        plain=f"{SENTENCES[decided]}: Pythia-6.9B has a gain of {number(dense['gain'], 4)} (95 % interval over "
        f"{dense['n_prompts']:g} prompts {number(dense['lower'], 4)} to {number(dense['upper'], 4)}), GPT-J of "
        f"{number(sparse['gain'], 4)} ({number(sparse['lower'], 4)} to {number(sparse['upper'], 4)}). Two models "
        "that differ in tokenizer, depth and recipe as well cannot show that ρ is the reason.",
        estimate=float(dense["gain"] - sparse["gain"]),
        n_models=2,
        n_heritages=1,
    )


def in_family(rows: pd.DataFrame, cut: float) -> dict[str, float]:
    """The figures of the family's file, by the names of `IN_THE_FAMILY`."""
    r = correlation(rows["rho"], rows["gain"], seed=SEED)
    dense = rows["rho"] >= cut
    shares = (rows.loc[dense, "gain"] < 1).mean(), (rows.loc[~dense, "gain"] > 1).mean()
    return dict(zip(IN_THE_FAMILY, (r.estimate, r.p_value, *map(float, shares)), strict=True))


def analyse(tables: Evidence) -> list[Finding]:
    """Held-out accuracy, association inside and outside the Pythia family, and the two named models."""
    every = gains(tables)
    rows = every[every["comparable"]].reset_index(drop=True)
    inside, outside = (
        rows[mask].reset_index(drop=True) for mask in (rows["family"] == FAMILY, rows["family"] != FAMILY)
    )
    cuts = stated(tables, CUTS)
    hunt = features_of(tables, HUNT).assign(gain=lambda frame: frame["penultimate_gain"])
    two = features_of(tables, CLEAN).assign(gain=lambda frame: frame["penultimate_gain"])
    clean = two.set_index("model_id")["gain"]
    rho = every.set_index("model_id")["rho"]
    reproduced = {
        "accuracy in the hunt, %": 100 * accuracy(hunt, cuts["upper"]).estimate,
        "ρ of Pythia-6.9B": float(rho[DENSE]),
        "ρ of GPT-J-6B": float(rho[SPARSE]),
        "ratio of the two": float(rho[DENSE] / rho[SPARSE]),
        ACCURACY[HUNT]: accuracy(hunt, cuts["upper"]).estimate,
        ACCURACY[CLEAN]: 100 * accuracy(two, cuts["upper"]).estimate,
    }
    learned = accuracy(inside, cuts["upper"])
    best = roc_threshold(rows["rho"], rows["gain"] < 1, seed=SEED)
    own = {
        term: slope(inside, "log_gain ~ n_layers + rho", term=term, errors="classical") for term in ("rho", "n_layers")
    }
    repeated = (
        every.loc[every["model_id"] == DENSE, "gain"].tolist() + hunt.loc[hunt["model_id"] == DENSE, "gain"].tolist()
    )
    notes = (
        f"In the Pythia family itself ρ ≥ {cuts['upper']:g} is right for {learned.estimate:.0%} of {learned.n} "
        "models: the rule was made there, and that figure says nothing about other models.",
        f"The best cut over all {best.n} comparable models is {number(best.estimate)} (bootstrap "
        f"{number(best.lower)} to {number(best.upper)}), balanced accuracy {best.accuracy:.0%} where shuffled signs "
        f"give {best.accuracy_by_chance:.0%} (p {relation(best.p_value)}).",
        "Inside the family ρ and depth compete: with both in one model of the log gain ρ has p "
        f"{relation(own['rho'].p_value)} and depth p {relation(own['n_layers'].p_value)}. C01 judges depth on these "
        f"same {len(inside)} models: the two are here one observation and not two.",
        "The ends of the published range of the threshold have no computation in the files; the best cut found here "
        "stands beside them.",
        "Pythia-6.9B was measured with three prompt sets: "
        f"{', '.join(number(value, 4) for value in [*repeated, clean[DENSE]])}.",
    )

    def draw(axes: Axes) -> None:
        axes.axvspan(cuts["lower"], cuts["upper"], color="#d5d2cb", alpha=0.5, linewidth=0)
        reference(axes, 1.0)
        axes.set_xscale("log")
        scatter_labelled(every, axes, x="rho", y="gain", lower="lower", upper="upper")
        axes.set_ylabel(GAIN_WORDS["penultimate_gain"])
        log_axis(axes, "x")

    primary = replace(
        with_step(tables, held_out(outside, cuts), cuts),
        published=stated(tables, STATED)
        | {
            name: value
            for file, name in ACCURACY.items()
            for value in stated(tables, {name: "/h25_accuracy"}, file).values()
        }
        | {f"critical ρ, {end}": cut for end, cut in cuts.items()},
        reproduced=reproduced | {"best cut of ρ": best.estimate},
        notes=notes,
        table=every[["model_id", "heritage", "rho", "n_layers", "gain", "lower", "upper", "comparable"]].sort_values(
            "rho"
        ),
        draw=draw,
        caption=f"Penultimate gain over head density for {len(every)} models, with 95 % t intervals over prompts; "
        "shaded: the published range of the threshold. The claim needs models right of it below 1 and models left "
        "of it above.",
    )
    within = replace(
        with_slope(
            inside,
            association(inside, "Pythia family", ", in the one family on which it was found, where depth goes with ρ"),
        ),
        published=stated(tables, IN_THE_FAMILY, PYTHIA),
        reproduced=in_family(inside, cuts["upper"]),
    )
    pair = replace(
        named_pair(every),
        published=stated_by_model(tables, CLEAN, {"gain of {} on three prompts": r"/results/[^/]+/gain_no_ln_mean"}),
        reproduced={f"gain of {short_name(name)} on three prompts": float(gain) for name, gain in clean.items()},
    )
    return [primary, within, with_slope(outside, association(outside, "all other comparable models")), pair]


if __name__ == "__main__":
    run(CLAIM, analyse)
