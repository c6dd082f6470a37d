"""Bundles: rows of one lab, joined by another under a source of their own."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import make_store

from thermostats.errors import DataError, UsageError
from thermostats.tables import bundle, store
from thermostats.tables.join import join


@pytest.fixture
def made(small_store: Path, tmp_path: Path) -> Path:
    path = tmp_path / "lab.zip"
    runs = set(store.load("runs", small_store)["run_id"])
    bundle.write(path, small_store, runs, {"page/index.html": b"<p>"}, source="our-lab", study="one")
    return path


def test_joined_rows_keep_their_source_and_joining_again_changes_nothing(made: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "other")  # has measured the same itself
    done = {each.table: (each.added, each.unchanged) for each in join(made, data=tmp_path / "other")}
    assert done == {"models": (0, 1), "prompts": (0, 2), "runs": (1, 0), "layers": (6, 0)}
    runs = store.load("runs", tmp_path / "other")
    assert sorted(runs["source"]) == ["our-lab", "tests"] and runs["run_id"].is_unique
    assert len(store.load("layers", tmp_path / "other")) == 12
    assert {each.added for each in join(made, data=tmp_path / "other")} == {0}
    assert store.check(tmp_path / "other")["runs"] == 2


def test_the_same_rows_give_the_same_bytes_and_name(small_store: Path, made: Path, tmp_path: Path) -> None:
    runs = set(store.load("runs", small_store)["run_id"])
    bundle.write(tmp_path / "again.zip", small_store, runs, {"page/index.html": b"<p>"}, source="our-lab", study="one")
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()
    assert bundle.source_of(small_store, runs) == bundle.source_of(small_store, runs)
    manifest = json.loads(zipfile.ZipFile(made).read(bundle.MANIFEST))
    assert (manifest["source"], manifest["study"]) == ("our-lab", "one")
    assert set(manifest["files"]) == {"models.csv", "prompts.csv", "runs.csv", "layers.csv", "page/index.html"}


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.update({"layers.csv": files["layers.csv"].replace(b"9.0", b"8.0")}), "not the one that"),
        (lambda files: files.pop("layers.csv"), "damaged"),
        (lambda files: files.pop(bundle.MANIFEST), "not a bundle of rows"),
        (lambda files: files.update({bundle.MANIFEST: b"{"}), "damaged"),
        (lambda files: files.update({bundle.MANIFEST: b'{"format": 2, "files": {}}'}), "with another format"),
        (lambda files: files.update({f"{i}": b"" for i in range(300)}), "not a bundle of rows"),
    ],
)
def test_a_bundle_that_is_none_is_refused_and_nothing_is_begun(
    change: Callable[[dict[str, bytes]], None], said: str, made: Path, tmp_path: Path
) -> None:
    rewritten(made, change)
    with pytest.raises(DataError, match=said):
        join(made, data=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_no_zip_and_no_runs_are_refused(small_store: Path, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("none")
    with pytest.raises(DataError, match="damaged"):
        join(tmp_path / "text.zip", data=tmp_path / "new")
    with pytest.raises(UsageError, match="no such file"):
        join(tmp_path / "nowhere.zip", data=tmp_path / "new")
    with pytest.raises(UsageError, match="no measured rows"):
        bundle.write(tmp_path / "none.zip", small_store, set(), {}, source="x")


def test_a_text_that_is_there_already_is_no_other_value_than_its_hash(small_store: Path, tmp_path: Path) -> None:
    """As for prompts that do not ship: their texts stay in the folder, their hashes go."""
    theirs = make_store(tmp_path / "theirs")
    prompts = store.load("prompts", theirs)
    store.save(prompts.assign(text="a text"), "prompts", theirs / "prompts.csv")
    (done,) = join(prompts.assign(text=""), table="prompts", data=theirs)
    assert (done.unchanged, done.added) == (2, 0)
    with pytest.raises(DataError, match="other values"):
        join(prompts.assign(text="", text_sha256="1" * 64), table="prompts", data=theirs)
    assert set(store.load("prompts", theirs)["text"]) == {"a text"}
