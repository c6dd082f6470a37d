"""C03: the lab that trained a model fixes the sign: EleutherAI dampens, every other lab expands.

Claim: 80 % of EleutherAI's models dampen, 100 % of all other labs' expand, Fisher p < 0.001; lab means of figure 2.
Estimand: share of models with a gain below 1 in EleutherAI less that share elsewhere; primary: penultimate gain, all
distinct models whose gain depends on its weights. Unit of analysis: the family (models of one recipe share corpus,
optimiser and norm, so that they do not count as independent); models and labs as units stand beside it.
Rule: supported where EleutherAI dampens more often, the permutation p over families is at most ALPHA and no lab has
models clearly on both sides of 1 (whole 95 % intervals over prompts). Not supported where that p is above ALPHA and
some lab has models clearly on both sides, so that the lab does not fix the sign; where EleutherAI dampens less often
with such a p; or where none of its models is below 1. Everything else is inconclusive.
Source: section 4.2, figure 2; files of the hunt and of the Pythia family.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.contingency import barnard_exact, fisher_exact, proportion
from thermostats.modelling.permutation import clustered_sign_permutation
from thermostats.reporting.evidence import HUNT, clearly_above, clearly_below, features_of, gains, stated
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.plots import forest
from thermostats.reporting.verdicts import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.reporting.words import agrees, number

FOCAL = "EleutherAI"
ALPHA = 0.05
SEED = 3
LABS = ("EleutherAI", "TII", "StabilityAI", "Meta", "BigScience")
STATED = {
    "EleutherAI dampens, %": "abstract (2) EleutherAI",
    "others expand, %": "abstract (2) others",
    "Fisher p <": "section 4.2 Fisher",
} | {f"mean gain {lab}": f"fig. 2 {lab}" for lab in LABS}
FIGURE = f"mean gain {FOCAL}"
IN_THE_HUNT = {f"mean gain {lab} in the hunt": f"/h26_lab_signatures/{lab}/mean_gain" for lab in LABS} | {
    f"{lab} dampens in the hunt, %": f"/h26_lab_signatures/{lab}/dampen_pct" for lab in LABS
}

CLAIM = Claim(
    id="C03",
    title="Heritage fixes the sign: EleutherAI dampens, every other lab expands",
    said="80 % of EleutherAI's models dampen and all models of all other labs expand, Fisher p < 0.001; EleutherAI "
    "is the only lab with a mean gain below 1.",
    estimand="share of dampening models in EleutherAI less the share elsewhere, unit: the family",
    rule=f"Supported where EleutherAI dampens more often with permutation p over families of at most {ALPHA:g} and "
    f"no lab has models clearly on both sides of 1; not supported where p is above {ALPHA:g} and some lab has.",
    source="Section 4.2, figure 2; high_rho_hunt, pythia_family",
)


def counts(rows: pd.DataFrame, value: str = "gain") -> list[list[int]]:
    """Dampening and other models, in EleutherAI and elsewhere."""
    inside, dampens = rows["heritage"] == FOCAL, rows[value] < 1
    return [[int((group & dampens).sum()), int((group & ~dampens).sum())] for group in (inside, ~inside)]


def two_sided_labs(rows: pd.DataFrame) -> list[str]:
    """Labs with models clearly below and models clearly above 1."""
    below, above = clearly_below(rows), clearly_above(rows)
    return [lab for lab, part in rows.groupby("heritage") if below[part.index].any() and above[part.index].any()]


def verdict(p: float, difference: float, both: list[str]) -> str:
    """The rule."""
    if p <= ALPHA and difference != 0:
        return AGAINST if difference < 0 else OPEN if both else SUPPORTED
    return AGAINST if both else OPEN


def one_set(rows: pd.DataFrame, value: str, words: str) -> Finding:
    """The finding on one gain over one set of models."""
    (a, b), (c, d) = table = counts(rows, value)
    seen = f"{a} of {a + b} {FOCAL} models and {c} of {c + d} models of other labs have a gain below 1"
    known: dict[str, Any] = {"n_models": len(rows), "n_heritages": rows["heritage"].nunique()}
    if a == 0:
        plain = f"{SENTENCES[AGAINST]}: {seen}, so that {FOCAL} does not dampen at all by this gain."
        return Finding(claim="C03", estimand=words, verdict=AGAINST, plain=plain, **known)
    both = two_sided_labs(rows) if value == "gain" else []
    share = barnard_exact(table)
    test = clustered_sign_permutation(rows[value] < 1, rows["heritage"], rows["family"], focal=FOCAL, seed=SEED)
    decided = verdict(test.p_families, share.estimate, both)
    sides = f" {' and '.join(both)} {'has' if len(both) == 1 else 'have'} models clearly on both sides of 1."
    return Finding(
        claim="C03",
        estimand=words,
        verdict=decided,
        plain=f"{SENTENCES[decided]}: {seen}, a difference of {share.estimate:.0%} (95 % interval {share.lower:.0%} "
        f"to {share.upper:.0%}). Counted by model the exact permutation p is {number(test.p_models, 2)}; counted by "
        f"family, since models of one recipe are not independent, it is {number(test.p_families, 2)} "
        f"({test.n_families} families of {test.n_labs} labs, where less than {number(test.smallest_p_families, 2)} is "
        "not possible)." + (sides if both else ""),
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval=f"95 % {share.interval}, unit: the model",
        probability=test.p_families,
        probability_kind="p-value",
        **known,
    )


def analyse(tables: Tables) -> list[Finding]:
    """Penultimate gain over comparable models first, then other sets and other gains."""
    every = gains(tables)
    rows = every[every["comparable"]].reset_index(drop=True)
    hunt = features_of(tables, HUNT)
    (a, b), (c, d) = in_hunt = counts(hunt, "penultimate_gain")
    fisher = fisher_exact(in_hunt)
    own, means = proportion(a, a + b), every.groupby("heritage")["gain"].mean()
    reproduced = {"EleutherAI dampens, %": 100 * own.estimate, "others expand, %": 100 * d / (c + d)}
    reproduced |= {"Fisher p <": fisher.p_value} | {
        f"mean gain {lab}": float(means[lab]) for lab in LABS if lab in means
    }
    of_lab = hunt.groupby("heritage")["penultimate_gain"]
    for lab, gain in of_lab:
        reproduced[f"mean gain {lab} in the hunt"] = float(gain.mean())
        reproduced[f"{lab} dampens in the hunt, %"] = 100 * float((gain < 1).mean())
    exceptions = every[(every["heritage"] != FOCAL) & (every["gain"] < 1)]
    named = ", ".join(
        f"{row.model_id} {number(row.gain, 4)} ({number(row.lower, 4)} to {number(row.upper, 4)})"
        for row in exceptions.itertuples()
    )
    published = stated(tables, STATED)
    focal = every.loc[every["heritage"] == FOCAL, "gain"]
    in_focal = float(hunt.loc[hunt["heritage"] == FOCAL, "penultimate_gain"].mean())
    if_all_expanded = fisher_exact([[a, b], [0, c + d]]).p_value
    reproduced["median gain EleutherAI"] = float(focal.median())
    notes = (
        f"The published share of EleutherAI rests on the {a + b} models of the hunt (95 % interval {own.lower:.0%} "
        f"to {own.upper:.0%}); the Pythia family adds models on both sides.",
        f"Fisher's test on the hunt's own counts, {a} of {a + b} against {c} of {c + d}, gives p = "
        f"{number(fisher.p_value, 2)}, and {number(if_all_expanded, 2)} even if no other lab's model dampened; the "
        f"published bound is {published['Fisher p <']:g}.",
        f"The mean gain of {FOCAL} is {number(in_focal)} in the hunt and {number(float(focal.mean()))} over all "
        f"{len(focal)} models; their median is {number(float(focal.median()))}"
        + (", which is the published figure." if agrees("", published[FIGURE], float(focal.median())) else "."),
        f"Models of other labs below 1: {named or 'none'}. A model that norms after the residual sum has a gain near "
        "1 by construction and is left out of the primary finding.",
        "A difference between labs is a difference between everything that goes with them: corpus, optimiser, norm, "
        "position scheme. These files cannot part them.",
    )
    findings = [
        one_set(rows, "gain", "penultimate gain below 1, comparable models"),
        one_set(every, "gain", "penultimate gain below 1, all models"),
        one_set(rows, "geometric_gain_to_penultimate", "mean gain a block below 1, comparable models"),
        one_set(rows, "normed_gain", "gain with the final norm below 1, comparable models"),
    ]

    def draw(axes: Axes) -> None:
        ordered = every.sort_values(["heritage", "gain"], ascending=[False, True])
        forest(ordered, axes, label="model_id", estimate="gain", heritage="heritage", null=1.0)
        axes.set_xlabel("gain of the last block but one")

    caption = (
        f"Penultimate gain of {len(every)} models by lab with 95 % t intervals over prompts. {int((focal < 1).sum())} "
        f"of {len(focal)} {FOCAL} models lie below 1. Means: "
        + ", ".join(f"{lab} {number(float(mean))}" for lab, mean in means.items())
        + "."
    )
    columns = ["model_id", "heritage", "family", "gain", "lower", "upper", "n_prompts", "comparable"]
    findings[0] = replace(
        findings[0],
        published=published | stated(tables, IN_THE_HUNT, HUNT),
        reproduced=reproduced,
        notes=notes,
        table=every[columns],
        draw=draw,
        caption=caption,
    )
    return findings


if __name__ == "__main__":
    run(CLAIM, analyse)
