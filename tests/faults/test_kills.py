"""A join that is killed at a file operation, and writers at once: nothing half-written, the rest by
a rerun."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from conftest import layer, make_store, model, run, table
from start_states import files_of, make_news

from thermostats.tables import sealed_runs, store, waiting
from thermostats.tables.folders import MARK, list_layers, prepare_folder
from thermostats.tables.join import forget, join
from thermostats.tables.store import CACHE_VARIABLE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
"""Operations that the interpreter reports to audit hooks; fsync is wrapped."""


def forked(command: Callable[[], object], kill_at: int = 0) -> tuple[int, int]:
    """Wait status of a command in a child, and the file operations that it came to; at one of them
    it kills itself."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        count = 0

        def operation() -> None:
            nonlocal count
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def heard(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event != "open" or bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if event in EVENTS and writes:
                operation()

        def synced(descriptor: int, sync: Callable[[int], None] = os.fsync) -> None:
            operation()
            sync(descriptor)

        code = 1
        try:
            os.fsync = synced
            sys.addaudithook(heard)
            command()
            code = 0
        finally:
            os.write(writer, str(count).encode())
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as stream:
        done = int(stream.read() or 0)
    return os.waitpid(child, 0)[1], done


def joined(folder: Path) -> None:
    news = [folder / "news" / f"{name}.csv" for name in ("models", "runs", "layers")]
    join(news, data=folder / "data", replace=True, accept=True)


def joined_as_large(folder: Path) -> None:
    with mock.patch.object(sealed_runs, "LARGE", 2), mock.patch.object(waiting, "MANY", 5):
        joined(folder)


def forgotten(folder: Path) -> None:
    forget("tests", data=folder / "data")


@pytest.mark.parametrize(
    "command", [pytest.param(joined, marks=pytest.mark.slow), joined_as_large, forgotten]
)
def test_a_command_killed_at_a_file_operation_leaves_whole_files_and_ends_when_run_again(
    command: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, work, cache = tmp_path / "start", tmp_path / "work", tmp_path / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    make_store(start / "data")
    make_news(start / "news")
    shutil.copytree(start, work)
    status, operations = forked(partial(command, work))
    before, end = files_of(start), files_of(work, leftovers=True)
    assert status == 0 and operations > 3 and end != before
    for number in range(1, operations + 1, max(1, operations // 3)):
        shutil.rmtree(work)
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(start, work)
        assert os.WIFSIGNALED(forked(partial(command, work), kill_at=number)[0]), number
        now = files_of(work)
        torn = [name for name in now if now[name] not in (before.get(name), end.get(name))]
        assert torn == [], number
        if now != end:
            assert forked(partial(command, work))[0] == 0, number
        assert files_of(work, leftovers=True) == end, number


def rows(writer: int) -> list[object]:
    """What one writer joins at once: a model of its own, a run of all writers' model, and
    layers."""
    own = model(f"lab/{writer}")
    measured = run(str(own["model_id"]), prompt_set="", prompt_sha="")
    shared = run("lab/everyone", prompt_set="", prompt_sha="")
    gains = table(
        "layers", *(layer(measured, depth, 1 + writer / 8 + depth / 64) for depth in (1, 2, 3))
    )
    return [table("models", own, model("lab/everyone")), table("runs", measured, shared), gains]


@pytest.mark.slow
def test_writers_at_once_one_of_them_killed_leave_every_row_once(tmp_path: Path) -> None:
    folder, alone = make_store(tmp_path / "data"), make_store(tmp_path / "alone")
    children = {}
    for writer in range(3):
        children[os.fork()] = writer
        if 0 in children:
            code = 1
            try:
                join(rows(writer), data=folder)
                code = 0
            finally:
                os._exit(code)
    time.sleep(0.05)
    os.kill(next(iter(children)), signal.SIGKILL)
    for child, writer in children.items():
        if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            join(rows(writer), data=folder)
        join(rows(writer), data=alone)
    assert files_of(folder, leftovers=True) == files_of(alone, leftovers=True)
    assert store.check(folder)["models"] == 5


def _begin(folder: Path) -> str:
    return prepare_folder(folder).name


def test_writers_that_begin_one_store_at_once_all_find_it_whole(tmp_path: Path) -> None:
    with get_context("fork").Pool(8) as pool:
        assert set(pool.map(_begin, [tmp_path / "mine"] * 24)) == {"mine"}
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [MARK]
    assert list_layers(tmp_path / "mine")[1] == tmp_path / "mine"
