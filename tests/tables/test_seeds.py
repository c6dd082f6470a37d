"""Seeds of one model: their variance is found, they count once, and what they leave to causes is
said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables
from scipy import stats

from thermostats.tables.model_rows import measure_seed_noise, merge_seeds, model_rows
from thermostats.tables.schemas import GAINS, NURSERY

SEED_SD, CAUSES = 0.03, 0.10


def simulated(recipes: int, seeds: int, seed: int = 1) -> pd.DataFrame:
    """Models of as many seeds each; the first is named by the others, as a measurement of one's own
    would be."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0, CAUSES, (recipes, 1)) + rng.normal(0, SEED_SD, (recipes, seeds))
    rows = [
        (f"m{i}-{j}", f"m{i}-0" * (j > 0), np.exp(y[i, j]))
        for i in range(recipes)
        for j in range(seeds)
    ]
    table = pd.DataFrame(rows, columns=["model_id", "seed_of", "penultimate_gain"])
    return table.assign(**dict.fromkeys(GAINS, table["penultimate_gain"]))


def test_the_noise_and_its_ceiling_are_those_of_the_simulation() -> None:
    noise = measure_seed_noise(simulated(400, 4), "penultimate_gain")
    assert noise is not None and noise.df == 1200
    assert noise.sd == pytest.approx(SEED_SD, rel=0.05)
    assert noise.ceiling == pytest.approx(CAUSES**2 / (CAUSES**2 + SEED_SD**2), abs=0.02)


def test_the_noise_is_that_of_a_one_way_analysis_of_variance() -> None:
    rows = simulated(6, 3)
    noise = measure_seed_noise(rows, "penultimate_gain")
    groups = [
        np.log(group["penultimate_gain"]) for _, group in rows.groupby(rows["model_id"].str[:2])
    ]
    f = stats.f_oneway(*groups).statistic
    between = 3 * np.var([group.mean() for group in groups], ddof=1)
    assert noise is not None and noise.sd**2 == pytest.approx(between / f)
    assert noise.lower < noise.ceiling < noise.upper <= 1


def test_the_interval_covers() -> None:
    truth = CAUSES**2 / (CAUSES**2 + SEED_SD**2)
    noises = [measure_seed_noise(simulated(40, 2, seed), "penultimate_gain") for seed in range(200)]
    covered = np.mean(
        [noise is not None and noise.lower <= truth <= noise.upper for noise in noises]
    )
    assert covered > 0.92


def test_seeds_of_one_model_are_one_row() -> None:
    rows = simulated(5, 3)
    averaged = merge_seeds(rows)
    assert list(averaged["model_id"]) == [f"m{i}-0" for i in range(5)]
    means = np.log(rows["penultimate_gain"]).groupby(rows["model_id"].str[:2]).mean()
    assert np.log(averaged["penultimate_gain"]).tolist() == pytest.approx(means.tolist())


def test_the_controlled_study_has_sixteen_pairs_of_seeds() -> None:
    rows = model_rows(shipped_tables().named(NURSERY))
    repeats = (
        shipped_tables().named(NURSERY).table("models").loc[lambda models: models["seed_of"] != ""]
    )
    assert repeats["model_id"].nunique() == 16
    assert not set(rows["model_id"]) & set(repeats["model_id"])
