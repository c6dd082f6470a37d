"""One table against its schema: cells of other people's rows, typed frames, names that deceive or
run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import finding, layer, model, run, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES
from thermostats.tables.validation import check_texts, convert_rows, convert_text


def layers(**cells: object) -> pd.DataFrame:
    """Three layers as other people have them: every cell an object; cells by column for the second
    row."""
    frame = table("layers", *(layer(run(), number, 2.0) for number in (1, 2, 3))).astype(object)
    for label, value in cells.items():
        frame[label] = pd.Series([frame[label][0], value, frame[label][2]], dtype=object)
    return frame


def refusal(frame: pd.DataFrame, name: str = "layers") -> DataError:
    with pytest.raises(DataError) as caught:
        convert_rows(frame, name, "rows.csv")
    return caught.value


def cell(label: str, value: Any) -> pd.DataFrame:
    """Rows with a cell of that column given, the second of three or, of models, the only one."""
    if label in TABLES["layers"].columns:
        return layers(**{label: value})
    return (
        table("models", model()).astype(object).assign(**{label: pd.Series([value], dtype=object)})
    )


@pytest.mark.parametrize(
    ("label", "expected", "values"),
    [
        ("cosine", 0.5, ["0.5", 0.5, np.float32(0.5), " 5e-1 "]),
        ("cosine", -0.5, ["-0.5"]),
        ("cosine", 1.0, [1]),
        ("cosine", None, ["", None]),
        ("n_tokens", 7, [7, "7", "+7", " 7", 7.0, "7.0", "7e0", np.int64(7)]),
        ("n_tokens", 2**62, [2**62, str(2**62)]),
        ("gated_mlp", True, [True, "true", "TRUE"]),
        ("gated_mlp", False, [np.bool_(False), "False", "false"]),
    ],
)
def test_cells_of_a_type(label: str, expected: Any, values: list[Any]) -> None:
    for value in values:
        frame = cell(label, value)
        cells = convert_rows(frame, "layers" if len(frame) > 1 else "models", "")[label].tolist()
        first = cells.pop(1 if len(frame) > 1 else 0)
        assert (None if pd.isna(first) else first) == expected, value
        assert all(pd.isna(other) for other in cells)


BEYOND = [2**62 + 1, str(2**62 + 1), -(2**62) - 1]


@pytest.mark.parametrize(
    ("label", "kind", "values"),
    [
        ("cosine", "a number", ["two", "inf", "-inf", "nan", float("inf"), "0x1", [1.0], 10**400]),
        (
            "n_tokens",
            "a whole number",
            ["7.5", 7.5, "seven", True, "inf", float("inf"), 10**400, "1e300", *BEYOND],
        ),
        ("gated_mlp", "true or false", ["yes", 1, 0, "1", "t"]),
    ],
)
def test_what_is_not_of_the_type_is_named_with_its_row(
    label: str, kind: str, values: list[Any]
) -> None:
    for value in values:
        frame = cell(label, value)
        several = len(frame) > 1
        error = refusal(frame, "layers" if several else "models")
        assert error.rows == (
            f"row {1 + several}, column {label}: {repr(value)[:60]} is not {kind}",
        )
        assert error.what == f"1 row is not as table {'layers' if several else 'models'} wants them"
        assert error.where == "rows.csv"


def test_a_row_that_stands_twice_counts_once_and_rows_are_sorted_by_key() -> None:
    frame = layers()
    rows = convert_rows(pd.concat([frame[::-1], frame], ignore_index=True), "layers", "")
    assert rows["layer"].tolist() == [1, 2, 3]
    assert rows.index.tolist() == [0, 1, 2]


def test_a_key_that_stands_twice_with_other_values_names_the_later_row() -> None:
    frame = pd.concat([layers(), layers().iloc[[0]].assign(gain_block=3.0)], ignore_index=True)
    error = refusal(frame)
    assert error.rows == (
        "row 4, run_id, layer, prompt_id, position: the same as in a row before, with other values",
    )


NAMES = {
    "lab/\u202emallEtfel": "hidden character",
    "lab/a\u200bb": "hidden character",
    "lab/a\x1b[31mb": "hidden character",
    "lab/a\nb": "hidden character",
    "lab/a\x00b": "hidden character",
    "\ufefflab/a": "hidden character",
    "lab/cafe\u0301": "a letter and its accent as two characters",
    "lab/\u1112\u1161\u11ab": "a letter and its accent as two characters",
    "=cmd|'/c calc'!A1": "formula",
    "+1": "formula",
    "-1": "formula",
    "@SUM(A1)": "formula",
    "lab/\ud800": "half of a character",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_deceive_or_run_are_refused_by_what_is_wrong(
    small_store: Path, name: str
) -> None:
    before = snapshot(small_store)
    with pytest.raises(DataError, match=NAMES[name]) as caught:
        join(
            table("models", model())
            .astype(object)
            .assign(model_id=pd.Series([name], dtype=object)),
            data=small_store,
        )
    assert "model_id" in str(caught.value)
    assert not any(
        (ord(each) < 32 and each != "\n") or each in "\u202e\u200b\ufeff"
        for each in str(caught.value)
    )
    assert snapshot(small_store) == before


HIDDEN = [
    (0x0, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x61C, 0x61C),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
]


@pytest.mark.parametrize(("first", "last"), HIDDEN)
def test_every_hidden_character_is_refused_and_its_neighbours_are_not(
    first: int, last: int
) -> None:
    for code in range(first, last + 1):
        with pytest.raises(DataError, match="column family holds a hidden character"):
            check_texts([f"a{chr(code)}b"], "models", "family")
    for code in (first - 1, last + 1):
        if code >= 0 and not any(low <= code <= high for low, high in HIDDEN):
            check_texts([f"a{chr(code)}b"], "models", "family")


def test_half_of_a_character_is_refused_in_free_text_too_and_a_formula_only_in_names() -> None:
    for code in (0xD800, 0xDFFF):
        for name, label in (("models", "family"), ("outputs", "top_token")):
            with pytest.raises(DataError, match=f"column {label} holds half of a character"):
                check_texts([f"a{chr(code)}"], name, label)
    check_texts(["=1+1\u202e"], "outputs", "top_token")
    for sign in "=+-@":
        with pytest.raises(
            DataError, match="column source begins like a spreadsheet formula"
        ) as caught:
            check_texts([f"{sign}x"], "models", "source", "here")
        assert (caught.value.where, caught.value.got) == ("here", f"'{sign}x'")
    check_texts(["x=", "x+", "x-", "x@", "A-b_9"], "models", "source")


@pytest.mark.parametrize("run_id", ["-a", "_a", "a b", "a\n"])
def test_what_a_run_may_not_be_called(run_id: str) -> None:
    check_texts(["A-b_9"], "layers", "run_id")
    with pytest.raises(
        DataError, match="names a run with characters other than letters, digits, - and _"
    ):
        check_texts([run_id], "layers", "run_id")


def test_true_is_no_number_among_texts() -> None:
    frame = layers(cosine=True)
    frame.loc[2, "cosine"] = "x"
    assert refusal(frame).rows[0] == "row 2, column cosine: True is not a number"


def test_the_same_value_in_many_rows_is_one_line_with_the_first_of_them() -> None:
    frame = table("layers", *(layer(run(), number, 2.0) for number in range(1, 9))).astype(object)
    frame["position"] = ["end", *["last"] * 6, "end"]
    frame["gain_block"] = [-1.0, *["much"] * 6, -2.0]
    error = refusal(frame)
    assert error.rows == (
        "row 1, column gain_block: -1.0 is not allowed; above 0",
        "2 rows (1, 8), column position: 'end' is not allowed; "
        "one of 'last', 'first', 'mean', 'cls', 'patches', 'all', 'mean_norm', 'unstated'",
        "6 rows (2, 3, 4, 5, 6, …), column gain_block: 'much' is not a number",
        "row 8, column gain_block: -2.0 is not allowed; above 0",
    )
    assert error.what.startswith("8 rows are not")
    twice = pd.concat([layers(), layers().assign(gain_block=3.0)], ignore_index=True)
    assert [row.partition(",")[0] for row in refusal(twice).rows] == ["row 4", "row 5", "row 6"]


def test_what_a_column_without_bounds_wants_is_said() -> None:
    frame = table("findings", finding("C01", finding="C01.x")).astype(object)
    frame["headline"] = pd.Series([None], dtype=object)
    assert refusal(frame, "findings").rows == (
        "row 1, column headline: empty is not allowed; boolean, and never empty",
    )


def test_texts_are_as_they_came_and_whole_numbers_have_no_point() -> None:
    mixed = pd.Series(["a", 3.0, 3.5, None, float("nan"), 7, True], dtype=object, name="who")
    assert convert_text(mixed).tolist() == ["a", "3", "3.5", "", "", "7", "True"]


def test_half_a_character_is_said_with_its_column() -> None:
    with pytest.raises(DataError, match="half of a character") as caught:
        convert_text(pd.Series(["a\ud800" + "b" * 90], dtype=object, name="who"))
    assert (caught.value.where, caught.value.got) == (
        "column who",
        ascii("a\ud800" + "b" * 90)[:60],
    )


def test_a_frame_is_typed_and_ordered_and_what_cannot_be_is_named() -> None:
    frame = table("layers", layer(run(), 2, 1.0), layer(run(), 1, 1.0)).astype(object)
    frame["missing"] = None
    ordered = store.validate(frame.iloc[::-1, ::-1], "layers")
    assert {label: str(ordered[label].dtype) for label in ordered} == store.list_dtypes("layers")
    assert ordered.columns.tolist() == list(TABLES["layers"].columns)
    assert (ordered["layer"].tolist(), ordered["missing"].tolist(), ordered.index.tolist()) == (
        [1, 2],
        ["", ""],
        [0, 1],
    )
    with pytest.raises(DataError, match="table layers, column cosine is not of type float64"):
        store.validate(frame.assign(cosine="many"), "layers")
    infinite = frame.assign(cosine=[0.5, float("inf")])
    with pytest.raises(DataError, match="column cosine is infinite") as caught:
        store.validate(infinite, "layers", "here")
    assert (
        caught.value.where == f"here, run_id {run()['run_id']}, layer 2, prompt_id a, position last"
    )


def test_a_value_that_is_not_allowed_is_named_with_its_row_and_what_is() -> None:
    rows = [layer(run(), 1, 1.0), layer(run(), 2, 1.0)]
    frame = table("layers", *rows)
    with pytest.raises(DataError, match="column cosine has a value that is not allowed") as caught:
        store.validate(frame.assign(cosine=[0.5, 7.0]), "layers")
    assert (caught.value.got, caught.value.allowed) == ("7.0", "at least -1.0001; at most 1.0001")
    assert caught.value.where.startswith("run_id") and "layer 2" in caught.value.where
    with pytest.raises(DataError, match="table layers holds a key twice") as caught:
        store.validate(pd.concat([frame, frame.iloc[[1]].assign(gain_block=2.0)]), "layers")
    assert (
        caught.value.allowed == "one row per run_id, layer, prompt_id, position"
        and "layer 2" in caught.value.where
    )


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen2.5-0.5B", "études/modèle-7b", "ラボ/模型", "a=b", "lab/<b>&'"]
)
def test_other_names_are_kept(name: str, small_store: Path) -> None:
    join(table("models", model(name)), data=small_store)
    assert name in set(store.load("models", small_store)["model_id"])
