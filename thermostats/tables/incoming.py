"""Rows as other people have them, not yet of any table: files, DataFrames, Arrow tables, dicts of
columns."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv
from pyarrow.parquet import ParquetFile

from thermostats.errors import (
    DataError,
    UsageError,
    describe_file_error,
    find_nearest,
    suggest_nearest,
)
from thermostats.next_steps import write_value
from thermostats.tables.folders import CELLS, ROWS, TooManyError, check_cells, read_bytes
from thermostats.tables.frames import check_levels
from thermostats.tables.remedies import Remedy
from thermostats.tables.schemas import FLAG, FLOAT, TEXT, list_dtypes

Source: TypeAlias = str | Path | pd.DataFrame | pa.Table | Mapping[str, Any]
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
INDEX = re.compile(r"__index_level_\d+__")
"""What Parquet calls an index without a name, which numbers rows and says nothing."""
TEXTS = (".csv", ".tsv")
SEEN = 100_000
"""Characters of a file in which decimal commas are looked for."""
BLOCK = 100_000
"""Rows that are made columns at once."""
AT_ONCE = 16_000_000
"""Bytes of a file without quotes that are parsed at once; a longer row is for another reader."""
FIRST_LINE = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*[^\r\n]+")
"""The first line that is not empty, without its end, with what is before it."""
DECIMAL_COMMA = re.compile(r"\d,\d")
OTHER_FILES = {
    ".xls": "save the sheet as CSV, or join pandas.read_excel({path!r}, dtype=str)",
    ".xlsx": "save the sheet as CSV, or join pandas.read_excel({path!r}, dtype=str)",
    ".ods": "save the sheet as CSV, or join pandas.read_excel({path!r}, dtype=str)",
    ".zip": "python -m zipfile -e {path!r} rows unpacks it; join the CSV files in it",
    ".gz": "unpack it first, or join pandas.read_csv({path!r}, dtype=str)",
}
"""Kinds of files that are not read, and what to do with them."""


def read(source: Source) -> pd.DataFrame:
    """Rows of a source in its order, columns under its own names; cells of a CSV file are text,
    empty where missing.

    An index that has a name is a column. Rows without any cell are left out, and so is a column
    without name and cells.

    Raises UsageError where there is no such file, its ending is not known, its cells are separated
    otherwise or two of its columns have one name, DataError where it is damaged.
    """
    if not isinstance(source, (str, Path)):
        return _read_memory(source)
    path = Path(source)
    if not path.is_file():
        raise _refuse_missing_file(path)
    ending = path.suffix.lower()
    reader = READERS.get(ending)
    if reader is None:
        step = OTHER_FILES.get(ending, suggest_nearest(path.suffix, READERS))
        raise UsageError(
            "rows can be read only from files of these kinds",
            where=path,
            got=path.suffix or "no ending",
            allowed=", ".join(READERS),
            next_step=step.format(path=str(path)),
        )
    try:
        frame = reader(read_bytes(path, ROWS))
    except OSError as error:
        raise DataError(
            "file cannot be read", where=path, got=describe_file_error(error)
        ) from error
    except TooManyError as error:
        what = "the file unpacks to more than a file of rows may hold"
        allowed = f"at most {CELLS} cells"
        raise DataError(
            what, where=path, got=str(error), allowed=allowed, next_step="split it"
        ) from error
    except SeparatorError as error:
        allowed = f"{SEPARATORS[error.wanted]} in a {ending} file, decimal points"
        step = f"join pandas.read_csv({str(path)!r}, sep={error.there!r}) instead"
        what = f"its cells are separated by {SEPARATORS[error.there]}"
        got = repr(error.line[:60])
        by_pandas = Remedy(when="read it so", file=_read_by_pandas(path, error.there))
        raise UsageError(
            what, where=path, got=got, allowed=allowed, next_step=step, remedy=by_pandas
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"file is damaged: {error}", where=path, next_step="save it again as UTF-8"
        ) from error
    except NamelessIndexError as error:
        again = Remedy(
            when="without its index", file=f"pd.read_csv({write_value(str(path))}, index_col=0)"
        )
        step = "an index is left out by df.to_csv(PATH, index=False)"
        raise DataError(
            f"file is damaged: {error}", where=path, next_step=step, remedy=again
        ) from error
    except (ValueError, RecursionError, csv.Error, pa.ArrowException) as error:
        raise DataError(
            f"file is damaged: {error}", where=path, next_step="correct it or save it again"
        ) from error
    if not len(frame.columns):
        raise UsageError(
            "the file is empty", where=path, allowed="rows under a header of column names"
        )
    return _check_frame(frame, path)


class NamelessIndexError(ValueError):
    """The first column has cells and no name."""


class SeparatorError(ValueError):
    """The first line of a file is separated by another character than its ending says."""

    def __init__(self, line: str, there: str, wanted: str) -> None:
        self.line, self.there, self.wanted = line, there, wanted
        super().__init__(line)


def is_separated_otherwise(refused: Exception) -> bool:
    """Whether `read` refused a file for its separator alone."""
    return isinstance(refused.__cause__, SeparatorError)


def _refuse_missing_file(path: Path) -> UsageError:
    there = []
    if path.parent.is_dir():
        there = [file.name for file in path.parent.iterdir() if file.suffix in READERS]
    near = find_nearest(path.name, there)
    if not near:
        return UsageError("no such file", where=path, allowed=", ".join(sorted(there)[:5]))
    remedy = Remedy(when=f"if {near} is meant", file=write_value(str(path.with_name(near))))
    return UsageError("no such file", where=path, next_step=f"did you mean {near}?", remedy=remedy)


@dataclass(frozen=True)
class PandasRead:
    """A call of pandas that reads a file of rows, numbers as numbers."""

    function: str
    path: Path
    options: Mapping[str, Any]

    @property
    def line(self) -> str:
        """The call, as an expression."""
        arguments = [write_value(str(self.path))]
        for name, value in self.options.items():
            arguments.append(f"{name}={write_value(value)}")
        return f"pd.{self.function}({', '.join(arguments)})"

    def read(self) -> pd.DataFrame:
        """The rows; UsageError where there is no such file, DataError where it is damaged."""
        if not self.path.is_file():
            raise _refuse_missing_file(self.path)
        try:
            rows: pd.DataFrame = getattr(pd, self.function)(self.path, **self.options)
        except (OSError, ValueError) as error:
            step = "correct it or save it again"
            what = f"file cannot be read: {error}"
            raise DataError(what, where=self.path, next_step=step) from error
        return rows


def choose_pandas_read(path: Path) -> PandasRead:
    """The call of pandas that reads a file of a kind of `READERS`; of text by the separator and the
    decimal sign that it has."""
    ending = path.suffix.lower()
    if ending not in TEXTS:
        lines = {"lines": True} if ending == ".jsonl" else {}
        return PandasRead("read_parquet" if ending == ".parquet" else "read_json", path, lines)
    seen = path.read_text(encoding="utf-8-sig", errors="replace")[:SEEN] if path.is_file() else ""
    separator = max(SEPARATORS, key=seen.lstrip().partition("\n")[0].count)
    return PandasRead("read_csv", path, _list_options(seen, separator))


def _list_options(text: str, separator: str) -> dict[str, str]:
    """Options by which pandas reads a text: its separator, and the decimal comma if it has one."""
    if separator == ",":
        return {}
    decimal = {"decimal": ","} if DECIMAL_COMMA.search(text) else {}
    return {"sep": separator, **decimal}


def _read_by_pandas(path: Path, separator: str) -> str:
    """The expression that reads a file of this separator, with the decimal comma if it has one."""
    text = path.read_text(encoding="utf-8-sig")[:SEEN]
    options = {"sep": separator, **_list_options(text, separator)}
    return PandasRead("read_csv", path, options).line


def _read_memory(source: pd.DataFrame | pa.Table | Mapping[str, Any]) -> pd.DataFrame:
    """Rows of what is no file."""
    where = type(source).__name__
    try:
        if isinstance(source, pa.Table):
            return _check_frame(_convert_arrow(source), where)
        frame = source if isinstance(source, pd.DataFrame) else pd.DataFrame(dict(source))
        check_levels(frame)
        return _drop_empty_rows(_check_frame(_index_rows(frame), where))
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise UsageError("these columns make no rows", where=where, got=str(error)[:100]) from error


def _drop_empty_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that have a cell, in their places."""
    empty = (frame.isna() | (frame == "")).all(axis=1)
    has_empty = len(frame.columns) > 1 and empty.any()
    return frame[~empty] if has_empty else frame


def _check_frame(frame: pd.DataFrame, where: object) -> pd.DataFrame:
    if twice := list(dict.fromkeys(frame.columns[frame.columns.duplicated()])):
        step = "rename one or leave it out; a column that is an index as well counts too"
        raise UsageError(
            "two columns have one name", where=where, got=", ".join(twice), next_step=step
        )
    return frame


def _index_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows counted from 0, columns named by text; levels of the index that have names are
    columns."""
    index = frame.index
    named = {}
    for i, name in enumerate(index.names):
        if name is not None:
            named[str(name)] = index.get_level_values(i).array
    rows = frame.rename(columns=str).reset_index(drop=True)
    return pd.concat([pd.DataFrame(named), rows], axis=1) if named else rows


def _read_delimited(content: bytes, separator: str) -> pd.DataFrame:
    first = FIRST_LINE.match(content)
    head = content if b'"' in content or first is None else first.group()
    text = head.decode("utf-8-sig")
    if not text.strip():
        text = content.decode("utf-8-sig")
    if not text.strip():
        return pd.DataFrame()
    _check_separator(text.lstrip("\r\n").partition("\n")[0].rstrip("\r"), separator)
    names = next(_split_rows(text, separator))
    check_cells(len(names) * content.count(b"\n"))
    frame = _read_unquoted(content, separator, len(names))
    if frame is None:
        frame = _read_by_rows(content.decode("utf-8-sig"), separator, len(names))
    frame.columns = pd.Index(names)
    used = []
    nameless = []
    for i, name in enumerate(names):
        has_name = bool(name.strip())
        used.append(has_name or _has_cell(frame.iloc[:, i]))
        if used[i] and not has_name:
            nameless.append(i + 1)
    if nameless:
        what = f"column {nameless[0]} has cells but no name"
        raise NamelessIndexError(what) if nameless == [1] else ValueError(what)
    frame = frame if all(used) else frame.loc[:, used]
    if len(frame.columns) < 2:
        return frame
    filled = np.zeros(len(frame), dtype=np.bool_)
    for i in range(len(frame.columns)):
        filled |= (frame.iloc[:, i] != "").to_numpy()
    return frame if filled.all() else frame[filled]


def _has_cell(cells: pd.Series) -> bool:
    """Whether a column of texts has one that is not empty."""
    return bool((cells != "").any())


def _split_rows(text: str, separator: str) -> Iterator[list[str]]:
    """Cells of each line that is not empty, the first that of names; csv.Error where a quote is not
    as it must be."""
    lines = io.StringIO(text, newline="")
    return filter(None, csv.reader(lines, delimiter=separator, strict=True))


def _read_unquoted(content: bytes, separator: str, n_columns: int) -> pd.DataFrame | None:
    """Cells below the first line of a file without quotes; None where it has some, or is for
    `_read_by_rows` to refuse."""
    names = FIRST_LINE.match(content)
    if names is None or b'"' in content:
        return None
    labels = list(map(str, range(n_columns)))
    below = pa.py_buffer(memoryview(content)[names.end() :])
    at_once = min(len(content), AT_ONCE)
    reading = ReadOptions(use_threads=False, block_size=at_once, column_names=labels)
    parsing = ParseOptions(delimiter=separator, quote_char=False)
    text = dict.fromkeys(labels, pa.large_string())
    converting = ConvertOptions(column_types=text, strings_can_be_null=False)
    try:
        table = read_csv(below, reading, parsing, converting)
    except pa.ArrowInvalid:
        return None
    longest = []
    for cells in table.columns:
        longest.append(pc.max(pc.binary_length(cells)).as_py() or 0)
    return None if max(longest) > csv.field_size_limit() else table.to_pandas()


def _read_by_rows(text: str, separator: str, n_columns: int) -> pd.DataFrame:
    """Cells of any text. Raises csv.Error, and ValueError for the first row that has more or fewer
    cells than names."""
    parts = []
    cells = []
    for number, row in enumerate(islice(_split_rows(text, separator), 1, None), 1):
        if len(row) != n_columns:
            raise ValueError(
                f"row {number} has {len(row)} cells under the names of {n_columns} columns"
            )
        cells.append(row)
        if len(cells) == BLOCK:
            parts.append(pd.DataFrame(cells, dtype="str"))
            cells = []
    parts.append(pd.DataFrame(cells, columns=range(n_columns), dtype="str"))
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]


def _check_separator(line: str, separator: str) -> None:
    """Raise SeparatorError where a first line is one cell that another separator cuts."""
    if line.startswith("sep=") and len(line) == 5:
        raise SeparatorError(line, line[4] if line[4] in SEPARATORS else ";", separator)
    if separator not in line and (there := max(SEPARATORS, key=line.count)) in line:
        raise SeparatorError(line, there, separator)


def _read_json(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b","))
    return _read_objects(_parse_json(content.decode("utf-8-sig")))


def _read_json_lines(content: bytes) -> pd.DataFrame:
    check_cells(content.count(b",") + content.count(b"\n"))
    rows = []
    for number, line in enumerate(content.decode("utf-8-sig").split("\n"), 1):
        try:
            rows += [_parse_json(line)] if line.strip() else []
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return _read_objects(rows)


def _parse_json(text: str) -> Any:
    """JSON whose objects have no key twice; a number beyond every float is none."""
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        twice = next(name for name in counted if counted[name] > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return made


def _read_objects(rows: Any) -> pd.DataFrame:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects, one per row")
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    cells = [list(map(row.get, names)) for row in rows]
    return pd.DataFrame(cells, columns=names, dtype=object)


def _read_parquet(content: bytes) -> pd.DataFrame:
    file = ParquetFile(io.BytesIO(content))
    stated = file.metadata
    check_cells(stated.num_rows * max(stated.num_columns, 1))
    groups = map(stated.row_group, range(stated.num_row_groups))
    if sum(group.total_byte_size for group in groups) > 5 * ROWS:
        raise TooManyError(f"{stated.num_rows} rows of long texts")
    return _convert_arrow(file.read())


def _convert_arrow(table: pa.Table) -> pd.DataFrame:
    """An Arrow table as a frame; what was a frame's index is one again, so that its name is not
    lost."""
    names = table.column_names
    if len(set(names)) < len(names):
        frame = pd.DataFrame(dict(enumerate(table.columns)))
        return frame.set_axis(names, axis=1)
    frame = _index_rows(table.to_pandas(integer_object_nulls=True))
    return frame.drop(columns=list(filter(INDEX.fullmatch, frame.columns)))


READERS: dict[str, Callable[[bytes], pd.DataFrame]] = {
    ".csv": partial(_read_delimited, separator=","),
    ".tsv": partial(_read_delimited, separator="\t"),
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}
"""Readers by the ending of a file's name."""


LINE_END = "\x1e\r\n"
"""No text may hold it: earlier versions took it for the end of a line."""
QUOTED = re.compile('[,"\r\n\x1e]')
"""A text with one of these stands in quotes."""
LINES_AT_ONCE = 250_000
"""Rows that are made text at once."""


class Lines(NamedTuple):
    """The line of names, the lines of all rows one behind the other, and where each of these ends,
    in bytes."""

    header: bytes
    body: bytes
    ends: NDArray[np.int64]

    def pack_rows(self, first: int, beyond: int) -> bytes:
        """A file of the rows from one position to before another."""
        return self.header + self.body[self._find_start(first) : self._find_start(beyond)]

    def _find_start(self, row: int) -> int:
        return int(self.ends[row - 1]) if row else 0


def build_csv_lines(checked: pd.DataFrame, name: str) -> Lines:
    """Rows of table `name`, or of some of its columns, as text. Raises DataError where a text holds
    `LINE_END`."""
    header = ",".join(checked.columns).encode() + b"\n"
    blocks = []
    sizes = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(checked), LINES_AT_ONCE):
        rows = checked.iloc[start : start + LINES_AT_ONCE]
        blocks.append(_join_lines(rows, name))
        sizes.append(pc.binary_length(blocks[-1]).to_numpy())
    body = b"".join(map(_pack_content, blocks))
    return Lines(header, body, np.concatenate(sizes).cumsum(dtype=np.int64))


def _join_lines(rows: pd.DataFrame, name: str) -> pa.LargeStringArray:
    dtypes = list_dtypes(name)
    *cells, last = (_format_cells(rows[label], dtypes[label], name) for label in rows)
    comma, nothing, end = (pa.scalar(text, pa.large_string()) for text in (",", "", "\n"))
    last_and_end = pc.binary_join_element_wise(last, nothing, end)
    return pc.binary_join_element_wise(*cells, last_and_end, comma)


def _pack_content(lines: pa.LargeStringArray) -> memoryview:
    _, offsets, content = lines.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[lines.offset :]
    return memoryview(content)[starts[0] : starts[len(lines)]]


def _format_cells(values: pd.Series, dtype: str, name: str) -> pa.LargeStringArray:
    """Cells of a column as they are written; empty where one is missing."""
    if dtype == FLOAT:
        there = values.notna().to_numpy()
        if not there.any():
            return pa.repeat(pa.scalar("", pa.large_string()), len(values))
        texts = (
            repr(value) if is_there else ""
            for value, is_there in zip(values.tolist(), there, strict=True)
        )
        return pa.array(texts, pa.large_string(), size=len(values))
    if dtype == TEXT:
        codes, distinct = values.factorize()
        escaped = [_escape_text(text, name) for text in distinct]
        return pa.array(escaped, pa.large_string()).take(pa.array(codes))
    cells = pa.array(values)
    words = pc.if_else(cells, "True", "False") if dtype == FLAG else cells
    return pc.fill_null(words.cast(pa.large_string()), "")


def _escape_text(text: str, name: str) -> str:
    if not QUOTED.search(text):
        return text
    if LINE_END in text:
        raise DataError(
            f"a text of table {name} holds characters that a CSV file cannot", got=ascii(LINE_END)
        )
    return '"' + text.replace('"', '""') + '"'
