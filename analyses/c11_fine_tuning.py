"""C11: fine-tuning changes the magnitude of the gain (up to 50 %) and cannot change its sign.

Claim: tuning a base model into an instruct model moves its gain, by up to one half, and never moves it across 1.
Estimand: over pairs of a base model and the model tuned from it, the share whose gain of the last block changes sides
of 1; per pair, the ratio of the geometric mean gains, instruct over base, over the same prompts.
Rule, sign: the unit is the pair, and only a base with its own child counts. A pair flips where both 95 % t intervals of
the mean log gain over prompts exclude 1 on opposite sides. One flip is enough against "cannot"; supported needs the
exact 95 % interval of the share of flips to end below MOST_FLIPS; otherwise inconclusive.
Rule, magnitude: supported where the paired 95 % interval of the ratio, Bonferroni over pairs, excludes 1 in at least
one pair of base and child; against where in every such pair it lies within ±NEGLIGIBLE of 1; otherwise inconclusive.
Beside the tests a posterior of paired prompts, the related pairs of one population. Sign: P(no related pair changes the
sign of its mean log gain), a flip by the test staying decisive; magnitude: P(some related pair outside ±NEGLIGIBLE).
Supported where the probability is at least 0.95, not supported where it is at most 0.05. Each part has the verdict that
test and posterior both come to, and is inconclusive where they differ or where a check of the fit fails. How often a
pair not seen would change sides is shown with it and judges nothing.
Source: section 5.5; twin_test_results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, SURE
from thermostats.modelling.classical.counts import proportion
from thermostats.modelling.classical.means import one_sample, paired_difference
from thermostats.modelling.laws.pairs import fit_invariance
from thermostats.plots.general import MUTED, paired
from thermostats.studies.delia2026.by_prompt import TWIN, gain_by_prompt
from thermostats.studies.delia2026.provenance import follows
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import MINUS, number, range_text, short_name

SEED = 11
MOST_FLIPS = 0.10
NEGLIGIBLE = 0.05
POINTERS = {
    "gemma-7b": "section 5.5 Gemma base",
    "gemma-7b-it": "section 5.5 Gemma instruct",
    "largest change, %": "section 5.5 change",
}

COUNTS = {"pairs": "/n_families", "measurements": "/n_total_measurements"}
BASE, TUNED = r"/twin_summary/[^/]+/base/", r"/twin_summary/[^/]+/instruct/"
BY_MODEL = {
    "{} in the file": f"({BASE}|{TUNED})mean_gain",
    "SD of {}": f"({BASE}|{TUNED})std_gain",
    "{} over its base": r"/hypothesis_results/\d+/Ratio",
    "{} less its base": r"/hypothesis_results/\d+/Delta",
}

CLAIM = Claim(
    id="C11",
    title="Fine-tuning changes the magnitude of the gain and cannot change its sign",
    said="Instruction tuning changes the gain by up to 50 % (Gemma 2.32 → 1.15) and cannot move it across 1: 3 "
    "pairs, 150 measurements.",
    estimand="share of base/child pairs whose last gain changes sides of 1; ratio of the gains, instruct over base",
    rule="Sign: one pair of base and child whose two 95 % intervals exclude 1 on opposite sides is enough against "
    f"it; supported where the exact 95 % interval of the share of flips ends below {MOST_FLIPS:g}. Magnitude: "
    "supported where the paired interval (Bonferroni) of at least one pair excludes no change, against where every "
    f"one lies within ±{NEGLIGIBLE:.0%} of it. Unit: the pair. Beside each the posterior of the same statement over "
    "the related pairs; the verdict is what both come to, a flip being enough against it either way.",
    source="Section 5.5; twin_test_results",
    rows="study",
)


def pairs(tables: Evidence) -> pd.DataFrame:
    """One row a pair: gains of both sides with intervals, their ratio, and whether one is the other's base."""
    gains = gain_by_prompt(tables, "last_gain", TWIN)
    models = tables.table("models").set_index("model_id")
    wide = gains.pivot(index="prompt_id", columns="model_id", values="value")
    rows = []
    tuned = [model for model in wide if models.loc[model, "variant"] == "instruct"]
    for child in tuned:
        family = models.loc[[m for m in wide if m not in tuned], "family"]
        base = family.index[family == models.loc[child, "family"]][0]
        both = wide[[base, child]].dropna()
        b, c = (one_sample(both[m], against=1, log=True, seed=SEED) for m in (base, child))
        ratio = paired_difference(both[child], both[base], level=1 - 0.05 / len(tuned), seed=SEED)
        rows.append(
            {
                "model_id": base,
                "instruct": child,
                "heritage": models.loc[child, "heritage"],
                "base_and_child": models.loc[child, "parent"] == base,
                "n_prompts": len(both),
                "base_sd": both[base].std(ddof=0),
                "instruct_sd": both[child].std(ddof=0),
                "base_gain": both[base].mean(),
                "instruct_gain": both[child].mean(),
                "base_geometric": b.ratio,
                "base_lower": b.ratio_lower,
                "base_upper": b.ratio_upper,
                "instruct_geometric": c.ratio,
                "instruct_lower": c.ratio_lower,
                "instruct_upper": c.ratio_upper,
                "flips": b.upper < 0 < c.lower or c.upper < 0 < b.lower,
                "ratio": ratio.ratio,
                "ratio_lower": ratio.ratio_lower,
                "ratio_upper": ratio.ratio_upper,
                "p": ratio.p_value,
                "prompts_that_flip": int(((both[base] > 1) != (both[child] > 1)).sum()),
            }
        )
    return pd.DataFrame(rows)


def analyse(tables: Evidence) -> list[Finding]:
    """Sign first, then magnitude."""
    table = pairs(tables)
    true = table[table["base_and_child"]]
    return with_posterior(tables, sign(table, true, tables), magnitude(table, true, tables))


def with_posterior(tables: Evidence, sign: Finding, magnitude: Finding) -> list[Finding]:
    """Both findings with what one fit to the related pairs says of them."""
    models = tables.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    rows = gain_by_prompt(tables, "last_gain", TWIN).merge(models, on="model_id")
    fit = fit_invariance(rows, margin=1 + NEGLIGIBLE, seed=SEED)
    drawn = fit.sampled["changes"]
    level, change = drawn["level"], drawn["change"]
    flips, moved = (level > 0) != (level + change > 0), np.abs(np.expm1(change)) > NEGLIGIBLE
    model = "Log gains of bases and log ratios of tuned to base, prompt by prompt; related pairs, of one population."
    of_sign = posterior_of(
        fit,
        model=model,
        statement="no related pair changes the sign of its mean log gain",
        truth=np.asarray(~flips.any(axis=-1)),
        rule="Against, whatever the posterior, where the two intervals of a pair exclude 1 on opposite sides; else "
        f"supported where the probability is at least {SURE:g}, not supported where it is at most {1 - SURE:.2g}.",
        verdict=AGAINST if sign.verdict == AGAINST else None,
        classical=sign.verdict,
        tables=["pairs", "new_pair", "shown"],
    )
    of_magnitude = posterior_of(
        fit,
        model=model,
        statement=f"some related pair changes by more than {NEGLIGIBLE:.0%}",
        truth=np.asarray(moved.any(axis=-1)),
        classical=magnitude.verdict,
        tables=["pairs"],
    )
    new = fit.table("new_pair").set_index("pair").loc["any pair"]
    not_seen = (
        f"A pair not seen changes sides with probability {number(new['p_sign_changes'])} by the fitted population of "
        f"{fit.n_models // 2} pairs; from the priors alone it would be {number(new['from_prior_alone'])}."
    )
    return [beside(replace(sign, notes=(*sign.notes, not_seen)), fit, of_sign), beside(magnitude, fit, of_magnitude)]


def sign(table: pd.DataFrame, true: pd.DataFrame, tables: Evidence) -> Finding:
    """Does any tuned model stand on the other side of 1 than its base?"""
    flips = int(true["flips"].sum())
    share = proportion(flips, len(true))
    verdict = AGAINST if flips else SUPPORTED if share.upper < MOST_FLIPS else OPEN
    dampeners = int((table["base_upper"] < 1).sum())
    strangers = [
        f"{short_name(r.instruct)} was not tuned from {short_name(r.model_id)}"
        for r in table[~table["base_and_child"]].itertuples()
    ]
    prompts = ", ".join(
        f"{r.prompts_that_flip} of {r.n_prompts} in {short_name(r.model_id)}" for r in table.itertuples()
    )
    needed = int(np.ceil(np.log(0.025) / np.log(1 - MOST_FLIPS)))

    def draw(axes: Axes) -> None:
        names = [
            short_name(m) + ("" if ok else " (not base and child)")
            for m, ok in zip(table["model_id"], table["base_and_child"], strict=True)
        ]
        shown = table.assign(pair=names)
        for position, row in enumerate(table.itertuples()):
            axes.hlines(position - 0.22, row.base_lower, row.base_upper, color=MUTED, linewidth=1.2)
            axes.hlines(position + 0.22, row.instruct_lower, row.instruct_upper, color=MUTED, linewidth=1.2)
        paired(shown, axes, before="base_geometric", after="instruct_geometric", label="pair")
        axes.set_xlabel("gain of the last block, geometric mean over prompts with 95 % interval")

    return Finding(
        claim="C11",
        estimand="share of base/child pairs whose last gain changes sides of 1",
        verdict=verdict,
        plain=f"{flips} of {len(true)} tuned models stand on the other side of 1 than the base they were tuned from. "
        f"{SENTENCES[verdict]}: with {len(true)} pairs the share of tunings that change the sign lies between "
        f"{share.lower:.0%} and {share.upper:.0%}, and of the {len(table)} base models measured {dampeners} dampened "
        f"to begin with{'' if dampeners else ', so it was never seen whether a dampener stays one'}.",
        estimate=share.estimate,
        lower=share.lower,
        upper=share.upper,
        interval="Clopper–Pearson exact interval, 95 %",
        n_models=2 * len(true),
        n_heritages=true["heritage"].nunique(),
        table=table,
        draw=draw,
        published=stated(tables, COUNTS, TWIN),
        reproduced={"measurements": float(2 * table["n_prompts"].sum()), "pairs": float(len(table))},
        caption=f"Gain of the last block before (open) and after (filled) tuning, {len(table)} pairs; grey bars, "
        "base above and tuned below, 95 % "
        f"t intervals over {table['n_prompts'].max()} prompts. {flips} of {len(true)} pairs of base and child change "
        "sides of 1.",
        notes=(
            follows(tables, TWIN),
            *(f"{text}; the pair is shown and not counted." for text in strangers),
            f"Without a flip {needed} pairs would be needed for the interval to end below {MOST_FLIPS:g}; with the "
            f"{len(true)} there are the claim cannot come out as supported.",
            f"Prompts that change sides: {prompts}.",
        ),
    )


def magnitude(table: pd.DataFrame, true: pd.DataFrame, tables: Evidence) -> Finding:
    """By how much does tuning change the gain?"""
    moved = (true["ratio_lower"] > 1) | (true["ratio_upper"] < 1)
    still = (true["ratio_lower"] > 1 - NEGLIGIBLE) & (true["ratio_upper"] < 1 + NEGLIGIBLE)
    verdict = SUPPORTED if moved.any() else AGAINST if still.all() else OPEN
    most = true.loc[np.log(true["ratio"]).abs().idxmax()]
    reproduced: dict[str, float] = {}
    for row in table.itertuples():
        base, child = short_name(row.model_id), short_name(row.instruct)
        reproduced |= {
            base: row.base_gain,
            child: row.instruct_gain,
            f"{base} in the file": row.base_gain,
            f"{child} in the file": row.instruct_gain,
            f"SD of {base}": row.base_sd,
            f"SD of {child}": row.instruct_sd,
            f"{child} over its base": row.instruct_gain / row.base_gain,
            f"{child} less its base": row.instruct_gain - row.base_gain,
        }
    published = stated(tables, POINTERS) | stated_by_model(tables, TWIN, BY_MODEL)
    reproduced["largest change, %"] = float(100 * (true["instruct_gain"] / true["base_gain"] - 1).abs().max())
    percent = f"{most['ratio'] - 1:+.0%}".replace("-", MINUS)
    return Finding(
        claim="C11",
        estimand="ratio of last gains, instruct over base, same prompts",
        verdict=verdict,
        plain=f"Tuning changes the gain of the last block clearly in {int(moved.sum())} of {len(true)} pairs of base "
        f"and child. {SENTENCES[verdict]}: the largest change is {percent} in {short_name(most['model_id'])} (ratio "
        f"{number(most['ratio'])}, interval {range_text(most['ratio_lower'], most['ratio_upper'])}).",
        estimate=most["ratio"],
        lower=most["ratio_lower"],
        upper=most["ratio_upper"],
        interval=f"paired t interval of the log ratio over prompts, {100 * (1 - 0.05 / len(table)):.1f} %",
        probability=most["p"],
        probability_kind="p-value",
        n_models=2 * len(true),
        n_heritages=true["heritage"].nunique(),
        table=table,
        published=published,
        reproduced={name: value for name, value in reproduced.items() if name in published},
    )


if __name__ == "__main__":
    run(CLAIM, analyse)
