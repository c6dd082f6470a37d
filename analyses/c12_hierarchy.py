"""C12: the unified hierarchy Pythia 0.80 < Mistral 1.11 < LLaMA 1.48 < Gemma 2.31.

Claim: gains order the families, Pythia below Mistral below LLaMA below Gemma, across architectures.
Estimand: ratio of the last gains of neighbours in the published order, geometric mean over the prompts both answered.
Rule: supported where every neighbour's ratio has its 95 % interval (paired t on logs, Bonferroni over neighbours) above
1, against where one lies below 1; otherwise inconclusive. Unit: the prompt, so that the verdict speaks of these four
models over other prompts of the kind; the order of families is judged apart, by the same rule over every pair of
measured models of two neighbouring families.
Source: abstract, contribution 6; thermodynamic_benchmark, twin_test_results, gpt2_layernorm, gptj_parallel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.modelling.crossed import concordance
from thermostats.modelling.means import paired_difference
from thermostats.reporting.by_prompt import BENCHMARK, LAST_GAIN_FILES, TWIN, gain_by_prompt, one_run_each, wide
from thermostats.reporting.evidence import stated, stated_by_model
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.labels import short_name
from thermostats.reporting.plots import strip_by_group
from thermostats.reporting.scales import log_axis
from thermostats.reporting.verdicts import AGAINST, SENTENCES, SUPPORTED, if_above, if_all
from thermostats.reporting.words import number, range_text

SEED = 12
ORDER = ("EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b")
CAVEAT = "One model stands for each family, so an order of models is not yet an order of families."
NAMES = ("Pythia", "Mistral", "LLaMA", "Gemma")
MEASUREMENTS = "measurements"
IN_THE_FILE = "mean of {}"

CLAIM = Claim(
    id="C12",
    title="The unified hierarchy Pythia < Mistral < LLaMA < Gemma",
    said="Over architectures the gain orders the families: Pythia 0.80, Mistral 1.11, LLaMA 1.48, Gemma 2.31, from "
    "4 models and 25 prompts each.",
    estimand="ratio of last gains of neighbours in the published order, over shared prompts",
    rule="Supported where the 95 % interval of every neighbour's ratio (paired, Bonferroni) lies above 1, against "
    "where one lies below. Unit: the prompt for the four models; for the families, every pair of models of "
    "neighbours.",
    source="Abstract, contribution 6; thermodynamic_benchmark, twin_test_results",
)


def steps(table: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """One row a pair (lower, higher): ratio of the higher to the lower with its interval, Bonferroni over pairs.

    `p` is one-sided, for "the higher one is not higher"; the largest is the p-value of the whole order.
    """
    rows = []
    for low, high in pairs:
        both = table[[low, high]].dropna()
        d = paired_difference(both[high], both[low], level=1 - 0.05 / len(pairs), seed=SEED)
        rows.append({
            "lower": low, "higher": high, "n_prompts": d.n, "ratio": d.ratio, "ratio_lower": d.ratio_lower,
            "ratio_upper": d.ratio_upper, "p": float(stats.t.sf(d.statistic, d.df)),
            "prompts_in_order": int((both[high] > both[low]).sum()),
            "verdict": if_above(d.lower, d.upper, 0.0),
        })  # fmt: skip
    return pd.DataFrame(rows)


def analyse(tables: Tables) -> list[Finding]:
    """The four models by last gain, by total amplification, and the families with every model measured."""
    last = gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES)
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
    return [by_last, by_total, families(tables, last)]


def finding(table: pd.DataFrame, name: str, words: str, published: dict[str, float]) -> Finding:
    """Order of the four models under one named gain."""
    order = steps(table, list(pairwise(ORDER)))
    agreement = concordance(table, asked=ORDER, seed=SEED)
    verdict = if_all(order["verdict"])
    weakest = order.loc[order["ratio"].idxmin()]
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
        estimand=f"order of four models by {name}",
        verdict=verdict,
        plain=f"By {words} the four models {'keep' if verdict == SUPPORTED else 'do not keep'} the published order: "
        f"{found}. {SENTENCES[verdict]} for these four models over prompts of this kind: the published order holds "
        f"within {agreement.every_row:.0%} of the {agreement.n} prompts, and its least favourable step is a ratio of "
        f"{number(weakest['ratio'])} {range_text(weakest['ratio_lower'], weakest['ratio_upper'])} between "
        f"{short_name(weakest['lower'])} and {short_name(weakest['higher'])}.",
        published=published,
        reproduced=figures(table) if published else {},
        estimate=weakest["ratio"], lower=weakest["ratio_lower"], upper=weakest["ratio_upper"],
        interval=f"paired t interval of the log ratio, least favourable step, {100 * (1 - 0.05 / len(order)):.1f} %",
        probability=order["p"].max(), probability_kind="p-value", n_models=len(ORDER),
        n_heritages=long["heritage"].nunique(),
        table=order, draw=draw,
        caption=f"{name.capitalize()} of four models over {agreement.n} prompts. Order found: {found}; published "
        f"order on every prompt: {agreement.every_row:.0%}.",
        notes=(CAVEAT,),
    )  # fmt: skip


def figures(table: pd.DataFrame) -> dict[str, float]:
    """Means as the preprint and its file name them, and the number of measurements."""
    means = table[list(ORDER)].mean()
    named = {IN_THE_FILE.format(short_name(model)): float(mean) for model, mean in means.items()}
    return dict(zip(NAMES, map(float, means), strict=True)) | {MEASUREMENTS: float(table.count().sum())} | named


def families(tables: Tables, last: pd.DataFrame) -> Finding:
    """Order of the families, with every model of them measured by last gain, tuned ones too."""
    rows = one_run_each(last, LAST_GAIN_FILES)
    table = wide(rows)
    family = dict(zip(rows["model_id"], rows["family"], strict=True))
    members = [[m for m in table if family[m] == family[first]] for first in ORDER]
    order = steps(table, [pair for low, high in pairwise(members) for pair in product(low, high)])
    verdict = if_all(order["verdict"])
    against = order[order["verdict"] == AGAINST]
    exceptions = "; ".join(
        f"{short_name(r.higher)} lies below {short_name(r.lower)}, ratio {number(r.ratio)} "
        f"{range_text(r.ratio_lower, r.ratio_upper)}"
        for r in against.itertuples()
    )
    worst = order.loc[order["ratio"].idxmin()]
    shown = rows[rows["model_id"].isin([m for group in members for m in group])]

    def draw(axes: Axes) -> None:
        strip_by_group(shown, axes, value="value", group="model_id")
        axes.set_xlabel("last gain, one point a prompt; tick: mean")

    return Finding(
        claim="C12",
        estimand="order of four families by last gain, every measured model of them",
        verdict=verdict,
        plain=f"Taken with the tuned models of the same families, {len(against)} of {len(order)} comparisons of "
        "neighbouring families run clearly against the published order. "
        f"{SENTENCES[verdict]}{': ' + exceptions if exceptions else ''}.",
        estimate=worst["ratio"], lower=worst["ratio_lower"], upper=worst["ratio_upper"],
        interval=f"paired t interval of the log ratio, least favourable pair, {100 * (1 - 0.05 / len(order)):.1f} %",
        n_models=shown["model_id"].nunique(), n_heritages=shown["heritage"].nunique(), table=order, draw=draw,
        caption=f"Last gain by prompt of every measured model of the four families. {len(against)} of {len(order)} "
        "comparisons of neighbours are against the published order.",
    )  # fmt: skip


if __name__ == "__main__":
    run(CLAIM, analyse)
