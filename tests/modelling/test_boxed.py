"""A slope with nuisances in the test: by scipy at some points, its size, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, optimize, stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.boxed import BoxedDesign, Grid, compare_likelihoods, compute_p
from thermostats.modelling.nuisances import Bounds

N = 18
BOUNDS = Bounds(ar=0.5, ratio=2.5, share=0.5)


def rows() -> pd.DataFrame:
    """Models of four labs of several and of three of one."""
    labs = [f"lab{i % 4}" for i in range(N - 3)] + ["x", "y", "z"]
    return pd.DataFrame({"x": np.linspace(0, 1, N) ** 2, "heritage": labs})


def covariance(
    design: pd.DataFrame, ar: float, ratio: float, share: float, small: float
) -> np.ndarray:
    """Entry by entry, rows in the order of x."""
    sizes = design["heritage"].map(design["heritage"].value_counts())
    made = np.empty((N, N))
    for i in range(N):
        for j in range(N):
            own = [small if sizes[k] <= 2 else 1.0 for k in (i, j)]
            part = (1 - share) * ar ** abs(i - j) * own[0] * own[1]
            part += share * (design["heritage"][i] == design["heritage"][j])
            made[i, j] = part * ratio ** ((i + j) / (N - 1))
    return made


def test_likelihoods_and_slopes_are_those_of_scipy() -> None:
    """At each point −log L of scipy's multivariate normal is minimised over slope and scale."""
    design = rows()
    contrasts = linalg.null_space(np.ones((1, N)))
    y = np.random.default_rng(3).normal(size=(3, N)) - 2 * design["x"].to_numpy()
    for point in ((0.0, 1.0, 0.0, 1.0), (0.4, 0.5, 0.3, 3.0), (0.0, 2.0, 0.5, 1.0)):
        grid = Grid(*((value,) for value in point))
        slopes, ratio = compare_likelihoods(
            BoxedDesign.read(design["x"], design["heritage"]), grid, y
        )
        own = contrasts.T @ covariance(design, *point) @ contrasts
        x = contrasts.T @ design["x"].to_numpy()
        for place, study in enumerate(y):
            left = contrasts.T @ study

            def lack(
                b: np.ndarray, left: np.ndarray = left, own: np.ndarray = own, x: np.ndarray = x
            ) -> float:
                slope = b[1] if len(b) > 1 else 0.0
                scaled = np.exp(b[0]) * own
                return -float(stats.multivariate_normal(cov=scaled).logpdf(left - slope * x))

            finely = {"xatol": 1e-7, "fatol": 1e-9}
            full = optimize.minimize(lack, [0.0, 0.0], method="Nelder-Mead", options=finely)
            null = optimize.minimize(lack, [0.0], method="Nelder-Mead", options=finely)
            assert slopes[place] == pytest.approx(full.x[1], abs=1e-3)
            assert ratio[place] == pytest.approx(2 * (null.fun - full.fun), abs=1e-3)


def test_of_several_points_the_largest_likelihoods_are_compared() -> None:
    design = BoxedDesign.read(rows()["x"], rows()["heritage"])
    y = (
        np.random.default_rng(4).normal(size=(50, N))
        @ np.linalg.cholesky(covariance(rows(), 0.5, 2.5, 0.3, 1.0)).T
    )
    whole = compare_likelihoods(design, Grid.span_bounds(BOUNDS), y)[1]
    plain = compare_likelihoods(design, Grid(), y)[1]
    assert (whole > -1e-9).all() and np.mean(whole < plain) > 0.5


def test_it_is_no_chi_square_and_errs_far_less_than_a_test_without_the_box() -> None:
    """Neighbours at 0.5: more than 5%, less than half of what least squares have."""
    design = BoxedDesign.read(rows()["x"], rows()["heritage"])
    root = np.linalg.cholesky(covariance(rows(), 0.5, 1.0, 0.0, 1.0))
    y = np.random.default_rng(5).normal(size=(4000, N)) @ root.T
    size = (compute_p(design, Grid.span_bounds(BOUNDS), y) <= 0.05).mean()
    plain = (compute_p(design, Grid(), y) <= 0.05).mean()
    assert 0.05 < size < 0.2 < plain
    normal = np.random.default_rng(6).normal(size=(4000, N))
    assert (compute_p(design, Grid.span_bounds(BOUNDS), normal) <= 0.05).mean() < 0.12


def test_a_slope_of_the_other_sign_is_none() -> None:
    design = BoxedDesign.read(rows()["x"], rows()["heritage"])
    y = 5 * rows()["x"].to_numpy()[None] + np.random.default_rng(7).normal(0, 0.1, (1, N))
    assert compute_p(design, Grid(), y, np.ones(1)) < 0.001
    assert compute_p(design, Grid(), y, -np.ones(1)) == 1.0


def test_levels_of_groups_are_taken_out() -> None:
    """What a level has in common moves neither slope nor likelihood."""
    family = pd.Series(["a", "b"] * (N // 2))
    design = BoxedDesign.read(rows()["x"], rows()["heritage"], family)
    y = np.random.default_rng(8).normal(size=(2, N))
    moved = y + np.where(family == "a", 3.0, -1.0)
    for one, other in zip(
        compare_likelihoods(design, Grid.span_bounds(BOUNDS), y),
        compare_likelihoods(design, Grid.span_bounds(BOUNDS), moved),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_rows_that_carry_no_slope_are_refused() -> None:
    few = rows().iloc[:3]
    with pytest.raises(UsageError, match="too few rows for a slope: got 3 rows and 1 columns"):
        compute_p(BoxedDesign.read(few["x"], few["heritage"]), Grid(), np.zeros((1, 3)))
    alike = rows().assign(x=1.0)
    with pytest.raises(UsageError, match="a slope needs values that differ"):
        compute_p(BoxedDesign.read(alike["x"], alike["heritage"]), Grid(), np.zeros((1, N)))
