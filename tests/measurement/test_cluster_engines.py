"""What the engines of clusters ask for and make of what they hear; clusters stand in by what their
libraries call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement.engines import Job
from thermostats.measurement.execute import open_engine
from thermostats.measurement.resources import PROCESS, Need, Place
from thermostats.measurement.spec import EngineSettings, Outcome, RunSpec

GIB = 2**30


def job(model: str = "lab/a", gib: float = 1.0, **fields: Any) -> Job:
    return Job(RunSpec(model), Need(1, int(gib * GIB), 0), **fields)


def test_without_its_library_an_engine_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "thermostats.measurement.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install -e '.*\[ray\]'"):
        open_engine(EngineSettings("ray"), tmp_path)


class Cluster:
    """A Ray cluster of two nodes: 8 GiB without a GPU, 4 GiB with four; tasks are noted, not
    run."""

    def __init__(self) -> None:
        self.alive = [
            {"Alive": True, "Resources": {"CPU": 4.0, "memory": 8.0 * GIB}},
            {"Alive": True, "Resources": {"CPU": 4.0, "memory": 4.0 * GIB, "GPU": 4.0}},
            {"Alive": True, "Resources": {"memory": 99.0 * GIB}},
            {"Alive": False, "Resources": {"CPU": 64.0, "memory": 999.0 * GIB, "GPU": 64.0}},
        ]
        self.requests: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] = {}
        self.cancelled: list[str] = []
        self.shut = 0

    def options(self, **resources: Any) -> SimpleNamespace:
        def remote(spec: RunSpec, data: str, attempt: int) -> str:
            self.requests[spec.model] = {**resources, "data": data, "attempt": attempt}
            return spec.model

        return SimpleNamespace(remote=remote)

    def wait(
        self, references: list[str], num_returns: int, timeout: float
    ) -> tuple[list[str], list[str]]:
        del num_returns, timeout
        return [each for each in references if each in self.results][:1], []

    def get(self, reference: str) -> Outcome:
        if isinstance(self.results[reference], Exception):
            raise self.results[reference]
        return self.results[reference]  # type: ignore[no-any-return]

    def shutdown(self) -> None:
        self.shut += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    pytest.importorskip("ray")
    from thermostats.measurement import cluster as module

    fake = Cluster()
    ray = module.ray
    for name, value in {
        "is_initialized": lambda: False,
        "init": lambda **options: None,
        "shutdown": fake.shutdown,
        "nodes": lambda: fake.alive,
        "remote": lambda _: fake,
        "wait": fake.wait,
        "get": fake.get,
        "cancel": lambda reference, force: fake.cancelled.append(reference),
    }.items():
        monkeypatch.setattr(ray, name, value)
    return fake


def test_the_room_of_a_ray_cluster_is_that_of_its_largest_node_at_work(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert open_engine(EngineSettings("ray"), tmp_path).place == Place("cpu", 8 * GIB)
    gpu = EngineSettings("ray", gpu_memory=80 * GIB, gpus=8)
    assert open_engine(gpu, tmp_path).place == Place("accelerator", 80 * GIB, 4)
    assert (
        open_engine(EngineSettings("ray", gpu_memory=80 * GIB, gpus=2), tmp_path).place.devices == 2
    )
    on_cpu = open_engine(EngineSettings("ray", gpu_memory=80 * GIB, device="cpu"), tmp_path)
    assert on_cpu.place.kind == "cpu"
    cluster.alive = []
    assert open_engine(EngineSettings("ray"), tmp_path).place == Place("cpu", 0)


def test_a_ray_task_asks_for_what_it_needs_and_is_told_from_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    engine = open_engine(EngineSettings("ray", cpus=3), tmp_path)
    assert engine.wait(1.0) == []
    for name in ("lab/a", "lab/b"):
        engine.submit(job(name, attempt=2))
    assert cluster.requests["lab/a"] == {
        "max_retries": 0,
        "num_cpus": 3,
        "memory": 2 * GIB + PROCESS,
        "data": str(tmp_path.resolve()),
        "attempt": 2,
    }
    assert engine.wait(1.0) == []
    cluster.results["lab/b"] = Outcome("lab/b", "measured")
    ((through, outcome),) = engine.wait(1.0)
    assert (through.spec.model, outcome.status) == ("lab/b", "measured")
    engine.close()
    assert (cluster.cancelled, cluster.shut) == (["lab/a"], 1)


def test_a_ray_task_that_is_lost_or_has_no_place_may_be_tried_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    import ray.exceptions

    engine = open_engine(EngineSettings("ray"), tmp_path)
    engine.submit(job("lab/a", 6.0))
    cluster.results["lab/a"] = ray.exceptions.WorkerCrashedError()
    ((_, outcome),) = engine.wait(1.0)
    assert (outcome.status, outcome.problem.again) == ("failed", True)
    assert outcome.problem.reason.startswith("WorkerCrashedError: The worker died unexpectedly")
    for name, gib in (("lab/large", 6.0), ("lab/small", 1.0)):
        engine.submit(job(name, gib))
    cluster.alive = cluster.alive[1:]
    ((through, outcome),) = engine.wait(1.0)
    assert (through.spec.model, outcome.problem.reason) == (
        "lab/large",
        "no remaining node has enough memory",
    )
    assert outcome.problem.again and cluster.cancelled == ["lab/large"]
    assert engine.wait(1.0) == []


@pytest.mark.parametrize(("address", "where"), [("far:6379", "far:6379"), (None, "this machine")])
def test_a_cluster_that_cannot_be_reached_is_said(
    address: str | None,
    where: str,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without an address a cluster is begun here: the last one, of which Ray keeps a note, may be
    gone."""
    import ray

    asked = []

    def unreachable(address: str, **_: object) -> None:
        asked.append(address)
        raise ConnectionError("ray.init() could not connect\nmore")

    monkeypatch.setattr(ray, "init", unreachable)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ThermostatsError, match="the Ray cluster cannot be reached") as caught:
        open_engine(EngineSettings("ray", address=address), tmp_path)
    assert (caught.value.where, caught.value.got) == (where, "ray.init() could not connect")
    assert asked == [address or "local"]
