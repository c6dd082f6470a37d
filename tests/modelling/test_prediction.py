"""Gains predicted before they are measured: the record against models whose gains are known, and
bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command

from thermostats.errors import DataError, UsageError
from thermostats.measurement.empty_models import read_config_facts
from thermostats.measurement.model_class import (
    UnknownArchitectureError,
    UnsupportedArchitectureError,
)
from thermostats.modelling.heritage import prediction
from thermostats.modelling.heritage.fit_heritage import HeldOut, fit_heritage, leave_one_out
from thermostats.modelling.heritage.prediction import TrackRecord, predict_gain
from thermostats.modelling.model_gains import gain_rows

STORIES = Path(__file__).parents[3] / "shared" / "models" / "stories260k"
FACTS = {"n_layers": 24, "n_heads": 16, "d_head": 64, "n_params": 4e8}


def made_up(per_lab: int = 4) -> pd.DataFrame:
    """Eight labs, every third of which lies far below 1, with shapes that say nothing."""
    rng = np.random.default_rng(5)
    n = 8 * per_lab
    lab = np.repeat(np.arange(8), per_lab)
    log_gain = np.where(lab % 3 == 0, -0.3, 0.3) + 0.05 * rng.standard_normal(n)
    shape = {name: rng.integers(8, 64, n) for name in ("n_layers", "n_heads", "d_head")}
    facts = {
        "model_id": [f"m{i}" for i in range(n)],
        "heritage": [f"lab {k}" for k in lab],
        "n_params": 1e6 * (1 + lab),
    }
    return pd.DataFrame(
        {**facts, **shape, "n_params": rng.integers(10**6, 10**9, n), "gain": np.exp(log_gain)}
    )


def test_labs_with_sides_of_their_own_are_predicted_once_they_are_known() -> None:
    fit = fit_heritage(made_up(), se=0.01, seed=1)
    known, new = (
        TrackRecord.build(leave_one_out(fit, by=by), fit.level) for by in ("model", "heritage")
    )
    assert (known.lab, known.models, known.right, known.majority, known.side) == (
        "known",
        32,
        32,
        20,
        "above 1",
    )
    assert (new.lab, new.models, new.majority) == ("new", 32, 20) and new.right <= 20
    assert not known.worthless and new.worthless
    assert "worthless" in new.sentence() and "worthless" not in known.sentence()
    assert known.error == pytest.approx(0.05, abs=0.05) and new.error > 0.2


def test_a_record_counts_sides_by_hand() -> None:
    rows = pd.DataFrame({"observed": [-0.1, 0.2, -0.3, -0.4], "predicted": [-1.0, -1.0, -1.0, 1.0]})
    none = dict.fromkeys(
        ("rmse_baseline", "rmse_lab_mean", "rmse_rival", "elpd", "elpd_difference"), 0.0
    )
    left = HeldOut(
        left_out="heritage",
        predictions=rows,
        rmse=0.5,
        coverage=0.75,
        elpd_difference_error=0.0,
        **none,
    )
    record = TrackRecord.build(left, 0.9)
    assert (record.right, record.majority, record.side, record.worthless) == (2, 3, "below 1", True)
    assert (
        "factor of 1.65" in record.sentence()
        and "75% of gains lay inside their 90%" in record.sentence()
    )


@pytest.fixture(scope="module")
def fitted_once() -> Iterator[None]:
    """Calls on the shipped rows share their fit and what is left out of it."""
    fit = prediction.fit_heritage(gain_rows("penultimate_gain"), estimand="penultimate_gain")
    left = cache(lambda by: leave_one_out(fit, by=by))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prediction, "fit_heritage", lambda *_, **__: fit)
        patch.setattr(prediction, "leave_one_out", lambda _, by: left(by))
        yield


@pytest.fixture(scope="module")
def shipped(fitted_once: None) -> prediction.Prediction:
    return predict_gain(FACTS, lab="EleutherAI", family="pythia")


def test_a_known_lab_has_the_columns_and_numbers_of_the_fit(shipped: prediction.Prediction) -> None:
    row = shipped.table.iloc[0]
    assert shipped.lab_at_hand and 0 <= row["P(penultimate_gain < 1)"] <= 1
    assert (
        row["penultimate_gain_lower"]
        < row["penultimate_gain_median"]
        < row["penultimate_gain_upper"]
    )
    assert shipped.record is shipped.records[0] and shipped.record.models > 20
    assert f"{shipped.record.right} were predicted" in shipped.sentences()[-1]


def test_no_weights_are_needed(tmp_path: Path) -> None:
    """A Llama in small, counted by hand: 2·10·8 (tied once: 10·8), blocks of 4·8·8 + 3·8·16 + 2·8,
    a norm of 8."""
    stated = {
        "model_type": "llama",
        "num_hidden_layers": 3,
        "hidden_size": 8,
        "num_attention_heads": 2,
    }
    stated |= {
        "num_key_value_heads": 2,
        "intermediate_size": 16,
        "vocab_size": 10,
        "tie_word_embeddings": True,
    }
    for name in ("config.json", "my-run.json"):
        path = tmp_path / name
        path.write_text(
            json.dumps({**stated, "architectures": ["LlamaForCausalLM"]}), encoding="utf-8"
        )
        facts = read_config_facts(path)
        assert facts == {
            "n_layers": 3,
            "n_heads": 2,
            "d_head": 4,
            "n_params": 80 + 3 * (256 + 384 + 16) + 8,
        }
    assert read_config_facts(tmp_path) == facts


def test_what_a_configuration_leaves_out_is_what_transformers_fills_in(tmp_path: Path) -> None:
    """GPT-2's own width and heads, of which the file says nothing: 768 in 12 heads."""
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2", "n_layer": 2}', encoding="utf-8")
    facts = read_config_facts(path)
    weights = 50_257 * 768 + 1_024 * 768 + 2 * (12 * 768**2 + 13 * 768) + 2 * 768
    assert facts == {"n_layers": 2, "n_heads": 12, "d_head": 64, "n_params": weights}


@pytest.mark.skipif(not STORIES.is_dir(), reason="no ../shared/models")
def test_a_real_model_has_the_number_of_weights_that_it_has(tmp_path: Path) -> None:
    shutil.copy(STORIES / "config.json", tmp_path)
    assert read_config_facts(tmp_path) == {
        "n_layers": 5,
        "n_heads": 8,
        "d_head": 8,
        "n_params": 260_032,
    }


@pytest.mark.parametrize(
    ("config", "error", "what"),
    [
        ('{"model_type": "no_such_class"}', UnknownArchitectureError, "unknown architecture"),
        ('{"model_type": "rwkv"}', UnsupportedArchitectureError, "not measured"),
        ('{"model_type": "bert"}', UsageError, "not compared with those of others"),
        ("[1]", DataError, "not an object"),
    ],
)
def test_a_configuration_that_cannot_be_predicted_is_refused(
    config: str, error: type[Exception], what: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises(error, match=what):
        predict_gain(tmp_path / "config.json", lab="EleutherAI")


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"n_layers": 3}, "no n_heads, d_head, n_params"),
        ({**FACTS, "d_head": -1}, "d_head is no number"),
    ],
)
def test_facts_that_are_missing_or_wrong_are_named(facts: dict[str, float], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        predict_gain(facts)


@pytest.mark.parametrize("name", ["n_layers", "n_heads", "d_head"])
@pytest.mark.parametrize("value", [True, 24.5, "24", None, float("nan")])
def test_facts_are_whole_numbers(name: str, value: Any) -> None:
    facts = {"n_layers": 24, "n_heads": 16, "d_head": 64, "n_params": 4e8, name: value}
    with pytest.raises(UsageError, match=name):
        predict_gain(facts)


@pytest.mark.parametrize("name", ["lab", "family"])
@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 3])
def test_a_label_that_is_missing_is_asked_about(name: str, value: Any) -> None:
    facts = {"n_layers": 24, "n_heads": 16, "d_head": 64, "n_params": 4e8}
    with pytest.raises(UsageError, match=f"no {name}.*leave it out"):
        predict_gain(facts, **{name: value})


def test_the_command_says_what_a_new_lab_comes_to(shipped: prediction.Prediction) -> None:
    asked = ["predict", "--layers", "24", "--heads", "16", "--head-width", "64", "--params", "4e8"]
    done = command(*asked, "--lab", "Nobody", "--json")
    said = json.loads(done.stdout)
    assert said["prediction"]["new"] == "lab Nobody"
    assert said["record"][0]["right"] == shipped.records[0].right
    assert [record["lab"] for record in said["record"]] == ["known", "new"]
    assert said["record"][1]["worthless"] == ("worthless" in said["sentences"][-1])
    assert "No model of Nobody has this gain; models are at hand of" in said["sentences"][1]
    done = command(*asked, "--lab", "eleuther ai")
    assert done.returncode == 2 and "--params 4e8 --lab EleutherAI" in done.stderr
    done = command("predict", "--layers", "24")
    assert done.returncode == 2 and "no --heads, --head-width, --params" in done.stderr
