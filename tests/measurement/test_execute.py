"""The loop that every engine shares: order, retries with their reasons, states while it runs. No
model is measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub")

from thermostats.cli.listing import list_table_rows
from thermostats.errors import DataError, UsageError
from thermostats.measurement import session
from thermostats.measurement.engines import Job
from thermostats.measurement.execute import run_specs
from thermostats.measurement.resources import Place
from thermostats.measurement.session import write_state
from thermostats.measurement.spec import EngineSettings, Outcome, Problem, RunSpec, build_loss
from thermostats.tables import runs


class Scripted:
    """An engine that loses a model's jobs so many times, and fails or finishes them then."""

    place = Place("cpu", None)

    def __init__(self, losses: Mapping[str, int], broken: tuple[str, ...] = ()) -> None:
        self.losses, self.broken = losses, broken
        self.jobs: list[Job] = []
        self.seen: list[tuple[str, int, int]] = []
        self.closed = False

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        del seconds
        if not self.jobs:
            return []
        job = self.jobs.pop(0)
        name = Path(job.spec.model).name
        self.seen.append((name, job.attempt, job.n_bytes))
        if job.attempt <= self.losses.get(name, 0):
            return [(job, build_loss(job.spec, f"node {job.attempt} is gone"))]
        return [
            (
                job,
                Outcome(
                    name,
                    "failed" if name in self.broken else "measured",
                    problem=Problem("no weights"),
                ),
            )
        ]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def wanted(tmp_path: Path) -> list[RunSpec]:
    (tmp_path / "p.txt").write_text("a b\n")
    specs = []
    for name in ("m0", "m1", "m2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"model_type": "unheard of"}')
        specs.append(RunSpec(str(tmp_path / name), prompts=str(tmp_path / "p.txt")))
    return specs


def test_what_is_lost_is_tried_again_with_more_memory_and_the_others_go_on(
    wanted: list[RunSpec], tmp_path: Path
) -> None:
    engine = Scripted({"m0": 2, "m1": 9}, broken=("m2",))
    outcomes = {
        outcome.model.rpartition("/")[2]: outcome
        for outcome in run_specs(wanted, tmp_path / "d", engine=engine)
    }
    assert (outcomes["m0"].status, outcomes["m0"].attempts) == ("measured", 3)
    assert (outcomes["m1"].status, outcomes["m1"].attempts) == ("failed", 3)
    assert outcomes["m1"].problem.reason == "tried 3 times, at last: node 3 is gone"
    assert (outcomes["m2"].status, outcomes["m2"].attempts) == ("failed", 1)
    assert outcomes["m2"].problem.reason == "no weights"
    needs = [n_bytes for name, _, n_bytes in engine.seen if name == "m0"]
    assert needs == [needs[0], 2 * needs[0], 4 * needs[0]]
    assert engine.closed
    with pytest.raises(UsageError, match="local, ray"):
        EngineSettings("cloud")
    left = {
        Path(state.model).name: (state.state, state.reason) for state in runs.read(tmp_path / "d")
    }
    assert left["m1"] == ("failed", "tried 3 times, at last: node 3 is gone")
    assert left["m2"] == ("failed", "no weights")


def test_a_failure_that_cannot_be_written_down_is_told_and_the_others_go_on(
    wanted: list[RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(data: Path, spec: RunSpec, state: str, reason: str = "", attempt: int = 1) -> None:
        if state == runs.FAILED:
            raise DataError("cannot write what is being measured", got="No space left on device")
        write_state(data, spec, state, reason, attempt)

    monkeypatch.setattr(session, "write_state", full)
    outcomes = list(run_specs(wanted, tmp_path / "d", engine=Scripted({}, broken=("m0",))))
    told = {outcome.model: (outcome.status, outcome.problem.reason) for outcome in outcomes}
    assert told["m0"] == ("failed", "no weights")
    assert sorted(told) == ["m0", "m1", "m2"]


def test_what_is_tried_again_without_room_to_say_so_ends_and_the_others_go_on(
    wanted: list[RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(data: Path, spec: RunSpec, state: str, reason: str = "", attempt: int = 1) -> None:
        if attempt > 1 or state == runs.FAILED:
            raise DataError("cannot write what is being measured", got="No space left on device")
        write_state(data, spec, state, reason, attempt)

    monkeypatch.setattr(session, "write_state", full)
    engine = Scripted({"m0": 3})
    outcomes = run_specs(wanted, tmp_path / "d", engine=engine)
    told = {Path(outcome.model).name: outcome.status for outcome in outcomes}
    assert told == {"m0": "failed", "m1": "measured", "m2": "measured"}


def test_states_are_listed_beside_runs_while_they_last(
    wanted: list[RunSpec], tmp_path: Path
) -> None:
    data = tmp_path / "d"
    working = run_specs(wanted, data, engine=Scripted({}))
    next(working)
    states = {
        Path(row["model_id"]).name: row["state"]
        for row in list_table_rows("runs", data)[0]
        if row["run_id"] == ""
    }
    assert {states["m1"], states["m2"]} == {"waiting"}
    working.close()
    write_state(data, wanted[1], runs.RUNNING)
    (path,) = (
        path for path in (data / runs.FOLDER).glob("*.json") if '"running"' in path.read_text()
    )
    path.write_text(
        path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 4194304')
    )  # above any process
    states = {
        Path(row["model_id"]).name: row["state"]
        for row in list_table_rows("runs", data)[0]
        if row["run_id"] == ""
    }
    assert states["m1"] == "interrupted"
