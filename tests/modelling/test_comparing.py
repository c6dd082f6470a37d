"""Fits compared by how well they predict: the columns of ArviZ, weights against a grid, and what is
refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.leave_out import LeftOut, compare_predictions, fit_stacking_weights


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    names = [f"m{i}" for i in range(40)]
    return pd.DataFrame(
        {"model_id": names, "x": x, "z": rng.normal(size=40), "y": 0.2 * x + rng.normal(0, 0.2, 40)}
    )


@pytest.fixture(scope="module")
def fits(table: pd.DataFrame) -> dict[str, Fit]:
    return {
        "mean": thermostats.fit_line(table, "y", group=None, seed=1),
        "slope": thermostats.fit_line(table, "y", "x", group=None, seed=1),
        "slope of noise": thermostats.fit_line(table, "y", "z", group=None, seed=1),
    }


def test_the_table_is_of_the_densities_of_outcomes_left_out(fits: dict[str, Fit]) -> None:
    result = thermostats.compare(fits)
    assert result.index.tolist()[0] == "slope" and result["rank"].tolist() == [0, 1, 2]
    density = {name: np.array(list(fit.loo().log_density.values())) for name, fit in fits.items()}
    for name, row in result.iterrows():
        below = density["slope"] - density[name]
        assert row["elpd"] == pytest.approx(density[name].sum())
        assert (row["elpd_diff"], row["dse"]) == pytest.approx(
            (below.sum(), below.std(ddof=1) * 40**0.5)
        )
        if name != "slope":
            assert (
                row["p_worse"] == pytest.approx(stats.norm.cdf(below.sum() / row["dse"]))
                and row["p_worse"] > 0.95
            )
    assert np.isnan(result["p_worse"].iloc[0]) and result["weight"].sum() == pytest.approx(1)
    assert result.loc["slope", "weight"] > 0.9


def test_arviz_finds_the_same_order_and_weight(fits: dict[str, Fit]) -> None:
    import arviz

    theirs = arviz.compare(
        {name: fit.to_arviz() for name, fit in fits.items() if name != "slope of noise"}
    )
    ours = thermostats.compare(
        {name: fit for name, fit in fits.items() if name != "slope of noise"}
    )
    assert (
        theirs.index.tolist() == ours.index.tolist()
        and theirs["rank"].tolist() == ours["rank"].tolist()
    )
    assert ours["weight"].to_numpy() == pytest.approx(theirs["weight"].to_numpy(), abs=0.05)
    assert ours["elpd_diff"].iloc[1] == pytest.approx(theirs["elpd_diff"].iloc[1], abs=1)


def test_weights_are_the_best_of_a_grid() -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(-1, 0.7, (30, 2))
    grid = np.linspace(0, 1, 20_001)
    first, second = np.exp(points).T
    best = grid[np.log(grid[:, None] * first + (1 - grid[:, None]) * second).sum(axis=1).argmax()]
    assert fit_stacking_weights(points)[0] == pytest.approx(best, abs=1e-3) and 0.05 < best < 0.95
    assert fit_stacking_weights(np.column_stack([points, points[:, 1] - 50]))[2] < 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda f: (f["mean"], f["slope"]), r"compared by name.*Next: thermostats.compare\(\{"),
        (lambda f: ({"a": f["mean"]},), "got 1 fit; allowed: two or more"),
        (lambda f: ({"a": f["mean"], "b": "other"},), "not a fit: got b: 'other'"),
        (lambda f: (f["mean"].rows,), "nothing to compare.*a dict of fits, or the folders"),
        (
            lambda f: ({"a": f["mean"], "b": f["mean"].exclude_rows(f["mean"].rows["x"] > 1)},),
            "same outcomes",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    fits: dict[str, Fit], arguments: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        thermostats.compare(*arguments(fits))


def test_outcomes_left_out_in_other_groups_are_refused() -> None:
    def left(folds: int) -> LeftOut:
        density = {str(i): 0.0 for i in range(folds)}
        return LeftOut(draws=np.zeros((1, 4)), pit=np.zeros(4), log_density=density, refits=0)

    with pytest.raises(UsageError, match="other outcomes were left out together"):
        compare_predictions({"a": left(2), "b": left(4)})
