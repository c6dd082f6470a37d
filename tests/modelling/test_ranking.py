"""Ranks of models by NUTS; what needs no sampler is tested without it."""

import numpy as np
import pytest
from calibrated import FALSE_ALARM, ranks, uniform
from scipy import stats
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.draws import Settings
from thermostats.modelling.ranking import fit_benchmark, in_order

LEVELS = [-0.2, 0.1, 0.4, 0.41]
SHORT = Settings(draws=250, tune=300)


@pytest.fixture(scope="module")
def table():
    return benchmark_table(np.random.default_rng(1), LEVELS)


@pytest.fixture(scope="module")
def fitted(table):
    return fit_benchmark(table, order=["m0", "m1", "m2"], seed=1)


def test_an_order_is_that_of_the_models_there_are(table) -> None:
    drawn = {name: np.full((2, 5), float(k)) for k, name in enumerate(["m0", "m1", "m2"])}
    assert (
        in_order(["m0", "m1", "m2"], drawn).all() and in_order(["m0", "absent", "m2"], drawn).all()
    )
    assert not in_order(["m1", "m0"], drawn).any()
    with pytest.raises(KeyError):
        in_order(["m0", "absent"], drawn)
    for order in (["m0", "m9"], ["m0"], ["m0", "m0"]):
        with pytest.raises(UsageError, match="not an order"):
            fit_benchmark(table, order=order, seed=1)


@pytest.mark.slow
@pytest.mark.long
def test_levels_ranks_and_orders_are_recovered(fitted):
    ranked = fitted.table("ranks").set_index("model_id")
    assert fitted.status == "passed"
    assert fitted.probabilities["order"] > 0.999
    assert fitted.warnings[0] == "one model per lab: an order of models is not yet one of labs"
    assert ranked.loc["m0", "p_rank_1"] > 0.999 and ranked.loc["m0", "p_dampens"] > 0.99
    assert ranked.loc[["m2", "m3"], ["p_rank_3", "p_rank_4"]].sum().sum() == pytest.approx(
        2, abs=0.01
    )
    assert ranked.filter(like="p_rank").sum(axis=1).to_numpy() == pytest.approx(np.ones(4))
    assert fitted.plot().has_data() and fitted.to_dict()["tables"]["order"][0] == {
        "rank": 1,
        "model_id": "m0",
    }


@pytest.mark.slow
@pytest.mark.long
def test_shares_are_the_analysis_of_variance_of_the_same_cells(table, fitted):
    y, share = np.log(table["value"]), fitted.table("shares").set_index("part")["share"]
    means = y.groupby(table["model_id"]).transform("mean")
    kinds = y.groupby(table["category"]).transform("mean") - y.mean()
    assert share["model"] == pytest.approx(means.var() / y.var(), abs=0.03)
    assert share["category"] == pytest.approx(kinds.var() / y.var(), abs=0.03)
    assert share.sum() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.long
def test_checks_and_predictions(table, fitted):
    gate = fitted.check(refits=False)
    assert gate.passes, gate.reasons
    known = fitted.predict(table)
    inside = table["value"].between(known["last_gain_lower"], known["last_gain_upper"])
    known = fitted.predict(table, scale="log")
    assert inside.mean() > 0.9 and known["log_last_gain_sd"].mean() < 2 * 0.03
    new = fitted.predict(table.head(1).assign(model_id="another", heritage="another"), scale="log")
    assert new["log_last_gain_sd"].item() > 3 * known["log_last_gain_sd"].mean()


@pytest.mark.slow
@pytest.mark.long
def test_calibrated(fitted):
    """Half the prior scales: at the full ones residual scales of a hundredth and of 40% occur side
    by side."""
    model = fitted.law.alternatives["half the prior scales"].of(fitted.rows).model

    def read(values):
        named = {
            name: values[name]
            for name in ("level_mean", "apart", "log_sigma_mean", "sigma_spread", "prompt SD")
        }
        return named | {
            "level of m0": values["level"][..., 0],
            "scale of m3": values["log_sigma"][..., 3],
        }

    by_quantity = ranks(model, read, 60, seed=2, settings=SHORT)
    for name, rank in by_quantity.items():
        assert uniform(rank) > FALSE_ALARM / len(by_quantity), name


@pytest.mark.slow
@pytest.mark.long
def test_normal_errors_are_another_law_on_the_same_rows(fitted):
    law = fitted.law.alternatives["normal errors of the same variance"]
    model, values = law.of(fitted.rows).model, fitted.draws.few(3)
    mean = values["level"][:, model.data["model"]] + values["effects"] @ model.data["design"].T
    scale = np.exp(values["log_sigma"])[:, model.data["model"]]
    normal, t = stats.norm(mean, 2**0.5 * scale), stats.t(4, mean, scale)
    assert model.log_likelihood(values) == pytest.approx(
        normal.logpdf(model.observed), rel=1e-3, abs=0.02
    )
    assert fitted.model.log_likelihood(values) == pytest.approx(t.logpdf(model.observed))
