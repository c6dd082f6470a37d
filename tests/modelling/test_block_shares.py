"""Block tests and shares against statsmodels, another algorithm for LMG, and simulated noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from thermostats.errors import UsageError
from thermostats.modelling.heritage.variance_shares import (
    compute_block_f,
    measure_dominance,
    run_freedman_lane,
)

BLOCKS = {"heritage": ["lab"], "geometry": ["depth", "heads", "head_width"], "scale": ["size"]}


def simulated(seed: int, effect: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(24, 4)), columns=["depth", "heads", "head_width", "size"])
    frame["lab"] = np.repeat(list("abcdefgh"), 3)
    frame["gain"] = effect * frame["size"] + rng.normal(size=24)
    return frame


def test_block_f_is_the_type_two_anova_of_statsmodels() -> None:
    frame = simulated(1, 0.5)
    result = compute_block_f(
        frame, "gain", {"heritage": ["lab"], "depth": ["depth"], "scale": ["size"]}
    )
    expected = anova_lm(smf.ols("gain ~ C(lab) + depth + size", frame).fit(), typ=2)
    for block, row in {"heritage": "C(lab)", "depth": "depth", "scale": "size"}.items():
        found = result[block]
        assert (found.f, found.p_value, found.df_block) == pytest.approx(
            tuple(expected.loc[row, ["F", "PR(>F)", "df"]])
        )
    full = smf.ols("gain ~ C(lab) + depth + size", frame).fit()
    without = smf.ols("gain ~ C(lab) + depth", frame).fit()
    assert result["scale"].estimate == pytest.approx(full.rsquared - without.rsquared)
    assert result["scale"].r_squared == pytest.approx(full.rsquared)


def test_block_f_and_freedman_lane_hold_their_size() -> None:
    p = []
    for i in range(80):
        frame = simulated(100 + i)
        f = compute_block_f(frame, "gain", BLOCKS)["geometry"].p_value
        p.append(
            (
                f,
                run_freedman_lane(
                    frame, "gain", BLOCKS, "geometry", seed=i, permutations=199
                ).p_value,
            )
        )
    assert (np.mean(np.array(p) <= 0.1, axis=0) <= 0.18).all()
    assert np.abs(np.diff(p, axis=1)).mean() < 0.04


def test_freedman_lane_sees_an_effect() -> None:
    frame = simulated(3, 5.0)
    result = run_freedman_lane(frame, "gain", BLOCKS, "scale", seed=0, permutations=999)
    assert result.p_value == pytest.approx(1 / 1000)
    assert result.f == pytest.approx(compute_block_f(frame, "gain", BLOCKS)["scale"].f)


def test_dominance_is_the_mean_over_all_orders_of_entry() -> None:
    frame = simulated(4, 0.7)
    terms = {"heritage": "C(lab)", "geometry": "depth + heads + head_width", "scale": "size"}
    shares = dict.fromkeys(terms, 0.0)
    for order in itertools.permutations(terms):
        before = 0.0
        for i, block in enumerate(order):
            now = (
                smf.ols("gain ~ " + " + ".join(terms[b] for b in order[: i + 1]), frame)
                .fit()
                .rsquared
            )
            shares[block] += (now - before) / 6
            before = now
    result = measure_dominance(frame, "gain", BLOCKS, seed=0, permutations=50)
    assert dict(result.shares) == pytest.approx(shares)
    assert list(result.order) == sorted(shares, key=lambda block: -shares[block])


def test_noise_gives_the_published_order_by_block_size_alone() -> None:
    orders = []
    for i in range(60):
        result = measure_dominance(simulated(500 + i), "gain", BLOCKS, seed=i, permutations=100)
        orders.append(result.table["rank"].tolist() == [1, 2, 3])
        assert 0.5 < result.asked_order_null_probability < 1
    assert np.mean(orders) > 0.6
    assert dict(result.table["df"]) == {"heritage": 7, "geometry": 3, "scale": 1}


@pytest.mark.parametrize(
    ("change", "blocks", "words"),
    [
        ({}, {"scale": ["volume"]}, "no such column"),
        ({}, {"scale": ["size"], "again": ["size"]}, "adds nothing"),
        ({"size": math.nan}, BLOCKS, "missing"),
        ({"lab": "a"}, BLOCKS, "constant"),
        ({"lab": [f"lab {i}" for i in range(24)]}, {"heritage": ["lab"]}, "more predictors"),
        ({}, {"scale": []}, "a block without columns"),
    ],
)
def test_bad_input_is_refused(
    change: dict[str, object], blocks: dict[str, list[str]], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        compute_block_f(simulated(7).assign(**change), "gain", blocks)


def test_what_cannot_be_asked_is_refused() -> None:
    frame = simulated(7)
    with pytest.raises(UsageError, match="dominance"):
        measure_dominance(frame, "gain", {"scale": ["size"]}, seed=0)
    with pytest.raises(UsageError, match="no such block"):
        run_freedman_lane(frame, "gain", BLOCKS, "luck", seed=0)
    with pytest.raises(UsageError, match="empty"):
        compute_block_f(frame.head(0), "gain", BLOCKS)


def test_a_column_determined_by_others_counts_once() -> None:
    frame = simulated(2).assign(density=lambda f: f["heads"] - f["head_width"])
    plain = compute_block_f(frame, "gain", BLOCKS)["geometry"]
    more = compute_block_f(frame, "gain", BLOCKS | {"geometry": [*BLOCKS["geometry"], "density"]})[
        "geometry"
    ]
    assert (more.f, more.df_block) == (pytest.approx(plain.f), 3)


def test_two_blocks_share_what_both_explain() -> None:
    frame = simulated(4, 0.7)
    own = {name: smf.ols(f"gain ~ {name}", frame).fit().rsquared for name in ("depth", "size")}
    both = smf.ols("gain ~ depth + size", frame).fit().rsquared
    found = measure_dominance(
        frame, "gain", {"geometry": ["depth"], "scale": ["size"]}, seed=0, permutations=10
    ).shares
    assert found["scale"] == pytest.approx((own["size"] + both - own["depth"]) / 2)


def test_null_r_squared_is_that_of_noise() -> None:
    """R² of k columns on noise has mean k/(n − 1)."""
    result = measure_dominance(simulated(6), "gain", BLOCKS, seed=0, permutations=4000)
    assert result.table["null_mean"].sum() == pytest.approx(11 / 23, abs=0.01)


def test_orthogonal_blocks_share_their_own_r_squared() -> None:
    a, b = np.tile([1.0, -1.0], 8), np.repeat([1.0, -1.0], 8)
    frame = pd.DataFrame(
        {"a": a, "b": b, "y": 2 * a + b + np.repeat(np.tile([1.0, -1.0], 4), 2) * 0.5}
    )
    result = measure_dominance(frame, "y", {"first": ["a"], "second": ["b"]}, seed=0)
    assert dict(result.shares) == pytest.approx({"first": 4 / 5.25, "second": 1 / 5.25})
    assert result.table["rank"].tolist() == [1, 2]
