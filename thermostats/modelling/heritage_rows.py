"""Rows for the heritage model from the tables: a row per prompt, or a mean with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.heritage_design import GEOMETRY, SCALE
from thermostats.tables import store
from thermostats.tables.features import GAINS, by_prompt, features


def gain_rows(
    estimand: str, *, data: str | Path | None = None, sources: Sequence[str] | None = None, incomparable: bool = False
) -> pd.DataFrame:
    """Rows for `fit_heritage` from the tables: base models, each from its run with most prompts.

    A model measured prompt by prompt has a row per prompt (`gain`); one of which only mean and standard deviation over
    prompts are known has one row with `prompt_id` empty, `gain`, `gain_sd` (divisor n − 1) and `n_prompts`. Models
    whose gains are near 1 by construction are left out unless `incomparable`.
    """
    if estimand not in GAINS:
        raise UsageError("no such gain", got=estimand, allowed=", ".join(GAINS))
    rows = features(data)
    rows = rows[(rows["variant"] == "base") & rows[estimand].notna() & (rows["comparable"] | incomparable)]
    if sources is not None:
        rows = rows[rows["source"].isin(list(sources))]
    prompts = store.load("prompts", data)
    sizes = prompts.groupby("prompt_set").size()
    each = rows[f"{estimand}_n"].fillna(0).astype("int64")
    rows = rows.assign(each=each > 0, n_prompts=each.where(each > 0, rows["prompt_set"].map(sizes)))
    rows = rows.sort_values(["model_id", "each", "n_prompts", "source"], ascending=[True, False, False, True])
    rows = rows.drop_duplicates("model_id")
    shared = ["model_id", "heritage", "family", *GEOMETRY, *SCALE, "source", "prompt_set", "n_prompts"]
    n = rows["n_prompts"].astype("float64")
    averaged = rows.loc[~rows["each"], shared].assign(
        prompt_id="",
        category="",
        gain=rows[estimand],
        gain_sd=rows[f"{estimand}_sd"] * np.sqrt(n / (n - 1)),
    )
    values = by_prompt(**{name: store.load(name, data) for name in ("runs", "models", "layers", "summaries")})
    values = values[(values["gain"] == estimand) & (values["prompt_id"] != "")]
    single = rows.loc[rows["each"], ["run_id", *shared]].merge(
        values[["run_id", "prompt_id", "value"]].rename(columns={"value": "gain"}), on="run_id"
    )
    single = single.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"], how="left")
    both = pd.concat([single.drop(columns="run_id"), averaged], ignore_index=True)
    return both.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
