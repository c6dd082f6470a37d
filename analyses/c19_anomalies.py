"""C19: the anomalies are explained: OPT, Mistral, LLaMA-3.1, GPT-2, GPT-J.

Claim: what does not fit is explained: OPT's low trace by a weak W_V; Mistral's and LLaMA's last gains by their
unembeddings, which make up for the stream ("silent exit", "projector"), LLaMA's also by position scheme and training
scale; GPT-2 by LayerNorm, which dampens; GPT-J by its parallel block, which dampens.
Estimands and rules, one an explanation:
OPT. Trace of OPT against the other models of the file, raw and divided by ‖W_V‖_F². Supported where every raw ratio
lies outside a factor TWOFOLD and every divided one inside; against where no divided ratio is inside.
Unembedding. Correlation over models of log spectral norm and log last gain. Supported where it is negative with an
exact permutation p < ALPHA; against where the Fisher 95 % interval lies above 0; fewer than 4 models decide nothing.
LLaMA. There is something to explain only where the last block itself dampens. Supported where the 95 % t interval of
the mean log last gain over prompts lies below 1, against where above.
Norm and parallel block. "LayerNorm (the parallel block) dampens": supported where every model with it has its 95 %
interval of the last gain below 1, against where one lies above. Unit: the model; intervals over prompts.
The claim as a whole needs every part; one part against it is enough.
Source: OPT_anomaly, H4_v2_validation, llama_anomaly, mistral_paradox, gpt2_layernorm, gptj_parallel, benchmark.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.modelling.means import Difference, one_sample
from thermostats.reporting.by_prompt import BENCHMARK, GPT2, GPTJ, gain_by_prompt
from thermostats.reporting.derived import BY_FILE, LLAMA_FILE, MISTRAL_FILE, OPT_FILE, attention_means, projectors
from thermostats.reporting.evidence import FOUR, H4_V2, stated, stated_by_model
from thermostats.reporting.findings import Claim, Finding, Tables, run
from thermostats.reporting.labels import short_name
from thermostats.reporting.plots import MUTED, forest, scatter_labelled, strip_by_group
from thermostats.reporting.provenance import follows
from thermostats.reporting.scales import log_axis
from thermostats.reporting.verdicts import AGAINST, OPEN, SENTENCES, SUPPORTED, if_all
from thermostats.reporting.words import number, range_text

OPT, LLAMA = "facebook/opt-125m", "meta-llama/Llama-3.1-8B"
PROJECTOR = "/hypothesis_1_titanium_projector/results/llama3.1-8b/last_gain"
SEED, ALPHA, TWOFOLD = 19, 0.05, 2.0
BY_TEST = {
    GPT2: {
        "{} mean": r"/validation_results/\d+/Mean_Gain", "{} SD": r"/validation_results/\d+/Std",
        "{} smallest": r"/validation_results/\d+/Min", "{} largest": r"/validation_results/\d+/Max",
        "{} t": r"/validation_results/\d+/t_stat", "{} one-sided p": r"/validation_results/\d+/p_value",
    },
    GPTJ: {
        "{} mean": "/results/mean_gain", "{} SD": "/results/std_gain", "{} smallest": "/results/min_gain",
        "{} largest": "/results/max_gain", "{} t": "/results/t_statistic",
        "{} one-sided p": "/results/p_value_one_sided",
    },
}  # fmt: skip
CATEGORY = "mean over the category {}"
NOT_ASKED = ("google/gemma-7b", "EleutherAI/pythia-6.9b")
INTERVAL = "t interval of the mean log over prompts, 95 %"

CLAIM = Claim(
    id="C19",
    title="The anomalies are explained",
    said="OPT is explained by a weak W_V, Mistral by a silent exit, LLaMA-3.1 by its projector, position scheme and "
    "training scale, GPT-2 by LayerNorm, GPT-J by its parallel block.",
    estimand="one test an explanation: ratio of traces, correlation with the unembedding, last gain against 1",
    rule=f"OPT: its traces differ from the others' by more than a factor {TWOFOLD:g}, and by less once divided by "
    f"‖W_V‖². Unembedding: negative correlation with p < {ALPHA:g}. LLaMA: last gain below 1. LayerNorm and parallel "
    "block: every model's interval below 1 supports, one above is against. The whole needs every part.",
    source="OPT_anomaly, H4_v2_validation, llama_anomaly, mistral_paradox, gpt2_layernorm, gptj_parallel",
)


def analyse(tables: Tables) -> list[Finding]:
    """The claim as a whole, then each explanation."""
    gains = gain_by_prompt(tables, "last_gain", BENCHMARK, GPT2, GPTJ)
    parts = [
        opt(tables),
        unembedding(tables, gains),
        llama(tables, gains),
        dampens(tables, gains, GPT2, "GPT-2: LayerNorm dampens"),
        dampens(tables, gains, GPTJ, "GPT-J: the parallel block dampens"),
    ]
    verdict = if_all(part.verdict for part in parts)
    stand = sum(part.verdict == SUPPORTED for part in parts)
    fall = sum(part.verdict == AGAINST for part in parts)

    def draw(axes: Axes) -> None:
        strip_by_group(gains[~gains["model_id"].isin(NOT_ASKED)], axes, value="value", group="model_id")
        axes.set_xlabel("last gain, one point a prompt; tick: mean")

    whole = Finding(
        claim="C19",
        estimand="explanations that stand, of those that can be tested",
        verdict=verdict,
        plain=f"Of {len(parts)} explanations that the files allow to test, the data support {stand} and contradict "
              f"{fall}. "
        f"{SENTENCES[verdict]} as a whole: "
        + "; ".join(f"{part.estimand} – {part.verdict}" for part in parts) + ".",
        estimate=stand / len(parts), n_models=len(set(gains["model_id"]) | {OPT}),
        n_heritages=gains["heritage"].nunique(),
        table=pd.DataFrame([vars(part) for part in parts])[["estimand", "verdict", "estimate", "lower", "upper"]],
        draw=draw,
        caption="Last gain by prompt of the models whose dampening was to be explained, in order of their mean; "
        f"dashed line: gain 1. {stand} of {len(parts)} explanations are supported.",
        notes=("Position scheme and training scale were named for LLaMA-3.1 alone, one model with both; no data can "
               "tell them apart.",
               "The study's own files call LayerNorm and the parallel block rejected."),
    )  # fmt: skip
    return [whole, *parts]


def opt(tables: Tables) -> Finding:
    """Does the norm of W_V account for OPT's small trace?"""
    traces = tables.read("attention", source=H4_V2, variant="multi_head").groupby("model_id")["trace"].mean()
    norms = tables.read("summaries", source=OPT_FILE)
    norms = norms[norms["estimand"].str.startswith("W_V_frobenius_norm_mean")].set_index("model_id")
    table = (
        norms[["heritage", "estimand", "value"]]
        .rename(columns={"value": "W_V_frobenius"})
        .join(traces.rename("trace"), how="inner")
    )
    table["trace_over_W_V_squared"] = table["trace"] / np.square(table["W_V_frobenius"])
    table["raw_ratio"] = table["trace"] / table.loc[OPT, "trace"]
    table["divided_ratio"] = table["trace_over_W_V_squared"] / table.loc[OPT, "trace_over_W_V_squared"]
    others = table.drop(index=OPT)
    apart, close = (np.abs(np.log(others[c])) > np.log(TWOFOLD) for c in ("raw_ratio", "divided_ratio"))
    verdict = SUPPORTED if apart.all() and not close.any() else AGAINST if close.all() else OPEN
    most = others.loc[others["raw_ratio"].idxmax()]
    sliced = [short_name(str(m)) for m in table.index[table["estimand"].str.endswith("published_thirds")]]
    shown = table.reset_index()
    published = stated_by_model(tables, OPT_FILE, BY_FILE[OPT_FILE])

    def draw(axes: Axes) -> None:
        axes.set(xscale="log", yscale="log")
        x = np.geomspace(table["W_V_frobenius"].min() * 0.7, table["W_V_frobenius"].max() * 1.4, 20)
        axes.plot(
            x,
            table.loc[OPT, "trace_over_W_V_squared"] * x**2,
            color=MUTED,
            linestyle="--",
            label="OPT's trace scaled by ‖W_V‖²",
        )
        scatter_labelled(shown, axes, x="W_V_frobenius", y="trace")
        axes.set(
            xlabel="Frobenius norm of W_V, mean over layers (log scale)", ylabel="trace, mean over layers (log scale)"
        )
        log_axis(axes, "x")
        log_axis(axes, "y")

    return Finding(
        claim="C19",
        estimand="OPT: a weak W_V explains its low trace",
        verdict=verdict,
        plain=f"OPT's trace is up to {number(most['raw_ratio'])} times smaller than the others' "
        f"({short_name(str(most.name))}), and divided by the square of the norm of W_V the difference is a factor of "
        f"{number(most['divided_ratio'])}. {SENTENCES[verdict]}, by the arithmetic of the trace, which is an "
        "attention term times that square; whether a weak W_V makes a model expand is not tested by it.",
        estimate=float(most["divided_ratio"]), n_models=len(table), n_heritages=table["heritage"].nunique(),
        table=shown, draw=draw, published=published, reproduced=attention_means(tables),
        caption=f"Trace over the norm of W_V for {len(table)} models; dashed: what OPT's trace would be at that "
        f"norm. Largest ratio of traces {number(most['raw_ratio'])}, {number(most['divided_ratio'])} once divided by "
        "‖W_V‖².",
        notes=tuple(f"The norm of {name} is that of a third of its fused matrix, which is not W_V." for name in sliced),
    )  # fmt: skip


def unembedding(tables: Tables, gains: pd.DataFrame) -> Finding:
    """Do models with a small last gain have a large unembedding?"""
    spectra = tables.read("weights", source=LLAMA_FILE, matrix="unembedding").set_index("model_id")
    copied = tables.read("statements", source=LLAMA_FILE, statistic="last gain, copied by hand")
    measured = gains.groupby("model_id")["value"].mean()
    table = pd.DataFrame(
        {
            "heritage": spectra["heritage"],
            "spectral_norm": spectra["spectral_norm"],
            "gain_stated": copied.set_index("model_id")["value"],
            "last_gain_measured": measured.reindex(spectra.index),
        }
    )
    table["effective_amplification"] = table["spectral_norm"] * table["gain_stated"]
    x, y = np.log(table["spectral_norm"].to_numpy(float)), np.log(table["gain_stated"].to_numpy(float))
    r = float(np.corrcoef(x, y)[0, 1])
    p = float(np.mean([np.corrcoef(x, y[list(order)])[0, 1] <= r + 1e-12 for order in permutations(range(len(y)))]))
    enough = len(table) >= 4
    lower, upper = (float(v) for v in stats.pearsonr(x, y).confidence_interval()) if enough else (-1.0, 1.0)
    verdict = SUPPORTED if enough and r < 0 and p < ALPHA else AGAINST if enough and lower > 0 else OPEN
    lacking = [short_name(str(m)) for m in table.index[table["last_gain_measured"].isna()]]
    return Finding(
        claim="C19",
        estimand="Mistral and LLaMA: the unembedding makes up for the last gain",
        verdict=verdict,
        plain=f"Over the {len(table)} models with a published unembedding, larger norms go with "
        f"{'larger' if r > 0 else 'smaller'} last gains (correlation of logs {number(r)}). {SENTENCES[verdict]}; "
        "making up for one another asks for a clearly negative "
        f"one{'' if enough else f', and {len(table)} models cannot show it'}.",
        estimate=r, lower=lower, upper=upper,
        interval="Fisher-z confidence interval, 95 %" if enough else "whole range: too few models",
        probability=p, probability_kind="p-value", n_models=len(table), n_heritages=table["heritage"].nunique(),
        table=table.reset_index(),
        published={k: v for file in (LLAMA_FILE, MISTRAL_FILE)
                   for k, v in stated_by_model(tables, file, BY_FILE[file]).items()},
        reproduced=projectors(tables, table),
        notes=(
            "The gains that the file multiplies are copied from other files, some with the final norm in them and "
            "pooled over tokens.",
            *(f"The gain beside {name} is another model's: it was never measured itself." for name in lacking),
            follows(tables, LLAMA_FILE),
        ),
    )  # fmt: skip


def llama(tables: Tables, gains: pd.DataFrame) -> Finding:
    """Does LLaMA's last block dampen at all?"""
    d = one_sample(gains.loc[gains["model_id"] == LLAMA, "value"], against=1, log=True, seed=SEED)
    verdict = SUPPORTED if d.upper < 0 else AGAINST if d.lower > 0 else OPEN
    rows = tables.read("summaries", estimand="normed_gain_all_tokens", model_id=LLAMA)
    pooled = float(rows.loc[rows["source"] == FOUR, "value"].iloc[0])
    return Finding(
        claim="C19",
        estimand="LLaMA-3.1: its last block dampens",
        verdict=verdict,
        plain=f"Measured at the block and at the last token, LLaMA-3.1's last gain is {number(d.ratio)} over {d.n} "
        f"prompts. {SENTENCES[verdict]}: the figure of {pooled:.2f} that called for an explanation runs over the "
        f"final norm and pools all tokens{', and without that there is no anomaly' if verdict == AGAINST else ''}.",
        estimate=d.ratio, lower=d.ratio_lower, upper=d.ratio_upper, interval=INTERVAL, probability=below(d),
        probability_kind="p-value", n_models=1, n_heritages=1,
        published=stated(tables, {"last ratio, final norm in it": PROJECTOR}, LLAMA_FILE),
        reproduced={"last ratio, final norm in it": pooled, "last gain, block": d.ratio},
    )  # fmt: skip


def below(d: Difference) -> float:
    """One-sided p of "the mean log gain is not below 0"."""
    return float(stats.t.cdf(d.statistic, d.df))


def by_category(tables: Tables, rows: pd.DataFrame) -> dict[str, float]:
    """Mean gain over the prompts of each category."""
    prompts = tables.read("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    both = rows.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"])
    return {str(name): float(mean) for name, mean in both.groupby("category")["value"].mean().items()}


def dampens(tables: Tables, gains: pd.DataFrame, source: str, name: str) -> Finding:
    """Do the models of one file dampen, as the explanation predicts?"""
    rows: list[dict[str, object]] = []
    reproduced: dict[str, float] = {}
    for (model, heritage), r in gains[gains["source"] == source].groupby(["model_id", "heritage"]):
        d = one_sample(r["value"], against=1, log=True, seed=SEED)
        t = stats.ttest_1samp(r["value"], 1.0, alternative="less")
        rows.append(
            {
                "model_id": model,
                "heritage": heritage,
                "estimate": d.ratio,
                "lower": d.ratio_lower,
                "upper": d.ratio_upper,
                "p": below(d),
            }
        )
        reproduced |= {
            f"{short_name(str(model))} mean": float(r["value"].mean()),
            f"{short_name(str(model))} SD": float(r["value"].std()),
            f"{short_name(str(model))} smallest": float(r["value"].min()),
            f"{short_name(str(model))} largest": float(r["value"].max()),
            f"{short_name(str(model))} t": float(t.statistic),
            f"{short_name(str(model))} one-sided p": float(t.pvalue),
        }
    published = stated_by_model(tables, source, BY_TEST[source])
    if source == GPTJ:
        means = by_category(tables, gains[gains["source"] == source])
        published |= stated(tables, {CATEGORY.format(name): f"/category_means/{name}" for name in means}, source)
        reproduced |= {CATEGORY.format(name): mean for name, mean in means.items()}
    table = pd.DataFrame(rows).sort_values("estimate", ignore_index=True)
    verdict = AGAINST if (table["lower"] > 1).any() else SUPPORTED if (table["upper"] < 1).all() else OPEN
    worst = table.iloc[-1]

    def draw(axes: Axes) -> None:
        forest(table, axes, label="model_id", heritage="heritage", null=1.0)
        axes.set_xlabel("last gain, geometric mean with 95 % interval over prompts")

    return Finding(
        claim="C19",
        estimand=name,
        verdict=verdict,
        plain=f"{int((table['lower'] > 1).sum())} of {len(table)} models expand clearly where the explanation wants "
        f"them to dampen ({name}). {SENTENCES[verdict]}: {short_name(worst['model_id'])} has a last gain of "
        f"{number(worst['estimate'], 4)} {range_text(worst['lower'], worst['upper'])}.",
        estimate=worst["estimate"], lower=worst["lower"], upper=worst["upper"], interval="t interval of the mean log "
        "over prompts, 95 %", probability=worst["p"],
        probability_kind="p-value", published=published, reproduced=reproduced, n_models=len(table),
        n_heritages=table["heritage"].nunique(), table=table, draw=draw,
        caption=f"Last gain of {len(table)} models with 95 % intervals over prompts; dashed line: 1. "
        f"{int((table['lower'] > 1).sum())} lie clearly above it.",
        notes=(follows(tables, source),),
    )  # fmt: skip


if __name__ == "__main__":
    run(CLAIM, analyse)
