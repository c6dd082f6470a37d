"""Mappings that rows were joined by, kept in the user's folder, so that rows of the same columns
need none again.

`mappings.json` of a folder has the latest of each set of columns. What a printed line adds to rows
because no column said it, such as a lab, is kept with it where it was the same for all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError, join_some
from thermostats.tables.choices import PLACEHOLDERS
from thermostats.tables.column_map import OTHERS, ColumnMap, is_gain, load_maps, resolve_aliases
from thermostats.tables.folders import write_atomically
from thermostats.tables.labels import list_unknown
from thermostats.tables.remedies import JoinCall, Remedy
from thermostats.tables.schemas import FLOAT, INTEGER, list_dtypes
from thermostats.tables.validation import is_missing
from thermostats.tables.written_numbers import convert_written

FILE = "mappings.json"


@dataclass(frozen=True, kw_only=True)
class KeptMapping:
    """How a join read rows with these columns."""

    columns: Sequence[str]
    mapping: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""
    recipe: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict)
    states: str = ""
    form: str = ""
    filled: Mapping[str, Any] = field(default_factory=dict)
    """Columns that the rows need not have, with the value of all rows."""

    def list_maps(self) -> list[ColumnMap]:
        """How the rows are read."""
        table = self.table or None
        constants = dict(self.constants)
        return load_maps(self.mapping, table, self.recipe, constants, self.states, self.form)

    def list_constants(self) -> dict[str, Any]:
        """What every row has."""
        return {**self.mapping.get("constants", {}), **self.constants}

    def list_columns(self) -> dict[str, str]:
        """Their names of columns, and ours."""
        return dict(self.mapping.get("columns", {}))

    def is_part(self) -> bool:
        """Whether it takes facts of models out of rows that hold more."""
        tables = {using.table for using in self.list_maps()}
        return self.mapping.get("ignore") == OTHERS and tables == {"models"}

    def describe(self) -> str:
        """What it reads as what, in words."""
        named = self.list_columns()
        pairs = [f"{theirs} → {ours}" for theirs, ours in named.items() if theirs != ours]
        for name, value in {**self.list_constants(), **self.filled}.items():
            if value not in ("", None):
                shown = f"{value:.4g}" if isinstance(value, float) else value
                pairs.append(f"{name} = {shown}")
        how = f"recipe {self.recipe}, " * bool(self.recipe)
        return f"no mapping given: read as rows of these columns before, {how}{join_some(pairs)}"


def find_kept(names: Iterable[str], folder: Path) -> KeptMapping | None:
    """The mapping that rows of these columns were joined by, the latest; None where there is
    none."""
    there = {*names}
    latest_first = _read(folder)[::-1]
    for kept in latest_first:
        if there == {*kept.columns}:
            return kept
    for kept in latest_first:
        lacking = {*kept.columns} - there
        if there <= {*kept.columns} and lacking <= {*kept.filled}:
            return kept
    return None


def keep_mapping(call: JoinCall, frames: Sequence[KeptMapping], folder: Path) -> None:
    """Keep what a call says of its sources in a folder that nobody else may be writing to.

    frames: columns of the sources, as `describe_source` gives them.
    """
    if isinstance(call.mapping, ColumnMap):
        return
    said: dict[str, Any] = {
        "mapping": call.build_content(),
        "table": call.table or "",
        "recipe": call.recipe,
        "constants": call.constants or {},
        "states": call.states,
        "form": call.form,
    }
    held = _read(folder)
    for each in frames:
        whole = replace(each, **said)
        if whole.is_part():
            continue
        named = whole.list_columns()
        filled = {name: value for name, value in each.filled.items() if named.get(name) == name}
        held = [one for one in held if {*one.columns} != {*each.columns}]
        held.append(replace(whole, filled=filled))
    _write(held, folder)


def describe_source(frame: pd.DataFrame) -> KeptMapping:
    """Columns of rows, and those of facts with the value that all rows have."""
    filled = {}
    for name in PLACEHOLDERS:
        if name in frame and len(values := frame[name].unique()) == 1 and not pd.isna(values[0]):
            filled[name] = values[0].item() if hasattr(values[0], "item") else values[0]
    return KeptMapping(columns=[*map(str, frame)], filled=filled)


def forget_mappings(source: str, folder: Path) -> None:
    """Remove the mappings that state a source, in a folder that nobody else may be writing to."""
    held = _read(folder)
    left = [each for each in held if each.list_constants().get("source") != source]
    if len(left) < len(held):
        _write(left, folder)


def prepare_rows(
    frame: pd.DataFrame, mapping: KeptMapping, model_ids: Collection[str]
) -> tuple[pd.DataFrame, str]:
    """Rows as the lines that are printed make them: numbers out of texts, without models of which a
    cell is missing or that no table describes; and in words what was left out.

    model_ids: models of the tables.
    """
    rows = frame.assign(
        **{name: value for name, value in mapping.filled.items() if name not in frame}
    )
    maps = [resolve_aliases(using, rows) for using in mapping.list_maps()]
    for using in maps:
        dtypes = list_dtypes(using.table)
        for theirs, ours in using.columns.items():
            if theirs in rows and dtypes.get(ours) in (FLOAT, INTEGER):
                rows = rows.assign(**{theirs: convert_written(rows[theirs])})
    columns = {**mapping.list_columns(), **maps[0].columns}
    whose = next((theirs for theirs, ours in columns.items() if ours == "model_id"), "")
    if whose not in rows:
        return rows, ""
    names = rows[whose].astype(str)
    if maps[0].table == "models":
        dtypes = list_dtypes("models")
        needed = [name for name, ours in columns.items() if ours in dtypes or is_gain(ours)]
        gone = names[rows[needed].map(is_missing).any(axis=1)]
        why = "with empty cells"
    else:
        gone = names[names.isin(list_unknown(rows, whose, model_ids))]
        why = "of models that no table describes"
    left = ~names.isin(gone)
    if left.all() or not left.any():
        return rows, ""
    said = join_some([*gone.unique()])
    return rows[left], f"left out {len(rows) - left.sum()} of {len(rows)} rows, {why}: {said}"


def refuse_of_one(mapping: KeptMapping, call: JoinCall) -> UsageError:
    """Rows that are new, by a mapping that says of which model all are: whether they are of it,
    too, nobody said."""
    model = mapping.list_constants()["model_id"]
    again = replace(
        call,
        mapping=dict(mapping.mapping) or None,
        table=mapping.table or None,
        recipe=mapping.recipe,
        constants=mapping.constants,
        states=mapping.states,
        form=mapping.form,
    )
    return UsageError(
        "rows of these columns were joined before, all of one model: of which model are these?",
        got="rows that are not there yet",
        next_step=f"if they are of {model}, too: {again.line(Remedy(when=''))}",
    )


def _read(folder: Path) -> list[KeptMapping]:
    """Mappings of a folder, the latest last; none where the file cannot be read as such."""
    names = {each.name for each in fields(KeptMapping)}
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return [KeptMapping(**each) for each in content if {*each} <= names]
    except (OSError, ValueError, TypeError):
        return []


def _write(held: Sequence[KeptMapping], folder: Path) -> None:
    try:
        content = json.dumps([asdict(each) for each in held], ensure_ascii=False, indent=1)
    except TypeError:
        return  # a value that no file holds
    with suppress(DataError):  # the rows are in: the mapping will be asked for again
        write_atomically(folder / FILE, f"{content}\n".encode())
