"""Whether a model fits, told from numbers alone: on how many devices, and what would fit where it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from thermostats.errors import ThermostatsError
from thermostats.measurement.estimate import PROCESS, Need, Place, count_parameters, devices_needed, refusal
from thermostats.measurement.spec import RunSpec

GIB = 2**30


@pytest.mark.parametrize(
    ("place", "devices"),
    [
        (Place("cpu", GIB), 1),
        (Place("accelerator", None), 1),
        (Place("accelerator", 20 * GIB), 1),
        (Place("accelerator", 4 * GIB), 3),
        (Place("accelerator", 10 * GIB + PROCESS), 1),
    ],
)
def test_devices_that_hold_a_model(place: Place, devices: int) -> None:
    assert devices_needed(Need(10**9, 8 * GIB, 2 * GIB), place) == devices


def test_what_fits_and_what_nobody_can_tell_is_not_refused() -> None:
    need = Need(10**9, 4 * GIB, GIB)
    assert refusal(RunSpec("lab/a"), need, Place("cpu", 5 * GIB)) is None
    assert refusal(RunSpec("lab/a"), need, Place("cpu", None)) is None
    assert refusal(RunSpec("lab/a"), Need(10**9, 0, 0), Place("cpu", 1)) is None
    assert refusal(RunSpec("lab/a"), need, Place("accelerator", 3 * GIB, 2)) is None


def test_a_refusal_says_what_would_fit() -> None:
    need = Need(10**9, 4 * GIB, 6 * GIB)
    on_cpu = refusal(RunSpec("lab/a"), need, Place("cpu", 6 * GIB))
    assert on_cpu is not None
    assert on_cpu.where == "lab/a in float32"
    assert on_cpu.got == "4 GiB of weights and 6 GiB of activations, 6 GiB there are"
    assert on_cpu.next_step == (
        "what would fit: --dtype bfloat16 (5 GiB); a smaller --token-budget or shorter prompts; "
        "a machine with 10.6 GiB free; --what weights, which reads the files alone"
    )
    on_gpu = refusal(RunSpec("lab/a", dtype="bfloat16"), Need(10**9, 6 * GIB, 4 * GIB), Place("accelerator", 4 * GIB))
    assert on_gpu is not None
    assert on_gpu.next_step == (
        "what would fit: --device-map auto over 3 devices of 4 GiB; --device cpu; "
        "--what weights, which reads the files alone"
    )


def test_a_configuration_that_no_model_can_be_built_from_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 10, "n_head": 3}))
    with pytest.raises(ThermostatsError, match="transformers cannot build the model"):
        count_parameters(tmp_path)
