"""Classical tests beside the posteriors: what statsmodels and scipy give for the same rows, and notes where none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from simulated import transition_table

from thermostats.errors import UsageError
from thermostats.modelling.classical import counterparts

FRAME = pd.DataFrame(
    {
        "depth": [12.0, 24, 16, 32, 24, 12, 36, 40],
        "layer": [5.0, 14.0, 7.5, 15.0, 10.0, 6.0, 21.0, 16.0],
        "lab": list("aabbccdd"),
    }
)
ASKED: dict[str, Any] = {"observed": "layer", "depth": "depth", "groups": "lab", "seed": 0}


def test_slopes_are_those_of_the_mixed_model_and_ranks() -> None:
    rng = np.random.default_rng(1)
    lab, x, z = np.arange(30) % 6, rng.normal(size=30), rng.normal(size=30)
    y = 0.4 * x + rng.normal(0, 0.5, 6)[lab] + rng.normal(0, 0.2, 30)
    labs = pd.Series([f"lab{j}" for j in lab])
    found = counterparts.of_slopes(y, labs, {"x": x, "z": z}, seed=1).set_index("of")
    frame = pd.DataFrame({"y": y, "x": x, "z": z, "lab": lab})
    mixed = smf.mixedlm("y ~ x + z", frame, groups="lab").fit(reml=True)
    for name in "xz":
        assert found["estimate"][f"slope {name}, levels of labs"] == pytest.approx(mixed.params[name], abs=1e-4)
        expected = stats.spearmanr(frame[name], y)
        row = found.loc[f"rank correlation with {name}"]
        assert (row["estimate"], row["p_value"]) == pytest.approx((expected.statistic, expected.pvalue))
    assert found["p_value"]["slope x, levels of labs"] < 1e-6
    assert (found["note"] == "").all() and (found["n"] == 30).all()


def test_what_cannot_be_computed_is_said() -> None:
    alone = pd.Series([f"lab{i}" for i in range(6)])
    found = counterparts.of_slopes(np.arange(6.0), alone, {"x": np.arange(6.0) ** 2}, seed=1).set_index("of")
    assert found["note"]["slope x, levels of labs"].startswith("not possible: groups that cannot be modelled")
    assert np.isnan(found["estimate"]["slope x, levels of labs"])
    assert found["estimate"]["rank correlation with x"] == pytest.approx(1.0)
    below = counterparts.of_depth(np.array([6.0, 12, 24, 36]), np.array([0.1, -0.1, 0.1, 0.1]), seed=1).set_index("of")
    assert below["note"].iloc[0].startswith("not possible: a logarithm is taken")
    assert below["estimate"]["share of models above 10^(1/L)"] == 0.5  # 0.1 is above 1/24 and 1/36, not above 1/6


def test_the_law_of_depth_is_recovered() -> None:
    L = np.array([6.0, 12, 16, 24, 32, 48])
    y = 1.3 * L**-0.8 * np.exp(np.random.default_rng(2).normal(0, 0.01, 6))
    row = counterparts.of_depth(L, y, seed=1).iloc[0]
    assert row["lower"] < -0.8 < row["upper"] and row["estimate"] == pytest.approx(-0.8, abs=0.03)
    assert row["p_value"] < 0.01


def test_transitions_of_the_middle_are_foretold_by_the_middle() -> None:
    truth = {"a": 0.0, "b": 0.5, "c": 0.0, "tau": 0.1, "sigma": 0.1}
    table = transition_table(np.random.default_rng(3), truth, n=40, labs=8).rename(columns={"L_star_peak": "L_star"})
    found = counterparts.of_transition(table, seed=1).set_index("of")
    assert not found["note"].str.contains("not possible").any()
    slope = found.loc["slope of the logit on log_L, levels of labs"]
    assert slope["lower"] < 0.5 / np.log(table["n_layers"]).std(ddof=0) < slope["upper"]
    L, star = table["n_layers"].astype(float), table["L_star"]
    error = ((L / 2 - star).abs() / L).groupby(table["heritage"]).mean().mean()
    assert found["estimate"]["error of depth of L/2"] == pytest.approx(error)
    half = table.assign(n_heads=16)
    assert not any("log_H" in of for of in counterparts.of_transition(half, seed=1)["of"])


def test_leaving_one_out_is_the_residual_over_one_minus_leverage() -> None:
    fit = smf.ols("layer ~ depth", FRAME).fit()
    error = np.abs(fit.resid / (1 - fit.get_influence().hat_matrix_diag))
    alone = FRAME.assign(lab=[str(i) for i in range(8)])
    result = counterparts.leave_one_out_error(alone, "layer ~ depth", **ASKED)
    assert result.estimate == pytest.approx((error / FRAME.depth).mean())
    assert result.lower < result.estimate < result.upper and result.n == 8


def test_leaving_one_group_out_learns_from_the_others_alone() -> None:
    seen = []

    def mean_fraction(learn: pd.DataFrame, ask: pd.DataFrame) -> np.ndarray:
        seen.append((set(learn.lab), set(ask.lab)))
        return np.asarray(ask.depth / 2)

    result = counterparts.leave_one_out_error(FRAME, mean_fraction, **ASKED)
    assert all(len(asked) == 1 and not asked & learned for learned, asked in seen) and len(seen) == 4
    error = ((FRAME.depth / 2 - FRAME.layer).abs() / FRAME.depth).groupby(FRAME.lab).mean()
    assert result.estimate == pytest.approx(error.mean()) and "lab" in result.interval


def test_predictions_that_cannot_be_made_are_refused() -> None:
    for match, frame, formula in (
        ("levels", FRAME, "layer ~ lab"),
        ("above 0", FRAME.assign(depth=0.0), "layer ~ depth"),
        ("no such column", FRAME.drop(columns="layer"), "layer ~ depth"),
        ("too few", FRAME.head(3), "layer ~ depth"),
        ("too few groups", FRAME.head(4), "layer ~ depth"),
    ):
        with pytest.raises(UsageError, match=match):
            counterparts.leave_one_out_error(frame, formula, **ASKED)
