"""From the tables to rows for `fit_heritage`: one per prompt, or a mean with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.columns import models_missing, named
from thermostats.modelling.model_gains import fewer_prompts, of_sources, one_of_several
from thermostats.tables import store
from thermostats.tables.features import LAST, by_prompt, features
from thermostats.tables.schemas import GAINS, NURSERY

GEOMETRY = ("n_layers", "n_heads", "d_head")
SCALE = ("n_params",)
SAID = "left out"
"""Under this name `DataFrame.attrs` of the rows holds what `said_of` gives."""


def said_of(rows: pd.DataFrame) -> tuple[str, ...]:
    """What was left out before these rows were made, in words; nothing of rows that `gain_rows` did not make.

    Selections and sorted copies keep it; tables put together from several do not.
    """
    return tuple(rows.attrs.get(SAID, ()))


def gain_rows(
    estimand: str,
    *,
    data: str | Path | None = None,
    source: str | Sequence[str] | None = None,
    incomparable: bool = False,
    position: str = LAST,
) -> pd.DataFrame:
    """Rows for `fit_heritage` from the tables: base models, each from its run with the most prompts.

    A model whose variant is not stated counts as a base model, unless it is of the controlled study.

    A model measured prompt by prompt has a row per prompt (`gain`); one of which only mean and standard deviation over
    prompts are known has one row with `prompt_id` empty, `gain`, `gain_sd` (divisor n − 1) and `n_prompts`. `source`:
    files or measurements to take, in order of preference; all by default. `position`: token of the gains.
    Models whose gains are near 1 by construction are left out unless `incomparable`. `fit_heritage` warns of models
    and prompts that are left out (`said_of`).

    Raises UsageError for a gain that is not in `GAINS` or that no row of these sources holds.
    """
    loaded = {name: store.load(name, data) for name in ("runs", "models", "layers", "summaries")}
    files = [source] if isinstance(source, str) else source
    table, values = features(data, position=position), by_prompt(**loaded, position=position)
    return chosen_rows(estimand, table, store.load("prompts", data), values, files, incomparable)


def chosen_rows(
    estimand: str,
    table: pd.DataFrame,
    prompts: pd.DataFrame,
    values: pd.DataFrame,
    files: Sequence[str] | None = None,
    incomparable: bool = False,
) -> pd.DataFrame:
    """Rows for `fit_heritage` from tables at hand: `features`, `prompts`, and gains by prompt as of `by_prompt`."""
    if estimand not in GAINS:
        raise UsageError("no such gain", got=estimand, allowed=", ".join(GAINS))
    unstated = (table["variant"] == "") & (table["source"] != NURSERY)  # there: unfinished, or trained on
    table = table.assign(variant=table["variant"].mask(unstated, "base"))
    fit_for_it = (table["variant"] == "base") & table[estimand].notna() & (table["comparable"] | incomparable)
    in_question = of_sources(table, estimand, files, fit_for_it)
    rows, sizes = in_question[fit_for_it[in_question.index]], prompts.groupby("prompt_set").size()
    each = rows[f"{estimand}_n"].fillna(0).astype("int64")
    rows = rows.assign(each=each > 0, n_prompts=each.where(each > 0, rows["prompt_set"].map(sizes)))
    base = in_question[in_question["variant"] == "base"]
    with_gain = base[base[estimand].notna()]
    notes = models_missing(base["model_id"], with_gain["model_id"], f"no {estimand}")
    if pinned := set(with_gain["model_id"]) - set(rows["model_id"]):
        notes.append("left out, since normalised after the sum: " + named(pinned))
    if tuned := set(in_question.loc[in_question[estimand].notna(), "model_id"]) - set(base["model_id"]):
        notes.append("left out, not a base model: " + named(tuned))
    rows = one_of_several(rows, files, notes, first=["each"])
    each = rows[rows["each"]]
    notes += fewer_prompts(each, estimand, each["prompt_set"].map(sizes))
    facts = ["model_id", "heritage", "family", *GEOMETRY, *SCALE]
    shared = [*facts, "source", "token_position", "prompt_set", "n_prompts"]
    averaged = rows[~rows["each"]]
    n = averaged["n_prompts"].astype("float64")
    means = averaged[shared].assign(
        prompt_id="", category="", gain=averaged[estimand], gain_sd=averaged[f"{estimand}_sd"] * np.sqrt(n / (n - 1))
    )
    values = values[(values["gain"] == estimand) & (values["prompt_id"] != "")]
    single = rows.loc[rows["each"], ["run_id", *shared]].merge(
        values[["run_id", "prompt_id", "value"]].rename(columns={"value": "gain"}), on="run_id"
    )
    single = single.merge(prompts[["prompt_set", "prompt_id", "category"]], on=["prompt_set", "prompt_id"], how="left")
    both = pd.concat([part for part in (single.drop(columns="run_id"), means) if len(part)], ignore_index=True)
    ordered = both.sort_values(["model_id", "prompt_id"], kind="stable", ignore_index=True)
    ordered.attrs[SAID] = tuple(notes)
    return ordered
