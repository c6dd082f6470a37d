"""Models of one's own that cannot be drawn are refused before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.draws import Settings, check_chains

ROWS = pd.DataFrame(
    {
        "model_id": list("abcdefgh"),
        "heritage": list("xxyyxxyy"),
        "x": np.arange(8.0),
        "y": np.arange(8.0) ** 0.5,
    }
)


def model(extra: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    def own(data: Any) -> None:
        import pymc as pm

        shift = extra(pm, data)
        pm.Normal(
            "y",
            pm.Normal("a") + shift + 0 * data["x"],
            pm.HalfNormal("s"),
            observed=data["y_observed"],
        )

    return own


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (lambda pm, data: pm.Bernoulli("k", 0.5), r"whole numbers alone.*got k.*pm\.Mixture"),
        (lambda pm, data: pm.Poisson("n", 3.0), r"whole numbers alone.*got n"),
        (lambda pm, data: pm.Normal("chain"), "a name that is taken.*got chain"),
        (
            lambda pm, data: pm.Deterministic("draw", pm.Normal("b") + 1),
            "a name that is taken.*got draw",
        ),
    ],
)
def test_variables_that_cannot_be_drawn_are_named(
    extra: Callable[[Any, Any], Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        thermostats.fit(ROWS, model=model(extra), per_row=["x"])


def test_a_likelihood_that_is_no_observed_variable_is_named() -> None:
    def own(data: Any) -> None:
        import pymc as pm

        pm.Potential("y", pm.logp(pm.Normal.dist(pm.Normal("a"), 1.0), data["y_observed"]).sum())

    with pytest.raises(UsageError, match=r"no such outcome.*observed="):
        thermostats.fit(ROWS, model=own, per_row=["x"])


@pytest.mark.parametrize("column", ["x", "y"])
def test_what_is_not_finite_is_not_imputed(column: str) -> None:
    spoilt = ROWS.assign(**{column: ROWS[column].where(ROWS["model_id"] != "c")})
    with pytest.raises(
        UsageError, match=f"missing or infinite values in a model's data: got {column}"
    ):
        thermostats.fit(spoilt, model=model(lambda pm, data: 0.0), per_row=["x"])


def test_an_outcome_of_text_is_named() -> None:
    with pytest.raises(UsageError, match="an outcome that is no numbers"):
        thermostats.fit(
            ROWS.assign(y=ROWS["y"].astype(str)), model=model(lambda pm, data: 0.0), per_row=["x"]
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "line"}, "a model is a function"),
        ({"outcome": "z"}, "no such column: got z"),
        ({"per_row": "w"}, "no such column: got w"),
        ({"units": "lab"}, "no such column: got lab"),
        ({"constants": {"x": 1}}, "a constant has the name of a column: got x"),
        ({"rows": "rows.csv"}, "not a table"),
        ({"rows": ROWS.head(0)}, "an empty table"),
        (
            {"rows": ROWS.assign(heritage=[None, *"xyyxxyy"]), "per_row": ["x", "heritage"]},
            "labels are missing",
        ),
        ({"per_row": []}, r"a model reads what its data do not have \(data\): got 'x'"),
    ],
)
def test_what_the_call_lacks_is_named(arguments: dict[str, Any], words: str) -> None:
    call = {"rows": ROWS, "model": model(lambda pm, data: 0.0), "per_row": ["x"], **arguments}
    with pytest.raises(UsageError, match=words):
        thermostats.fit(call.pop("rows"), **call)


def with_means() -> Callable[[Any], None]:
    """A line whose mean is kept for every row, in units of a constant."""

    def line(data: Any) -> None:
        import pymc as pm

        slopes = pm.Normal("slopes", 0, 1, shape=data["size"])
        mean = pm.Deterministic(
            "mean", (slopes * data["weights"]).sum() * data["x"] + pm.Normal("b")
        )
        pm.Normal(
            "y", mean / data["unit"], pm.HalfNormal("s") / data["unit"], observed=data["y_observed"]
        )

    return line


@pytest.mark.slow
def test_a_value_a_row_is_kept_through_checks_refits_and_files(tmp_path) -> None:
    rng = np.random.default_rng(1)
    line, unit = with_means(), 1e9
    table = ROWS.assign(x=rng.normal(size=8) * 1e-3, y=rng.normal(size=8) / unit)
    table.loc[7, "y"] = 30 / unit  # such an outcome is left out by a refit
    fit = thermostats.fit(
        table.to_dict("records"),  # type: ignore[arg-type]
        model=line,
        per_row="x",
        constants={"size": np.int64(2), "weights": [1.0, 2.0], "unit": unit},
        units="heritage",
        settings=Settings(draws=200, tune=200),
    )
    q = fit.quantities
    expected = (q["slopes"] @ [1.0, 2.0])[..., None] * table["x"].to_numpy() + q["b"][..., None]
    assert q["mean"] == pytest.approx(expected)
    assert fit.loo().refits > 0
    assert [check.name for check in fit.check().checks][-1] == "influence"
    path = fit.save(tmp_path / "line.nc")
    again = thermostats.load_fit(path, model=line)
    assert again.rows.equals(fit.rows) and again.law.units == ("heritage",)
    assert again.predict(table.drop(columns="y")).equals(fit.predict(table.drop(columns="y")))
    with pytest.raises(UsageError, match=r"no such column: got x"):
        fit.predict(table[["heritage"]])
    with pytest.raises(UsageError, match=r"missing or infinite values in a model's data: got x"):
        fit.predict(table.assign(x=np.nan))

    def other(data: Any) -> None:
        import pymc as pm

        pm.Normal("y", pm.Normal("level"), 1.0, observed=data["y_observed"])

    other.__name__ = "line"
    with pytest.raises(UsageError, match=r"draws are of another model.*has no level"):
        thermostats.load_fit(path, model=other).predict(table)


@pytest.mark.slow
def test_how_a_value_a_row_mixes_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def diagnosed(values: dict[str, Any], *rest: Any) -> Any:
        seen.extend(values)
        return check_chains(values, *rest)

    monkeypatch.setattr(sampling, "check_chains", diagnosed)
    constants = {"size": 2, "weights": [1.0, 2.0], "unit": 1.0}
    few = Settings(draws=50, tune=100)
    thermostats.fit(
        ROWS.assign(x=1.0), model=with_means(), per_row="x", constants=constants, settings=few
    )
    assert {"mean", "slopes", "b", "s"} <= set(seen)
