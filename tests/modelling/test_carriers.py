"""Rival carriers: leaving out against fitting again, a t distribution by hand, and worlds in which one carries."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from thermostats.errors import UsageError
from thermostats.modelling.carriers import NONE, density_by_fold, kinship, leads, predicted


def log_marginal(y: np.ndarray, x: np.ndarray, k: np.ndarray, lam: float) -> float:
    """∫∫ N(y; Xβ, σ²V) dβ dσ²/σ² by the formula of the textbooks, from the rows themselves."""
    n, p = x.shape
    v = (1 - lam) * np.eye(n) + lam * k
    inverse = np.linalg.inv(v)
    b = np.linalg.solve(x.T @ inverse @ x, x.T @ inverse @ y)
    rss = (y - x @ b) @ inverse @ (y - x @ b)
    dets = np.linalg.slogdet(v)[1] + np.linalg.slogdet(x.T @ inverse @ x)[1]
    return float(special.gammaln((n - p) / 2) - 0.5 * (n - p) * np.log(np.pi * rss) - 0.5 * dets)


def study(seed: int = 1, n: int = 24) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    rng = np.random.default_rng(seed)
    lab, script = np.arange(n) // 4, np.arange(n) % 5
    x = np.column_stack([np.ones(n), rng.standard_normal(n)])
    y = x @ [0.2, 0.5] + 0.8 * rng.standard_normal(6)[lab] + 0.5 * rng.standard_normal(n)
    return y, x, [f"l{i}" for i in lab], [f"s{i}" for i in script]


def test_leaving_out_is_what_two_fits_with_and_without_the_fold_give() -> None:
    y, x, lab, script = study()
    k = kinship(script)
    found = density_by_fold(y, x, k, lab)
    for fold in ("l0", "l3"):
        rest = np.array([name != fold for name in lab])

        def ratio(rows: np.ndarray) -> float:
            def at(lam: float) -> float:
                return math.exp(log_marginal(y[rows], x[rows], k[np.ix_(rows, rows)], lam))

            return math.log(integrate.quad(at, 0, 1, epsrel=1e-8)[0])

        assert found[fold] == pytest.approx(ratio(np.ones(24, dtype=bool)) - ratio(rest), abs=1e-3)


def test_without_a_carrier_the_prediction_is_the_t_distribution_of_least_squares() -> None:
    y, x, _, _ = study()
    rest = np.arange(24) != 7
    b, rss, *_ = np.linalg.lstsq(x[rest], y[rest], rcond=None)
    h = x[7] @ np.linalg.solve(x[rest].T @ x[rest], x[7])
    scale = np.sqrt(rss[0] / 21 * (1 + h))
    found = density_by_fold(y, x, np.eye(24), range(24))
    assert found[7] == pytest.approx(stats.t.logpdf(y[7], 21, x[7] @ b, scale), rel=1e-9)


def test_what_carries_leads_and_a_label_that_is_not_stated_is_shared_with_none() -> None:
    wins = 0
    for seed in range(20):
        y, x, lab, script = study(seed, 24)
        density = predicted(y, x, {"lab": lab, "script": script}, range(24))
        assert list(density) == [NONE, "lab", "script"]
        table = leads(density, "lab", dict(enumerate(lab))).set_index("rival")
        wins += bool((table["lead"] > 0).all())
        assert np.allclose(table["lead"], density["lab"].sum() - density[table.index].sum())
    assert wins >= 17
    assert kinship(["a", "a", "", ""]).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_too_few_models_are_refused() -> None:
    y, x, lab, _ = study(n=24)
    with pytest.raises(UsageError, match="too few models"):
        density_by_fold(y[:6], x[:6], np.eye(6), lab[:6])
