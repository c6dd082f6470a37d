"""Readers of the files with one row per model and prompt: benchmark, twins, GPT-2 and GPT-J, on the
same 25 prompts.

Their `Last_Gain` is G_L of block hooks at the last token, `Total_Amp` is n_L / n_1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from ledger import Document, Place
from reading import EXACT, Reading, Run
from scipy import stats

PROMPT_SET = "study_25"
COPIED = "reference last gain, copied by hand"


def read_benchmark(reading: Reading, document: Document, copy: Document) -> None:
    """`thermodynamic_benchmark`: four models, float16."""
    top = document.top
    places = top["all_results"].each()
    prompts = [place for place in places if place["Model"].value == places[0]["Model"].value]
    for i, place in enumerate(prompts, start=1):
        complexity = place["Complexity"]
        complexity.number("prompts.complexity")
        words = place["Prompt"].text(), place["Category"].text(), complexity.integer()
        reading.prompts(PROMPT_SET, [(f"p{i:02}", *words)])
    rows = _rows(reading, document, copy, "float16", declared=len(prompts))
    counts = {
        "n_models": len(top["models"].each()),
        "n_prompts": len(prompts),
        "n_measurements": len(rows),
    }
    reading.follow(top, counts)
    by_name = dict(iter(rows.groupby("name")))
    _base_levels(reading, top, rows)
    for name, place in top["modulation_ranges"].named():
        g = by_name[name]["gain"]
        reading.follow(place, {"min": g.min(), "max": g.max(), "range": np.ptp(g)})
    for place in top["entropy_correlations"].each():
        of_model = by_name[place["Model"].text()]
        for kind, test in (("Pearson", stats.pearsonr), ("Spearman", stats.spearmanr)):
            fit = test(of_model["gain"], of_model["entropy"])
            reading.follow(place, {f"{kind}_r": fit[0], f"{kind}_p": fit[1]})
    for place in top["complexity_correlations"].each():
        of_model = by_name[place["Model"].text()]
        fit = stats.spearmanr(of_model["complexity"], of_model["gain"])
        reading.follow(place, {"Complexity_Spearman_r": fit[0], "Complexity_Spearman_p": fit[1]})
    for place in top["p3_platitude_tunnel"].each():
        _platitude(reading, place, by_name[place["Model"].text()])


def read_twins(reading: Reading, document: Document, copy: Document) -> None:
    """`twin_test_results`: three pairs of base and instruct, bfloat16."""
    top = document.top
    rows = _rows(reading, document, copy, "bfloat16")
    pairs = {
        (p["Family"].text(), p["Variant"].text()): p["Model"].text()
        for p in top["all_results"].each()
    }
    names = rows["name"].nunique()
    counts = {
        "n_families": len(pairs) / 2,
        "n_prompts_per_model": len(rows) / names,
        "n_total_measurements": len(rows),
    }
    reading.follow(top, counts)
    means = {}
    for family, pair in top["twin_summary"].named():
        for variant in ("base", "instruct"):
            name = pairs[family, variant]
            g = rows.loc[rows["name"] == name, "gain"]
            model = reading.name(name)
            moments = {"mean_gain": g.mean(), "std_gain": g.std(ddof=0), "n_samples": len(g)}
            reading.follow(pair[variant], moments, model)
            means[family, variant] = pair[variant]["mean_gain"].peek()
    for place in top["hypothesis_results"].each():
        family = place["Family"].text()
        base, instruct = (means[family, variant] for variant in ("base", "instruct"))
        first, second = (reading.name(pairs[family, variant]) for variant in ("base", "instruct"))
        reading.follow(place, {"Base_Gain": base}, first)
        reading.follow(
            place,
            {"Instruct_Gain": instruct, "Delta": instruct - base, "Ratio": instruct / base},
            second,
        )
    for _, place in reading.by_model(top["reference_gains"]):
        reading.state(place, COPIED)


def read_gpt2(reading: Reading, document: Document, copy: Document) -> None:
    """`gpt2_layernorm_validation`: GPT-2 medium, large and XL, float32."""
    top = document.top
    rows = _rows(reading, document, copy, "float32")
    n = len(rows)
    models = rows["name"].nunique()
    reading.follow(top, {"n_models": models, "n_prompts": n // models, "n_measurements": n})
    _base_levels(reading, top, rows)
    for place in top["validation_results"].each():
        keys = ("Mean_Gain", "Std", "Min", "Max", "t_stat", "p_value")
        _against_one(reading, place, rows[rows["name"] == place["Model"].text()], keys)
    for place in top["bentov_law_results"].each():
        of_model = rows[rows["name"] == place["Model"].text()]
        fit = stats.pearsonr(of_model["entropy"], (of_model["gain"] - 1).abs())
        reading.follow(place, {"Bentov_Correlation": fit[0], "p_value": fit[1]})
    _references(reading, top)


def read_gptj(reading: Reading, document: Document, copy: Document) -> None:
    """`gptj_parallel_test`: GPT-J, bfloat16."""
    top = document.top
    rows = _rows(reading, document, copy, "bfloat16")
    reading.follow(top, {"n_prompts": len(rows), "n_measurements": len(rows)})
    keys = ("mean_gain", "std_gain", "min_gain", "max_gain", "t_statistic", "p_value_one_sided")
    _against_one(reading, top["results"], rows, keys)
    for category, place in top["category_means"].named():
        reading.derive(place, rows.loc[rows["category"] == category, "gain"].mean())
    comparison = top["hypothesis_test"]["comparison"]
    reading.derive(comparison["gptj_6b"]["gain"], rows["gain"].mean())
    for key, model in (
        ("pythia_6.9b", "EleutherAI/pythia-6.9b"),
        ("gpt2_xl", "openai-community/gpt2-xl"),
    ):
        reading.state(comparison[key]["gain"], COPIED, model)
    _references(reading, top)


def _rows(
    reading: Reading, document: Document, copy: Document, dtype: str, declared: int = 0
) -> pd.DataFrame:
    """Import one row per model and prompt; the complexity of the first `declared` rows is in the
    prompt set already.

    Columns: name, category, complexity, gain, entropy.
    """
    prompts = {p["text"]: p for p in reading.rows["prompts"] if p["prompt_set"] == PROMPT_SET}
    runs: dict[str, Run] = {}
    rows = []
    for number, place in enumerate(document.top["all_results"].each()):
        model = reading.model(place["Model"])
        if model not in runs:
            runs[model] = reading.run(document, model, prompts=PROMPT_SET, dtype=dtype)
        run = runs[model]
        prompt = prompts[place["Prompt"].text()]
        if "Complexity" in place.value and number >= declared:
            reading.derive(
                place["Complexity"], prompt["complexity"], "prompts.complexity", within=EXACT
            )
        if "N_Layers" in place.value:
            run.hold(place, "N_Layers")
        key = prompt["prompt_id"]
        run.layers({"gain_block": [place["Last_Gain"]]}, "last", key, first=run.L)
        run.take(place["Total_Amp"], "total_amplification", key)
        token = place["Top_Token"].token("outputs.top_token")
        run.output({"entropy": place["Entropy"], "top_probability": place["Top_Prob"]}, key, token)
        numbers = prompt["complexity"], place["Last_Gain"].peek(), place["Entropy"].peek()
        rows.append((place["Model"].text(), prompt["category"], *numbers))
    reading.copy(copy, document, document.root["all_results"])
    return pd.DataFrame(rows, columns=["name", "category", "complexity", "gain", "entropy"])


def _base_levels(reading: Reading, top: Place, rows: pd.DataFrame) -> None:
    for name, place in top["base_levels"].named():
        reading.derive(place, rows.loc[rows["name"] == name, "gain"].mean())


def _against_one(reading: Reading, place: Place, rows: pd.DataFrame, keys: Sequence[str]) -> None:
    """Moments of the gains, and the test that they are below 1."""
    g = rows["gain"]
    below = stats.ttest_1samp(g, 1.0, alternative="less")
    values = (g.mean(), g.std(), g.min(), g.max(), below.statistic, below.pvalue)
    reading.follow(place, dict(zip(keys, values, strict=True)))


def _references(reading: Reading, top: Place) -> None:
    for _, place in reading.by_model(top["reference_models"]):
        reading.state(place["gain"], COPIED)


def _platitude(reading: Reading, place: Place, rows: pd.DataFrame) -> None:
    cliche, novel = (rows.loc[rows["category"] == name, "entropy"] for name in ("Cliche", "Novel"))
    apart = stats.ttest_ind(cliche, novel)
    means = {"Cliche_Entropy_Mean": cliche.mean(), "Novel_Entropy_Mean": novel.mean()}
    difference = (cliche.mean() - novel.mean()) / np.sqrt((cliche.var() + novel.var()) / 2)
    reading.follow(
        place, means | {"t_stat": apart.statistic, "p_val": apart.pvalue, "cohens_d": difference}
    )
    if place["hypothesis"].text() == "CONFIRMED" and apart.pvalue > 0.05:
        name = place["Model"].text()
        reading.disagree(
            "platitude", float(apart.pvalue), 0.05, model=reading.name(name), name=name
        )
