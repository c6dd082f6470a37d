"""The indirect effect against its closed form, an independent fit, and simulated truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from thermostats.errors import UsageError
from thermostats.modelling.classical.mediation import mediation


def table(a=0.8, b=-0.5, direct=0.3, groups=12, each=8, noise=0.2, seed=1):
    rng = np.random.default_rng(seed)
    n = groups * each
    frame = pd.DataFrame({"recipe": np.repeat([f"r{g}" for g in range(groups)], each), "other": rng.normal(size=n)})
    level = np.repeat(rng.normal(size=groups), each)
    frame["cause"] = rng.normal(size=n)
    frame["mediator"] = a * frame["cause"] + frame["other"] + level + noise * rng.normal(size=n)
    frame["outcome"] = direct * frame["cause"] + b * frame["mediator"] - level + noise * rng.normal(size=n)
    return frame


def told(frame):
    return mediation(frame, "outcome", "cause", "mediator", ["other"], group="recipe")


def test_the_indirect_effect_is_the_product_of_two_regressions_with_levels_of_groups():
    frame = table()
    found = told(frame)
    to_mediator = smf.ols("mediator ~ cause + other + C(recipe)", frame).fit().params["cause"]
    given = smf.ols("outcome ~ cause + mediator + other + C(recipe)", frame).fit().params
    assert found.estimate == pytest.approx(to_mediator * given["mediator"], rel=1e-9)
    assert found.direct == pytest.approx(given["cause"], rel=1e-9)
    assert found.total == pytest.approx(found.direct + found.estimate)
    assert (found.n, found.n_groups) == (96, 12)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    hits = [(found := told(table(seed=seed))).lower < 0.8 * -0.5 < found.upper for seed in range(100)]
    assert np.mean(hits) > 0.85


@pytest.mark.parametrize(
    "change, words",
    [
        ({"cause": 1.0}, "not determined"),
        ({"mediator": lambda f: 2 * f["cause"]}, "not determined"),
        ({"recipe": "one"}, "too few groups"),
        ({"mediator": np.nan}, "missing"),
    ],
)
def test_what_cannot_be_told_is_refused(change, words):
    with pytest.raises(UsageError, match=words):
        told(table().assign(**change))


def test_no_effect_on_the_mediator_is_no_indirect_effect():
    hits = [(found := told(table(a=0.0, seed=seed))).lower < 0 < found.upper for seed in range(60)]
    assert np.mean(hits) > 0.85
