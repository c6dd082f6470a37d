"""Differences between sources on hand-made rows."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from thermostats.tables.model_rows import (
    count_labs,
    count_models,
    count_set,
    list_gain_pairs,
    profile_pairs,
    summarise_profiles,
)
from thermostats.tables.schemas import GAINS

PUBLISHED = {"a.json", "b.json"}


def features(*rows: tuple[str, str, float]) -> pd.DataFrame:
    """Model, source and penultimate gain."""
    frame = pd.DataFrame(rows, columns=["model_id", "source", "penultimate_gain"])
    for gain in GAINS:
        frame[gain] = frame["penultimate_gain"] if gain == "penultimate_gain" else math.nan
        frame[f"{gain}_n"] = 1
    frame = frame.assign(prompt_set="p", dtype="float32", run_id=frame["source"], comparable=True)
    return frame.assign(heritage=frame["model_id"].str[0])


def test_pairs_are_of_two_sources_and_the_files_of_a_study_are_one() -> None:
    pairs = list_gain_pairs(
        features(("m", "a.json", 1.0), ("m", "b.json", 2.0), ("m", "other", 4.0)), PUBLISHED
    )
    assert pairs["first"].tolist() == ["other", "other"] and pairs["second"].tolist() == [
        "a.json",
        "b.json",
    ]
    assert pairs["log_ratio"].tolist() == pytest.approx([math.log(1 / 4), math.log(2 / 4)])
    assert list_gain_pairs(features(("m", "a.json", 1.0), ("m", "b.json", 2.0)), PUBLISHED).empty


def lines(**gains: list[float]) -> tuple[pd.DataFrame, pd.DataFrame]:
    layers = [
        {"run_id": source, "layer": layer, "position": "last", "gain_block": gain}
        for source, values in gains.items()
        for layer, gain in enumerate(values, 1)
    ]
    runs = [
        {"run_id": name, "model_id": "m", "source": name, "prompt_set": "p", "dtype": "float32"}
        for name in gains
    ]
    return pd.DataFrame(layers), pd.DataFrame(runs)


def test_profiles_are_compared_over_the_inner_blocks_that_both_have() -> None:
    first, second = [9.0, 1.0, 2.0, 4.0], [1.0, 1.1, 2.2, 4.4, 7.0]
    (row,) = profile_pairs(summarise_profiles(*lines(x=first, y=second), PUBLISHED)).to_dict(
        "records"
    )
    assert row["blocks"] == 3 and row["r"] == pytest.approx(1.0)
    assert row["mean_d"] == pytest.approx(math.log(1.1)) and row["sd_d"] == pytest.approx(
        0.0, abs=1e-12
    )
    assert row["largest_d"] == pytest.approx(math.log(1.1))


def test_models_of_no_known_lab_are_of_none() -> None:
    rows = features(("am", "a.json", 1.0), ("bm", "a.json", 1.0))
    assert count_labs(rows) == rows["heritage"].nunique() > 0
    assert count_labs(rows.assign(heritage="")) == 0
    assert count_set("own", rows.assign(heritage=""))["labs"] == 0


def test_sets_are_counted_by_model_and_lab() -> None:
    rows = features(
        ("am", "a.json", 1.0),
        ("an", "other", 2.0),
        ("bm", "other", math.nan),
        ("cm", "thermostats", 1.0),
    )
    rows.loc[rows["model_id"] == "an", "comparable"] = False
    runs = rows.assign(measure_version=rows["source"].map({"other": "external"}).fillna("1"))
    by_set = count_models(rows, runs, PUBLISHED).set_index("evidence")
    assert by_set.loc["published", ["models", "labs"]].tolist() == [1, 1]
    others = [
        "models",
        "labs",
        "comparable_models",
        "comparable_labs",
        "last_token_models",
        "last_token_labs",
    ]
    assert by_set.loc["external", others].tolist() == [2, 2, 1, 1, 1, 1]
    assert by_set.loc["pooled", others].tolist() == [4, 3, 3, 3, 3, 2]
    assert by_set.loc["measured", "models"] == 1
