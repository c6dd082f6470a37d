"""Files replaced whole: what the staging folder and the lock are called, when they are gone, how a
fault is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import filelock
import pytest
from conftest import model, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import folders
from thermostats.tables.join import join


def test_a_folder_that_is_not_there_is_made_and_locked_by_the_name_that_every_version_uses(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "deep" / "er"
    with pytest.raises(ZeroDivisionError), folders.hold_folder(folder):
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(folder / ".lock", timeout=0).acquire()
        raise ZeroDivisionError  # after a fault too the lock is free
    with filelock.FileLock(folder / ".lock", timeout=0):
        pass
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=f"cannot lock the folder.*{os.strerror(errno.ENOTDIR)}"):
        folders.hold_folder(tmp_path / "file" / "x").__enter__()


def test_what_lies_in_the_staging_folder_is_removed_before_and_after(tmp_path: Path) -> None:
    staging = tmp_path / ".staging"
    for _ in range(2):
        staging.mkdir()
        (staging / "models.csv.abc").write_bytes(b"half a li")
        with folders.hold_folder(tmp_path):
            assert not staging.exists()
            staging.mkdir()
            (staging / "models.csv.def").write_bytes(b"what could not be removed")
        assert not staging.exists()


@pytest.mark.parametrize("place", ["../a", "linked/a"])
def test_a_place_outside_is_refused_and_says_where_it_leads(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"outside its folder.*symbolic link") as caught:
        folders.write_all(folder, {folder / "first": b"", folder / place: b""})
    assert caught.value.got == str(tmp_path.resolve())
    assert not list(tmp_path.glob("*a")) and not (folder / "first").exists()


def test_a_linked_file_is_replaced_not_followed(small_store: Path, tmp_path: Path) -> None:
    target = tmp_path / "models.csv"
    (small_store / "models.csv").replace(target)
    (small_store / "models.csv").symlink_to(target)
    before = target.read_bytes()
    join(table("models", model("lab/other")), data=small_store)
    assert target.read_bytes() == before
    assert not (small_store / "models.csv").is_symlink()


def test_a_drive_without_locks_is_said(small_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (
        NotImplementedError("no flock here"),
        OSError(errno.ENOLCK, "No locks available"),
    ):

        def refuse(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
        with pytest.raises(DataError, match=r"cannot lock.*(no flock here|No locks available)"):
            join(table("models", model("lab/other")), data=small_store)


def test_of_a_set_of_files_none_is_replaced_when_one_cannot_be_staged(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="cannot write"):
        folders.write_all(tmp_path, {tmp_path / "a": b"new", tmp_path / "file" / "b": b"new"})
    assert snapshot(tmp_path) == {"a": b"old", "b": b"old", "file": b""}
    folders.write_all(tmp_path, {tmp_path / "a": b"new", tmp_path / "deep" / "er" / "c": b"c"})
    assert snapshot(tmp_path) == {"a": b"new", "b": b"old", "file": b"", "deep/er/c": b"c"}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
