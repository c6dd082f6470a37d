"""Many specs on every engine: the same files whatever runs them, faults told, what is lost tried again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import clusters
import small
import transformers

from thermostats.measurement.engines.local import Inline, Local
from thermostats.measurement.estimate import Place, estimate
from thermostats.measurement.execute import execute, largest_first
from thermostats.measurement.settings import Settings
from thermostats.measurement.spec import RunSpec
from thermostats.tables import spec_states

GAINS = ("gains",)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[RunSpec]:
    return small.specs(tmp_path_factory.mktemp("models"), 4, what=GAINS)


@pytest.fixture(scope="module")
def expected(asked: list[RunSpec], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What measuring them one after the other in one process leaves."""
    data = tmp_path_factory.mktemp("expected") / "data"
    outcomes = list(execute(asked, data))
    assert [outcome.status for outcome in outcomes] == ["measured"] * 4, outcomes
    assert [Path(outcome.model).name for outcome in outcomes] == ["m3", "m2", "m1", "m0"]  # the largest first
    return clusters.rows(data)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_what_it_measured_is_tried_again(
    asked: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    killed: list[str] = []

    def kill_once(model: str, *_: object) -> None:
        if not killed:
            killed.append(Path(model).name)
            (worker,) = (w for w in engine.workers if w.job is not None and w.job.spec.model == model)
            os.kill(worker.process.pid or 0, signal.SIGKILL)

    data = tmp_path / "data"
    engine = Local(Settings(cpus=1), data, kill_once)  # one thread as in `expected`: sums of more differ in rounding
    broken = RunSpec(str(tmp_path / "nowhere"), prompts=asked[0].prompts)
    (tmp_path / "nowhere").mkdir()
    outcomes = {Path(o.model).name: o for o in execute([broken, *asked[:2]], data, engine=engine)}
    assert outcomes["nowhere"].status == "failed" and "no config.json" in outcomes["nowhere"].reason
    assert {name: o.attempts for name, o in outcomes.items() if o.status == "measured"} == {
        name: 2 if name in killed else 1 for name in ("m0", "m1")
    }
    assert clusters.rows(data).items() <= expected.items() and len(clusters.rows(data)) == 2
    assert not engine.workers
    (left,) = spec_states.read(data)
    assert (Path(left.model).name, left.state) == ("nowhere", "failed")


def test_a_refused_spec_is_not_loaded_and_the_others_are(asked: list[RunSpec], tmp_path: Path) -> None:
    data = tmp_path / "data"
    engine = Inline(Settings(), data)
    jobs = largest_first(asked, {asked[0].prompts: ["a b c", "b c d e f", "f a"]}, engine.place)
    needs = [job.need.total for job in jobs if job.need is not None]
    assert needs == sorted(needs, reverse=True) and len(needs) == 4
    engine.place = Place("cpu", needs[1])
    outcomes = list(execute(asked, data, engine=engine))
    assert [o.status for o in outcomes] == ["failed", "measured", "measured", "measured"]
    assert "cannot fit into memory and was not loaded" in outcomes[0].reason
    dry = {outcome.status: outcome for outcome in execute(asked, data, dry_run=True, engine=engine)}
    assert set(dry) == {"failed", "skipped"} and dry["failed"].reason == outcomes[0].reason


def test_memory_of_the_weights_is_what_the_model_has(asked: list[RunSpec]) -> None:
    for spec in asked:
        folder = Path(spec.model)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        need = estimate(folder, spec, ["a b c"], "cpu")
        assert need.weights == 4 * sum(p.numel() for p in model.parameters())
        assert estimate(folder, replace(spec, dtype="bfloat16"), ["a"], "cpu").weights == need.weights // 2
        assert estimate(folder, replace(spec, what=("weights",)), ["a"], "cpu").total == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "library"), [("slurm", "submitit"), ("ray", "ray")])
def test_one_at_work_on_a_cluster_is_killed_and_what_is_left_is_as_on_this_machine(
    name: str, library: str, asked: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip(library)
    found = clusters.run(name, asked, expected, tmp_path / "data", nodes=2)
    assert (found["kills"], found["measured"], found["differ"], found["left"]) == (1, 4, 0, 0), found
    assert found["checked"] and found["again"] >= 1, found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "library"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_model_that_fails_on_a_cluster_does_not_stop_the_others(
    name: str, library: str, asked: list[RunSpec], expected: dict[str, bytes], tmp_path: Path
) -> None:
    pytest.importorskip(library)
    data = tmp_path / "data"
    with clusters.ENGINES[name](data, 1) as (engine, _, _):
        outcomes = list(execute([*asked[:2], replace(asked[2], model=str(tmp_path))], data, engine=engine))
    assert sorted(o.status for o in outcomes) == ["failed", "measured", "measured"], outcomes
    assert clusters.rows(data).items() <= expected.items() and len(clusters.rows(data)) == 2


@pytest.mark.slow
def test_specs_of_a_file_on_the_command_line(asked: list[RunSpec], tmp_path: Path) -> None:
    listed = [{"model": spec.model, "prompts": spec.prompts, "what": "weights"} for spec in asked[:2]]
    path = tmp_path / "specs.jsonl"
    path.write_text("\n".join(map(json.dumps, listed)))
    command = [sys.executable, "-c", "from thermostats.cli.app import main; main()", "measure", str(path)]
    command += ["--heritage", "Us", "--data", str(tmp_path / "data"), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert [row["status"] for row in json.loads(ran.stdout)] == ["measured"] * 2
    assert "2 specs: 2 measured" in ran.stderr
