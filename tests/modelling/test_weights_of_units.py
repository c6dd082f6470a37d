"""What becomes of a statement without each unit, by weights of the draws at hand: as refits have
it."""

import numpy as np
import pandas as pd
import pytest
from test_against_nuts import LAWS

from thermostats.errors import UsageError
from thermostats.modelling import gaussian
from thermostats.modelling.checks import check_influence
from thermostats.modelling.draws import Settings
from thermostats.modelling.fitted_law import measure_unit_influence
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


def test_the_first_statement_is_said_with_the_unit_that_moves_it_most() -> None:
    """Whether or not it, or another statement, is said to hang on a unit."""
    rows = [("x > 0", "nothing", 0.992), ("x > 0", "a", 0.95), ("x > 0", "b", 0.846)]
    others = [("y > 0", "nothing", 0.96), ("y > 0", "a", 0.7), ("y > 0", "b", 0.96)]
    columns = ["statement", "left_out", "probability"]
    said = "P(x > 0) is 0.992, and 0.846 without “b”"
    passed = check_influence(pd.DataFrame(rows, columns=columns))
    assert (passed.outcome, passed.reason) == ("passed", f"no unit carries it alone; {said}")
    warned = check_influence(pd.DataFrame(rows + others, columns=columns))
    assert warned.outcome == "warned"
    assert warned.reason == f"hangs on one unit: P(y > 0) = 0.96, 0.70 without “a”; {said}"
    hangs = check_influence(pd.DataFrame([*rows, ("x > 0", "c", 0.7)], columns=columns))
    assert hangs.reason == "hangs on one unit: P(x > 0) = 0.99, 0.70 without “c”"
    alone = check_influence(pd.DataFrame(rows[:1], columns=columns))
    assert alone.reason == "no unit carries it alone"
    nothing = check_influence(pd.DataFrame(columns=columns))
    assert nothing.reason == "no unit carries it alone"


def test_statements_without_each_unit_are_a_table_of_every_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of the check, of the same refits."""
    fit = LAWS["line"](np.random.default_rng(1))
    last = fit.check().checks[-1]
    monkeypatch.setattr(type(fit), "exclude_rows", None)  # nothing is fitted again
    pd.testing.assert_frame_equal(fit.table("influence"), last.table)


def test_a_table_without_a_name_is_refused_with_one_that_is_there() -> None:
    fit = LAWS["line"](np.random.default_rng(1))
    with pytest.raises(UsageError) as refused:
        fit.table()
    assert refused.value.next_step == 'fit.table("rows")'
    assert len(eval(refused.value.next_step, {"fit": fit})) == len(fit.rows)  # noqa: S307
