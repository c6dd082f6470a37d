"""Readers of the files with one row per model and prompt: benchmark, twins, GPT-2 and GPT-J, on the same 25 prompts.

Their `Last_Gain` is G_L of block hooks at the last token, `Total_Amp` is n_L / n_1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import DataError
from thermostats.studies.delia2026.importer.copies import twin
from thermostats.studies.delia2026.importer.ledger import Document, Place
from thermostats.studies.delia2026.importer.names import model_id
from thermostats.studies.delia2026.importer.study import DOUBLE, EXACT, SINGLE, Study

PROMPT_SET = "study_25"
GAIN = "layers.gain_block, layer L"


@dataclass(frozen=True)
class Row:
    """One measurement of a model on a prompt."""

    name: str
    model: str
    category: str
    complexity: float
    gain: float
    entropy: float


def read_benchmark(study: Study, document: Document, copy: Document) -> None:
    """`thermodynamic_benchmark`: four models, float16."""
    top = document.top
    places = top["all_results"].each()
    first = places[0]["Model"].text() if places else ""
    one = [place for place in places if place["Model"].text() == first]
    study.prompts(
        PROMPT_SET,
        [
            (f"p{i:02}", p["Prompt"].text(), p["Category"].text(), _complexity(p["Complexity"]))
            for i, p in enumerate(one, start=1)
        ],
    )
    rows = _rows(study, document, places, "float16", declared=len(one))
    twin(study, copy, document.root["all_results"], document.file)
    names = [place.text() for place in top["models"].each()]
    _counts(study, top, models=len(names), prompts=len(one), measurements=len(rows))
    for name, place in top["base_levels"].named():
        study.derive(place, _gains(rows, name).mean(), f"mean of {GAIN}", "mean last gain")
    for name, place in top["modulation_ranges"].named():
        g = _gains(rows, name)
        for key, value in (("min", g.min()), ("max", g.max()), ("range", np.ptp(g))):
            study.derive(place[key], value, f"{key} of {GAIN}")
    for place in top["entropy_correlations"].each():
        g, e = _gains(rows, place["Model"].text()), _entropies(rows, place["Model"].text())
        pearson, spearman = stats.pearsonr(g, e), stats.spearmanr(g, e)
        _correlation(study, place, "Pearson_r", "Pearson_p", pearson, "gain and entropy")
        _correlation(study, place, "Spearman_r", "Spearman_p", spearman, "gain and entropy")
    for place in top["complexity_correlations"].each():
        of = [row for row in rows if row.name == place["Model"].text()]
        found = stats.spearmanr([row.complexity for row in of], [row.gain for row in of])
        _correlation(study, place, "Complexity_Spearman_r", "Complexity_Spearman_p", found, "complexity and gain")
    for place in top["p3_platitude_tunnel"].each():
        _platitude(study, place, rows)


def read_twins(study: Study, document: Document, copy: Document) -> None:
    """`twin_test_results`: three pairs of base and instruct, bfloat16."""
    top = document.top
    rows = _rows(study, document, top["all_results"].each(), "bfloat16")
    twin(study, copy, document.root["all_results"], document.file)
    families: dict[str, dict[str, str]] = {}
    for place in top["all_results"].each():
        families.setdefault(place["Family"].text(), {})[place["Variant"].text()] = place["Model"].text()
    study.derive(top["n_families"], len(families), "number of pairs")
    per_model = len(rows) / max(1, len({row.name for row in rows}))
    study.derive(top["n_prompts_per_model"], per_model, "rows per model", within=EXACT)
    study.derive(top["n_total_measurements"], len(rows), "number of measurements")
    means: dict[tuple[str, str], float] = {}
    for family, pair in top["twin_summary"].named():
        for variant, name in study.known(families, family, pair).items():
            place, model = pair[variant], study.name(name)
            g = _gains(rows, name)
            means[family, variant] = study.derive(place["mean_gain"], g.mean(), f"mean of {GAIN}", model=model)
            study.derive(place["std_gain"], g.std(), f"standard deviation (n) of {GAIN}", model=model)
            study.derive(place["n_samples"], len(g), "rows of the model", within=EXACT)
    for place in top["hypothesis_results"].each():
        family = place["Family"].text()
        base, instruct = (study.known(means, (family, variant), place) for variant in ("base", "instruct"))
        first, second = (study.name(families[family][variant]) for variant in ("base", "instruct"))
        study.derive(place["Base_Gain"], base, f"mean of {GAIN}, base", model=first)
        study.derive(place["Instruct_Gain"], instruct, f"mean of {GAIN}, instruct", model=second)
        of = f"means of {GAIN}, instruct and base"
        study.derive(place["Delta"], instruct - base, f"difference of the {of}", model=second, within=SINGLE)
        study.derive(place["Ratio"], instruct / base, f"ratio of the {of}", model=second)
    for name, place in top["reference_gains"].named():
        study.state(place, "reference last gain, copied by hand", model_id(name, place))


def read_gpt2(study: Study, document: Document, copy: Document) -> None:
    """`gpt2_layernorm_validation`: GPT-2 medium, large and XL, float32."""
    top = document.top
    rows = _rows(study, document, top["all_results"].each(), "float32")
    twin(study, copy, document.root["all_results"], document.file)
    names = list(dict.fromkeys(row.name for row in rows))
    _counts(study, top, models=len(names), prompts=len(rows) // max(1, len(names)), measurements=len(rows))
    for name, place in top["base_levels"].named():
        study.derive(place, _gains(rows, name).mean(), f"mean of {GAIN}", "mean last gain")
    for place in top["validation_results"].each():
        g = _gains(rows, place["Model"].text())
        _moments(study, place, g, ("Mean_Gain", "Std", "Min", "Max"))
        _below_one(study, place, g, "t_stat", "p_value")
    for place in top["bentov_law_results"].each():
        name = place["Model"].text()
        found = stats.pearsonr(_entropies(rows, name), np.abs(_gains(rows, name) - 1))
        _correlation(study, place, "Bentov_Correlation", "p_value", found, "entropy and |gain - 1|")
    for name, place in top["reference_models"].named():
        study.state(place["gain"], "reference last gain, copied by hand", model_id(name, place))


def read_gptj(study: Study, document: Document, copy: Document) -> None:
    """`gptj_parallel_test`: GPT-J, bfloat16."""
    top = document.top
    rows = _rows(study, document, top["all_results"].each(), "bfloat16")
    twin(study, copy, document.root["all_results"], document.file)
    _counts(study, top, prompts=len(rows), measurements=len(rows))
    g = np.array([row.gain for row in rows])
    _moments(study, top["results"], g, ("mean_gain", "std_gain", "min_gain", "max_gain"))
    _below_one(study, top["results"], g, "t_statistic", "p_value_one_sided")
    for category, place in top["category_means"].named():
        of = np.array([row.gain for row in rows if row.category == category])
        study.derive(place, of.mean() if len(of) else np.nan, f"mean of {GAIN} over the category")
    comparison = top["hypothesis_test"]["comparison"]
    study.derive(comparison["gptj_6b"]["gain"], g.mean(), f"mean of {GAIN}")
    for key, model in (("pythia_6.9b", "EleutherAI/pythia-6.9b"), ("gpt2_xl", "openai-community/gpt2-xl")):
        study.state(comparison[key]["gain"], "reference last gain, copied by hand", model)
    for name, place in top["reference_models"].named():
        study.state(place["gain"], "reference last gain, copied by hand", model_id(name, place))


def _rows(study: Study, document: Document, places: Sequence[Place], dtype: str, declared: int = 0) -> list[Row]:
    """Import one row per model and prompt; the complexity of the first `declared` rows is in the prompt set already."""
    prompts = {p["text"]: p for p in study.rows["prompts"] if p["prompt_set"] == PROMPT_SET}
    runs: dict[str, str] = {}
    rows = []
    for number, place in enumerate(places):
        model = study.model(place["Model"])
        run = runs.setdefault(model, "") or study.run(document, model, prompt_set=PROMPT_SET, dtype=dtype)
        runs[model] = run
        prompt = prompts.get(place["Prompt"].text())
        if prompt is None or prompt["category"] != place["Category"].text():
            raise DataError("the prompt is not one of the benchmark's", where=place["Prompt"].where)
        if "Complexity" in place.value and number >= declared:
            study.derive(place["Complexity"], prompt["complexity"], "prompts.complexity", within=EXACT)
        if "N_Layers" in place.value:
            study.same(place["N_Layers"], model, "n_layers")
        gain = place["Last_Gain"].number("layers.gain_block", above=0.0)
        entropy = place["Entropy"].number("outputs.entropy", lower=0.0)
        key = prompt["prompt_id"]
        study.layer(run, int(study.fact(model, "n_layers")), key, "last", gain_block=gain)
        study.take(place["Total_Amp"], run, "total_amplification", key, above=0.0)
        study.output(
            run,
            key,
            entropy=entropy,
            top_token=place["Top_Token"].token("outputs.top_token"),
            top_probability=place["Top_Prob"].number("outputs.top_probability", lower=0.0, upper=1.0),
        )
        rows.append(
            Row(place["Model"].text(), model, prompt["category"], prompt["complexity"], _nan(gain), _nan(entropy))
        )
    return rows


def _counts(study: Study, top: Place, **counts: int) -> None:
    for key, value in counts.items():
        study.derive(top[f"n_{key}"], value, f"number of {key}", within=EXACT)


def _moments(study: Study, place: Place, g: NDArray[np.float64], keys: tuple[str, str, str, str]) -> None:
    values = (g.mean(), g.std(ddof=1), g.min(), g.max())
    names = ("mean", "standard deviation (n - 1)", "min", "max")
    for key, name, value in zip(keys, names, values, strict=True):
        study.derive(place[key], value, f"{name} of {GAIN}")


def _below_one(study: Study, place: Place, g: NDArray[np.float64], t: str, p: str) -> None:
    found = stats.ttest_1samp(g, 1.0, alternative="less")
    study.derive(place[t], found.statistic, f"t of {GAIN} against 1", within=DOUBLE)
    study.derive(place[p], found.pvalue, f"one-sided p (below 1) of {GAIN}", within=DOUBLE)


def _correlation(study: Study, place: Place, r: str, p: str, found: tuple[float, float], of: str) -> None:
    model = study.model(place["Model"])
    kind = "Spearman" if "pearman" in r else "Pearson"
    study.derive(place[r], found[0], f"{kind} correlation of {of}", within=SINGLE, model=model)
    study.derive(place[p], found[1], f"p of the {kind} correlation of {of}", within=SINGLE, model=model)


def _platitude(study: Study, place: Place, rows: Sequence[Row]) -> None:
    name, model = place["Model"].text(), study.model(place["Model"])
    cliche, novel = (
        np.array([row.entropy for row in rows if row.name == name and row.category == category])
        for category in ("Cliche", "Novel")
    )
    found = stats.ttest_ind(cliche, novel)
    pooled = np.sqrt((cliche.var(ddof=1) + novel.var(ddof=1)) / 2)
    study.derive(place["Cliche_Entropy_Mean"], cliche.mean(), "mean of outputs.entropy, Cliche", within=SINGLE)
    study.derive(place["Novel_Entropy_Mean"], novel.mean(), "mean of outputs.entropy, Novel", within=SINGLE)
    study.derive(place["t_stat"], found.statistic, "t of outputs.entropy, Cliche against Novel", within=SINGLE)
    study.derive(place["p_val"], found.pvalue, "two-sided p of outputs.entropy, Cliche against Novel", within=SINGLE)
    study.derive(place["cohens_d"], (cliche.mean() - novel.mean()) / pooled, "Cohen's d", within=SINGLE)
    if place["hypothesis"].text() == "CONFIRMED" and found.pvalue > 0.05:
        study.disagree(
            f"platitude-confirmed-{name}",
            "verdict against numbers",
            place.document,
            "the hypothesis of lower entropy in clichés is called confirmed; its two-sided p is above 0.05, on "
            "5 prompts a side",
            "verdicts are not imported",
            model=model,
            value=float(found.pvalue),
            other_value=0.05,
        )


def _gains(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    return np.array([row.gain for row in rows if row.name == name] or [np.nan])


def _entropies(rows: Sequence[Row], name: str) -> NDArray[np.float64]:
    return np.array([row.entropy for row in rows if row.name == name] or [np.nan])


def _complexity(place: Place) -> int:
    rank = place.whole()
    place.number("prompts.complexity", lower=1)
    return rank


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value
