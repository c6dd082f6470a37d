"""One model to rows and back again: resumed, skipped, refused; nothing half-written."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny
import transformers
from conftest import snapshot

from thermostats.measurement import session
from thermostats.measurement.execute import run_specs
from thermostats.measurement.plan import plan
from thermostats.measurement.spec import RunSpec
from thermostats.tables import store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(store.find_shipped("data") / "models.csv", folder)
    return folder


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return small.save_prompts(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save_model(tmp_path_factory.mktemp("models") / "tiny-gpt2")


def test_tables_pass_their_check_and_a_second_call_does_nothing(
    model: Path, prompts: Path, data: Path
) -> None:
    spec = RunSpec(str(model), prompts=str(prompts), heritage="Us")
    (first,) = run_specs([spec], data)
    assert first.status == "measured", first.problem.reason
    counts = store.check(data)
    assert counts["runs"] == 3
    assert counts["layers"] == 3 * 3 * 3
    assert counts["outputs"] == 3
    assert counts["attention"] == 3 * (3 * (2 + 1 + 3) + 1)
    row = store.load("models", data).set_index("model_id").loc["tiny-gpt2"]
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model)
    assert row["n_params"] == sum(parameter.numel() for parameter in loaded.parameters())
    assert (row["heritage"], row["norm_place"], row["position_scheme"]) == ("Us", "pre", "learned")
    before = snapshot(data)
    (second,) = run_specs([spec], data)
    assert second.status == "skipped"
    assert snapshot(data) == before


def test_a_model_without_a_final_norm_is_finished_without_summaries(
    model: Path, prompts: Path, data: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(model, tmp_path / "post-norm")
    tiny.build("opt_post_norm").save_pretrained(folder)
    spec = RunSpec(str(folder), prompts=str(prompts), what=("gains",))
    assert [done.status for _ in range(2) for done in run_specs([spec], data)] == [
        "measured",
        "skipped",
    ]
    assert plan(spec, data).finished
    assert store.load("summaries", data).empty


@pytest.mark.slow
def test_an_interrupted_run_is_taken_up_where_it_stopped(
    model: Path, prompts: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RunSpec(str(model), prompts=str(prompts))
    planned = plan(spec, data)

    def interrupted(*_: object) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setitem(session.MEASURE, "attention", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.measure_plan(planned, data)
    assert store.check(data)["layers"] == 27
    monkeypatch.undo()
    left = [run.kind for run in plan(spec, data).runs if run.tables]
    assert left == ["attention"]
    session.measure_plan(plan(spec, data), data)
    assert plan(spec, data).finished


def reconfigured(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def truncated_in_the_middle(folder: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="5KB")
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 2
    shards[1].write_bytes(shards[1].read_bytes()[:-100])


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


BROKEN = {
    "truncated": (
        lambda f: (f / "model.safetensors").write_bytes(
            (f / "model.safetensors").read_bytes()[:-100]
        ),
        "not a safetensors file, or a truncated one",
    ),
    "shard": (truncated_in_the_middle, r"truncated one \(.*model-00002-of"),
    "hybrid": (
        lambda f: reconfigured(f, model_type="zamba"),
        "models of type zamba are not measured",
    ),
    "code": (
        lambda f: reconfigured(f, model_type="own", auto_map={"AutoModelForCausalLM": "own.Model"}),
        "its own code.*--set trust_remote_code=yes",
    ),
    "layers": (
        lambda f: reconfigured(f, n_layer=2),
        "weights and configuration disagree.*unexpected",
    ),
    "width": (
        lambda f: reconfigured(f, n_embd=20, n_inner=64),
        "weights and configuration disagree|another shape",
    ),
    "words": (without_tokenizer, "no usable tokenizer"),
    "context": (
        lambda f: reconfigured(f, n_positions=3),
        "longer than the model's context.*5 tokens|disagree",
    ),
    "config": (lambda f: (f / "config.json").write_text("{"), "config.json"),
    "none": (shutil.rmtree, "no such model folder"),
}
"""What is done to a model's folder, and what is then said."""


@pytest.mark.slow
def test_models_that_fail_say_why_leave_nothing_and_do_not_stop_the_others(
    model: Path, prompts: Path, data: Path, tmp_path: Path
) -> None:
    specs = []
    for name, (damage, _) in BROKEN.items():
        damage(Path(shutil.copytree(model, tmp_path / name)))
        specs.append(
            RunSpec(
                str(tmp_path / name), prompts=str(prompts), what=("gains", "outputs", "attention")
            )
        )
    before = snapshot(data)
    outcomes = list(run_specs(specs, data))
    by_name = {Path(outcome.model).name: outcome for outcome in outcomes}
    for name, (_, message) in BROKEN.items():
        outcome = by_name[name]
        assert outcome.status == "failed", name
        assert re.search(message, outcome.problem.reason), (name, outcome.problem.reason)
        assert "unexpected" not in outcome.problem.reason.replace("unexpected (", ""), (
            name,
            outcome.problem.reason,
        )
    assert {
        name: held for name, held in snapshot(data).items() if not name.startswith(".measuring")
    } == before
    outcomes = list(run_specs([*specs[:2], RunSpec(str(model), prompts=str(prompts))], data))
    assert sorted(outcome.status for outcome in outcomes) == ["failed", "failed", "measured"], (
        outcomes
    )
    assert set(store.load("runs", data)["model_id"]) == {"tiny-gpt2"}
    assert store.check(data)["runs"] == 3


def test_a_lab_named_later_is_filled_in_and_another_one_refused(
    model: Path, prompts: Path, data: Path
) -> None:
    options = {"prompts": str(prompts), "what": ("weights",)}
    (first,) = run_specs([RunSpec(str(model), **options)], data)  # type: ignore[arg-type]
    (again,) = run_specs([RunSpec(str(model), heritage="Us", **options)], data)  # type: ignore[arg-type]
    assert (first.status, again.status) == ("measured", "skipped")
    assert store.load("models", data).set_index("model_id").loc["tiny-gpt2", "heritage"] == "Us"
    (other,) = run_specs([RunSpec(str(model), heritage="Them", **options)], data)  # type: ignore[arg-type]
    assert (
        other.problem.wrong_use
        and "thermostats set tiny-gpt2 heritage=Them" in other.problem.reason
    )
