"""Frames of other libraries, read in one place: each way in which one hands out its rows, and what
is no frame. Stand-ins have what the libraries have; polars and DuckDB are tried where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import thermostats
from thermostats.errors import UsageError
from thermostats.next_steps import is_table
from thermostats.plots.general import _describe_profile, set_title
from thermostats.tables.frames import read_arrow, read_frame
from thermostats.tables.remedies import JoinCall, Remedy

matplotlib.use("Agg")
ROWS = pd.DataFrame({"model_id": ["a", "b"], "gain": [1.25, 0.5]})
TABLE = pa.Table.from_pandas(ROWS, preserve_index=False)


class Stream:
    """A frame of which nothing is known but Arrow's stream."""

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(schema)


class Polars(Stream):
    columns = ("model_id", "gain")

    def to_pandas(self) -> pd.DataFrame:
        raise AssertionError("Arrow is read first")

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[object]:
        return iter(TABLE.columns)


class Relation(Stream):
    """As DuckDB has it: a length, a type of its own, and no way to pandas by that name."""

    columns = ("model_id", "gain")
    type = "QUERY_RELATION"

    def __len__(self) -> int:
        return 2


class Struct:
    """One batch that is handed out as an array of structures."""

    def __arrow_c_array__(self, schema: Any = None) -> Any:
        return TABLE.combine_chunks().to_batches()[0].__arrow_c_array__(schema)


class Pandas:
    columns = ("model_id", "gain")

    def to_pandas(self) -> pd.DataFrame:
        return ROWS


class Column:
    """A column of a library that does not say so but by Arrow's schema."""

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return TABLE["gain"].__arrow_c_stream__(schema)


class Lazy:
    columns = ("model_id", "gain")

    def collect(self) -> pd.DataFrame:
        return ROWS


def make_polars() -> Any:
    return pytest.importorskip("polars").from_arrow(TABLE)


def make_relation() -> Any:
    return pytest.importorskip("duckdb").from_arrow(TABLE)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": ROWS.copy,
    "arrow": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": TABLE.to_reader,
    "stream alone": Stream,
    "like polars": Polars,
    "like DuckDB": Relation,
    "structures": Struct,
    "by pandas alone": Pandas,
    "polars": make_polars,
    "DuckDB": make_relation,
}
COLUMNS: dict[str, Callable[[], Any]] = {
    "series": lambda: ROWS["model_id"],
    "index": lambda: pd.Index(ROWS["model_id"]),
    "chunks": lambda: TABLE["model_id"],
    "array": TABLE["model_id"].combine_chunks,
    "polars": lambda: make_polars()["model_id"],
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_any_library_is_the_same_rows(kind: str) -> None:
    make = FRAMES[kind]
    assert is_table(make())
    read = read_arrow(make())
    assert isinstance(read, pd.DataFrame if "pandas" in kind else pa.Table)
    pd.testing.assert_frame_equal(read_frame(make()), ROWS, check_dtype=False)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_is_no_table(kind: str) -> None:
    column = COLUMNS[kind]()
    assert not is_table(column)
    assert read_arrow(column) is column
    with pytest.raises(UsageError, match="one column is no table") as refused:
        read_frame(column)
    assert "2 rows" in str(refused.value) and refused.value.next_step


def test_what_is_a_column_by_its_schema_alone_is_refused_when_it_is_read() -> None:
    column = Column()
    assert read_arrow(column) is column
    with pytest.raises(UsageError, match="not a table"):
        read_frame(column)


@pytest.mark.parametrize("call", [read_frame, thermostats.join])
def test_a_lazy_frame_is_to_be_collected(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError) as refused:
        call(Lazy())
    assert refused.value.next_step == "df.collect()"


@pytest.mark.parametrize("other", [{"a": 1}, [1, 2], "a.csv", None, 3, np.ones(2)])
def test_all_else_is_left_as_it_is(other: Any) -> None:
    assert not is_table(other)
    assert read_arrow(other) is other


LINES = {
    "pandas": "df.head(1)",
    "arrow": "df.to_pandas().head(1)",
    "like polars": "df.to_pandas().head(1)",
    "like DuckDB": "pd.DataFrame.from_arrow(df).head(1)",
    "by pandas alone": "df.to_pandas().head(1)",
    "polars": "df.to_pandas().head(1)",
    "DuckDB": "pd.DataFrame.from_arrow(df).head(1)",
}


@pytest.mark.parametrize("kind", LINES)
def test_a_line_for_a_frame_of_another_library_makes_it_one_of_pandas(kind: str) -> None:
    df = FRAMES[kind]()
    line = JoinCall(sources=[df]).line(Remedy(when="", rows="df.head(1)", as_given=True))
    assert line == f"thermostats.join({LINES[kind]})"
    if kind != "like polars":
        made = eval(LINES[kind], {"df": df, "pd": pd})  # noqa: S307
        assert made["model_id"].tolist() == ["a"]


def test_nothing_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to join"):
        thermostats.join([], data=tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_models_may_be_a_column(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def read(model: str, *_: Any) -> pd.DataFrame:
        asked.append(model)
        raise UsageError("stopped")

    monkeypatch.setattr("thermostats.plots.general.read_values", read)
    with pytest.raises(UsageError, match="stopped"):
        thermostats.profile(COLUMNS[kind]())
    assert asked == ["a"]


SENTENCE = "Blocks that let the stream grow: 11 of 12 and 23 of 24"


@pytest.mark.parametrize(("columns", "least", "most"), [(1, 20, 30), (2, 9, 14), (4, 5, 7)])
def test_a_title_is_as_wide_as_its_axes(columns: int, least: int, most: int) -> None:
    """Of a figure of so many columns, in letters of its longest line."""
    drawn = Figure(figsize=(3.4, 2.5)).subplots(1, columns, squeeze=False)[0, 0]
    set_title(drawn, SENTENCE)
    lines = drawn.get_title().splitlines()
    assert " ".join(lines) == SENTENCE
    assert least <= max(map(len, lines)) <= most


def test_a_title_of_the_narrowest_axes_has_a_letter_a_line() -> None:
    drawn = Figure(figsize=(3.4, 2.5)).add_axes((0.1, 0.1, 0.001, 0.8))
    set_title(drawn, "ab c")
    assert drawn.get_title() == "a\nb\nc"


def test_the_ends_of_a_norm_are_named_by_their_blocks() -> None:
    norms = pd.Series([2.0, 3.0, 8.0], index=[3, 4, 5])
    said = _describe_profile([norms], "norm")
    assert said == "The norm before block 5 is 4.00 times that before block 3"
    longer = pd.Series([2.0, 8.0], index=[3, 9])
    said = _describe_profile([norms, longer], "norm")
    assert said == "The norm before the last block measured is 4.00 times that before block 3"
