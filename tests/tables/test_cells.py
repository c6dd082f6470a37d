"""A cell of any kind through every reader: read as it is meant or refused by its column, never as
another value."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thermostats.errors import DataError, UsageError
from thermostats.tables.incoming import Source, read
from thermostats.tables.join import split_tables
from thermostats.tables.validation import convert_rows

RUN = {"model_id": "EleutherAI/pythia-160m", "source": "cells", "position": "last"}


def in_csv(row: dict[str, Any], folder: Path) -> Source:
    pd.DataFrame([row]).to_csv(folder / "x.csv", index=False)
    return folder / "x.csv"


def in_json(row: dict[str, Any], folder: Path) -> Source:
    (folder / "x.json").write_text(json.dumps([row]))
    return folder / "x.json"


def in_lines(row: dict[str, Any], folder: Path) -> Source:
    (folder / "x.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    return folder / "x.jsonl"


def in_parquet(row: dict[str, Any], folder: Path) -> Source:
    pq.write_table(pa.Table.from_pylist([row]), folder / "x.parquet")
    return folder / "x.parquet"


def in_frame(row: dict[str, Any], folder: Path) -> Source:
    return pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in row.items()})


def in_arrow(row: dict[str, Any], folder: Path) -> Source:
    return pa.Table.from_pylist([row])


def in_dict(row: dict[str, Any], folder: Path) -> Source:
    return {name: [value] for name, value in row.items()}


CARRIERS: dict[str, Callable[[dict[str, Any], Path], Source]] = {
    "csv": in_csv,
    "json": in_json,
    "lines": in_lines,
    "parquet": in_parquet,
    "frame": in_frame,
    "arrow": in_arrow,
    "dict": in_dict,
}
TEXTS = ("csv", "json", "lines", "parquet", "frame", "arrow", "dict")
VALUES = ("parquet", "frame", "arrow", "dict")
REFUSED = object()
NUMBERS: list[tuple[Any, Any, tuple[str, ...]]] = [
    ("1.25", 1.25, TEXTS),
    (" 1.25 ", 1.25, TEXTS),
    ("+1.25e0", 1.25, TEXTS),
    (".5", 0.5, TEXTS),
    (1.25, 1.25, TEXTS),
    (2, 2.0, TEXTS),
    ("1_25", REFUSED, TEXTS),
    ("1,25", REFUSED, TEXTS),
    ("1 250", REFUSED, TEXTS),
    ("1,250.5", REFUSED, TEXTS),
    ("125%", REFUSED, TEXTS),
    ("0x1p0", REFUSED, TEXTS),
    ("\uff11.\uff12", REFUSED, TEXTS),
    ("\u22121.25", REFUSED, TEXTS),
    ("1-Feb", REFUSED, TEXTS),
    ("NA", REFUSED, TEXTS),
    ("nan", REFUSED, TEXTS),
    ("inf", REFUSED, TEXTS),
    ("1e400", REFUSED, TEXTS),
    (True, REFUSED, TEXTS),
    (False, REFUSED, TEXTS),
    ("True", REFUSED, TEXTS),
    (float("inf"), REFUSED, TEXTS),
    (10**400, REFUSED, ("json", "lines", "frame", "dict")),
    (Decimal("1.25"), 1.25, VALUES),
    (b"1.25", 1.25, VALUES),
    (np.float32(1.25), 1.25, ("frame", "dict")),
    (np.bool_(True), REFUSED, ("frame", "dict")),
    (1.25 + 0j, REFUSED, ("frame", "dict")),
    ([1.25], REFUSED, ("json", "lines", *VALUES)),
    (datetime.date(2026, 2, 1), REFUSED, VALUES),
    (datetime.timedelta(seconds=1), REFUSED, VALUES),
]


NAMES: list[tuple[Any, Any, tuple[str, ...]]] = [
    ("NA", "NA", TEXTS),
    ("null", "null", TEXTS),
    ("007", "007", TEXTS),
    ("1.0", "1.0", TEXTS),
    (7, "7", TEXTS),
    (b"a", "a", VALUES),
    (b"\xff", REFUSED, VALUES),
    (["a"], REFUSED, ("json", "lines", *VALUES)),
    ({"a": 1}, REFUSED, ("json", "lines", *VALUES)),
    (datetime.date(2026, 2, 1), REFUSED, VALUES),
    (pd.Timestamp("2026-02-01"), REFUSED, ("frame", "dict")),
]


def outcome(label: str, value: Any, carrier: str, folder: Path) -> Any:
    """What comes of a cell of a layer, REFUSED where it is refused by its column."""
    source = CARRIERS[carrier](
        {"layer": 11, "prompt_id": "", "gain_block": 1.5, **RUN, label: value}, folder
    )
    try:
        *_, (name, rows) = split_tables(read(source), "layers", None, "x", dict, pd.DataFrame)
        return convert_rows(rows, name, "x")[label].iloc[0]
    except DataError as error:
        assert label in str(error), error
        return REFUSED


@pytest.mark.parametrize(("label", "cells"), [("gain_block", NUMBERS), ("prompt_id", NAMES)])
def test_a_cell_means_one_thing_in_every_carrier(
    label: str, cells: list[tuple[Any, Any, tuple[str, ...]]], tmp_path: Path
) -> None:
    other = []
    for value, meant, carriers in cells:
        for carrier in carriers:
            cell = outcome(label, value, carrier, tmp_path)
            if (cell is REFUSED) != (meant is REFUSED) or (meant is not REFUSED and cell != meant):
                other.append((value, carrier, "refused" if cell is REFUSED else cell))
    assert other == []


INDEXED = pd.DataFrame({"layer": [11, 12], "prompt_id": "", "gain_block": [1.3, 1.1]})


@pytest.mark.parametrize("levels", [["layer"], ["layer", "prompt_id"]])
@pytest.mark.parametrize("carrier", ["frame", "parquet", "arrow"])
def test_an_index_with_a_name_is_a_column_and_one_without_is_none(
    levels: list[str], carrier: str, tmp_path: Path
) -> None:
    for frame in (INDEXED.set_index(levels), INDEXED.iloc[::-1]):
        source: Source = frame
        if carrier == "parquet":
            frame.to_parquet(source := tmp_path / "x.parquet")
        elif carrier == "arrow":
            source = pa.Table.from_pandas(frame)
        assert sorted(read(source).columns) == sorted(INDEXED.columns)
        assert sorted(read(source)["layer"]) == [11, 12]
    named = INDEXED.drop(columns="layer").set_axis(pd.RangeIndex(11, 13, name="layer"))
    named.to_parquet(tmp_path / "range.parquet")
    assert read(tmp_path / "range.parquet")["layer"].tolist() == [11, 12]


FILES = {
    "semicolons": ("x.csv", "a;b\n1;1,5\n", "semicolons"),
    "a line for a spreadsheet": ("x.csv", "sep=;\na;b\n1;1,5\n", "semicolons"),
    "tabs in CSV": ("x.csv", "a\tb\n1\t2\n", "tabs"),
    "commas in TSV": ("x.tsv", "a,b\n1,2\n", "commas"),
    "a name twice": ("x.csv", "a,a\n1,2\n", "two columns have one name"),
    "cells without a name": ("x.csv", "a,\n1,2\n", "column 2 has cells but no name"),
    "a key twice": ("x.json", '[{"a": 1, "a": 2}]', "the key 'a' twice"),
    "a key twice, in lines": (
        "x.jsonl",
        '{"a": 1}\n{"a": 1, "a": 2}\n',
        "line 2: an object has the key 'a' twice",
    ),
    "a workbook": ("x.xlsx", "PK", "read_excel"),
    "a bundle": ("x.zip", "PK", "zipfile"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_otherwise_is_refused_by_what_it_is(kind: str, tmp_path: Path) -> None:
    name, content, words = FILES[kind]
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises((UsageError, DataError), match=words):
        read(tmp_path / name)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x1c"])
def test_what_ends_a_line_in_a_text_ends_none_in_a_file(mark: str, tmp_path: Path) -> None:
    for row in ({"text": f"a{mark}b"}, {"text": "c"}):
        with (tmp_path / "x.jsonl").open("a", encoding="utf-8", newline="") as stream:
            stream.write(json.dumps(row, ensure_ascii=mark == "\x1c") + "\r\n")
    assert read(tmp_path / "x.jsonl")["text"].tolist() == [f"a{mark}b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["csv", "json", "lines", "frame", "dict"])
@given(text=st.text(st.characters(codec="ascii", min_codepoint=32), max_size=8))
@settings(max_examples=30)
def test_no_text_becomes_a_number_that_is_not_written_in_it(
    carrier: str, text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Independent of the reader: what JSON calls a number, with a sign or a bare point besides."""
    cell = outcome("gain_block", text, carrier, tmp_path_factory.mktemp("cell"))
    if cell is REFUSED or pd.isna(cell):
        assert cell is REFUSED or text == ""
        return
    digits = text.strip().lstrip("+").replace("+", "")
    integer, point, rest = digits.partition(".")
    spelt = (
        (integer.lstrip("0") or "0")
        + point
        + (rest if rest[:1].isdigit() else "0" + rest if point else rest)
    )
    assert cell == json.loads(spelt.removesuffix("."))


def test_blank_columns_and_rows_of_a_spreadsheet_are_none(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\ufeffa,b,,\n1,2,,\n,,,\n\n3,4,,\n", encoding="utf-8")
    rows = read(tmp_path / "x.csv")
    assert rows.to_dict("list") == {"a": ["1", "3"], "b": ["2", "4"]}
    assert rows.index.tolist() == [0, 2]  # rows keep the number that they have in the file
