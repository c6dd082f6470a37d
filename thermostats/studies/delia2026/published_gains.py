"""Gains of the study's files: rows by model and source, by family, and by prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.claim import Case
from thermostats.claims.evidence import PUBLISHED, VIEWS, Evidence
from thermostats.modelling.classical.many import measure_margin
from thermostats.modelling.model_gains import choose_rows
from thermostats.tables.features import collect_prompt_gains, combine
from thermostats.tables.labels import drop_unlabelled
from thermostats.tables.model_rows import model_rows, pick_model_rows
from thermostats.tables.schemas import GAIN_WORDS

PYTHIA = "pythia_family_NO_FINAL_LN_20260105_174820.json"
PYTHIA_FAMILY = "pythia"
HUNT = "high_rho_hunt_NO_FINAL_LN_20260105_184728.json"
CLEAN = "clean_residual_NO_FINAL_LN_20260105_173546.json"
FOUR = "4model_validation_results.json"
LEVEL = 0.95
COLUMNS = {
    "penultimate_gain": "penultimate_gain",
    "normed_gain": "normed_gain",
    "geometric_gain": "geometric_gain_to_penultimate",
    "max_gain": "max_gain_to_penultimate",
}
"""The study's gains are those of blocks up to L − 1."""
NAMED_GAINS = tuple(Case(name, GAIN_WORDS[column], column) for name, column in COLUMNS.items())
"""The named gains that the files of penultimate gains hold; findings are declared over several."""


def build_source_features(tables: Evidence, *sources: str) -> pd.DataFrame:
    """Rows of `features` for the runs of the named files only, so that other files' rows make no
    finding stale.

    Without files: of all runs but the controlled study's.
    """
    names = ("runs", "layers", "summaries", "transitions", "weights")
    read = {name: tables.table(name, **_build_query(sources)) for name in names}
    return combine(models=tables.table("models"), **read)


def select_heritage_rows(tables: Evidence, estimand: str, *sources: str) -> pd.DataFrame:
    """Rows for `fit_heritage` of the named files, in order of preference: see
    `thermostats.gain_rows`.

    Without files: of all rows but the controlled study's, a user's own among them, as files written
    by `thermostats new heritage` ask.
    """
    query = _build_query(sources)
    read = {}
    for name in ("runs", "layers", "summaries"):
        read[name] = tables.table(name, **query)
    values = collect_prompt_gains(models=tables.table("models"), **read)
    rows = build_source_features(tables, *sources)
    sets = sorted(set(rows["prompt_set"]))
    prompts = tables.table("prompts", prompt_set=sets)
    return choose_rows(estimand, rows, prompts, values, sources or None)


def _build_query(sources: Sequence[str]) -> dict[str, list[str]]:
    """Which rows `Evidence.table` is asked for."""
    return {"source": list(sources)} if sources else {}


def build_penultimate_features(tables: Evidence) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Features of the files of penultimate gains, and what a fit has to know of them: files,
    prompts of every set."""
    rows = build_source_features(tables, PYTHIA, HUNT)
    sets = sorted(set(rows["prompt_set"]))
    prompts = tables.table("prompts", prompt_set=sets)
    sizes = prompts.groupby("prompt_set").size()
    counts = {}
    for name, size in sizes.items():
        counts[str(name)] = int(size)
    return rows, {"source": [PYTHIA, HUNT], "prompt_counts": counts}


def load_gains(tables: Evidence) -> pd.DataFrame:
    """One row per model whose penultimate gain was published, with t intervals over prompts where
    there are some.

    Of another set of evidence those of `model_rows` of which a lab is known.

    A model that is in both files is taken from the one with more prompts. To the columns of
    `features` come `gain` (the penultimate one), `log_gain`, `n_prompts`, `lower`, `upper`,
    `total_to_penultimate` = n_(L-1)/n_1 and `total_from_input` = n_(L-1)/n_0. Published standard
    deviations are of the population (divisor n) and are scaled to n - 1.
    """
    if tables.name in VIEWS:
        return drop_unlabelled(model_rows(tables, incomparable=True), "heritage")
    rows, details = build_penultimate_features(tables)
    averaged = rows["penultimate_gain_n"].fillna(0) == 0
    n_prompts = rows["prompt_set"].map(details["prompt_counts"])
    rows["n_prompts"] = n_prompts.astype("float64")
    n = rows["n_prompts"]
    of_sample = np.sqrt(n / (n - 1))
    to_sample = np.where(averaged, of_sample, 1.0)
    sd = rows["penultimate_gain_sd"] * to_sample
    reach = measure_margin(sd, n - 1)
    half = reach / np.sqrt(n)
    gain = rows["penultimate_gain"]
    rows = rows.assign(gain=gain, log_gain=np.log(gain), lower=gain - half, upper=gain + half)
    inner = rows["n_layers"] - 2
    rows["total_to_penultimate"] = rows["geometric_gain_to_penultimate"] ** inner
    layers = tables.table("layers", source=[PYTHIA, HUNT], position="last")
    is_average = layers["prompt_id"] == ""
    averages = (layers["layer"] == 1) & is_average
    first = layers[averages].set_index("run_id")["gain_block"]
    first_gain = rows["run_id"].map(first)
    rows["total_from_input"] = rows["total_to_penultimate"] * first_gain
    return pick_model_rows(rows.dropna(subset="gain"))


SIZES_OF_A_FAMILY = 3
"""Depths that a family must have for a question about depth within families."""


def load_family_gains(tables: Evidence) -> pd.DataFrame:
    """Comparable models of `load_gains` by depth: the Pythia models of the study's own files, and
    of other sets of evidence every family of three depths or more; models whose family nobody
    stated are of none."""
    rows = drop_unlabelled(load_gains(tables), "family")
    if tables.name == PUBLISHED:
        rows = rows[rows["source"] == PYTHIA]
    depths = rows.groupby("family")["n_layers"].transform("nunique")
    several = rows["comparable"] & (depths >= SIZES_OF_A_FAMILY)
    return rows[several].sort_values("n_layers", ignore_index=True)


def expand_prompts(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per prompt of models of `load_gains`: values with the mean and the t interval that
    the model has.

    Columns: model_id, heritage, prompt_id, category (empty), gain.
    """
    columns = ["model_id", "heritage", "category", "prompt_id", "gain"]
    made = [pd.DataFrame(columns=columns)] if rows.empty else []
    for row in rows.itertuples():
        n = int(row.n_prompts)
        half = (row.upper - row.lower) / 2
        error = half / measure_margin(1.0, n - 1)
        sd = error * math.sqrt(n)
        scores = stats.zscore(np.arange(n), ddof=1)
        gains = row.gain + sd * scores
        facts = {
            "model_id": row.model_id,
            "heritage": row.heritage,
            "category": "",
            "prompt_id": range(n),
        }
        made.append(pd.DataFrame(facts).assign(gain=gains))
    return pd.concat(made, ignore_index=True)
