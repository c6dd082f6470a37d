"""Numbers and borders of straight pieces against curves made of known pieces."""

import numpy as np
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.classical.counts import fit_phases


def curve(true: int, length: int, seed: int) -> np.ndarray:
    levels = np.array([0.0, 2.0, 0.5, 3.0, 1.0])[:true]
    noise = np.random.default_rng(seed).normal(size=true * length)
    return np.repeat(levels, length) + 0.02 * np.tile(np.arange(length), true) + 0.05 * noise


@pytest.mark.parametrize("true", [1, 2, 3, 5])
def test_the_true_number_of_pieces_mostly_has_the_lowest_bic_and_its_borders_are_found(true):
    hits, length = 0, max(12, 24 // true)
    for seed in range(20):
        found = fit_phases(np.arange(1.0, length * true + 1), curve(true, length, seed))
        hits += min(found, key=lambda k: found[k].bic) == true
        assert found[true].starts == tuple(float(1 + length * k) for k in range(1, true))
    assert hits >= 16


def test_residuals_of_two_pieces_are_those_of_the_best_split_by_search():
    rng = np.random.default_rng(0)
    x, y = np.arange(16.0), rng.normal(size=16)

    def rss(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.polyfit(a, b, 1, full=True)[1][0])

    by_search = min(rss(x[:c], y[:c]) + rss(x[c:], y[c:]) for c in range(4, 13))
    assert fit_phases(x, y)[2].bic == pytest.approx(16 * np.log(by_search / 16) + 8 * np.log(16))


def test_layers_out_of_order_are_refused():
    with pytest.raises(UsageError, match="does not increase"):
        fit_phases([1, 2, 3, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 9])
