"""Net amplification of the published models over their blocks, and the study's product of gains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.stats import linregress

from thermostats.claims.evidence import VIEWS, Evidence
from thermostats.claims.question import Test
from thermostats.claims.result import Audit, Estimate, Result
from thermostats.formatting import strip_owner
from thermostats.modelling.classical.association import (
    estimate_one_sample,
    estimate_paired_difference,
)
from thermostats.modelling.classical.many import estimate_shares, wrap_counts
from thermostats.studies.delia2026.stated_facts import (
    FOUR,
    GPT2,
    GPTJ,
    H4_V2,
    LAST_GAIN_FILES,
    TWIN,
    check_model_figures,
    drop_tuned,
    iterate_model_figures,
    join_audits,
    load_gains,
    load_prompt_gains,
    load_stated,
    load_stated_models,
    select_single_runs,
)
from thermostats.tables.model_rows import read_prompt_gains
from thermostats.tables.reading import keep_last_revision

OFFSET = 1e-10
"""The study adds it to a gain before taking the logarithm; the published products have it in every
factor."""
BELOW = "models clearly below 1"
INTERVAL = "Clopper–Pearson exact interval of the share of families, 95%"
BY_MODEL = {
    "product of {}": r"/results/[^/]+/final_cumulative",
    "{}, % of gains below 1": r"/results/[^/]+/contracting_pct",
    "{}, % of gains from 1 on": r"/results/[^/]+/expanding_pct",
}


def measure_amplification(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per model: n_L/n_1 over prompts where measured, else n_(L-1)/n_1 of the mean gains,
    at the last token."""
    rows = select_single_runs(read_prompt_gains(tables, "total_amplification", *LAST_GAIN_FILES))
    key = ["model_id", "heritage", "family"]
    models = []
    for (model, heritage, family), r in rows.groupby(key):
        d = estimate_one_sample(r["value"], against=1, log=True, seed=seed)
        models.append(
            (model, heritage, family, "n_L/n_1", d.ratio, d.ratio_lower, d.ratio_upper, True)
        )
    columns = [*key, "what", "amplification", "lower", "upper", "comparable"]
    measured = pd.DataFrame(models, columns=columns)
    others = load_gains(tables)
    others = others[
        ~others["model_id"].isin(measured["model_id"]) & others["total_to_penultimate"].notna()
    ]
    rest = others[[*key, "comparable"]].assign(
        what="n_(L-1)/n_1", amplification=others["total_to_penultimate"]
    )
    both = pd.concat([measured, rest], ignore_index=True)
    depth = (
        tables.table("models")
        .drop_duplicates("model_id")
        .set_index("model_id")["n_layers"]
        .astype(float)
    )
    both["over_root_of_L"] = both["amplification"] / np.sqrt(both["model_id"].map(depth))
    return both.sort_values("amplification", ascending=False, ignore_index=True)


def count_amplifying(name: str, rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The exact interval of the share of families all of whose models lie above 1; models by `name`
    and families.

    rows: one a model with heritage, family, `log` amplification and `half` its interval.
    """
    half = rows["half"].to_numpy(np.float64)
    families = rows.groupby(["heritage", "family"]).ngroup().to_numpy()
    low = outcomes["log"] - half
    high = outcomes["log"] + half
    amplifies = [(low[:, families == code] > 0).all(axis=1) for code in np.unique(families)]
    by_family = np.stack(amplifies, axis=1) if amplifies else np.empty((len(low), 0), dtype=bool)
    models = [
        {"amplification": replace(wrap_counts(value), lower=lower, upper=upper)}
        for value, lower, upper in zip(*np.exp([outcomes["log"].T, low.T, high.T]), strict=True)
    ]
    found = estimate_shares(by_family)
    return {"share of families": found, BELOW: wrap_counts((high < 0).sum(axis=1)), name: models}


def describe_amplifying(name: str, rows: pd.DataFrame, result: Result) -> Result:
    """The result with its models, its families and the least of the models."""
    ends = {
        end: np.exp(rows["log"] + sign * rows["half"])
        for end, sign in (("lower", -1), ("upper", 1))
    }
    models = rows.assign(amplification=np.exp(rows["log"]), **ends)
    families = (
        models.assign(amplifies=models["lower"] > 1)
        .groupby(["heritage", "family"], as_index=False)["amplifies"]
        .all()
    )
    least = None if rows.empty else models.loc[models["amplification"].idxmin()]
    words = {"k": int(families["amplifies"].sum()), "families": len(families), "least": least}
    if rows.empty:
        result = result.adding(
            quantities={**result.quantities, "share of families": Estimate(None)}
        )
    return result.adding(rows={name: models, "families": families}, words=words)


def declare_amplifying(name: str) -> Test:
    """The test of how many families amplify, whose rule reads models by `name`."""
    describe = partial(describe_amplifying, name)
    return Test(partial(count_amplifying, name), ("log",), INTERVAL, describe=describe)


def load_published_product(tables: Evidence) -> pd.DataFrame:
    """The study's product and its parts, all tokens pooled: with and without block 1 and the final
    norm."""
    layers = tables.table("layers", source=FOUR)
    summaries = tables.table("summaries", source=FOUR)
    normed = summaries[summaries["estimand"] == "normed_gain_all_tokens"].set_index("model_id")[
        "value"
    ]
    rows = []
    for (model, heritage, family), r in layers.groupby(["model_id", "heritage", "family"]):
        g = r.sort_values("layer")["gain_block"].dropna().to_numpy(float)
        every = np.append(g, normed[model])
        product = float(np.prod(every))
        row = {
            "amplification": product,
            "comparable": True,
            "as_published": float(np.prod(every + OFFSET)),
        }
        row |= {
            "below_1": 100 * float(np.mean(every < 1)),
            "of_block_1": g[0],
            "without_block_1": product / g[0],
        }
        row["blocks_2_to_before_last"] = float(np.prod(g[1:]))
        rows.append({"model_id": model, "heritage": heritage, "family": family, **row})
    return pd.DataFrame(rows).sort_values("amplification", ascending=False, ignore_index=True)


def check_product(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Products and shares of gains below 1 of the file, by the names of `BY_MODEL`; `table`:
    `load_published_product`."""
    rows = (
        (row.model_id, (row.as_published, row.below_1, 100 - row.below_1))
        for row in table.itertuples()
    )
    return check_model_figures(tables, FOUR, BY_MODEL, rows)


OPT_FILE = "OPT_anomaly_20260106_013155.json"
OPT = "facebook/opt-125m"
LLAMA = "meta-llama/Llama-3.1-8B"
NOT_ASKED = ("google/gemma-7b", "EleutherAI/pythia-6.9b")
"""Models of the benchmark that no explanation is about."""
LLAMA_FILE = "llama_anomaly_hypothesis_tests.json"
LLAMA_GAIN = "/hypothesis_1_titanium_projector/results/llama3.1-8b/last_gain"
MISTRAL_FILE = "mistral_paradox_investigation_results.json"
MISTRAL = "mistralai/Mistral-7B-v0.1"
BY_FILE = {
    OPT_FILE: {
        "attention entropy of {}": r"/attention_analysis/[^/]+/mean_entropy",
        "attention sparsity of {}": r"/attention_analysis/[^/]+/mean_sparsity",
    },
    LLAMA_FILE: {
        "{} effective "
        "amplification": r"/hypothesis_1_titanium_projector/results/[^/]+/effective_amplification",
        "{} spectral norm over root of "
        "V": r"/hypothesis_1_titanium_projector/results/[^/]+/spectral_per_sqrt_vocab",
    },
    MISTRAL_FILE: {
        "{} unembedding over embedding, Frobenius": r"/unembedding_analysis/[^/]+/wu_we_ratio",
        "{} unembedding, spectral norm over root of "
        "d": r"/unembedding_analysis/[^/]+/unembedding/spectral_normalized",
        "{} embedding, spectral norm over root of "
        "d": r"/unembedding_analysis/[^/]+/embedding/spectral_normalized",
        "{} unembedding, root mean "
        "square": r"/unembedding_analysis/[^/]+/unembedding/frobenius_normalized",
        "{} embedding, root mean "
        "square": r"/unembedding_analysis/[^/]+/embedding/frobenius_normalized",
        "{} exp of the entropy": r"/entropy_analysis/[^/]+/effective_vocab",
        "{}, % of gains below 1": r"/residual_stream_analysis/[^/]+/contracting_pct",
    },
}
"""Names of the figures, with {} for the model, and patterns of their pointers."""
IN_TEST = ("{} mean", "{} SD", "{} smallest", "{} largest", "{} t", "{} one-sided p")
BY_TEST = {
    GPT2: [
        rf"/validation_results/\d+/{key}"
        for key in ("Mean_Gain", "Std", "Min", "Max", "t_stat", "p_value")
    ],
    GPTJ: [f"/results/{key}_gain" for key in ("mean", "std", "min", "max")]
    + ["/results/t_statistic", "/results/p_value_one_sided"],
}
"""Patterns of pointers to the figures of IN_TEST in the files that test whether a model's last gain
lies below 1."""
CATEGORY = "mean over the category {}"


def test_audit(tables: Evidence, rows: pd.DataFrame, source: str) -> Audit:
    """Figures of a file of `BY_TEST` from its rows by prompt and category."""

    def figures(of_model: pd.DataFrame) -> tuple[float, ...]:
        gain = of_model["value"]
        t = stats.ttest_1samp(of_model["value"], 1.0, alternative="less")
        return gain.mean(), gain.std(), gain.min(), gain.max(), t.statistic, t.pvalue

    names = dict(zip(IN_TEST, BY_TEST[source], strict=True))
    audit = check_model_figures(tables, source, names, iterate_model_figures(rows, figures))
    if source != GPTJ:
        return audit
    means = {
        CATEGORY.format(name): float(values.mean())
        for name, values in rows.groupby("category")["value"]
    }
    places = {
        CATEGORY.format(name): f"/category_means/{name}" for name in sorted(set(rows["category"]))
    }
    return join_audits(audit, Audit(load_stated(tables, places, source), means))


def collect_traces_and_norms(tables: Evidence) -> pd.DataFrame:
    """By model the mean trace, the mean norm of W_V as the OPT file has it, and the trace over its
    square."""
    traces = (
        tables.table("attention", source=H4_V2, variant="multi_head")
        .groupby("model_id")["trace"]
        .mean()
    )
    norms = tables.table("summaries", source=OPT_FILE)
    norms = norms[norms["estimand"].str.startswith("W_V_frobenius_norm_mean")].set_index("model_id")
    norms = norms[["heritage", "estimand", "value"]].rename(columns={"value": "W_V_frobenius"})
    table = norms.join(traces.rename("trace"), how="inner")
    table["trace_over_W_V_squared"] = table["trace"] / np.square(table["W_V_frobenius"])
    table["raw_ratio"] = table["trace"] / table.loc[OPT, "trace"]
    table["divided_ratio"] = (
        table["trace_over_W_V_squared"] / table.loc[OPT, "trace_over_W_V_squared"]
    )
    for name in ("raw", "divided"):
        table[f"{name}_factor"] = np.exp(np.log(table[f"{name}_ratio"]).abs())
    return table.assign(sliced=table["estimand"].str.endswith("published_thirds"))


def check_opt(tables: Evidence) -> Audit:
    """Means over layers of attention entropy (where it is a number) and sparsity, of the OPT
    file."""
    entropy = tables.table("attention", source=OPT_FILE).groupby("model_id")["entropy"].mean()
    rows = tables.table("summaries", source=OPT_FILE)
    rows = rows[rows["estimand"].str.startswith("attention_sparsity_layer_")]
    both = pd.concat([entropy, rows.groupby("model_id")["value"].mean()], axis=1)
    return check_model_figures(
        tables, OPT_FILE, BY_FILE[OPT_FILE], ((m, list(figures)) for m, figures in both.iterrows())
    )


def collect_unembeddings(tables: Evidence, gains: pd.DataFrame) -> pd.DataFrame:
    """By model with a published unembedding: its spectral norm, the gain that the file multiplies,
    the measured one."""
    spectra = tables.table("weights", source=LLAMA_FILE, matrix="unembedding").set_index("model_id")
    copied = tables.table("statements", source=LLAMA_FILE, statistic="last gain, copied by hand")
    table = spectra[["heritage", "spectral_norm"]].assign(
        gain_stated=copied.set_index("model_id")["value"],
        last_gain_measured=gains.groupby("model_id")["value"].mean().reindex(spectra.index),
    )
    return table.assign(effective_amplification=table["spectral_norm"] * table["gain_stated"])


def check_llama(tables: Evidence, gain: float) -> tuple[Audit, float]:
    """The last ratio that called for an explanation, which runs over the final norm and pools all
    tokens."""
    rows = tables.table("summaries", estimand="normed_gain_all_tokens", model_id=LLAMA)
    pooled = float(rows.loc[rows["source"] == FOUR, "value"].iloc[0])
    published = load_stated(tables, {"last ratio, final norm in it": LLAMA_GAIN}, LLAMA_FILE)
    return Audit(
        published, {"last ratio, final norm in it": pooled, "last gain, block": gain}
    ), pooled


def check_derived(tables: Evidence, source: str) -> dict[str, float]:
    """Derived figures of a file that follow from its rows, their largest relative difference; how
    many do not."""
    rows = tables.table("reconciliation", file=source, fate="derivable")
    wrong = tables.table("inconsistencies", file=source, kind="does not follow")
    largest = float(rows["largest_difference"].max()) if len(rows) else 0.0
    return {"figures": int(rows["numbers"].sum()), "largest": largest, "wrong": len(wrong)}


def check_projector(tables: Evidence, table: pd.DataFrame) -> Audit:
    """What the LLaMA and Mistral files derive from (un)embeddings, output, stream; `table` from
    `collect_unembeddings`."""
    models = tables.table("models").drop_duplicates("model_id").set_index("model_id")
    scaled = table["spectral_norm"] / np.sqrt(
        models["vocab_size"].reindex(table.index).astype(float)
    )
    of_llama = zip(
        table.index, zip(table["effective_amplification"], scaled, strict=True), strict=True
    )
    V, d = (float(models.loc[MISTRAL, label]) for label in ("vocab_size", "d_model"))
    W = (
        tables.table("weights", source=MISTRAL_FILE)
        .set_index("matrix")
        .loc[["unembedding", "embedding"]]
    )
    ratios = (
        tables.table("layers", source=MISTRAL_FILE)["gain_block"].dropna().astype(float).tolist()
    )
    ends = tables.table(
        "summaries", source=MISTRAL_FILE, estimand="last_ratio_all_tokens_norm_unstated"
    )["value"]
    of_mistral = (
        W["frobenius_norm"].iloc[0] / W["frobenius_norm"].iloc[1],
        *(W["spectral_norm"] / np.sqrt(d)),
        *(W["frobenius_norm"] / np.sqrt(V * d)),
        np.exp(tables.table("outputs", source=MISTRAL_FILE)["entropy"].iloc[0]),
        100 * np.mean(np.array([*ratios, *ends]) < 1),
    )
    return join_audits(
        check_model_figures(tables, LLAMA_FILE, BY_FILE[LLAMA_FILE], of_llama),
        check_model_figures(tables, MISTRAL_FILE, BY_FILE[MISTRAL_FILE], [(MISTRAL, of_mistral)]),
    )


SCALING = "scaling_law_multi_pythia_results.json"
FFN = "ffn_expansion_results.json"
FIT = {
    "exponent": "/scaling_law/exponent_alpha",
    "standard error of the exponent": "/scaling_law/exponent_std_err",
    "intercept": "/scaling_law/intercept",
    "R²": "/scaling_law/r_squared",
    "p of the exponent against 0": "/scaling_law/p_value",
}
CONTRACTING = {
    "attention of {} contracts, % of blocks": r"/models/\d+/attn_contracting_pct",
    "MLPs of {} contract, % of blocks": r"/models/\d+/mlp_contracting_pct",
}


def collect_layer_gains(tables: Evidence) -> pd.DataFrame:
    """Columns model_id, heritage, layer, gain_attention, gain_mlp of the scaling file.

    Of another set of evidence of every base model at its last revision, geometric means over
    prompts at the last token; a recipe stands in the place of the lab.
    """
    if tables.name in VIEWS:
        every = tables.table("layers", position="last").dropna(
            subset=["gain_attention", "gain_mlp"]
        )
        every = drop_tuned(tables, keep_last_revision(every[every["gain_mlp"] > 0], "model_id"))
        logs = np.log(every[["gain_attention", "gain_mlp"]].astype(float))
        return np.exp(
            logs.groupby([every[name] for name in ("model_id", "heritage", "layer")]).mean()
        ).reset_index()
    layers = tables.table("layers", source=SCALING)
    return layers[["model_id", "heritage", "layer", "gain_attention", "gain_mlp"]].astype(
        {"layer": float}
    )


def collect_last_blocks(tables: Evidence) -> pd.DataFrame:
    """One row per model by size: its last block, `n_params`, `largest_attention_gain` over all
    blocks."""
    layers = collect_layer_gains(tables)
    models = tables.table("models").drop_duplicates("model_id", keep="last")
    last = layers.sort_values("layer").groupby("model_id", as_index=False).last()
    last["n_params"] = (
        last["model_id"].map(models.set_index("model_id")["n_params"]).astype("float64")
    )
    last["largest_attention_gain"] = last["model_id"].map(
        layers.groupby("model_id")["gain_attention"].max()
    )
    return last.sort_values("n_params", ignore_index=True)


def check_exponent(tables: Evidence, line: linregress) -> Audit:
    """The least-squares line of the file, and the exponent as the text claims it."""
    claimed = "exponent as claimed"
    values = (line.slope, line.stderr, line.intercept, line.rvalue**2, line.pvalue)
    figures = {claimed: float(line.slope)} | dict(zip(FIT, map(float, values), strict=True))
    return Audit(
        load_stated(tables, {claimed: "MLP exponent"}) | load_stated(tables, FIT, SCALING), figures
    )


def check_contracting(tables: Evidence, layers: pd.DataFrame) -> Audit:
    """Per cent of blocks below 1 in every model."""
    shares = 100 * (layers[["gain_attention", "gain_mlp"]] < 1).groupby(layers["model_id"]).mean()
    return check_model_figures(
        tables, SCALING, CONTRACTING, ((model, list(row)) for model, row in shares.iterrows())
    )


COUNTS = {"pairs": "/n_families", "measurements": "/n_total_measurements"}
LARGEST = "largest change, %"
IN_THE_TEXT = {
    "gemma-7b": "section 5.5 Gemma base",
    "gemma-7b-it": "section 5.5 Gemma instruct",
    LARGEST: "section 5.5 change",
}
BASE = r"/twin_summary/[^/]+/base/"
TUNED = r"/twin_summary/[^/]+/instruct/"
PAIRS_BY_MODEL = {
    "{} in the file": f"({BASE}|{TUNED})mean_gain",
    "SD of {}": f"({BASE}|{TUNED})std_gain",
    "{} over its base": r"/hypothesis_results/\d+/Ratio",
    "{} less its base": r"/hypothesis_results/\d+/Delta",
}


def collect_prompt_gains(tables: Evidence) -> pd.DataFrame:
    """Last gains by model and prompt, with the model's `variant` and `parent`."""
    models = tables.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    return (
        load_prompt_gains(tables, "last_gain", TWIN)
        .drop(columns="category")
        .merge(models, on="model_id")
    )


def build_pairs(tables: Evidence, *, seed: int) -> pd.DataFrame:
    """One row per pair: gains of both with intervals, their ratio (Bonferroni over pairs), and who
    was tuned from whom.

    A tuned model stands with the base of its family; `base_and_child` is false where it was tuned
    from another. Of another set of evidence than the published one every tuned model stands with
    the base that it was tuned from.
    """
    gains = load_prompt_gains(tables, "last_gain", TWIN)
    models = tables.table("models").drop_duplicates("model_id", keep="last").set_index("model_id")
    labs = gains.drop_duplicates("model_id").set_index("model_id")["heritage"]
    wide = gains.pivot(index="prompt_id", columns="model_id", values="value")
    rows = []
    tuned = [model for model in wide if models.loc[model, "variant"] == "instruct"]
    family = models.loc[[model for model in wide if model not in tuned], "family"]
    if tables.name in VIEWS:
        base_of = {
            model: models.loc[model, "parent"]
            for model in tuned
            if models.loc[model, "parent"] in wide
        }
    else:
        base_of = {child: family.index[family == models.loc[child, "family"]][0] for child in tuned}
    for child, base in base_of.items():
        both = wide[[base, child]].dropna()
        pair = {"model_id": base, "instruct": child, "heritage": labs[child]}
        pair |= {"base_and_child": models.loc[child, "parent"] == base, "n_prompts": len(both)}
        pair |= {"base_sd": both[base].std(ddof=0), "instruct_sd": both[child].std(ddof=0)}
        pair |= {"base_gain": both[base].mean(), "instruct_gain": both[child].mean()}
        pair |= estimate_pair_ratio(both, "instruct", level=1 - 0.05 / len(base_of), seed=seed)
        rows.append(
            pair | {"prompts_that_flip": int(((both[base] > 1) != (both[child] > 1)).sum())}
        )
    return pd.DataFrame(
        rows, columns=None if rows else ["model_id", "instruct", "heritage", "base_and_child"]
    )


PAIR = [
    "model_id",
    "instruct",
    "heritage",
    "source",
    "n_prompts",
    "base_gain",
    "instruct_gain",
    "flips",
]


def build_penultimate_pairs(tables: Evidence) -> pd.DataFrame:
    """One row per tuned model and the base that it was tuned from: penultimate gains of one source
    and set of prompts.

    Columns PAIR. `flips`: both 95% t intervals over prompts exclude 1, on opposite sides; a mean
    whose errors its source does not state counts as exact. Of several such pairs of measurements
    that with most prompts counts.
    """
    gain = "penultimate_gain"
    facts = ["model_id", "source", "prompt_set"]
    rows = keep_last_revision(tables.table("features").dropna(subset=gain), "model_id")
    n = rows["n_prompts"].astype("float64")
    error = (
        rows[f"{gain}_sd"].astype("float64")
        / np.sqrt(n)
        * stats.t.ppf(0.975, (n - 1).clip(lower=1))
    ).fillna(0.0)
    side = np.sign(rows[gain] - 1) * ((rows[gain] - 1).abs() > error)
    rows = rows.assign(
        gain=rows[gain].astype("float64"), side=side.astype("float64"), n_prompts=n.fillna(0.0)
    )
    tuned = rows[(rows["variant"] == "instruct") & (rows["parent"] != "")]
    both = rows[[*facts, "gain", "side"]].merge(
        tuned[[*facts, "parent", "heritage", "n_prompts", "gain", "side"]],
        left_on=facts,
        right_on=["parent", *facts[1:]],
        suffixes=("_base", ""),
    )
    both = both.sort_values("n_prompts", ascending=False, kind="stable").drop_duplicates("model_id")
    flips = both["side"] * both["side_base"] < 0
    named = both.assign(
        instruct=both["model_id"],
        base_gain=both["gain_base"],
        instruct_gain=both["gain"],
        flips=flips,
    )
    return named.assign(model_id=both["model_id_base"])[PAIR].sort_values(
        "instruct", ignore_index=True
    )


def log_ratios(tables: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Logs of tuned over base by prompt, for pairs of `build_pairs`: model_id (the base), heritage,
    prompt_id, category."""
    gains = load_prompt_gains(tables, "last_gain", TWIN)
    made = []
    for pair in table.itertuples():
        base, tuned = (
            gains[gains["model_id"] == model] for model in (pair.model_id, pair.instruct)
        )
        both = base.merge(tuned[["prompt_id", "value"]], on="prompt_id", suffixes=("", "_tuned"))
        made.append(both.assign(log_ratio=np.log(both["value_tuned"] / both["value"])))
    columns = ["model_id", "heritage", "prompt_id", "category", "log_ratio"]
    return pd.concat(made, ignore_index=True)[columns] if made else pd.DataFrame(columns=columns)


def estimate_pair_ratio(
    both: pd.DataFrame, tuned: str, *, level: float, seed: int
) -> dict[str, Any]:
    """Geometric means of a base's gains and of a tuned model's, with 95% t intervals; their ratio.

    both: prompts by the two models, base first. tuned: what the second is called in the names.
    """
    base, child = (both[model] for model in both)
    b, c = (estimate_one_sample(gain, against=1, log=True, seed=seed) for gain in (base, child))
    ratio = estimate_paired_difference(child, base, level=level, seed=seed)
    figures: dict[str, Any] = {}
    for name, sample in (("base", b), (tuned, c)):
        figures |= {
            f"{name}_geometric": sample.ratio,
            f"{name}_lower": sample.ratio_lower,
            f"{name}_upper": sample.ratio_upper,
        }
    figures["flips"] = b.upper < 0 < c.lower or c.upper < 0 < b.lower
    figures |= {
        "ratio": ratio.ratio,
        "ratio_lower": ratio.ratio_lower,
        "ratio_upper": ratio.ratio_upper,
    }
    return figures | {"p": ratio.p_value}


def check_counts(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Numbers of pairs and measurements of the file; `table` from `build_pairs`."""
    figures = {"measurements": float(2 * table["n_prompts"].sum()), "pairs": float(len(table))}
    return Audit(load_stated(tables, COUNTS, TWIN), figures)


def check_gains(tables: Evidence, table: pd.DataFrame) -> Audit:
    """Gains of the text and of the file, their standard deviations (divisor n), ratios and
    differences."""
    published = load_stated(tables, IN_THE_TEXT) | load_stated_models(tables, TWIN, PAIRS_BY_MODEL)
    true = table[table["base_and_child"]]
    figures = {LARGEST: float(100 * (true["instruct_gain"] / true["base_gain"] - 1).abs().max())}
    for row in table.itertuples():
        base = strip_owner(row.model_id)
        child = strip_owner(row.instruct)
        for name, gain, sd in (
            (base, row.base_gain, row.base_sd),
            (child, row.instruct_gain, row.instruct_sd),
        ):
            figures |= {name: gain, f"{name} in the file": gain, f"SD of {name}": sd}
        figures[f"{child} over its base"] = row.instruct_gain / row.base_gain
        figures[f"{child} less its base"] = row.instruct_gain - row.base_gain
    return Audit(
        published, {name: float(value) for name, value in figures.items() if name in published}
    )
