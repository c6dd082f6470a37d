"""Readers of the files with one row per model and prompt: benchmark, twins, GPT-2 and GPT-J, on the same 25 prompts.

Their `Last_Gain` is G_L of block hooks at the last token, `Total_Amp` is n_L / n_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from thermostats.errors import DataError
from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.model_names import model_id
from thermostats.studies.delia2026.importer.reading import EXACT, Curve, Reading, nan

PROMPT_SET = "study_25"
COPIED = "reference last gain, copied by hand"


@dataclass(frozen=True)
class Row:
    """One measurement of a model on a prompt."""

    name: str
    category: str
    complexity: float
    gain: float
    entropy: float


@dataclass(frozen=True)
class Rows:
    """The rows of one file, imported."""

    all: Sequence[Row]

    def names(self) -> list[str]:
        """Models by their names in the file, in order."""
        return list(dict.fromkeys(row.name for row in self.all))

    def column(self, column: str, name: str = "", category: str = "") -> Curve:
        """One column of a model's rows, or of all, of one category, or of all; NaN where there are none."""
        of = [row for row in self.all if name in ("", row.name) and category in ("", row.category)]
        return np.array([getattr(row, column) for row in of] or [np.nan])


def read_benchmark(reading: Reading, document: Document, copy: Document) -> None:
    """`thermodynamic_benchmark`: four models, float16."""
    top = document.top
    places = top["all_results"].each()
    first = places[0]["Model"].text() if places else ""
    one = [place for place in places if place["Model"].text() == first]
    prompts = [(p["Prompt"].text(), p["Category"].text(), _complexity(p["Complexity"])) for p in one]
    reading.prompts(PROMPT_SET, [(f"p{i:02}", *prompt) for i, prompt in enumerate(prompts, start=1)])
    rows = _rows(reading, document, copy, "float16", declared=len(one))
    names = [place.text() for place in top["models"].each()]
    reading.follow(top, {"n_models": len(names), "n_prompts": len(one), "n_measurements": len(rows.all)})
    for name, place in top["base_levels"].named():
        reading.derive(place, rows.column("gain", name).mean())
    for name, place in top["modulation_ranges"].named():
        g = rows.column("gain", name)
        reading.follow(place, {"min": g.min(), "max": g.max(), "range": np.ptp(g)})
    for place in top["entropy_correlations"].each():
        name, model = place["Model"].text(), reading.model(place["Model"])
        g, e = rows.column("gain", name), rows.column("entropy", name)
        for kind, found in (("Pearson", stats.pearsonr(g, e)), ("Spearman", stats.spearmanr(g, e))):
            reading.follow(place, {f"{kind}_r": found[0], f"{kind}_p": found[1]}, model)
    for place in top["complexity_correlations"].each():
        name, model = place["Model"].text(), reading.model(place["Model"])
        found = stats.spearmanr(rows.column("complexity", name), rows.column("gain", name))
        reading.follow(place, {"Complexity_Spearman_r": found[0], "Complexity_Spearman_p": found[1]}, model)
    for place in top["p3_platitude_tunnel"].each():
        _platitude(reading, place, rows)


def read_twins(reading: Reading, document: Document, copy: Document) -> None:
    """`twin_test_results`: three pairs of base and instruct, bfloat16."""
    top = document.top
    rows = _rows(reading, document, copy, "bfloat16")
    families: dict[str, dict[str, str]] = {}
    for place in top["all_results"].each():
        families.setdefault(place["Family"].text(), {})[place["Variant"].text()] = place["Model"].text()
    per_model = len(rows.all) / max(1, len(rows.names()))
    counts = {"n_families": len(families), "n_prompts_per_model": per_model, "n_total_measurements": len(rows.all)}
    reading.follow(top, counts)
    means: dict[tuple[str, str], float] = {}
    for family, pair in top["twin_summary"].named():
        for variant, name in reading.known(families, family, pair).items():
            place, model, g = pair[variant], reading.name(name), rows.column("gain", name)
            means[family, variant] = reading.derive(place["mean_gain"], g.mean(), model=model)
            reading.follow(place, {"std_gain": g.std(), "n_samples": len(g)}, model)
    for place in top["hypothesis_results"].each():
        family = place["Family"].text()
        base, instruct = (reading.known(means, (family, variant), place) for variant in ("base", "instruct"))
        first, second = (reading.name(families[family][variant]) for variant in ("base", "instruct"))
        reading.follow(place, {"Base_Gain": base}, first)
        reading.follow(place, {"Instruct_Gain": instruct, "Delta": instruct - base, "Ratio": instruct / base}, second)
    for name, place in top["reference_gains"].named():
        reading.state(place, COPIED, model_id(name, place))


def read_gpt2(reading: Reading, document: Document, copy: Document) -> None:
    """`gpt2_layernorm_validation`: GPT-2 medium, large and XL, float32."""
    top = document.top
    rows = _rows(reading, document, copy, "float32")
    n, models = len(rows.all), len(rows.names())
    reading.follow(top, {"n_models": models, "n_prompts": n // max(1, models), "n_measurements": n})
    for name, place in top["base_levels"].named():
        reading.derive(place, rows.column("gain", name).mean())
    for place in top["validation_results"].each():
        keys = ("Mean_Gain", "Std", "Min", "Max", "t_stat", "p_value")
        _against_one(reading, place, rows.column("gain", place["Model"].text()), keys)
    for place in top["bentov_law_results"].each():
        name, model = place["Model"].text(), reading.model(place["Model"])
        found = stats.pearsonr(rows.column("entropy", name), np.abs(rows.column("gain", name) - 1))
        reading.follow(place, {"Bentov_Correlation": found[0], "p_value": found[1]}, model)
    _references(reading, top)


def read_gptj(reading: Reading, document: Document, copy: Document) -> None:
    """`gptj_parallel_test`: GPT-J, bfloat16."""
    top = document.top
    rows = _rows(reading, document, copy, "bfloat16")
    reading.follow(top, {"n_prompts": len(rows.all), "n_measurements": len(rows.all)})
    keys = ("mean_gain", "std_gain", "min_gain", "max_gain", "t_statistic", "p_value_one_sided")
    _against_one(reading, top["results"], rows.column("gain"), keys)
    for category, place in top["category_means"].named():
        reading.derive(place, rows.column("gain", category=category).mean())
    comparison = top["hypothesis_test"]["comparison"]
    reading.derive(comparison["gptj_6b"]["gain"], rows.column("gain").mean())
    for key, model in (("pythia_6.9b", "EleutherAI/pythia-6.9b"), ("gpt2_xl", "openai-community/gpt2-xl")):
        reading.state(comparison[key]["gain"], COPIED, model)
    _references(reading, top)


def _rows(reading: Reading, document: Document, copy: Document, dtype: str, declared: int = 0) -> Rows:
    """Import one row per model and prompt; the complexity of the first `declared` rows is in the prompt set already."""
    prompts = {p["text"]: p for p in reading.rows["prompts"] if p["prompt_set"] == PROMPT_SET}
    runs: dict[str, str] = {}
    rows = []
    for number, place in enumerate(document.top["all_results"].each()):
        model = reading.model(place["Model"])
        if model not in runs:
            runs[model] = reading.run(document, model, prompt_set=PROMPT_SET, dtype=dtype)
        run, prompt = runs[model], prompts.get(place["Prompt"].text())
        if prompt is None or prompt["category"] != place["Category"].text():
            raise DataError("the prompt is not one of the benchmark's", where=place["Prompt"].where)
        if "Complexity" in place.value and number >= declared:
            reading.derive(place["Complexity"], prompt["complexity"], "prompts.complexity", within=EXACT)
        if "N_Layers" in place.value:
            reading.same(place["N_Layers"], model, "n_layers")
        gain = place["Last_Gain"].number("layers.gain_block")
        entropy = place["Entropy"].number("outputs.entropy")
        key = prompt["prompt_id"]
        reading.layer(run, reading.depth(model), key, "last", gain_block=gain)
        reading.take(place["Total_Amp"], run, "total_amplification", key)
        token = place["Top_Token"].token("outputs.top_token")
        probability = place["Top_Prob"].number("outputs.top_probability")
        reading.output(run, key, entropy=entropy, top_token=token, top_probability=probability)
        rows.append(Row(place["Model"].text(), prompt["category"], prompt["complexity"], nan(gain), nan(entropy)))
    reading.copy(copy, document, document.root["all_results"])
    return Rows(rows)


def _against_one(reading: Reading, place: Place, g: Curve, keys: Sequence[str]) -> None:
    """Moments of the gains, and the test that they are below 1."""
    found = stats.ttest_1samp(g, 1.0, alternative="less")
    values = (g.mean(), g.std(ddof=1), g.min(), g.max(), found.statistic, found.pvalue)
    reading.follow(place, dict(zip(keys, values, strict=True)))


def _references(reading: Reading, top: Place) -> None:
    for name, place in top["reference_models"].named():
        reading.state(place["gain"], COPIED, model_id(name, place))


def _platitude(reading: Reading, place: Place, rows: Rows) -> None:
    name, model = place["Model"].text(), reading.model(place["Model"])
    cliche, novel = (rows.column("entropy", name, category) for category in ("Cliche", "Novel"))
    found = stats.ttest_ind(cliche, novel)
    pooled = np.sqrt((cliche.var(ddof=1) + novel.var(ddof=1)) / 2)
    reading.follow(place, {"Cliche_Entropy_Mean": cliche.mean(), "Novel_Entropy_Mean": novel.mean()})
    reading.follow(place, {"t_stat": found.statistic, "p_val": found.pvalue})
    reading.derive(place["cohens_d"], (cliche.mean() - novel.mean()) / pooled)
    if place["hypothesis"].text() == "CONFIRMED" and found.pvalue > 0.05:
        reading.disagree("platitude", float(found.pvalue), 0.05, model=model, name=name)


def _complexity(place: Place) -> int:
    place.number("prompts.complexity")
    return place.whole()
