import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.benchmark import fit_benchmark

LEVELS = [-0.2, 0.1, 0.4, 0.41]


@pytest.fixture(scope="module")
def fitted():
    table = benchmark_table(np.random.default_rng(1), LEVELS)
    return fit_benchmark(table, order=["m0", "m1", "m2"], seed=1, cache=False)


def test_levels_ranks_and_orders_are_recovered(fitted):
    ranks = fitted.table("ranks").set_index("model_id")
    assert fitted.status == "passed"
    assert fitted.probabilities["order"] > 0.999
    assert ranks.loc["m0", "p_rank_1"] > 0.999
    assert ranks.loc[["m2", "m3"], ["p_rank_3", "p_rank_4"]].sum().sum() == pytest.approx(2, abs=0.01)
    assert fitted.probabilities["dampens: m0"] > 0.99
    assert ranks.filter(like="p_rank").sum(axis=1).to_numpy() == pytest.approx(np.ones(4))


def test_shares_are_the_analysis_of_variance_of_the_same_cells(fitted):
    table = benchmark_table(np.random.default_rng(1), LEVELS)
    y = np.log(table["value"])
    share = fitted.table("shares").set_index("part")
    means = y.groupby(table["model_id"]).transform("mean")
    kinds = y.groupby(table["category"]).transform("mean") - y.mean()
    assert share.loc["model", "share"] == pytest.approx(means.var() / y.var(), abs=0.03)
    assert share.loc["category", "share"] == pytest.approx(kinds.var() / y.var(), abs=0.03)
    assert share["share"].sum() == pytest.approx(1)


def test_slopes_of_entropy_and_their_classical_counterpart(fitted):
    slopes = fitted.table("slopes").set_index("model_id")
    assert (slopes["correlation_alone"] > 0.2).all()
    assert fitted.probabilities["between > 0"] > 0.95
    classical = fitted.table("correlation").iloc[0]
    assert classical["estimate"] == pytest.approx(slopes["correlation_alone"].mean(), abs=1e-6)
    assert classical["p_value"] < 0.01


def test_the_result_is_checked_and_written(fitted):
    gate = fitted.check()
    assert gate.passes, gate.reasons
    assert len(json.dumps(fitted.to_dict(), allow_nan=False)) > 1000
    figure, axes = plt.subplots()
    assert fitted.plot(axes) is axes
    plt.close(figure)


def test_bad_tables_are_refused():
    table = benchmark_table(np.random.default_rng(2), LEVELS)
    with pytest.raises(UsageError, match="stands twice"):
        fit_benchmark(pd.concat([table, table]), seed=1)
    with pytest.raises(UsageError, match="two categories"):
        fit_benchmark(table.assign(category=table["model_id"]), seed=1)
    with pytest.raises(UsageError, match="too small"):
        fit_benchmark(table[table["model_id"] == "m0"], seed=1)
    with pytest.raises(UsageError, match="logarithm"):
        fit_benchmark(table.assign(value=-1.0 * table["value"]), seed=1)
    with pytest.raises(UsageError, match="not an order"):
        fit_benchmark(table, order=["m0", "m9"], seed=1)


@pytest.mark.slow
def test_gains_are_covered_and_ties_are_even():
    covered, wins = [], []
    for i in range(6):
        rng = np.random.default_rng(100 + i)
        levels = [*rng.normal(0, 0.3, 2), 0.1, 0.1]
        found = fit_benchmark(
            benchmark_table(rng, levels, category_sd=0.0, prompt_sd=0.0), order=["m2", "m3"], seed=i, cache=False
        )
        rows = found.table("ranks").set_index("model_id").loc[["m0", "m1", "m2", "m3"]]
        covered += ((rows["lower"] < np.exp(levels)) & (np.exp(levels) < rows["upper"])).tolist()
        wins.append(found.probabilities["order"])
    assert np.mean(covered) > 0.85
    assert 0.3 < np.mean(wins) < 0.7


@pytest.mark.slow
def test_one_category_and_no_entropy():
    table = benchmark_table(np.random.default_rng(3), LEVELS, categories=1, prompt_sd=0.2).drop(columns="entropy")
    found = fit_benchmark(table, seed=1, cache=False)
    assert any("one category" in words for words in found.warnings)
    assert any("no order was asked for" in words for words in found.warnings)
    assert "slope" not in found.quantities
    gate = found.check()
    assert gate.passes, gate.reasons
