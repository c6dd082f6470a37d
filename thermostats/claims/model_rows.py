"""One row per model of any set of evidence, with intervals over prompts: what a question about models is put to."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.tables.evidence import origin
from thermostats.tables.pooling import LEVELS, pooled
from thermostats.tables.reading import of_last_revision
from thermostats.tables.seeds import one_a_recipe
from thermostats.tables.vocabulary import GAINS

LEVEL = 0.95
SHALLOW = 2
"""Blocks of a model whose penultimate block is the first, which lifts the embedding: it has no penultimate gain."""
OF_OTHER_RUNS = ("L_star_", "wv_", "wo_")
"""Columns of `features` that another run of the same model may have."""


def model_rows(evidence: Evidence, named: str = "penultimate_gain") -> pd.DataFrame:
    """One row per model with a named gain, at its last revision; a tuned model only without its base, seeds together.

    Columns of `features`, and `gain` (the named one), `log_gain`, `n_prompts`, `lower` and `upper` (t interval over
    prompts, 95%), `total_to_penultimate` = n_(L−1)/n_1 and `total_from_input` = n_(L−1)/n_0. Of several measurements
    the one with most prompts counts; in the set `pooled` all of them, by `tables.pooling`, the files of a study
    being one instrument.
    """
    every = of_last_revision(evidence.table("features"), "model_id")
    every = every[every["n_layers"] > SHALLOW]
    every = every[~((every["variant"] == "instruct") & every["parent"].isin(every["model_id"]))]
    sizes, known = evidence.table("prompts").groupby("prompt_set").size(), every[f"{named}_n"].astype("float64")
    every = every.assign(n_prompts=known.where(known > 0, every["prompt_set"].map(sizes).astype("float64")))
    rows = every.dropna(subset=named).sort_values(["model_id", "n_prompts"], ascending=[True, False], kind="stable")
    first = rows.drop_duplicates("model_id").set_index("model_id")
    others = [name for name in every if str(name).startswith(OF_OTHER_RUNS)]
    first[others] = first[others].fillna(every.groupby("model_id")[others].first())
    error = _error(first, named)
    if evidence.name == POOLED:
        files = evidence.table("sources")["file"]
        every = every.assign(source=origin(every["source"], set(files)))
        for gain in GAINS:
            measured = every.dropna(subset=gain)
            long = measured[["model_id", *LEVELS]].assign(
                y=np.log(measured[gain]), e=_error(measured, gain).fillna(0.0)
            )
            one = pooled(long)
            first[gain] = np.exp(one["y"]).reindex(first.index)
            if gain == named:
                error = one["e"].reindex(first.index)
    first = one_a_recipe(first.reset_index()).set_index("model_id")
    error = error.reindex(first.index)
    gain, n = first[named], first["n_prompts"]
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error * gain
    total = first["geometric_gain_to_penultimate"] ** (first["n_layers"] - 2)
    layers = evidence.table("layers", position="last")
    block_1 = layers[layers["layer"] == 1].groupby("run_id")["gain_block"].mean()
    return first.assign(
        gain=gain,
        log_gain=np.log(gain),
        lower=gain - half,
        upper=gain + half,
        total_to_penultimate=total,
        total_from_input=total * first["run_id"].map(block_1).astype("float64"),
    ).reset_index()


def _error(rows: pd.DataFrame, gain: str) -> pd.Series:
    """Standard error over prompts of the log of a gain."""
    return (rows[f"{gain}_sd"] / rows[gain] / np.sqrt(rows["n_prompts"])).astype("float64")
