"""Tables of other tools in one line: recipes, mappings as dicts, wide tables, models of few
facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.choices import RECIPES
from thermostats.tables.column_map import FOLDER, FORMS, NO_RAW, check_entries
from thermostats.tables.join import join

GPT2, L = "openai-community/gpt2", 12
MISTRAL = "mistralai/Mistral-7B-v0.1"
NORMS = 1.5 ** np.arange(L + 1)
"""Norms of the states 0 to L: every gain is 1.5."""


def gains(data: Path, source: str) -> pd.DataFrame:
    rows = thermostats.load("layers", data, models=True)
    return rows[rows["source"] == source].sort_values("layer")


def test_recipes_are_the_files_that_ship() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted(RECIPES)


def hooks(model: str) -> list[dict[str, object]]:
    """Norms of a cache under the names of its hooks, some other hook's among them."""
    norm = {"pre": lambda block: NORMS[block], "post": lambda block: NORMS[block + 1]}
    rows = [
        {"hook": f"blocks.{block}.hook_resid_{side}", "norm": norm[side](block), "model": model}
        for block in range(L)
        for side in ("pre", "post")
    ]
    return [*rows, {"hook": "blocks.3.hook_attn_out", "norm": 7.0, "model": model}]


def test_hooks_of_a_cache(tmp_path: Path) -> None:
    done = join(hooks(GPT2), recipe="transformer-lens", form="raw", data=tmp_path / "mine")
    assert [(each.table, each.added) for each in done] == [("runs", 1), ("layers", L)]
    measured = gains(tmp_path / "mine", "transformer-lens")
    np.testing.assert_allclose(measured["gain_block"], 1.5)
    assert set(measured["position"]) == {"unstated"}


def test_a_centred_cache_has_read_gains_and_no_others(tmp_path: Path) -> None:
    join(hooks(GPT2), recipe="transformer-lens", form="centred", data=tmp_path / "mine")
    measured = gains(tmp_path / "mine", "transformer-lens")
    np.testing.assert_allclose(measured["gain_read"], 1.5)
    np.testing.assert_allclose(measured["read_norm"], NORMS[:-1])
    assert measured[["gain_block", "norm_in"]].isna().all(axis=None) and set(
        measured["missing"]
    ) == {NO_RAW}


def test_hooks_of_a_layer_norm_model_are_asked_for_their_form(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="in which form") as refused:
        join(hooks(GPT2), recipe="transformer-lens", data=tmp_path / "mine")
    for form in FORMS:
        assert f'form="{form}"' in str(refused.value)
    with pytest.raises(UsageError, match="no such form of norms"):
        join(hooks(GPT2), recipe="transformer-lens", form="folded", data=tmp_path / "mine")
    with pytest.raises(UsageError, match="have no states"):
        join(
            [{"model_id": GPT2, "last_gain": 1.1}],
            mapping={"ignore": "*"},
            form="raw",
            data=tmp_path / "mine",
        )
    with pytest.raises(UsageError, match="over the raw stream"):
        check_entries({"state": "s", "norm": "n", "last": "normed", "form": "centred"}, "here")


def test_of_an_rms_norm_model_the_stream_is_not_centred(tmp_path: Path) -> None:
    join(hooks(MISTRAL), recipe="transformer-lens", data=tmp_path / "mine")
    np.testing.assert_allclose(gains(tmp_path / "mine", "transformer-lens")["gain_block"], 1.5)
    with pytest.raises(DataError, match=r'do not subtract the mean.*form="raw"'):
        join(hooks(MISTRAL), recipe="transformer-lens", form="centred", data=tmp_path / "yours")


def test_hidden_states_long_and_wide_are_the_same_but_for_the_last_block(tmp_path: Path) -> None:
    long = pd.DataFrame({"layer": range(L + 1), "norm": NORMS, "model": GPT2})
    wide = pd.DataFrame(
        [{"model": GPT2, **{f"h{state}": norm for state, norm in enumerate(NORMS)}}]
    )
    wide.to_csv(tmp_path / "wide.csv", index=False)
    for name, source in (("long", long), ("wide", tmp_path / "wide.csv")):
        constants = {"position": "last", "source": name}
        join(source, recipe="hidden-states", constants=constants, data=tmp_path / "mine")
    rows = {name: gains(tmp_path / "mine", name) for name in ("long", "wide")}
    assert rows["long"]["layer"].tolist() == rows["wide"]["layer"].tolist() == list(range(1, L))
    np.testing.assert_allclose(rows["long"]["gain_block"], rows["wide"]["gain_block"])


def test_states_before_every_block(tmp_path: Path) -> None:
    rows = pd.DataFrame({"model": GPT2, "state": range(L + 1), "norm": NORMS, "note": "x"})
    join(rows, recipe="logos-in-layers", constants={"source": "mine"}, data=tmp_path / "mine")
    measured = gains(tmp_path / "mine", "mine")
    assert (len(measured), set(measured["position"]), set(measured["dtype"])) == (
        L,
        {"last"},
        {"float32"},
    )
    (row,) = thermostats.features(tmp_path / "mine", source="mine").to_dict("records")
    assert row["penultimate_gain"] == pytest.approx(1.5) and row[
        "total_amplification"
    ] == pytest.approx(1.5 ** (L - 1))


def test_norms_of_autoencoders_begin_after_block_1(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"layer": range(L), "mean_norm": NORMS[1:], "site": "resid_post", "model": GPT2}
    )
    other = rows.assign(site="mlp_out", mean_norm=3.0)
    every = pd.concat(
        [part.assign(release=release) for release in ("a", "b") for part in (rows, other)]
    )
    join(every, recipe="sae-norms", data=tmp_path / "mine")
    for release in ("a", "b"):
        measured = gains(tmp_path / "mine", release)
        assert measured["layer"].tolist() == list(range(2, L + 1))
        np.testing.assert_allclose(measured["gain_block"], 1.5)


def test_what_a_recipe_cannot_know_is_asked_for_by_name(tmp_path: Path) -> None:
    rows = pd.DataFrame({"layer": range(L + 1), "norm": NORMS})
    with pytest.raises(UsageError, match="without run_id"):
        join(rows, recipe="hidden-states", data=tmp_path / "mine")
    with pytest.raises(UsageError, match=r"no such recipe.*did you mean sae-norms"):
        join(rows, recipe="sae-norm", data=tmp_path / "mine")
    with pytest.raises(UsageError, match="column of states is missing"):
        join(
            rows.drop(columns="layer"),
            recipe="logos-in-layers",
            constants={"model_id": GPT2},
            data=tmp_path / "mine",
        )
    assert not (tmp_path / "mine").exists()


WIDE = pd.DataFrame({"who": [GPT2], "layer_2": [1.25], "layer_3": [None], "layer_11": ["1.75"]})


@pytest.mark.parametrize("columns", ["layer_*"])
def test_a_column_a_layer(columns: Any, tmp_path: Path) -> None:
    mapping = {
        "columns": {"who": "model_id"},
        "wide": {"columns": columns, "name": "layer", "value": "gain_block"},
        "constants": {"source": "wide", "position": "last", "prompt_id": ""},
    }
    join(WIDE, mapping=mapping, data=tmp_path / "mine")
    rows = gains(tmp_path / "mine", "wide")
    assert list(zip(rows["layer"], rows["gain_block"], strict=True)) == [(2, 1.25), (11, 1.75)]
    with pytest.raises(UsageError, match="no column holds a layer each"):
        join(WIDE[["who"]], mapping=mapping, data=tmp_path / "mine")


def test_a_dict_of_names_alone_finds_its_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({"block": [11], "growth": [1.25], "model_id": GPT2, "source": "flat"})
    rows = rows.assign(position="last", prompt_id="")
    join(rows, mapping={"block": "layer", "growth": "gain_block"}, data=tmp_path / "mine")
    assert gains(tmp_path / "mine", "flat")["gain_block"].tolist() == [1.25]
    with pytest.raises(UsageError, match="did you mean gain_block"):
        join(
            rows,
            mapping={"growth": "gain_blok", "block": "layer"},
            table="layers",
            data=tmp_path / "mine",
        )
    with pytest.raises(UsageError, match="the mapping names no table"):
        join(rows, mapping={"who": "model_id"}, data=tmp_path / "mine")


FEW = pd.DataFrame(
    {
        "name": ["me/a", "me/b"],
        "lab": ["A", "B"],
        "L": 4,
        "H": [2, 4],
        "d": 8,
        "size": [0.01, 251.07],
    }
)
COLUMNS = {
    "name": "model_id",
    "lab": "heritage",
    "L": "n_layers",
    "H": "n_heads",
    "d": "d_model",
    "size": "n_params",
}


def test_a_model_needs_name_lab_layers_heads_width_and_size(tmp_path: Path) -> None:
    mapping = {"columns": COLUMNS, "factors": {"n_params": 1e6}}
    assert join(FEW, mapping=mapping, data=tmp_path / "mine")[0].added == 2
    rows = store.load("models", tmp_path / "mine").set_index("model_id").loc[FEW["name"]]
    assert rows["n_params"].tolist() == [
        10_000,
        251_070_000,
    ]  # 251.07 · 10⁶ is no whole number as floats multiply
    unknown = [
        "d_head",
        "n_kv_heads",
        "d_ff",
        "vocab_size",
        "tied_embeddings",
        "gated_mlp",
        "parallel_block",
    ]
    assert rows[unknown].isna().all(axis=None)
    assert (rows[["norm_kind", "norm_place", "architecture"]] == "").all(axis=None)
    facts = {"table": "summaries", "columns": {"name": "model_id"}, "ignore": "*"}
    facts |= {
        "wide": {"columns": {"gain": "penultimate_gain"}, "name": "estimand", "value": "value"}
    }
    facts |= {"constants": {"source": "theirs", "prompt_id": ""}}
    join(FEW.assign(gain=[0.9, 1.1]), mapping=facts, data=tmp_path / "mine")
    assert store.check(tmp_path / "mine")["models"] == len(store.load("models")) + 2
    rows = (
        thermostats.model_rows("measured", data=tmp_path / "mine")
        .set_index("model_id")
        .loc[FEW["name"]]
    )
    assert rows["gain"].tolist() == [0.9, 1.1] and rows["rho"].isna().all()


@pytest.mark.parametrize(("value", "factor"), [("1_1", 2), (0.3, 1)])
def test_a_factor_takes_numbers_and_leaves_whole_ones_whole(
    value: object, factor: float, tmp_path: Path
) -> None:
    rows = FEW.assign(size=pd.Series([value, value], dtype=object))
    with pytest.raises(DataError, match="n_params"):
        join(
            rows,
            mapping={"columns": COLUMNS, "factors": {"n_params": factor}},
            data=tmp_path / "mine",
        )
