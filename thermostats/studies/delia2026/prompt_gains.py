"""Last gains by prompt of the study's files, a matrix of models and prompts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import POOLED, VIEWS, Evidence
from thermostats.tables.model_rows import add_category, choose_prompt_set, read_prompt_gains

TWIN = "twin_test_results_20260105_160237.json"
BENCHMARK = "thermodynamic_benchmark_20260105_141034.json"
GPT2 = "gpt2_layernorm_validation_20260105_150306.json"
GPTJ = "gptj_parallel_test_20260105_152333.json"
LAST_GAIN_FILES = (BENCHMARK, TWIN, GPT2, GPTJ)
"""Files that hold the gain of the last block by prompt, in order of preference where two measured
one model."""
MEASURED = "thermostats"
"""Source of what this package measured itself."""


def select_single_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of one run a model: that of the first of `LAST_GAIN_FILES` that has it; another source
    comes last."""
    places = {source: place for place, source in enumerate(LAST_GAIN_FILES)}
    order = rows["source"].map(places)
    order = order.fillna(len(LAST_GAIN_FILES))
    first = order.groupby(rows["model_id"]).transform("min")
    return rows[order == first].reset_index(drop=True)


def load_measured_gains(tables: Evidence, gain: str) -> pd.DataFrame:
    """A named gain by prompt as this package measured it: see `choose_prompt_set`."""
    return choose_prompt_set(add_category(tables, read_prompt_gains(tables, gain, MEASURED)))


def load_prompt_gains(tables: Evidence, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain by prompt with `category`: of the named files, or of another set of evidence all
    its models, on the prompt set that most of them met; see `load_every_prompt`."""
    rows = load_every_prompt(tables, gain, *sources)
    return choose_prompt_set(rows) if tables.name in VIEWS else rows


def load_every_prompt(tables: Evidence, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain by prompt with `category`: of the named files, or of another set of evidence on
    every prompt set that a model met.

    Runs of a single prompt are left out, since they say nothing of prompts. Of the set `pooled` the
    geometric mean of all runs of a model on the same prompts.
    """
    if tables.name not in VIEWS:
        return add_category(tables, read_prompt_gains(tables, gain, *sources))
    rows = add_category(tables, read_prompt_gains(tables, gain))
    n_prompts = rows.groupby("run_id")["prompt_id"].transform("size")
    rows = rows[n_prompts > 1]
    if tables.name == POOLED and len(rows):
        logs = np.log(rows["value"].astype(float))
        prompts = [rows[name] for name in ("model_id", "prompt_set", "prompt_id")]
        means = logs.groupby(prompts).transform("mean")
        rows = rows.assign(value=np.exp(means))
    return rows


def drop_tuned(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of base models; tuned ones do not count in addition to their bases."""
    tuned = tables.table("models", variant="instruct")["model_id"]
    return rows[~rows["model_id"].isin(tuned)]


def build_prompt_matrix(rows: pd.DataFrame, value: str = "value") -> pd.DataFrame:
    """Prompts by models; a prompt that a model lacks is missing."""
    return rows.pivot(index="prompt_id", columns="model_id", values=value).astype("float64")
