"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31.

Claim: gains order the families, Pythia below Mistral below LLaMA below Gemma, across architectures.
Estimand: ratio of the last gains of two models of families that are neighbours in the published order, geometric mean
over the prompts both answered.
Rule: unit is the family, which every measured model of it speaks for. Against where the 95 % interval of one ratio
(paired t on logs, Bonferroni over pairs) lies below 1; supported where every interval lies above 1 and every family has
at least LEAST_BASES base models; otherwise inconclusive. The four models of the abstract are judged apart, over
prompts: against where one neighbour's interval lies below 1, supported where all lie above.
Beside each test the posterior of a model of gains by models, prompts and categories: P(published order of the four
models) by last gain, and for families P(every model above every one of the family before it). Supported where it is at
least 0.95, not supported where it is at most 0.05. The verdict is what test and posterior both come to, and is
inconclusive where they differ or where a check of the fit fails.
Source: abstract, contribution 6; thermodynamic_benchmark, twin_test_results, gpt2_layernorm, gptj_parallel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_above, if_all
from thermostats.modelling.classical.means import paired_difference
from thermostats.modelling.classical.mixed import concordance
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.laws.ranking import fit_benchmark
from thermostats.plots.general import strip_by_group
from thermostats.plots.scales import log_axis
from thermostats.studies.delia2026.by_prompt import (
    BENCHMARK,
    LAST_GAIN_FILES,
    TWIN,
    gain_by_prompt,
    one_run_each,
    wide,
    with_category,
)
from thermostats.studies.delia2026.stated import stated, stated_by_model
from thermostats.words import number, range_text, short_name

SEED = 12
ORDER = ("EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b")
LEAST_BASES = 2
CORRECTED = (
    "The rule was corrected after a review, because the claim is about families and the rule judged it by four models, "
    "one a family, over prompts; under the earlier rule the verdict was {}, that of the test of the four models by "
    "last gain."
)
CAVEAT = "One model stands for each family, so an order of models is not yet an order of families."
NOT_FITTED = (
    "No posterior stands beside this test: the priors of the fitted model are for the gain of one block, and this is "
    "the product over all blocks after the first."
)
NAMES = ("Pythia", "Mistral", "LLaMA", "Gemma")
MEASUREMENTS = "measurements"
IN_THE_FILE = "mean of {}"

CLAIM = Claim(
    id="C12",
    title="The unified hierarchy Pythia < Mistral < LLaMA < Gemma",
    said="Over architectures the gain orders the families: Pythia 0.80, Mistral 1.11, LLaMA 1.48, Gemma 2.31, from "
    "4 models and 25 prompts each.",
    estimand="ratio of last gains of two models of neighbouring families, over shared prompts; the least favourable",
    rule="Against where the 95 % interval of one ratio (paired, Bonferroni over pairs of models of neighbouring "
    "families) lies below 1; supported where all lie above and every family has at least "
    f"{LEAST_BASES} base models. Unit: the family. The four models named are judged apart, over prompts. Beside each "
    "test of last gains the posterior probability of the order; the verdict is what both come to.",
    source="Abstract, contribution 6; thermodynamic_benchmark, twin_test_results",
    rows="study",
)


def steps(table: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """One row a pair (lower, higher): ratio of the higher to the lower with its interval, Bonferroni over pairs.

    `p` is one-sided, for "the higher one is not higher"; the largest is the p-value of the whole order.
    """
    rows = []
    for low, high in pairs:
        both = table[[low, high]].dropna()
        d = paired_difference(both[high], both[low], level=1 - 0.05 / len(pairs), seed=SEED)
        rows.append(
            {
                "lower": low,
                "higher": high,
                "n_prompts": d.n,
                "ratio": d.ratio,
                "ratio_lower": d.ratio_lower,
                "ratio_upper": d.ratio_upper,
                "p": float(stats.t.sf(d.statistic, d.df)),
                "prompts_in_order": int((both[high] > both[low]).sum()),
                "verdict": if_above(d.lower, d.upper, 0.0),
            }
        )
    return pd.DataFrame(rows)


def analyse(tables: Evidence) -> list[Finding]:
    """The families with every model measured, then the four models by last gain and by total amplification."""
    last = with_category(tables, gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES))
    four = wide(last[last["source"] == BENCHMARK])[list(ORDER)]
    total = wide(gain_by_prompt(tables, "total_amplification", BENCHMARK))[list(ORDER)]
    published = stated(tables, {name: f"abstract (6) {name}" for name in NAMES})
    published[MEASUREMENTS] = stated(tables, {MEASUREMENTS: "abstract (6) measurements"})[MEASUREMENTS]
    published |= stated_by_model(tables, BENCHMARK, {IN_THE_FILE: r"/base_levels/[^/]+"})
    again = (wide(last[last["source"] == TWIN]).mean() / four.mean() - 1).dropna()
    worst = f"{again.abs().max():.2%}"
    note = f"{len(again)} of the four were measured again in another precision; their means differ by at most {worst}."
    by_last = replace(finding(four, "last gain", "the gain of the last block", published), notes=(CAVEAT, note))
    by_total = finding(
        total, "total amplification n_L/n_1", "the norm after the last block over that after the first", {}
    )
    corrected = CORRECTED.format(by_last.verdict)
    of_families = members(last)
    fit = fit_benchmark(of_families, "last_gain", order=ORDER, seed=SEED)
    order = " < ".join(short_name(model) for model in ORDER)
    by_last = ordered(by_last, fit, list(pairwise(ORDER)), order)
    by_total = replace(by_total, notes=(*by_total.notes, NOT_FITTED))
    whole = families(tables, of_families)
    whole = ordered(whole, fit, neighbours(of_families), "every model above every one of the family before it")
    whole = replace(whole, published=by_last.published, reproduced=by_last.reproduced, notes=(corrected, *whole.notes))
    return [whole, replace(by_last, published={}, reproduced={}), by_total]


def finding(table: pd.DataFrame, name: str, words: str, published: dict[str, float]) -> Finding:
    """Order of the four models under one named gain."""
    order = steps(table, list(pairwise(ORDER)))
    agreement = concordance(table, asked=ORDER, seed=SEED)
    verdict = if_all(order["verdict"])
    weakest = order.loc[order["ratio_lower"].idxmin()]
    held = f"{round(agreement.every_row * agreement.n)} of {agreement.n} prompts"
    long = table.melt(var_name="model_id", value_name="gain", ignore_index=False)
    long["heritage"] = long["model_id"].map(
        dict(zip(ORDER, ("EleutherAI", "Mistral AI", "Meta", "Google"), strict=True))
    )
    found = " < ".join(f"{short_name(m)} {number(agreement.means[m])}" for m in agreement.order)

    def draw(axes: Axes) -> None:
        strip_by_group(long, axes, value="gain", group="model_id")
        axes.set_xlabel(f"{name}, one point a prompt (log scale); tick: mean")
        log_axis(axes, "x")

    return Finding(
        claim="C12",
        estimand=f"order of four models by {name}: ratio of neighbours, least favourable step",
        verdict=verdict,
        plain=f"By {words} the four models {'keep' if verdict == SUPPORTED else 'do not keep'} the published order: "
        f"{found} (arithmetic means over prompts). {SENTENCES[verdict]} for these four models over prompts of this "
        f"kind: the published order holds on {held}, and the step of the lowest limit is a ratio of geometric means of "
        f"{number(weakest['ratio'])} {range_text(weakest['ratio_lower'], weakest['ratio_upper'])} between "
        f"{short_name(weakest['lower'])} and {short_name(weakest['higher'])}.",
        published=published,
        reproduced=figures(table) if published else {},
        estimate=weakest["ratio"],
        lower=weakest["ratio_lower"],
        upper=weakest["ratio_upper"],
        interval=f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f} %",
        probability=order["p"].max(),
        probability_kind="one-sided p-value",
        n_models=len(ORDER),
        n_heritages=long["heritage"].nunique(),
        table=order,
        draw=draw,
        caption=f"{name[0].upper()}{name[1:]} of four models over {agreement.n} prompts. Order of the arithmetic "
        f"means: {found}; the published order holds on {held}.",
        notes=(CAVEAT,),
    )


def ordered(found: Finding, fit: Fitted, pairs: list[tuple[str, str]], statement: str) -> Finding:
    """The finding with the posterior of all pairs (lower, higher) of models being in order together."""
    place = {name: k for k, name in enumerate(fit.labels["gain"])}
    low, high = (fit.quantities["gain"][..., [place[pair[k]] for pair in pairs]] for k in (0, 1))
    told = posterior_of(
        fit,
        model=f"Log last gain of the {fit.n_models} measured models of the four families by prompt: level of the "
        "model, category, prompt, model by category.",
        statement=statement,
        truth=np.asarray((high > low).all(axis=-1)),
        classical=found.verdict,
        tables=["ranks", "shares"],
    )
    return beside(found, fit, told)


def figures(table: pd.DataFrame) -> dict[str, float]:
    """Means as the preprint and its file name them, and the number of measurements."""
    means = table[list(ORDER)].mean()
    named = {IN_THE_FILE.format(short_name(model)): float(mean) for model, mean in means.items()}
    return dict(zip(NAMES, map(float, means), strict=True)) | {MEASUREMENTS: float(table.count().sum())} | named


def members(last: pd.DataFrame) -> pd.DataFrame:
    """One run of every measured model of the families in the order."""
    rows = one_run_each(last, LAST_GAIN_FILES)
    return rows[rows["family"].isin(rows.loc[rows["model_id"].isin(ORDER), "family"])].reset_index(drop=True)


def by_family(rows: pd.DataFrame) -> list[list[str]]:
    """Models of each family, families in the published order."""
    models = rows.drop_duplicates("model_id").set_index("model_id")["family"].sort_index()
    return [[str(model) for model in models.index[models == models[first]]] for first in ORDER]


def neighbours(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Every model with every one of the next family: (lower, higher) as published."""
    return [pair for low, high in pairwise(by_family(rows)) for pair in product(low, high)]


def families(tables: Evidence, shown: pd.DataFrame) -> Finding:
    """Order of the families, with every model of them measured by last gain, tuned ones too; and without those."""
    order = steps(wide(shown), neighbours(shown))
    tuned = tables.table("models", variant="instruct")["model_id"].tolist()
    bases = min(sum(m not in tuned for m in group) for group in by_family(shown))
    against = order[order["verdict"] == AGAINST]
    verdict = if_all([*order["verdict"], SUPPORTED if bases >= LEAST_BASES else OPEN])
    untuned = order[~order["lower"].isin(tuned) & ~order["higher"].isin(tuned)]
    contradict = int((untuned["verdict"] == AGAINST).sum())
    exceptions = "; ".join(
        f"{short_name(r.higher)} lies below {short_name(r.lower)}, ratio {number(r.ratio)} "
        f"{range_text(r.ratio_lower, r.ratio_upper)}"
        for r in against.itertuples()
    )
    worst = order.loc[order["ratio_lower"].idxmin()]

    def draw(axes: Axes) -> None:
        strip_by_group(shown, axes, value="value", group="model_id")
        axes.set_xlabel("last gain, one point a prompt; tick: mean")

    return Finding(
        claim="C12",
        estimand="ratio of last gains between neighbouring families, least favourable pair of models",
        verdict=verdict,
        plain=f"Of {len(order)} comparisons between models of neighbouring families {len(against)} run clearly against "
        f"the published order. {SENTENCES[verdict]} for families{': ' + exceptions if exceptions else ''}; without "
        f"tuned models {contradict} of {len(untuned)} comparisons contradict it, but then "
        f"{'one model stands' if bases == 1 else f'at least {bases} models stand'} for each family.",
        estimate=worst["ratio"],
        lower=worst["ratio_lower"],
        upper=worst["ratio_upper"],
        interval=f"paired t interval of the log ratio, {100 * (1 - 0.05 / len(order)):.1f} %",
        probability=order["p"].max(),
        probability_kind="one-sided p-value",
        n_models=shown["model_id"].nunique(),
        n_heritages=shown["heritage"].nunique(),
        table=order,
        draw=draw,
        caption=f"Last gain by prompt of every measured model of the four families. {len(against)} of {len(order)} "
        "comparisons of neighbours are against the published order.",
        notes=(
            "The p-value is that of the pair that goes against the order most, since the order needs every pair; "
            "intervals are over prompts, one model against the other.",
            f"The rule asks for {LEAST_BASES} base models of every family; the files hold "
            f"{'one' if bases == 1 else bases} of the least measured, so that with these data the claim "
            f"{'can' if bases >= LEAST_BASES else 'cannot'} come out as supported.",
        ),
    )


if __name__ == "__main__":
    run(CLAIM, analyse)
