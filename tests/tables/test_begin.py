"""A new data folder begins whole, with the tables that ship; figures of the study stay what they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import model, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.begin import writable_folder
from thermostats.tables.join import join


def test_a_new_or_empty_folder_begins_with_the_shipped_tables(tmp_path: Path) -> None:
    for name in ("new", "deep/er", "empty"):
        if name == "empty":
            (tmp_path / name).mkdir()
        folder = writable_folder(tmp_path / name)
        assert store.check(folder) == store.check(store.shipped("data"))
        assert not (folder / "private").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"new", "deep", "empty"}


def test_a_folder_with_tables_is_left_alone(small_store: Path) -> None:
    before = snapshot(small_store)
    assert writable_folder(small_store) == small_store
    assert snapshot(small_store) == before


def test_a_failed_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(DataError, match="No space left on device"):
        writable_folder(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_joining_begins_the_folder_too(tmp_path: Path) -> None:
    join(table("models", model()), data=tmp_path / "mine")
    assert "lab/small" in set(store.load("models", tmp_path / "mine")["model_id"])


def test_figures_of_the_study_are_not_replaced(tmp_path: Path) -> None:
    folder = writable_folder(tmp_path / "mine")
    rows = store.load("outputs", folder).iloc[:1]
    before = snapshot(folder)
    with pytest.raises(DataError, match="figures of the study"):
        join(rows.assign(entropy=9.0), data=folder, replace=True)
    assert snapshot(folder) == before
