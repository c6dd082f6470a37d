"""A mean far beyond the spread changes no fit: what double precision holds is fitted, what it does not is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import slope
from thermostats.modelling.classical.mixed import mixed_model, variance_components
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.lines import fit_line
from thermostats.modelling.scales import HalfNormals

FAR = (1e6, 1e9, 1e12)
HALF = HalfNormals((1.0, 1.0))


def rows(offset: float = 0.0, covariate: float = 0.0) -> pd.DataFrame:
    """Eight groups of six; both columns lie about their offsets with a spread of 1, rounded as doubles are there."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=48), rng.normal(size=48) + np.repeat(rng.normal(size=8), 6)
    names = {
        "g": np.repeat(list("abcdefgh"), 6),
        "c": np.tile(list("pqrstu"), 8),
        "model_id": [f"m{i}" for i in range(48)],
    }
    return pd.DataFrame({**names, "x": covariate + x, "y": offset + (0.3 * x + noise)})


def digits(offset: float) -> float:
    """Relative error that the rounding of numbers of this size leaves, times thirty."""
    return max(30 * np.finfo(np.float64).eps * offset, 1e-9)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("errors", ["HC3", "classical"])
def test_least_squares(far: float, errors: str) -> None:
    near = slope(rows(), "y ~ x", errors=errors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = [slope(table, "y ~ x", errors=errors) for table in (rows(far), rows(covariate=far))]
    for fit in there:
        assert (fit.estimate, fit.standard_error) == pytest.approx(
            (near.estimate, near.standard_error), rel=digits(far)
        )
        assert fit.df == near.df == 46


@pytest.mark.parametrize("far", FAR)
def test_groups(far: float) -> None:
    near, crossed = mixed_model(rows(), "y ~ x", "g"), variance_components(rows(), "y", "g", "c", seed=0)
    for table in (rows(far), rows(covariate=far)):
        fit = mixed_model(table, "y ~ x", "g")
        assert fit.converged
        assert (fit.group_sd, fit.residual_sd) == pytest.approx((near.group_sd, near.residual_sd), rel=digits(far))
        assert fit.terms["x"].estimate == pytest.approx(near.terms["x"].estimate, rel=digits(far))
    assert variance_components(rows(far), "y", "g", "c", seed=0).sd == pytest.approx(crossed.sd, rel=digits(far))


def test_a_line() -> None:
    """An offset of 10⁹ and one of 10⁶ with a prior as wide for each: the same posterior about them."""
    draws = {far: fit_line(rows(far), "y", "x", group="g").quantities for far in FAR}
    for name in ("slope on x", "residual_sd", "group_sd"):
        means = [float(q[name].mean()) for q in draws.values()]
        assert means == pytest.approx([means[0]] * len(FAR), rel=0.02), name
    assert [float(q["mean"].mean()) - far for far, q in draws.items()] == pytest.approx(
        [float(draws[1e6]["mean"].mean()) - 1e6] * len(FAR), abs=0.02
    )


def test_density_about_a_centre_is_that_of_the_covariance() -> None:
    """Outcomes of 10⁴ ± 1, columns that are nearly the same, and a prior that the data contradict."""
    rng = np.random.default_rng(1)
    x, lab = rng.normal(size=12), np.eye(3)[np.arange(12) % 3]
    model = Gaussian(
        y=1e4 + x + rng.normal(size=12),
        X=np.column_stack([np.ones(12), x, x + 1e-9 * rng.normal(size=12)]),
        sd=np.array([1e4, 0.01, 1.0]),
        blocks={"lab": lab},
        prior=HALF,
        error=np.full(12, 0.1),
    )
    theta = np.log([[0.5, 1.0], [0.01, 3.0]])
    for row, scale in zip(theta, np.exp(theta), strict=True):
        noise = scale[0] ** 2 * lab @ lab.T + (scale[1] ** 2 + 0.01) * np.eye(12)
        v = (model.X * model.sd**2) @ model.X.T + noise
        root = np.linalg.cholesky(v)
        normal = -0.5 * (
            np.square(np.linalg.solve(root, model.y)).sum() + 2 * np.log(np.diag(root)).sum() + 12 * np.log(2 * np.pi)
        )
        assert model.log_density(row[None])[0] - HALF.log_density(row[None])[0] == pytest.approx(normal, abs=1e-5)


def test_what_rounding_leaves_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="not determined"):
        slope(rows(covariate=1e15), "y ~ x")
    with pytest.raises(UsageError, match="no residual variance"):
        mixed_model(rows().assign(y=lambda t: 1e9 + 3 * t["x"]), "y ~ x", "g")
