"""What is said of specs that are being measured: written, read, forgotten; a process that has ended
is noticed."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from thermostats.errors import DataError
from thermostats.tables import runs
from thermostats.tables.runs import SpecState


def state_of(state: str, **fields: object) -> SpecState:
    spec = {
        "model": "lab/a",
        "revision": "main",
        "dtype": "float32",
        "prompts": "p",
        "state": state,
    }
    return SpecState(**{**spec, **fields})  # type: ignore[arg-type]


def ended() -> int:
    """Number of a process that is no more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_what_is_written_is_read_until_it_is_forgotten(tmp_path: Path) -> None:
    assert runs.read(tmp_path) == []
    first, second = (
        state_of("waiting"),
        state_of("failed", model="ラボ/b", reason="no such model", attempt=3),
    )
    assert (first.host, first.pid, first.attempt, first.reason) == (
        socket.gethostname(),
        os.getpid(),
        1,
        "",
    )
    assert datetime.fromisoformat(first.since).utcoffset() == timedelta(0)
    runs.write(tmp_path, "b", second)
    runs.write(tmp_path, "a", first)
    assert runs.read(tmp_path) == [first, second]
    running = state_of("running", attempt=2)
    runs.write(tmp_path, "a", running)
    half, other = (tmp_path / ".measuring" / name for name in ("a.host.7", "ab.host.7"))
    for left in (half, other):
        left.write_text('{"model": "la')  # of killed processes
    assert runs.read(tmp_path) == [running, second]
    for _ in range(2):
        runs.clear(tmp_path, "a")
    assert runs.read(tmp_path) == [second]
    assert sorted(path.name for path in (tmp_path / ".measuring").iterdir()) == [
        "ab.host.7",
        "b.json",
    ]


def test_what_cannot_be_removed_is_left_and_the_rest_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.write(tmp_path, "a", state_of("running"))
    half = tmp_path / ".measuring" / "a.host.7"
    half.write_text('{"model": "la')
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".json":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    runs.clear(tmp_path, "a")
    assert [path.name for path in half.parent.iterdir()] == ["a.json"]
    monkeypatch.undo()
    runs.clear(tmp_path, "a")
    assert list(half.parent.iterdir()) == []


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_a_spec_whose_process_has_ended_was_interrupted(tmp_path: Path, state: str) -> None:
    gone = state_of(state, pid=ended())
    runs.write(tmp_path, "a", gone)
    (interrupted,) = runs.read(tmp_path)
    assert interrupted.state == "interrupted" and "the same command continues" in interrupted.reason
    assert {**asdict(interrupted), "state": state, "reason": ""} == asdict(gone)


def test_what_failed_or_runs_elsewhere_or_is_another_user_s_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = ended()
    for number, state in enumerate(
        (state_of("failed", pid=pid), state_of("running", host="elsewhere", pid=pid))
    ):
        runs.write(tmp_path, str(number), state)
    assert [state.state for state in runs.read(tmp_path)] == ["failed", "running"]

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    runs.write(tmp_path, "2", state_of("waiting", pid=1))
    assert [state.state for state in runs.read(tmp_path)] == ["failed", "running", "waiting"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"model": "lab/a"}', json.dumps({**asdict(state_of("done")), "x": 1})],
)
def test_a_damaged_state_is_named(tmp_path: Path, content: str) -> None:
    runs.write(tmp_path, "a", state_of("running"))
    path = tmp_path / ".measuring" / "a.json"
    path.write_text(content)
    with pytest.raises(DataError, match="remove the file") as caught:
        runs.read(tmp_path)
    assert caught.value.where == str(path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / ".measuring").write_text("")
    with pytest.raises(DataError, match="cannot write what is being measured") as caught:
        runs.write(tmp_path, "a", state_of("running"))
    assert caught.value.got == os.strerror(errno.EEXIST)
    assert caught.value.where == str(tmp_path / ".measuring" / "a.json")
    assert "free space" in caught.value.next_step


def test_a_state_for_which_there_is_no_room_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.write(tmp_path, "a", state_of("running"))

    def full(path: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(DataError, match="No space left on device"):
        runs.write(tmp_path, "a", state_of("failed"))
    assert [path.name for path in (tmp_path / ".measuring").iterdir()] == ["a.json"]
    assert [state.state for state in runs.read(tmp_path)] == ["running"]
