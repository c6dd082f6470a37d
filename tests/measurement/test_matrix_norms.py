"""Matrices whose singular values are known, and every spectrum against the dense SVD."""

import numpy as np
import pytest

from thermostats.measurement import spectra

N = 160


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def with_singular_values(values, rng, m=N, n=N):
    r = len(values)
    return (orthogonal(rng, m)[:, :r] * values) @ orthogonal(rng, n)[:, :r].T


def top_gap(relative):
    return lambda n, rng: np.r_[1.0, 1.0 - relative, np.sort(rng.uniform(0, 0.95, n - 2))[::-1]]


DRAWN = {
    "Gaussian": lambda n, rng: np.linalg.svd(rng.standard_normal((n, n)), compute_uv=False),
    "flat": lambda n, rng: np.ones(n),
    "power law": lambda n, rng: np.arange(1, n + 1) ** -rng.uniform(0.2, 2.0),
    "fast decay": lambda n, rng: np.exp(-np.arange(n) / 4.0),
    "graded over 30 decades": lambda n, rng: np.logspace(0, -30, n),
    "gap 1e-3": top_gap(1e-3),
    "gap 1e-6": top_gap(1e-6),
    "equal": top_gap(0.0),
    "five equal": lambda n, rng: np.r_[np.ones(5), rng.uniform(0, 0.9, n - 5)],
    "cluster on top": lambda n, rng: np.r_[np.linspace(1, 0.999, 20), np.linspace(0.5, 0, n - 20)],
    "one far out": lambda n, rng: np.r_[1e4, np.ones(n - 1)],
    "low rank": lambda n, rng: np.r_[rng.uniform(1, 2, 7), np.zeros(n - 7)],
    "rank 1": lambda n, rng: np.r_[2.5, np.zeros(n - 1)],
    "dense edge": lambda n, rng: 1 - (np.arange(n) / n) ** 2,
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawn_spectrum_is_off_by_less_than_a_millionth(name):
    """24 matrices a spectrum: square, wide and tall, of numbers in float32 and float64."""
    for seed in range(24):
        rng = np.random.default_rng(seed)
        m, n = [(96, 96), (72, 130), (130, 72), (128, 128)][seed % 4]
        values = DRAWN[name](min(m, n), rng)
        W = with_singular_values(values, rng, m, n)
        result = spectra.measure_norms(W, seed=seed)
        assert result.spectral == pytest.approx(values.max(), rel=1e-6)
        assert result.frobenius == pytest.approx(np.linalg.norm(values), rel=1e-6)
        narrow = W.astype(np.float32)
        assert spectra.measure_norms(narrow).spectral == pytest.approx(
            np.linalg.norm(narrow.astype(np.float64), 2), rel=1e-6
        )


@pytest.mark.parametrize(
    "shape", [(200, 200), (70, 400), (400, 70), (1, 50), (50, 1), (3, 2), (1, 1)]
)
def test_random_matrices_against_the_dense_svd(shape):
    for seed in range(10):
        W = np.random.default_rng(seed).standard_normal(shape)
        for stored in (W.astype(np.float32), np.asfortranarray(W.astype(np.float32)), W):
            wide = stored.astype(np.float64)
            result = spectra.measure_norms(stored)
            assert result.spectral == pytest.approx(np.linalg.norm(wide, 2), rel=5e-7)
            assert result.stable_rank == pytest.approx(
                (np.linalg.norm(wide) / np.linalg.norm(wide, 2)) ** 2, rel=2e-6
            )


def test_no_convergence_falls_back_to_the_dense_gram(monkeypatch):
    monkeypatch.setattr(spectra, "RESTARTS", 1)
    for shape in ((200, 90), (90, 200)):
        W = with_singular_values(np.linspace(1, 0.99, 90), np.random.default_rng(0), *shape).astype(
            np.float32
        )
        result = spectra.measure_norms(W)
        assert result.bound == 0.0
        assert result.spectral == pytest.approx(np.linalg.norm(W.astype(float), 2), rel=1e-9)


@pytest.mark.parametrize("resident", [0, 10**9])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_stored_halves_are_measured_as_the_numbers_they_are(monkeypatch, resident, kind):
    monkeypatch.setattr(spectra, "RESIDENT_BYTES", resident)
    monkeypatch.setattr(spectra, "BLOCK_BYTES", 10_000)
    W = np.random.default_rng(1).standard_normal((150, 120)).astype(np.float32)
    stored = (
        W.astype(np.float16) if kind == "float16" else (W.view(np.uint32) >> 16).astype(np.uint16)
    )
    numbers = spectra.decode(stored).astype(np.float64)
    for view in (stored, stored.T, stored[:, 40:80], stored.T[30:]):
        assert spectra.load_resident(view).shape == view.shape
        exact = spectra.decode(np.ascontiguousarray(view)).astype(np.float64)
        assert spectra.measure_norms(view).spectral == pytest.approx(
            np.linalg.norm(exact, 2), rel=1e-6
        )
    assert spectra.measure_norms(stored).frobenius == pytest.approx(
        np.linalg.norm(numbers), rel=1e-6
    )


def test_zero_and_non_finite_matrices():
    zero = spectra.measure_norms(np.zeros((5, 4), np.float32))
    assert zero.spectral == zero.frobenius == 0 and np.isnan(zero.stable_rank)
    for bad in (np.nan, np.inf):
        W = np.ones((5, 4), np.float32)
        W[2, 3] = bad
        result = spectra.measure_norms(W)
        assert np.isnan(result.spectral) and np.isnan(result.frobenius)


def test_the_estimate_never_exceeds_the_truth_by_more_than_rounding():
    for seed in range(20):
        W = np.random.default_rng(seed).standard_normal((200, 200))
        assert spectra.measure_norms(W).spectral <= np.linalg.norm(W, 2) * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scale_does_not_matter(scale):
    W = (scale * np.random.default_rng(3).standard_normal((80, 60))).astype(np.float32)
    assert spectra.measure_norms(W).spectral == pytest.approx(
        np.linalg.norm(W.astype(float), 2), rel=1e-6
    )


def test_same_seed_same_bits():
    W = np.random.default_rng(4).standard_normal((90, 90)).astype(np.float32)
    assert spectra.measure_norms(W) == spectra.measure_norms(W)
    assert spectra.measure_norms(W, seed=1).spectral == pytest.approx(
        spectra.measure_norms(W).spectral, rel=5e-7
    )
