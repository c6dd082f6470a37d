import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import pairs_table

from thermostats.errors import UsageError
from thermostats.modelling.invariance import fit_invariance, pairs_of


@pytest.fixture(scope="module")
def fitted():
    table = pairs_table(np.random.default_rng(1), levels=[0.5, 0.3, -0.2], changes=[-0.3, 0.02, 0.4])
    return fit_invariance(table, seed=1, cache=False)


def test_ratios_and_changes_of_sign_are_recovered(fitted):
    pairs = fitted.table("pairs")
    assert fitted.status == "passed"
    assert np.log(pairs["ratio"].to_numpy()) == pytest.approx([-0.3, 0.02, 0.4], abs=4 * 0.05 / 25**0.5)
    assert (pairs["ratio_lower"] < pairs["ratio"]).all()
    assert pairs["p_sign_changes"].round(2).tolist() == [0, 0, 1]
    assert pairs["p_within_margin"].round(2).tolist() == [0, 1, 0]
    assert fitted.probabilities["any of these pairs changes sides"] > 0.99
    assert fitted.probabilities["every pair within the margin"] < 0.01
    gate = fitted.check()
    assert gate.passes, gate.reasons
    json.dumps(fitted.to_dict(), allow_nan=False)
    figure, axes = plt.subplots()
    assert fitted.plot(axes) is axes
    plt.close(figure)


def test_one_pair_is_near_the_paired_t_interval(fitted):
    table = pairs_table(np.random.default_rng(1), levels=[0.5, 0.3, -0.2], changes=[-0.3, 0.02, 0.4])
    wide = np.log(table.pivot(index="prompt_id", columns="model_id", values="value"))
    t = stats.ttest_1samp(wide["t0"] - wide["b0"], 0.0)
    low, high = t.confidence_interval(0.94)
    row = fitted.table("pairs").iloc[0]
    assert np.log([row["ratio_lower"], row["ratio_upper"]]) == pytest.approx([low, high], abs=0.4 * (high - low))


def test_three_pairs_leave_a_new_pair_to_the_prior(fitted):
    assert any("3 pairs" in words for words in fitted.warnings)
    assert fitted.numbers["upper_bound_of_flips_had_none_flipped"] == pytest.approx(1 - 0.06 ** (1 / 3))
    new = fitted.table("new_pair").set_index("pair")
    assert new.loc["any pair", "from_prior_alone"] == pytest.approx(0.25, abs=0.02)
    assert 0.05 < new.loc["any pair", "p_sign_changes"] < 0.6


def test_pairs_follow_parents_and_strangers_are_named():
    table = pairs_table(np.random.default_rng(2), levels=[0.5, 0.3], changes=[0, 0])
    stranger = table.assign(parent=table["parent"].replace("b1", ""))
    only = pairs_of(stranger)
    assert only.names == ("b0 → t0",)
    assert "t1 left out" in only.warnings[0]
    every = pairs_of(stranger, only_related=False)
    assert every.related == (True, False)
    assert "t1 was not tuned from b1" in every.warnings[0]


def test_bad_tables_are_refused():
    table = pairs_table(np.random.default_rng(3), levels=[0.5], changes=[0.1])
    with pytest.raises(UsageError, match="no pair"):
        fit_invariance(table[table["variant"] == "base"], seed=1)
    with pytest.raises(UsageError, match="stands twice"):
        fit_invariance(pd.concat([table, table]), seed=1)
    with pytest.raises(UsageError, match="too few shared prompts"):
        fit_invariance(table[table["prompt_id"] < "p02"], seed=1)
    with pytest.raises(UsageError, match="logarithm"):
        fit_invariance(table.assign(value=0.0), seed=1)
    with pytest.raises(UsageError, match="margin"):
        fit_invariance(table, margin=1.0, seed=1)


@pytest.mark.slow
def test_ratios_are_covered_at_their_level():
    covered = []
    for i in range(12):
        rng = np.random.default_rng(100 + i)
        levels, changes = rng.normal(0.2, 0.4, 3), rng.normal(0, 0.2, 3)
        pairs = fit_invariance(pairs_table(rng, levels=list(levels), changes=list(changes)), seed=i, cache=False).table(
            "pairs"
        )
        covered += ((pairs["ratio_lower"] < np.exp(changes)) & (np.exp(changes) < pairs["ratio_upper"])).tolist()
    assert np.mean(covered) > 0.85
