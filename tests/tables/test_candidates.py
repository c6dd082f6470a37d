"""Public models to measure: shapes and weights as others have them, labels as the tables have
them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.identities import WEIGHTS, count_parameters
from thermostats.tables.labels import find_grouped_misspelt, strip_lab

ROOT = Path(__file__).parents[2]
DECLARED = ROOT / "scripts" / "candidates"
LIKE_MODELS = (
    *(
        "heritage",
        "family",
        "variant",
        "seed_of",
        "year",
        "modality",
        "architecture",
        "n_layers",
        "d_model",
    ),
    *(
        "n_heads",
        "n_kv_heads",
        "d_head",
        "d_ff",
        "vocab_size",
        "tied_embeddings",
        "gated_mlp",
        "n_params",
    ),
    *("n_params_nonembedding", "norm_kind", "stages"),
)
CHECKPOINTS = {
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "allenai/OLMo-2-1124-7B": 7_298_617_344,
    "bigscience/bloom-7b1": 7_069_016_064,
    "deepseek-ai/deepseek-llm-7b-base": 6_910_365_696,
    "google/gemma-2-2b": 2_614_341_888,
    "google/gemma-3-1b-pt": 999_885_952,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/phi-4": 14_659_507_200,
    "mistralai/Mamba-Codestral-7B-v0.1": 7_285_403_648,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "state-spaces/mamba-130m-hf": 129_135_360,
    "state-spaces/mamba-2.8b-hf": 2_768_345_600,
    "tiiuae/falcon-mamba-7b": 7_272_665_088,
}
"""Weights of checkpoints as their pages on the hub show them."""
STACKS = {"openai/clip-vit-base-patch32": 151_277_313, "google-t5/t5-small": 60_506_624}
"""Weights of both stacks of a model of which the table has one."""
FORMULA = {"d_embed": "d_model", "norm_place": "pre", "n_positions": 0}


@pytest.fixture(scope="module")
def candidates() -> pd.DataFrame:
    return store.load("candidates").set_index("model_id", drop=False).rename_axis(None)


def test_facts_are_those_of_the_table_of_models_where_both_know_a_model(
    candidates: pd.DataFrame,
) -> None:
    models = store.load("models")
    models = models[models["revision"] == "main"].set_index("model_id")
    both = models.index.intersection(candidates.index)
    assert len(both) >= 50
    for label in LIKE_MODELS:
        pd.testing.assert_series_equal(
            candidates.loc[both, label],
            models.loc[both, label],
            check_names=False,
            check_exact=True,
        )


def test_descent_is_that_of_the_table_of_descent_where_both_know_a_model(
    candidates: pd.DataFrame,
) -> None:
    lineage = store.load("lineage")
    lineage = lineage[lineage["model_id"].isin(candidates.index)]
    assert len(lineage) >= 60 and lineage["model_id"].is_unique
    known = candidates.loc[lineage["model_id"]].reset_index(drop=True)
    for label in ("parent", "kind"):
        assert known[label].tolist() == lineage[label].tolist()
    for label in ("heritage", "family"):
        assert all(
            lineage[label].isin(["", None]) | (lineage[label].to_numpy() == known[label].to_numpy())
        )


def test_weights_are_those_that_the_formula_of_their_architecture_gives(
    candidates: pd.DataFrame,
) -> None:
    """Counted in the class that transformers builds; the formula of `count_parameters` knows no
    class."""
    rotary = set(WEIGHTS) - {
        "gpt2",
        "gpt_neo",
        "opt",
    }  # these have a table of positions, whose size is no column
    rows = candidates[
        candidates["architecture"].isin(rotary)
        & ~candidates["model_id"].str.contains("falcon-(?:40|180)")
    ]
    assert len(rows) > 200
    for row in rows.to_dict("records"):
        stated = {**row, **FORMULA, "d_embed": row["d_model"]}
        stated["norm_place"] = "sandwich" if row["architecture"] == "gemma2" else "pre"
        assert count_parameters(stated) == (row["n_params"], row["n_params_nonembedding"]), row[
            "model_id"
        ]


def test_weights_are_those_of_the_checkpoints(candidates: pd.DataFrame) -> None:
    assert candidates.loc[list(CHECKPOINTS), "n_params"].to_dict() == CHECKPOINTS
    whole = candidates.loc[list(STACKS), "download_gb"] * 1e9 / 2
    assert whole.round().astype(int).to_dict() == STACKS


def test_matrices_of_blocks_are_those_that_another_project_counted(
    candidates: pd.DataFrame,
) -> None:
    """It counts 4 H d d_h for attention, whatever the key/value heads, and the feed-forward layer
    of each expert."""
    counted = pd.read_csv(DECLARED / "model_table.csv", index_col="model_id")
    rows = candidates.loc[counted.index].astype({"d_ff": float, "n_layers": float})
    matrices = rows["gated_mlp"].map({True: 3, False: 2}).astype(int)
    experts = 1 + 7 * (rows["architecture"] == "mixtral")
    attention = 4 * rows["n_heads"] * rows["d_model"] * rows["d_head"]
    per_block = attention + experts * matrices * rows["d_model"] * rows["d_ff"]
    routers = 8 * rows["d_model"] * (rows["architecture"] == "mixtral")
    difference = rows["n_layers"] * (per_block + routers) - counted["matrices"]
    assert len(counted) > 150 and difference[difference != 0].to_dict() == {}


def test_a_download_is_two_bytes_a_weight_or_more_where_there_are_several_stacks(
    candidates: pd.DataFrame,
) -> None:
    bytes_ = candidates["download_gb"] * 1e9
    more = bytes_ > 2 * candidates["n_params"].astype(float) * (1 + 1e-9)
    assert (bytes_ >= 2 * candidates["n_params"].astype(float) * (1 - 1e-9)).all()
    assert set(candidates.loc[more, "architecture"]) == {
        "t5",
        "gemma3",
        "clip_vision_model",
        "siglip_vision_model",
    }


def test_labs_and_families_are_spelt_as_in_the_tables(candidates: pd.DataFrame) -> None:
    models = store.load("models")
    spelt = {strip_lab(lab): lab for lab in models["heritage"] if lab}
    labs = set(candidates["heritage"])
    assert (
        {spelt.get(strip_lab(lab), lab) for lab in labs}
        == labs
        == {lab.strip() for lab in labs} - {""}
    )
    assert len({strip_lab(lab) for lab in labs}) == len(labs)
    assert find_grouped_misspelt(candidates, models, "family", "heritage") == {}
    assert find_grouped_misspelt(candidates, models, "model_id") == {}


def test_a_tuned_model_has_its_parents_blocks(candidates: pd.DataFrame) -> None:
    tuned = candidates[
        candidates["kind"].isin(["tuned", "continued"])
        & candidates["parent"].isin(candidates.index)
    ]
    other = tuned.loc[
        ~tuned["model_id"].isin(["tiiuae/Falcon3-10B-Base", "01-ai/Yi-9B"])  # both got more blocks
    ]
    shape = [
        "modality",
        "architecture",
        "n_layers",
        "d_model",
        "n_heads",
        "n_kv_heads",
        "d_head",
        "d_ff",
    ]
    theirs = candidates.loc[other["parent"], shape].set_index(other.index)
    pd.testing.assert_frame_equal(other[shape], theirs)
    assert (
        len(other) > 150
        and (tuned.loc[~tuned.index.isin(other.index), "kind"] == "continued").all()
    )
    seeds = candidates[candidates["seed_of"] != ""]
    pd.testing.assert_frame_equal(
        seeds[shape], candidates.loc[seeds["seed_of"], shape].set_index(seeds.index)
    )


def test_every_row_says_where_its_shape_comes_from(candidates: pd.DataFrame) -> None:
    named = (
        r"arXiv|doi |github\.com|transformers \d|mlc-llm|litgpt|table models of this "
        r"package|[A-Z][\w .]+ 20\d\d, "
    )
    assert candidates["source"].str.contains(named).all()
    pairs = candidates[
        (candidates["kind"] == "tuned") & candidates["parent"].isin(candidates.index)
    ]
    sizes = candidates.groupby("modality").size()
    assert (
        set(sizes.index) == {"decoder", "encoder", "vision"}
        and (candidates["n_heads"] == 0).sum() >= 5
    )
    assert len(pairs) > 100 and candidates["heritage"].nunique() > 40


@pytest.fixture(scope="module")
def script() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    sys.path.insert(0, str(ROOT / "scripts"))
    import list_candidates

    return list_candidates


SAMPLE = (
    *(
        "EleutherAI/pythia-14m",
        "Qwen/Qwen2.5-0.5B",
        "Qwen/Qwen3-0.6B",
        "HuggingFaceTB/SmolLM2-135M",
        "google/gemma-2-2b",
    ),
    *(
        "facebook/opt-350m",
        "bigscience/bloom-560m",
        "tiiuae/falcon-7b",
        "microsoft/phi-1_5",
        "bigcode/starcoder2-3b",
    ),
    *(
        "google-bert/bert-base-uncased",
        "facebook/dinov2-small",
        "state-spaces/mamba-130m-hf",
        "google-t5/t5-small",
    ),
    *(
        "openai/clip-vit-base-patch32",
        "microsoft/swin-tiny-patch4-window7-224",
        "facebook/esm2_t6_8M_UR50D",
    ),
)
ATTENDING = SAMPLE[:5] + SAMPLE[6:10]
"""Of these `predict_gain` takes a configuration: pre-norm decoders that attend."""


def test_what_the_declared_tables_give_is_what_is_committed(
    script: Any, candidates: pd.DataFrame
) -> None:
    shapes = script.read_shapes().set_index("model_id")
    assert set(shapes.index) == set(candidates.index)
    for model in SAMPLE:
        facts = script.describe_model(
            shapes.loc[model, "architecture"], shapes.loc[model, "configuration"]
        )
        for label in set(facts) & set(candidates.columns):
            assert candidates.loc[model, label] == facts[label], (model, label)
        assert candidates.loc[model, "source"] == shapes.loc[model, "source"]


@pytest.mark.slow
def test_the_script_gives_the_committed_bytes(script: Any) -> None:
    made = store.encode_csv(script.list_candidates(), "candidates")
    assert made == script.PLACE.read_bytes()


@pytest.mark.parametrize("model", ATTENDING)
def test_facts_are_those_that_a_prediction_reads(
    model: str, script: Any, candidates: pd.DataFrame, tmp_path: Path
) -> None:
    from thermostats.measurement.empty_models import read_config_facts

    shape = script.read_shapes().set_index("model_id").loc[model]
    config = script.transformers.AutoConfig.for_model(
        shape["architecture"], **shape["configuration"]
    )
    config.save_pretrained(tmp_path)
    row = candidates.loc[model]
    assert read_config_facts(tmp_path) == {
        name: row[name] for name in ("n_layers", "n_heads", "d_head", "n_params")
    }


@pytest.mark.parametrize(
    ("table", "old", "new", "what"),
    [
        (
            "families.csv",
            "state-spaces/mamba-,",
            "state-spaces/mambo-,",
            "families.csv has no family for a model",
        ),
        ("classes.csv", "BSC-LT/,", "BSC-XX/,", "classes.csv has no class for a model of litgpt"),
        (
            "descents.csv",
            "LLM360/AmberChat,",
            "LLM360/Unheard,",
            "descents.csv names a model that is no candidate",
        ),
        ("stated.csv", "01-ai/Yi-6B,", "01-ai/Yi-34B,", "a model is declared twice"),
    ],
)
def test_declared_tables_that_do_not_fit_together_are_refused(
    table: str, old: str, new: str, what: str, script: Any, candidates: pd.DataFrame, tmp_path: Path,  # noqa: E501
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for path in DECLARED.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        assert path.name != table or old in text
        (tmp_path / path.name).write_text(
            text.replace(old, new) if path.name == table else text, encoding="utf-8"
        )
    monkeypatch.setattr(script, "DECLARED", tmp_path)
    with pytest.raises(DataError, match=what):
        script.name_origin(
            script.read_shapes().merge(
                candidates[["modality"]], left_on="model_id", right_index=True
            )
        )


def test_a_shape_that_does_not_give_the_weights_stated_is_refused(script: Any) -> None:
    row = {"model_id": "a/b", "download_gb": 2.0, "source": "a page"}
    script.check_stated(row, "")
    script.check_stated(row, "1050")
    with pytest.raises(DataError, match="does not give the weights stated") as caught:
        script.check_stated(row, "1500")
    assert "1000 million" in caught.value.got and "1500 million, by a page" in caught.value.allowed


def test_another_version_of_transformers_is_refused(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script.transformers, "__version__", "4.0.0")
    with pytest.raises(DataError, match="another version of transformers"):
        script.list_candidates()


def test_another_package_than_the_declared_one_is_refused(tmp_path: Path) -> None:
    sys.path.insert(0, str(DECLARED))
    import read_litgpt

    (tmp_path / "litgpt.whl").write_bytes(b"another")
    with pytest.raises(DataError, match="another file than the declared one"):
        read_litgpt.read_configurations(tmp_path / "litgpt.whl")


def test_shapes_of_litgpt_are_read_as_they_are_named() -> None:
    sys.path.insert(0, str(DECLARED))
    import read_litgpt

    class Config:
        def __init__(self, **values: Any) -> None:
            self.__dict__ |= dict.fromkeys(read_litgpt.SHAPE.values(), 7) | values

    place = {"hf_config": {"org": "a", "name": "b"}, "n_layer": 3}
    module = type(
        "Module", (), {"configs": [place, json.loads(json.dumps(place))], "Config": Config}
    )
    (row,) = read_litgpt.read_shapes(module).to_dict("records")
    assert row["model_id"] == "a/b" and row["n_layers"] == 3 and row["d_ff"] == 7
