"""One row per model: which models, what is left out by name; the same from a set's name and from
its tables."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import layer, model, run, table

import thermostats
from thermostats.errors import UsageError
from thermostats.tables.join import join
from thermostats.tables.model_rows import LEFT_OUT, find_disagreements, model_rows


def measured(model_id: str, gain: float, **fields: object) -> list[pd.DataFrame]:
    """A model of three blocks whose penultimate gain is known on two prompts, 10% to either
    side."""
    theirs = run(model_id, **fields)
    rows = [
        layer(theirs, number, gain * way, name)
        for number in (1, 2, 3)
        for name, way in (("a", 1 / 1.1), ("b", 1.1))
    ]
    return [table("runs", theirs), table("layers", *rows)]


@pytest.fixture
def models(small_store: Path) -> Path:
    """A base model, one that norms after the sum, one tuned from the first, and one of two
    blocks."""
    rows = [
        model("lab/base"),
        {**model("lab/post"), "architecture": "mine", "norm_place": "post"},
        {**model("lab/tuned"), "variant": "instruct", "parent": "lab/base"},
        model("lab/flat", n_layers=2),
    ]
    gains = [part for row in rows[:3] for part in measured(str(row["model_id"]), 1.25)]
    join([table("models", *rows), *gains], data=small_store, accept=True)
    return small_store


def test_models_that_can_be_compared_once_each_and_the_others_by_name(models: Path) -> None:
    rows = model_rows("measured", data=models)
    assert rows["model_id"].tolist() == ["lab/base", "lab/small"]
    assert rows.attrs[LEFT_OUT] == ("left out, since normalised after the sum: lab/post",)
    mean = 1.25 * (1 / 1.1 + 1.1) / 2
    assert rows["gain"].tolist() == [pytest.approx(mean), pytest.approx(1.5)]
    spread = (
        1.25 * (1.1 - 1 / 1.1) / np.sqrt(2)
    )  # standard deviation of two values, over √2 the error of their mean
    assert rows["upper"][0] - rows["gain"][0] == pytest.approx(
        12.7062 * spread / np.sqrt(2), rel=1e-5
    )
    with_all = model_rows("measured", data=models, incomparable=True)
    assert with_all["model_id"].tolist() == ["lab/base", "lab/post", "lab/small"]
    assert not with_all.attrs.get(LEFT_OUT)


def test_two_measurements_of_one_model_are_one_row(models: Path) -> None:
    join(measured("lab/base", 1.35, source="others"), data=models, accept=True)
    rows = model_rows("pooled", data=models).set_index("model_id")
    assert rows.index.is_unique
    low, high = (gain * (1 / 1.1 + 1.1) / 2 for gain in (1.25, 1.35))
    assert rows.loc["lab/base", "gain"] == pytest.approx(
        np.sqrt(low * high)
    )  # equal errors: the geometric mean


def test_a_gain_that_is_not_above_0_is_left_out_by_name_without_a_warning(models: Path) -> None:
    stated = {
        "model_id": "lab/flat",
        "source": "x",
        "prompt_id": "",
        "estimand": "penultimate_gain",
        "value": [-1.0],
    }
    deep = {**stated, "model_id": "lab/base"}
    for each in (stated, deep):
        join(each, table="summaries", data=models, accept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_disagreements(thermostats.features(models)) == []
        rows = model_rows("measured", data=models)
    assert "lab/base" in set(rows["model_id"])  # by its other measurement


def test_sets_and_gains_that_do_not_exist(models: Path) -> None:
    with pytest.raises(UsageError, match="no such set of evidence"):
        model_rows("pool", data=models)
    with pytest.raises(UsageError, match=r"no such gain.*did you mean penultimate_gain"):
        model_rows("pooled", "penultimat_gain", data=models)


def test_features_that_can_be_compared(models: Path) -> None:
    every, comparable = thermostats.features(models), thermostats.features(models, comparable=True)
    assert set(every["model_id"]) - set(comparable["model_id"]) == {"lab/post"}
