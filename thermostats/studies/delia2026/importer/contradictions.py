"""Disagreements between files: models measured twice, figures copied by hand, counts, missing numbers."""

from __future__ import annotations

import itertools

import numpy as np

from thermostats.studies.delia2026.importer import definitions, verdicts
from thermostats.studies.delia2026.importer.quantities import Measured, quantities
from thermostats.studies.delia2026.importer.study import UNSTATED_SET, Study, relative

AGREE = 1e-6
"""Relative difference up to which two measurements of one quantity count as the same (float32)."""
EVERY_GAIN = ("penultimate gain", "last gain", "normed gain", "last MLP gain", "normed gain over all tokens")


def find(study: Study) -> None:
    """Record every disagreement that the rows read so far show."""
    measured = list(quantities(study))
    _twice(study, measured)
    _prompt_by_prompt(study)
    _copied(study, measured)
    _context(study)
    _unembedding(study)
    _missing(study)
    verdicts.find(study, measured)
    definitions.find(study, measured)


def _twice(study: Study, measured: list[Measured]) -> None:
    for quantity in EVERY_GAIN:
        of = [m for m in measured if m.quantity == quantity]
        for one, other in itertools.combinations(of, 2):
            if one.model == other.model and relative(one.value, other.value) > AGREE:
                study.disagree(
                    f"twice: {quantity}, {one.model}, {one.file}, {other.file}",
                    "measured twice",
                    study.by_file(one.file),
                    f"{quantity} of one model, {one.dtype} here and {other.dtype} there, "
                    + ("on the same prompts" if _same_prompts(one, other) else "prompts not the same or not stated")
                    + ": the two differ",
                    "both are kept, each with its source",
                    other_file=other.file,
                    model=one.model,
                    value=one.value,
                    other_value=other.value,
                )
    for one, other in itertools.combinations(measured, 2):
        if (
            one.model == other.model
            and {one.quantity, other.quantity} == {"last gain", "penultimate gain"}
            and (one.file != other.file)
        ):
            first, second = (one, other) if one.quantity == "last gain" else (other, one)
            study.disagree(
                f"two gains: {one.model}, {first.file}, {second.file}",
                "mislabelled",
                study.by_file(first.file),
                "one name, gain, for two quantities: G_L at the last token here, G_(L-1) there; the "
                "preprint compares and "
                "ranks them as one",
                "imported as layers L and L-1",
                other_file=second.file,
                model=one.model,
                value=first.value,
                other_value=second.value,
            )


def _same_prompts(one: Measured, other: Measured) -> bool:
    return one.prompt_set == other.prompt_set != UNSTATED_SET


def _prompt_by_prompt(study: Study) -> None:
    """Last gains of one model on one prompt set in two files: the largest difference is what precision alone does."""
    runs = {row["run_id"]: row for row in study.rows["runs"]}
    gains: dict[str, dict[str, float]] = {}
    for row in study.rows["layers"]:
        if (
            row["position"] == "last"
            and row["gain_block"]
            and row["layer"] == study.fact(runs[row["run_id"]]["model_id"], "n_layers")
        ):
            gains.setdefault(row["run_id"], {})[row["prompt_id"]] = row["gain_block"]
    for one, other in itertools.combinations(gains, 2):
        first, second = runs[one], runs[other]
        shared = [p for p in gains[one] if p in gains[other]]
        if all(first[k] == second[k] for k in ("model_id", "prompt_set")) and shared:
            worst = max(shared, key=lambda p: relative(gains[one][p], gains[other][p]))
            study.disagree(
                f"prompt by prompt: {first['model_id']}",
                "measured twice",
                study.by_file(first["source"]),
                f"the same model and prompts in {first['dtype']} and {second['dtype']}: gains of prompt {worst} "
                f"differ most, by {100 * relative(gains[one][worst], gains[other][worst]):.1f} %; a norm kept in half "
                "precision is rounded to 0.05 % (float16) or 0.4 % (bfloat16)",
                "both are kept, each with its source",
                other_file=second["source"],
                model=first["model_id"],
                value=gains[one][worst],
                other_value=gains[other][worst],
            )


def _context(study: Study) -> None:
    stated = {(r["model_id"], r["statistic"]): r for r in study.rows["statements"]}
    for (model, statistic), row in stated.items():
        longest = stated.get((model, "max_position"))
        if statistic == "context_length" and longest and row["value"] != longest["value"]:
            study.disagree(
                f"context length: {model}",
                "wrong fact",
                study.by_file(row["source"]),
                "context_length is not the max_position beside it",
                "statements",
                model=model,
                value=row["value"],
                other_value=longest["value"],
            )


def _copied(study: Study, measured: list[Measured]) -> None:
    """Gains called known are held against what any file measured for the model, at the copy's own rounding."""
    gains = [m for m in measured if m.quantity in ("last gain", "penultimate gain")]
    for row in [r for r in study.rows["statements"] if r["statistic"].startswith("known gain") and r["value"]]:
        of = [m for m in gains if m.model == row["model_id"]]
        near = min(of, key=lambda m: abs(m.value - row["value"]), default=None)
        if near is not None and abs(near.value - row["value"]) <= 0.005:
            continue
        study.disagree(
            f"copied: {row['source']}{row['pointer']}",
            "wrong fact" if near else "unsupported",
            study.by_file(row["source"]),
            f"a gain taken over by hand ({row['statistic']}); "
            + (f"the nearest measured one is the {near.quantity} of {near.file}" if near else "no file measures it"),
            "statement, not used as a measurement",
            other_file=near.file if near else "",
            model=row["model_id"],
            value=row["value"],
            other_value=near.value if near else None,
        )


def _unembedding(study: Study) -> None:
    """Frobenius norms against the other file and against their own rows: ‖W‖_F² = V (mean² + sd²) of row norms."""
    runs = {row["run_id"]: row for row in study.rows["runs"]}
    summaries = {(r["run_id"], r["estimand"]): r["value"] for r in study.rows["summaries"]}
    for row in study.rows["weights"]:
        run = runs[row["run_id"]]
        if row["frobenius_norm"] is None:
            continue
        mean, sd = (summaries[row["run_id"], f"{row['matrix']}_row_norm_{part}"] for part in ("mean", "sd"))
        implied = float(np.sqrt(study.fact(run["model_id"], "vocab_size") * (mean**2 + sd**2)))
        if relative(row["frobenius_norm"], implied) > 1e-3:
            study.disagree(
                f"frobenius: {row['matrix']}, {run['source']}",
                "does not follow",
                study.by_file(run["source"]),
                f"the Frobenius norm of the {row['matrix']} is not what the mean and standard deviation of "
                "its rows' norms "
                "give; summed in half precision, as it seems",
                "imported as published; frobenius_normalized and the ratio of the two norms inherit it",
                model=run["model_id"],
                value=row["frobenius_norm"],
                other_value=implied,
            )
    for one, other in itertools.combinations(study.rows["weights"], 2):
        first, second = runs[one["run_id"]], runs[other["run_id"]]
        if (one["matrix"], first["model_id"]) == (other["matrix"], second["model_id"]):
            for norm in ("frobenius_norm", "spectral_norm"):
                study.disagree(
                    f"twice: {norm} of the {one['matrix']}, {first['model_id']}",
                    "measured twice",
                    study.by_file(first["source"]),
                    f"{norm} of the same matrix in two files",
                    "both are kept, each with its source",
                    other_file=second["source"],
                    model=first["model_id"],
                    value=one[norm],
                    other_value=other[norm],
                )


def _missing(study: Study) -> None:
    for document in study.documents.values():
        absent = sum(entry.missing for entry in document.entries.values())
        if absent:
            study.disagree(
                f"not a number: {document.file}",
                "missing",
                document,
                "figures that are NaN, from attention that overflowed in float16 or computed from such; "
                "the value is how many",
                "missing in the tables, with the reason",
                value=absent,
            )
