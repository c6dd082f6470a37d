"""One row per model and prompt of a named gain: what fits over prompts take, in analyses and in notebooks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from thermostats.errors import unknown
from thermostats.tables import features
from thermostats.tables.evidence import POOLED, check_set
from thermostats.tables.reading import of_last_revision
from thermostats.tables.selection import Selection
from thermostats.tables.vocabulary import GAINS

RUN = ["run_id", "model_id", "heritage", "family", "source", "prompt_set"]


def prompt_rows(
    gain: str = "last_gain", evidence: Selection | str = POOLED, *, data: str | Path | None = None
) -> pd.DataFrame:
    """One row per model and prompt of a named gain (column `value`), on the prompt set that most models share.

    evidence: a set of evidence by name, with `data`, or the tables under one. Columns besides: run_id, model_id,
    heritage, family, variant, parent, source, prompt_set, prompt_id, category, entropy (of the next token, where
    measured). `fit_invariance`, `fit_slopes` and `fit_benchmark` take these rows. Raises UsageError for a gain or a set
    of evidence that does not exist.
    """
    if gain not in GAINS:
        raise unknown("no such gain", gain, GAINS)
    if isinstance(evidence, str):
        check_set(evidence)
        evidence = Selection(data, evidence)
    rows = one_prompt_set(with_category(evidence, gain_by_prompt(evidence, gain)))
    models = evidence.table("models").drop_duplicates("model_id")[["model_id", "variant", "parent"]]
    entropies = evidence.table("outputs")[["run_id", "prompt_id", "entropy"]]
    rows = rows.merge(models, on="model_id", how="left").merge(entropies, on=["run_id", "prompt_id"], how="left")
    return rows.astype({"value": "float64", "entropy": "float64"})


def gain_by_prompt(tables: Selection, gain: str, *sources: str) -> pd.DataFrame:
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


def with_category(tables: Selection, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt with the category of each prompt; prompts that the table does not know are left out."""
    prompts = tables.table("prompts", prompt_set=sorted(set(rows["prompt_set"])))
    return rows.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"])
