"""Estimates over recipes against least squares and t tests of other packages, and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery import third
from thermostats.studies.nursery.third_tests import CROSSED_SLOPES, measure_contrasts
from thermostats.tables.folders import find_shipped
from thermostats.tables.schemas import NURSERY


def test_contrasts_of_factors_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"kind": list("xyzz") * 10, "size": rng.normal(size=40)})
    table["log_gain"] = (
        0.3 * (table["kind"] == "y") - 0.2 * (table["kind"] == "x") + 0.1 * rng.normal(size=40)
    )
    alone = ols("log_gain ~ 1", table).fit()
    levels = ols("log_gain ~ C(kind, Treatment('x'))", table).fit()
    line = ols("log_gain ~ size", table).fit()
    low, high = levels.conf_int(0.05 / 2 / 3).loc["C(kind, Treatment('x'))[T.y]"]
    contrasts = measure_contrasts(table, {"kind": "levels", "size": "number"}).set_index("factor")
    assert contrasts["what"].tolist() == ["y against x", "one SD more"]
    assert np.log(
        contrasts.loc["kind", ["lower", "upper"]].astype(float)
    ).tolist() == pytest.approx([low, high])
    sd = table["size"].std()
    assert np.log(
        contrasts.loc["size", ["ratio", "lower", "upper"]].astype(float)
    ).tolist() == pytest.approx(
        [line.params["size"] * sd, *line.conf_int(0.05 / 2).loc["size"] * sd]
    )
    assert contrasts["share"].tolist() == pytest.approx([fit.rsquared for fit in (levels, line)])
    tests = [fit.compare_f_test(alone)[:2] for fit in (levels, line)]
    assert contrasts[["F", "p"]].to_numpy().tolist() == pytest.approx(np.array(tests))
    low, high = line.conf_int(0.05 / 7).loc["size"] * sd
    among = measure_contrasts(table, {"size": "number"}, among=7)
    assert np.log(among.loc[0, ["lower", "upper"]].astype(float)).tolist() == pytest.approx(
        [low, high]
    )


def test_an_indirect_effect_by_hand():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    e = np.array([1.0, -2.0, 0.0, 2.0, -1.0])
    rows = pd.DataFrame(
        {
            "log_ratio": x,
            "log_norm": 2 * x + e,
            "log_gain": 3 * (2 * x + e) + 0.5 * x,
            "optimiser": "lion",
        }
        | {"synthetic": 0.0}
    )
    effect, vanishes = third.estimate_mediation(rows)
    assert effect == pytest.approx(3 * float(np.polyfit(x, 2 * x + e, 1)[0]))
    assert vanishes == pytest.approx(1.0)


def test_slopes_of_corpora_are_means_of_every_recipe_s_line() -> None:
    rows = third.read(Evidence(find_shipped("data")).named(NURSERY))
    by = third.summarise_corpus_slopes(rows, "log_L").set_index("corpus")
    each = {
        (corpus, recipe): ols("log_gain ~ log_L + log_rho + log_d", own).fit().params["log_L"]
        for (corpus, recipe), own in rows.groupby(["trained_on", "recipe"])
    }
    slopes = pd.Series(each).unstack(0)
    assert slopes.shape == (20, 4)
    for corpus in slopes:
        test = stats.ttest_1samp(slopes[corpus], 0)
        expected = [slopes[corpus].mean(), *test.confidence_interval(), test.pvalue]
        assert by.loc[
            corpus, ["slope", "slope_lower", "slope_upper", "slope_p"]
        ].tolist() == pytest.approx(expected)
    mean = CROSSED_SLOPES(rows.assign(term="log_L")).headline
    whole = stats.ttest_1samp(slopes.mean(axis=1), 0)
    assert [mean.value, mean.lower, mean.upper] == pytest.approx(
        [slopes.to_numpy().mean(), *whole.confidence_interval()]
    )
