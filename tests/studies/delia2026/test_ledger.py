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
    small = document(a=1, b={"c": [2.5, math.nan]}, flag=True, date="20260105_141034", text="4.9601235")
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


def test_keys_with_slashes_keep_their_own_pointer() -> None:
    small = document(**{"a/b": 1, "a": {"b": 2}})
    small.top["a/b"].number("t.c")
    assert list(small.entries) == ["/a~1b"]
    with pytest.raises(DataError, match=r"1 numbers.*/a/b"):
        small.close()


@pytest.mark.parametrize(("value", "expected", "fate"), [(2.0, 2.0, "derivable"), (2.0, 2.1, "imported")])
def test_a_figure_that_does_not_follow_becomes_a_statement(value: float, expected: float, fate: str) -> None:
    small, made = document(a=value), reading()
    made.derive(small.top["a"], expected, "a rule")
    assert small.entries["/a"].fate == fate
    assert len(made.rows.get("inconsistencies", [])) == int(fate == "imported")
    assert [row["value"] for row in made.rows["statements"]] == [value]


def test_a_mean_over_nan_is_nan_and_follows() -> None:
    small, made = document(a=math.nan), reading()
    made.derive(small.top["a"], math.nan, "a rule")
    assert small.entries["/a"].fate == "derivable" and small.entries["/a"].missing
    assert made.rows["statements"][0]["value"] is None and made.rows["statements"][0]["missing"]


def test_a_figure_that_follows_is_stated_with_its_model_but_no_copy_count_or_entry_of_a_list() -> None:
    small, made = (
        document(means={"pythia-70m": 0.9, "2_b": 0.5}, n=2, rows=[{"Model": "GPT2", "r": 0.1}], e=[0.2]),
        reading(),
    )
    for place, within in (
        (small.top["means"]["pythia-70m"], 1e-9),
        (small.top["means"]["2_b"], 1e-9),
        (small.top["n"], 0.0),
        (small.top["rows"].each()[0]["r"], 1e-9),
        (small.top["e"].each()[0], 1e-9),
    ):
        made.derive(place, place.value, "mean gain", within=within)
    assert {entry.fate for entry in small.entries.values()} == {"derivable"}
    assert [(row["pointer"], row["model_id"]) for row in made.rows["statements"]] == [
        ("/means/pythia-70m", "EleutherAI/pythia-70m"),
        ("/means/2_b", ""),
        ("/rows/0/r", "openai-community/gpt2"),
    ]


def test_a_missing_key_names_file_place_and_what_was_there() -> None:
    with pytest.raises(DataError, match=r"key 'gains' is missing \(small\.json/m\)"):
        _ = document(m={"gain": 1}).top["m"]["gains"]
