"""Proofs hold a model to its own terms: its precision, its sinks; what fails leaves the rest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import tiny
import torch

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.forward import Decoder
from thermostats.measurement.gains import measure_gains
from thermostats.measurement.proof import (
    OF_SUBBLOCKS,
    PROOF,
    check_conformance,
    check_proof,
    drop_unproven,
    measure_proved,
    measure_relative_difference,
)

HALF = (torch.float16, torch.bfloat16)


def test_a_difference_is_relative_and_beyond_rounding() -> None:
    x, write = np.full(64, 3.0), np.ones(64)
    off = [x + write + 0.01, -x]
    assert measure_relative_difference(off, write) == pytest.approx(0.01)
    # ε(|3 + 1.01| + |3|) = 0.00701 of the 0.01 is rounding
    assert measure_relative_difference(off, write, epsilon=1e-3) == pytest.approx(
        0.01 - 0.00701, rel=1e-9
    )
    assert measure_relative_difference(off, write, epsilon=1e-2) == 0.0


def test_a_large_coordinate_hides_itself_and_no_other() -> None:
    rng = np.random.default_rng(1)
    x, write = rng.normal(size=256), rng.normal(size=256)
    x[5] = 300.0
    step = x + write
    step[5] = 300.0  # the write is lost in rounding
    terms = [step, -x]
    assert measure_relative_difference(terms, write, tolerance=5e-2, epsilon=2**-8) < 5e-2
    for wrong in (write * 1.2, np.roll(write, 1), write * 0.0 + 0.1):
        assert measure_relative_difference(terms, wrong, tolerance=5e-2, epsilon=2**-8) > 5e-2


@pytest.mark.parametrize("expected", [np.zeros(4), np.ones(4)])
def test_what_is_not_there_or_not_a_number_is_off(expected: np.ndarray) -> None:
    assert measure_relative_difference([expected], expected) == 0.0
    assert measure_relative_difference([expected + 1e-3], expected) > 1e-4
    assert measure_relative_difference([expected * np.nan], expected) == np.inf
    assert measure_relative_difference([np.zeros(0)], np.zeros(0)) == np.inf


def massive(dtype: torch.dtype, size: float, *, everywhere: bool = False) -> Decoder:
    """A model whose embedding holds a large coordinate, or large ones alone."""
    model = tiny.build("llama", hidden_size=64, num_hidden_layers=6)
    weight = model.model.embed_tokens.weight.data
    weight[:, slice(None) if everywhere else 5] = size
    return tiny.places(model.to(dtype))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float32, 1e4), (torch.float32, 1e6), *((dtype, 300.0) for dtype in HALF)],
)
@pytest.mark.parametrize("everywhere", [False, True])
def test_massive_activations_are_measured_in_their_precision(
    dtype: torch.dtype, size: float, everywhere: bool
) -> None:
    decoder = massive(dtype, size, everywhere=everywhere)
    proof = check_proof(decoder)
    assert proof.passed
    rows, _ = measure_proved(
        lambda each, **options: measure_gains(decoder, each, **options),
        decoder,
        tiny.prompts(5, 3, 7),
        options={},
        alone={"token_budget": 1, "packed": False},
    )
    assert rows.layers["gain_block"].between(0.5, 2.0).all()


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_a_wrong_write_is_seen_beside_a_massive_coordinate(dtype: torch.dtype) -> None:
    decoder = massive(dtype, 300.0)
    assert (
        "residual"
        in check_conformance(
            replace(decoder, entry=replace(decoder.entry, mlp_write="self_attn"))
        ).failed
    )


def test_finite_sinks_take_their_share_and_no_other_matrix_passes() -> None:
    decoder = tiny.opened("gpt_oss")
    assert check_conformance(decoder).value < 1e-5
    without = replace(decoder, entry=replace(decoder.entry, sinks=False))
    assert check_conformance(without).value > 0.1
    handle = decoder.blocks[1].self_attn.v_proj.register_forward_hook(
        lambda _m, _a, out: out.roll(1, -1)
    )
    assert check_conformance(decoder).value > 0.1
    handle.remove()


def test_what_changes_the_stream_between_blocks_is_seen() -> None:
    decoder = tiny.opened("llama")
    decoder.blocks[1].register_forward_pre_hook(
        lambda _m, args: (args[0] * 1.01, *args[1:]), prepend=True
    )
    with pytest.raises(ThermostatsError, match="something outside the blocks changes the stream"):
        check_proof(decoder, needed=("stream",))


def broken(**changes: Any) -> Decoder:
    decoder = tiny.opened("llama")
    return replace(decoder, entry=replace(decoder.entry, **changes))


def test_what_cannot_be_proved_of_one_quantity_leaves_the_others() -> None:
    decoder, wanted = (
        broken(mlp_out="mlp.up_proj"),
        measure_gains(tiny.opened("llama"), tiny.prompts(5, 2)),
    )
    proof = check_proof(decoder, needed=("stream",))
    assert proof.failed == ("residual",) and "the writes do not add up" in proof.reasons[0]
    rows = drop_unproven(measure_gains(decoder, tiny.prompts(5, 2)), proof).layers
    np.testing.assert_array_equal(rows["gain_block"], wanted.layers["gain_block"])
    np.testing.assert_array_equal(rows["anisotropy"], wanted.layers["anisotropy"])
    assert rows[OF_SUBBLOCKS].isna().all(axis=None)
    assert rows["missing"].str.contains(PROOF["residual"]).all()
    with pytest.raises(ThermostatsError, match="the writes do not add up"):
        check_proof(decoder)


def test_a_weight_that_is_not_finite_is_named() -> None:
    model = tiny.build("llama")
    model.model.layers[2].mlp.down_proj.weight.data[3, 4] = 1e6
    assert check_proof(tiny.places(model)).passed
    with pytest.raises(
        DataError, match=r"not finite \(model\.layers\.2\.mlp\.down_proj\.weight\): got float16"
    ):
        check_proof(tiny.places(model.half()))


@pytest.mark.parametrize("spoilt", ["shortest", "longest"])
def test_rows_that_others_changed_are_measured_again_alone(spoilt: str) -> None:
    decoder, prompts = tiny.opened("llama"), tiny.prompts(3, 9, 5)
    wanted = measure_gains(decoder, prompts, token_budget=1, packed=False).layers

    def measure(each: Any, **options: Any) -> Any:
        rows = measure_gains(decoder, each, **options).layers
        if not options:
            rows.loc[
                rows["prompt_id"] == {"shortest": "p0", "longest": "p1"}[spoilt], "gain_block"
            ] *= 1.01
        return SimpleNamespace(layers=rows)

    measured, note = measure_proved(
        measure, decoder, prompts, options={}, alone={"token_budget": 1, "packed": False}
    )
    assert note.endswith(" alone")
    assert measured.layers.equals(wanted)


def test_a_block_that_writes_nothing_is_right() -> None:
    decoder = tiny.opened("llama")
    for path in ("self_attn.o_proj", "mlp.down_proj", "self_attn.v_proj"):
        decoder.blocks[1].get_submodule(path).weight.data.zero_()
    assert check_conformance(decoder).passed
