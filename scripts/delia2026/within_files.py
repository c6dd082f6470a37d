"""Disagreements of labels, verdicts and the preprint's figures with the figures that the files
hold."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from between_files import LAST, NORMED, PENULTIMATE
from numpy.typing import NDArray
from penultimate_gains import DENSE
from reading import Reading, relative
from scipy import stats

HUNT = "high_rho_hunt_NO_FINAL_LN.json"
FAMILY = "pythia_family_NO_FINAL_LN.json"
CLEAN = "clean_residual_NO_FINAL_LN.json"
H4_FILES = ("H4_validation.json", "H4_v2_validation.json", "H4_v2_extended.json")
SCALING = "scaling_law_multi_pythia_results.json"
MAPS = "restriction_maps_results.json"
FOUR = "4model_validation_results.json"
INPUT = "input_dependency_thermodynamics.json"
LLAMA_FILE = "llama_anomaly_hypothesis_tests.json"
MISTRAL_FILE = "mistral_paradox_investigation_results.json"
LAB = "EleutherAI"
"""The lab whose models are said to dampen."""
LAWS = ("depth", "heritage", "ratio of norms")
P_OF_LAWS = ("abstract (1) p", "section 4.2 Fisher")
"""The three laws of the abstract, and where a p of one of them is stated."""
FROM, UNTIL = 2022, 2024
"""Years of the models by the archive's summary."""
LLAMA = "meta-llama/Llama-3.1-8B"
MISTRAL = "mistralai/Mistral-7B-v0.1"
NOTES, PHASES = "L_STAR_FORMULA_V3_RESULT.md", "ANISOTROPY_RESULTS_SUMMARY.md"
"""The author's notes on the formula and on anisotropy, which were removed from the repository."""
CALIBRATED = "L* of calibration, 0-based"
CALIBRATION_ERROR = "error as stated, per cent of depth"


def find(reading: Reading, measured: pd.DataFrame) -> None:
    """Record where a label, a verdict or a name does not go with the figures it is about;
    `measured`: by model."""

    def gains(quantity: str, family: str) -> dict[str, float]:
        rows = measured[
            (measured["quantity"] == quantity) & (measured["file"] == reading.file(family))
        ]
        return dict(zip(rows["model"], rows["value"], strict=True))

    hunt = gains(PENULTIMATE, HUNT)
    family = gains(PENULTIMATE, FAMILY)
    _heritage(reading, hunt, hunt | family)
    _facts(reading, hunt, hunt | family)
    _stated(reading, hunt | family)
    _accuracy(reading, gains(NORMED, HUNT), family)
    _behaviour(reading)
    _sub_blocks(reading)
    _pooled(reading)
    _final_norm(reading, gains(LAST, "thermodynamic_benchmark.json"))
    _transitions(reading)
    _calibration(reading)
    _phases(reading)
    _laplacians(reading)
    _traces(reading)
    for name, entry in reading.root("OPT_anomaly.json")["attention_analysis"].items():
        curve = np.array(entry["sparsity_by_layer"])
        low = np.flatnonzero(curve < curve[0] - 1e-6) + 1
        if len(low):
            words = {
                "model": reading.name(name),
                "share": curve[0],
                "layers": ", ".join(map(str, low)),
            }
            reading.disagree("sparsity", float(curve.min()), float(curve[0]), **words)


def _heritage(reading: Reading, hunt: dict[str, float], union: dict[str, float]) -> None:
    """Statements about labs, against the penultimate gains of hunt and family."""
    of_lab = {m: g for m, g in union.items() if reading.fact(m, "heritage") == LAB}
    hunted = np.array([g for m, g in hunt.items() if m in of_lab])
    every = np.array(list(of_lab.values()))
    shares = (100 * float(np.mean(gains < 1)) for gains in (hunted, every))
    reading.disagree("80 per cent of EleutherAI dampen", *shares, hunted=len(hunted), n=len(of_lab))
    reading.disagree("fig. 2 EleutherAI", float(np.mean(hunted)), 0.99, mean=float(np.mean(every)))
    for model, gain in hunt.items():
        lab = reading.fact(model, "heritage")
        wrong = {
            "other labs expand": lab != LAB and gain < 1,
            "heritage signature": lab == LAB and gain > 1,
            "post-norm": reading.fact(model, "norm_place") == "post",
        }
        for key in (key for key, holds in wrong.items() if holds):
            reading.disagree(key, gain, 1.0, model=model, lab=lab)
    for lab, entry in reading.root(HUNT)["h26_lab_signatures"].items():
        if entry["signature"] == "NEUTRAL":
            reading.disagree("neutral lab", entry["mean_gain"], 1.0, lab=lab)


def _facts(reading: Reading, hunt: dict[str, float], union: dict[str, float]) -> None:
    """Numbers of labs, kinds of norms, pairs, divisors, tokens."""
    labs = len({reading.fact(row["model_id"], "heritage") for row in reading.rows["runs"]})
    gain_labs = len({reading.fact(m, "heritage") for m in union})
    reading.disagree("number of labs", labs, 7, models=len(union), gain_labs=gain_labs, labs=labs)
    unknown = sum(entry["norm_type"] == "Unknown" for entry in reading.root(HUNT)["tested_results"])
    reading.disagree("norm type unknown", unknown, 0, n=unknown, of=len(hunt))
    empty = sum(
        row["Top_Token"] == "" for row in reading.root("twin_test_results.json")["all_results"]
    )
    reading.disagree("stripped tokens", empty, 0)
    for key in ("Mistral twins", "standard deviations", "GPT-J architecture"):
        reading.disagree(key)


def _stated(reading: Reading, union: dict[str, float]) -> None:
    """What the documents say of their own evidence, against models, files and gains."""
    pointers = {row["pointer"] for row in reading.rows["statements"]}
    reading.disagree("all p below .05", sum(name in pointers for name in P_OF_LAWS), len(LAWS))
    of_small, of_large = (_interval(reading, name) for name in ("pythia-160m", "pythia-12b"))
    words = {
        "small": "{:.3f} to {:.3f}".format(*of_small[1:]),
        "large": "{:.3f} to {:.3f}".format(*of_large[1:]),
    }
    reading.disagree("160M like 12B", of_small[0], of_large[0], **words)
    runs = {row["model_id"] for row in reading.rows["runs"]}
    years = {model: int(reading.fact(model, "year")) for model in runs}
    outside = sorted(model for model, year in years.items() if not FROM <= year <= UNTIL)
    reading.disagree(
        "years", min(years.values()), FROM, n=len(outside), of=len(runs), newest=max(years.values())
    )
    reading.disagree("GPT-NeoX-20B", sum("gpt-neox" in model.lower() for model in runs), 1)
    sequential = sum(not reading.fact(model, "parallel_block") for model in union)
    reading.disagree("equation 1", sequential, len(union))
    twice = [
        row
        for row in reading.rows["inconsistencies"]
        if row["inconsistency_id"].startswith("prompt by prompt")
    ]
    most = max(100 * relative(row["value"], row["other_value"]) for row in twice)
    reading.disagree("PYTHONHASHSEED", most, 0.0, n=len(twice))
    reading.disagree("time stamps")


def _interval(reading: Reading, name: str) -> tuple[float, float, float]:
    """Mean penultimate gain of a model of the family, and its 95% t interval over prompts."""
    (entry,) = (each for each in reading.root(FAMILY)["models"] if each["model"] == name)
    gains = np.array(entry["residual_gain_all"])
    half = stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains)
    return float(gains.mean()), float(gains.mean() - half), float(gains.mean() + half)


def _accuracy(reading: Reading, normed: dict[str, float], family: dict[str, float]) -> None:
    """Statements about the head density, and about the gains of hunt, family and clean residual."""
    right = [(reading.density(model) >= DENSE) == (gain < 1) for model, gain in normed.items()]
    share = reading.root(HUNT)["h25_accuracy"]
    clean = reading.root(CLEAN)["h25_accuracy"]
    reading.disagree("43.75 per cent to 100 per cent", 100 * share, 100 * float(np.mean(right)))
    reading.disagree("accuracy units", clean, share)
    for name in (FAMILY, HUNT, CLEAN):
        reading.disagree("last entry", file=reading.file(name))
    means = list(family.values())
    models = list(family)
    columns = [reading.density(m) for m in models], [float(reading.depth(m)) for m in models]
    by_density, by_depth = (float(stats.pearsonr(x, means)[0]) for x in columns)
    reading.disagree("correlation with rho given as with depth", by_density, by_depth)
    for key in ("hypothesis validated and falsified", "residual_gain_mean is of one block"):
        reading.disagree(key)


def _behaviour(reading: Reading) -> None:
    for name in H4_FILES:
        root = reading.root(name)
        for entry in root.get("results") or root["extended_results"]:
            gain = entry["known_gain"]
            label = entry["behavior"]
            if (
                (label == "DAMPEN" and gain > 1)
                or (label == "EXPAND" and gain < 1)
                or label == "UNKNOWN"
            ):
                words = {
                    "file": reading.file(name),
                    "model": reading.name(entry["model"]),
                    "label": label,
                }
                reading.disagree("behaviour", gain, 1.0, **words)
    expected = {"pythia-160m": "expected of Pythia", "gpt2": "expected of GPT-2"}
    for row in reading.root("restriction_map_summary.csv"):
        name, model = row["Model"], reading.name(row["Model"])
        if name in expected:
            reading.disagree(expected[name], expected=row["Expected"])
        if reading.fact(model, "architecture") in ("gpt_neox", "bloom"):
            reading.disagree("thirds", float(row["W_V Mean"]), name=name, model=model)


def _sub_blocks(reading: Reading) -> None:
    root = reading.root(SCALING)
    for entry in root["models"]:
        if (largest := max(entry["attn_gains"])) > 1:
            words = {"name": entry["model"], "model": reading.name(entry["model"])}
            reading.disagree("attention contracts", largest, 1.0, **words)
    steps = np.diff([entry["mlp_contracting_pct"] for entry in root["models"]])
    rises = int((steps > 0).sum())
    reading.disagree("MLP contraction by size", rises, 0, rises=rises, steps=len(steps))
    alpha = root["scaling_law"]["exponent_alpha"]
    error = root["scaling_law"]["exponent_std_err"]
    reading.disagree("exponent 0.35", alpha, 0.35, alpha=alpha, error=error)
    reading.disagree("combined gain")


def _pooled(reading: Reading) -> None:
    four = reading.root(FOUR)
    inputs = reading.root(INPUT)["results"]
    short, long = (inputs[name]["gains"] for name in ("1_Factual", "2_Syntactic"))
    reading.disagree("pooled tokens: input dependency", np.prod(short[:2]), np.prod(long[:2]))
    reading.disagree(
        "pooled tokens: four models", four["results"]["llama3.1-8b"]["gains"][1], short[1]
    )
    reading.disagree(
        "input dependency of 1.53", max(entry["last_gain"] for entry in inputs.values()), 1.53
    )
    reading.disagree(
        "total models", four["universal_principle_test"]["total_models"], len(four["results"])
    )
    reading.disagree("LayerNorm contracts", four["results"]["pythia-6.9b"]["last_gain"], 1.0)


def _final_norm(reading: Reading, last: dict[str, float]) -> None:
    """Ratios past the final norm, against the gains of the last block at the last token."""
    four = reading.root(FOUR)["results"]
    for name, entry in four.items():
        model = reading.name(name)
        blocks = entry["n_layers"]
        words = {"name": name, "model": model, "blocks": blocks, "states": blocks + 1}
        reading.disagree("final norm: four models", entry["last_gain"], last.get(model), **words)
    for prompt, entry in reading.root(INPUT)["results"].items():
        reading.disagree(
            "final norm: input dependency", entry["last_gain"], last[LLAMA], prompt=prompt
        )
    named = ("gemma2-9b", "llama3.1-8b", "mistral-7b")
    for name, entry in reading.root(LLAMA_FILE)["hypothesis_1_titanium_projector"][
        "results"
    ].items():
        model = reading.name(name)
        key = f"amplification: {name}" if name in named else "amplification"
        other = four["gemma-7b"]["last_gain"] if name == "gemma2-9b" else last.get(model)
        reading.disagree(key, entry["last_gain"], other, name=name, model=model)
    stream = reading.root(MISTRAL_FILE)["residual_stream_analysis"]["mistral-7b"]
    reading.disagree("Mistral layers", stream["n_layers"], 32)
    reading.disagree("Mistral last ratio", stream["last_gain"], last[MISTRAL])


def _transitions(reading: Reading) -> None:
    """L* by change of sign, its formula, and the figure."""
    read_off = [r for r in reading.rows["statements"] if str(r["pointer"]).startswith("fig. 5 ")]
    figure = {r["model_id"]: r["value"] for r in read_off}
    root = reading.root("l_star_sign_change.json")
    for entry in root["results"]:
        model = reading.name(entry["model"])
        calibration = entry["L_star_calibration"]
        words = {
            "model": model,
            "calibration": f"; calibration value {calibration}" if calibration else "",
        }
        reading.disagree("L*", entry["L_star_empirical"], figure.get(model), **words)
    rows = pd.DataFrame(root["results"])
    at = rows["model"].map(reading.name).map(figure)
    L = rows["L"]
    formula = rows["L_star_predicted"]
    usual = 100 * (formula / rows["L_star_empirical"] - 1).abs()
    reading.disagree("MAPE", root["overall_mape"], float(np.mean(usual)))
    full, half = (float(np.mean(100 * (guess - at).abs() / L)) for guess in (formula, L / 2))
    reading.disagree("15.7 per cent against L/2", full, half)
    truth = rows["L_star_calibration"].astype(float)
    for stated, guess, name in (("4.8", formula, "the formula"), ("25", L / 2, "L/2")):
        depth, ratio = (float((100 * (guess - truth).abs() / over).mean()) for over in (L, truth))
        reading.disagree(
            "error per cent",
            depth,
            float(stated),
            stated=stated,
            guess=name,
            depth=depth,
            ratio=ratio,
        )
    reading.disagree("base of L*", 0, 1)


def _calibration(reading: Reading) -> None:
    """The eight L* to which the constants of the formula were fitted, by the author's notes."""
    stated = pd.DataFrame(reading.rows["statements"])
    noted = stated[stated["source"] == NOTES].set_index("statistic")
    models = (
        noted.loc[[CALIBRATED], ["model_id", "value"]]
        .astype({"value": float})
        .reset_index(drop=True)
    )
    for label in ("n_layers", "n_heads", "heritage"):
        models[label] = [reading.fact(model, label) for model in models["model_id"]]
    truth = models["value"]
    L = models["n_layers"]
    H = models["n_heads"]
    printed = stated.set_index("pointer")["value"].astype(float)
    a, b, c = (printed[f"section 5.3, eq. 6 {name}"] for name in "abc")
    full = float((100 * (L * (a + b * L + c / H) - truth).abs() / L).mean())
    half = float((100 * (L / 2 - truth).abs() / L).mean())
    column = float(noted.loc[[CALIBRATION_ERROR], "value"].astype(float).mean())
    notes = noted.set_index("pointer")["value"].astype(float)
    reading.disagree(
        "calibration mean", notes["predictions, mean"], column, file=NOTES, formula=full
    )
    constants, fitted = _fit_deviations(np.column_stack([np.ones(len(L)), L, 1 / H]), truth / L)
    words = {"file": NOTES, **dict(zip("abc", constants, strict=True))}
    reading.disagree("calibration in sample", 100 * fitted, full, **words)
    reading.disagree("calibration labs", models["heritage"].nunique(), 1, file=NOTES)
    reading.disagree("25 per cent of two formulas", half, notes["comparison, original"], file=NOTES)
    shapes = models.groupby("heritage")[["n_layers", "n_heads"]].apply(
        lambda rows: len(rows.drop_duplicates())
    )
    lab = str(shapes.idxmax())
    left = len(models[models["heritage"] != lab][["n_layers", "n_heads"]].drop_duplicates())
    distinct = len(models[["n_layers", "n_heads"]].drop_duplicates())
    reading.disagree("three constants on five shapes", distinct, 3, file=NOTES, lab=lab, left=left)
    published = [
        row
        for row in reading.rows["inconsistencies"]
        if row["inconsistency_id"].startswith("nan-as-extreme")
    ]
    for row in published:
        if row["model_id"] in set(models["model_id"]):
            words = {"file": NOTES, "model": row["model_id"]}
            reading.disagree("calibration of a NaN", row["value"], row["other_value"], **words)


def _fit_deviations(X: NDArray[np.float64], y: pd.Series) -> tuple[NDArray[np.float64], float]:
    """The b of the smallest mean |y - X b|, and that mean.

    Some best fit goes through as many points as it has constants, so that all such fits are tried.
    """
    fits = []
    for chosen in itertools.combinations(range(len(X)), X.shape[1]):
        some = list(chosen)
        if np.linalg.matrix_rank(X[some]) == X.shape[1]:
            b = np.linalg.solve(X[some], y.to_numpy()[some])
            fits.append((float(np.abs(y - X @ b).mean()), b))
    least, constants = min(fits, key=lambda fit: fit[0])
    return constants, least


def _phases(reading: Reading) -> None:
    """The profile of anisotropy in which the author's notes see five phases."""
    noted = [row["value"] for row in reading.rows["statements"] if row["source"] == PHASES]
    reading.disagree("five phases behind the final norm", *noted, file=PHASES)
    reading.disagree("anisotropy is the largest eigenvalue", file=PHASES)


def _laplacians(reading: Reading) -> None:
    """Eigenvalues that are rounding, and a ratio that is below 1 whatever the model does."""
    first, second = (reading.root(name)["results"] for name in H4_FILES[:2])
    maps = reading.root(MAPS)
    gaps = max(gap for entry in first for gap in entry["spectral_gaps"])
    for name, largest in (
        (H4_FILES[0], gaps),
        (MAPS, np.nanmax(maps["sheaf_laplacian"]["spectral_gaps"])),
    ):
        reading.disagree("gaps of rounding", float(largest), 0.0, file=reading.file(name))
    for key, kind in (("lambda_2", "sheaf"), ("graph_lambda_2", "graph")):
        lows = {entry["model"]: min(entry[key]) for entry in second}
        lowest = min(lows, key=lambda name: lows[name])
        words = {
            "key": key,
            "kind": kind,
            "negative": sum(v < 0 for v in lows.values()),
            "n": len(lows),
        }
        reading.disagree(
            "negative eigenvalue", lows[lowest], 0.0, model=reading.name(lowest), **words
        )
    largest = float(np.nanmax(maps["restriction_maps"]["contraction_ratios"]))
    reading.disagree("contraction by construction", largest, 1.0)


def _traces(reading: Reading) -> None:
    """Statements about traces, and the curve that L* is found on."""
    second, extended = (reading.root(name) for name in H4_FILES[1:])
    traces = {entry["model"]: entry["mean_trace_multihead"] for entry in second["results"]}
    (larger,) = (
        e
        for e in extended["extended_results"]
        if reading.name(e["model"]) == "EleutherAI/pythia-1b"
    )
    reading.disagree(
        "scale of the extended traces", larger["mean_trace_mh"], traces["EleutherAI/pythia-410m"]
    )
    reading.disagree("trace tells the sign", traces["gpt2"] / traces["facebook/opt-125m"], 1.2)
    false = [text for text in second["findings"] if text.endswith("False")]
    reading.disagree("H4 v2 partially validated", len(false), len(second["findings"]))
    by_heads = [
        int(np.abs(np.gradient(entry["traces_multihead"])).argmax()) for entry in second["results"]
    ]
    by_first = [entry["L_star_trace"] for entry in second["results"]]
    reading.disagree("curve of L*", by_heads=by_heads, by_first=by_first)
