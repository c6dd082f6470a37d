"""Pairs with and without decay: that nothing else differs, and that norms by head are those of the
exported model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery import decay_pairs, stacked  # noqa: E402
from nursery.recipes import shape_of  # noqa: E402


def test_models_of_a_pair_differ_in_decay_alone() -> None:
    with_decay = decay_pairs.pairs()[::2]
    without = decay_pairs.pairs()[1::2]
    assert [recipe.optimiser for recipe in with_decay] == list(decay_pairs.OPTIMISERS)
    for recipe, other in zip(with_decay, without, strict=True):
        assert recipe.decay > 0 == other.decay
        assert replace(other, name=recipe.name, decay=recipe.decay) == recipe
    for pack in decay_pairs.packs():
        assert {member.seed for member in pack.members} == {decay_pairs.SEED}
        assert len(pack.members) == 4


def test_norms_by_head_are_those_of_the_exported_model() -> None:
    shape = shape_of(2, 2, 32)
    recipe = replace(decay_pairs.pairs()[0], init=0.7)
    weights = stacked.initial(shape, recipe, 50, seed=3)
    rows = decay_pairs.head_norms(weights, shape)
    model = stacked.export(weights, 0, shape, 16)
    width = shape.d_head
    for row in rows.itertuples():
        attention = model.model.layers[row.layer - 1].self_attn
        taken = slice((row.head - 1) * width, row.head * width)
        assert row.wv_norm == pytest.approx(
            float(attention.v_proj.weight.detach()[taken].norm()), rel=1e-6
        )
        assert row.wo_norm == pytest.approx(
            float(attention.o_proj.weight.detach()[:, taken].norm()), rel=1e-6
        )
    assert len(rows) == shape.n_layers * shape.n_heads


def test_the_file_holds_every_head_of_every_model_at_start_and_end() -> None:
    rows = pd.read_csv(decay_pairs.FILE)
    for pack in decay_pairs.packs():
        for member in pack.members:
            of_model = rows[rows["model"] == member.model]
            assert set(of_model["decay"]) == {member.recipe.decay}
            for step in (0, pack.steps):
                assert (of_model["step"] == step).sum() == pack.shape.n_layers * pack.shape.n_heads
    assert len(rows) == 2 * sum(
        p.shape.n_layers * p.shape.n_heads * len(p.members) for p in decay_pairs.packs()
    )


def test_pairs_begin_alike() -> None:
    rows = pd.read_csv(decay_pairs.FILE).query("step == 0")
    rows["pair"] = rows["model"].str.replace("-without", "")
    for _, alike in rows.groupby(["pair", "layer", "head"]):
        assert len(alike) == 2
        assert np.ptp(alike[["wv_norm", "wo_norm"]].to_numpy(), axis=0).max() == 0
