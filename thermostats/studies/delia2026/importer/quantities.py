"""Gains by name, averaged over prompts, as each file has them: what can be compared between files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from thermostats.studies.delia2026.importer.study import Study


@dataclass(frozen=True)
class Measured:
    """A quantity of a model, averaged over prompts, as one file has it."""

    quantity: str
    model: str
    file: str
    dtype: str
    prompt_set: str
    value: float


def quantities(study: Study) -> Iterator[Measured]:
    """Mean over prompts of every gain that has a name, by model and file."""
    runs = {row["run_id"]: row for row in study.rows["runs"]}
    rows = []
    for row in study.rows["layers"]:
        run = runs[row["run_id"]]
        L = study.fact(run["model_id"], "n_layers")
        back = {L: "last", L - 1: "penultimate"}.get(row["layer"])
        if back and row["position"] == "last":
            rows.append((f"{back} gain", row["run_id"], row["prompt_id"], row["gain_block"]))
        elif back == "last" and row.get("gain_mlp") is not None:
            rows.append(("last MLP gain", row["run_id"], row["prompt_id"], row["gain_mlp"]))
    names = {"normed_gain": "normed gain", "normed_gain_all_tokens": "normed gain over all tokens"}
    for row in study.rows["summaries"]:
        if row["estimand"] in names:
            rows.append((names[row["estimand"]], row["run_id"], row["prompt_id"], row["value"]))
    frame = pd.DataFrame(rows, columns=["quantity", "run_id", "prompt_id", "value"])
    single = frame[frame["prompt_id"] != ""]
    averaged = frame[frame["prompt_id"] == ""]
    means = single.groupby(["quantity", "run_id"])["value"].mean()
    means = means.combine_first(averaged.set_index(["quantity", "run_id"])["value"])
    for (quantity, run_id), value in means.items():
        run = runs[run_id]
        yield Measured(quantity, run["model_id"], run["source"], run["dtype"], run["prompt_set"], float(value))
