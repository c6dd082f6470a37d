"""Every fit and every bad table: an error that says what is wrong, or a warning in the result,
never a silent number.

`bad_inputs.EXPECTED` is the whole table, fit × bad input. Warnings are asked of the rows that a fit
takes, which needs no sampler; that a result holds them is shown once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, get_type_hints

import pandas as pd
import pytest
from bad_inputs import BAD, CASES, EXPECTED, GAIN, REFUSED, SAID, TAKEN, gains, prompted
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pasted import ReachedSamplerError, one_fault

from thermostats import modelling
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.lines import fit_line
from thermostats.modelling.sampling import Sampled

CHECKS = [
    "prior predictive",
    "posterior predictive",
    "shape",
    "LOO-PIT",
    "prior sensitivity",
    "influence",
]
SAMPLED = {"share"}
"""Fits by chains, whose model is compiled first."""
ASKED = [
    pytest.param(fit, bad, marks=[pytest.mark.slow] * (fit in SAMPLED and row[bad][0] == SAID))
    for fit, row in EXPECTED.items()
    for bad in row
]


def test_the_table_is_whole() -> None:
    for fit, case in CASES.items():
        named = set(EXPECTED[fit]) | {bad for other, bad in TAKEN if other == fit}
        without = (set() if case.geometry else {"geometry not known", "constant geometry"}) | (
            set() if case.copied else {"rank-deficient"}
        )
        if fit == "share":
            without |= {"infinite gain"}
        assert named == set(BAD) - without, fit


def stop(*_args: object, **_kwargs: object) -> None:
    raise ReachedSamplerError


@one_fault
@pytest.mark.parametrize(("fit", "bad"), ASKED)
def test_bad_input_is_refused_or_said(fit: str, bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, (what, words) = CASES[fit], EXPECTED[fit][bad]
    table = BAD[bad](case)
    if what == REFUSED:
        for engine in (Sampled, Gaussian, Mixture):
            monkeypatch.setattr(engine, "sample", stop)
        with pytest.raises(UsageError) as raised:
            case.fit(table)
        assert words in str(raised.value)
        return
    warnings = case.warnings(table) if case.warnings else case.fit(table).warnings
    assert [said for said in warnings if words in said], warnings


DOUBTFUL = {"spectral": "gain not known", "slopes": "two models"}


@pytest.mark.parametrize("fit", DOUBTFUL)
def test_what_is_said_of_rows_is_in_the_result_and_in_what_is_written(fit: str) -> None:
    table = BAD[DOUBTFUL[fit]](CASES[fit])
    result, said = CASES[fit].fit(table), tuple(CASES[fit].warnings(table))
    assert said and set(said) <= set(result.warnings)
    assert set(said) <= set(result.to_dict()["warnings"])


@pytest.mark.parametrize(
    ("fit", "words"), [("benchmark", "1000 models × 25 prompts"), ("slopes", "1000 models × 25")]
)
def test_a_thousand_models_are_too_many_to_compare_one_by_one(fit: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        CASES[fit].fit(prompted(1000, 100))


def half_way(table: pd.DataFrame) -> pd.DataFrame:
    """L* in the middle of every network."""
    return table.assign(n_layers=[12, 24, 36] * 4, L_star_peak=[6, 12, 18] * 4)


SENTENCES = {
    "a prompt without its partner": (
        "invariance",
        lambda t: t[~((t["model_id"] == "t0") & (t["prompt_id"] == "p00"))],
        "prompts that one model of a pair did not answer, left out: 1 of 5 in b0 → t0",
    ),
    "a model without a partner": (
        "invariance",
        lambda t: t[t["model_id"] != "t2"],
        "left out, since no model tuned from it is in the table: b2",
    ),
    "cells without entropy": (
        "slopes",
        lambda t: t.assign(entropy=t["entropy"].where(t["model_id"] != "m1")),
        "25 of 300 cells have no entropy and carry no information on slopes",
    ),
    "a network in two files": (
        "transition",
        lambda t: pd.concat([t, t.head(1).assign(source="another file")]),
        "several rows, so their mean is used: m0",
    ),
    "one place in every network": ("transition", half_way, "L*/L is the same in every network"),
}


@pytest.mark.parametrize("bad", SENTENCES)
def test_what_is_odd_in_rows_is_said_and_of_good_rows_is_not(bad: str) -> None:
    fit, spoil, words = SENTENCES[bad]
    case = CASES[fit]
    good = case.good(12, 4)
    assert [said for said in case.warnings(spoil(good)) if words in said]
    assert not [said for said in case.warnings(good) if words in said]


def test_errors_below_zero_are_refused() -> None:
    with pytest.raises(UsageError, match="standard error below 0"):
        fit_line(gains(12, 4).assign(e=-0.1), GAIN, scale=0.5, se="e", seed=1)


def fits() -> dict[str, Callable[..., Any]]:
    """Every `fit_…` of the package that fits a table, by the name that it has."""
    modules = [
        import_module(info.name)
        for info in walk_packages(modelling.__path__, "thermostats.modelling.")
    ]
    named = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("fit_")
    }
    return {
        name: value
        for name, value in named.items()
        if get_type_hints(value)["return"] is Fit and name == value.__name__
    }


def test_every_fit_is_in_the_table_and_gives_the_same_record() -> None:
    of_tables = {name.removeprefix("fit_") for name in fits()} - {
        "lineage"
    }  # takes a tree: test_lineage
    assert of_tables == set(CASES) == set(EXPECTED)


@pytest.mark.parametrize(
    "fit", ["heritage", "crowding", "threshold", "spectral", "sources", "line"]
)
def test_gains_beyond_the_prior_are_asked_about(fit: str) -> None:
    """Gains in per cent: outcomes that the prior hardly gives are said to be."""
    case = CASES[fit]
    table = case.good(12, 4)
    gate = case.fit(table.assign(**{case.gain: 100 * table[case.gain]})).check(refits=False)
    assert "the prior hardly gives such mean" in " ".join(gate.reasons)


@pytest.mark.parametrize("fit", ["heritage", pytest.param("share", marks=pytest.mark.slow)])
def test_checks_and_figures_are_the_same_everywhere(fit: str) -> None:
    result = CASES[fit].fit(CASES[fit].good(12, 4))
    first = "sampler" if fit == "share" else "importance weights"
    assert [check.name for check in result.check().checks] == [first, *CHECKS]
    axes = Figure().subplots()
    assert result.plot(axes=axes) is axes
    assert isinstance(result.plot(), Axes) and result.plot("intervals").has_data()
