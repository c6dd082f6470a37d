"""Many specs on every engine: the same files whatever runs them, faults told, what is lost tried
again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import transformers

from thermostats.measurement.engines import Inline, Job, Local
from thermostats.measurement.execute import open_engine, order_jobs, run_specs
from thermostats.measurement.resources import Place, estimate
from thermostats.measurement.spec import EngineSettings, Outcome, RunSpec
from thermostats.tables import runs as spec_states
from thermostats.tables import store

GAINS = ("gains",)


@pytest.fixture(scope="module")
def small_specs(tmp_path_factory: pytest.TempPathFactory) -> list[RunSpec]:
    return small.specs(tmp_path_factory.mktemp("models"), 4, what=GAINS)


@pytest.fixture(scope="module")
def expected(
    small_specs: list[RunSpec], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """What measuring them one after the other in one process leaves."""
    data = tmp_path_factory.mktemp("expected") / "data"
    outcomes = list(run_specs(small_specs, data))
    assert [outcome.status for outcome in outcomes] == ["measured"] * 4, outcomes
    assert [Path(outcome.model).name for outcome in outcomes] == [
        "m3",
        "m2",
        "m1",
        "m0",
    ]  # the largest first
    return small.rows(data)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_what_it_measured_is_tried_again(
    small_specs: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    killed: list[str] = []

    def kill_once(model: str, *_: object) -> None:
        if not killed:
            killed.append(Path(model).name)
            (worker,) = (
                w for w in engine.workers if w.job is not None and w.job.spec.model == model
            )
            os.kill(worker.process.pid or 0, signal.SIGKILL)

    data = tmp_path / "data"
    one_thread = EngineSettings(cpus=1)  # as in `expected`: sums of more differ in rounding
    engine = Local(one_thread, data, kill_once)
    broken = RunSpec(str(tmp_path / "nowhere"), prompts=small_specs[0].prompts)
    (tmp_path / "nowhere").mkdir()
    outcomes = {
        Path(o.model).name: o for o in run_specs([broken, *small_specs[:2]], data, engine=engine)
    }
    assert (
        outcomes["nowhere"].status == "failed"
        and "no config.json" in outcomes["nowhere"].problem.reason
    )
    assert {name: o.attempts for name, o in outcomes.items() if o.status == "measured"} == {
        name: 2 if name in killed else 1 for name in ("m0", "m1")
    }
    assert small.rows(data).items() <= expected.items() and len(small.rows(data)) == 2
    assert not engine.workers
    (left,) = spec_states.read(data)
    assert (Path(left.model).name, left.state) == ("nowhere", "failed")


@pytest.mark.slow
def test_a_cluster_of_ray_on_this_machine_leaves_the_same_files(
    small_specs: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    """The real library, of which other tests know a stand-in."""
    ray = pytest.importorskip("ray")
    data, broken = (
        tmp_path / "data",
        RunSpec(str(tmp_path / "nowhere"), prompts=small_specs[0].prompts),
    )
    (tmp_path / "nowhere").mkdir()
    engine = open_engine(EngineSettings("ray", cpus=1), data)
    assert engine.place.kind in {"cpu", "accelerator"} and ray.is_initialized()
    outcomes = {
        Path(o.model).name: o for o in run_specs([broken, *small_specs[:2]], data, engine=engine)
    }
    assert {name: o.status for name, o in outcomes.items()} == {
        "nowhere": "failed",
        "m0": "measured",
        "m1": "measured",
    }
    assert "no config.json" in outcomes["nowhere"].problem.reason
    assert small.rows(data).items() <= expected.items() and len(small.rows(data)) == 2
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_refused_spec_is_not_loaded_and_the_others_are(
    small_specs: list[RunSpec], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    engine = Inline(EngineSettings(), data)
    jobs = order_jobs(
        small_specs, {small_specs[0].prompts: ["a b c", "b c d e f", "f a"]}, engine.place
    )
    needs = [job.need.total for job in jobs if job.need is not None]
    assert needs == sorted(needs, reverse=True) and len(needs) == 4
    engine.place = Place("cpu", needs[1])
    outcomes = list(run_specs(small_specs, data, engine=engine))
    assert [o.status for o in outcomes] == ["failed", "measured", "measured", "measured"]
    assert "cannot fit into memory and was not loaded" in outcomes[0].problem.reason
    dry = {
        outcome.status: outcome
        for outcome in run_specs(small_specs, data, dry_run=True, engine=engine)
    }
    assert (
        set(dry) == {"failed", "skipped"}
        and dry["failed"].problem.reason == outcomes[0].problem.reason
    )


def test_memory_of_the_weights_is_what_the_model_has(small_specs: list[RunSpec]) -> None:
    for spec in small_specs:
        folder = Path(spec.model)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        need = estimate(folder, spec, ["a b c"], "cpu")
        assert need.weights == 4 * sum(p.numel() for p in model.parameters())
        assert (
            estimate(folder, replace(spec, dtype="bfloat16"), ["a"], "cpu").weights
            == need.weights // 2
        )
        assert estimate(folder, replace(spec, what=("weights",)), ["a"], "cpu").total == 0


@pytest.fixture
def ray_nodes() -> Iterator[Any]:
    """A Ray cluster of a head without cores and two nodes of one core each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        cluster.held = [cluster.add_node(num_cpus=1) for _ in range(2)]
        yield cluster
    finally:
        cluster.shutdown()


@pytest.mark.slow
def test_a_node_of_a_cluster_is_killed_and_what_is_left_is_as_on_this_machine(
    ray_nodes: Any, small_specs: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    data, killed = tmp_path / "data", []
    engine = open_engine(EngineSettings("ray", address=ray_nodes.address), data)
    wait = engine.wait

    def lose_a_node(seconds: float) -> list[tuple[Job, Outcome]]:
        running = [state for state in spec_states.read(data) if state.state == spec_states.RUNNING]
        if len(running) == 2 and not killed:
            killed.append(ray_nodes.held[-1])
            ray_nodes.remove_node(killed[0], allow_graceful=False)
        return wait(min(seconds, 0.2))

    engine.wait = lose_a_node  # type: ignore[method-assign]
    empty = tmp_path / "empty"
    empty.mkdir()
    outcomes = list(
        run_specs([*small_specs, replace(small_specs[0], model=str(empty))], data, engine=engine)
    )
    assert sorted(outcome.status for outcome in outcomes) == ["failed", *["measured"] * 4], outcomes
    assert killed and any(outcome.attempts > 1 for outcome in outcomes)
    assert small.rows(data) == expected
    assert [state.state for state in spec_states.read(data)] == ["failed"]
    runs = store.load("runs", data)["run_id"]
    assert runs.isin([name.removesuffix(".csv") for name in expected]).sum() == 4


@pytest.mark.slow
def test_shards_that_run_at_once_measure_each_model_once(
    small_specs: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    listed = [
        {"model": spec.model, "prompts": spec.prompts, "what": "gains"} for spec in small_specs
    ]
    (tmp_path / "specs.jsonl").write_text("\n".join(map(json.dumps, listed)))
    command = [
        sys.executable,
        "-m",
        "thermostats",
        "measure",
        str(tmp_path / "specs.jsonl"),
        "--json",
    ]
    command += ["--lab", "Us", "--data", str(tmp_path / "data"), "--set", "cpus=1", "--shard"]
    jobs = [
        subprocess.Popen([*command, f"{k}/3"], stdout=subprocess.PIPE, text=True) for k in (1, 2, 3)
    ]
    models = [
        sorted(Path(row["model"]).name for row in json.loads(job.communicate()[0])) for job in jobs
    ]
    assert [job.returncode for job in jobs] == [0, 0, 0]
    assert models == [["m0", "m3"], ["m1"], ["m2"]]
    assert small.rows(tmp_path / "data") == expected
