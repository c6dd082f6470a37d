"""The rows that an analysis reads: tables under a named selection, with a record of every
selection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from thermostats.claims.study import load_named, load_studies
from thermostats.formatting import format_count, join_words
from thermostats.tables import export
from thermostats.tables.choices import MEASURED, MEASUREMENTS, OWN_ROWS, POOLED, PUBLISHED, SETS
from thermostats.tables.folders import find_shipped
from thermostats.tables.model_rows import read_own_models
from thermostats.tables.reading import Selection
from thermostats.tables.schemas import EXTERNAL, INTERVENED, NURSERY

__all__ = [
    "EXTERNAL",
    "INTERVENED",
    "MEASURED",
    "OWN_ROWS",
    "POOLED",
    "PUBLISHED",
    "ROWS",
    "SETS",
    "TIMINGS",
    "VIEWS",
    "Evidence",
]
T = TypeVar("T")
ROWS: Mapping[str, frozenset[str]] = {
    NURSERY: frozenset({NURSERY}),
    "measured": frozenset({MEASURED}),
    "study": frozenset({PUBLISHED, NURSERY}),
    "study and measured": frozenset({PUBLISHED, NURSERY, MEASURED}),
    "study, external and measured": frozenset({PUBLISHED, NURSERY, MEASURED, EXTERNAL, POOLED}),
    "study, external, measured and interventions": frozenset(SETS),
}
"""What a claim may say of whose rows it reads, `Rows:` of its words, with the sets of evidence that
its findings and views may then have. A user's rows are measured ones."""
VIEWS = (*(name for name in MEASUREMENTS if name != PUBLISHED), OWN_ROWS)
"""Sets that a question about published models is put to as well."""
MOST_KEPT = 200_000
"""Cells of a selection up to which it is kept."""
TIMINGS = ("sheaf-exponents", "sheaf-dense")
"""Times that an analysis shows, of one machine: `benchmarks/sheaf_cost.py` writes them to
data/timings."""


class ValueStore(Protocol):
    """What keeps values from one report to the next, such as `stored.Stored`."""

    def keep_inner(self, name: str, evidence: Evidence, make: Callable[[Evidence], Any]) -> Any:
        """A value of a name and a set of evidence: as it was kept of the same rows, or made."""


class ReadLog:
    """Which selections of rows were handed out, with the SHA-256 of the rows of each."""

    def __init__(self) -> None:
        self.selections: dict[str, str] = {}

    @contextmanager
    def recording(self) -> Iterator[dict[str, str]]:
        """Selections handed out meanwhile; afterwards they stand among all others."""
        before = self.selections
        self.selections = {}
        try:
            yield self.selections
        finally:
            before.update(self.selections)
            self.selections = before


class Evidence(Selection):
    """The rows of a data folder as an analysis sees them: the one way to them, which records every
    selection.

    Whatever a finding depends on in a folder is a selection with a name: rows of a table, and what
    stands `BESIDE` the tables. The name says how it is read, so that what was recorded can be read
    again and compared.
    """

    def __init__(self, data: str | Path | None = None, name: str = "") -> None:
        super().__init__(data, name)
        self._log = ReadLog()
        self._results: dict[tuple[Hashable, ...], tuple[Any, dict[str, str]]] = {}
        """What was computed once for all findings, and the selections that it read."""
        self._digests: dict[str, str] = {}
        self._frames: dict[tuple[Hashable, ...], tuple[pd.DataFrame, dict[str, str]]] = {}
        """Rows that several claims compute or select alike, and the selections that they were made
        of."""
        self._told: dict[str, str] = {}
        """Digests of selections that another process read of the same folder."""
        self._store: ValueStore | None = None
        """Where values are kept for the next report; None where they are not."""

    @property
    def selections(self) -> Mapping[str, str]:
        """SHA-256 of the rows of every selection handed out so far, by the selection's name."""
        return self._log.selections

    def fork(self) -> Evidence:
        """The same tables, loaded once for both, with no selection recorded."""
        other = Evidence(self._folder)
        other._files = self._files
        other._loaded = self._loaded
        other._digests = self._digests
        other._frames = self._frames
        other._told = self._told
        other._store = self._store
        return other

    def table(self, name: str, **equals: str | list[str]) -> pd.DataFrame:
        """Rows as `Selection.table` hands them out, recorded; tables of studies and TIMINGS are
        read too."""
        return self._hand_out([name, equals, *[self.name] * bool(self.name)])

    def own_models(self) -> pd.DataFrame:
        """The user's own rows of the table `models`, of any modality; none where the folder is the
        package's."""
        return self._hand_out([OWN_MODELS, {}])

    def external_sources(self) -> pd.DataFrame:
        """The sources that say in a `source.toml` where their figures come from, with the columns
        of `Source`."""
        return self._hand_out([EXTERNAL_SOURCES, {}])

    def folder(self) -> Path:
        """The data folder, for whoever names it in a sentence: that is then of this folder
        alone."""
        self._hand_out([FOLDER, {}])
        return self._folder

    def named(self, name: str) -> Evidence:
        """The same tables as another set of evidence; what either hands out is recorded in both."""
        other = self.fork()
        other.name = name
        other._log = self._log
        other._results = self._results
        return other

    def exclude_source(self, source: str) -> Evidence:
        """The same set without the rows of one source; what it hands out is recorded as rows of the
        whole set."""
        other = self.named(self.name)
        other.left_out = source
        return other

    def with_rows(self, rows: Mapping[str, pd.DataFrame]) -> Evidence:
        """The same set with further rows of its tables, as a study to come would have them; nothing
        is written or recorded."""
        other = Planned(self._folder, self.name)
        other._files = dict(self._files)
        for name, further in rows.items():
            whole = pd.concat([self._select_table(name), further])
            other._files[name] = whole.reset_index(drop=True)
        return other

    def computed(self, key: tuple[Hashable, ...], compute: Callable[[], T]) -> T:
        """What `compute` gives, made once for all that ask; the selections that it read are
        recorded for each of them.

        key: tells it from all else that is computed of this evidence. What raises is computed
        again.
        """
        return cast(T, self._compute(self._results, key, compute))

    def computed_rows(
        self, key: tuple[Hashable, ...], compute: Callable[[], pd.DataFrame]
    ) -> pd.DataFrame:
        """The same of rows, for all claims that ask: a copy that shares no array with what is
        kept."""
        rows: pd.DataFrame = self._compute(self._frames, key, compute)
        return rows.copy()

    def _compute(
        self,
        known: dict[tuple[Hashable, ...], tuple[Any, dict[str, str]]],
        key: tuple[Hashable, ...],
        compute: Callable[[], Any],
    ) -> Any:
        """What is known under a key of this set, or computed now; its selections are recorded."""
        place = (self.name, self.left_out, *key)
        if place not in known:
            with self.recording() as selections:
                result = compute()
            known[place] = result, selections
        value, selections = known[place]
        self.record(selections)
        return value

    def keep(self, name: str, compute: Callable[[], T]) -> T:
        """What `compute` gives of this set, from one report to the next where findings are kept; a
        record of numbers, text and tables.

        name: tells it from all else that the claim keeps. The selections that it read are recorded.
        """
        if self._store is None:
            return compute()
        without = f" without {self.left_out}" * bool(self.left_out)
        return cast(T, self._store.keep_inner(f"{name}{without}", self, lambda _: compute()))

    def keep_values(self, store: ValueStore) -> None:
        """Have `keep` keep values from now on, of all sets."""
        self._store = store

    def sources(self, models: Collection[str]) -> list[str]:
        """Who measured some models of the set: sources by name, the files of a study as one."""
        runs = self.table("runs")
        of_models = runs["model_id"].isin(list(models))
        return sorted(set(self.origin(runs.loc[of_models, "source"])))

    def recording(self) -> AbstractContextManager[dict[str, str]]:
        """Selections handed out meanwhile, by name; they are recorded afterwards as all others
        are."""
        return self._log.recording()

    def record(self, selections: Mapping[str, str]) -> None:
        """Selections that something handed on was made of."""
        self._log.selections.update(selections)

    def columns(self) -> set[str]:
        """Columns of all tables that were read so far."""
        return set(map(str, chain.from_iterable(self._loaded.values())))

    @property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of the rows of every selection that was read or asked for, by its name."""
        return self._digests

    def tell(self, digests: Mapping[str, str]) -> None:
        """Digests that another process has of this folder: with them `changed` reads no rows.

        What is recorded of rows that are handed out is always the digest of these.
        """
        self._told.update(digests)

    def changed(self, selections: Mapping[str, str]) -> bool:
        """True where any of the recorded selections has other rows by now."""
        for selection, digest in selections.items():
            if (self._told.get(selection) or self._hash_selection(selection)) != digest:
                return True
        return False

    def _hand_out(self, parts: list[Any]) -> pd.DataFrame:
        """Rows of a selection, by table, columns and set of evidence: no row leaves the folder in
        another way."""
        selection = json.dumps(parts, sort_keys=True)
        rows = self._rows_of(parts)
        if selection not in self._digests and not self.left_out:
            self._digests[selection] = hash_rows(rows)
        self.record({selection: self._hash_selection(selection)})
        return rows

    def _hash_selection(self, selection: str) -> str:
        """SHA-256 of the rows of a selection of the whole set, as they are now."""
        if selection not in self._digests:
            parts = json.loads(selection)
            whole = self.fork().named("".join(parts[2:]))
            self._digests[selection] = hash_rows(whole._rows_of(parts))
        return self._digests[selection]

    def _rows_of(self, parts: list[Any]) -> pd.DataFrame:
        name, equals = parts[:2]
        if name not in BESIDE:
            return self._select_once(name, equals)
        if name not in self._files:
            self._files[name] = BESIDE[name](self._folder)
        return self._files[name]

    def _select_once(self, name: str, equals: Mapping[str, str | list[str]]) -> pd.DataFrame:
        """Rows of a selection, kept where they are few; a copy, which shares no array with what is
        kept."""
        place = (self.name, self.left_out, "selection", name, json.dumps(equals, sort_keys=True))
        if place in self._frames:
            rows, _ = self._frames[place]
            return rows.copy()
        rows = self._select(name, equals)
        if rows.size > MOST_KEPT:
            return rows
        self._frames[place] = rows, {}
        return rows.copy()

    def _read(self, name: str) -> pd.DataFrame:
        beside = _read_extra_table(name)
        return super()._read(name) if beside is None else beside


class Planned(Evidence):
    """Rows of a study to come: no finding is kept of them, so none is recorded."""

    def fork(self) -> Planned:
        """The same tables, loaded once for both."""
        other = Planned(self._folder)
        other._files = self._files
        other._loaded = self._loaded
        other._frames = self._frames
        return other

    def _hand_out(self, parts: list[Any]) -> pd.DataFrame:
        return self._rows_of(parts)


NUMBERS_AND_FLAGS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_null,
)


def hash_rows(rows: pd.DataFrame) -> str:
    """SHA-256 of rows with their columns, by the buffers of Arrow: alike for the same cells of the
    same types, wherever they were computed."""
    digest = hashlib.sha256(str(len(rows)).encode())
    for label, column in rows.items():
        _hash_column(str(label), column, digest)
    return digest.hexdigest()


def _hash_column(label: str, column: pd.Series, digest: hashlib._Hash) -> None:
    """Add name, type, missing cells and the others of a column to a digest."""
    cells = _convert_cells(column)
    digest.update(f"\n{label} {cells.type} {cells.null_count}\n".encode())
    if cells.null_count:
        digest.update(np.packbits(cells.is_null().to_numpy(zero_copy_only=False)).tobytes())
    if pa.types.is_null(cells.type):
        return
    if not pa.types.is_large_string(cells.type):
        filled = cells.fill_null(False if pa.types.is_boolean(cells.type) else 0)
        digest.update(filled.to_numpy(zero_copy_only=False).tobytes())
        return
    filled = cells.fill_null("")
    _, offsets, content = filled.buffers()
    ends = np.frombuffer(offsets, np.int64)[filled.offset :]
    ends = ends[: len(filled) + 1]
    digest.update(np.diff(ends).tobytes())
    if content is not None:
        digest.update(memoryview(content)[ends[0] : ends[-1]])


def _convert_cells(column: pd.Series) -> pa.Array:
    """Cells as Arrow has numbers, flags and text; those of another type, or of several, as text."""
    try:
        cells = pa.array(column, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        cells = pa.array(column.astype("str"), from_pandas=True)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if any(is_type(cells.type) for is_type in NUMBERS_AND_FLAGS):
        return cells
    if not pa.types.is_string(cells.type) and not pa.types.is_large_string(cells.type):
        cells = pa.array(column.astype("str"), from_pandas=True)
    return cells.cast(pa.large_string())


def _load_own_models(folder: Path) -> pd.DataFrame:
    rows = read_own_models(folder)
    return rows.iloc[:0] if folder.resolve() == find_shipped("data").resolve() else rows


def _load_external_sources(folder: Path) -> pd.DataFrame:
    stated = [asdict(source) for source in export.list_sources(folder)]
    return pd.DataFrame(stated, columns=[each.name for each in fields(export.Source)])


def _folder(folder: Path) -> pd.DataFrame:
    return pd.DataFrame({FOLDER: [str(folder)]})


OWN_MODELS = "own models"
EXTERNAL_SOURCES = "external sources"
FOLDER = "folder"
BESIDE: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    OWN_MODELS: _load_own_models,
    EXTERNAL_SOURCES: _load_external_sources,
    FOLDER: _folder,
}
"""What findings and pages read of a folder besides the rows of its tables, and how it is read."""
NAMES_FOLDER = json.dumps([FOLDER, {}])
"""The selection of what has a sentence that names the folder."""


def _read_extra_table(name: str) -> pd.DataFrame | None:
    """A table of a study, or times; None for any other name."""
    for study in load_studies().values():
        if name in study.tables:
            table: pd.DataFrame = load_named(study.read_table)(study.tables[name])
            return table
    return (
        pd.read_csv(find_shipped("data") / "timings" / f"{name}.csv") if name in TIMINGS else None
    )


READS = {
    "gains": "layers.gain_block",
    "weights": "weights.spectral_norm",
    "outputs": "outputs.entropy",
    "attention": "attention.trace",
}
"""Kinds of measurement that claims read, and the column that holds each."""
LAST = "last"
"""Token position at which claims read gains."""
STUDY = "the study's files"
"""The source `published` in words."""


DUE = "What sets such a lab apart may be due to its source."
"""What follows where one source alone measured a lab."""


def describe_coincidence(evidence: Evidence, models: Collection[str]) -> str:
    """A sentence that names labs which one source alone measured; empty in a set of one source, and
    where none is.

    models: those that a question reads. What holds of such a lab holds of its source as well. Labs
    are new that the study did not measure.
    """
    if len(evidence.sources(models)) < 2:
        return ""
    by_lab = list_lab_sources(evidence, models)
    alone = {}
    for lab, sources in by_lab.items():
        if len(sources) == 1:
            alone[str(lab)] = next(iter(sources))
    every = set().union(*by_lab)
    if not alone or len(every) < 2:
        return ""
    new = {lab for lab, sources in by_lab.items() if PUBLISHED not in sources}
    if PUBLISHED in every and new and new <= set(alone) and len({alone[lab] for lab in new}) == 1:
        sentence = (
            f"In this set every new lab comes from one source: {join_words(sorted(new))} from "
            f"{alone[min(new)]}."
        )
    else:
        parts = []
        for source in sorted(set(alone.values())):
            labs = sorted(lab for lab in alone if alone[lab] == source)
            parts.append(f"{join_words(labs)} by {STUDY if source == PUBLISHED else source}")
        counted = f"{len(alone)} of {format_count(len(by_lab), 'lab')}"
        measured = "was measured" if len(alone) == 1 else "were each measured"
        sentence = f"In this set {counted} {measured} by one source alone: "
        sentence += f"{'; '.join(parts)}."
    return f"{sentence} {DUE}"


def list_lab_sources(evidence: Evidence, models: Collection[str]) -> pd.Series:
    """Who measured each lab's models, as sets of sources by lab: those with rows of gains or of
    weights."""
    runs = find_measuring_runs(evidence)
    runs = runs[runs["model_id"].isin(list(models))]
    return evidence.origin(runs["source"]).groupby(runs["heritage"]).agg(set)


def find_measuring_runs(evidence: Evidence) -> pd.DataFrame:
    """Runs of a set with gains at the last token, norms of weights or summaries."""
    return evidence.computed(("measuring runs",), partial(_load_measuring_runs, evidence))


def _load_measuring_runs(evidence: Evidence) -> pd.DataFrame:
    rows = [
        evidence.table("layers", position=LAST),
        evidence.table("weights"),
        evidence.table("summaries"),
    ]
    runs = evidence.table("runs")
    measuring = pd.concat([frame["run_id"] for frame in rows])
    return runs[runs["run_id"].isin(measuring)]


def find_lacking(evidence: Evidence, columns: Sequence[str]) -> list[str]:
    """Columns, as `table.column`, of which a set has no value; of gains those at the last token
    count.

    Of the table summaries a column stands for an estimand, such as `summaries.normed_gain`.
    """

    def values(name: str) -> int:
        table, _, column = name.partition(".")
        if table == "summaries":
            return len(evidence.table(table, estimand=column))
        rows = evidence.table(table, **({"position": LAST} if table == "layers" else {}))
        return int(rows[column].notna().sum())

    return [name for name in columns if not values(name)]
