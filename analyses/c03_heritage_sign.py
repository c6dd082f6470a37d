"""C03: the lab that trained a model fixes the sign: EleutherAI dampens, every other lab expands.

Claim: 80 % of EleutherAI's models dampen, 100 % of all other labs' expand, Fisher p < 0.001; lab means of figure 2.
Estimand: mean over EleutherAI's families of the share of a family's models with a gain below 1, less that mean
elsewhere; primary: penultimate gain, all distinct models whose gain depends on its weights. Unit of analysis: the
family (models of one recipe share corpus, optimiser and norm, so that they do not count as independent); the count of
models, which is the study's and favours the claim, stands beside it.
Rule: supported where EleutherAI dampens more often with a two-sided exact permutation p over families of at most ALPHA,
Fisher's two-sided p over models keeps to the stated bound, and no model of another lab lies clearly below 1 (whole 95 %
interval over prompts). Not supported where neither the families reach ALPHA nor the models the stated bound, though
the stated shares would have reached it with so many models; where EleutherAI dampens less often with such a p over
families; or where none of its models is below 1. Everything else is inconclusive.
Source: section 4.2, figure 2; files of the hunt and of the Pythia family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.posterior import Panel
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED
from thermostats.modelling.classical.counts import barnard_exact, clustered_sign_permutation, fisher_exact, proportion
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.plots.general import forest
from thermostats.plots.posterior import lab_forest
from thermostats.studies.delia2026.gains import (
    HUNT,
    PYTHIA,
    clearly_above,
    clearly_below,
    features_of,
    gains,
    heritage_rows,
)
from thermostats.studies.delia2026.stated import stated
from thermostats.words import agrees, number, relation

FOCAL = "EleutherAI"
ALPHA = 0.05
SEED = 3
HERITAGE_SEED = 4
"""The same fit as in C04."""
GPTJ = "gpt-j"
DAMPENS, EXPAND, FISHER = "EleutherAI dampens, %", "others expand, %", "Fisher p <"
LABS = ("EleutherAI", "TII", "StabilityAI", "Meta", "BigScience")
STATED = {DAMPENS: "abstract (2) EleutherAI", EXPAND: "abstract (2) others", FISHER: "section 4.2 Fisher"} | {
    f"mean gain {lab}": f"fig. 2 {lab}" for lab in LABS
}
FIGURE = f"mean gain {FOCAL}"
IN_THE_HUNT = {f"mean gain {lab} in the hunt": f"/h26_lab_signatures/{lab}/mean_gain" for lab in LABS} | {
    f"{lab} dampens in the hunt, %": f"/h26_lab_signatures/{lab}/dampen_pct" for lab in LABS
}

CLAIM = Claim(
    id="C03",
    title="Heritage fixes the sign: EleutherAI dampens, every other lab expands",
    said="80 % of EleutherAI's models dampen and all models of all other labs expand, Fisher p < 0.001; EleutherAI "
    "is the only lab with a mean gain below 1.",
    estimand="share of dampening models of a family, mean over EleutherAI's families less the mean elsewhere; unit: "
    "the family",
    rule=f"Supported where EleutherAI dampens more often with two-sided permutation p over families of at most "
    f"{ALPHA:g}, Fisher's p over models keeps to the stated bound, and no model of another lab is clearly below 1. Not "
    f"supported where neither p does so though the stated shares would have reached the bound with so many models, or "
    "where no EleutherAI model is below 1. Beside it the heritage model's posterior of the labs' means; the verdict is "
    "what both come to.",
    source="Section 4.2, figure 2; high_rho_hunt, pythia_family",
    rows="study",
)


def counts(rows: pd.DataFrame, value: str = "gain") -> list[list[int]]:
    """Dampening and other models, in EleutherAI and elsewhere."""
    inside, dampens = rows["heritage"] == FOCAL, rows[value] < 1
    return [[int((group & dampens).sum()), int((group & ~dampens).sum())] for group in (inside, ~inside)]


def two_sided_labs(rows: pd.DataFrame) -> list[str]:
    """Labs with models clearly below and models clearly above 1."""
    below, above = clearly_below(rows), clearly_above(rows)
    return [lab for lab, part in rows.groupby("heritage") if below[part.index].any() and above[part.index].any()]


def family_difference(rows: pd.DataFrame, value: str) -> float:
    """Mean share of dampening models over EleutherAI's families less the mean over other labs' families."""
    share = (rows[value] < 1).groupby([rows["heritage"], rows["family"]]).mean().reset_index(name="share")
    inside = share["heritage"] == FOCAL
    return float(share.loc[inside, "share"].mean() - share.loc[~inside, "share"].mean())


def as_stated(inside: int, outside: int, stated_figures: Mapping[str, float]) -> float:
    """Fisher's p of the stated shares with so many models in EleutherAI and elsewhere."""
    a = round(stated_figures[DAMPENS] / 100 * inside)
    c = round((1 - stated_figures[EXPAND] / 100) * outside)
    return fisher_exact([[a, inside - a], [c, outside - c]]).p_value


def verdict(families: float, models: float, in_theory: float, bound: float, difference: float, elsewhere: bool) -> str:
    """The rule on p over families and models, p of the stated shares, and models of other labs clearly below 1."""
    if families <= ALPHA:
        kept = difference > 0 and models <= bound and not elsewhere
        return AGAINST if difference < 0 else SUPPORTED if kept else OPEN
    return AGAINST if models > bound >= in_theory else OPEN


def one_set(rows: pd.DataFrame, value: str, words: str, said: Mapping[str, float]) -> Finding:
    """The finding on one gain over one set of models; `said` has the stated shares and the stated bound of p."""
    (a, b), (c, d) = table = counts(rows, value)
    seen = f"{a} of {a + b} {FOCAL} models and {c} of {c + d} models of other labs have a gain below 1"
    known: dict[str, Any] = {"n_models": len(rows), "n_heritages": rows["heritage"].nunique()}
    if a == 0:
        plain = f"{SENTENCES[AGAINST]}: {seen}, so that {FOCAL} does not dampen at all by this gain."
        return Finding(claim="C03", estimand=words, verdict=AGAINST, plain=plain, **known)
    both = two_sided_labs(rows) if value == "gain" else []
    elsewhere = value == "gain" and bool((clearly_below(rows) & (rows["heritage"] != FOCAL)).any())
    share, difference = barnard_exact(table), family_difference(rows, value)
    by_model, in_theory = fisher_exact(table).p_value, as_stated(a + b, c + d, said)
    test = clustered_sign_permutation(rows[value] < 1, rows["heritage"], rows["family"], focal=FOCAL, seed=SEED)
    decided = verdict(test.p_families, by_model, in_theory, said[FISHER], difference, elsewhere)
    sides = f" {' and '.join(both)} {'has' if len(both) == 1 else 'have'} models clearly on both sides of 1."
    return Finding(
        claim="C03",
        estimand=f"share of dampening models, mean over {FOCAL}'s families less the mean elsewhere: {words}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} as it is stated: {seen}, where the claim has {said[DAMPENS]:g}% and "
        f"{100 - said[EXPAND]:g}%, and Fisher's two-sided p over models {relation(by_model)}, where the claim has "
        f"< {said[FISHER]:g} and its shares would have given {number(in_theory, 2)}. A difference of "
        f"{share.estimate:.0%} between the shares of models (95 % {share.interval} {share.lower:.0%} to "
        f"{share.upper:.0%}) is one of {difference:.0%} between the mean shares of families; models of one recipe are "
        f"not independent, and over families the two-sided permutation p is {number(test.p_families, 2)} "
        f"({test.n_families} families of {test.n_labs} labs, where less than {number(test.smallest_p_families, 2)} is "
        "not possible)."
        + (sides if both else "")
        + " That labs differ by less than stated is not ruled out." * (decided == AGAINST),
        estimate=difference,
        probability=test.p_families,
        probability_kind="p-value",
        **known,
    )


def labs(tables: Evidence, finding: Finding) -> Finding:
    """The finding with the heritage model's posterior of the mean log gain of every lab beside it."""
    fit = fit_heritage(
        heritage_rows(tables, "penultimate_gain", PYTHIA, HUNT), estimand="penultimate_gain", seed=HERITAGE_SEED
    )
    lab, m = fit.design.lab, fit.draws["m"]
    means = {name: m[..., lab == j].mean(axis=-1) for j, name in enumerate(fit.design.labs)}
    others = np.stack([mean for name, mean in means.items() if name != FOCAL], axis=-1)
    found = fit.labs()
    dampens = found.set_index("heritage")["probability_dampens"]
    told = posterior_of(
        fit,
        model="Heritage model of the log penultimate gain: prompts in models in labs, with geometry and scale.",
        statement=f"{FOCAL}'s mean log gain < 0 and every other lab's > 0",
        truth=(means[FOCAL] < 0) & (others > 0).all(axis=-1),
        classical=finding.verdict,
        tables={"labs": found, "models": fit.models()},
        panels=(
            Panel(
                name="labs",
                draw=lambda axes: lab_forest(found, axes),
                caption="Effect of every lab on the log gain, partially pooled, with P(mean of its models below 1): "
                + ", ".join(f"{name} {number(float(p), 2)}" for name, p in dampens.items())
                + ".",
            ),
        ),
    )
    return beside(finding, fit, told)


def analyse(tables: Evidence) -> list[Finding]:
    """Penultimate gain over comparable models first, then other sets and other gains."""
    every = gains(tables)
    rows = every[every["comparable"]].reset_index(drop=True)
    hunt = features_of(tables, HUNT)
    (a, b), (c, d) = in_hunt = counts(hunt, "penultimate_gain")
    fisher = fisher_exact(in_hunt)
    own, means = proportion(a, a + b), every.groupby("heritage")["gain"].mean()
    reproduced = {DAMPENS: 100 * own.estimate, EXPAND: 100 * d / (c + d), FISHER: fisher.p_value} | {
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
    own_families = rows.loc[rows["heritage"] == FOCAL, "family"].nunique()
    at_best = (rows["heritage"] == FOCAL) & (rows["family"] != GPTJ)
    best = clustered_sign_permutation(at_best, rows["heritage"], rows["family"], focal=FOCAL, seed=SEED).p_families
    notes = (
        f"The published share of EleutherAI rests on the {a + b} models of the hunt (95 % interval {own.lower:.0%} "
        f"to {own.upper:.0%}); the Pythia family adds models on both sides.",
        f"Fisher's test on the hunt's own counts, {a} of {a + b} against {c} of {c + d}, gives p = "
        f"{number(fisher.p_value, 2)}, and {number(if_all_expanded, 2)} even if no other lab's model dampened; the "
        f"published bound is {published[FISHER]:g}.",
        f"The mean gain of {FOCAL} is {number(in_focal)} in the hunt and {number(float(focal.mean()))} over all "
        f"{len(focal)} models; their median is {number(float(focal.median()))}"
        + (", which is the published figure." if agrees("", published[FIGURE], float(focal.median())) else "."),
        f"Models of other labs below 1: {named or 'none'}. A model that norms after the residual sum has a gain near "
        "1 by construction and is left out of the primary finding.",
        "A difference between labs is a difference between everything that goes with them: corpus, optimiser, norm, "
        "position scheme. These files cannot part them.",
        f"With {GPTJ} a family of its own above 1, as the study has it, and every other model on its claimed side, "
        f"{FOCAL}'s {own_families} families would give p = {number(best, 2)} over families"
        + (": these data could not have supported the claim." if best > ALPHA else "."),
        "There is no honest interval over so few families, so the estimate stands without one.",
        "The rule was corrected after a review, because the earlier one asked that no lab have models clearly on both "
        "sides of 1, which the claim itself denies with its 80 %; under the earlier rule the verdict was not "
        "supported as well, and inconclusive for the gain with the final norm.",
    )
    findings = [
        one_set(rows, "gain", "penultimate gain below 1, comparable models", published),
        one_set(every, "gain", "penultimate gain below 1, all models", published),
        one_set(rows, "geometric_gain_to_penultimate", "mean gain a block below 1, comparable models", published),
        one_set(rows, "normed_gain", "gain with the final norm below 1, comparable models", published),
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
        labs(tables, findings[0]),
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
