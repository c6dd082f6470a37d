"""Rows of a join that wait for their turn: where they are many, in unnamed files, some models at a
time.

All sources of a join are read before the first row is compared with those that are there. Rows of
runs are compared model by model, so that of many no more than a part need be in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import IO, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thermostats.tables import store
from thermostats.tables.entries import keep_names
from thermostats.tables.schemas import RUN_TABLES, TABLES, list_dtypes

MANY = 500_000
"""Rows of runs that are in memory at a time, about; so many more wait in files."""
GROUP = 50_000
"""Rows of a group in a file, at least: a group holds whole runs."""


class Group(NamedTuple):
    """Rows of some runs in a file, by its number."""

    stream: IO[bytes]
    number: int
    sizes: Mapping[str, int]
    """Rows by run."""


class Waiting:
    """Rows of a join by table, each converted and in the order of keys."""

    def __init__(self) -> None:
        self._held: dict[str, pd.DataFrame] = {}
        self._groups: dict[str, list[Group]] = {}

    def add(self, name: str, rows: pd.DataFrame, where: object) -> None:
        """Rows of a table from a source; those of runs leave memory once there are more than
        `MANY`."""
        held = self._held.get(name)
        self._held[name] = rows if held is None else merge_rows([held, rows], name, where)
        of_runs = keep_names(self._held, RUN_TABLES)
        if sum(map(len, of_runs.values())) > MANY:
            self._write_runs()

    def get(self, name: str) -> pd.DataFrame | None:
        """Rows of a table that are in memory; None where there are none."""
        return self._held.get(name)

    def list_tables(self) -> list[str]:
        """Tables with rows, in the order of tables."""
        tables: list[str] = []
        for name in TABLES:
            if name in self._held or name in self._groups:
                tables.append(name)
        return tables

    def split_turns(self, runs: pd.DataFrame) -> Iterator[dict[str, pd.DataFrame]]:
        """All rows by table in turns: first those in memory, then those of some models at a time,
        of which none is in two turns. runs: the table that says which run is of which model."""
        if self._groups:  # then all rows of runs wait in files, so that a model has one turn
            self._write_runs()
        if self._held:
            yield {name: self._held[name] for name in TABLES if name in self._held}
        for chosen in self._list_turns(runs):
            turn = {}
            for name in TABLES:
                if name in self._groups and len(rows := self._read_runs(name, chosen)):
                    turn[name] = rows
            yield turn

    def _write_runs(self) -> None:
        for name in RUN_TABLES:
            if name in self._held:
                groups = self._groups.setdefault(name, [])
                groups += _write_groups(self._held.pop(name), name)
        pa.default_memory_pool().release_unused()

    def _list_turns(self, runs: pd.DataFrame) -> Iterator[set[str]]:
        """Runs of some models, whose rows are about `MANY`."""
        sizes: dict[str, int] = {}
        for group in chain.from_iterable(self._groups.values()):
            for run_id, size in group.sizes.items():
                sizes[run_id] = sizes.get(run_id, 0) + size
        known = runs.drop_duplicates("run_id").set_index("run_id")
        models: dict[object, list[str]] = {}
        for run_id in sizes:
            there = run_id in known.index
            model = tuple(known.loc[run_id, ["model_id", "revision"]]) if there else run_id
            models.setdefault(model, []).append(run_id)
        chosen: set[str] = set()
        rows = 0
        for of_model in models.values():
            more = sum(sizes[run_id] for run_id in of_model)
            if chosen and rows + more > MANY:
                yield chosen
                chosen = set()
                rows = 0
            chosen |= set(of_model)
            rows += more
        if chosen:
            yield chosen

    def _read_runs(self, name: str, chosen: set[str]) -> pd.DataFrame:
        """Rows of some runs, of which each may be in several files."""
        groups = []
        runs: list[str] = []
        for each in self._groups[name]:
            if there := chosen.intersection(each.sizes):
                groups.append(each)
                runs += there
        if not groups:
            return pd.DataFrame(columns=list(list_dtypes(name)))
        wanted = pa.array(runs, pa.string())
        tables = [_read_group(group, wanted) for group in groups]
        if len(set(runs)) == len(runs):
            return store.convert_frame(pa.concat_tables(tables), name)
        return merge_rows([store.convert_frame(table, name) for table in tables], name, "")


def merge_rows(parts: Sequence[pd.DataFrame], name: str, where: object) -> pd.DataFrame:
    """Rows of a table from several sources, those that occur twice once; raises DataError where two
    have one key."""
    both = pd.concat(parts).drop_duplicates(ignore_index=True)
    return store.validate(both, name, where)


def _write_groups(rows: pd.DataFrame, name: str) -> list[Group]:
    """Rows in an unnamed file, which goes with the process."""
    stream = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the last of its groups)
    schema = store.build_schema(name, list_dtypes(name))
    number, run_ids = rows["run_id"].factorize()
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(starts, len(rows))[1:]
    groups: list[Group] = []
    sizes: dict[str, int] = {}
    first = 0
    with pq.ParquetWriter(stream, schema, compression="lz4", store_schema=False) as writer:
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            sizes[str(run_ids[number[start]])] = end - start
            if end - first >= GROUP or end == len(rows):
                part = pa.Table.from_pandas(rows.iloc[first:end], schema, preserve_index=False)
                writer.write_table(part, row_group_size=len(part))
                groups.append(Group(stream, len(groups), sizes))
                sizes = {}
                first = end
    return groups


def _read_group(group: Group, runs: pa.Array) -> pa.Table:
    rows = pq.ParquetFile(group.stream).read_row_group(group.number)
    return rows.filter(pc.is_in(rows["run_id"], runs))
