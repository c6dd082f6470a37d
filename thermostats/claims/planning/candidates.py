"""Public models that could be measured, and the rows that they would bring.

A model that is not measured yet has no gains. To know which rows a claim would read of it, the
tables get rows of a model at hand under its name and at its depth; the claim's own selection then
runs on them. Only which rows there are is used: outcomes are simulated afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.claims.evidence import LAST, MEASURED, Evidence
from thermostats.errors import DataError, UsageError, join_some
from thermostats.tables import store
from thermostats.tables.choices import DECODER
from thermostats.tables.schemas import list_dtypes

TABLE = "candidates"
SHAPE = ("n_layers", "n_heads", "d_model", "n_params")
"""What a candidate must state."""
NAMES = ("model_id", "heritage", "family")
OTHERWISE = {
    "variant": "base",
    "modality": DECODER,
    "norm_kind": "RMSNorm",
    "comparable": True,
    "stages": 1,
    "source": "your list",
}
"""What a list of one's own need not state."""
BYTES = 2
"""Of a weight as stored, bfloat16."""
STANDING = {"revision": "main", "norm_place": "pre", "source": "planned"}
"""What is supposed of a candidate that its row does not say."""
SCATTER = 0.05
"""Standard deviation of the logs of numbers that stand for a candidate's about the donor's."""
WHOLE = ("layer", "relative_depth", "n_tokens")
"""Numbers that are no outcomes."""
MEASURED_TABLES = {
    "gains": ("layers", "summaries"),
    "weights": ("weights",),
    "outputs": ("outputs",),
    "attention": ("attention", "transitions"),
}
"""Tables that each kind of measurement fills."""


def read_candidates(path: str | Path | None = None) -> pd.DataFrame:
    """Candidates that ship, or those of a CSV file of one's own, without those whose gains are near
    1 by construction.

    A file of one's own needs the columns `NAMES` and `SHAPE`. Its download follows from
    `n_params` where it is not stated. Raises UsageError for a file that is not there, lacks columns
    or has models without shape.
    """
    if path is None:
        rows = store.load(TABLE)
        return rows[rows["comparable"]].reset_index(drop=True)
    file = Path(path)
    if not file.is_file():
        raise UsageError("no such file", where=file, next_step="thermostats next X02")
    own = pd.read_csv(file)
    needed = [*NAMES, *SHAPE]
    if lacking := [name for name in needed if name not in own]:
        raise UsageError(
            "a list of candidates lacks columns",
            where=file,
            got=f"no {', '.join(lacking)}",
            allowed=", ".join(needed),
            next_step="thermostats ls columns candidates",
        )
    unshaped = own[list(SHAPE)].apply(pd.to_numeric, errors="coerce")
    is_whole = (unshaped > 0).all(axis=1)
    bad = own.loc[~is_whole, "model_id"].astype(str).tolist()
    if bad:
        raise UsageError(
            "candidates without shape",
            where=file,
            got=", ".join(bad[:5]),
            allowed=f"numbers above 0 in {', '.join(SHAPE)}",
            next_step="state them, or leave these rows out",
        )
    return _completed(own.assign(**unshaped), file)


def _completed(own: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Rows of one's own with every column of the table; what is not stated follows, or is what most
    have."""
    size = own["n_params"].astype(float)
    follows = {
        "n_kv_heads": own["n_heads"],
        "d_head": own["d_model"] // own["n_heads"],
        "d_ff": 4 * own["d_model"],
        "n_params_nonembedding": size,
        "download_gb": BYTES * size / 1e9,
    }
    given = {}
    for name, value in follows.items():
        if name in own:
            given[name] = own[name].fillna(value)
    standing = {}
    for name, value in OTHERWISE.items():
        if name in own:
            standing[name] = own[name].fillna(value)
    rows = own.assign(**{**follows, **OTHERWISE, **given, **standing})
    rows = _as_table(rows, TABLE)
    if (twice := rows["model_id"][rows["model_id"].duplicated()]).size:
        raise UsageError(
            "a candidate is listed twice", where=file, got=twice.iloc[0], allowed="one row a model"
        )
    return rows[rows["comparable"].astype(bool)].reset_index(drop=True)


def _as_table(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows with the columns and types of a table; what they lack is empty."""
    types = list_dtypes(name)
    made = rows.reindex(columns=list(types)).astype(types)
    texts = []
    for label in made:
        if pd.api.types.is_string_dtype(made[label].dtype):
            texts.append(label)
    return made.assign(**{label: made[label].fillna("") for label in texts})


def planned_tables(
    candidates: pd.DataFrame, evidence: Evidence, measures: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """Rows that measuring candidates would add to every table, with numbers of models at hand in
    the place of theirs.

    measures: kinds of measurement, of `MEASURED_TABLES`. Raises DataError where no measured model
    could stand for one.
    """
    here = evidence.named(MEASURED)
    modalities = sorted(set(candidates["modality"]))
    made: dict[str, list[pd.DataFrame]] = {}
    runs: list[pd.DataFrame] = []
    for table in dict.fromkeys(name for kind in measures for name in MEASURED_TABLES[kind]):
        for modality in modalities:
            donor = _donor(here, table, modality)
            own = candidates[candidates["modality"] == modality]
            if donor.empty or own.empty:
                continue
            made.setdefault(table, []).append(_resampled(donor, own))
            runs.append(_runs_of(here, donor, own, modality))
    if not made:
        raise DataError(
            "no model at hand was measured as these candidates would be",
            got=", ".join(modalities),
            allowed=f"models with {join_some(measures)}",
        )
    tables = {}
    for name, parts in made.items():
        tables[name] = _as_table(pd.concat(parts), name)
    every_run = pd.concat(runs).drop_duplicates("run_id")
    models = candidates.assign(d_embed=candidates["d_model"], **STANDING)
    return {
        **tables,
        "runs": _as_table(every_run, "runs"),
        "models": _as_table(models, "models"),
        "lineage": _as_table(candidates, "lineage"),
    }


def planned_evidence(
    evidence: Evidence, tables: Mapping[str, pd.DataFrame], models: Collection[str]
) -> Evidence:
    """A set of evidence with the rows that some candidates would add."""
    chosen = {}
    for name, rows in tables.items():
        ids = rows["model_id"] if "model_id" in rows else rows["run_id"].str.partition("|")[2]
        chosen[name] = rows[ids.isin(list(models))]
    return evidence.with_rows(chosen)


def _donor(here: Evidence, table: str, modality: str) -> pd.DataFrame:
    """Rows of one measured model of a modality: of the one whose rows are most complete."""
    rows = here.table(table, modality=modality) if modality != DECODER else here.table(table)
    if table == "layers" and modality == DECODER:
        rows = rows[rows["position"] == LAST]
    if table == "attention":
        rows = rows[rows["head"] == ""]
    if rows.empty:
        return rows
    complete = rows.notna().mean(axis=1).groupby(rows["model_id"]).mean()
    return rows[rows["model_id"] == complete.idxmax()].reset_index(drop=True)


def _resampled(donor: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """The donor's rows under every candidate's run, its blocks stretched to the candidate's
    depth."""
    parts = []
    for model, depth in zip(candidates["model_id"], candidates["n_layers"], strict=True):
        rows = donor
        if "layer" in donor:
            rows = _stretched(donor, int(depth))
        parts.append(rows.assign(run_id=rows["run_id"] + f"|{model}"))
    return _scattered(pd.concat(parts, ignore_index=True))


def _scattered(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose numbers differ from model to model, as no test takes models that are all alike."""
    values = []
    for name in rows:
        if name not in WHOLE and pd.api.types.is_float_dtype(rows[name].dtype):
            values.append(name)
    normal = np.random.default_rng(1).standard_normal((len(rows), len(values)))
    factors = np.exp(SCATTER * normal)
    scattered = {}
    for k, name in enumerate(values):
        scattered[name] = rows[name] * factors[:, k]
    return rows.assign(**scattered)


def _stretched(donor: pd.DataFrame, depth: int) -> pd.DataFrame:
    """Rows by block of a model of another depth: each block has those of the donor's block at the
    same share of the depth; what stands outside of the blocks stays."""
    blocks = donor["layer"].fillna(0).to_numpy(np.int64)
    last = int(blocks.max())
    if last < 1:
        return donor
    wanted = np.arange(1, depth + 1)
    blocks_there = 1 + (wanted - 1) * (last - 1) / max(depth - 1, 1)
    nearest = np.rint(blocks_there).astype(np.int64)
    places = [np.flatnonzero(blocks == block) for block in nearest]
    inside = donor.iloc[np.concatenate(places)]
    layers = np.repeat(wanted, [place.size for place in places])
    return pd.concat([donor[blocks < 1], inside.assign(layer=layers)], ignore_index=True)


def _runs_of(
    here: Evidence, donor: pd.DataFrame, candidates: pd.DataFrame, modality: str
) -> pd.DataFrame:
    """Runs of candidates that the donor's runs stand for."""
    kind = {} if modality == DECODER else {"modality": modality}
    runs = here.table("runs", **kind)
    runs = runs[runs["run_id"].isin(donor["run_id"])]
    named = runs.drop(columns=["model_id", "revision"]).merge(candidates[["model_id"]], how="cross")
    return named.assign(run_id=named["run_id"] + "|" + named["model_id"], revision="main")
