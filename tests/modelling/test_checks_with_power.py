"""Checks notice a wrong model, and leave a right one alone; the worlds are those of
benchmarks/alarms.py."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from calibrated import FALSE_ALARM
from scipy import stats

from thermostats.modelling import checks, regressors
from thermostats.modelling.regressors import Regressors

ROOT = Path(__file__).parents[2]
FAILS, WARNS = 0.02, 0.10
ALL = {**regressors.CLOSING, **regressors.WARNING}


@pytest.fixture(scope="module")
def alarms() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module("alarms")


def design(n: int = 40, labs: int = 5, seed: int = 0) -> Regressors:
    rng = np.random.default_rng(seed)
    return Regressors(x=rng.standard_normal((n, 2)), groups=np.sort(np.arange(n) % labs))


def test_statistics_are_those_of_textbooks() -> None:
    """F tests by sums of squares of two least-squares fits, Levene's by SciPy, skew and kurtosis by
    SciPy."""
    d, y = design(), np.random.default_rng(1).standard_normal(40)
    values = {
        name: float(statistic(y[None])[0])
        for name, statistic in regressors.build_statistics(d, ALL).items()
    }
    labs = np.eye(5)[d.groups]
    plain = np.column_stack([labs, d.x])

    def squares(columns: np.ndarray) -> float:
        return float(np.square(y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]).sum())

    rest = squares(plain)
    assert values["slopes by group"] == pytest.approx(
        1 - squares(np.column_stack([plain, labs * d.x[:, :1]])) / rest
    )
    curved = [1 - squares(np.column_stack([plain, x**2])) / rest for x in d.x.T]
    assert values["curvature"] == pytest.approx(max(curved))
    r = y - plain @ np.linalg.lstsq(plain, y, rcond=None)[0]
    leverage = np.diag(plain @ np.linalg.pinv(plain))
    scaled = r / np.sqrt((1 - leverage) * rest / (40 - 7))
    assert values["largest residual"] == pytest.approx(np.abs(scaled).max())
    assert values["skew of residuals"] == pytest.approx(abs(stats.skew(r)))
    assert values["two heaps of residuals"] == pytest.approx(-stats.kurtosis(r, fisher=False))
    along = [abs(stats.spearmanr(np.abs(scaled), x).statistic) for x in d.x.T]
    assert values["spread along a covariate"] == pytest.approx(max(along))
    size = pd.Series(np.abs(scaled)).groupby(d.groups)
    between = (size.size() * (size.mean() - np.abs(scaled).mean()) ** 2).sum() / np.abs(
        scaled
    ).mean() ** 2
    assert values["spread by group"] == pytest.approx(between)


@pytest.mark.slow
def test_limits_hold_for_all_statistics_together() -> None:
    """Replicated and observed data from one distribution: blamed as often as the level says."""
    d, rng = design(), np.random.default_rng(5)
    statistics = {"mean": lambda y: y.mean(axis=-1), "share": lambda y: (y > 0).mean(axis=-1)}
    statistics |= regressors.build_statistics(d, ALL)
    blamed = []
    for _ in range(400):
        y = rng.standard_normal((501, 40))
        check = checks.check_replicates(
            "any", y[1:], y[0], statistics, outcome=checks.WARNED, level=0.1
        )
        assert (check.outcome == checks.WARNED) == (check.table["joint"].min() < 0.1)
        blamed.append(check.outcome == checks.WARNED)
    low, high = (
        stats.binom.ppf(FALSE_ALARM / 2, 400, 0.1),
        stats.binom.isf(FALSE_ALARM / 2, 400, 0.1),
    )
    assert low <= sum(blamed) <= high


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["line", "heritage"])
def test_a_right_model_is_left_alone(alarms: Any, fit: str) -> None:
    """It fails and warns in no more of four data sets than the declared rates allow."""
    gates = [checked(alarms, fit, alarms.RIGHT_MODEL, seed) for seed in range(4)]
    assert sum(not gate.passes for gate in gates) <= stats.binom.isf(FALSE_ALARM, 4, FAILS)
    assert sum(bool(gate.reasons) for gate in gates) <= stats.binom.isf(
        FALSE_ALARM, 4, FAILS + WARNS
    )


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["line", "heritage"])
def test_every_wrongness_at_twice_its_size_is_noticed(alarms: Any, fit: str) -> None:
    """In nine data sets of ten or more: it is missed in four one after the other once in ten
    thousand times at most."""
    for kind in alarms.KINDS:
        if kind != alarms.RIGHT_MODEL:
            assert any(checked(alarms, fit, kind, seed).reasons for seed in range(4)), kind
    in_per_cent = checked(alarms, fit, alarms.UNIT, 0)
    assert "in the unit that the prior is stated for" in " ".join(in_per_cent.reasons)


def checked(alarms: Any, fit: str, kind: str, seed: int) -> checks.Gate:
    return alarms.FITS[fit](alarms.world(kind, 160, 20, seed, size=2.0)).check(refits=False)


def test_the_rates_that_ship_keep_what_is_promised(alarms: Any) -> None:
    """A right model fails in 2% and warns in 10% of data sets at most, by binomial bounds of the
    counts that ship."""
    table = pd.read_csv(alarms.RESULTS)
    assert list(dict.fromkeys(table["wrong"])) == list(alarms.KINDS)
    right = table[(table["wrong"] == alarms.RIGHT_MODEL) & (table["check"] == "any")]
    assert len(right) == len(alarms.FITS) * len(alarms.DESIGNS)
    for row in right.itertuples():
        for count, rate in ((row.failed, FAILS), (row.warned, WARNS)):
            assert count <= stats.binom.isf(FALSE_ALARM, row.data_sets, rate), row


def test_limits_of_the_line_are_what_they_are_set_for(alarms: Any) -> None:
    table = pd.read_csv(alarms.LIMITS)
    assert list(table["design"]) == list(alarms.DESIGNS)
    for row in table.itertuples():
        tail = FALSE_ALARM / 2
        low, high = (
            stats.binom.ppf(tail, row.data_sets, FAILS),
            stats.binom.isf(tail, row.data_sets, FAILS),
        )
        assert low <= row.failed <= high, row


def test_spread_along_a_covariate_is_noticed_by_the_statistic_that_is_there_for_it() -> None:
    """160 models, SD that grows e^0.9-fold over one SD: the statistic is beyond all of 500
    replicates."""
    d, rng = design(160, 8), np.random.default_rng(2)
    statistic = regressors.build_statistics(d, ALL)["spread along a covariate"]
    replicates = statistic(rng.standard_normal((500, 160)))
    growing = np.exp(0.9 * d.x[:, 1]) * rng.standard_normal(160)
    assert statistic(growing[None])[0] > replicates.max()
    assert (
        abs((statistic(rng.standard_normal((500, 160))) > np.median(replicates)).mean() - 0.5) < 0.1
    )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fit", ["heritage", "line"])
def test_rates(alarms: Any, fit: str) -> None:
    """On new data sets of the larger design: false alarms as promised, and what ships is found
    again."""
    table = pd.read_csv(alarms.RESULTS)
    design = "60 models of 20 labs"
    ships = table[
        (table["fit"] == fit) & (table["design"] == design) & (table["check"] == "any")
    ].set_index("wrong")
    for kind in alarms.KINDS:
        size = 150 if kind == alarms.RIGHT_MODEL else 40
        gates = [
            alarms.FITS[fit](alarms.world(kind, *alarms.DESIGNS[design][:2], 10_000 + seed)).check(
                refits=False
            )
            for seed in range(size)
        ]
        noticed, failed = (
            sum(bool(gate.reasons) for gate in gates),
            sum(not gate.passes for gate in gates),
        )
        before = ships.loc[kind]
        counts = [[noticed, size - noticed], [before["warned"] + before["failed"], 0]]
        counts[1][1] = before["data_sets"] - counts[1][0]
        assert stats.fisher_exact(counts).pvalue > FALSE_ALARM / len(alarms.KINDS), kind
        if kind == alarms.RIGHT_MODEL:
            assert failed <= stats.binom.isf(FALSE_ALARM, size, FAILS)
            assert noticed <= stats.binom.isf(FALSE_ALARM, size, FAILS + WARNS)
