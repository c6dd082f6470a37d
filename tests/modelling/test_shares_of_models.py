"""Shares: agreement with quadrature, groups pooled in part, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference.fitted import NO_SOURCE
from thermostats.modelling.laws.shares_of_models import MU_SD, fit_share


def table(counts: dict[str, tuple[int, int]]) -> pd.DataFrame:
    rows = [(lab, i < k) for lab, (k, n) in counts.items() for i in range(n)]
    frame = pd.DataFrame(rows, columns=["heritage", "holds"])
    return frame.assign(model_id=[f"m{i}" for i in range(len(frame))])


def test_one_share_is_the_quadrature() -> None:
    fit = fit_share(table({"a": (9, 11)}), "holds", group=None, seed=1)
    assert fit.status == "passed"
    mu = np.linspace(-10, 10, 20_001)
    p = 1 / (1 + np.exp(-mu))
    weight = stats.norm.pdf(mu, 0, MU_SD) * stats.binom.pmf(9, 11, p)
    weight /= weight.sum()
    row = fit.summary().set_index("quantity").loc["share"]
    assert row["mean"] == pytest.approx(float(weight @ p), abs=0.01)
    assert row["lower"] == pytest.approx(float(np.interp(0.03, weight.cumsum(), p)), abs=0.02)
    assert fit.probabilities["share > 0.5"] == pytest.approx(float(weight[p > 0.5].sum()), abs=0.01)


def test_groups_are_pooled_in_part_and_checked() -> None:
    fit = fit_share(table({"a": (9, 10), "b": (1, 10), "c": (2, 2), "d": (5, 10), "e": (0, 4)}), "holds", seed=1)
    assert fit.status == "passed"
    p = fit.summary().set_index("quantity")["mean"]
    assert p["p[b]"] < p["p[d]"] < p["p[a]"] < 0.9
    assert p["p[c]"] < p["p[a]"]  # two of two say less than nine of ten
    gate = fit.check()
    assert gate.passes, gate.reasons
    assert {check.name for check in gate.checks} >= {"share: posterior predictive", "influence"}
    assert "sampler" not in {check.name for check in gate.checks} and "rhat" not in fit.summary()


def test_bad_input_is_named() -> None:
    rows = table({"a": (1, 2), "b": (1, 2)})
    with pytest.raises(UsageError, match="empty table"):
        fit_share(rows.head(0), "holds", seed=1)
    with pytest.raises(UsageError, match="between 0 and 1"):
        fit_share(rows, "holds", against=1.0, seed=1)
    assert NO_SOURCE in fit_share(rows, "holds", seed=1).warnings
    assert NO_SOURCE not in fit_share(rows, "holds", sources=["file"], seed=1).warnings


def test_alternatives_are_other_scales_no_levels_and_no_groups_of_one_unit() -> None:
    counts = {"a": (9, 10), "b": (1, 10), "c": (1, 1), "d": (5, 10)}
    fit = fit_share(table(counts), "holds", seed=1)
    found = fit.sensitivity({"share > 0.5": lambda q: q["share"] > 0.5}).set_index("alternative")["probability"]
    exact = ["half the prior scales", "twice the prior scales", "no effects of labs", "without labs of one unit"]
    assert found.index.tolist()[:5] == ["as fitted", *exact]
    assert found["as fitted"] == fit.probabilities["share > 0.5"]
    one = dict(fit_share(table({"a": (9, 11)}), "holds", group=None, seed=1).alternatives(1))
    mu = np.linspace(-15, 15, 20_001)
    for name, factor in (("half the prior scales", 0.5), ("twice the prior scales", 2.0)):
        weight = stats.norm.pdf(mu, 0, MU_SD * factor) * stats.binom.pmf(9, 11, 1 / (1 + np.exp(-mu)))
        expected = float(weight[mu > 0].sum() / weight.sum())
        assert (one[name]["share"] > 0.5).mean() == pytest.approx(expected, abs=0.02)
