"""A fit as a netCDF file: draws, rows, words, and the call that made it, which gives it its
functions again.

`load_fit` makes it a fit again.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray
from scipy import stats

from thermostats.errors import DataError, UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.laws import Call
from thermostats.tables.tree import Tree

FORMAT = "thermostats fit 2"
OF_DRAWS = ("engine", "attempts", "effective", "log_evidence", "seconds")
TABLE = "a table as Parquet"
SETTINGS = "settings of the sampler"
TREE = "a tree"
DISTRIBUTION = "a distribution of scipy.stats"
OF_FIT = ("seed", "level", "estimand", "sources", "warnings")


def save(fit: FittedLaw, path: str | Path) -> Path:
    """Write a fit to a netCDF file and return its path; raises UsageError where it cannot be
    written."""
    target = Path(path)
    variables = {}
    for name, values in fit.draws.values.items():
        axes = [f"{name}_{i}" for i in range(values.ndim - 2)]
        variables[name] = (("chain", "draw", *axes), values)
    own = {**fit.design.declared, "units": fit.law.units}
    diagnostics = fit.draws.diagnostics.to_json(orient="table", index=False, double_precision=15)
    of_draws = {name: getattr(fit.draws, name) for name in OF_DRAWS}
    of_fit = {name: getattr(fit, name) for name in OF_FIT}
    record = {
        "format": FORMAT,
        "law": fit.law.name,
        "own": json.dumps(own, default=np.ndarray.tolist),
        "rows": json.dumps(_pack_value(fit.rows)),
        "diagnostics": diagnostics,
        "draws": json.dumps(of_draws),
        "settings": json.dumps(asdict(fit.draws.settings)),
        "fit": json.dumps(of_fit),
        "call": _call_text(fit.call),
    }
    try:
        dataset = xarray.Dataset(variables, attrs=record)
        dataset.to_netcdf(target, engine="h5netcdf")
    except OSError as error:
        raise UsageError(
            "a fit cannot be written",
            where=target,
            got=error,
            next_step="choose a folder that exists",
        ) from error
    return target


def _call_text(call: Call | None) -> str:
    """A call as JSON, its tables as Parquet; empty where there is none, or where an argument is a
    function."""
    if call is None or any(callable(value) for value in call.arguments.values()):
        return ""
    arguments = {}
    for name, value in call.arguments.items():
        arguments[name] = _pack_value(value)
    record = {"module": call.module, "function": call.function, "arguments": arguments}
    return json.dumps(record, default=lambda value: value.tolist())


def read_call(text: str) -> Call:
    record = json.loads(text)
    arguments = record["arguments"]
    record["arguments"] = {name: _unpack_value(value) for name, value in arguments.items()}
    return Call(**record)


def _pack_value(value: Any) -> Any:
    if isinstance(value, pd.DataFrame):
        buffer = io.BytesIO()
        _convert_storable(value).to_parquet(buffer)
        packed = base64.b64encode(buffer.getvalue())
        return {TABLE: packed.decode()}
    if isinstance(value, Tree):
        stored = [each.name for each in fields(value) if each.repr]
        return {TREE: {name: getattr(value, name) for name in stored}}
    if isinstance(value, Settings):
        return {SETTINGS: asdict(value)}
    if isinstance(value, Mapping):
        return {name: _pack_value(each) for name, each in value.items()}
    return _pack_distribution(value)


def _pack_distribution(value: Any) -> Any:
    """A frozen distribution by its name and numbers; all else as it is."""
    if hasattr(value, "dist") and hasattr(value, "kwds"):
        return {DISTRIBUTION: [value.dist.name, list(value.args), dict(value.kwds)]}
    if isinstance(value, type(stats.dirichlet([1.0, 1.0]))):
        return {DISTRIBUTION: ["dirichlet", [value.alpha], {}]}
    return value


def _convert_storable(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with columns of which Parquet has no kind as text."""

    def stored(column: pd.Series) -> pd.Series:
        try:
            pa.array(column)
        except pa.ArrowException:
            return column.astype(str)
        return column

    columns = {}
    for name in table:
        if isinstance(name, str):
            columns[name] = stored(table[name])
    return table.assign(**columns)


def read_rows(text: str) -> pd.DataFrame:
    stored = json.loads(text)
    return pd.DataFrame(_unpack_value(stored))


def _unpack_value(value: Any) -> Any:
    if isinstance(value, Mapping) and TABLE in value:
        return pd.read_parquet(io.BytesIO(base64.b64decode(value[TABLE])))
    if isinstance(value, Mapping) and TREE in value:
        return _rebuild_tree(value[TREE])
    if isinstance(value, Mapping) and SETTINGS in value:
        return Settings(**value[SETTINGS])
    if isinstance(value, Mapping) and DISTRIBUTION in value:
        name, shapes, named = value[DISTRIBUTION]
        distribution = getattr(stats, name)
        return distribution(*shapes, **named)
    if isinstance(value, Mapping):
        return {name: _unpack_value(each) for name, each in value.items()}
    return value


def _rebuild_tree(record: Mapping[str, Any]) -> Tree:
    return Tree(
        names=tuple(record["names"]),
        parents=tuple(map(tuple, record["parents"])),
        shares=tuple(map(tuple, record["shares"])),
        lengths=np.array(record["lengths"]),
        kinds=tuple(record["kinds"]),
        unit=record["unit"],
        notes=tuple(record["notes"]),
    )


def read_file(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The words and the draws of a file."""
    if not path.is_file():
        raise UsageError("no such file", got=path, allowed="a file that fit.save(path) wrote")
    try:
        with xarray.open_dataset(path, engine="h5netcdf") as file:
            values = {}
            for name in file.data_vars:
                draws = file[name].values
                values[str(name)] = np.asarray(draws, dtype=np.float64)
            record = {}
            for name, value in file.attrs.items():
                record[str(name)] = str(value)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            "a saved fit is damaged", where=path, got=error, next_step="fit and save it again"
        ) from error
    if record.get("format") != FORMAT:
        raise UsageError(
            "no saved fit", got=path, allowed=f"a file that fit.save(path) wrote ({FORMAT})"
        )
    return record, values
