"""One row per model of any set of evidence, with intervals over prompts: what a question about models is put to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import unknown
from thermostats.tables.evidence import POOLED, check_set, origin
from thermostats.tables.pooling import LEVELS, pooled
from thermostats.tables.reading import of_last_revision
from thermostats.tables.seeds import one_a_recipe
from thermostats.tables.selection import Selection
from thermostats.tables.vocabulary import GAINS

LEVEL = 0.95
SHALLOW = 2
"""Blocks of a model whose penultimate block is the first, which lifts the embedding: it has no penultimate gain."""
LEFT_OUT = "left out"
"""Name in `DataFrame.attrs` of what says which models are not among the rows, and why."""
OF_OTHER_RUNS = ("L_star_", "wv_", "wo_")
"""Columns of `features` that another run of the same model may have."""


def model_rows(
    evidence: Selection | str = POOLED,
    gain: str = "penultimate_gain",
    *,
    data: str | Path | None = None,
    incomparable: bool = False,
) -> pd.DataFrame:
    """One row per model with a named gain, at its last revision; a tuned model only without its base, seeds together.

    evidence: a set of evidence by name, with `data`, or the tables under one. Models whose gains are near 1 by
    construction (`comparable` false) are left out unless `incomparable`; `attrs["left out"]` of the rows says which,
    and a fit repeats it.

    Columns of `features`, and `gain` (the named one), `log_gain`, `n_prompts`, `lower` and `upper` (t interval over
    prompts, 95%), `total_to_penultimate` = n_(L−1)/n_1 and `total_from_input` = n_(L−1)/n_0. Of several measurements
    the one with most prompts counts; in the set `pooled` all of them, by `tables.pooling`, the files of a study
    being one instrument.

    Raises UsageError for a set of evidence or a gain that does not exist.
    """
    if gain not in GAINS:
        raise unknown("no such gain", gain, GAINS)
    if isinstance(evidence, str):
        check_set(evidence)
        evidence = Selection(data, evidence)
    every = of_last_revision(evidence.table("features"), "model_id")
    every = every[every["n_layers"] > SHALLOW]
    every = every[~((every["variant"] == "instruct") & every["parent"].isin(every["model_id"]))]
    every = every.assign(n_prompts=_prompts(every, evidence, gain))
    first = one_row_a_model(every[every[gain] > 0]).set_index("model_id")
    others = [name for name in every if str(name).startswith(OF_OTHER_RUNS)]
    first[others] = first[others].fillna(every.groupby("model_id")[others].first())
    error = _error(first, gain)
    if evidence.name == POOLED:
        estimates = _pooled(every, set(evidence.table("sources")["file"]))
        first = first.assign(**{each: np.exp(table["y"]).reindex(first.index) for each, table in estimates.items()})
        error = estimates[gain]["e"]
    first = one_a_recipe(first.reset_index()).set_index("model_id")
    value, n = first[gain], first["n_prompts"]
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error.reindex(first.index) * value
    total = first["geometric_gain_to_penultimate"] ** (first["n_layers"] - 2)
    layers = evidence.table("layers", position="last")
    block_1 = layers[layers["layer"] == 1].groupby("run_id")["gain_block"].mean()
    rows = first.assign(
        gain=value,
        log_gain=np.log(value),
        lower=value - half,
        upper=value + half,
        total_to_penultimate=total,
        total_from_input=total * first["run_id"].map(block_1).astype("float64"),
    ).reset_index()
    chosen = rows if incomparable else rows[rows["comparable"]].reset_index(drop=True)
    without = {
        f"its {gain} is not above 0": every.loc[every[gain] <= 0, "model_id"],
        "normalised after the sum": rows["model_id"],
    }
    left_out = {why: sorted(set(names) - set(chosen["model_id"])) for why, names in without.items()}
    chosen.attrs[LEFT_OUT] = tuple(
        f"left out, since {why}: {', '.join(names)}" for why, names in left_out.items() if names
    )
    return chosen


def one_row_a_model(
    rows: pd.DataFrame, files: Sequence[str] | None = None, *, first: Sequence[str] = (), ties: Sequence[str] = ()
) -> pd.DataFrame:
    """The row of every model from the first of `files`, then with most `n_prompts`, in order of the models' names.

    `first`: true/false columns that come before the number of prompts, true first. `ties`: columns whose smallest value
    decides between rows of as many prompts; else the first row does.
    """
    preference = 0 if files is None else rows["source"].map({name: i for i, name in enumerate(files)})
    by = ["model_id", "_file", *first, "n_prompts", *ties]
    ascending = [True, True, *(False for _ in first), False, *(True for _ in ties)]
    order = rows.assign(_file=preference).sort_values(by, ascending=ascending, kind="stable")
    return order.drop_duplicates("model_id").drop(columns="_file").reset_index(drop=True)


def measurements_to_pool(rows: pd.DataFrame, evidence: Selection, gain: str) -> pd.DataFrame:
    """Rows for `tables.pooling` from rows of `features`; the files of a study are one instrument."""
    return _to_pool(rows.assign(n_prompts=_prompts(rows, evidence, gain)), set(evidence.table("sources")["file"]), gain)


def _prompts(rows: pd.DataFrame, evidence: Selection, gain: str) -> pd.Series:
    """Prompts of every measurement: those that it says, else those of its set."""
    sizes, counted = evidence.table("prompts").groupby("prompt_set").size(), rows[f"{gain}_n"].astype("float64")
    return counted.where(counted > 0, rows["prompt_set"].map(sizes).astype("float64"))


def _pooled(rows: pd.DataFrame, files: set[str]) -> dict[str, pd.DataFrame]:
    """Estimates of `pooled` by gain, from all measurements of every model; `files` of a study are one instrument."""
    return {gain: pooled(_to_pool(rows, files, gain)) for gain in GAINS}


def _to_pool(rows: pd.DataFrame, files: set[str], gain: str) -> pd.DataFrame:
    """Log of a gain and its error, by model and level."""
    measured = rows.assign(source=origin(rows["source"], files))[rows[gain] > 0]
    y, e = np.log(measured[gain]), _error(measured, gain).fillna(0.0)
    return measured[["model_id", *LEVELS]].assign(y=y, e=e)


def _error(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error over prompts of the log of a gain."""
    return (rows[f"{gain}_sd"] / rows[gain] / np.sqrt(rows["n_prompts"])).astype("float64")
