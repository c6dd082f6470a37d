"""C03: the lab that trained a model fixes the sign: EleutherAI dampens, every other lab expands."""

from dataclasses import replace

import numpy as np
import pandas as pd

from thermostats.claims.claim import Case, Claim, Estimate, Evidence, Result
from thermostats.claims.posterior import Panel
from thermostats.claims.rule import Decide, Posterior, V
from thermostats.modelling.classical.counts import barnard_exact, clustered_sign_permutation, fisher_exact
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.plots.general import drawing, forest
from thermostats.plots.posterior import lab_forest
from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.audit import FOCAL
from thermostats.studies.delia2026.gains import HUNT, PYTHIA, features_of, gains, heritage_rows
from thermostats.words import listed, number

ALPHA = 0.05
SEED = 3
HERITAGE_SEED = 4
"""The same fit as in C04."""
DIFFERENCE, FISHER, BOUND = V("difference between families"), V("Fisher's p over models"), V("the stated bound")
AS_STATED, ELSEWHERE = V("Fisher's p of the stated shares"), V("models of other labs clearly below 1")
KEPT = (DIFFERENCE > 0) & (DIFFERENCE.p <= ALPHA) & (FISHER <= BOUND) & (ELSEWHERE <= 0)
SHOULD_HAVE = (DIFFERENCE.p > ALPHA) & (FISHER > BOUND) & (AS_STATED <= BOUND)
REVERSED = (DIFFERENCE < 0) & (DIFFERENCE.p <= ALPHA)
FIXES_THE_SIGN = Decide(KEPT, (V(f"dampening models of {FOCAL}") <= 0) | REVERSED | SHOULD_HAVE)
LABS = Posterior(f"{FOCAL}'s mean log gain < 0 and every other lab's > 0")

GAINS_AXIS = "penultimate gain (block L − 1)"

CLAIM = Claim.read(__file__)


EVERY = Case("all_models", "penultimate gain below 1, all models", "gain")
GAINS = (
    Case("penultimate_gain", "penultimate gain below 1, comparable models", "gain"),
    EVERY,
    Case("geometric_gain", "mean gain a block below 1, comparable models", "geometric_gain_to_penultimate"),
    Case("normed_gain", "gain with the final norm below 1, comparable models", "normed_gain"),
)
"""All but one leave out models that norm after the residual sum."""


@CLAIM.shared
def models(evidence: Evidence) -> pd.DataFrame:
    """One row a model."""
    return gains(evidence)


def family_difference(rows: pd.DataFrame, value: str) -> float:
    """Mean share of dampening models over EleutherAI's families minus the mean over other labs' families."""
    share = (rows[value] < 1).groupby([rows["heritage"], rows["family"]]).mean().reset_index(name="share")
    inside = share["heritage"] == FOCAL
    return float(share.loc[inside, "share"].mean() - share.loc[~inside, "share"].mean())


def compared(rows: pd.DataFrame, value: str, stated: audit.Shares) -> Result:
    """Dampening models and families in EleutherAI and elsewhere; `stated`: the study's shares and bound of p."""
    (a, b), (c, d) = counts = audit.dampening(rows, value)
    clear = value == "gain"  # intervals over prompts are those of the penultimate gain
    below, above = (rows["upper"] < 1) & clear, (rows["lower"] > 1) & clear
    by_lab = rows.groupby("heritage").groups
    quantities = {
        "difference between families": Estimate(None),
        f"dampening models of {FOCAL}": Estimate(a),
        ELSEWHERE.name: Estimate(int((below & (rows["heritage"] != FOCAL)).sum())),
        BOUND.name: Estimate(stated.bound),
        FISHER.name: Estimate(None),
        AS_STATED.name: Estimate(None),
    }
    words = {
        "a": a,
        "inside": a + b,
        "c": c,
        "outside": c + d,
        "stated": stated,
        "both_sides": [lab for lab, index in by_lab.items() if below[index].any() and above[index].any()],
    }
    if a:
        test = clustered_sign_permutation(rows[value] < 1, rows["heritage"], rows["family"], focal=FOCAL, seed=SEED)
        quantities |= {
            "difference between families": Estimate(family_difference(rows, value), p=test.p_value),
            FISHER.name: Estimate(fisher_exact(counts).p_value),
            AS_STATED.name: Estimate(stated.fisher(a + b, c + d)),
        }
        words |= {"test": test, "share": barnard_exact(counts)}
    return Result.of(rows, quantities, table=None, words=words)


@CLAIM.finding("sign", primary=FIXES_THE_SIGN, robustness=LABS, over=GAINS[:1])
def penultimate(evidence: Evidence, gain: Case) -> Result:
    """The study's gain, by a test over families and by the heritage model's means of labs."""
    every = models(evidence)
    rows = heritage_rows(evidence, "penultimate_gain", PYTHIA, HUNT)
    fit = fit_heritage(rows, estimand="penultimate_gain", seed=HERITAGE_SEED)
    lab, m = fit.design.lab, fit.draws["m"]
    means = {name: m[..., lab == j].mean(axis=-1) for j, name in enumerate(fit.design.labs)}
    others = np.stack([mean for name, mean in means.items() if name != FOCAL], axis=-1)
    found = fit.labs()
    below = [
        f"{name} {number(float(p), 2)}" for name, p in zip(found["heritage"], found["probability_dampens"], strict=True)
    ]
    ordered = every.sort_values(["heritage", "gain"], ascending=[False, True])
    result, focal = other(evidence, gain), every.loc[every["heritage"] == FOCAL, "gain"]
    return replace(
        result,
        table=every[["model_id", "heritage", "family", "gain", "lower", "upper", "n_prompts", "comparable"]],
        draw=drawing(
            forest, ordered, label="model_id", estimate="gain", heritage="heritage", null=1.0, xlabel=GAINS_AXIS
        ),
        fit=fit,
        fit_tables={"labs": found, "models": fit.models()},
        panels=(
            Panel(
                name="labs",
                draw=lambda axes: lab_forest(found, axes),
                caption=f"Effect of every lab on the log gain, partially pooled, with P(mean of its models below 1): "
                f"{listed(below)}.",
            ),
        ),
        statements={LABS.statement: (means[FOCAL] < 0) & (others > 0).all(axis=-1)},
        audit=audit.signs_of_labs(evidence, every),
        words={
            **result.words,
            "shown": len(every),
            "focal": focal,
            "hunt": audit.dampening(features_of(evidence, HUNT), "penultimate_gain"),
            "exceptions": every[(every["heritage"] != FOCAL) & (every["gain"] < 1)].to_dict("records"),
            "means": every.groupby("heritage")["gain"].mean(),
        },
    )


@CLAIM.finding("sign", primary=FIXES_THE_SIGN, over=GAINS[1:])
def other(evidence: Evidence, gain: Case) -> Result:
    """One gain over one set of models."""
    rows = models(evidence)
    if gain != EVERY:
        rows = rows[rows["comparable"]].reset_index(drop=True)
    return compared(rows, gain.column, audit.stated_shares(evidence))


if __name__ == "__main__":
    CLAIM.main()
