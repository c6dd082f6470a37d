"""C18: entropy moves with gain, and clichés have lower entropy than novel prompts.

Claim: where a prompt leaves the model more undecided (higher entropy of the next token) the gain of the last block is
higher; and clichés leave models less undecided than novel sentences.
Estimand: mean over base models of the Spearman correlation over prompts of entropy and last gain; difference of the
mean entropy of clichés and novel prompts, each prompt averaged over models.
Rule: unit is the base model, since a tuned model repeats its base in part. Models answered the same prompts, so
prompts are shuffled for all models at once and the interval resamples prompts and models both. Supported where the 95
% interval lies above 0 and the permutation p is below ALPHA, against where the interval lies below NEGLIGIBLE;
otherwise inconclusive. Clichés: unit is the prompt; supported where the Welch 95 % interval of the difference lies
below 0, against where it lies above; otherwise inconclusive. The whole needs both parts.
Beside each test a posterior. Correlation: slope of entropy on log gain inside prompts, both standardised within models,
slopes of the base models of one population, P(slope > 0). Clichés: a line through the prompts' mean entropies,
P(cliche < 0). Supported where it is at least 0.95, not supported where it is at most 0.05. Each part has the verdict
that test and posterior both come to, and is inconclusive where they differ or where a check of the fit fails.
Source: thermodynamic_benchmark, twin_test_results, gpt2_layernorm, gptj_parallel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.claim import Claim, run
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside, posterior_of
from thermostats.claims.verdict import AGAINST, OPEN, SENTENCES, SUPPORTED, if_all, if_below
from thermostats.modelling.classical.association import WithinCorrelation, within_correlation
from thermostats.modelling.classical.means import welch_difference
from thermostats.modelling.laws.entropy_slopes import fit_slopes
from thermostats.modelling.laws.lines import fit_line
from thermostats.plots.general import forest, strip_by_group
from thermostats.studies.delia2026.by_prompt import (
    BENCHMARK,
    GPT2,
    LAST_GAIN_FILES,
    MEASURED,
    gain_by_prompt,
    measured_here,
    one_run_each,
    wide,
    with_category,
)
from thermostats.studies.delia2026.provenance import follows
from thermostats.studies.delia2026.stated import stated_by_model
from thermostats.words import number, range_text, relation, short_name

SEED, RESAMPLES, BESIDE = 18, 4999, 999
FEWEST = 4
"""Models measured here from which they have a finding of their own."""
NATS = 1.0
"""Mean entropies of prompts that differ by one nat, an effective choice 2.7 times as wide, would be no surprise."""
ALPHA, NEGLIGIBLE = 0.05, 0.1
BENTOV = "{} Pearson of entropy and |gain − 1|"
BENTOV_P = "p of " + BENTOV
IN_THE_FILE = {
    f"{{}} {name}": rf"/entropy_correlations/\d+/{key}"
    for name, key in {
        "Spearman": "Spearman_r",
        "Spearman p": "Spearman_p",
        "Pearson": "Pearson_r",
        "Pearson p": "Pearson_p",
    }.items()
}
IN_GPT2_FILE = {BENTOV: r"/bentov_law_results/\d+/Bentov_Correlation", BENTOV_P: r"/bentov_law_results/\d+/p_value"}
CLICHES = {
    f"{{}} {name}": rf"/p3_platitude_tunnel/\d+/{key}"
    for name, key in {
        "mean entropy, clichés": "Cliche_Entropy_Mean",
        "mean entropy, novel": "Novel_Entropy_Mean",
        "t": "t_stat",
        "p": "p_val",
        "Cohen's d": "cohens_d",
    }.items()
}
CORRECTED = (
    "The rule was corrected after a review, because it counted tuned models beside the bases that they were tuned "
    "from, which the interval takes for independent; under the earlier rule the verdict on the correlation was {}, "
    "with a mean over all {} models of {}, p {}."
)
GPT2_NOTE = (
    "The GPT-2 file's correlations are of the entropy with the distance of the gain from 1, not with the gain; only "
    "where every gain exceeds 1 are the two the same."
)
NONE: Mapping[str, float] = {}

CLAIM = Claim(
    id="C18",
    title="Entropy moves with gain; clichés have lower entropy than novel prompts",
    said="Prompts with a more undecided next token have a higher last gain, and clichés leave models less undecided "
    "than novel sentences.",
    estimand="mean over base models of the correlation over prompts of entropy and last gain; difference of mean "
    "entropy",
    rule="Correlation over base models: supported where its 95 % interval (prompts and models resampled) lies above 0 "
    f"and p < {ALPHA:g} by permutation of prompts, against where the interval lies below {NEGLIGIBLE:g}. Clichés: "
    "supported where the 95 % interval of the difference over prompts lies below 0, against where above. The whole "
    "needs both. Beside each the posterior probability of its slope; the verdict is what both come to.",
    source="thermodynamic_benchmark, twin_test_results, gpt2_layernorm, gptj_parallel",
    rows="study and measured",
)


def measured(tables: Evidence) -> pd.DataFrame:
    """Last gain and entropy by model and prompt, with the prompt's category."""
    return with_entropy(tables, with_category(tables, gain_by_prompt(tables, "last_gain", *LAST_GAIN_FILES)))


def with_entropy(tables: Evidence, gains: pd.DataFrame, *sources: str) -> pd.DataFrame:
    """Gains by run and prompt with the entropy of the next token, of the files of last gains or the named sources."""
    outputs = tables.table("outputs", source=list(sources or LAST_GAIN_FILES))[["run_id", "prompt_id", "entropy"]]
    rows = gains.merge(outputs[outputs["entropy"].notna()], on=["run_id", "prompt_id"])
    return rows.astype({"value": float, "entropy": float})


def analyse(tables: Evidence) -> list[Finding]:
    """Both parts; base models; the four of the benchmark; without the category that carries most; clichés."""
    rows = measured(tables)
    every = one_run_each(rows, LAST_GAIN_FILES)
    tuned = tables.table("models", variant="instruct")["model_id"]
    base = every[~every["model_id"].isin(tuned)]
    four = rows[rows["source"] == BENCHMARK]
    high = every.groupby("category")["entropy"].mean().idxmax()
    published = stated_by_model(tables, BENCHMARK, IN_THE_FILE) | stated_by_model(tables, GPT2, IN_GPT2_FILE)
    reproduced, files = {**by_hand(four), **bentov(rows)}, (follows(tables, BENCHMARK), follows(tables, GPT2))
    earlier = correlation(every, "all models")
    corrected = CORRECTED.format(
        earlier.verdict, earlier.n_models, with_range(earlier), relation(earlier.probability or 0.0)
    )
    mean = with_slope(correlation(base, "base models", reproduced, published, (corrected, *files)), base, str(high))
    without = correlation(base[base["category"] != high], f"base models, without the category {high}")
    mine = with_entropy(tables, measured_here(tables, "last_gain"), MEASURED)
    mine = mine[~mine["model_id"].isin(tuned)]
    enough = mine["model_id"].nunique() >= FEWEST
    words = cliches(every, four, stated_by_model(tables, BENCHMARK, CLICHES))
    return [
        whole(mean, without, words, str(high), corrected),
        mean,
        correlation(four, "the benchmark's models"),
        without,
        replace(words, draw=None, caption=""),
        *((with_slope(correlation(mine, "models measured here"), mine, str(high)),) if enough else ()),
    ]


def with_slope(found: Finding, base: pd.DataFrame, category: str) -> Finding:
    """The finding with the posterior of the models' mean slope inside prompts, and what it is without a category."""
    fit = fit_slopes(base, "last_gain", seed=SEED)
    fewer = fit_slopes(base[base["category"] != category], "last_gain", seed=SEED)
    changed = {"as fitted": fit, f"without the category {category}": fewer}
    told = posterior_of(
        fit,
        model=f"Entropy on log last gain of {fit.n_models} base models, both standardised within models: a slope of "
        "each model, of one population, with prompts and the slope between prompts beside it.",
        statement="slope > 0",
        truth=fit.quantities["slope"] > 0,
        classical=found.verdict,
        tables=["slopes", "correlation"],
        sensitivity=pd.DataFrame(
            [
                {"changed": name, "P(slope > 0)": other.probabilities["slope > 0"], "sampler": other.status}
                for name, other in changed.items()
            ]
        ),
    )
    return beside(found, fit, told)


def with_line(found: Finding, prompts: pd.DataFrame) -> Finding:
    """The finding on clichés with the posterior of the difference of mean entropies."""
    two = prompts[prompts["category"].isin(["Cliche", "Novel"])]
    two = two.assign(cliche=(two["category"] == "Cliche").astype(float), model_id=two["prompt_id"], heritage="prompts")
    fit = fit_line(two, "entropy", ["cliche"], scale=NATS, group=None, sources=LAST_GAIN_FILES, seed=SEED)
    told = posterior_of(
        fit,
        model=f"Entropy of {len(two)} prompts, each the mean over models, on being a cliché (1) or novel (0).",
        statement="cliche < 0",
        truth=fit.quantities["cliche"] < 0,
        classical=found.verdict,
        tables={"prompts": fit.table("rows").drop(columns="heritage").rename(columns={"model_id": "prompt_id"})},
    )
    return beside(found, fit, told)


def whole(mean: Finding, without: Finding, words: Finding, category: str, corrected: str) -> Finding:
    """Both parts of the claim together: the estimate and p-value are those of the second, the verdict needs both."""
    verdict = if_all([mean.verdict, words.verdict])
    return replace(
        words,
        estimand=f"{words.estimand}, in nats (one part of two)",
        verdict=verdict,
        published={},
        reproduced={},
        posterior=None,
        rhat_max=None,
        ess_min=None,
        divergences=None,
        plain=f"{SENTENCES[verdict]} as a whole: that entropy moves with gain is {mean.verdict} (mean correlation "
        f"{with_range(mean)}), that clichés leave models less undecided than novel prompts is {words.verdict} "
        f"({with_range(words)} nats). Without the category of the highest entropy, {category}, the mean correlation "
        f"is {with_range(without)}.",
        probability=max(mean.probability or 0.0, words.probability or 0.0),
        notes=(
            corrected,
            "The estimate is that of the clichés; both parts have to hold, so the p-value is the larger of the two.",
            "Each part has a posterior of its own; the verdict on the whole follows from theirs.",
        ),
    )


def with_range(finding: Finding) -> str:
    """Estimate and interval."""
    return f"{number(finding.estimate)} {range_text(finding.lower, finding.upper)}"


def by_hand(four: pd.DataFrame) -> dict[str, float]:
    """The study's correlations, model by model."""
    found: dict[str, float] = {}
    for model, r in four.groupby("model_id"):
        spearman, pearson = stats.spearmanr(r["entropy"], r["value"]), stats.pearsonr(r["entropy"], r["value"])
        name = short_name(str(model))
        found |= {f"{name} Spearman": float(spearman.statistic), f"{name} Spearman p": float(spearman.pvalue)}
        found |= {f"{name} Pearson": float(pearson.statistic), f"{name} Pearson p": float(pearson.pvalue)}
    return found


def bentov(rows: pd.DataFrame) -> dict[str, float]:
    """The GPT-2 file's correlation, which is that of entropy and the distance of the gain from 1."""
    figures: dict[str, float] = {}
    for model, r in rows[rows["source"] == GPT2].groupby("model_id"):
        found, name = stats.pearsonr(r["entropy"], (r["value"] - 1).abs()), short_name(str(model))
        figures |= {BENTOV.format(name): float(found.statistic), BENTOV_P.format(name): float(found.pvalue)}
    return figures


def correlation(
    rows: pd.DataFrame,
    name: str,
    reproduced: Mapping[str, float] = NONE,
    published: Mapping[str, float] = NONE,
    notes: tuple[str, ...] = (),
) -> Finding:
    """Mean correlation inside models."""
    x, y = wide(rows, "entropy").dropna(), wide(rows).dropna()
    result = within_correlation(x, y, seed=SEED, resamples=RESAMPLES)
    linear = within_correlation(x, y, method="pearson", seed=SEED, resamples=BESIDE)
    verdict = (
        SUPPORTED if result.lower > 0 and result.p_value < ALPHA else AGAINST if result.upper < NEGLIGIBLE else OPEN
    )
    table = each_model(result, rows)
    positive = int((table["estimate"] > 0).sum())

    def draw(axes: Axes) -> None:
        forest(table, axes, label="model_id", heritage="heritage")
        axes.set_xlabel("Spearman correlation over prompts, with Fisher-z 95 % interval")

    return Finding(
        claim="C18",
        estimand=f"mean Spearman correlation of entropy and last gain, {name}",
        verdict=verdict,
        plain="Inside a model, the correlation over prompts of entropy and gain is on average "
        f"{number(result.estimate)} ({name}, {result.n_models} models, {result.n} prompts). {SENTENCES[verdict]}: "
        f"the interval is {range_text(result.lower, result.upper)}, p {relation(result.p_value)}, and {positive} of "
        f"{result.n_models} models have a positive correlation, from {number(table['estimate'].min())} to "
        f"{number(table['estimate'].max())}.",
        estimate=result.estimate,
        lower=result.lower,
        upper=result.upper,
        interval=f"{result.interval}, 95 %",
        probability=result.p_value,
        probability_kind="p-value",
        published=published,
        reproduced=reproduced,
        n_models=result.n_models,
        n_heritages=rows["heritage"].nunique(),
        table=table,
        draw=draw,
        caption=f"Correlation over {result.n} prompts of entropy and last gain by model, {name}; mean "
        f"{number(result.estimate)} {range_text(result.lower, result.upper)}.",
        notes=(
            f"By Pearson's correlation the mean is {number(linear.estimate)} {range_text(linear.lower, linear.upper)}.",
            *notes,
            *((GPT2_NOTE,) if reproduced else ()),
        ),
    )


def each_model(result: WithinCorrelation, rows: pd.DataFrame) -> pd.DataFrame:
    """Correlation of every model with its own Fisher interval."""
    labs = rows.drop_duplicates("model_id").set_index("model_id")["heritage"]
    table = pd.DataFrame({"estimate": result.by_model, "lower": result.by_model_lower, "upper": result.by_model_upper})
    table = table.rename_axis("model_id").reset_index()
    table.insert(1, "heritage", table["model_id"].map(labs))
    return table.sort_values("estimate", ascending=False, ignore_index=True)


def cliches(rows: pd.DataFrame, four: pd.DataFrame, published: Mapping[str, float]) -> Finding:
    """Mean entropy of clichés against novel prompts, each prompt averaged over models."""
    prompts = rows.groupby(["prompt_id", "category"], as_index=False)["entropy"].mean()
    cliche, novel = (prompts.loc[prompts["category"] == c, "entropy"] for c in ("Cliche", "Novel"))
    d = welch_difference(cliche, novel, log=False, seed=SEED)
    verdict = if_below(d.lower, d.upper, 0.0)
    reproduced: dict[str, float] = {}
    for model, r in four.groupby("model_id"):
        first, second = (r.loc[r["category"] == c, "entropy"] for c in ("Cliche", "Novel"))
        test, difference = stats.ttest_ind(first, second), first.mean() - second.mean()
        size = difference / ((first.var() + second.var()) / 2) ** 0.5
        names = (name.format(short_name(str(model))) for name in CLICHES)
        values = (first.mean(), second.mean(), test.statistic, test.pvalue, size)
        reproduced |= {name: float(value) for name, value in zip(names, values, strict=True)}
    smallest = min(p for name, p in reproduced.items() if name.endswith(" p"))

    def draw(axes: Axes) -> None:
        strip_by_group(prompts.assign(heritage="prompts"), axes, value="entropy", group="category", null=None)
        axes.set_xlabel("entropy in nats, one point a prompt, mean over models; tick: mean")

    found = Finding(
        claim="C18",
        estimand="mean entropy of clichés less that of novel prompts",
        verdict=verdict,
        plain=f"Clichés leave models {'less' if d.estimate < 0 else 'more'} undecided than novel prompts by "
        f"{number(abs(d.estimate))} nats on average. {SENTENCES[verdict]}: with {len(cliche)} and {len(novel)} "
        f"prompts the interval is {range_text(d.lower, d.upper)} (permutation of prompts, p "
        f"{relation(d.p_permutation)}).",
        estimate=d.estimate,
        lower=d.lower,
        upper=d.upper,
        interval=f"{d.interval} over prompts, 95 %",
        probability=d.p_permutation,
        probability_kind="p-value",
        published=published,
        reproduced=reproduced,
        n_models=rows["model_id"].nunique(),
        n_heritages=rows["heritage"].nunique(),
        table=prompts.sort_values(["category", "prompt_id"], ignore_index=True),
        draw=draw,
        caption=f"Entropy of every prompt by category, mean over {rows['model_id'].nunique()} models. Clichés "
        f"against novel prompts: {number(d.estimate)} nats {range_text(d.lower, d.upper)}.",
        notes=(
            f"Model by model the study's t tests give no p below {number(smallest, 2)}; its file calls the "
            "hypothesis confirmed in all of them.",
        ),
    )
    return with_line(found, prompts)


if __name__ == "__main__":
    run(CLAIM, analyse)
