"""What can be measured is told from the configuration alone, with memory, disk and time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import small
import tiny
import transformers
from conftest import make_empty_store

from thermostats.measurement.engines import Job
from thermostats.measurement.execute import find_missing_kinds, plan_job
from thermostats.measurement.resources import Need, Place, estimate
from thermostats.measurement.spec import Outcome, RunSpec

TEXTS = ["a b c"]
HERE = Place("cpu", 10**9)


def beforehand(spec: RunSpec, data: Path, place: Place = HERE) -> Outcome:
    make_empty_store(data)
    need: Need = estimate(Path(spec.model), spec, TEXTS, place.kind)
    return plan_job(Job(spec, need), TEXTS, data, place)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("llama", {}),
        ("vit", {"outputs": "no next-token distribution"}),
        ("falcon_multi_head_sequential", {"attention": "computes something else"}),
    ],
)
def test_what_cannot_be_measured_has_its_reason(
    name: str, refused: dict[str, str], tmp_path: Path
) -> None:
    tiny.build(name).config.save_pretrained(tmp_path)  # type: ignore[union-attr, operator]
    cannot = find_missing_kinds(
        tmp_path, RunSpec(str(tmp_path), prompts="images" if name == "vit" else "core")
    )
    assert cannot.keys() == refused.keys()
    assert all(reason in cannot[what] for what, reason in refused.items())


def test_memory_disk_and_time_are_told_before_anything_is_loaded(tmp_path: Path) -> None:
    model = small.save_model(tmp_path / "m")
    spec = RunSpec(str(model), prompts=str(small.save_prompts(tmp_path)), heritage="Us")
    outcome = beforehand(spec, tmp_path / "data")
    n_params = sum(
        p.numel() for p in transformers.AutoModelForCausalLM.from_pretrained(model).parameters()
    )
    assert (outcome.status, len(outcome.runs), outcome.n_params, outcome.cost.disk) == (
        "planned",
        3,
        n_params,
        0.0,
    )
    assert outcome.cost.gigabytes is not None and outcome.cost.gigabytes >= 4 * n_params / 1e9
    tokens, passes = 3, 2
    assert outcome.cost.seconds == pytest.approx(2 * n_params * tokens * passes / 5e10, rel=0.05)
    assert outcome.problem.reason == ""
    refused = beforehand(spec, tmp_path / "data", Place("cpu", 1000))
    assert refused.status == "failed" and "cannot fit into memory" in refused.problem.reason


def test_a_class_that_is_not_measured_is_refused_with_the_reason(tmp_path: Path) -> None:
    tiny.build("gpt2").config.save_pretrained(tmp_path)  # type: ignore[union-attr, operator]
    (tmp_path / "config.json").write_text('{"model_type": "pvt"}')
    outcome = plan_job(Job(RunSpec(str(tmp_path))), TEXTS, tmp_path / "data", HERE)
    assert outcome.status == "failed" and "width changes between stages" in outcome.problem.reason
