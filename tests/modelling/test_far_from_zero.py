"""A mean far beyond the spread changes no fit: what double precision holds is fitted, what it does
not is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.classical.association import estimate_slope
from thermostats.modelling.classical.mixed import estimate_variance_components, fit_mixed_model

FAR = (1e6, 1e9, 1e12)


def rows(offset: float = 0.0, covariate: float = 0.0) -> pd.DataFrame:
    """Eight groups of six; both columns lie about their offsets with a spread of 1, rounded as
    doubles are there."""
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
    near = estimate_slope(rows(), "y ~ x", errors=errors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = [
            estimate_slope(table, "y ~ x", errors=errors)
            for table in (rows(far), rows(covariate=far))
        ]
    for fit in there:
        assert (fit.estimate, fit.standard_error) == pytest.approx(
            (near.estimate, near.standard_error), rel=digits(far)
        )
        assert fit.df == near.df == 46


@pytest.mark.parametrize("far", FAR)
def test_groups(far: float) -> None:
    near, crossed = (
        fit_mixed_model(rows(), "y ~ x", "g"),
        estimate_variance_components(rows(), "y", "g", "c", seed=0),
    )
    for table in (rows(far), rows(covariate=far)):
        fit = fit_mixed_model(table, "y ~ x", "g")
        assert fit.converged
        assert (fit.group_sd, fit.residual_sd) == pytest.approx(
            (near.group_sd, near.residual_sd), rel=digits(far)
        )
        assert fit.terms["x"].estimate == pytest.approx(near.terms["x"].estimate, rel=digits(far))
    assert estimate_variance_components(rows(far), "y", "g", "c", seed=0).sd == pytest.approx(
        crossed.sd, rel=digits(far)
    )


def test_what_rounding_leaves_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="not determined"):
        estimate_slope(rows(covariate=1e15), "y ~ x")
    with pytest.raises(UsageError, match="no residual variance"):
        fit_mixed_model(rows().assign(y=lambda t: 1e9 + 3 * t["x"]), "y ~ x", "g")
