"""Correlations of ranks inside cells: by hand, their intervals in simulated studies, and when signs
say nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims.result import AGAINST, OPEN, SUPPORTED
from thermostats.errors import UsageError
from thermostats.studies.nursery.training_choices import (
    CORPUS_RANKS,
    SETTLES,
    TABLE_OF_CORPORA,
    R,
    measure_cell_correlation,
    measure_kappa,
)


def test_correlation_inside_cells_is_that_of_ranks_off_their_cells():
    rng = np.random.default_rng(1)
    cells, groups = pd.Series(np.repeat(list("abcdefgh"), 5)), pd.Series(np.tile(np.arange(5), 8))
    x = pd.Series(rng.normal(size=40)) + cells.map({c: 9.0 * i for i, c in enumerate("abcdefgh")})
    y = pd.Series(rng.normal(size=40)) + 0.8 * (x - x.groupby(cells).transform("mean")) - x
    found = measure_cell_correlation(x, y, cells, groups)
    ranks = pd.DataFrame({"x": x.rank(), "y": y.rank()})

    def z(kept: pd.Series) -> float:
        off = ranks[kept] - ranks[kept].groupby(cells[kept]).transform("mean")
        return np.arctanh(np.corrcoef(off["x"], off["y"])[0, 1])

    whole, left = z(groups >= 0), np.array([z(groups != group) for group in range(5)])
    half = stats.t.ppf(0.975, 4) * np.sqrt(4 / 5 * np.square(left - left.mean()).sum())
    assert [found.estimate, found.lower, found.upper] == pytest.approx(
        np.tanh([whole, whole - half, whole + half])
    )
    signs = pd.DataFrame({"a": [True] * 62 + [False] * 2, "b": [True] * 61 + [False, True, True]})
    assert measure_kappa(
        signs["a"], signs["b"], pd.Series(np.arange(64) % 16)
    ).value == pytest.approx(-0.0213, abs=1e-3)
    with pytest.raises(UsageError, match="nothing to correlate"):
        measure_cell_correlation(x * 0, y, cells, groups)


def test_the_interval_inside_cells_covers_where_models_of_a_recipe_are_alike():
    rng, inside = np.random.default_rng(2), 0
    recipes, cells = (
        pd.Series(which.ravel())
        for which in np.meshgrid(np.arange(24), np.arange(8), indexing="ij")
    )
    for _ in range(300):
        x, y = (
            pd.Series((rng.normal(size=(24, 1)) + 0.5 * rng.normal(size=(24, 8))).ravel())
            for _ in range(2)
        )
        found = measure_cell_correlation(x, y, cells, recipes)
        inside += found.lower < 0 < found.upper
    assert stats.binomtest(inside, 300, 0.95).pvalue > 0.001


def test_signs_say_nothing_where_nearly_all_models_end_on_one_side() -> None:
    rng = np.random.default_rng(3)
    end = rng.normal(size=240)
    recipe = np.tile(np.arange(24), 10)
    rows = pd.DataFrame(
        {"early": end + 0.01 * rng.normal(size=240), "end": end, "cell": np.arange(240) // 24}
    )
    rows = rows.assign(
        recipe=recipe,
        model_id=np.arange(240).astype(str),
        heritage=recipe.astype(str),
        trained_on="a",
    )
    assert SETTLES.verdict(CORPUS_RANKS(rows)) == SUPPORTED
    assert SETTLES.verdict(CORPUS_RANKS(rows.assign(early=rows["early"] + 9, end=end + 9))) == OPEN


def test_every_corpus_is_asked_by_itself() -> None:
    """One corpus that goes with the end at 1 and one that does not are no mean of .5: the second
    refutes it."""
    rng = np.random.default_rng(4)
    end, recipe = rng.normal(size=480), np.tile(np.arange(24), 20)
    corpus = np.repeat(["a", "b"], 240)
    early = np.where(corpus == "a", end, rng.normal(size=480))
    rows = pd.DataFrame(
        {
            "early": early,
            "end": end,
            "cell": np.arange(480) // 24,
            "recipe": recipe,
            "trained_on": corpus,
        }
    )
    result = CORPUS_RANKS(
        rows.assign(model_id=np.arange(480).astype(str), heritage=recipe.astype(str))
    )
    alone = [
        stats.spearmanr(*(part[["early", "end"]].to_numpy().T)).statistic
        for _, part in rows.groupby("trained_on")
    ]
    assert result.rows[TABLE_OF_CORPORA][R.name].to_numpy() == pytest.approx(alone, abs=0.08)
    assert SETTLES.verdict(result) == AGAINST
    assert (
        SETTLES.verdict(
            CORPUS_RANKS(rows[rows["trained_on"] == "a"].assign(model_id="m", heritage="r"))
        )
        == SUPPORTED
    )
