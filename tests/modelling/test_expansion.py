"""Expanded models: laws of the residuals against their definitions and densities, what answers, the nursery's data."""

from __future__ import annotations

from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.errors import UsageError
from thermostats.modelling.heritage import densities, expansion
from thermostats.modelling.heritage.averages import known
from thermostats.modelling.heritage.blocks import INTERACTION, ORDER, design
from thermostats.modelling.heritage.calibration import by_weights
from thermostats.modelling.heritage.closed_form import _change, closed_form
from thermostats.modelling.heritage.expansion import EXPANSIONS, not_reproduced, preferred, stacking
from thermostats.modelling.heritage.fit import HeritageFit, fit_heritage
from thermostats.modelling.heritage.gaussian import Latent, Means, log_density, plain, precision_of
from thermostats.modelling.heritage.laws import BY_LAB, NORMAL, SKEW, STUDENT, law
from thermostats.modelling.heritage.simulate import model_facts
from thermostats.modelling.inference import calibration
from thermostats.modelling.inference.draws import Settings
from thermostats.studies.nursery.rows import final, fit_recipes, judged

LIGHT = Settings(chains=2, draws=400)


def study(residual: np.ndarray, seed: int = 3) -> pd.DataFrame:
    """Sixty models of twelve labs, 60% of whose spread is what is given."""
    rng = np.random.default_rng(seed)
    facts = model_facts(60, 12, rng).sort_values("heritage", ignore_index=True)
    y = 0.1 + 0.05 * rng.normal(size=12)[pd.factorize(facts["heritage"])[0]] + 0.08 * residual
    return facts.assign(gain=np.exp(y), gain_sd=0.02 * np.exp(y), n_prompts=25)


def fitted(table: pd.DataFrame) -> HeritageFit:
    return fit_heritage(table, estimand="last_gain", seed=1, method="closed form", settings=Settings(), leave_out=())


@pytest.mark.parametrize("name", [STUDENT, SKEW, BY_LAB])
def test_laws_have_mean_0_and_unit_variance_for_every_shape(name: str) -> None:
    own = law(name)
    p = np.exp(own.log_p)
    assert p.sum(axis=1) == pytest.approx(np.ones(own.shape.size))
    assert (p * own.shift).sum(axis=1) == pytest.approx(np.zeros(own.shape.size), abs=0.01)
    variance = (p * (own.factor + own.shift**2)).sum(axis=1)
    moderate = own.shape > 3.5 if name == STUDENT else own.shape < 1.5 if name == BY_LAB else np.isfinite(own.shape)
    assert variance[moderate] == pytest.approx(np.ones(moderate.sum()), rel=0.05)
    grid = np.linspace(-3, 3, 7)
    if name == STUDENT:
        scale = np.sqrt((own.shape - 2) / own.shape)[:, None]
        expected = stats.t.pdf(grid / scale, own.shape[:, None]) / scale
    elif name == SKEW:
        d = np.abs(own.shape)[:, None]
        turned = np.sign(own.shape)[:, None] * grid
        expected = stats.exponnorm.pdf(turned, d / np.sqrt(1 - d**2), loc=-d, scale=np.sqrt(1 - d**2))
        expected[own.shape == 0] = stats.norm.pdf(grid)
    else:
        return
    density = stats.norm.pdf(grid[:, None, None], own.shift, np.sqrt(own.factor))
    assert np.einsum("gsk,sk->sg", density, p) == pytest.approx(expected, abs=0.01)


def test_of_no_models_there_are_no_densities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(densities, "explained", lambda *_: (np.zeros((5, 3)), np.ones((5, 1))))
    posterior, draws = MagicMock(residuals=STUDENT), MagicMock()
    posterior.design.means.return_value = np.zeros(3), np.ones(3)
    draws.flat.return_value = np.full(5, 4.0)
    assert densities.log_density_of(posterior, draws, np.arange(0)).shape == (5, 0)
    assert densities.log_density_of(posterior, draws, np.arange(2)).shape == (5, 2)


def given(name: str, n: int = 7) -> tuple[Means, np.ndarray]:
    rng = np.random.default_rng(2)
    own = law(name)
    means = Means(
        y=rng.normal(size=n),
        error=np.full(n, 0.1),
        Z=np.column_stack([np.ones(n), rng.normal(size=(n, 3))]),
        ranks=(2, 1),
        seen=np.ones(n, dtype=bool),
        total_sd=0.5,
        concentration=1.0,
        law=own,
        units=np.array([0, 0, 0, 1, 1, 2, 2]) if own.of_labs else np.arange(n),
    )
    return means, rng.normal(-2, 0.5, (4, 3))


def test_given_its_latent_numbers_the_density_is_normal() -> None:
    means, theta = given(SKEW)
    rng = np.random.default_rng(1)
    latent = Latent(
        errors=rng.uniform(0.05, 0.2, (4, 7)),
        factor=rng.uniform(0.5, 2, (4, 7)),
        shift=rng.normal(size=(4, 7)),
        shape=np.zeros(4, dtype=np.int64),
    )
    found = log_density(means, theta, latent) - log_density(means, theta)
    assert found == pytest.approx(dense(means, theta, latent) - dense(means, theta, plain(means, 4)))


def dense(means: Means, theta: np.ndarray, latent: Latent) -> np.ndarray:
    """log p(y | θ) by the whole covariance."""
    found = []
    for row, t in enumerate(theta):
        own = np.exp(t[-1])
        prior = np.concatenate([[1.0], np.repeat(np.exp(t[:-1]), means.ranks)])
        covariance = means.Z * prior @ means.Z.T + np.diag(own * latent.factor[row] + latent.errors[row] ** 2)
        found.append(stats.multivariate_normal.logpdf(means.y, own**0.5 * latent.shift[row], covariance))
    return np.array(found)


@pytest.mark.parametrize("name", [SKEW, BY_LAB])
def test_what_one_unit_changes_is_the_difference_of_densities(name: str) -> None:
    means, theta = given(name)
    base = plain(means, 4)
    precision, pulled = precision_of(means, theta, base)
    at, factor, shift = np.flatnonzero(means.units == 1), 1.7, 0.4
    values, vectors = np.linalg.eigh(precision[:, at[:, None], at])
    turned, own = np.swapaxes(vectors, 1, 2), np.exp(theta[:, -1:])
    found = _change(
        values, np.einsum("tab,tb->ta", turned, pulled[:, at]), turned.sum(axis=2), own * (factor - 1), own**0.5 * shift
    )[:, 0]
    factors, shifts = base.factor.copy(), base.shift.copy()
    factors[:, at], shifts[:, at] = factor, shift
    moved = Latent(errors=base.errors, factor=factors, shift=shifts, shape=base.shape)
    assert found == pytest.approx(log_density(means, theta, moved) - log_density(means, theta))


def test_skew_residuals_reproduce_what_normal_ones_do_not() -> None:
    fit = fitted(study(3 * (np.random.default_rng(7).exponential(size=60) - 1)))
    assert not_reproduced(fit, 1)
    skew = fit.expand(SKEW)
    assert skew.status == "passed", skew.draws.diagnostics
    assert not not_reproduced(skew, 1)
    assert (skew.draws["shape"] > 0).mean() > 0.9
    assert any("E exponential" in line for line in skew.equations)
    assert any("skew residuals, in closed form" in warning for warning in skew.warnings)


def test_of_models_that_reproduce_the_data_the_best_at_labs_left_out_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By log densities of twelve labs: one model is as good as the best, one falls behind in every lab."""
    waves = np.tile([1.0, -1.0], 6)
    unseen = {STUDENT: np.zeros(12), SKEW: np.full(12, -1.0) + 0.1 * waves, BY_LAB: waves + 0.1}
    monkeypatch.setattr(expansion, "lab_densities", lambda one, seed: unseen[one.residuals])
    monkeypatch.setattr(expansion, "not_reproduced", lambda *_: [])
    name, said = preferred({name: MagicMock(residuals=name, seed=1) for name in unseen}, 1)
    assert name == BY_LAB
    assert said.endswith("about as good, by their log density: Student-t residuals (-1.2)")
    assert preferred({SKEW: MagicMock()}, 1)[1].startswith("skew residuals: the only")


def test_normal_residuals_answer_themselves() -> None:
    fit = fitted(study(np.random.default_rng(6).normal(size=60)))
    assert fit.answer is fit
    with pytest.raises(UsageError, match="no such expansion"):
        fit.expand("Cauchy")


def test_labs_of_their_own_slopes_are_a_block_of_unit_expected_variance() -> None:
    rng = np.random.default_rng(7)
    one = study(rng.normal(size=60))
    laid_out = fitted(one).expand(INTERACTION).design
    assert laid_out.blocks == ("heritage", "geometry", "scale", INTERACTION, "model")
    basis = laid_out.bases()[INTERACTION]
    assert basis.shape == (60, 12 * 3) and np.square(basis).sum() / 60 == pytest.approx(1)
    assert basis.mean(axis=0) == pytest.approx(np.zeros(36), abs=1e-12)
    depth = np.log(one["n_layers"]) - np.log(one["n_layers"]).mean()
    slope = rng.normal(size=12)[pd.factorize(one["heritage"])[0]]
    fit = fitted(one.assign(gain=one["gain"] * np.exp(0.6 * slope * depth))).expand(INTERACTION)
    assert fit.quantities[f"share_{INTERACTION}"].mean() > 0.4


def test_close_models_are_stacked() -> None:
    rng = np.random.default_rng(1)
    density = rng.normal(size=(30, 1)) + np.column_stack([np.zeros(30), np.full(30, -3.0), np.zeros(30)])
    weight = stacking(density)
    assert weight.sum() == pytest.approx(1) and weight[1] < 0.01


def test_scales_of_labs_are_drawn_from_their_grids() -> None:
    """Two labs of five with three times the spread: their factors stand out, and the shares are still drawn."""
    rng = np.random.default_rng(8)
    lab = np.repeat(np.arange(12), 5)
    table = study(rng.normal(size=60) * np.where(lab < 2, 3.0, 0.5))
    laid_out = design(table, "last_gain")
    draws = closed_form(laid_out, total_sd=0.5, seed=1, residuals=BY_LAB, settings=LIGHT)
    factor = draws["factor"].mean(axis=(0, 1))
    assert factor[laid_out.lab < 2].min() > 3 * factor[laid_out.lab >= 2].max()
    assert draws["share"].sum(axis=-1) == pytest.approx(np.ones((2, 400)))


def test_short_chains_that_disagree_close_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that never move from what few weighted draws there were: independent draws would pass unseen."""
    monkeypatch.setattr("thermostats.modelling.heritage.moves.BURNT", 0)
    monkeypatch.setattr("thermostats.modelling.heritage.moves.WALKS", ())
    laid_out = design(study(np.random.default_rng(6).normal(size=60)), "last_gain")
    draws = closed_form(laid_out, total_sd=0.5, seed=1, residuals=SKEW, settings=LIGHT)
    assert not draws.exact and draws.short and draws.failures()
    assert list(draws.diagnostics.table()["diagnostic"]) == ["R-hat", "bulk ESS", "tail ESS"]


@pytest.mark.slow
def test_the_gate_lets_right_models_pass_and_heavy_tails_by_an_expanded_one() -> None:
    """At most 5% of worlds of the model itself fail (40 are tried); with t₄ residuals what answers passes."""
    worlds = [fitted(study(np.random.default_rng(100 + seed).normal(size=60), seed=seed)) for seed in range(40)]
    assert sum(not fit.check().passes for fit in worlds) <= stats.binom.isf(0.01, 40, 0.05)
    for seed in range(5):
        residual = np.random.default_rng(500 + seed).standard_t(4, size=60) / 2**0.5
        assert fitted(study(residual, seed=seed)).answer.check().passes, seed


@pytest.mark.slow
def test_the_nursery_is_reproduced_by_skew_residuals() -> None:
    """Its log gains have a floor and a long tail: normal residuals give too many dampeners and no skew."""
    fit = fit_recipes(judged(final(Evidence()), "penultimate_gain"), "penultimate_gain", seed=101)
    assert not_reproduced(fit, 1)
    answer = fit.answer
    assert answer.residuals == SKEW
    assert answer.check().passes, answer.check().reasons
    table = fit.table("expansions").set_index("model")
    assert "expansions" not in fit.tables  # the record of a fit does not take them
    assert list(table.index) == [*EXPANSIONS, "stacked"]
    assert table.loc[NORMAL, "not_reproduced"] and not table.loc[SKEW, "not_reproduced"]
    assert table.loc[SKEW, "close"] and table["weight"].iloc[:-1].sum() == pytest.approx(1)
    close = table.loc[list(EXPANSIONS)].query("weight > 0.001")[ORDER]
    assert close.min() - 0.01 <= table.loc["stacked", ORDER] <= close.max() + 0.01


@pytest.mark.slow
@pytest.mark.long
def test_skew_residuals_are_calibrated() -> None:
    laid_out = design(study(np.zeros(60) + np.arange(60) / 60).iloc[::2], "last_gain")
    simulator = by_weights(laid_out, total_sd=0.5, concentration=1.0, residuals=SKEW)
    check = calibration.calibrate(simulator, 100, seed=1).check()
    assert check.outcome == "passed", check.reason


def test_known_means_are_taken_as_they_are() -> None:
    laid_out = design(study(np.zeros(60)), "last_gain")
    y = np.random.default_rng(1).normal(size=60)
    draws = closed_form(laid_out, total_sd=0.5, seed=1, means=known(y, np.full(60, 1e-3)), residuals=NORMAL)
    assert draws["m"].mean(axis=(0, 1)) == pytest.approx(y, abs=0.01)
