"""Memory: the estimate against what torch allocates, and errors before it runs out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny  # noqa: E402

from thermostats.errors import ThermostatsError  # noqa: E402
from thermostats.measurement import memory  # noqa: E402
from thermostats.measurement.architectures import lookup  # noqa: E402
from thermostats.measurement.attention import measure_attention  # noqa: E402
from thermostats.measurement.batching import TokenisedPrompt  # noqa: E402
from thermostats.measurement.forward import as_measured, make_batches  # noqa: E402
from thermostats.measurement.gains import measure_gains  # noqa: E402
from thermostats.measurement.hub import model_folder  # noqa: E402
from thermostats.measurement.loading import load  # noqa: E402
from thermostats.measurement.modules import Decoder, configuration, decoder  # noqa: E402

LARGER: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 128, "n_head": 4, "n_layer": 2, "n_positions": 256, "vocab_size": 4000},
    "gpt_neox": {"hidden_size": 128, "intermediate_size": 512, "max_position_embeddings": 256, "vocab_size": 4000},
    "llama": {"hidden_size": 128, "intermediate_size": 344, "max_position_embeddings": 256, "vocab_size": 4000},
}


def opened(name: str, attention: str = "sdpa") -> Decoder:
    model = tiny.build(name, **LARGER[name], attn_implementation=attention)
    return decoder(model, lookup(configuration(model)))


def prompts(*lengths: int) -> list[TokenisedPrompt]:
    return [TokenisedPrompt(f"p{i}", ids) for i, ids in enumerate(tiny.prompt_ids(*lengths))]


def highest(found: Decoder, given: list[TokenisedPrompt], **options: Any) -> int:
    """Most bytes of tensors alive at once in a pass, as torch's profiler saw them come and go."""
    with torch.profiler.profile(profile_memory=True) as seen:
        measure_gains(found, given, **options)
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


@pytest.mark.parametrize("name", sorted(LARGER))
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_estimate_is_above_what_torch_allocates_and_of_its_size(name: str, attention: str) -> None:
    found, given = opened(name, attention), prompts(200, 150)
    with as_measured(found.model):
        (batch,) = make_batches(found, given, 1000, packed=True)
    for decode in (None, str):
        estimate = memory.activation_bytes(found, batch, outputs=decode is not None)
        measured = highest(found, given, token_budget=1000, decode=decode)
        assert measured < 1.1 * estimate < 4 * measured, (estimate / measured, decode)


def test_a_batch_that_would_not_fit_is_named_before_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_available", lambda _device: 100_000)
    for measure, attention in ((measure_gains, "sdpa"), (measure_attention, "eager")):
        with pytest.raises(ThermostatsError, match=r"not enough memory for a batch of prompts.*--token-budget"):
            measure(opened("gpt2", attention), prompts(200))


def test_memory_of_the_weights_is_counted_from_the_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.build("llama")
    model.save_pretrained(tmp_path)
    numbers = sum(parameter.numel() for parameter in model.parameters())
    assert memory.memory_needed(tmp_path, "float32") == 4 * numbers
    assert memory.memory_needed(tmp_path, "bfloat16") == 2 * numbers
    monkeypatch.setattr(memory, "memory_available", lambda _device: 1000)
    with pytest.raises(ThermostatsError, match=r"not enough memory for the model .*--dtype bfloat16"):
        load(model_folder(str(tmp_path)), device="cpu", tokenizer=False)


def test_available_memory_is_a_plausible_number() -> None:
    free = memory.memory_available(torch.device("cpu"))
    assert free is None or 2**20 < free < 2**50
