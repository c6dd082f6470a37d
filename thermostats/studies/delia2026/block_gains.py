"""Gains of the blocks after the first, of models that were measured at every one of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.studies.delia2026.stated_audits import FOCAL
from thermostats.tables.labels import drop_unlabelled

FACTS = ["run_id", "model_id", "heritage", "family", "source", "n_layers"]
DEEP = 12
"""Blocks from which on a model's profile shows where along its depth it grows."""


def collect_block_gains(evidence: Evidence) -> pd.DataFrame:
    """Log gains of blocks 2 to L − 1 of comparable models that lack none, a row each: means over
    prompts."""
    every = load_gains(evidence)
    comparable = every[every["comparable"]].reset_index(drop=True)
    rows = drop_unlabelled(comparable, "heritage", "family")
    layers = _select_layers(evidence, rows)
    logs = np.log(layers["gain_block"].astype(float))
    run_and_layer = [layers["run_id"], layers["layer"]]
    means = logs.groupby(run_and_layer).mean()
    by_layer = means.rename("log_gain").reset_index()
    blocks = by_layer.merge(rows[FACTS], on="run_id")
    blocks = blocks.astype({"layer": int, "n_layers": int})
    before_last = blocks["layer"] < blocks["n_layers"]
    inner = (blocks["layer"] > 1) & before_last
    blocks = blocks[inner]
    n_blocks = blocks.groupby("model_id")["layer"].transform("size")
    n_inner = blocks["n_layers"] - 2
    whole = blocks[n_blocks == n_inner]
    return whole.assign(focal=whole["heritage"] == FOCAL).reset_index(drop=True)


def _select_layers(evidence: Evidence, rows: pd.DataFrame) -> pd.DataFrame:
    """Gains at the last token of these runs: averages where a run has them, else its prompts."""
    layers = evidence.table("layers", position="last")
    of_runs = layers["run_id"].isin(rows["run_id"])
    layers = layers[of_runs & (layers["gain_block"] > 0)]
    average = layers["prompt_id"].eq("")
    run_and_layer = [layers["run_id"], layers["layer"]]
    has_average = average.groupby(run_and_layer).transform("any")
    return layers[average | ~has_average]


def choose_spread_models(blocks: pd.DataFrame, most: int) -> pd.DataFrame:
    """Blocks of so many models of at least `DEEP` blocks, one a lab (its lowest penultimate gain),
    whose penultimate gains are spread evenly by rank, the lowest and highest among them."""
    deep = blocks[blocks["n_layers"] >= DEEP]
    before_last = deep["n_layers"] - 1
    penultimate = deep[deep["layer"] == before_last]
    ordered = penultimate.sort_values(["log_gain", "model_id"]).drop_duplicates("heritage")
    n = len(ordered)
    places = np.linspace(0, n - 1, min(most, n))
    places = places.round().astype(int)
    chosen = ordered["model_id"].iloc[places]
    return blocks[blocks["model_id"].isin(chosen)]
