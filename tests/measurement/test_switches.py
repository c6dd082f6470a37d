"""Configuration values that change the order of computation: rows are those of each input alone in
a fresh model."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch
import transformers
from test_loading import WORDS, write_tokenizer
from typer.testing import CliRunner

from thermostats import measure
from thermostats.cli.app import app
from thermostats.errors import UsageError
from thermostats.measurement.batching import TokenisedPrompt
from thermostats.measurement.checkpoint import find_context_limit
from thermostats.measurement.engines import Job
from thermostats.measurement.execute import plan_job
from thermostats.measurement.forward import extract_input, extract_tensor, prepare_model
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.lookup import is_eager_wrong
from thermostats.measurement.model_class import UnsupportedArchitectureError
from thermostats.measurement.proof import check_conformance
from thermostats.measurement.resources import Place
from thermostats.measurement.spec import RunSpec

LENGTHS = (9, 3, 5, 2)
GAIN, NORM = 1e-4, 1e-6
"""Largest relative differences of gains and of norms from the oracle's."""


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, "factor": 4.0, **more}}


LONG = rope(
    "longrope",
    short_factor=[1.0] * 3,
    long_factor=[8.0, 16.0, 32.0],
    original_max_position_embeddings=6,
)
DYNAMIC = {**rope("dynamic"), "max_position_embeddings": 4}
ODD = {
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 10,
    "hidden_size": 28,
    "num_hidden_layers": 1,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "long rope": ("llama", LONG),
    "dynamic rope": ("llama", DYNAMIC),
    "rope of one kind of block": (
        "gemma3_text",
        {
            "rope_parameters": {
                "full_attention": LONG["rope_parameters"],
                "sliding_attention": {"rope_theta": 1e4},
            }
        },
    ),
    "both ways": ("llama", {"is_causal": False}),
    "both ways without a mask": ("gemma", {"use_bidirectional_attention": True}),
    "both ways with a mask": ("stablelm", {"is_causal": False}),
    "an encoder that decodes": ("bert", {"is_decoder": True}),
    "in chunks": ("bert", {"chunk_size_feed_forward": 2}),
    "in chunks, shared": ("albert", {"chunk_size_feed_forward": 1}),
    "sinks": ("gpt_oss", {"sliding_window": 4}),
    "softcaps": ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    "clipped values": ("olmo", {"clip_qkv": 0.5}),
    "an output projection": ("opt", {"word_embed_proj_dim": 16}),
    "no final norm": ("opt", {"_remove_final_layer_norm": True}),
    "one key/value head, odd widths, one layer": ("llama", ODD),
    "odd widths, experts": ("qwen3_moe", {**ODD, "num_hidden_layers": 2}),
    "shared experts": ("deepseek_v3", {"n_shared_experts": 2, "first_k_dense_replace": 0}),
    "some layers without experts": ("qwen2_moe", {"mlp_only_layers": [1]}),
    "a sliding window": ("mistral", {"sliding_window": 2}),
    "local attention": ("gpt_neo", {"attention_types": [[["local"], 3]], "window_size": 2}),
    "tokens left out of the norm": ("esm", {"token_dropout": True, "mask_token_id": 3}),
    "a factor on the writes": ("granite", {"residual_multiplier": 1e-3}),
}
"""What changes → entry and configuration values, one case of each kind."""
NO_SWITCH = {
    *(
        "return_dict",
        "output_hidden_states",
        "output_attentions",
        "torchscript",
        "use_bfloat16",
        "use_cache",
    ),
    *(
        "is_encoder_decoder",
        "output_router_logits",
        "remove_invalid_values",
        "add_cross_attention",
        "add_fpn",
    ),
}
UNBUILDABLE = {("internlm3", "attention_bias"), ("internlm3", "mlp_bias"), ("esm", "token_dropout")}
UNBUILDABLE |= {
    (name, "is_decoder") for name in ("t5", "mt5", "umt5")
}  # loading sets it: see test_stacks
"""Values that the class refuses on their own, or that no folder brings to the stack that is
measured."""


def switched(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value of yes or no of a class the other way round, and what the kinds above do to any
    class."""
    kind, arguments = tiny.CONFIGURATIONS[name]
    stated = getattr(transformers, kind)(**arguments).to_dict()
    for key, value in stated.items():
        if isinstance(value, bool) and key not in NO_SWITCH and (name, key) not in UNBUILDABLE:
            yield key, {key: not value}
    yield "is_causal", {"is_causal": False}
    yield "chunks", {"chunk_size_feed_forward": 1}
    for key in ("num_hidden_layers", "n_layers", "n_layer"):
        if key in stated:
            yield "one layer", {key: 1}
    ropes = stated.get("rope_parameters")
    if isinstance(ropes, dict) and "rope_type" in ropes and not ropes.get("partial_rotary_factor"):
        for each in ("yarn", "linear", "dynamic"):
            yield each, {**rope(each), "max_position_embeddings": 4 if each == "dynamic" else 64}


def alone(
    model: torch.nn.Module, prompts: list[Any]
) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """What every block reads and leaves, in float64, of each input alone in a copy of the model."""
    streams = []
    for prompt in prompts:
        fresh = tiny.places(copy.deepcopy(model))
        read: list[torch.Tensor] = []
        left: list[torch.Tensor] = []
        for block in dict.fromkeys(fresh.blocks):
            block.register_forward_pre_hook(
                lambda _m, args, kwargs, read=read: read.append(
                    extract_input(args, kwargs).detach().double().flatten(0, -2)
                ),
                with_kwargs=True,
            )
            block.register_forward_hook(
                lambda _m, _a, output, left=left: left.append(
                    extract_tensor(output).detach().double().flatten(0, -2)
                )
            )
        with torch.no_grad():
            fresh.base(**tiny.arguments(prompt))
        streams.append((read, left))
    return streams


def check(model: torch.nn.Module) -> None:
    """The rows of a batch are those of a plain loop, and the entry holds."""
    decoder = tiny.places(copy.deepcopy(model))
    prompts = tiny.inputs(decoder, *LENGTHS)
    if decoder.config.get("chunk_size_feed_forward"):
        model = copy.deepcopy(model)
        for module in model.modules():
            if "chunk_size_feed_forward" in vars(module):
                module.chunk_size_feed_forward = (
                    0  # in chunks transformers takes only lengths that they divide
                )
    rows = measure_gains(decoder, prompts).layers.set_index(["prompt_id", "layer", "position"])
    position = "last" if decoder.entry.reads == "text" else next(iter(rows.index.levels[2]))
    for prompt, (read, left) in zip(prompts, alone(model, prompts), strict=True):
        at = prompt.span.stop - 1 if position == "last" else 0 if position == "cls" else slice(None)
        for layer, (x, y) in enumerate(zip(read, left, strict=True), 1):
            row = rows.loc[(prompt.prompt_id, layer, position)]
            before, after = (
                x.norm(dim=-1)[at].log().mean().exp(),
                y.norm(dim=-1)[at].log().mean().exp(),
            )
            assert abs(row["norm_in"] / float(before) - 1) < NORM
            assert abs(row["gain_block"] / float(after / before) - 1) < GAIN
            parts = ("attention", "mlp") if decoder.entry.mlp else ("attention",)
            assert (
                row[[f"{kind}_{part}" for kind in ("gain", "write") for part in parts]]
                .notna()
                .all()
            )
    proof = check_conformance(decoder)
    assert proof.passed, str(proof)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_batch_are_those_of_each_input_alone(kind: str) -> None:
    name, changes = KINDS[kind]
    check(tiny.build(name, **copy.deepcopy(changes)))


BY_NAME = {("bloom", "apply_residual_connection_post_layernorm"), ("roformer", "rotary_value")}
"""Values that are refused by name."""


def running(name: str, changes: dict[str, Any]) -> torch.nn.Module | None:
    """The tiny model of a class under other values; None where the class itself cannot run under
    them."""
    opened = tiny.opened(name)
    try:
        model = tiny.build(name, **copy.deepcopy(changes))
        with torch.no_grad():
            base = getattr(model, "base_model", model) if opened.entry.reads == "text" else model
            base(**tiny.arguments(tiny.inputs(opened, 4)[0]))
    except Exception:  # whatever the class demands
        return None
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", tiny.in_turn(pytest.mark.long))
def test_every_switch_of_a_class(name: str) -> None:
    models = {
        key: running(name, changes) for key, changes in switched(name) if (name, key) not in BY_NAME
    }
    for model in filter(None, models.values()):
        check(model)
    assert sum(model is not None for model in models.values()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]
)
def test_random_odd_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = int(rng.choice([2, 3, 4, 6]))
    shape = {
        "num_attention_heads": heads,
        "num_key_value_heads": int(rng.choice([k for k in range(1, heads + 1) if heads % k == 0])),
        "head_dim": 2 * int(rng.integers(2, 8)),
        "hidden_size": heads
        * 4
        * int(rng.integers(1, 4)),  # products of grouped experts want rows of 16 bytes
        "intermediate_size": 4 * int(rng.integers(2, 15)),
        "num_hidden_layers": int(rng.choice([1, 1, 2, 5])),
    }
    name = str(
        rng.choice(
            [
                "llama",
                "qwen3",
                "qwen3_moe",
                "mixtral",
                "gemma2",
                "gemma3_text",
                "gpt_oss",
                "mistral",
            ]
        )
    )
    model = tiny.build(name, **shape)
    check(model)
    check(model.to(torch.bfloat16).to(torch.float32))  # as stored in bfloat16


@pytest.mark.parametrize(
    "name", ["llama", "gemma", "gemma2", "stablelm", "clip_text_model", "gpt2", "opt"]
)
@pytest.mark.parametrize("key", ["", "is_causal", "use_bidirectional_attention"])
def test_eager_attention_is_the_default_one_or_said_to_be_wrong(name: str, key: str) -> None:
    changes = {key: key != "is_causal"} if key else {}
    decoder, eager = tiny.opened(name, **changes), tiny.opened(name, "eager", **changes)
    (prompt,) = tiny.inputs(decoder, 8)
    with torch.no_grad():
        a, b = (each.base(**tiny.arguments(prompt)).last_hidden_state for each in (decoder, eager))
    assert torch.allclose(a, b, rtol=1e-4, atol=1e-4) != is_eager_wrong(
        decoder.entry, decoder.config
    )


@pytest.mark.parametrize(
    ("name", "changes", "causal"),
    [
        ("llama", {}, True),
        ("llama", {"is_causal": False}, False),
        ("stablelm", {"is_causal": False}, True),
        ("gemma", {"use_bidirectional_attention": True}, False),
        ("bert", {}, False),
        ("bert", {"is_decoder": True}, True),
    ],
)
def test_the_direction_of_attention_is_what_the_model_does(
    name: str, changes: dict[str, Any], causal: bool
) -> None:
    decoder = tiny.opened(name, **changes)
    assert decoder.entry.causal == causal
    assert set(measure_gains(decoder, tiny.inputs(decoder, 5)).layers["position"]) == {
        "first" if causal else "cls",
        *("last", "mean"),
    }


TABLES = (
    "gpt2",
    "opt",
    "biogpt",
    "roberta",
    "camembert",
    "mpnet",
    "esm",
    "luke",
    "bert",
    "distilbert",
    "openai-gpt",
)


@pytest.mark.parametrize("name", TABLES)
def test_the_context_is_what_the_model_can_read(name: str) -> None:
    decoder = tiny.opened(name)
    most = find_context_limit(decoder.entry, decoder.config)
    assert most is not None
    with prepare_model(decoder.model):
        decoder.base(input_ids=torch.full((1, most), 5))
        with pytest.raises((IndexError, RuntimeError)):
            decoder.base(input_ids=torch.full((1, most + 1), 5))
    with pytest.raises(UsageError, match=f"longer than the model's context.*at most {most}"):
        measure_gains(decoder, tiny.prompts(most + 1))


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "bloom": ("bloom", {"apply_residual_connection_post_layernorm": True}, "weights"),
    "deberta": ("deberta-v2", {"conv_kernel_size": 3, "conv_act": "gelu"}, "weights"),
    "roformer": ("roformer", {"rotary_value": True}, "gains,outputs"),
}
"""Entry, configuration values, and what is left."""


def saved(folder: Path, name: str, **changes: Any) -> Path:
    tiny.build(name, **changes).save_pretrained(folder)  # type: ignore[operator]
    write_tokenizer(folder)
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_a_switch_is_refused_by_name_with_a_line_that_works(case: str, tmp_path: Path) -> None:
    name, changes, left = REFUSED[case]
    folder, data = saved(tmp_path / "my model", name, **changes), tmp_path / "data"
    with pytest.raises(UnsupportedArchitectureError, match=next(iter(changes))) as caught:
        measure(str(folder), data, heritage="Us", prompts=["the cat sat"])
    assert not (data / "runs").exists()
    line = caught.value.next_step
    assert line == f"thermostats measure {shlex.quote(str(folder))} --what {left}"
    beforehand = plan_job(
        Job(RunSpec(str(folder), heritage="Us")), ["the cat sat"], tmp_path, Place("cpu", None)
    )
    reason = beforehand.problem.reason
    assert beforehand.status == "failed" and next(iter(changes)) in reason and line in reason
    (tmp_path / "p.txt").write_text("the cat sat\n")
    more = ["--data", str(data), "--lab", "Us", "--prompts", str(tmp_path / "p.txt")]
    done = CliRunner().invoke(app, [*shlex.split(line)[1:], *more])
    assert done.exit_code == 0, done.output


def test_a_type_with_entries_none_of_which_fits_names_the_setting() -> None:
    with pytest.raises(
        UnsupportedArchitectureError, match=r"num_hidden_groups=2.*allowed: num_hidden_groups=1"
    ):
        tiny.opened("albert", num_hidden_groups=2)


END_TO_END = ("dynamic rope", "in chunks", "no final norm")


@pytest.mark.parametrize(
    "kind",
    [END_TO_END[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in END_TO_END[1:])],
)
def test_a_folder_is_measured_as_its_model_alone(kind: str, tmp_path: Path) -> None:
    name, changes = KINDS[kind]
    folder = saved(tmp_path / "m", name, **copy.deepcopy(changes))
    texts = ["the cat sat", "the", "sat the cat sat the cat sat"]
    rows = measure(str(folder), tmp_path / "data", heritage="Us", prompts=texts, what="gains")
    rows = rows[rows["position"] == "last"].set_index(["prompt_id", "layer"])
    loader = getattr(transformers, tiny.opened(name, **copy.deepcopy(changes)).entry.loader)
    for i, text in enumerate(texts, 1):
        fresh = loader.from_pretrained(folder).eval()
        for module in fresh.modules():
            if "chunk_size_feed_forward" in vars(module):
                module.chunk_size_feed_forward = 0
        ids = (1, *(WORDS.index(word) for word in text.split()))
        ((read, left),) = alone(fresh, [TokenisedPrompt("p", ids)])
        for layer, (x, y) in enumerate(zip(read, left, strict=True), 1):
            row = rows.loc[(f"p{i:03}", layer)]
            assert row["norm_in"] == pytest.approx(float(x[-1].norm()), rel=NORM)
            assert row["gain_block"] == pytest.approx(float(y[-1].norm() / x[-1].norm()), rel=GAIN)
