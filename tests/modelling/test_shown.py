"""A fit at a prompt, in a notebook and in ArviZ; its figures, its gate, and a copy that was pickled."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import arviz
import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES
from matplotlib.figure import Figure

from thermostats import fit_heritage, fit_line, fit_share, options
from thermostats.choices import at_level
from thermostats.errors import UsageError
from thermostats.modelling.inference import shown
from thermostats.modelling.inference.fitted import Deferred, Fitted

LONG = "a lab whose name is so long that no figure of the usual width has room for it and the one beside it"


def table(n: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    labs = np.array([LONG, "B", "C", "D"])[np.arange(n) % 4]
    gain = np.exp(0.1 * rng.normal(size=n))
    facts = {"n_layers": rng.integers(6, 40, n), "n_heads": rng.integers(4, 40, n), "d_head": 64}
    return pd.DataFrame(
        {"model_id": [f"m{i}" for i in range(n)], "heritage": labs, "family": "", "gain": gain, "gain_sd": 0.02 * gain}
        | facts
        | {"n_params": rng.integers(10**7, 10**9, n), "n_prompts": 25, "prompt_id": "", "category": ""}
    ).assign(log_gain=np.log(gain), dampens=gain < 1, outcome=np.log(gain), source="made up")


@pytest.fixture(scope="module", params=["line", "share", "heritage"])
def fit(request: pytest.FixtureRequest) -> Fitted:
    rows = table()
    if request.param == "line":
        return fit_line(rows, "log_gain", ["n_layers"], scale=0.5)
    if request.param == "share":
        return fit_share(rows, "dampens")
    return fit_heritage(rows, estimand="penultimate_gain", seed=1, method="closed form")


def test_at_a_prompt_it_is_ten_lines_at_most(fit: Fitted) -> None:
    lines = repr(replace(fit, warnings=("w" * 300,) * 3)).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"{fit.family} fit of {fit.estimand}: 24 models of 4 labs, passed")
    first = fit.summary().iloc[0]
    assert lines[1].startswith(f"  {first['quantity']}: ")
    assert "3 warnings" in repr(replace(fit, warnings=("x",) * 3))


def test_in_a_notebook_it_is_a_table(fit: Fitted) -> None:
    html = replace(fit, warnings=("<b>",))._repr_html_()
    assert html.count("<tr") == 1 + min(len(fit.summary()), shown.MOST_ROWS)
    assert "&lt;b&gt;" in html


def test_the_gate_is_a_table_and_is_kept(fit: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = fit.check()
    monkeypatch.setattr("thermostats.modelling.inference.fitted.checks_of", None)  # computed anew, this would fail
    assert repr(fit.check()) == repr(gate)
    assert len(repr(gate).splitlines()) == 1 + len(gate.checks)
    assert gate._repr_html_().count("<tr") == 1 + len(gate.table())


def test_a_pickled_fit_has_its_numbers_checks_and_figures(fit: Fitted) -> None:
    copy = pickle.loads(pickle.dumps(fit))  # noqa: S301 (made here)
    assert type(copy) is type(fit)
    pd.testing.assert_frame_equal(copy.summary(), fit.summary())
    assert repr(copy.check(seed=5)) == repr(fit.check(seed=5))
    assert copy.plot().get_xlabel() == fit.plot().get_xlabel()


@pytest.mark.parametrize("kind", list(shown.KINDS))
def test_no_label_is_clipped(fit: Fitted, kind: str) -> None:
    figure = fit.plot(kind=kind).figure
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.01


def test_a_figure_that_is_none_is_refused(fit: Fitted) -> None:
    with pytest.raises(UsageError, match="did you mean prior"):
        fit.plot(kind="priors")


def test_panels_of_a_family_are_kinds_too() -> None:
    own = fit_heritage(table(), estimand="penultimate_gain", seed=1, method="closed form")
    assert own.plot(kind="labs").get_xlabel()


def test_arviz_has_all_groups_with_named_coordinates(fit: Fitted) -> None:
    found: Any = fit.to_arviz()
    part = next(iter(fit.parts.values()))
    for group in ("posterior", "prior", "prior_predictive", "posterior_predictive", "log_likelihood", "observed_data"):
        assert len(found[group].data_vars), group
    outcome = found["observed_data"]["outcome"]
    assert np.array_equal(outcome.to_numpy(), part.observed)
    for name, drawn in fit.quantities.items():
        assert np.array_equal(found["posterior"][name].to_numpy(), drawn), name
    (unit,) = outcome.dims
    assert found["log_likelihood"]["outcome"].dims == ("chain", "draw", unit)
    expected = {"line": ("model_id", "m0"), "share": ("lab", "B"), "heritage": ("model_id", "m0")}[fit.family]
    assert (unit, str(outcome[unit].to_numpy()[0])) == expected
    loo = arviz.loo(found)
    elpd = float(loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd)
    assert elpd < float(np.log(np.exp(part.density()).mean(axis=0)).sum())
    assert len(arviz.summary(found)) >= len(fit.summary())
    assert arviz.plot_forest(found) is not None


NEW = ("invariance", "benchmark", "slopes", "means")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("heritage", *NEW)])
def test_every_outcome_and_coefficient_is_named(name: str) -> None:
    fit = CASES[name].fit(CASES[name].good(10, 4))
    for part in fit.parts:
        found = fit.to_arviz(part)
        outcome = found["observed_data"]["outcome"]
        [unit] = outcome.dims
        names = [str(name) for name in outcome[unit].to_numpy()]
        assert len(set(names)) == len(names) and not names[0].isdigit()
        about = {"share": {"lab"}}.get(name, {"model_id", "lab"})
        assert set(outcome.coords) == set(found["log_likelihood"]["outcome"].coords) - {"chain", "draw"} == about
        if found["posterior"].get("beta", outcome).dims[2:]:
            assert str(found["posterior"]["beta"]["beta_of"].to_numpy()[0]) == "intercept"


def test_a_level_reaches_the_tables_of_a_fit_and_stays_with_it() -> None:
    with at_level(0.5):
        narrow = CASES["spectral"].fit(CASES["spectral"].good(12, 4))
    wide = CASES["spectral"].fit(CASES["spectral"].good(12, 4))
    width = [fit.table("left_out").eval("upper - lower").mean() for fit in (narrow, wide)]
    assert width[0] < 0.6 * width[1]
    lazily = replace(narrow, tables=Deferred({"level": lambda: pd.DataFrame({"level": [options.level]})}))
    assert lazily.table("level")["level"].tolist() == [0.5]


def test_a_part_that_is_none_is_refused(fit: Fitted) -> None:
    with pytest.raises(UsageError, match="no such part"):
        fit.to_arviz("nothing")
