"""Full disks, read-only folders, drives that vanish, clocks set back, older schemas: said by name, nothing damaged."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import model, table
from states import files_of, make_news, make_store

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.folders import MARK
from thermostats.tables.join import join

MOUNTS = sys.platform == "linux" and os.geteuid() == 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def news(tmp_path: Path) -> list[Path]:
    return make_news(tmp_path / "news")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=False)
    if done.returncode:
        pytest.skip("this system lets nobody mount")
    yield disk
    subprocess.run(["/bin/umount", "-l", str(disk)], check=True)


def refused(call: Callable[[], object], *words: str) -> str:
    with pytest.raises(DataError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


@pytest.mark.skipif(not MOUNTS, reason="needs the right to mount")
def test_a_full_disk_leaves_every_file_and_with_room_the_same_join_goes_through(
    small_disk: Path, tmp_path: Path
) -> None:
    make_store(small_disk / "data")
    news = make_news(tmp_path / "news", sources=40)
    before = files_of(small_disk)
    refused(lambda: join(news, data=small_disk / "data", replace=True), "No space left on device", "free space")
    assert files_of(small_disk, leftovers=True) == before
    subprocess.run(["/bin/mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    join(news, data=small_disk / "data", replace=True)
    assert store.check(small_disk / "data")["runs"] == 41


@pytest.mark.skipif(not MOUNTS, reason="needs the right to mount")
def test_a_read_only_folder_can_be_read_and_is_said_not_to_be_writable(small_disk: Path, tmp_path: Path) -> None:
    make_store(small_disk / "data")
    before = files_of(small_disk)
    subprocess.run(["/bin/mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert store.check(small_disk / "data")["layers"] == 6
    message = refused(lambda: join(make_news(tmp_path / "news"), data=small_disk / "data"), "ead-only file system")
    assert str(small_disk / "data") in message
    assert files_of(small_disk) == before


GONE = {"stale": errno.ESTALE, "broken": errno.EIO, "unmounted": errno.ENODEV, "refused": errno.EACCES}


CALLS = {
    "list": "pathlib.Path.iterdir",
    "create": "tempfile.mkstemp",
    "sync": "os.fsync",
    "rename": "pathlib.Path.replace",
}


@pytest.mark.parametrize(("fault", "call"), list(zip(GONE, CALLS, strict=True)))
def test_a_drive_that_vanishes_is_said_and_every_file_is_whole(
    data: Path, news: list[Path], monkeypatch: pytest.MonkeyPatch, fault: str, call: str
) -> None:
    before = files_of(data)
    reason = os.strerror(GONE[fault])

    def gone(*arguments: object, **_: object) -> None:
        raise OSError(GONE[fault], reason, str(arguments[0] if arguments else data))

    with monkeypatch.context() as patch:
        patch.setattr(CALLS[call], gone)
        refused(lambda: join(news, data=data, replace=True), reason)
        if call == "list":
            refused(lambda: store.load("layers", data), reason)
    assert files_of(data) == before
    join(news, data=data, replace=True)
    assert store.check(data)["runs"] == 4


def test_a_folder_that_cannot_be_listed_is_not_an_empty_table(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Path.iterdir

    def gone(path: Path) -> Iterator[Path]:
        if path.name == "layers":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", gone)
    refused(lambda: store.check(data), "measured/layers", "Permission denied")


def test_a_file_that_vanishes_while_tables_are_read_is_named(data: Path) -> None:
    runs = store.files("runs", data)[0]
    runs.unlink()
    runs.symlink_to(data / "nowhere.csv")
    refused(lambda: store.check(data), runs.name)


def test_a_clock_set_back_changes_nothing(data: Path, news: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    join(news, data=data, replace=True)
    before = files_of(data)
    monkeypatch.setattr(time, "time", lambda: 86_400.0)
    for path in data.rglob("*"):
        os.utime(path, (4e9, 4e9))
    assert [done.unchanged for done in join(news, data=data)] == [1, 3, 11]
    assert files_of(data) == before


def test_a_clock_set_back_leaves_a_report_fresh(tmp_path: Path) -> None:
    from workplaces import make_workplace

    from thermostats.reporting.report import report

    places = make_workplace(tmp_path)
    assert report(["C01"], **places, processes=1).ok
    for path in tmp_path.rglob("*"):
        os.utime(path, (1.0, 1.0))
    again = report(["C01"], **places, processes=1)
    assert {outcome.status for outcome in again.outcomes} == {"fresh"}
    assert again.written == ()


OLDER = {
    "a column that was not there yet": lambda text: "\n".join(line.rsplit(",", 1)[0] for line in text.splitlines()),
    "a column that had another name": lambda text: text.replace("gain_block", "gain", 1),
    "columns in another order": lambda text: text.replace("run_id,layer", "layer,run_id", 1),
    "layers counted from 0": lambda text: text.replace(",1,a,", ",0,a,", 1),
    "a position that is no more": lambda text: text.replace(",last,", ",final,", 1),
}


@pytest.mark.parametrize("change", OLDER)
def test_tables_of_an_older_form_are_refused_by_name(data: Path, change: str) -> None:
    path = store.files("layers", data)[0]
    path.write_text(OLDER[change](path.read_text()))
    message = refused(lambda: store.check(data), "layers")
    assert "layer" in message and ("allowed" in message or "columns" in message)


@pytest.mark.parametrize(
    ("said", "words"), [("schema = 0", "older"), ("schema = 99", "newer"), ("schema = [", "store.toml")]
)
def test_a_store_of_another_schema_is_refused_by_name(data: Path, news: list[Path], said: str, words: str) -> None:
    (data / MARK).write_text(said + "\n")
    before = files_of(data)
    for call in (lambda: store.check(data), lambda: join(news, data=data)):
        refused(call, words, str(data / MARK))
    assert files_of(data) == before


def test_a_new_store_says_its_schema(tmp_path: Path) -> None:
    from thermostats.tables.folders import SCHEMA

    join(table("models", model("lab/first")), data=tmp_path / "mine")
    assert f"schema = {SCHEMA}\n" in (tmp_path / "mine" / MARK).read_text()
    assert len(store.load("models", tmp_path / "mine")) > 30


def test_a_changed_schema_has_another_number() -> None:
    """Names, order, types and keys of all columns; who changes one raises `SCHEMA` and puts the new hash here.

    `findings` is in a report and in no store: a change of it alone leaves `SCHEMA` as it is.
    """
    import hashlib
    import json

    from thermostats.tables.folders import SCHEMA
    from thermostats.tables.schemas import TABLES, key

    told = {
        name: [key(name), [[label, column.metadata["dtype"]] for label, column in schema.columns.items()]]
        for name, schema in TABLES.items()
    }
    found = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
    assert (SCHEMA, found) == (1, "c78e9bf9144bf927")


def test_rows_of_the_same_run_twice_in_two_files_are_refused(data: Path) -> None:
    path = store.files("layers", data)[0]
    shutil.copy(path, path.with_name("copy.csv"))
    refused(lambda: store.check(data), "twice")
