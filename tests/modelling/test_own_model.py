"""Models of one's own that cannot be drawn are refused before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError

ROWS = pd.DataFrame(
    {"model_id": list("abcdefgh"), "heritage": list("xxyyxxyy"), "x": np.arange(8.0), "y": np.arange(8.0) ** 0.5}
)


def model(extra: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    def own(data: Any) -> None:
        import pymc as pm

        shift = extra(pm, data)
        pm.Normal("y", pm.Normal("a") + shift + 0 * data["x"], pm.HalfNormal("s"), observed=data["y_observed"])

    return own


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (lambda pm, data: pm.Bernoulli("k", 0.5), r"whole numbers alone.*got k.*pm\.Mixture"),
        (lambda pm, data: pm.Poisson("n", 3.0), r"whole numbers alone.*got n"),
        (lambda pm, data: pm.Normal("chain"), "a name that is taken.*got chain"),
        (lambda pm, data: pm.Deterministic("draw", pm.Normal("b") + 1), "a name that is taken.*got draw"),
    ],
)
def test_variables_that_cannot_be_drawn_are_named(extra: Callable[[Any, Any], Any], words: str) -> None:
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
    with pytest.raises(UsageError, match=f"missing or infinite values in a model's data: got {column}"):
        thermostats.fit(spoilt, model=model(lambda pm, data: 0.0), per_row=["x"])


def test_an_outcome_of_text_is_named() -> None:
    with pytest.raises(UsageError, match="an outcome that is no numbers"):
        thermostats.fit(ROWS.assign(y=ROWS["y"].astype(str)), model=model(lambda pm, data: 0.0), per_row=["x"])
