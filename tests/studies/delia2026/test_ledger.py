"""The ledger: every number read once with one fate, on a small document."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ledger import Document
from reading import Reading

from thermostats.errors import DataError


def reading() -> Reading:
    return Reading({}, {"lab/m": {"n_layers": 4}})


def document(**root: Any) -> Document:
    return Document("small.json", root)


def test_an_unread_number_stops_the_import() -> None:
    small = document(
        a=1, b={"c": [2.5, math.nan]}, flag=True, date="20260105_141034", text="4.9601235"
    )
    small.top["a"].number("layers.gain_block")
    with pytest.raises(DataError, match=r"3 numbers that nothing reads \(small\.json/b/c/0"):
        small.close()


def test_a_number_has_one_fate_and_nan_is_missing() -> None:
    small = document(a=[1.0, math.nan])
    first, second = small.top["a"].each()
    assert first.number("t.c") == 1.0 and second.number("t.c") is None
    with pytest.raises(RuntimeError, match="twice"):
        first.number("t.c")
    assert [entry.missing for entry in small.entries.values()] == [False, True]
    assert {entry.pattern for entry in small.entries.values()} == {"/a/*"}


@pytest.mark.parametrize(
    ("value", "expected", "fate"), [(2.0, 2.0, "derivable"), (2.0, 2.1, "imported")]
)
def test_a_figure_that_does_not_follow_becomes_a_statement(
    value: float, expected: float, fate: str
) -> None:
    small, made = document(a=value), reading()
    made.derive(small.top["a"], expected, "a rule")
    assert small.entries["/a"].fate == fate
    assert len(made.rows.get("inconsistencies", [])) == int(fate == "imported")
    assert [row["value"] for row in made.rows["statements"]] == [value]


def test_a_missing_key_names_file_place_and_what_was_there() -> None:
    with pytest.raises(DataError, match=r"key 'gains' is missing \(small\.json/m\)"):
        _ = document(m={"gain": 1}).top["m"]["gains"]
