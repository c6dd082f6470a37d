"""The first hour: calls that a user types run, and the others are refused with a line that works
when pasted."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from calls import NAMED, OURS, REFUSED, RUN

import thermostats
from thermostats.errors import ThermostatsError


def own_table() -> pd.DataFrame:
    """Fifteen models of five labs; labs move the log gain by 0.1, what is left by 0.02."""
    rng, labs = np.random.default_rng(1), np.repeat(list("ABCDE"), 3)
    layers, heads = np.tile([8, 16, 32], 5), np.resize([8, 12, 16, 8], 15)
    gain = np.exp(np.repeat(rng.normal(0, 0.1, 5), 3) + rng.normal(0, 0.02, 15))
    names = [f"{lab}-{i % 3}" for i, lab in enumerate(labs)]
    facts = {"model": names, "lab": labs, "layers": layers, "heads": heads, "hidden": 64 * heads}
    return pd.DataFrame(facts).assign(
        params_m=12 * layers * (64 * heads) ** 2 / 1e6, gain=gain.round(4)
    )


def fresh() -> dict[str, Any]:
    import arviz as az
    import statsmodels.api as sm

    modules = {
        "thermostats": thermostats,
        "pd": pd,
        "np": np,
        "az": az,
        "sm": sm,
        "json": json,
        "pickle": pickle,
    }
    return {**modules, "pyarrow": pyarrow, "OURS": OURS, "df": own_table()}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """One session's names; calls add theirs."""
    return fresh()


@pytest.mark.parametrize("task", RUN)
def test_what_is_typed_runs(
    task: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in RUN[task]:
            try:
                exec(call, names)  # noqa: S102
            except Exception as error:
                failed[call] = f"{type(error).__name__}: {error}"
    assert not failed


def test_there_are_a_hundred_of_them() -> None:
    calls = sum(map(len, RUN.values()))
    assert calls >= 95 and calls + len(REFUSED) + len(NAMED) >= 115


@pytest.mark.parametrize("call", REFUSED)
def test_the_line_of_a_refusal_works_when_pasted(call: str) -> None:
    session = fresh()
    said = refusal(call, session)
    line = re.search(r"(thermostats\.\w+|df\.\w+)\(.*\)$", said)
    assert line is not None, said
    given = re.search(r"\((df.*?|thermostats\.features\(\)|pd\.concat\(\[df, df\]\))(, |\)$)", call)
    session["df"] = table_of(call, session) if given else session["df"]
    exec(line[0], session)  # noqa: S102


def table_of(call: str, session: Mapping[str, Any]) -> Any:
    """The table that a call gives, which `df` stands for in a refusal."""

    class Taken(Exception):  # noqa: N818
        pass

    taken: list[Any] = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            if not name.startswith("fit_"):
                return getattr(thermostats, name)

            def take(table: Any, *args: Any, **named: Any) -> None:
                taken.append(table)

            return take

    eval(call, {**session, "thermostats": Spy()})  # noqa: S307
    return taken[0]


def refusal(call: str, session: dict[str, Any]) -> str:
    with pytest.raises(ThermostatsError) as caught:
        exec(call, session)  # noqa: S102
    return str(caught.value)


def test_a_refusal_names_what_is_there() -> None:
    session = fresh()
    exec(RUN["own DataFrame, heritage"][0], session)  # noqa: S102
    for call, named in NAMED:
        assert named in refusal(call, session), call


def test_own_names_and_ours_are_one_fit() -> None:
    """The same table under the package's names gives the same draws: nothing but names is
    mapped."""
    df = own_table()
    own = thermostats.fit_heritage(
        df, model="model", lab="lab", geometry=["layers", "heads"], scale=["params_m"]
    )
    renamed = df.rename(columns=OURS).assign(d_head=64.0)
    ours = thermostats.fit_heritage(renamed, geometry=["n_layers", "n_heads"], scale=["n_params"])
    assert np.allclose(own.params.to_numpy(), ours.params.to_numpy(), rtol=1e-9)
    mega = renamed.assign(n_params=renamed["n_params"] * 1e6)
    few, many = (
        thermostats.fit_heritage(t, geometry="n_layers", scale="n_params") for t in (renamed, mega)
    )
    error = (
        few.summary()["sd"].to_numpy() / 1000**0.5
    )  # units do not matter, but for which draws are kept
    assert (np.abs(many.params.to_numpy() - few.params.to_numpy()) <= 5 * error + 1e-12).all()


def test_a_formula_is_least_squares_where_the_prior_is_wide() -> None:
    """Posterior means of a line with a wide prior are statsmodels' estimates, in the formula's own
    units."""
    from statsmodels.formula.api import ols

    df = own_table()
    fit = thermostats.fit_line(df, "np.log(gain) ~ np.log(layers) + heads", scale=50.0)
    plain = ols("np.log(gain) ~ np.log(layers) + heads", df).fit()
    slopes = fit.params[["slope on np.log(layers)", "slope on heads"]].to_numpy()
    assert np.allclose(
        slopes, plain.params.iloc[1:].to_numpy(), atol=3 * plain.bse.iloc[1:].max() / 4000**0.5
    )


def test_incomparable_models_and_repeated_rows_move_nothing() -> None:
    """With models pinned near 1 marked, a fit is that of the table without them; a doubled table is
    no fit at all."""
    df = own_table().assign(comparable=True)
    pinned = df.assign(model=df["model"] + "-pinned", gain=1.0, comparable=False)
    both = pd.concat([df, pinned], ignore_index=True)
    calls = {
        "line": lambda table: thermostats.fit_line(
            table, "gain ~ layers", model="model", group="lab"
        ),
        "heritage": lambda table: thermostats.fit_heritage(
            table, model="model", lab="lab", geometry="layers"
        ),
    }
    for call in calls.values():
        assert call(both).params.equals(call(df).params)
        assert any("A-0-pinned" in words for words in call(both).warnings)
        with pytest.raises(ThermostatsError, match="several rows"):
            call(pd.concat([df, df], ignore_index=True))


def test_a_saved_fit_of_a_changed_table_is_refused(tmp_path: Path) -> None:
    fit = thermostats.fit_line(own_table(), "gain ~ layers", group="lab")
    fewer = fit.exclude_rows(np.arange(len(fit.rows)) == 0)
    with pytest.raises(ThermostatsError, match="functions are not in a saved fit"):
        thermostats.load_fit(fewer.save(tmp_path / "fewer.nc"))
    assert (
        thermostats.load_fit(fewer.save(tmp_path / "fewer.nc"), law=fit.law)
        .summary()
        .equals(fewer.summary())
    )
