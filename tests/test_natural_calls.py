"""Calls that people type who know other libraries: refused in words, with a line that runs; and
what a prompt shows."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit

RNG = np.random.default_rng(4)
DF = pd.DataFrame(
    {"model": [f"m{i}" for i in range(20)], "lab": ["a", "b"] * 10, "layers": range(10, 30)}
)
DF = DF.assign(gain=1 + 0.01 * DF["layers"] + RNG.normal(0, 0.01, 20))
REFUSED = {
    'thermostats.features(model_id="gpt2")': "did you mean model?",
    'thermostats.load("models", own=True)': "without own",
    'thermostats.load("models", revision="main")': "without revision",
    'thermostats.model_rows("pooled", estimand="last_gain")': "",
    'thermostats.join(df, datas="mine")': "did you mean data?",
    'thermostats.fit(df, lab="lab")': "without lab",
    'thermostats.fit_line(df, "gain", draws=500)': "without draws",
    'thermostats.fit_line(df, "gain", covariate="layers")': "did you mean covariates?",
    'thermostats.fit_heritage(df, family="gaussian")': "without family",
    "thermostats.fit_share(df)": '(df, "gain > 1", model="model", group="lab")',
    'thermostats.gain_rows(gain="last_gain")': "ESTIMAND",
    "thermostats.load_fit()": "PATH",
    'thermostats.fit_line("gain ~ layers", data=df)': '(df, "gain ~ layers")',
    'thermostats.fit_line(data=df, outcome="gain")': "did you mean table?",
    "thermostats.tree(df, length='equal')": "did you mean lengths?",
    "thermostats.forget()": "SOURCE",
    "thermostats.run_id()": "",
    "thermostats.claims(rule=True)": "",
    "line.summary(hdi_prob=0.9)": "did you mean level?",
    "line.conf_int(prob=0.9)": "did you mean level?",
    "line.predict()": "fit.predict(df)",
    "line.probability()": "STATEMENT",
    "line.plot(figsize=(3, 3))": "without figsize",
    "line.save()": "PATH",
    "line.loo(pointwise=True)": "without pointwise",
}


@pytest.fixture(scope="module")
def line() -> Fit:
    return thermostats.fit_line(DF, "gain", "layers", model="model", group="lab")


@pytest.mark.parametrize("call", REFUSED)
def test_a_call_with_other_arguments_is_refused_in_words(call: str, line: Fit) -> None:
    with pytest.raises(UsageError, match="cannot be called so") as refused:
        eval(call, {"thermostats": thermostats, "df": DF, "line": line})  # noqa: S307
    assert REFUSED[call] in refused.value.next_step
    function = call.split("(", maxsplit=1)[0].replace("line.", "fit.")
    assert f"{function}(" in refused.value.next_step


def test_a_formula_before_its_table_is_refused_with_the_call_that_runs() -> None:
    with pytest.raises(UsageError, match="not a table") as refused:
        thermostats.fit_line("gain ~ layers", DF)  # type: ignore[arg-type]
    assert refused.value.next_step == 'thermostats.fit_line(df, "gain ~ layers")'


def test_every_public_function_and_method_says_which_arguments_it_takes(line: Fit) -> None:
    functions = {
        name: getattr(thermostats, name) for name in thermostats.__all__ if name != "__version__"
    }
    fields = {field.name for field in dataclasses.fields(Fit)}
    methods = {
        name: getattr(line, name) for name in dir(Fit) if name[0] != "_" and name not in fields
    }
    for name, function in {**functions, **methods}.items():
        takes_any = inspect.isroutine(function) and any(
            each.kind is each.VAR_KEYWORD
            for each in inspect.signature(function).parameters.values()
        )
        if inspect.isroutine(function) and not takes_any:
            with pytest.raises(UsageError, match="no_such_argument"):
                function(no_such_argument=1)
        assert name != "fit_line" or pickle.loads(pickle.dumps(function)) is function  # noqa: S301


def test_lines_keep_what_was_asked_for(line: Fit) -> None:
    with pytest.raises(UsageError) as refused:
        thermostats.fit_line(DF, "gain", covariate=["layers"], model="model", group="lab", seed=3)  # type: ignore[call-arg]
    step = refused.value.next_step
    fit = eval(step[step.index("thermostats.") :], {"thermostats": thermostats, "df": DF})  # noqa: S307
    assert fit.seed == 3 and fit.params["slope on layers"] == pytest.approx(
        line.params["slope on layers"], abs=1e-3
    )


@pytest.mark.parametrize("name", ["quantities", "statements", "loo"])
def test_a_prompt_shows_lines_and_no_arrays(name: str, line: Fit) -> None:
    value: Any = getattr(line, name)
    shown = repr(value() if callable(value) else value)
    assert "array(" not in shown and "functools" not in shown and len(shown) < 600
    assert {"quantities": "slope on layers", "statements": "mean > 0", "loo": "elpd"}[name] in shown
    if name == "quantities":
        assert f"{line.quantities['mean'].mean():.4g}" in shown
