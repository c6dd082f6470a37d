"""Rows by prompt as analyses read them: named gains of models, one measurement a model and prompt; their means."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import POOLED, VIEWS, Evidence
from thermostats.modelling.fit import Fit
from thermostats.modelling.means import fit_means
from thermostats.tables import features
from thermostats.tables.reading import of_last_revision
from thermostats.words import short_name

TWIN = "twin_test_results_20260105_160237.json"
BENCHMARK = "thermodynamic_benchmark_20260105_141034.json"
GPT2 = "gpt2_layernorm_validation_20260105_150306.json"
GPTJ = "gptj_parallel_test_20260105_152333.json"
LAST_GAIN_FILES = (BENCHMARK, TWIN, GPT2, GPTJ)
"""Files that hold the gain of the last block by prompt, in order of preference where two measured one model."""
MEASURED = "thermostats"
"""Source of what this package measured itself."""
RUN = ["run_id", "model_id", "heritage", "family", "source", "prompt_set"]


def gain_by_prompt(tables: Evidence, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain of `features.GAINS` by run and prompt of the named files: column `value`; averages are left out.

    Without files: of every run of the set of evidence at its model's last revision, a recipe in the place of the lab.
    Columns besides: run_id, model_id, heritage, family, source, prompt_set, prompt_id.
    """
    chosen = {"source": list(sources)} if sources else {}
    runs, models = tables.table("runs", **chosen), tables.table("models")
    layers, summaries = (tables.table(name, **chosen) for name in ("layers", "summaries"))
    if not sources:
        runs = of_last_revision(runs, "model_id")
        layers, summaries = (frame[frame["run_id"].isin(runs["run_id"])] for frame in (layers, summaries))
    values = features.by_prompt(runs, models, layers, summaries)
    values = values[(values["gain"] == gain) & (values["prompt_id"] != "")]
    return values.drop(columns="gain").merge(runs[RUN], on="run_id").reset_index(drop=True)


def one_run_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of one run a model: that of the first of `LAST_GAIN_FILES` that has it; another source comes last."""
    order = rows["source"].map({source: place for place, source in enumerate(LAST_GAIN_FILES)})
    order = order.fillna(len(LAST_GAIN_FILES))
    return rows[order == order.groupby(rows["model_id"]).transform("min")].reset_index(drop=True)


def measured_here(tables: Evidence, gain: str) -> pd.DataFrame:
    """A named gain by prompt as this package measured it: see `one_prompt_set`."""
    return one_prompt_set(with_category(tables, gain_by_prompt(tables, gain, MEASURED)))


def published_or_set(tables: Evidence, gain: str, *sources: str) -> pd.DataFrame:
    """A named gain by prompt with `category`: of the named files, or of another set of evidence all its models.

    Runs of a single prompt are left out, since they say nothing of prompts. Of the set `pooled` the geometric mean of
    all runs of a model on the same prompts.
    """
    if tables.name not in VIEWS:
        return with_category(tables, gain_by_prompt(tables, gain, *sources))
    rows = with_category(tables, gain_by_prompt(tables, gain))
    rows = rows[rows.groupby("run_id")["prompt_id"].transform("size") > 1]
    if tables.name == POOLED and len(rows):
        logs = np.log(rows["value"].astype(float)).groupby([rows[n] for n in ("model_id", "prompt_set", "prompt_id")])
        rows = rows.assign(value=np.exp(logs.transform("mean")))
    return one_prompt_set(rows)


def one_prompt_set(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt of one run a model, on one prompt set; empty where there is none.

    Chosen is the run on the core prompts, as many as the study's, else the one with most prompts, the last of those;
    of these the models on the prompt set that most of them have, since only one set can be crossed with models.
    """
    runs = rows.groupby(["model_id", "prompt_set", "run_id"], sort=False).size().rename("size").reset_index()
    runs = runs.assign(core=runs["prompt_set"] == "core").sort_values(["core", "size"], kind="stable")
    chosen = runs.drop_duplicates("model_id", keep="last")
    sets = chosen.groupby("prompt_set").agg(models=("run_id", "size"), core=("core", "first")).sort_index()
    if len(sets):
        shared = sets.sort_values(["models", "core"], kind="stable").index[-1]
        chosen = chosen[chosen["prompt_set"] == shared]
    return rows[rows["run_id"].isin(chosen["run_id"])].reset_index(drop=True)


def without_unknown_labs(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows, without their column of labs where one is not known: for what is asked of models alone."""
    return rows if (rows["heritage"].fillna("") != "").all() else rows.drop(columns="heritage")


def with_category(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt with the category of each prompt; prompts that the table does not know are left out."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    return rows.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"])


def without_tuned(tables: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of base models; tuned ones do not count in addition to their bases."""
    return rows[~rows["model_id"].isin(tables.table("models", variant="instruct")["model_id"])]


def wide(rows: pd.DataFrame, value: str = "value") -> pd.DataFrame:
    """Prompts by models; a prompt that a model lacks is missing."""
    return rows.pivot(index="prompt_id", columns="model_id", values=value).astype("float64")


def fit_last_gains(rows: pd.DataFrame, *, scale: float, seed: int) -> Fit:
    """Mean log gains of models, prompts of one category alike: `fit_means` of the gain `value`, models by short names.

    `scale`: prior scale of log gains.
    """
    named = rows.assign(log_gain=np.log(rows["value"]), model_id=[short_name(str(name)) for name in rows["model_id"]])
    return fit_means(named, "log_gain", scale=scale, sources=sorted(set(rows["source"])), seed=seed)
