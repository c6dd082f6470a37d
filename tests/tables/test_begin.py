"""A store of the user's own: begun when first written to, read with the package's tables beneath, which stay as is."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import layer, model, run, snapshot, table

from thermostats.errors import DataError, UsageError
from thermostats.tables import folders, store
from thermostats.tables.features import features
from thermostats.tables.folders import writable_folder
from thermostats.tables.join import join

SHIPPED = store.shipped("data")


def test_a_new_or_empty_store_holds_its_mark_alone_and_reads_the_package(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "deep/er", "empty"):
        folder = writable_folder(tmp_path / name)
        assert [path.name for path in folder.iterdir()] == [folders.MARK]
        assert store.check(folder) == store.check(SHIPPED)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "deep", "empty"}


def test_a_folder_with_other_files_becomes_a_store_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert writable_folder(tmp_path) == tmp_path
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", folders.MARK}


def test_a_folder_of_tables_stands_for_itself(small_store: Path) -> None:
    before = snapshot(small_store)
    assert writable_folder(small_store) == small_store
    assert snapshot(small_store) == before
    assert store.load("models", small_store)["model_id"].tolist() == ["lab/small"]


def test_without_a_folder_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(folders.DATA_VARIABLE, raising=False)
    before = snapshot(SHIPPED)
    with pytest.raises(UsageError, match=r"read-only.*--data mine"):
        join(table("models", model()))
    assert snapshot(SHIPPED) == before
    monkeypatch.setenv(folders.DATA_VARIABLE, str(tmp_path / "mine"))
    join(table("models", model()))
    assert "lab/small" in set(store.load("models")["model_id"])


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot begin a data folder"):
        writable_folder(tmp_path / "file" / "new")


def test_own_rows_lie_over_the_package_s(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    before = snapshot(SHIPPED)
    measured = run(source="mine", prompt_set="own")
    prompt = {"prompt_set": "own", "prompt_id": "a", "text": "x", "text_sha256": "0" * 64}
    rows = [layer(measured, number, gain) for number, gain in ((1, 9.0), (2, 1.5), (3, 0.5))]
    join(
        [table("models", model()), table("prompts", prompt), table("runs", measured), table("layers", *rows)], data=mine
    )
    assert len(store.load("layers", mine)) == len(store.load("layers", SHIPPED)) + 3
    assert {path.name for path in store.files("models", mine)} == {"models.csv", "models.parquet"}
    assert len(store.read(mine / "models.csv", "models")) == 1
    assert features(mine).set_index("source").loc["mine", "last_gain"] == 0.5
    assert store.has_run("layers", str(measured["run_id"]), mine)
    assert snapshot(SHIPPED) == before


def test_a_row_of_one_s_own_stands_for_the_package_s_with_the_same_key(tmp_path: Path) -> None:
    mine = writable_folder(tmp_path / "mine")
    theirs = store.load("models", SHIPPED).iloc[[0]]
    mine_instead = theirs.assign(heritage="somebody else")
    with pytest.raises(DataError, match="already has 1 of these rows"):
        join(mine_instead, data=mine)
    done = join(mine_instead, data=mine, replace=True)[0]
    assert (done.added, done.replaced) == (0, 1)
    seen = store.load("models", mine).set_index(["model_id", "revision"])
    assert len(seen) == len(store.load("models", SHIPPED))
    assert seen.loc[tuple(theirs.iloc[0][["model_id", "revision"]]), "heritage"] == "somebody else"
    assert join(mine_instead, data=mine)[0].unchanged == 1
    join(theirs, data=mine, replace=True)
    assert len(store.load("models", mine)) == len(store.load("models", SHIPPED))


def test_figures_of_the_study_are_not_replaced(tmp_path: Path) -> None:
    folder = writable_folder(tmp_path / "mine")
    rows = store.read(SHIPPED / "published" / "outputs.csv", "outputs").iloc[:1]
    before = snapshot(folder)
    with pytest.raises(DataError, match="figures of the study"):
        join(rows.assign(entropy=9.0), data=folder, replace=True)
    assert snapshot(folder) == before
