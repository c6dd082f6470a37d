"""What becomes of a statement without each unit, by weights of the draws at hand: as refits have
it."""

import numpy as np
import pandas as pd
import pytest
from test_against_nuts import LAWS

from thermostats.modelling import gaussian
from thermostats.modelling.checks import check_influence, measure_unit_influence
from thermostats.modelling.draws import Settings
from thermostats.modelling.leave_out import list_units

ERRORS = 4.5
"""Monte-Carlo errors; some hundred probabilities are compared."""


@pytest.mark.parametrize("law", ["line", "spectral", "crowding", "heritage"])
def test_probabilities_without_units_are_those_of_refits(law: str) -> None:
    """Errors that are estimates too (heritage), and levels that vanish with their unit."""
    fit = LAWS[law](np.random.default_rng(1))
    units, weighted = list(list_units(fit.rows, fit.law.units)), 0
    for name, out in units:
        refit, light = fit.exclude_rows(out), fit.exclude_rows(out, refit=False)
        weighted += not np.isfinite(light.draws.log_evidence)
        for statement in fit.law.statements:
            p, q = refit.probability(statement), light.probability(statement)
            sd = max(p * (1 - p), 0.01) ** 0.5
            error = sd * (1 / refit.draws.effective + 1 / light.draws.effective) ** 0.5
            assert abs(p - q) < ERRORS * error, (name, statement, p, q)
    assert weighted >= 0.8 * len(units)


def test_where_weights_cannot_be_trusted_the_rest_is_fitted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = LAWS["line"](np.random.default_rng(1))
    [(_, out), *_] = list_units(fit.rows, fit.law.units)
    monkeypatch.setattr(gaussian, "PARETO_LIMIT", -1e9)
    assert np.array_equal(
        fit.exclude_rows(out, refit=False).draws["beta"], fit.exclude_rows(out).draws["beta"]
    )


def test_a_model_of_other_scales_has_no_draws_of_these() -> None:
    rng = np.random.default_rng(1)
    one, two = LAWS["line"](rng), LAWS["two levels"](rng)
    every = np.ones(20, dtype=bool)
    assert two.model.reweighted(one.draws, one.model, every, seed=1, size=100) is None
    wider = one.law.alternatives["twice the prior scales"].of(one.rows).model
    assert wider.reweighted(one.draws, one.model, every, seed=1, size=100) is None


def test_draws_of_the_same_rows_are_these() -> None:
    fit = LAWS["line"](np.random.default_rng(1))
    same = fit.model.reweighted(fit.draws, fit.model, np.ones(20, dtype=bool), seed=1, size=4000)
    assert same is not None and same.effective == pytest.approx(4000)
    assert same["beta"].mean(axis=(0, 1)) == pytest.approx(
        fit.draws["beta"].mean(axis=(0, 1)), abs=0.02
    )
    assert same["scale"].std(axis=(0, 1)) == pytest.approx(
        fit.draws["scale"].std(axis=(0, 1)), rel=0.05
    )


def test_refits_are_few_where_nothing_is_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, sampled = LAWS["crowding"](np.random.default_rng(1)), list[int]()
    sample = gaussian.Gaussian.sample

    def counted(self: gaussian.Gaussian, *, seed: int, settings: Settings = Settings()):  # noqa: B008
        sampled.append(1)
        return sample(self, seed=seed, settings=settings)

    monkeypatch.setattr(gaussian.Gaussian, "sample", counted)
    table = measure_unit_influence(fit, fit.law.statements)
    assert len(sampled) <= 0.2 * table["left_out"].nunique()


@pytest.mark.parametrize(
    ("units", "said"), [("aa", "hangs on one unit: "), ("ab", "hangs on each of these units: ")]
)
def test_statements_that_hang_on_one_unit_are_said_to_hang_on_one(units: str, said: str) -> None:
    rows = []
    for statement, unit in zip(("x > 0", "y > 0"), units, strict=True):
        rows += [(statement, "nothing", 0.99), (statement, unit, 0.5)]
    table = pd.DataFrame(rows, columns=["statement", "left_out", "probability"])
    assert check_influence(table).reason.startswith(said)
