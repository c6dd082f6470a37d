"""Draws of a fit as the installed generation of ArviZ has them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Diagnostics, Draws, Settings
from thermostats.modelling.inference.fitted import Fitted

arviz = pytest.importorskip("arviz")
VALUES = {"mu": np.arange(8.0).reshape(2, 4), "theta": np.arange(24.0).reshape(2, 4, 3)}
GOOD = Diagnostics(
    rhat_max=1.0,
    rhat_name="mu",
    ess_bulk_min=900.0,
    ess_bulk_name="mu",
    ess_tail_min=900.0,
    ess_tail_name="mu",
    divergences=0,
    bfmi_min=1.0,
)
DRAWS = Draws(
    values=VALUES,
    diagnostics=GOOD,
    settings=Settings(chains=2, draws=4, tune=10),
    attempts=1,
    seed=1,
    compile_seconds=0.0,
    sample_seconds=0.0,
)


def test_the_posterior_has_the_draws() -> None:
    found = sampling.to_arviz(DRAWS)
    for name, values in VALUES.items():
        assert np.array_equal(found["posterior"][name].to_numpy(), values)
        assert found["posterior"][name].dims[:2] == ("chain", "draw")


@pytest.mark.parametrize("family", [Fitted, HeritageFit])
def test_every_fit_gives_one_object_a_part(family: type) -> None:
    other = replace(DRAWS, values={"mu": VALUES["mu"] + 1})
    found = family.to_arviz(SimpleNamespace(sampled={"line": DRAWS, "other": other}))
    assert list(found) == ["line", "other"]
    assert float(found["other"]["posterior"]["mu"].mean()) == 4.5
    assert float(arviz.summary(found["other"])["mean"].iloc[0]) == 4.5
