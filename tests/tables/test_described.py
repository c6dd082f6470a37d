"""Declarations: what a column and a table come to, and that what describes the shipped tables says
the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from thermostats.tables import store
from thermostats.tables.export import describe, describe_folder
from thermostats.tables.schemas import (
    FLAG,
    FLOAT,
    INTEGER,
    TEXT,
    Column,
    declare_column,
    declare_gain,
)
from thermostats.tables.validation import mark_faults

SHIPPED = store.find_shipped("data")


def test_what_describes_the_shipped_tables_is_current() -> None:
    """`python -m thermostats.tables.export` in a checkout makes it so."""
    stale = [
        name
        for name, content in describe_folder(SHIPPED).items()
        if (SHIPPED / name).read_bytes() != content
    ]
    assert stale == []


def test_what_is_current_is_not_written_again(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "models.csv", tmp_path)
    written = describe(tmp_path)
    assert sorted(path.name for path in written) == ["CODEBOOK.md", "datapackage.json"]
    assert describe(tmp_path) == []
    (tmp_path / "datapackage.json").write_text("{}")
    assert describe(tmp_path) == [tmp_path / "datapackage.json"]
    package = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert [(resource["name"], resource["path"]) for resource in package["resources"]] == [
        ("models", "models.csv")
    ]


@pytest.mark.parametrize(
    ("declared", "taken", "refused"),
    [
        (declare_column(FLOAT, "x", lower=1.0, upper=2.0), [1.0, 2.0], [0.99, 2.01, None]),
        (declare_column(INTEGER, "x", lower=0), [0], [-1, None]),
        (declare_column(TEXT, "x", allowed=["a", ""]), ["a", ""], ["b"]),
        (declare_column(FLAG, "x"), [True], [None]),
        (declare_column(FLAG, "x", nullable=True), [True, None], []),
        (declare_gain("x"), [1e-300, None], [0.0]),
    ],
)
def test_bounds_are_what_they_say(
    declared: Column, taken: list[object], refused: list[object]
) -> None:
    for value in (*taken, *refused):
        alone = pd.Series([value], dtype=declared.dtype)
        assert mark_faults(alone, declared).any() == (value not in taken), value
