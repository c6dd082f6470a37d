"""Quantiles of y = log₁₀ G as k L^(−β), by quantile regression; no model of the errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.tools.sm_exceptions import IterationLimitWarning

from thermostats.modelling.draws import Array, equal_tailed

RESAMPLES = 1000
ENUMERABLE = 200
"""Up to so many models the lines of resamples are found among all lines through two models."""
FLOOR = 0.1
"""Outcomes not above 0 are put at this share of the smallest that is: a quantile line above them does not move."""


def quantile_power_law(
    L: Array, y: Array, quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95), *, seed: int, level: float | None = None
) -> pd.DataFrame:
    """Quantiles of y = log10 G as k L^(−β): log10 y on log10 L by quantile regression (Koenker and Bassett 1978).

    A quantile goes through a monotone transformation unchanged, so the log-log line is the quantile of y itself; rows
    with y ≤ 0 are kept below every line (`n_floored`). Intervals: percentile bootstrap over models, asymptotic above
    `ENUMERABLE` models. One row per quantile: k, beta and their bounds, and `above_claim`, the share of resamples whose
    line lies above 1/L at the mean log depth. No row where no y is above 0.
    """
    if not (y > 0).any():
        return pd.DataFrame(columns=["quantile", "k", "k_lower", "k_upper", "beta", "beta_lower", "beta_upper"])
    x, z = np.log10(L), np.log10(np.maximum(y, FLOOR * y[y > 0].min()))
    counts = np.random.default_rng(seed).multinomial(x.size, np.full(x.size, 1 / x.size), RESAMPLES)
    few = x.size <= ENUMERABLE
    rows = []
    for tau in quantiles:
        a, b, spread = _line(x, z, tau)
        drawn = (
            _bootstrap(x, z, tau, counts)
            if few
            else np.random.default_rng(seed).multivariate_normal([a, b], spread, RESAMPLES)
        )
        (low, beta_high), (high, beta_low) = equal_tailed(drawn, level)
        at_mean = drawn @ np.array([1.0, x.mean()])
        rows.append(
            {
                "quantile": tau,
                "k": 10**a,
                "k_lower": 10**low,
                "k_upper": 10**high,
                "beta": -b,
                "beta_lower": -beta_low,
                "beta_upper": -beta_high,
                "above_claim": float((at_mean > -x.mean()).mean()),
                "level": level,
                "interval": "bootstrap over models" if few else "asymptotic, kernel",
                "n": x.size,
                "n_floored": int((y <= 0).sum()),
            }
        )
    return pd.DataFrame(rows)


def _line(x: Array, z: Array, tau: float) -> tuple[float, float, Array]:
    """Intercept, slope and their covariance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IterationLimitWarning)  # it cycles between lines of equal loss
        fit = QuantReg(z, np.column_stack([np.ones(x.size), x])).fit(q=tau, max_iter=300)
    return float(fit.params[0]), float(fit.params[1]), np.asarray(fit.cov_params())


def _bootstrap(x: Array, z: Array, tau: float, counts: NDArray[np.int64]) -> Array:
    """Intercept and slope of every resample: the best of all lines through two models, where the optimum lies."""
    i, j = np.triu_indices(x.size, 1)
    apart = x[i] != x[j]
    i, j = i[apart], j[apart]
    slope = (z[j] - z[i]) / (x[j] - x[i])
    intercept = z[i] - slope * x[i]
    residual = z - intercept[:, None] - slope[:, None] * x
    loss = np.where(residual > 0, tau * residual, (tau - 1) * residual)
    best = (counts @ loss.T).argmin(axis=1)
    return np.column_stack([intercept[best], slope[best]])
