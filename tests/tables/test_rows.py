"""Cells of other people's rows: what is a number, a whole number, true or false, a text; every other is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import layer, model, run, table

from thermostats.errors import DataError
from thermostats.tables.incoming import as_text, typed


def layers(**cells: object) -> pd.DataFrame:
    """Three layers as other people have them: every cell an object; cells by column for the second row."""
    frame = table("layers", *(layer(run(), number, 2.0) for number in (1, 2, 3))).astype(object)
    for label, value in cells.items():
        frame[label] = pd.Series([frame[label][0], value, frame[label][2]], dtype=object)
    return frame


def told(frame: pd.DataFrame, name: str = "layers") -> DataError:
    with pytest.raises(DataError) as caught:
        typed(frame, name, "rows.csv")
    return caught.value


@pytest.mark.parametrize(
    ("given", "expected"),
    [("0.5", 0.5), (" 1e-3 ", 1e-3), (1, 1.0), (np.float32(0.25), 0.25), ("-0.5", -0.5), ("", None), (None, None)],
)
def test_numbers(given: Any, expected: float | None) -> None:
    found = typed(layers(cosine=given), "layers", "")
    assert (None if pd.isna(found["cosine"][1]) else found["cosine"][1]) == expected
    assert found["cosine"].isna().tolist() == [True, expected is None, True]
    assert found["gain_block"].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("given", ["two", "inf", "-inf", "nan", float("inf"), "1,5", "0x1", [1.0]])
def test_what_is_no_number_is_named_with_its_row(given: Any) -> None:
    error = told(layers(cosine=given))
    assert error.rows == (f"row 2, column cosine: {given!r} is not a number",)
    assert error.what == "1 row is not as table layers wants them"
    assert error.where == "rows.csv"


def test_true_is_no_number_among_texts() -> None:
    assert told(layers(cosine=True, anisotropy="x")).rows[-1] == "row 2, column anisotropy: 'x' is not a number"
    frame = layers(cosine=True)
    frame.loc[2, "cosine"] = "x"
    assert told(frame).rows[0] == "row 2, column cosine: True is not a number"


@pytest.mark.parametrize("given", [7, "7", "+7", " 7", 7.0, "7.0", "7e0", np.int64(7), 2**62, str(2**62)])
def test_whole_numbers(given: Any) -> None:
    expected = 2**62 if "4611" in str(given) else 7
    assert typed(layers(n_tokens=given), "layers", "")["n_tokens"].tolist() == [pd.NA, expected, pd.NA]


@pytest.mark.parametrize(
    "given", ["7.5", 7.5, "seven", True, "inf", float("inf"), 2**62 + 1, str(2**62 + 1), -(2**62) - 1, 10**400, "1e300"]
)
def test_what_is_no_whole_number_is_named_with_its_row(given: Any) -> None:
    assert told(layers(n_tokens=given)).rows == (f"row 2, column n_tokens: {given!r} is not a whole number",)


def test_a_negative_whole_number_is_read_and_refused_for_its_size() -> None:
    assert told(layers(n_tokens="-7")).rows == ("row 2, column n_tokens: -7 is not allowed; at least 1",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [(True, True), (np.bool_(False), False), ("true", True), ("TRUE", True), ("False", False), ("false", False)],
)
def test_flags(given: Any, expected: bool) -> None:
    frame = table("models", model()).astype(object).assign(gated_mlp=pd.Series([given], dtype=object))
    assert typed(frame, "models", "")["gated_mlp"].tolist() == [expected]


@pytest.mark.parametrize("given", ["yes", 1, 0, "1", "t"])
def test_what_is_no_flag_is_named(given: Any) -> None:
    frame = table("models", model()).astype(object).assign(gated_mlp=pd.Series([given], dtype=object))
    assert told(frame, "models").rows == (f"row 1, column gated_mlp: {given!r} is not true or false",)


def test_a_row_that_stands_twice_counts_once_and_rows_are_sorted_by_key() -> None:
    frame = layers()
    found = typed(pd.concat([frame[::-1], frame], ignore_index=True), "layers", "")
    assert found["layer"].tolist() == [1, 2, 3]
    assert found.index.tolist() == [0, 1, 2]


def test_a_key_that_stands_twice_with_other_values_names_the_later_row() -> None:
    frame = pd.concat([layers(), layers().iloc[[0]].assign(gain_block=3.0)], ignore_index=True)
    error = told(frame)
    assert error.rows == ("row 4, run_id, layer, prompt_id, position: the same as in a row before, with other values",)


def test_rows_are_named_in_their_order_and_counted() -> None:
    frame = layers(gain_block="x", position="end")
    frame.loc[0, "gain_block"] = -1.0
    frame.loc[2, "layer"] = None
    error = told(frame)
    assert [row.partition(":")[0] for row in error.rows] == [
        "row 1, column gain_block",
        "row 2, column gain_block",
        "row 3, column layer",
    ]
    assert error.rows[0].endswith("-1.0 is not allowed; above 0")
    assert error.rows[2].endswith("empty is not allowed; at least 1")
    assert error.what.startswith("3 rows are not")


def test_the_same_value_in_many_rows_is_one_line_with_the_first_of_them() -> None:
    frame = table("layers", *(layer(run(), number, 2.0) for number in range(1, 9))).astype(object)
    frame["position"] = ["end", *["last"] * 6, "end"]
    frame["gain_block"] = [-1.0, *["much"] * 6, -2.0]
    error = told(frame)
    assert error.rows == (
        "row 1, column gain_block: -1.0 is not allowed; above 0",
        "2 rows (1, 8), column position: 'end' is not allowed; one of 'last', 'first', 'mean', 'all', 'unstated'",
        "6 rows (2, 3, 4, 5, 6, …), column gain_block: 'much' is not a number",
        "row 8, column gain_block: -2.0 is not allowed; above 0",
    )
    assert error.what.startswith("8 rows are not")
    twice = pd.concat([layers(), layers().assign(gain_block=3.0)], ignore_index=True)
    assert [row.partition(",")[0] for row in told(twice).rows] == ["row 4", "row 5", "row 6"]


def test_what_a_column_without_bounds_wants_is_said() -> None:
    frame = table("models", model()).astype(object)
    frame["tied_embeddings"] = pd.Series([None], dtype=object)
    assert told(frame, "models").rows == (
        "row 1, column tied_embeddings: empty is not allowed; boolean, and never empty",
    )


def test_two_checks_of_a_column_are_both_said() -> None:
    frame = table("models", model()).astype(object).assign(year=1900)
    assert told(frame, "models").rows == ("row 1, column year: 1900 is not allowed; at least 2017; at most 2100",)


def test_texts_are_as_they_came_and_whole_numbers_have_no_point() -> None:
    given = pd.Series(["a", 3.0, 3.5, None, float("nan"), 7, True], dtype=object, name="who")
    assert as_text(given).tolist() == ["a", "3", "3.5", "", "", "7", "True"]


def test_half_a_character_is_said_with_its_column() -> None:
    with pytest.raises(DataError, match="half of a character") as caught:
        as_text(pd.Series(["a\ud800" + "b" * 90], dtype=object, name="who"))
    assert (caught.value.where, caught.value.got) == ("column who", ascii("a\ud800" + "b" * 90)[:60])
