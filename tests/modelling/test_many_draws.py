"""Densities, replicates and deterministics of a PyMC model for many draws at once; a gate that
refits nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import thermostats
from thermostats.modelling import checks, sampling
from thermostats.modelling.draws import Draws, Settings, check_chains
from thermostats.modelling.fit import Fit
from thermostats.modelling.laws import build_own_law
from thermostats.modelling.sampling import Sampled

SIZE, N = 50, 7
RNG = np.random.default_rng(1)
VALUES = {
    "mu": RNG.normal(size=SIZE),
    "effect": RNG.normal(size=(SIZE, 3)),
    "sigma": 0.5 + RNG.random(SIZE),
}
GROUP = np.arange(N) % 3


def levels(data):
    import pymc as pm

    mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
    effect = pm.Normal("effect", 0, 2, shape=3)
    mean = pm.Deterministic("mean", mu + effect[data["group"]])
    pm.StudentT("y", nu=4, mu=mean, sigma=sigma, observed=data["y_observed"])


def counts(data):
    import pymc as pm

    pm.Binomial(
        "y", data["n"], logit_p=pm.Normal("mu") + 0 * data["n"], observed=data["y_observed"]
    )


MODEL = Sampled(
    declare=levels,
    data={"group": GROUP, "y_observed": RNG.normal(size=N)},
    per_row=("group", "y_observed"),
)


def test_densities_of_every_draw_are_those_of_scipy() -> None:
    mean = VALUES["mu"][:, None] + VALUES["effect"][:, GROUP]
    density = stats.t(4, mean, VALUES["sigma"][:, None]).logpdf(MODEL.observed)
    assert MODEL.log_likelihood(VALUES) == pytest.approx(density, rel=1e-8)
    prior = stats.norm.logpdf(VALUES["mu"]) + stats.halfnorm.logpdf(VALUES["sigma"])
    assert MODEL.log_prior(VALUES) == pytest.approx(prior, rel=1e-8)
    with_effects = replace(MODEL, priors=("effect",)).log_prior(VALUES)
    assert with_effects == pytest.approx(
        prior + stats.norm(0, 2).logpdf(VALUES["effect"]).sum(axis=1), rel=1e-8
    )


def test_a_density_keeps_its_digits_where_a_probability_is_nearly_one() -> None:
    model = Sampled(
        declare=counts, data={"n": np.array([9, 9]), "y_observed": np.array([9.0, 8.0])}
    )
    logit = np.array([-30.0, 0.3, 30.0])
    density = model.log_likelihood({"mu": logit})
    log_p, log_q = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    assert density == pytest.approx(
        np.column_stack([9 * log_p, np.log(9) + 8 * log_p + log_q]), rel=1e-9
    )


def test_parts_give_what_all_draws_give_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, again = MODEL.log_likelihood(VALUES), MODEL.replicate(VALUES, np.random.default_rng(3))
    monkeypatch.setattr(sampling, "NUMBERS", 5 * N)
    assert np.array_equal(MODEL.log_likelihood(VALUES), whole)
    parts = MODEL.replicate(VALUES, np.random.default_rng(3))
    assert parts == pytest.approx(again)
    assert len(np.unique(parts)) == parts.size


def test_replicates_have_the_distribution_of_every_draw() -> None:
    few = {name: np.repeat(values[:2], 4000, axis=0) for name, values in VALUES.items()}
    made = MODEL.replicate(few, np.random.default_rng(1)).reshape(2, 4000, N)
    for draw in range(2):
        for row in range(N):
            mean = VALUES["mu"][draw] + VALUES["effect"][draw, GROUP[row]]
            assert (
                stats.kstest(made[draw, :, row], stats.t(4, mean, VALUES["sigma"][draw]).cdf).pvalue
                > 1e-4
            )


def test_counts_are_replicated_with_their_trials() -> None:
    model = Sampled(
        declare=counts, data={"n": np.array([5, 50]), "y_observed": np.array([2.0, 20.0])}
    )
    made = model.replicate({"mu": np.full(4000, 0.4)}, np.random.default_rng(1))
    assert made.mean(axis=0) == pytest.approx(expit(0.4) * np.array([5, 50]), rel=0.03)


def test_a_deterministic_by_row_is_computed_of_the_draws() -> None:
    chains = {
        name: values.reshape(2, SIZE // 2, *values.shape[1:]) for name, values in VALUES.items()
    }
    made = sampling.compute_row_quantities(
        MODEL.structure.model,
        thermostats.modelling.draws.build_arviz({"posterior": chains}, {}, {})["posterior"],
    )
    mean = VALUES["mu"][:, None] + VALUES["effect"][:, GROUP]
    assert made["mean"].reshape(SIZE, N) == pytest.approx(mean)


def fitted(shift: float = 0.0) -> Fit:
    """A fit of which every draw is that of a normal prior, its second chain off by `shift`."""
    rng = np.random.default_rng(2)
    values = {
        "mu": rng.normal(size=(2, 500)),
        "effect": rng.normal(size=(2, 500, 3)),
        "sigma": 0.5 + rng.random((2, 500)),
    }
    values["mu"][1] += shift
    table, effective = check_chains(values, rng.normal(size=(2, 500)), 0)
    draws = Draws(
        values=values, diagnostics=table, engine="nutpie", settings=Settings(), effective=effective
    )
    law = build_own_law(levels, per_row=["group"], statements={"up": lambda q: q["mu"] > 0})
    rows = pd.DataFrame({"group": GROUP, "y": np.append(MODEL.observed[:-1], 9.0)})
    return Fit(law=law, rows=rows, design=law.of(rows), drawn=draws)


def never(*args: object, **more: object) -> None:
    raise AssertionError("fitted again")


def test_a_gate_without_refits_fits_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampled, "sample", never)
    fit = fitted()
    gate = fit.check(refits=False)
    pit = next(check for check in gate.checks if check.name == "LOO-PIT")
    assert "of 7 outcomes cannot be trusted" in pit.reason and len(pit.table) == N
    with pytest.raises(AssertionError, match="fitted again"):
        fit.loo()


def test_no_outcome_is_left_out_of_draws_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampled, "sample", never)
    fit = fitted(shift=9.0)
    monkeypatch.setattr(Fit, "loo", never)
    gate = fit.check(refits=True)
    assert gate.checks[0].outcome == checks.FAILED and not gate.passes
    pit = next(check for check in gate.checks if check.name == "LOO-PIT")
    assert (pit.outcome, pit.reason) == (checks.WARNED, "not asked, since the draws failed")
