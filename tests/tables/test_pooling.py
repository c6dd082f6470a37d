"""All measurements of a model in one estimate: variances of simulated levels are found, estimates
weigh by them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from thermostats.tables.model_rows import (
    LEVELS,
    combine_measurements,
    estimate_variances,
    find_disagreements,
)

TRUE = {"run": 0.02, "source": 0.10, "prompt_set": 0.05, "dtype": 0.01}


def measured(models: int, seed: int, error: float = 0.01) -> tuple[pd.DataFrame, pd.Series]:
    """Every model by two sources, two prompt sets and two precisions; the true means."""
    rng = np.random.default_rng(seed)
    truth = pd.Series(rng.normal(0, 0.3, models), index=[f"m{k}" for k in range(models)])
    rows = []
    for model, mean in truth.items():
        level = {name: rng.normal(0, TRUE[name], 2) for name in LEVELS}
        for place in np.ndindex(2, 2, 2):
            shifts = sum(level[name][at] for name, at in zip(LEVELS, place, strict=True))
            y = mean + shifts + rng.normal(0, TRUE["run"]) + rng.normal(0, error)
            rows.append(
                (model, *(f"{name}{at}" for name, at in zip(LEVELS, place, strict=True)), y, error)
            )
    return pd.DataFrame(rows, columns=["model_id", *LEVELS, "y", "e"]), truth


def test_variances_of_levels_are_found() -> None:
    estimates = estimate_variances(measured(400, 1)[0])
    for name, sd in TRUE.items():
        assert estimates[name] ** 0.5 == pytest.approx(sd, abs=0.012), name


def test_estimates_cover_the_truth_as_often_as_their_errors_say() -> None:
    rows, truth = measured(400, 2)
    estimates = combine_measurements(rows)
    z = (estimates["y"] - truth) / estimates["e"]
    assert 0.9 < z.std() < 1.1 and abs(z.mean()) < 0.15
    assert (estimates["measurements"] == 8).all()


def test_an_instrument_more_counts_for_more_than_a_run_more() -> None:
    rows, _ = measured(200, 3)
    single = rows[rows["source"] == "source0"]
    both = rows[(rows["prompt_set"] == "prompt_set0") & (rows["dtype"] == "dtype0")]
    by_model = pd.concat(
        [
            single.assign(model_id=single["model_id"] + " one"),
            both,
            rows.assign(model_id=rows["model_id"] + " all"),
        ]
    )
    error = combine_measurements(by_model)["e"]
    assert error["m0"] < error["m0 one"]


def test_measurements_of_one_model_that_disagree_are_named() -> None:
    rows = pd.DataFrame(
        {
            "model_id": ["a", "a", "b", "b", "c", "c"],  # c: as far apart as a, within three errors
            "revision": "main",
            "source": ["x", "y"] * 3,
            "penultimate_gain": [1.0, 1.2, 1.0, 1.005, 1.0, 1.2],
            "penultimate_gain_sd": [0.05] * 4 + [0.5] * 2,
            "penultimate_gain_n": 25,
        }
    )
    assert find_disagreements(rows) == ["a: penultimate_gain 1 by x, 1.2 by y (+20%)"]


def test_a_single_measurement_stays_as_it_is() -> None:
    rows = pd.DataFrame(
        {
            "model_id": ["a"],
            "source": ["s"],
            "prompt_set": ["p"],
            "dtype": ["d"],
            "y": [0.2],
            "e": [0.03],
        }
    )
    estimates = combine_measurements(rows)
    assert estimates.loc["a", "y"] == pytest.approx(0.2) and estimates.loc[
        "a", "e"
    ] == pytest.approx(0.03, rel=1e-6)
    assert set(estimate_variances(rows).values()) == {0.0}


def test_measurements_of_no_known_error_count_alike() -> None:
    rows = pd.DataFrame(
        {
            "model_id": "a",
            "source": ["s", "s"],
            "prompt_set": "p",
            "dtype": "d",
            "y": [0.1, 0.3],
            "e": 0.0,
        }
    )
    assert combine_measurements(rows).loc["a", "y"] == pytest.approx(0.2)
