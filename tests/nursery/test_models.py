"""Initialisations by their closed forms, and optimisers and schedules by theirs."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_corpora import row  # noqa: E402
from torch import nn  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402

from thermostats.studies.nursery.factors import BUILDS, CONTEXT, RECIPE, STEPS  # noqa: E402
from thermostats.studies.nursery.models import WRITES, build  # noqa: E402
from thermostats.studies.nursery.optimisers import ADAM_RATE, MOMENTUM, optimisers, schedule  # noqa: E402

VOCABULARY = 512
DEPTH, WIDTH = 4, 72


def model_of(kind, **changed):
    facts = {"architecture": kind.architecture, "norm": kind.norm, "position": kind.position}
    shape = {"model_type": kind.model_type, "n_layers": DEPTH, "d_model": WIDTH, "n_heads": 3, "d_head": 24}
    return build(row(**facts, **shape, **changed), VOCABULARY)


def matrices(model):
    """Inner matrices by name: weight, fan-in, and whether it writes into the stream."""
    head = model.get_output_embeddings()
    return {
        name: (m.weight, m.weight.shape[0 if isinstance(m, Conv1D) else 1], name.endswith(WRITES))
        for name, m in model.named_modules()
        if isinstance(m, nn.Linear | Conv1D) and m is not head
    }


by_build = pytest.mark.parametrize("kind", BUILDS, ids=lambda kind: f"{kind.model_type}-{kind.norm}-{kind.position}")


@by_build
def test_two_matrices_of_a_block_write_into_the_stream(kind):
    found = matrices(model_of(kind))
    assert sum(writes for _, _, writes in found.values()) == 2 * DEPTH
    assert {weight.numel() // fan_in for weight, fan_in, writes in found.values() if writes} == {WIDTH}


@by_build
@pytest.mark.parametrize("init", RECIPE["init"])
def test_standard_deviations_are_those_of_the_scheme(kind, init):
    model = model_of(kind, init=init, tied=False)
    expected = {
        "normal": lambda fan_in, writes: 0.02,
        "depth_scaled": lambda fan_in, writes: 0.02 / math.sqrt(8) if writes else 0.02,
        "small_wang": lambda fan_in, writes: 2 / (4 * math.sqrt(72)) if writes else math.sqrt(2 / 360),
        "fan_in": lambda fan_in, writes: fan_in**-0.5,
    }[init]
    for name, (weight, fan_in, writes) in matrices(model).items():
        s, n = expected(fan_in, writes), weight.numel()
        assert abs(weight.std().item() / s - 1) < 5 / math.sqrt(2 * n), name
        assert abs(weight.mean().item()) < 5 * s / math.sqrt(n), name
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            assert (parameter == (1 if name.endswith("weight") else 0)).all(), name
    tables = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    assert all(abs(table.std().item() / 0.02 - 1) < 5 / math.sqrt(2 * table.numel()) for table in tables)


@by_build
@pytest.mark.parametrize("tied", [True, False])
def test_shape_and_tying_are_those_of_the_row(kind, tied):
    model = model_of(kind, tied=tied)
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (DEPTH, WIDTH, 3)
    same = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert same is tied and config.vocab_size == VOCABULARY
    assert model(input_ids=torch.zeros(1, CONTEXT, dtype=torch.long), use_cache=False).logits.shape[1] == CONTEXT


def test_a_model_without_positions_does_not_know_the_order_of_what_is_before():
    words = torch.randint(VOCABULARY, (1, 20), generator=torch.Generator().manual_seed(1))
    turned = torch.cat([words[:, :19].flip(1), words[:, 19:]], dim=1)
    for kind in BUILDS:
        one_block = build(
            row(
                architecture=kind.architecture,
                norm=kind.norm,
                position=kind.position,
                model_type=kind.model_type,
                n_layers=1,
                init="fan_in",
            ),
            VOCABULARY,
        ).eval()
        with torch.no_grad():
            for table in (m.weight for m in one_block.modules() if isinstance(m, nn.Embedding)):
                table.mul_(50)
            last, other = (one_block(input_ids=x, use_cache=False).logits[0, -1] for x in (words, turned))
        assert torch.allclose(last, other, atol=1e-3) == (kind.position == "none"), kind


@pytest.mark.parametrize("kind", ["cosine", "constant"])
def test_schedule_rises_for_a_twentieth_of_the_steps_and_then_is_as_named(kind):
    factor = schedule(kind, STEPS)
    assert [factor(step) for step in range(30)] == pytest.approx([(step + 1) / 30 for step in range(30)])
    after = [factor(step) for step in range(30, STEPS)]
    if kind == "constant":
        assert set(after) == {1.0}
    else:
        assert after == pytest.approx([0.55 + 0.45 * math.cos(math.pi * i / 570) for i in range(570)])
        assert after[0] == pytest.approx(1.0) and 0.1 < after[-1] < 0.1001
    assert schedule(kind, 1)(0) == 1.0


def shrink_per_step(name, decay, peak, steps=3):
    """Factor by which a matrix and a vector shrink at the last of some steps without any gradient."""
    model = model_of(BUILDS[0])
    asked = row(optimiser=name, decay=decay, peak=peak)
    inner, vector = model.transformer.h[0].mlp.c_fc.weight, model.transformer.h[0].ln_1.weight
    rules = optimisers(model, asked)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(steps):
        before, same = inner.detach().double().norm(), vector.detach().clone()
        for rule in rules:
            rule.step()
    assert torch.equal(vector, same)
    return float(inner.detach().double().norm() / before)


@pytest.mark.parametrize("decay, weight", [("low", 0.01), ("high", 0.3)])
@pytest.mark.parametrize("peak, times", [("low", 1.0), ("high", 3.0)])
def test_decay_shrinks_matrices_alike_by_adamw_muon_and_sgd_and_never_vectors(decay, weight, peak, times):
    shrink = ADAM_RATE * times * weight
    assert shrink_per_step("adamw", decay, peak) == pytest.approx(1 - shrink, abs=1e-6)
    assert shrink_per_step("muon", decay, peak) == pytest.approx(1 - shrink, abs=1e-6)
    pull = shrink * (1 - MOMENTUM)
    trace = 1 + MOMENTUM - pull
    largest_root = (trace + math.sqrt(trace**2 - 4 * MOMENTUM)) / 2
    by_sgd = shrink_per_step("sgd", decay, peak, steps=400)
    assert by_sgd == pytest.approx(largest_root, abs=1e-6)
    assert (1 - by_sgd) / shrink == pytest.approx(1, abs=0.05)


def test_adam_has_no_decay():
    assert shrink_per_step("adam", "none", "high") == 1.0


@pytest.mark.parametrize("name", RECIPE["optimiser"])
@by_build
def test_every_trained_parameter_has_one_optimiser_and_a_held_one_none(kind, name):
    model = model_of(kind)
    rules = optimisers(model, row(optimiser=name, decay="none" if name == "adam" else "low"))
    held = [p for p in model.parameters() if not p.requires_grad]
    taken = [id(p) for rule in rules for group in rule.param_groups for p in group["params"]]
    assert len(taken) == len(set(taken)) and set(taken) == {id(p) for p in model.parameters() if p.requires_grad}
    assert not {id(p) for p in held} & set(taken)
    if name == "muon":
        inner = {id(weight) for weight, _, _ in matrices(model).values()}
        assert {id(p) for group in rules[0].param_groups for p in group["params"]} == inner
