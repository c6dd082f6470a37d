"""What a suggested mapping may take a column for: eighty names, each with the roles that it may
have, and of every guess the doubt that stands below the line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables.mapping import build_mapping, describe_doubts

LAYERS = range(1, 13)
NONE = ""
GAINS = {
    **dict.fromkeys(
        (
            *("gain", "Gain", "mean_gain", "gain_per_block", "block gain", "gain (%)", "growth"),
            *("ratio", "norm_ratio", "growth_percent", "residualGain", "layer-gain", "avg gain"),
            *("gain_norm", "norm gain", "token_gain", "gain_residual", "gain@last", "norm growth"),
        ),
        "gain_block",
    ),
    **dict.fromkeys(
        (
            *("log_gain", "ln gain", "gain_log2", "logGain", "gain_db", "gain_std", "gain sd"),
            *("gain_se", "gain_sem", "gain_var", "delta_gain", "gain_diff", "gain_change"),
            *("kv_ratio", "head_ratio", "mlp_ratio", "aspect ratio", "compression_ratio"),
            *("information_gain", "gain_lower", "gain_upper", "gain_entropy", "gain_cosine"),
            *("loss_growth", "entropy", "cosine_sim", "cos_sim", "loss", "perplexity", "n_gains"),
            *("gain_rank", "gain_error", "gain_ci", "gain_zscore", "predicted_gain", "value"),
            *("gain_ratio", "ratio of gains", "gain growth", "growth of the gain"),
        ),
        NONE,
    ),
}
"""Columns of numbers by layer, and what they may be taken for."""
APART = {
    **dict.fromkeys(
        (
            *("sentence", "Item no.", "prompt no", "question_id", "example", "input_id"),
            *("document", "text", "passageId", "sample", "query", "stimulus", "eval_prompt"),
        ),
        "prompt_id",
    ),
    **dict.fromkeys(
        (
            *("step", "global_step", "training steps", "iteration", "checkpoint_no", "ckpt"),
            *("_step", "n_steps", "train-iter"),
        ),
        "revision",
    ),
    **dict.fromkeys(
        (
            *("epoch", "seed", "random_seed", "rng", "replicate", "trial", "fold", "run"),
            *("time", "timestamp", "created_at", "date", "token", "token_position", "pos"),
            *("input_tokens", "sample_seed", "seq_len", "head", "batch", "precision", "gpu", "lr"),
            *(
                "text_length",
                "question_time",
                "rank",
                "unit",
                "item_count",
                "step_size",
                "step time",
            ),
            *("iteration_time", "sample_size", "prompt category", "prompt_seed", "epoch_step"),
            *("checkpoint_size", "question score", "steps_per_second", "sample_weight"),
        ),
        NONE,
    ),
}
"""The one column that tells rows of a model and block apart, and what it may be taken for."""
WIDE = {
    **dict.fromkeys(("layer_", "gain_", "block", "gain_layer_", "Layer ", "l", "ratio_"), "gain"),
    **dict.fromkeys(("norm_gain_", "gain_norm_", "norm_ratio_", "gain_pct_", "Gain (%) "), "gain"),
    **dict.fromkeys(("norm_", "l2_", "resid_norm_", "norm_layer_", "hidden_norm_", "Norm"), "norm"),
    **dict.fromkeys(
        (
            *("entropy_", "cos_", "log_gain_", "loss_", "token_", "head_", "attn_norm_", "p"),
            *("layer_entropy_", "norm_std_", "gain_se_", "emb_", "dim_", "seed_", "layer_loss_"),
            *("gain_ratio_", "gain_growth_"),
        ),
        NONE,
    ),
}
"""What stands before the number of columns that are one quantity, and what that may be."""
UNCLEAR = {
    **{"id": ("model_id", ["a", "b"], [1, 2]), "name": ("model_id", ["a", "b"], [1, 2])},
    **{"checkpoint": ("model_id", ["a", "b"], [1000, 2000])},
    **{"size": ("n_params", [1e9, 2e9], ["7B", "1B"]), "depth": ("n_layers", [4, 8], ["x", "y"])},
    **{"h": ("n_heads", [4, 8], ["u", "v"]), "width": ("d_model", [64, 128], ["wide", "slim"])},
    **{"group": ("heritage", ["A", "B"], [1, 2]), "owner": ("heritage", ["A", "B"], [1, 2])},
}
"""Names with a role, cells that may be it and cells that may not."""


def by_layer(**columns: Any) -> pd.DataFrame:
    rows = {"model": "EleutherAI/pythia-160m", "layer": list(LAYERS)}
    return pd.DataFrame({**rows, **columns})


def doubted(frame: pd.DataFrame, name: str) -> bool:
    return f"whether {name} is " in describe_doubts(frame)


def test_there_are_eighty_names() -> None:
    assert len({*GAINS, *APART, *WIDE, *UNCLEAR}) >= 80


@pytest.mark.parametrize(("name", "role"), GAINS.items())
def test_a_column_is_a_gain_by_its_word_alone(name: str, role: str) -> None:
    frame = by_layer(prompt="a", **{name: np.linspace(1.0, 1.3, 12)})
    taken = build_mapping(frame, "mine").get("columns", {}).get(name, NONE)
    assert taken == role
    words = set(re.split(r"[\W_]+", name.casefold()))
    sure = "gain" in words and not words & {"norm", "token", "residual", "last"}
    assert doubted(frame, name) == (bool(role) and not sure)


@pytest.mark.parametrize(("name", "role"), APART.items())
def test_what_tells_rows_apart_is_a_prompt_by_its_word_alone(name: str, role: str) -> None:
    frame = by_layer(gain=np.linspace(1.0, 1.3, 12))
    frame = pd.concat([frame.assign(**{name: cell}) for cell in (10, 20, 30)], ignore_index=True)
    mapping = build_mapping(frame, "mine")
    assert mapping["columns"].get(name, NONE) == role
    if role and name not in {"sentence", "text"}:
        assert doubted(frame, name)
    if not role:
        assert name in mapping["ignore"] and f"what {name} says" in describe_doubts(frame)


@pytest.mark.parametrize(("before", "role"), WIDE.items())
def test_columns_with_numbers_are_gains_or_norms_by_their_word_alone(
    before: str, role: str
) -> None:
    cells = {f"{before}{k}": [1 + k / 10, 1 + k / 20] for k in LAYERS}
    frame = pd.DataFrame({"model": "EleutherAI/pythia-160m", "prompt": ["a", "b"], **cells})
    mapping = build_mapping(frame, "mine")
    wide = mapping.get("wide", {})
    assert wide.get("value", NONE) == {"gain": "gain_block"}.get(role, role)
    assert bool(mapping.get("norms")) == (role == "norm")
    if role:
        said = "gain" in before.casefold() and "norm" not in before
        assert doubted(frame, f"{before}*") == (not said)
        scaled = build_mapping(frame, "mine").get("factors", {}) == {"gain_block": 0.01}
        assert scaled == ("%" in before or "pct" in before)


@pytest.mark.parametrize("name", UNCLEAR)
def test_unclear_names_need_cells_that_fit_and_are_doubted(name: str) -> None:
    role, fitting, others = UNCLEAR[name]
    rest = {"model": ["a-1", "a-2"], "lab": "A", "layers": [4, 8], "gain": [1.1, 0.9]}
    own = {"model_id": "model", "heritage": "lab", "n_layers": "layers"}.get(role, "")
    rest = {label: cells for label, cells in rest.items() if label != own}
    frame = pd.DataFrame({**rest, name: fitting})
    assert build_mapping(frame, "mine")["columns"].get(name) == role
    assert doubted(frame, name)
    wrong = pd.DataFrame({**rest, name: others})
    assert build_mapping(wrong, "mine").get("columns", {}).get(name) is None


def test_wide_norms_become_gains(tmp_path: Path) -> None:
    norms = np.cumprod(np.linspace(1.2, 1.05, 13)) * 2
    cells = {f"norm_{k}": [norms[k], 1.1 * norms[k]] for k in range(13)}
    df = pd.DataFrame({"model": "EleutherAI/pythia-160m", "prompt": ["a", "b"], **cells})
    with pytest.raises(UsageError) as caught:
        thermostats.join(df, data=tmp_path / "mine")
    line, doubts = caught.value.next_step.split("\n")
    assert "whether norm_* is the norm of the stream" in doubts
    eval(line, {"thermostats": thermostats, "df": df})  # noqa: S307
    held = thermostats.load("layers", tmp_path / "mine", models=True).query("source == 'mine'")
    wanted = norms[1:] / norms[:-1]
    np.testing.assert_allclose(held.groupby("layer")["gain_block"].first(), wanted)
    fewer = df.drop(columns="norm_0")
    with pytest.raises(UsageError) as caught:
        thermostats.join(fewer, data=tmp_path / "other")
    lines = caught.value.next_step.split("\n")
    read = [
        line.partition(": thermostats.join(") for line in lines if ": thermostats.join(" in line
    ]
    assert [words for words, _, _ in read] == [
        "if they are what enters the blocks",
        "if they are what leaves the blocks",
    ]
    for place, (_, call, arguments) in enumerate(read):
        data = tmp_path / f"reading {place}"
        line = (call.removeprefix(": ") + arguments).replace(str(tmp_path / "other"), str(data))
        eval(line, {"thermostats": thermostats, "df": fewer})  # noqa: S307
        held = thermostats.load("layers", data, models=True).query("source == 'mine'")
        assert len(held) > 0


def test_wide_gains_in_per_cent_are_scaled(tmp_path: Path) -> None:
    cells = {f"gain_pct_{k}": [100.0 + k, 90.0 + k] for k in LAYERS}
    df = pd.DataFrame({"model": "EleutherAI/pythia-160m", "prompt": ["a", "b"], **cells})
    with pytest.raises(UsageError) as caught:
        thermostats.join(df, data=tmp_path / "mine")
    line, doubts = caught.value.next_step.split("\n")
    assert "the unit of gain_block" in doubts
    eval(line, {"thermostats": thermostats, "df": df})  # noqa: S307
    held = thermostats.load("layers", tmp_path / "mine", models=True).query("source == 'mine'")
    first = held[held["prompt_id"] == "a"].sort_values("layer")["gain_block"]
    np.testing.assert_allclose(first, [1 + k / 100 for k in LAYERS])


def test_fractions_called_per_cent_are_asked_about(tmp_path: Path) -> None:
    """chris1610/sidetable#13: a column is called percent and holds fractions."""
    df = by_layer(prompt="a", gain_pct=np.linspace(1.0, 1.3, 12))
    with pytest.raises(UsageError) as caught:
        thermostats.join(df, data=tmp_path / "mine")
    line = caught.value.next_step.split("\n")[0]
    with pytest.raises(DataError, match="hardly what they say"):
        eval(line, {"thermostats": thermostats, "df": df})  # noqa: S307


@pytest.mark.parametrize("cells", [["110%", "1.05"], ["1,05", "1.05"], ["1,05", "1,10"]])
def test_numbers_in_several_spellings_are_never_read_in_silence(
    cells: list[str], tmp_path: Path
) -> None:
    """yakew7/Fair-Code#578, buckets/application#200: 0.49 beside 51%, and commas for points."""
    df = by_layer(prompt="a", gain=[cells[i % 2] for i in range(12)])
    with pytest.raises(UsageError):
        thermostats.join(df, data=tmp_path / "mine")
    mapping = {"model": "model_id", "layer": "layer", "prompt": "prompt_id", "gain": "gain_block"}
    constants = {"position": "last", "source": "mine"}
    with pytest.raises((UsageError, DataError)):
        thermostats.join(
            df, mapping={"columns": mapping, "constants": constants}, data=tmp_path / "mine"
        )
