"""Held-out error against the closed form of least squares and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from thermostats.errors import UsageError
from thermostats.modelling.inference.prediction import leave_one_out_error

FRAME = pd.DataFrame(
    {
        "depth": [12.0, 24, 16, 32, 24, 12, 36, 40],
        "layer": [5.0, 14.0, 7.5, 15.0, 10.0, 6.0, 21.0, 16.0],
        "lab": list("aabbccdd"),
    }
)


def test_leaving_one_out_is_the_residual_over_one_minus_leverage() -> None:
    fit = smf.ols("layer ~ depth", FRAME).fit()
    error = np.abs(fit.resid / (1 - fit.get_influence().hat_matrix_diag))
    result = leave_one_out_error(FRAME, "layer ~ depth", observed="layer", depth="depth", seed=0)
    assert result.errors_of_depth == pytest.approx(tuple(error / FRAME.depth))
    assert (result.estimate, result.mape) == pytest.approx(((error / FRAME.depth).mean(), (error / FRAME.layer).mean()))
    assert result.lower < result.estimate < result.upper
    assert (result.n, result.n_groups, result.inside) == (8, 8, 1.0)


def test_a_rule_without_parameters_and_both_measures() -> None:
    result = leave_one_out_error(FRAME, lambda _, ask: ask["depth"] / 2, observed="layer", depth="depth", seed=0)
    error = (FRAME.depth / 2 - FRAME.layer).abs()
    assert result.estimate == pytest.approx((error / FRAME.depth).mean())
    assert result.mape == pytest.approx((error / FRAME.layer).mean())
    assert result.rmse == pytest.approx(np.sqrt((error**2).mean()))


def test_leaving_one_group_out_learns_from_the_others_alone() -> None:
    seen = []

    def mean_fraction(learn: pd.DataFrame, ask: pd.DataFrame) -> np.ndarray:
        seen.append((set(learn.lab), set(ask.lab)))
        return np.asarray(ask.depth * (learn.layer / learn.depth).mean())

    result = leave_one_out_error(FRAME, mean_fraction, observed="layer", depth="depth", groups="lab", seed=0)
    assert all(len(asked) == 1 and not asked & learned for learned, asked in seen) and len(seen) == 4
    assert result.n_groups == 4 and "lab" in result.interval
    assert result.estimate == pytest.approx(np.mean(np.reshape(result.errors_of_depth, (4, 2)).mean(axis=1)))


def test_bad_input_is_refused() -> None:
    ask = {"observed": "layer", "depth": "depth", "seed": 0}
    with pytest.raises(UsageError, match="levels"):
        leave_one_out_error(FRAME, "layer ~ lab", groups="lab", **ask)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="above 0"):
        leave_one_out_error(FRAME.assign(depth=0.0), "layer ~ depth", **ask)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no such column"):
        leave_one_out_error(FRAME, "layer ~ depth", observed="star", depth="depth", seed=0)
    with pytest.raises(UsageError, match="too few"):
        leave_one_out_error(FRAME.head(3), "layer ~ depth", **ask)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="too few groups"):
        leave_one_out_error(FRAME.head(4), "layer ~ depth", groups="lab", **ask)  # type: ignore[arg-type]
