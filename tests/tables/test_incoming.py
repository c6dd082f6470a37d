"""Other people's rows: every format says the same, columns are mapped, and every wrong cell is
named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from conftest import layer, run, table
from hypothesis import given
from hypothesis import strategies as st

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import folders, incoming, store
from thermostats.tables.incoming import read
from thermostats.tables.join import join


def written(frame: pd.DataFrame, path: Path) -> Path:
    """The frame in the format that the path's ending says."""
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in {".json", ".jsonl"}:
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        path.write_text(
            "\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows)
        )
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "parquet", "frame"])
def test_every_format_gives_the_same_rows(small_store: Path, tmp_path: Path, ending: str) -> None:
    measured = run(source="elsewhere", measure_version="2")
    frames = [
        table("runs", measured),
        table("layers", *(layer(measured, number, 1 / 3 + number) for number in (1, 2, 3))),
    ]
    forms = [
        frame
        if ending == "frame"
        else written(frame.iloc[:, ::-1], tmp_path / f"{number}.{ending}")
        for number, frame in enumerate(frames)
    ]
    assert [done.added for done in join(forms, data=small_store)] == [1, 3]
    assert [done.unchanged for done in join(frames, data=small_store)] == [1, 3]
    stored = store.load("layers", small_store)
    assert stored.loc[stored["run_id"] == measured["run_id"], "gain_block"].tolist() == [
        1 / 3 + n for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"", "x.csv", "the file is empty"),
        (b"a,b\n1,2,3\n", "x.csv", "row 1 has 3 cells under the names of 2"),
        (b"a,b\n1,2\n3\n", "x.csv", "row 2 has 1 cells"),
        (b"a\n\xff\n", "x.csv", "damaged"),
        (b"{", "x.json", "damaged"),
        (b'{"a": 1}', "x.json", "not a list of objects"),
        (b'{"a": 1}\n{', "x.jsonl", "line 2"),
        (b"[1, 2]", "x.json", "not a list of objects"),
        (b'[{"a": 1}, 2]', "x.json", "not a list of objects"),
        (b'"text"', "x.json", "not a list of objects"),
        (b"3\n", "x.jsonl", "not a list of objects"),
        (b"[]", "x.json", "the file is empty"),
        (b" \n\n", "x.csv", "the file is empty"),
        (b"\n\n", "x.jsonl", "the file is empty"),
        (b'a,b\n"1,2\n', "x.csv", "damaged: unexpected end of data"),
        (b'a,b\n"1"x,2\n', "x.csv", "damaged: ',' expected"),
        (b"PAR1", "x.parquet", "damaged"),
        (b"a", "x.xlsx", "allowed: .csv, .tsv, .json, .jsonl, .parquet"),
        (b"a", "x.jsonn", "did you mean .json"),
    ],
)
def test_a_damaged_or_unknown_file_is_named(
    tmp_path: Path, content: bytes, name: str, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((DataError, UsageError), match=words):
        read(tmp_path / name)


LINES = [
    "a,b",
    "1,2",
    "3,4",
    "",
    "é, x",
    ",",
    "1,",
    "a,b,c",
    "7",
    "\x00,1",
    "1\t2,3",
    "\ufeff,1",
    "' ,'",
]


@given(
    lines=st.lists(st.sampled_from(LINES), max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_a_text_without_quotes_is_the_same_rows_as_with_them(
    lines: list[str], end: str, mark: bytes
) -> None:
    """Arrow reads the one, Python's csv module, which names what is wrong, the other."""
    plain, quoted = (["a,b", *lines], ['"a",b', *lines])
    outcomes = []
    for each in (plain, quoted):
        try:
            outcomes.append(incoming._read_delimited(mark + end.join(each).encode(), ","))
        except ValueError as error:
            outcomes.append(str(error))
    if isinstance(outcomes[0], str) or isinstance(outcomes[1], str):
        assert outcomes[0] == outcomes[1]
    else:
        pd.testing.assert_frame_equal(*outcomes)


def test_parquet_is_counted_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"a": range(4), "b": 1.0, "c": "x" * 300_000}, index=[3, 1, 2, 0])
    frame.to_parquet(tmp_path / "x.parquet")
    rows = read(tmp_path / "x.parquet")
    assert (rows.index.tolist(), rows["a"].tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3])
    size = (tmp_path / "x.parquet").stat().st_size
    assert size < 50_000
    monkeypatch.setattr(folders, "CELLS", 16)  # its index is a column
    assert len(read(tmp_path / "x.parquet")) == 4
    monkeypatch.setattr(folders, "CELLS", 15)
    with pytest.raises(DataError, match="about 16 cells"):
        read(tmp_path / "x.parquet")
    monkeypatch.setattr(folders, "CELLS", 100)
    monkeypatch.setattr(incoming, "ROWS", 50_000)
    with pytest.raises(DataError, match="4 rows of long texts"):
        read(tmp_path / "x.parquet")


class Frame:
    """What polars, DuckDB and others hand out: Arrow's stream, its length and its columns."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)

    def to_pandas(self) -> pd.DataFrame:
        return self.table.to_pandas()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[object]:
        return iter(self.table.columns)


class Pandas:
    """A frame that can only be made one of pandas."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def to_pandas(self) -> pd.DataFrame:
        return self.frame


@pytest.mark.parametrize("kind", ["stream", "batch", "reader", "pandas", "list"])
def test_tables_of_other_libraries_are_joined(kind: str, tmp_path: Path) -> None:
    gains = [0.9 + k / 20 for k in range(1, 13)]
    frame = pd.DataFrame({"layer": range(1, 13), "prompt_id": "a", "gain_block": gains})
    frame = frame.assign(model_id="EleutherAI/pythia-160m", position="last", source="mine")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sources = {
        "stream": Frame(table),
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "pandas": Pandas(frame),
        "list": [Frame(table)],
    }
    done = thermostats.join(sources[kind], table="layers", data=tmp_path / "mine")
    assert done[-1].added == 12
    held = thermostats.load("layers", tmp_path / "mine", models=True).query("source == 'mine'")
    assert held["gain_block"].tolist() == pytest.approx(gains)
