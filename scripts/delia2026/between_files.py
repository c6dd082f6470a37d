"""Disagreements between files: models measured twice, figures copied by hand, missing numbers, the
stated bound."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from reading import UNSTATED_SET, Reading, relative

AGREE = 1e-6
"""Relative difference up to which two measurements of one quantity count as the same (float32)."""
PENULTIMATE = "penultimate gain"
LAST = "last gain"
NORMED = "normed gain"
LAST_MLP = "last MLP gain"
OF_SUMMARIES = {"normed_gain": NORMED, "normed_gain_all_tokens": "normed gain over all tokens"}


def find(reading: Reading, measured: pd.DataFrame) -> None:
    """Record every disagreement between files that the rows read so far show; `measured`:
    `gains_by_model`."""
    _twice(reading, measured)
    _prompt_by_prompt(reading)
    _copied(reading, measured)
    _context(reading)
    _unembedding(reading)
    _total_gain(reading)
    for document in reading.documents.values():
        if absent := sum(entry.missing for entry in document.entries.values()):
            reading.disagree("not a number", absent, file=document.file)


def gains_by_model(reading: Reading) -> pd.DataFrame:
    """Mean over prompts of every gain that has a name, by model and file.

    Columns quantity, model, file, dtype, prompt_set, value.
    """
    layers = _of_runs(reading, "layers")
    back = layers["model_id"].map(reading.depth) - layers["layer"]
    at_last = layers["position"] == "last"
    summaries = _of_runs(reading, "summaries")
    parts = [
        layers[at_last & (back == 0)].assign(quantity=LAST, value=layers["gain_block"]),
        layers[at_last & (back == 1)].assign(quantity=PENULTIMATE, value=layers["gain_block"]),
        layers[(back == 0) & layers["gain_mlp"].notna()].assign(
            quantity=LAST_MLP, value=layers["gain_mlp"]
        ),
        summaries.assign(quantity=summaries["estimand"].map(OF_SUMMARIES)).dropna(
            subset="quantity"
        ),
    ]
    rows = (
        pd.concat(parts)
        .rename(columns={"model_id": "model", "source": "file"})
        .astype({"value": float})
    )
    key = ["quantity", "run_id"]
    averaged = rows["prompt_id"] == ""
    by_prompt = rows[~averaged].groupby(key)["value"].mean()
    means = by_prompt.combine_first(rows[averaged].set_index(key)["value"]).reset_index()
    facts = rows[[*key, "model", "file", "dtype", "prompt_set"]].drop_duplicates(key)
    return means.merge(facts, on=key)


def _of_runs(reading: Reading, table: str) -> pd.DataFrame:
    runs = pd.DataFrame(reading.rows["runs"])[
        ["run_id", "model_id", "source", "dtype", "prompt_set"]
    ]
    return pd.DataFrame(reading.rows[table]).merge(runs, on="run_id")


def _twice(reading: Reading, measured: pd.DataFrame) -> None:
    for first, second in itertools.combinations(measured.itertuples(), 2):
        if first.model != second.model:
            continue
        words = {
            "model": first.model,
            "quantity": first.quantity,
            "dtype": first.dtype,
            "other_dtype": second.dtype,
        }
        if first.quantity == second.quantity and relative(first.value, second.value) > AGREE:
            same = first.prompt_set == second.prompt_set != UNSTATED_SET
            words["prompts"] = (
                "on the same prompts" if same else "prompts not the same or not stated"
            )
            reading.disagree(
                "twice", first.value, second.value, file=first.file, other_file=second.file, **words
            )
        elif {first.quantity, second.quantity} == {LAST, PENULTIMATE} and first.file != second.file:
            a, b = (first, second) if first.quantity == LAST else (second, first)
            reading.disagree("two gains", a.value, b.value, file=a.file, other_file=b.file, **words)


def _prompt_by_prompt(reading: Reading) -> None:
    """Last gains of one model on one prompt set in two files: the largest difference is what
    precision alone does."""
    layers = _of_runs(reading, "layers")
    last = layers["layer"] == layers["model_id"].map(reading.depth)
    rows = layers[last & (layers["position"] == "last") & layers["gain_block"].notna()]
    runs = [group for _, group in rows.groupby("run_id", sort=False)]
    for first_rows, other_rows in itertools.combinations(runs, 2):
        run = first_rows.iloc[0]
        other_run = other_rows.iloc[0]
        both = first_rows.merge(
            other_rows, on=["model_id", "prompt_set", "prompt_id"], suffixes=("", "_other")
        )
        if both.empty:
            continue
        pairs = both[["gain_block", "gain_block_other"]].to_numpy(float)
        differences = [relative(a, b) for a, b in pairs]
        at = int(np.argmax(differences))
        words = {"file": run["source"], "other_file": other_run["source"], "model": run["model_id"]}
        words |= {
            "dtype": run["dtype"],
            "other_dtype": other_run["dtype"],
            "worst": both["prompt_id"][at],
        }
        reading.disagree("prompt by prompt", *pairs[at], difference=100 * differences[at], **words)


def _copied(reading: Reading, measured: pd.DataFrame) -> None:
    """Gains called known are held against what any file measured for the model, at the copy's own
    rounding."""
    gains = measured[measured["quantity"].isin([LAST, PENULTIMATE])]
    for row in [
        r
        for r in reading.rows["statements"]
        if r["statistic"].startswith("known gain") and r["value"]
    ]:
        of = gains[gains["model"] == row["model_id"]]
        words = {
            "file": row["source"],
            "model": row["model_id"],
            **{k: row[k] for k in ("pointer", "statistic")},
        }
        if of.empty:
            reading.disagree("copied from nowhere", row["value"], **words)
            continue
        near = of.loc[(of["value"] - row["value"]).abs().idxmin()]
        if abs(near["value"] - row["value"]) > 0.005:
            words |= {"quantity": near["quantity"], "other_file": near["file"]}
            reading.disagree("copied", row["value"], near["value"], **words)


def _context(reading: Reading) -> None:
    stated = {(r["model_id"], r["statistic"]): r for r in reading.rows["statements"]}
    for (model, statistic), row in stated.items():
        longest = stated.get((model, "max_position"))
        if statistic == "context_length" and longest and row["value"] != longest["value"]:
            reading.disagree(
                "context", row["value"], longest["value"], file=row["source"], model=model
            )


def _unembedding(reading: Reading) -> None:
    """Frobenius norms against the other file and against their own rows: ‖W‖_F² = V (mean² + sd²)
    of row norms."""
    summaries = {(r["run_id"], r["estimand"]): r["value"] for r in reading.rows["summaries"]}
    weights = list(_of_runs(reading, "weights").itertuples())
    for row in weights:
        mean, sd = (
            summaries[row.run_id, f"{row.matrix}_row_norm_{part}"] for part in ("mean", "sd")
        )
        implied = float(np.sqrt(reading.fact(row.model_id, "vocab_size") * (mean**2 + sd**2)))
        if relative(row.frobenius_norm, implied) > 1e-3:
            words = {"matrix": row.matrix, "file": row.source, "model": row.model_id}
            reading.disagree("frobenius", row.frobenius_norm, implied, **words)
    for first, second in itertools.combinations(weights, 2):
        if (first.matrix, first.model_id) == (second.matrix, second.model_id):
            words = {
                "matrix": first.matrix,
                "file": first.source,
                "other_file": second.source,
                "model": first.model_id,
            }
            for norm in ("frobenius_norm", "spectral_norm"):
                reading.disagree(
                    "matrix twice", getattr(first, norm), getattr(second, norm), norm=norm, **words
                )


def _total_gain(reading: Reading) -> None:
    """The stated bound of 10 on the total gain."""
    rows = _of_runs(reading, "summaries").query("estimand == 'total_amplification'")
    for (model, file), values in rows.groupby(["model_id", "source"])["value"]:
        if (mean := float(np.mean(values.to_numpy()))) > 10:
            reading.disagree("total gain", mean, 10.0, file=file, model=model)
