"""Disagreements between files: models measured twice, figures copied by hand, missing numbers, the stated bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.studies.delia2026.importer.reading import UNSTATED_SET, Reading, relative

AGREE = 1e-6
"""Relative difference up to which two measurements of one quantity count as the same (float32)."""
PENULTIMATE, LAST, NORMED = "penultimate gain", "last gain", "normed gain"
EVERY_GAIN = (PENULTIMATE, LAST, NORMED, "last MLP gain", "normed gain over all tokens")


@dataclass(frozen=True)
class Measured:
    """A quantity of a model, averaged over prompts, as one file has it."""

    quantity: str
    model: str
    file: str
    dtype: str
    prompt_set: str
    value: float


def find(reading: Reading, measured: Sequence[Measured]) -> None:
    """Record every disagreement between files that the rows read so far show."""
    _twice(reading, measured)
    _prompt_by_prompt(reading)
    _copied(reading, measured)
    _context(reading)
    _unembedding(reading)
    _missing(reading)
    _bound(reading)


def gains_by_model(reading: Reading) -> Iterator[Measured]:
    """Mean over prompts of every gain that has a name, by model and file."""
    runs = reading.runs()
    rows = []
    for row in reading.rows["layers"]:
        L = reading.depth(runs[row["run_id"]]["model_id"])
        back = {L: LAST, L - 1: PENULTIMATE}.get(row["layer"])
        if back and row["position"] == "last":
            rows.append((back, row["run_id"], row["prompt_id"], row["gain_block"]))
        elif back == LAST and row.get("gain_mlp") is not None:
            rows.append(("last MLP gain", row["run_id"], row["prompt_id"], row["gain_mlp"]))
    names = {"normed_gain": NORMED, "normed_gain_all_tokens": "normed gain over all tokens"}
    for row in reading.rows["summaries"]:
        if row["estimand"] in names:
            rows.append((names[row["estimand"]], row["run_id"], row["prompt_id"], row["value"]))
    frame = pd.DataFrame(rows, columns=["quantity", "run_id", "prompt_id", "value"])
    averaged = frame["prompt_id"] == ""
    means = frame[~averaged].groupby(["quantity", "run_id"])["value"].mean()
    means = means.combine_first(frame[averaged].set_index(["quantity", "run_id"])["value"])
    for (quantity, run_id), value in means.items():
        run = runs[run_id]
        yield Measured(quantity, run["model_id"], run["source"], run["dtype"], run["prompt_set"], float(value))


def _twice(reading: Reading, measured: Sequence[Measured]) -> None:
    for one, other in itertools.combinations(measured, 2):
        if one.model != other.model:
            continue
        words = {"model": one.model, "quantity": one.quantity, "dtype": one.dtype, "other_dtype": other.dtype}
        if one.quantity == other.quantity and relative(one.value, other.value) > AGREE:
            same = one.prompt_set == other.prompt_set != UNSTATED_SET
            words["prompts"] = "on the same prompts" if same else "prompts not the same or not stated"
            _pair(reading, "twice", one, other, words)
        elif {one.quantity, other.quantity} == {LAST, PENULTIMATE} and one.file != other.file:
            _pair(reading, "two gains", *((one, other) if one.quantity == LAST else (other, one)), words)


def _pair(reading: Reading, key: str, one: Measured, other: Measured, words: dict[str, str]) -> None:
    reading.disagree(key, one.value, other.value, file=one.file, other_file=other.file, **words)


def _prompt_by_prompt(reading: Reading) -> None:
    """Last gains of one model on one prompt set in two files: the largest difference is what precision alone does."""
    runs = reading.runs()
    gains: dict[str, dict[str, float]] = {}
    for row in reading.rows["layers"]:
        last = row["layer"] == reading.depth(runs[row["run_id"]]["model_id"])
        if last and row["position"] == "last" and row["gain_block"]:
            gains.setdefault(row["run_id"], {})[row["prompt_id"]] = row["gain_block"]
    for one, other in itertools.combinations(gains, 2):
        first, second = runs[one], runs[other]
        shared = [p for p in gains[one] if p in gains[other]]
        if all(first[k] == second[k] for k in ("model_id", "prompt_set")) and shared:
            differences = {p: relative(gains[one][p], gains[other][p]) for p in shared}
            worst = max(shared, key=lambda p: differences[p])
            words = {"file": first["source"], "other_file": second["source"], "model": first["model_id"]}
            words |= {"dtype": first["dtype"], "other_dtype": second["dtype"], "worst": worst}
            largest = 100 * differences[worst]
            reading.disagree("prompt by prompt", gains[one][worst], gains[other][worst], difference=largest, **words)


def _copied(reading: Reading, measured: Sequence[Measured]) -> None:
    """Gains called known are held against what any file measured for the model, at the copy's own rounding."""
    gains = [m for m in measured if m.quantity in (LAST, PENULTIMATE)]
    for row in [r for r in reading.rows["statements"] if r["statistic"].startswith("known gain") and r["value"]]:
        of = [m for m in gains if m.model == row["model_id"]]
        near = min(of, key=lambda m: abs(m.value - row["value"]), default=None)
        words = {"file": row["source"], "model": row["model_id"], **{k: row[k] for k in ("pointer", "statistic")}}
        if near is None:
            reading.disagree("copied from nowhere", row["value"], **words)
        elif abs(near.value - row["value"]) > 0.005:
            words |= {"quantity": near.quantity, "other_file": near.file}
            reading.disagree("copied", row["value"], near.value, **words)


def _context(reading: Reading) -> None:
    stated = {(r["model_id"], r["statistic"]): r for r in reading.rows["statements"]}
    for (model, statistic), row in stated.items():
        longest = stated.get((model, "max_position"))
        if statistic == "context_length" and longest and row["value"] != longest["value"]:
            values = (row["value"], longest["value"])
            reading.disagree("context", *values, file=row["source"], model=model)


def _unembedding(reading: Reading) -> None:
    """Frobenius norms against the other file and against their own rows: ‖W‖_F² = V (mean² + sd²) of row norms."""
    runs = reading.runs()
    summaries = {(r["run_id"], r["estimand"]): r["value"] for r in reading.rows["summaries"]}
    for row in reading.rows["weights"]:
        run, frobenius = runs[row["run_id"]], row["frobenius_norm"]
        if frobenius is None:
            continue
        words = {"matrix": row["matrix"], "file": run["source"], "model": run["model_id"]}
        mean, sd = (summaries[row["run_id"], f"{row['matrix']}_row_norm_{part}"] for part in ("mean", "sd"))
        implied = float(np.sqrt(reading.fact(run["model_id"], "vocab_size") * (mean**2 + sd**2)))
        if relative(frobenius, implied) > 1e-3:
            reading.disagree("frobenius", frobenius, implied, **words)
    for one, other in itertools.combinations(reading.rows["weights"], 2):
        first, second = runs[one["run_id"]], runs[other["run_id"]]
        if (one["matrix"], first["model_id"]) == (other["matrix"], second["model_id"]):
            words = {"matrix": one["matrix"], "file": first["source"], "other_file": second["source"]}
            words["model"] = first["model_id"]
            for norm in ("frobenius_norm", "spectral_norm"):
                reading.disagree("matrix twice", one[norm], other[norm], norm=norm, **words)


def _missing(reading: Reading) -> None:
    for document in reading.documents.values():
        absent = sum(entry.missing for entry in document.entries.values())
        if absent:
            reading.disagree("not a number", absent, file=document.file)


def _bound(reading: Reading) -> None:
    runs = reading.runs()
    by_model: dict[tuple[str, str], list[float]] = {}
    for row in reading.rows["summaries"]:
        if row["estimand"] == "total_amplification" and row["value"]:
            run = runs[row["run_id"]]
            by_model.setdefault((run["model_id"], run["source"]), []).append(row["value"])
    for (model, file), values in by_model.items():
        if np.mean(values) > 10:
            reading.disagree("total gain", float(np.mean(values)), 10.0, file=file, model=model)
