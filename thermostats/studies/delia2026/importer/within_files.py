"""Disagreements of labels, verdicts and the preprint's figures with the figures that the files hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from thermostats.studies.delia2026.importer.between_files import LAST, NORMED, PENULTIMATE, Measured
from thermostats.studies.delia2026.importer.penultimate_gains import DENSE
from thermostats.studies.delia2026.importer.reading import Reading

HUNT, FAMILY = "high_rho_hunt_NO_FINAL_LN.json", "pythia_family_NO_FINAL_LN.json"
CLEAN = "clean_residual_NO_FINAL_LN.json"
H4_FILES = ("H4_validation.json", "H4_v2_validation.json", "H4_v2_extended.json")
SCALING, SUMMARY, MAPS = (
    "scaling_law_multi_pythia_results.json",
    "restriction_map_summary.csv",
    "restriction_maps_results.json",
)
FOUR, INPUT = "4model_validation_results.json", "input_dependency_thermodynamics.json"
LAB = "EleutherAI"
"""The lab whose models are said to dampen."""
LLAMA, MISTRAL = "meta-llama/Llama-3.1-8B", "mistralai/Mistral-7B-v0.1"


def find(reading: Reading, measured: Sequence[Measured]) -> None:
    """Record where a label, a verdict or a name does not go with the figures it is about."""
    hunt, family = (_of(reading, measured, PENULTIMATE, name) for name in (HUNT, FAMILY))
    last = _of(reading, measured, LAST, "thermodynamic_benchmark.json")
    _heritage(reading, hunt, {**hunt, **family})
    _facts(reading, hunt, {**hunt, **family})
    _accuracy(reading, _of(reading, measured, NORMED, HUNT), family)
    _behaviour(reading)
    _sub_blocks(reading)
    _pooled(reading)
    _final_norm(reading, last)
    _transitions(reading)
    _laplacians(reading)
    _traces(reading)
    _sparsity(reading)


def _root(reading: Reading, family: str) -> Any:
    return reading.documents[family].root


def _of(reading: Reading, measured: Sequence[Measured], quantity: str, family: str) -> dict[str, float]:
    file = reading.file(family)
    return {m.model: m.value for m in measured if m.quantity == quantity and m.file == file}


def _heritage(reading: Reading, hunt: dict[str, float], union: dict[str, float]) -> None:
    """What is said of labs, against the penultimate gains of hunt and family."""
    eleuther = {m: g for m, g in union.items() if reading.fact(m, "heritage") == LAB}
    hunted = [g for m, g in hunt.items() if m in eleuther]
    shares = [100 * float(np.mean([g < 1 for g in gains])) for gains in (hunted, list(eleuther.values()))]
    counts = {"hunted": len(hunted), "n": len(eleuther)}
    reading.disagree("80 per cent of EleutherAI dampen", shares[0], shares[1], **counts)
    for model, gain in hunt.items():
        lab, post = reading.fact(model, "heritage"), reading.fact(model, "norm_place") == "post"
        for key, wrong in (
            ("other labs expand", lab != LAB and gain < 1),
            ("heritage signature", lab == LAB and gain > 1),
            ("post-norm", post),
        ):
            if wrong:
                reading.disagree(key, gain, 1.0, model=model, lab=lab)
    mean = float(np.mean(list(eleuther.values())))
    reading.disagree("fig. 2 EleutherAI", float(np.mean(hunted)), 0.99, mean=mean)
    for lab, entry in _root(reading, HUNT)["h26_lab_signatures"].items():
        if entry["signature"] == "NEUTRAL":
            reading.disagree("neutral lab", entry["mean_gain"], 1.0, lab=lab)


def _facts(reading: Reading, hunt: dict[str, float], union: dict[str, float]) -> None:
    """Numbers of labs, kinds of norms, pairs, divisors, tokens."""
    labs = {reading.fact(row["model_id"], "heritage") for row in reading.rows["runs"]}
    counts = {"models": len(union), "gain_labs": len({reading.fact(m, "heritage") for m in union}), "labs": len(labs)}
    reading.disagree("number of labs", len(labs), 7, **counts)
    unknown = sum(entry["norm_type"] == "Unknown" for entry in _root(reading, HUNT)["tested_results"])
    reading.disagree("norm type unknown", unknown, 0, n=unknown, of=len(hunt))
    empty = sum(row["Top_Token"] == "" for row in _root(reading, "twin_test_results.json")["all_results"])
    reading.disagree("stripped tokens", empty, 0)
    for key in ("Mistral twins", "standard deviations", "GPT-J architecture"):
        reading.disagree(key)


def _accuracy(reading: Reading, normed: dict[str, float], family: dict[str, float]) -> None:
    """What is said of the head density, and of the gains of hunt, family and clean residual."""
    right = [(reading.density(model) >= DENSE) == (gain < 1) for model, gain in normed.items()]
    share, clean = _root(reading, HUNT)["h25_accuracy"], _root(reading, CLEAN)["h25_accuracy"]
    with_norm = 100 * float(np.mean(right))
    reading.disagree("43.75 per cent to 100 per cent", 100 * share, with_norm)
    reading.disagree("accuracy units", clean, share)
    for name in (FAMILY, HUNT, CLEAN):
        reading.disagree("last entry", file=reading.file(name))
    means = list(family.values())
    depths, densities = [float(reading.depth(m)) for m in family], [reading.density(m) for m in family]
    by_density, by_depth = (float(stats.pearsonr(x, means)[0]) for x in (densities, depths))
    reading.disagree("correlation with rho given as with depth", by_density, by_depth)
    for key in ("hypothesis validated and falsified", "residual_gain_mean is of one block"):
        reading.disagree(key)


def _behaviour(reading: Reading) -> None:
    for name in H4_FILES:
        document = reading.documents[name]
        for entry in document.root.get("results") or document.root["extended_results"]:
            gain, label = entry["known_gain"], entry["behavior"]
            if (label == "DAMPEN" and gain > 1) or (label == "EXPAND" and gain < 1) or label == "UNKNOWN":
                words = {"file": document.file, "model": reading.name(entry["model"]), "label": label}
                reading.disagree("behaviour", gain, 1.0, **words)
    expected = {"pythia-160m": "expected of Pythia", "gpt2": "expected of GPT-2"}
    for row in _root(reading, SUMMARY):
        name, model = row["Model"], reading.name(row["Model"])
        if name in expected:
            reading.disagree(expected[name], expected=row["Expected"])
        if reading.fact(model, "architecture") in ("gpt_neox", "bloom"):
            reading.disagree("thirds", float(row["W_V Mean"]), name=name, model=model)


def _sub_blocks(reading: Reading) -> None:
    root = _root(reading, SCALING)
    for entry in root["models"]:
        if (largest := max(entry["attn_gains"])) > 1:
            words = {"name": entry["model"], "model": reading.name(entry["model"])}
            reading.disagree("attention contracts", largest, 1.0, **words)
    shares = [entry["mlp_contracting_pct"] for entry in root["models"]]
    rises = int((np.diff(shares) > 0).sum())
    reading.disagree("MLP contraction by size", rises, 0, rises=rises, steps=len(shares) - 1)
    alpha, error = root["scaling_law"]["exponent_alpha"], root["scaling_law"]["exponent_std_err"]
    reading.disagree("exponent 0.35", alpha, 0.35, alpha=alpha, error=error)
    reading.disagree("combined gain")


def _pooled(reading: Reading) -> None:
    """Norms over all tokens."""
    four, inputs = _root(reading, FOUR), _root(reading, INPUT)["results"]
    short, long = (inputs[name]["gains"] for name in ("1_Factual", "2_Syntactic"))
    reading.disagree("pooled tokens: input dependency", np.prod(short[:2]), np.prod(long[:2]))
    second = four["results"]["llama3.1-8b"]["gains"][1]
    reading.disagree("pooled tokens: four models", second, short[1])
    largest = max(entry["last_gain"] for entry in inputs.values())
    reading.disagree("input dependency of 1.53", largest, 1.53)
    total = four["universal_principle_test"]["total_models"]
    reading.disagree("total models", total, len(four["results"]))
    contracts = four["results"]["pythia-6.9b"]["last_gain"]
    reading.disagree("LayerNorm contracts", contracts, 1.0)


def _final_norm(reading: Reading, last: dict[str, float]) -> None:
    """Ratios past the final norm, against the gains of the last block at the last token."""
    four = _root(reading, FOUR)["results"]
    for name, entry in four.items():
        model, blocks = reading.name(name), entry["n_layers"]
        words = {"name": name, "model": model, "blocks": blocks, "states": blocks + 1}
        reading.disagree("final norm: four models", entry["last_gain"], last.get(model), **words)
    for prompt, entry in _root(reading, INPUT)["results"].items():
        reading.disagree("final norm: input dependency", entry["last_gain"], last[LLAMA], prompt=prompt)
    stated = _root(reading, "llama_anomaly_hypothesis_tests.json")["hypothesis_1_titanium_projector"]["results"]
    known = {f"amplification: {name}" for name in ("gemma2-9b", "llama3.1-8b", "mistral-7b")}
    for name, entry in stated.items():
        model, key = reading.name(name), f"amplification: {name}"
        other = four["gemma-7b"]["last_gain"] if name == "gemma2-9b" else last.get(model)
        values = (entry["last_gain"], other)
        reading.disagree(key if key in known else "amplification", *values, name=name, model=model)
    stream = _root(reading, "mistral_paradox_investigation_results.json")["residual_stream_analysis"]["mistral-7b"]
    reading.disagree("Mistral layers", stream["n_layers"], 32)
    reading.disagree("Mistral last ratio", stream["last_gain"], last[MISTRAL])


def _transitions(reading: Reading) -> None:
    """L* by change of sign, its formula, and the figure."""
    root = _root(reading, "l_star_sign_change.json")
    results = root["results"]
    statements = [r for r in reading.rows["statements"] if str(r["pointer"]).startswith("fig. 5 ")]
    figure = {r["model_id"]: r["value"] for r in statements}
    for entry in results:
        model, calibration = reading.name(entry["model"]), entry["L_star_calibration"]
        words = {"model": model, "calibration": f"; calibration value {calibration}" if calibration else ""}
        reading.disagree("L*", entry["L_star_empirical"], figure.get(model), **words)
    usual = [100 * abs(e["L_star_predicted"] / e["L_star_empirical"] - 1) for e in results]
    reading.disagree("MAPE", root["overall_mape"], float(np.mean(usual)))
    known = [e for e in results if e["L_star_calibration"]]
    keys = ("L_star_calibration", "L", "L_star_predicted")
    truth, depths, predicted = (np.array([e[key] for e in known], float) for key in keys)
    for stated, guess, name in (("4.8", predicted, "the formula"), ("25", depths / 2, "L/2")):
        depth = float(np.mean(100 * np.abs(guess - truth) / depths))
        errors = {"depth": depth, "ratio": float(np.mean(100 * np.abs(guess / truth - 1)))}
        reading.disagree("error per cent", depth, float(stated), stated=stated, guess=name, **errors)
    at = np.array([figure[reading.name(e["model"])] for e in results], float)
    L, formula = (np.array([e[key] for e in results], float) for key in ("L", "L_star_predicted"))
    full, half = (float(np.mean(100 * np.abs(guess - at) / L)) for guess in (formula, L / 2))
    reading.disagree("15.7 per cent against L/2", full, half)
    reading.disagree("base of L*", 0, 1)


def _laplacians(reading: Reading) -> None:
    """Eigenvalues that are rounding, and a ratio that is below 1 whatever the model does."""
    first, second = (_root(reading, name)["results"] for name in H4_FILES[:2])
    maps = _root(reading, MAPS)
    gaps = [gap for entry in first for gap in entry["spectral_gaps"]]
    for name, largest in ((H4_FILES[0], max(gaps)), (MAPS, np.nanmax(maps["sheaf_laplacian"]["spectral_gaps"]))):
        reading.disagree("gaps of rounding", float(largest), 0.0, file=reading.file(name))
    for key, kind in (("lambda_2", "sheaf"), ("graph_lambda_2", "graph")):
        lows = {entry["model"]: min(entry[key]) for entry in second}
        lowest = min(lows, key=lambda name: lows[name])
        words = {"key": key, "kind": kind, "negative": sum(v < 0 for v in lows.values()), "n": len(lows)}
        words["model"] = reading.name(lowest)
        reading.disagree("negative eigenvalue", lows[lowest], 0.0, **words)
    largest = float(np.nanmax(maps["restriction_maps"]["contraction_ratios"]))
    reading.disagree("contraction by construction", largest, 1.0)


def _traces(reading: Reading) -> None:
    """What is said of traces, and the curve that L* is found on."""
    second, extended = reading.documents[H4_FILES[1]], _root(reading, H4_FILES[2])["extended_results"]
    results = second.root["results"]
    traces = {entry["model"]: entry["mean_trace_multihead"] for entry in results}
    for entry in extended:
        if reading.name(entry["model"]) == "EleutherAI/pythia-1b":
            values = (entry["mean_trace_mh"], traces["EleutherAI/pythia-410m"])
            reading.disagree("scale of the extended traces", *values)
    reading.disagree("trace tells the sign", traces["gpt2"] / traces["facebook/opt-125m"], 1.2)
    findings = [place.text() for place in second.top["findings"].each()]
    false = sum(finding.endswith("False") for finding in findings)
    reading.disagree("H4 v2 partially validated", false, len(findings))
    by_heads = [int(np.abs(np.gradient(entry["traces_multihead"])).argmax()) for entry in results]
    reading.disagree("curve of L*", by_heads=by_heads, by_first=[entry["L_star_trace"] for entry in results])


def _sparsity(reading: Reading) -> None:
    for name, entry in _root(reading, "OPT_anomaly.json")["attention_analysis"].items():
        curve = np.array(entry["sparsity_by_layer"])
        low = np.flatnonzero(curve < curve[0] - 1e-6) + 1
        if len(low):
            words = {"model": reading.name(name), "share": curve[0], "layers": ", ".join(map(str, low))}
            reading.disagree("sparsity", float(curve.min()), float(curve[0]), **words)
