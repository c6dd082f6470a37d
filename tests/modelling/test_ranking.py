"""Ranks of models, and what is said of their order."""

import numpy as np
import pytest
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.ranking import fit_benchmark, is_ordered

LEVELS = [-0.2, 0.1, 0.4, 0.41]


@pytest.fixture(scope="module")
def table():
    return benchmark_table(np.random.default_rng(1), LEVELS)


@pytest.fixture(scope="module")
def fitted(table):
    return fit_benchmark(table, order=["m0", "m1", "m2"], seed=1)


def test_an_order_is_that_of_the_models_there_are(table) -> None:
    drawn = {name: np.full((2, 5), float(k)) for k, name in enumerate(["m0", "m1", "m2"])}
    assert (
        is_ordered(["m0", "m1", "m2"], drawn).all()
        and is_ordered(["m0", "absent", "m2"], drawn).all()
    )
    assert not is_ordered(["m1", "m0"], drawn).any()
    with pytest.raises(KeyError):
        is_ordered(["m0", "absent"], drawn)
    for order in (["m0", "m9"], ["m0"], ["m0", "m0"]):
        with pytest.raises(UsageError, match="not an order"):
            fit_benchmark(table, order=order, seed=1)


def test_levels_ranks_and_orders_are_recovered(fitted):
    ranked = fitted.table("ranks").set_index("model_id")
    assert fitted.status == "passed"
    assert fitted.probabilities["order"] > 0.999
    assert fitted.warnings[0] == "one model per lab: an order of models is not yet one of labs"
    assert ranked.loc["m0", "p_rank_1"] > 0.999 and ranked.loc["m0", "p_dampens"] > 0.99
    assert ranked.loc[["m2", "m3"], ["p_rank_3", "p_rank_4"]].sum().sum() == pytest.approx(
        2, abs=0.01
    )
    assert fitted.plot().has_data() and fitted.to_dict()["tables"]["order"][0] == {
        "rank": 1,
        "model_id": "m0",
    }


def test_checks_and_predictions(table, fitted):
    gate = fitted.check(refits=False)
    assert gate.passes, gate.reasons
    cells = table.groupby(["model_id", "category"])["value"].agg(lambda gains: np.log(gains).mean())
    known = fitted.predict(table, scale="log")
    assert known["outcome"].tolist() == [", ".join(cell) for cell in cells.index]
    inside = cells.between(
        known["log_last_gain_lower"].to_numpy(), known["log_last_gain_upper"].to_numpy()
    )
    assert inside.mean() > 0.9
    new = fitted.predict(table.head(1).assign(model_id="another"), scale="log")
    assert new["log_last_gain_sd"].item() > 3 * known["log_last_gain_sd"].mean()
