"""What there is, as rows: the architectures, tables, models, prompt sets, runs, claims and findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from thermostats.errors import DataError, UsageError
from thermostats.reporting.snapshot import findings_file
from thermostats.tables import states, store
from thermostats.tables.feature_columns import feature_columns
from thermostats.tables.folders import layers, own_files
from thermostats.tables.mapping import when_joined
from thermostats.tables.schemas import TABLES, key

Rows = tuple[list[dict[str, Any]], list[str]]
OWN = ("models", "runs")
"""Listings that can be of the folder's own rows alone."""


def rows(
    what: str,
    data: str | Path | None = None,
    *,
    own: bool = False,
    table: str | None = None,
    analyses: Path | None = None,
) -> Rows:
    """Rows and the columns to show of one listing; `own`: of models and runs those alone that lie in the folder itself.

    table: of columns, those of this table alone. analyses: folder of claims. The verb has checked the names. Raises
    UsageError where there is no listing of own rows.
    """
    if own and what not in OWN:
        raise UsageError("own rows are not listed apart", got=what, allowed=", ".join(OWN))
    if what == "columns":
        return _columns(table)
    if what == "architectures":
        return _architectures()
    if what == "claims":
        return _claims(analyses or store.shipped("analyses"))
    read: dict[str, Callable[[str | Path | None, bool], Rows]] = {
        "models": _models,
        "prompts": _prompts,
        "runs": _runs,
        "tables": _tables,
    }
    return read[what](data, own)


def findings(out: Path) -> list[dict[str, Any]]:
    """Findings of the last report, each claim's headline first, named figures as objects."""
    path = findings_file(out)
    frame = store.validate(store.read(path, "findings"), "findings", path)
    frame = frame.sort_values(["claim", "headline"], ascending=[True, False], kind="stable")
    try:
        named = {name: frame[name].map(json.loads) for name in ("published", "reproduced")}
    except (ValueError, RecursionError) as error:
        got, step = str(error), "thermostats report --all"
        raise DataError("the named figures of a finding are no JSON", where=path, got=got, next_step=step) from error
    return _records(frame.assign(**named))


def _claims(analyses: Path) -> Rows:
    """The claims of a folder of analyses, without running them."""
    from thermostats.claims.run import claims  # noqa: PLC0415 - listing tables must not load it

    listed = [
        {"claim": claim.id, "title": claim.title, "reads": claim.rows, "said": claim.said, "rule": claim.rule}
        for claim in claims(analyses)
    ]
    return listed, ["claim", "title", "reads"]


def _tables(data: str | Path | None, own: bool) -> Rows:
    listed = [
        {"table": name, "rows": len(store.load(name, data)), "key": ", ".join(key(name)), "meaning": schema.description}
        for name, schema in TABLES.items()
    ]
    return listed, list(listed[0])


def _columns(table: str | None) -> Rows:
    listed = [
        {
            "table": name,
            "column": label,
            "key": "key" if label in key(name) else "",
            "joined": when_joined(name, label),
            "type": column.metadata["dtype"],
            "unit": column.metadata["unit"],
            "meaning": "; ".join([str(column.description), *_values(column)]),
        }
        for name, schema in TABLES.items()
        for label, column in schema.columns.items()
    ]
    listed += [{"table": "features", "key": "", "joined": "", **asdict(each)} for each in feature_columns()]
    return [row for row in listed if table in (None, row["table"])], list(listed[0])


def _values(column: pa.Column) -> list[str]:
    """The values that a column of text may have, where its meaning does not name them."""
    allowed = [check.statistics["allowed_values"] for check in column.checks if check.name == "isin"]
    shown = [value for values in allowed for value in values if value]
    return [f"one of {', '.join(shown)}"] * any(value not in str(column.description) for value in shown)


def _models(data: str | Path | None, own: bool) -> Rows:
    shown = ["model_id", "heritage", "family", "variant", "n_layers", "d_model", "n_heads", "d_head", "n_params"]
    return _records(_own_last("models", data, own)), shown


def _prompts(data: str | Path | None, own: bool) -> Rows:
    sets = (
        store.load("prompts", data)
        .groupby("prompt_set")
        .agg(
            prompts=("prompt_id", "size"),
            texts=("text", lambda texts: int((texts != "").sum())),
            categories=("category", lambda values: ", ".join(sorted(set(values) - {""}))),
        )
    )
    return _records(sets.reset_index()), ["prompt_set", "prompts", "texts", "categories"]


def _runs(data: str | Path | None, own: bool) -> Rows:
    """Runs in the tables, then specs that are not measured: waiting, running, interrupted or failed."""
    shown = ["run_id", "model_id", "revision", "dtype", "prompt_set", "source", "state", "reason"]
    runs = _own_last("runs", data, own).assign(state=states.DONE, reason="")
    empty = dict.fromkeys(runs.columns) | {"run_id": "", "source": ""}
    left = [
        {**empty, "model_id": spec.model, "revision": spec.revision, "dtype": spec.dtype, "prompt_set": spec.prompts}
        | {"state": spec.state, "reason": spec.reason}
        for spec in states.read(store.data_folder(data))
    ]
    return [*_records(runs), *left], shown


def _architectures() -> Rows:
    from thermostats.measurement.architectures import ARCHITECTURES  # noqa: PLC0415 - listing tables needs no models

    listed = [
        {
            "architecture": entry.name,
            "model_type": entry.model_type,
            "values": entry.layout,
            "parallel": entry.parallel,
            "additive": entry.additive,
            "when": ", ".join(f"{name} = {value}" for name, value in entry.when),
        }
        for entry in ARCHITECTURES
    ]
    return listed, list(listed[0])


def _own_last(name: str, data: str | Path | None, alone: bool) -> pd.DataFrame:
    """Rows of a table, those of a user's store below the package's, where they are seen; `alone`: without these."""
    frame, folder = store.load(name, data), store.data_folder(data)
    if not layers(folder)[:-1]:
        return frame
    held = [store.read(path, name)[key(name)] for path in own_files(name, folder)]
    keys = pd.MultiIndex.from_frame(pd.concat(held) if held else frame[key(name)].iloc[:0])
    own = pd.MultiIndex.from_frame(frame[key(name)]).isin(keys)
    return frame[own] if alone else pd.concat([frame[~own], frame[own]], ignore_index=True)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values, a missing one as None."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(frame.columns, row, strict=True)) for row in plain.itertuples(index=False, name=None)]
