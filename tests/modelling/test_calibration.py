"""Simulation-based calibration: its test against known distributions, the closed form, the sampled model."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from thermostats.errors import UsageError
from thermostats.modelling import cache, calibration
from thermostats.modelling.draws import Settings

mpl.use("Agg")


def test_uniformity_holds_its_size_and_sees_wrong_posteriors() -> None:
    """On uniform ranks 5 % of p-values are below 0.05; ranks of posteriors that are too narrow or shifted are seen."""
    rng = np.random.default_rng(1)
    p = [calibration.uniformity(rng.integers(0, 51, size=100), 50) for _ in range(300)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09
    narrow = np.clip(np.round(50 * (0.5 + 0.42 * rng.normal(size=200))), 0, 50)
    shifted = np.floor(51 * rng.beta(1.0, 1.5, size=200))
    assert calibration.uniformity(narrow, 50) < 0.001
    assert calibration.uniformity(shifted, 50) < 0.001


def test_reliability_of_probabilities() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(400)
    assert calibration.reliability(rng.random(400) < p, p) > 0.01
    assert calibration.reliability(rng.random(400) < p**2, p) < 0.001


def test_closed_form_is_calibrated() -> None:
    found = calibration.calibrate_closed_form(300, seed=3)
    check = found.check()
    assert check.outcome == "passed", check.reason
    assert set(check.table["quantity"]) >= {"total_sd", "share_heritage", "sd_model", "heritage > geometry > scale"}
    assert len(found.plot(Figure().subplots()).lines) == 9
    assert found.to_dict()["outcome"] == "passed"


def test_closed_form_with_a_wrong_error_is_not() -> None:
    """Means twice as noisy as the model is told: the model's own share is overstated."""
    wrong = calibration.calibrate_closed_form(150, error=0.15, told=0.02, seed=4)
    assert wrong.check().outcome == "failed"


@pytest.mark.slow
def test_sampled_model_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    quick = Settings(chains=2, draws=60, tune=100)
    told: list[tuple[int, int]] = []
    sizes = {"n_models": 8, "n_labs": 3, "n_prompts": 5, "seed": 5, "settings": quick}
    first = calibration.calibrate(3, **sizes, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert first.ranks["rank"].between(0, calibration.RANKED).all()
    assert first.ranks["divergences"].notna().all()
    file = next(tmp_path.glob("calibration/*.csv"))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: 1 + 2 * (len(lines) - 1) // 3]))
    again = calibration.calibrate(3, **sizes, progress=lambda done, total: told.append((done, total)))
    assert told[3:] == [(3, 3)]
    assert np.array_equal(first.ranks["rank"], again.ranks["rank"])


def test_too_little() -> None:
    with pytest.raises(UsageError, match="too little to calibrate"):
        calibration.calibrate(1, seed=1)
    with pytest.raises(UsageError, match="too little to calibrate"):
        calibration.calibrate(10, seed=1, settings=Settings(chains=2, draws=20))


@pytest.mark.slow
@pytest.mark.long
def test_sampled_model_is_calibrated() -> None:
    """200 refits of a model of the study's size: minutes."""
    found = calibration.calibrate(200, seed=6)
    check = found.check()
    assert check.outcome == "passed", check.reason
