"""Commands that are killed, and writers at once."""

from __future__ import annotations

import os
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from jobs import JOBS
from kills import cycle, harness, run_forked
from start_states import files_of
from writers import faults, together

from thermostats.tables.folders import MARK, layers, writable_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("report", "measure")]


@pytest.mark.parametrize("name", ["join", *SLOW])
def test_a_killed_command_run_again_ends_as_if_it_had_not_been(name: str) -> None:
    if name == "measure":
        pytest.importorskip("torch")
    (tally,) = harness([JOBS[name]()], kills=4, seed=11)
    assert tally.kills >= 4
    assert tally.faults == []


def test_the_harness_sees_a_file_that_is_torn_and_one_that_stays(tmp_path: Path) -> None:
    import random

    from jobs import Job
    from kills import Tally

    def prepare(folder: Path) -> None:
        (folder / "a.csv").write_text("old")

    def careless(folder: Path) -> None:
        with (folder / "a.csv").open("w") as stream:
            stream.write("new, but only half")
            stream.flush()
            os.fsync(stream.fileno())
            stream.write(" of it")

    job = Job("careless", prepare, careless, operations=2, seconds=0.1)
    start = tmp_path / "start"
    start.mkdir()
    prepare(start)
    tally = Tally("careless")
    end = {"a.csv": b"new, but only half of it"}
    for seed in range(6):
        cycle(job, start, end, tmp_path / "work", random.Random(seed), tally)  # noqa: S311
    assert any("neither as it was nor as it will be" in fault for fault in tally.faults)


@pytest.mark.slow
def test_every_file_operation_of_a_join_is_survived(tmp_path: Path) -> None:
    import shutil

    job = JOBS["join"]()
    start, work = tmp_path / "start", tmp_path / "work"
    start.mkdir()
    job.prepare(start)
    shutil.copytree(start, work)
    _, operations = run_forked(partial(job.run, work))
    end = files_of(work, leftovers=True)
    assert operations > 20
    for number in range(2, operations + 1, 12):
        shutil.rmtree(work)
        shutil.copytree(start, work)
        status, _ = run_forked(partial(job.run, work), at=number)
        assert os.WIFSIGNALED(status), number
        assert run_forked(partial(job.run, work))[0] == 0
        assert files_of(work, leftovers=True) == end, number


@pytest.mark.slow
def test_eight_writers_at_once_some_killed(tmp_path: Path) -> None:
    assert together(tmp_path / "data", writers=8, joins=1, kills=3) >= 1
    assert faults(tmp_path / "data", writers=8, joins=1) == []


def _begin(folder: Path) -> str:
    return writable_folder(folder).name


def test_writers_that_begin_one_store_at_once_all_find_it_whole(tmp_path: Path) -> None:
    with get_context("fork").Pool(8) as pool:
        assert set(pool.map(_begin, [tmp_path / "mine"] * 24)) == {"mine"}
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [MARK]
    assert layers(tmp_path / "mine")[1] == tmp_path / "mine"
