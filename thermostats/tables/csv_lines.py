"""Rows of a checked table as lines of a CSV file: shortest exact floats, LF, quotes only where a text needs them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thermostats.errors import DataError
from thermostats.tables.schemas import FLAG, FLOAT, TEXT, dtypes

LINE_END = "\x1e\r\n"
"""No text may hold it: earlier versions took it for the end of a line."""
QUOTED = re.compile('[,"\r\n\x1e]')
"""A text with one of these stands in quotes."""
BLOCK = 250_000
"""Rows that are made text at once."""


class Lines(NamedTuple):
    """The line of names, the lines of all rows one behind the other, and where each of these ends, in bytes."""

    header: bytes
    body: bytes
    ends: NDArray[np.int64]

    def of(self, first: int, beyond: int) -> bytes:
        """A file of the rows from one position to before another."""
        start, end = (int(self.ends[row - 1]) if row else 0 for row in (first, beyond))
        return self.header + self.body[start:end]


def csv_lines(checked: pd.DataFrame, name: str) -> Lines:
    """Rows of table `name`, or of some of its columns, as text. Raises DataError where a text holds `LINE_END`."""
    header = ",".join(checked.columns).encode() + b"\n"
    blocks = [_lines(checked.iloc[start : start + BLOCK], name) for start in range(0, len(checked), BLOCK)]
    sizes = [np.zeros(0, dtype=np.int64), *(pc.binary_length(lines).to_numpy() for lines in blocks)]
    body = b"".join(_content(lines) for lines in blocks)
    return Lines(header, body, np.concatenate(sizes).cumsum(dtype=np.int64))


def _lines(rows: pd.DataFrame, name: str) -> pa.LargeStringArray:
    *cells, last = (_cells(rows[label], dtypes(name)[label], name) for label in rows)
    comma, nothing, end = (pa.scalar(text, pa.large_string()) for text in (",", "", "\n"))
    return pc.binary_join_element_wise(*cells, pc.binary_join_element_wise(last, nothing, end), comma)


def _content(lines: pa.LargeStringArray) -> memoryview:
    _, offsets, content = lines.buffers()
    first, last = np.frombuffer(offsets, dtype=np.int64)[[lines.offset, lines.offset + len(lines)]]
    return memoryview(content)[first:last]


def _cells(values: pd.Series, dtype: str, name: str) -> pa.LargeStringArray:
    """Cells of a column as they are written; empty where one is missing."""
    if dtype == FLOAT:
        there = values.notna().to_numpy()
        if not there.any():
            return pa.repeat(pa.scalar("", pa.large_string()), len(values))
        texts = (repr(value) if is_there else "" for value, is_there in zip(values.tolist(), there, strict=True))
        return pa.array(texts, pa.large_string(), size=len(values))
    if dtype == TEXT:
        codes, texts = values.factorize()
        return pa.array([_quoted(text, name) for text in texts], pa.large_string()).take(pa.array(codes))
    cells = pa.array(values)
    words = pc.if_else(cells, "True", "False") if dtype == FLAG else cells
    return pc.fill_null(words.cast(pa.large_string()), "")


def _quoted(text: str, name: str) -> str:
    if not QUOTED.search(text):
        return text
    if LINE_END in text:
        raise DataError(f"a text of table {name} holds characters that a CSV file cannot", got=ascii(LINE_END))
    return '"' + text.replace('"', '""') + '"'
