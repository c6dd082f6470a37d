"""Full disks, read-only folders, drives that vanish, clocks set back, older schemas: said by name,
nothing damaged."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import make_store, remount
from start_states import files_of, make_news

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.folders import SCHEMA, list_own_files
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES, list_key_columns, list_optional


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_store(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def news(tmp_path: Path) -> list[Path]:
    return make_news(tmp_path / "news")


def refused(call: Callable[[], object], *words: str) -> str:
    with pytest.raises(DataError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


def test_a_full_disk_leaves_every_file_and_with_room_the_same_join_goes_through(
    small_disk: Path, tmp_path: Path
) -> None:
    make_store(small_disk / "data")
    news = make_news(tmp_path / "news", sources=40)
    before = files_of(small_disk)
    refused(
        lambda: join(news, data=small_disk / "data", replace=True),
        "No space left on device",
        "free space",
    )
    assert files_of(small_disk, leftovers=True) == before
    remount(small_disk, "size=1m")
    join(news, data=small_disk / "data", replace=True)
    assert store.check(small_disk / "data")["runs"] == 41


def test_a_read_only_folder_can_be_read_and_is_said_not_to_be_writable(
    small_disk: Path, tmp_path: Path
) -> None:
    make_store(small_disk / "data")
    before = files_of(small_disk)
    remount(small_disk, "ro")
    assert store.check(small_disk / "data")["layers"] == 6
    message = refused(
        lambda: join(make_news(tmp_path / "news"), data=small_disk / "data"), "ead-only file system"
    )
    assert str(small_disk / "data") in message
    assert files_of(small_disk) == before


GONE = {
    "pathlib.Path.iterdir": errno.ESTALE,
    "tempfile.mkstemp": errno.EIO,
    "os.fsync": errno.ENODEV,
    "pathlib.Path.replace": errno.EACCES,
}


@pytest.mark.parametrize("call", GONE)
def test_a_drive_that_vanishes_is_said_and_every_file_is_whole(
    data: Path, news: list[Path], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = files_of(data)
    reason = os.strerror(GONE[call])

    def gone(*arguments: object, **_: object) -> None:
        raise OSError(GONE[call], reason, str(arguments[0] if arguments else data))

    with monkeypatch.context() as patch:
        patch.setattr(call, gone)
        refused(lambda: join(news, data=data, replace=True), reason)
        if call.endswith("iterdir"):
            refused(lambda: store.load("layers", data), reason)
    assert files_of(data, leftovers=True) == before
    join(news, data=data, replace=True)
    assert store.check(data)["runs"] == 4


def test_a_file_that_vanishes_while_tables_are_read_is_named(data: Path) -> None:
    runs = list_own_files("runs", data)[0]
    runs.unlink()
    runs.symlink_to(data / "nowhere.csv")
    refused(lambda: store.check(data), runs.name)


def test_a_clock_set_back_changes_nothing(
    data: Path, news: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_rows_of_the_same_run_twice_in_two_files_are_refused(data: Path) -> None:
    path = list_own_files("layers", data)[0]
    shutil.copy(path, path.with_name("copy.csv"))
    refused(lambda: store.check(data), "twice")


def test_a_changed_schema_has_another_number() -> None:
    """Names, order, types and keys of all columns; who changes one raises `SCHEMA` and puts the new
    hash here.

    Columns that files may lack (`schemas.ADDED`) leave the number as it is: older files are read as
    they are.

    `findings` is in a report and in no store, and `candidates` ships alone: a change of one of them
    leaves `SCHEMA` as it is, and so does a table that folders of before lack, as `interventions`.
    """
    columns = {
        name: [
            list_key_columns(name),
            [
                [x, column.dtype]
                for x, column in schema.columns.items()
                if x not in list_optional(name)
            ],
        ]
        for name, schema in TABLES.items()
    }
    found = hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]
    assert (SCHEMA, found) == (1, "7ae83c330d3363c0")
