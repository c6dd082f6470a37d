"""Memory: whether a model fits and what would, the estimate against what torch allocates, errors
before it runs out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.errors import ThermostatsError
from thermostats.measurement import resources
from thermostats.measurement.attention import measure_attention
from thermostats.measurement.batching import TokenisedPrompt
from thermostats.measurement.empty_models import count_parameters
from thermostats.measurement.forward import Decoder, make_batches, prepare_model
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.hub import fetch_model_folder
from thermostats.measurement.loading import load
from thermostats.measurement.resources import PROCESS, Need, Place, count_devices, find_refusal
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
    assert count_devices(Need(10**9, 8 * GIB, 2 * GIB), place) == devices


def test_a_refusal_says_what_would_fit() -> None:
    need = Need(10**9, 4 * GIB, 6 * GIB)
    on_cpu = find_refusal(RunSpec("lab/a"), need, Place("cpu", 6 * GIB))
    assert on_cpu is not None
    assert on_cpu.where == "lab/a in float32"
    assert on_cpu.got == "4 GiB of weights and 6 GiB of activations, 6 GiB there are"
    assert on_cpu.next_step == (
        "what would fit: --dtype bfloat16 (5 GiB); a smaller --set token_budget=N or shorter "
        "prompts; "
        "a machine with 10.6 GiB free; --what weights, which reads only the files"
    )
    on_gpu = find_refusal(
        RunSpec("lab/a", dtype="bfloat16"),
        Need(10**9, 6 * GIB, 4 * GIB),
        Place("accelerator", 4 * GIB),
    )
    assert on_gpu is not None
    assert on_gpu.next_step == (
        "what would fit: --set device_map=auto over 3 devices of 4 GiB; --set device=cpu; "
        "--what weights, which reads only the files"
    )


def test_a_configuration_that_no_model_can_be_built_from_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_embd": 10, "n_head": 3})
    )
    with pytest.raises(ThermostatsError, match="transformers cannot build the model"):
        count_parameters(tmp_path)


LARGER: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 128, "n_head": 4, "n_layer": 2, "n_positions": 256, "vocab_size": 4000},
    "gpt_neox": {
        "hidden_size": 128,
        "intermediate_size": 512,
        "max_position_embeddings": 256,
        "vocab_size": 4000,
    },
    "llama": {
        "hidden_size": 128,
        "intermediate_size": 344,
        "max_position_embeddings": 256,
        "vocab_size": 4000,
    },
}


def highest(decoder: Decoder, prompts: list[TokenisedPrompt], **options: Any) -> int:
    """Most bytes of tensors alive at once in a pass, as torch's profiler saw them come and go."""
    with torch.profiler.profile(profile_memory=True) as seen:
        measure_gains(decoder, prompts, **options)
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


@pytest.mark.parametrize("name", sorted(LARGER))
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_estimate_is_above_what_torch_allocates_and_of_its_size(name: str, attention: str) -> None:
    decoder, prompts = tiny.opened(name, attention, **LARGER[name]), tiny.prompts(200, 150)
    with prepare_model(decoder.model):
        (batch,) = make_batches(decoder, prompts, 1000, packed=True)
    for decode in (None, str):
        stated = resources.estimate_activation_bytes(decoder, batch, outputs=decode is not None)
        measured = highest(decoder, prompts, token_budget=1000, decode=decode)
        assert measured < 1.1 * stated < 4 * measured, (stated / measured, decode)


def test_a_batch_that_would_not_fit_is_named_before_it_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "find_free_memory", lambda _device: 100_000)
    for measure, attention in ((measure_gains, "sdpa"), (measure_attention, "eager")):
        with pytest.raises(
            ThermostatsError, match=r"not enough memory for a batch of prompts.*--set token_budget"
        ):
            measure(tiny.opened("gpt2", attention, **LARGER["gpt2"]), tiny.prompts(200))


def test_weights_that_would_not_fit_are_named_from_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.build("llama")
    model.save_pretrained(tmp_path)  # type: ignore[operator]
    numbers = sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(resources, "find_free_memory", lambda _device: 2 * numbers)
    load(fetch_model_folder(str(tmp_path)), dtype="bfloat16", device="cpu", tokenizer=False)
    with pytest.raises(
        ThermostatsError, match=r"not enough memory for the model .*--dtype bfloat16"
    ):
        load(fetch_model_folder(str(tmp_path)), device="cpu", tokenizer=False)
