"""Simulation-based calibration: its test against known distributions, the closed form, the sampled model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES, gains
from matplotlib.figure import Figure
from simulated import pairs_table

from thermostats.errors import UsageError
from thermostats.modelling.heritage.blocks import Design, design
from thermostats.modelling.heritage.calibration import by_weights, sampled
from thermostats.modelling.heritage.fit import fit_heritage
from thermostats.modelling.heritage.model import arrays
from thermostats.modelling.heritage.rows import lines
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage
from thermostats.modelling.inference import calibration
from thermostats.modelling.inference.calibration import Simulator
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.laws.lines import fit_line, simulator
from thermostats.tables.caching import CACHE_VARIABLE

mpl.use("Agg")


def test_uniformity_holds_its_size_and_sees_wrong_posteriors() -> None:
    """On uniform ranks 5% of p-values are below 0.05; ranks of posteriors that are too narrow or shifted are seen."""
    rng = np.random.default_rng(1)
    p = [calibration.uniformity(rng.integers(0, 51, size=100), 50) for _ in range(300)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.09
    narrow = np.clip(np.round(50 * (0.5 + 0.42 * rng.normal(size=200))), 0, 50)
    shifted = np.floor(51 * rng.beta(1.0, 1.5, size=200))
    assert calibration.uniformity(narrow, 50) < 0.001
    assert calibration.uniformity(shifted, 50) < 0.001


def test_reliability_is_exact() -> None:
    """Of three events of probability 1/2 none happens with 1/8, twice that on both sides; a sure one must happen."""
    assert calibration.reliability([0, 0, 0], [0.5, 0.5, 0.5]) == 0.25
    assert calibration.reliability([1, 0, 0], [0.5, 0.5, 0.5]) == 1.0
    assert calibration.reliability([0, 1], [1.0, 0.5]) == 1.0
    assert calibration.reliability([0, 0], [1.0, 0.5]) == 0.0


def shaped(rank: np.ndarray, ess: float = 200.0, divergences: float = 0.0) -> calibration.Calibration:
    """Ranks, simulations × quantities, as a calibration has them."""
    ranks = pd.DataFrame(rank).add_prefix("q").rename_axis("simulation").reset_index()
    ranks = ranks.melt("simulation", var_name="quantity", value_name="rank")
    same = {"truth": 0.0, "mean": 0.0, "rhat_max": 1.0, "ess_min": ess, "divergences": divergences}
    return calibration.Calibration(ranks=ranks.assign(**same), ranked=calibration.RANKED)


@pytest.mark.parametrize("quantities", [1, 64, 400])
def test_one_wrong_quantity_is_seen_among_many(quantities: int) -> None:
    rank = np.random.default_rng(3).integers(0, calibration.RANKED + 1, size=(60, quantities))
    assert shaped(rank).check().outcome == "passed"
    rank[:, 0] = 0
    wrong = shaped(rank).check()
    assert wrong.outcome == "failed" and "of q0" in wrong.reason


def test_too_few_effective_draws_show_nothing() -> None:
    rank = np.random.default_rng(4).integers(0, calibration.RANKED + 1, size=(60, 2))
    few = shaped(rank, ess=20.0, divergences=3.0).check()
    assert few.outcome == "warned"
    assert "100% of simulations with fewer than 30 effective draws; 100% of simulations with diverg" in few.reason


DRAWN = calibration.Refit(values={"x": np.random.default_rng(5).normal(size=(2, 250))})
KEPT = calibration.Simulator(
    joint=lambda seed, n: ({"x": np.zeros(n)}, np.zeros((n, 1))),
    posterior=lambda outcome, seed: DRAWN,
    key=lambda: "one",
)
"""The same draws whatever the outcome, kept in the cache."""


def test_weights_that_cannot_be_trusted_bound_the_effective_draws() -> None:
    outcomes = np.array([[1.0], [-1.0]])
    simulator = replace(
        KEPT,
        joint=lambda seed, n: ({"x": np.zeros(n)}, outcomes),
        posterior=lambda outcome, seed: replace(DRAWN, effective=12.0 if outcome[0] > 0 else np.inf),
    )
    found = calibration.calibrate(simulator, 2, seed=1, cache=False).ranks.set_index("simulation")["ess_min"]
    assert found[0] == 12.0 < found[1]


def test_where_draws_are_too_few_there_is_a_second_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Settings] = []

    def slow(model: object, data: object, *, seed: int, settings: Settings) -> tuple[dict[str, np.ndarray], int]:
        asked.append(settings)
        steps = np.random.default_rng(seed).normal(size=(2, settings.draws))
        return {"x": np.cumsum(steps, axis=1) if len(asked) == 1 else steps}, 0

    monkeypatch.setattr(calibration.sampling, "sample_only", slow)
    made = calibration.by_sampling(slow, {}, lambda seed, n: ({}, np.zeros((n, 1))), lambda y: {}, dict_of)
    assert made.posterior(np.zeros(1), 1).values["x"].shape == (2, 2 * calibration.SHORT.draws)
    assert asked == [calibration.SHORT, calibration.SHORT.retried()]
    made.posterior(np.zeros(1), 2)
    assert len(asked) == 3


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00", b"a,b\n1,2\n", None])
def test_it_goes_on_where_it_stopped_and_a_damaged_file_is_made_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    first = calibration.calibrate(KEPT, 3, seed=1)
    (file,) = tmp_path.glob("calibration/*")
    whole = file.read_bytes()
    file.write_bytes(damage if damage is not None else b"".join(whole.splitlines(keepends=True)[:3]))
    done: list[int] = []
    again = calibration.calibrate(KEPT, 3, seed=1, progress=lambda number, total: done.append(number))
    assert again.ranks.equals(first.ranks) and done == ([3] if damage is None else [1, 2, 3])
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot be written"):
        calibration.calibrate(KEPT, 2, seed=1)


def test_the_key_tells_whose_truths_they_are() -> None:
    """Another function that draws the truths is another calibration, with the same model and data."""
    one, other = (
        calibration.by_sampling(gains, {"y": np.zeros(2)}, joint, lambda y: {"y": y}, dict_of).key
        for joint in (lambda seed, n: ({}, np.zeros((n, 1))), sorted_joint)
    )
    assert one and other and one() != other()


def dict_of(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(values)


def sorted_joint(seed: int, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {}, np.zeros((n, 1))


def blank(n_models: int, n_labs: int) -> Design:
    return design(model_facts(n_models, n_labs, np.random.default_rng(3)).assign(gain=1.0), "simulated")


def noisy(simulator: Simulator, error: float) -> Simulator:
    """Outcomes with an error that the model does not know."""

    def joint(seed: int, size: int) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
        truths, y = simulator.joint(seed, size)
        return truths, y + np.random.default_rng(seed).normal(0, error, y.shape)

    return replace(simulator, joint=joint, key=None)


@pytest.mark.slow
def test_closed_form_is_calibrated_and_with_a_wrong_error_is_not() -> None:
    closed = by_weights(blank(24, 8), total_sd=0.5, concentration=1.0)
    found = calibration.calibrate(closed, 60, seed=3)
    check = found.check()
    assert check.outcome == "passed", check.reason
    assert set(check.table["quantity"]) >= {"total_sd", "share_heritage", "sd_model", "heritage > geometry > scale"}
    assert len(found.plot(Figure().subplots()).lines) == 9
    assert found.to_dict()["outcome"] == "passed"
    assert calibration.calibrate(noisy(closed, 0.3), 40, seed=4).check().outcome == "failed"


def of_sampling(n_models: int, n_labs: int, n_prompts: int, settings: Settings = calibration.SHORT) -> Simulator:
    """The sampled model on a design that is its own."""
    facts = model_facts(n_models, n_labs, np.random.default_rng(5))
    laid_out = design(simulate_heritage(facts, shares={}, n_prompts=n_prompts, seed=5).table, "simulated")
    return sampled(laid_out, arrays(laid_out), settings=settings)


def test_too_little() -> None:
    with pytest.raises(UsageError, match="to calibrate"):
        calibration.calibrate(by_weights(blank(8, 3), total_sd=0.5, concentration=1.0), 1, seed=1)
    with pytest.raises(UsageError, match="to calibrate"):
        of_sampling(8, 3, 5, Settings(chains=2, draws=20))


def test_a_fit_is_calibrated_on_its_own_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part by its name, by default the first."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    fit = fit_line(gains(12, 4), "penultimate_gain", ["n_layers"], scale=0.5, seed=1)
    told: list[tuple[int, int]] = []
    found = fit.calibrate(3, progress=lambda done, total: told.append((done, total)))
    assert set(found.ranks["quantity"]) == {"beta[0]", "beta[1]", "sigma", "tau"}
    assert (found.ranks.groupby("quantity").size() == 3).all()
    again = fit.calibrate(3, part="line", progress=lambda done, total: told.append((done, total)))
    assert told == 2 * [(1, 3), (2, 3), (3, 3)]
    assert np.array_equal(found.ranks["rank"], again.ranks["rank"])
    assert fit.calibrate(3, seed=2).ranks["rank"].tolist() != found.ranks["rank"].tolist()
    with pytest.raises(UsageError, match="allowed: line"):
        fit.calibrate(3, part="lines")
    with pytest.raises(UsageError, match="to calibrate"):
        fit.calibrate(1)


def test_a_fit_with_a_wrong_likelihood_is_not() -> None:
    """Outcomes with errors of measurement that the model does not know: the residual is overstated."""
    table = gains(40, 8)
    y = np.log(table["penultimate_gain"].to_numpy())
    X = np.ones((y.size, 1))
    model = lines(table, y, X, sd=[1.0], sigma_scale=0.2, tau_scale=0.5, groups="heritage", error=np.zeros(y.size))
    wrong = calibration.calibrate(noisy(simulator(model), 0.2), 40, seed=1).check()
    assert wrong.outcome == "failed" and "sigma" in wrong.reason


LONG = {"benchmark"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n in LONG else n for n in CASES if n != "heritage"]
)
def test_every_model_is_calibrated(name: str) -> None:
    """On twelve models of four labs; pairs as many and with as many prompts as the study has."""
    of_study = {"levels": [0.5, 0.3, -0.2], "changes": [-0.3, 0.02, 0.4]}
    rng = np.random.default_rng(1)
    table = pairs_table(rng, **of_study) if name == "invariance" else CASES[name].good(12, 4)
    fit = CASES[name].fit(table)
    parts = {id(part.simulator): part_name for part_name, part in fit.parts.items()}
    for part in parts.values():
        check = fit.calibrate(100, part=part, cache=False).check()
        assert check.outcome == "passed", (part, check.reason)


@pytest.mark.slow
def test_the_heritage_model_of_very_many_is_calibrated() -> None:
    rng = np.random.default_rng(1)
    table = model_facts(30, 6, rng).assign(gain=np.exp(rng.normal(0, 0.2, 30)), gain_sd=0.1, n_prompts=25)
    fit = fit_heritage(table, estimand="last_gain", method="closed form", seed=1)
    check = fit.calibrate(200).check()
    assert check.outcome == "passed", check.reason


@pytest.mark.slow
def test_averages_and_prompts_together_are_drawn_and_fitted_again() -> None:
    fit = CASES["heritage"].fit(CASES["heritage"].good(12, 4))
    found = fit.calibrate(3, cache=False)
    assert set(found.check().table["quantity"]) >= {"total_sd", "share_heritage", "heritage > geometry > scale"}


@pytest.mark.slow
@pytest.mark.long
def test_sampled_model_is_calibrated() -> None:
    """200 refits of a model of the study's size: minutes."""
    check = calibration.calibrate(of_sampling(24, 8, 25), 200, seed=6).check()
    assert check.outcome == "passed", check.reason
