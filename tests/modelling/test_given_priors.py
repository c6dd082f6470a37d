"""Priors that a call gives: what is drawn with them, printed, saved, varied and refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from calibrated import FALSE_ALARM, ranks, uniform
from scipy import stats
from test_gaussian import small
from test_heritage import rows

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.heritage.law import list_bases
from thermostats.modelling.mixed_model import MixedDesign
from thermostats.modelling.positive import FAMILIES, PositivePrior

GIVEN: Mapping[str, Any] = {
    "intercept": stats.norm(0.2, 0.3),
    "total_sd": stats.gamma(3.0, scale=0.1),
    "shares": {"heritage": 3.0, "geometry": 0.7, "scale": 1.5, "model": 2.0},
}
OTHER: Mapping[str, Any] = {
    "intercept": 0.1,
    "total_sd": stats.lognorm(0.4, scale=0.6),
    "shares": stats.dirichlet([1.0, 4.0, 0.5, 1.0]),
}


def fit_given(priors: Mapping[str, Any] | None, **changed: Any) -> Fit:
    return thermostats.fit_heritage(rows(), estimand="last_gain", seed=3, priors=priors, **changed)


def test_priors_given_are_printed_everywhere(tmp_path: Path) -> None:
    fit = fit_given(GIVEN)
    words = {"α": "N(0.2, 0.3²)", "τ": "Gamma(3, rate 10)", "φ": "Dirichlet(3, 0.7, 1.5, 2)"}
    assert fit.priors.loc[list(words), "prior"].to_dict() == words
    assert set(fit.priors.loc[list(words), "reason"]) == {"as given"}
    assert [list(prior) for prior in fit.law.priors] == fit.summary().attrs["priors"]
    for symbol, text in words.items():
        assert f"{symbol} ~ {text}" in fit.law.equations[-1]
    again = thermostats.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.priors.equals(fit.priors)
    assert again.law.equations == fit.law.equations
    assert again.probabilities == fit.probabilities
    assert again.exclude_rows(np.arange(len(again.rows)) == 0).priors.equals(fit.priors)


def test_a_dirichlet_is_saved_too(tmp_path: Path) -> None:
    fit = fit_given(OTHER)
    again = thermostats.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.priors.loc["φ", "prior"] == "Dirichlet(1, 4, 0.5, 1)"
    assert again.priors.equals(fit.priors)


def test_priors_that_are_ours_give_our_fit() -> None:
    ours = fit_given(None)
    same = fit_given({"intercept": 1.0, "total_sd": stats.halfnorm(scale=0.5), "shares": 1.0})
    assert isinstance(ours.model, Gaussian) and isinstance(same.model, Gaussian)
    assert same.model.prior == ours.model.prior
    assert same.draws["scale"] == pytest.approx(ours.draws["scale"])
    assert ours.law.equations == same.law.equations[:-1]


def test_sensitivity_halves_and_doubles_what_was_given() -> None:
    fit = fit_given(GIVEN)
    model = fit.model
    assert isinstance(model, Gaussian)
    for words, factor in (("half", 0.5), ("twice", 2.0)):
        laws = fit.law.alternatives
        given = "the scale given of"
        of_mean = laws[f"{words} {given} intercept"].of(fit.rows).model
        of_total = laws[f"{words} {given} total_sd"].of(fit.rows).model
        of_shares = laws[f"{words} the concentrations given"].of(fit.rows).model
        assert all(isinstance(each, Gaussian) for each in (of_mean, of_total, of_shares))
        assert of_mean.sd == pytest.approx(factor * model.sd)
        assert of_mean.prior_mean == pytest.approx(model.prior_mean)
        assert of_mean.prior == model.prior
        assert of_total.prior == replace(model.prior, total=model.prior.total.rescale(factor))
        halved = tuple(factor * each for each in model.prior.concentrations)
        assert of_shares.prior == replace(model.prior, concentrations=halved)
    alternatives = set(fit.sensitivity()["alternative"])
    assert {f"half {given} intercept", f"twice {given} total_sd"} <= alternatives
    assert not any("given" in name for name in fit_given(None).law.alternatives)


def test_a_prior_about_another_mean_is_that_of_outcomes_moved_by_it() -> None:
    model = small(2)
    mean = np.array([0.7, -0.4])
    moved = replace(model, y=model.y + model.X @ mean, place=mean)
    theta = np.random.default_rng(1).normal(-1, 1, (50, 2))
    assert moved.log_density(theta) == pytest.approx(model.log_density(theta))
    mean[1] = 0.0  # outcomes of the same spread have the same proposals
    moved = replace(model, y=model.y + mean[0], place=mean)
    one, other = (each.sample(seed=4, settings=Settings(draws=200)) for each in (model, moved))
    close = 1e-4  # the modes that proposals are laid about end at other last digits
    assert other["beta"] - mean == pytest.approx(one["beta"], abs=close)
    assert moved.log_prior(other.few(50)) == pytest.approx(model.log_prior(one.few(50)), abs=close)
    drawn = moved.draw_prior(4000, np.random.default_rng(1))["beta"]
    assert np.abs((drawn.mean(axis=0) - mean) / model.sd).max() < 5 / 4000**0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_those_of_scipy_and_scale(family: str) -> None:
    shapes = {"Gamma": (2.5,), "log-normal": (0.7,)}.get(family, ())
    prior = PositivePrior(scale=0.4, family=family, shapes=shapes)
    x = np.array([0.01, 0.3, 1.0, 4.0])
    expected = getattr(stats, FAMILIES[family].scipy)(*shapes, scale=0.4)
    found = prior.log_kernel(2 * np.log(x)) + prior.log_constant
    assert found == pytest.approx(expected.logpdf(x))
    drawn = prior.draw((4000, 1), np.random.default_rng(1))[:, 0]
    assert stats.kstest(drawn, expected.cdf).pvalue > 0.001
    wide = prior.rescale(3.0)
    kernel = wide.log_kernel(2 * np.log(3 * x)) + wide.log_constant
    assert kernel == pytest.approx(found - np.log(3.0))


REFUSED = [
    ({"intercept": stats.t(3)}, "the prior of the intercept is normal"),
    ({"intercept": -1.0}, "no prior of the intercept"),
    ({"intercept": "wide"}, "no prior of the intercept"),
    ({"total_sd": stats.norm(0, 1)}, "a standard deviation lies above 0"),
    ({"total_sd": stats.halfnorm(1, 1)}, "a standard deviation lies above 0"),
    ({"total_sd": stats.uniform(0, 1)}, "no such prior of a standard deviation"),
    ({"total_sd": 0.0}, "no prior of a standard deviation"),
    ({"total_sd": True}, "no prior of a standard deviation"),
    ({"shares": {"depth": 1.0}}, "a share of no block of this fit"),
    ({"shares": {"family": 1.0}}, "a share of no block of this fit"),
    ({"shares": {"heritage": 0.0}}, "no prior of shares"),
    ({"shares": stats.dirichlet([1.0, 1.0])}, "a Dirichlet of 2 shares, where this fit has 4"),
    ({"totalsd": 0.3}, "no prior can be given of that"),
    ({"slopes": 0.3, "intercept": stats.norm(0, 2)}, "no prior can be given of that"),
]


@pytest.mark.parametrize(("priors", "words"), REFUSED)
def test_what_is_no_prior_is_refused_with_a_call_that_runs(
    priors: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        fit_given(priors)
    line = str(caught.value).split("Next: ")[1]
    names = {"thermostats": thermostats, "df": rows(), "scipy": scipy}
    assert isinstance(eval(line, names), Fit)  # noqa: S307


def build_by_hand(design: MixedDesign, case: str) -> Any:
    """The model in PyMC, with the priors of GIVEN or OTHER written out."""
    import pymc as pm

    gaussian = design.gaussian
    with pm.Model() as model:
        if case == "given":
            alpha = pm.Normal("alpha", 0.2, 0.3)
            tau = pm.Gamma("tau", alpha=3.0, beta=10.0)
            share = pm.Dirichlet("share", np.array([3.0, 0.7, 1.5, 2.0]))
        else:
            alpha = pm.Normal("alpha", 0.0, 0.1)
            tau = pm.LogNormal("tau", np.log(0.6), 0.4)
            share = pm.Dirichlet("share", np.array([1.0, 4.0, 0.5, 1.0]))
        scale = pm.Deterministic("scale", tau * pm.math.sqrt(share))
        mean = alpha
        for k, (name, columns) in enumerate(list_bases(design).items()):
            effects = scale[k] * pm.Normal(f"z_{name}", shape=columns.shape[1])
            mean = mean + pm.math.dot(columns, effects)
            if name == "heritage":
                pm.Deterministic("labs", pm.math.dot(columns, effects))
        freedom = gaussian.freedom
        assert freedom is not None
        chi2 = pm.ChiSquared("chi2", freedom, shape=gaussian.y.size)
        error = gaussian.error * pm.math.sqrt(freedom / chi2)
        pm.Normal("y", mean, pm.math.sqrt(scale[-1] ** 2 + error**2), observed=gaussian.y)
    return model


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "priors"), [("given", GIVEN), ("other", OTHER)])
def test_a_fit_with_priors_given_is_a_model_of_pymc_by_hand(
    case: str, priors: Mapping[str, Any]
) -> None:
    """Shares of its draws below quantiles of ours, in Monte-Carlo errors; lab effects too."""
    import arviz
    import pymc as pm

    fit = fit_given(priors)
    design = fit.designed(MixedDesign)
    with build_by_hand(design, case):
        options = {"chains": 4, "draws": 2000, "tune": 1000, "target_accept": 0.98}
        trace = pm.sample(nuts_sampler="nutpie", random_seed=5, progressbar=False, **options)
    theirs = {name: np.asarray(trace.posterior[name]) for name in ("alpha", "scale", "labs")}
    labs = fit.effects("lab")
    first = [list(design.effects["u_heritage"].codes).index(k) for k in range(len(labs.names))]
    ours = {"alpha": fit.draws["beta"], "scale": fit.draws["scale"], "labs": labs.draws}
    theirs["alpha"] = theirs["alpha"][..., None]
    theirs["labs"] = theirs["labs"][..., first]
    off = []
    for name, drawn in ours.items():
        for k in range(drawn.shape[-1]):
            for q in QUANTILES:
                below = (theirs[name][..., k] < np.quantile(drawn[..., k], q)).astype(float)
                size = float(arviz.ess(below, method="mean"))
                error = (q * (1 - q) * (1 / size + 1 / fit.draws.effective)) ** 0.5
                off.append((below.mean() - q) / error)
    assert np.abs(off).max() < stats.norm.isf(FALSE_ALARM / len(off) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("priors", [GIVEN, OTHER])
def test_posteriors_under_priors_given_are_calibrated(priors: Mapping[str, Any]) -> None:
    model = fit_given(priors).model
    assert isinstance(model, Gaussian)

    def read_values(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        total = np.square(values["scale"]).sum(axis=-1)
        shares = np.square(values["scale"]) / total[..., None]
        return {
            "intercept": values["beta"][..., 0],
            "total": np.sqrt(total),
            **{f"share {k}": shares[..., k] for k in range(shares.shape[-1])},
            "lab": values["u_heritage"][..., 0],
        }

    found = ranks(model, read_values, 200, seed=11, settings=Settings(draws=100))
    worst = min(uniform(rank) for rank in found.values())
    assert worst > FALSE_ALARM / len(found)
