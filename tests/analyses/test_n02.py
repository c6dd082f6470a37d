"""N02 on simulated studies whose recipe effects are known."""

from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from altered import NO, UNMEASURED, WITHHELD, YES, analysis, by_rules_alone, shipped, untried
from altered import judged as findings
from scipy import stats
from simulated_studies import Simulated

from thermostats.claims.finding import Finding
from thermostats.claims.worlds import worlds_in_groups
from thermostats.studies.nursery.design import RECIPE
from thermostats.studies.nursery.factor_effects import (
    contrasts,
    covariates,
    factor_columns,
    factor_tests,
    intervals,
    level_rows,
    pooled_levels,
    split,
    with_curves,
)
from thermostats.studies.nursery.rows import final, judged

PRIMARY = "penultimate_gain"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    tables = Simulated(
        lambda x: 0.3 * x["peak"] + 0.2 * x["optimiser=sgd"], noise=0.02, ratio=lambda x: 0.5 * x["peak"]
    )
    return with_curves(judged(final(tables), PRIMARY))


def test_every_factor_has_its_columns_and_levels(rows: pd.DataFrame) -> None:
    columns = factor_columns(rows)
    assert list(columns) == list(RECIPE) and [len(names) for names in columns.values()] == [3, 3, 1, 1, 1, 1, 1]
    names = [name for of_factor in columns.values() for name in of_factor]
    coded = level_rows(names)
    for factor, levels in RECIPE.items():
        seen = rows[rows[factor].isin(levels)]
        assert seen[factor].nunique() == len(levels)
        for level, of_level in seen.groupby(factor):
            places = [names.index(column) for column in columns[factor]]
            assert (of_level[columns[factor]].to_numpy(float) == coded[factor, level][places]).all()
            assert not np.delete(coded[factor, level], places).any()


@pytest.mark.slow
def test_levels_of_the_pooled_model_are_those_of_least_squares(rows: pd.DataFrame) -> None:
    n02 = analysis("n02")
    n02.models = lambda _: rows
    drawn = pooled_levels(n02.recipe_fit(shipped()), rows)
    table = intervals(rows, covariates(rows), level_rows).set_index(["factor", "what"])
    levels = {
        (factor, level): float(means[..., place].mean())
        for factor, means in drawn.items()
        for place, level in enumerate(RECIPE[factor])
    }
    assert levels == pytest.approx(table["log_ratio"].to_dict(), abs=0.05)


@pytest.mark.slow
def test_levels_of_the_pooled_model_have_the_mean_of_all_models_as_theirs(rows: pd.DataFrame) -> None:
    """Means of levels, weighted by how many of the models have them, are the mean log gain, draw by draw."""
    n02 = analysis("n02")
    uneven = rows[rows["decay"] != "none"].reset_index(drop=True)
    n02.models = lambda _: uneven
    fit = n02.recipe_fit(shipped())
    for factor, means in pooled_levels(fit, uneven).items():
        share = uneven[factor].value_counts(normalize=True).reindex(list(RECIPE[factor]), fill_value=0.0)
        assert means @ share.to_numpy() == pytest.approx(fit.quantities["models_mean_log_gain"]), factor


def test_a_contrast_is_the_ratio_that_was_put_in(rows: pd.DataFrame) -> None:
    table = intervals(rows, covariates(rows), contrasts).set_index(["factor", "what"])
    peak, sgd = table.loc[("peak", "high against low")], table.loc[("optimiser", "sgd against the mean")]
    assert peak["lower"] < 0.6 < peak["upper"] and sgd["lower"] < 0.2 < sgd["upper"]
    assert peak["upper"] - peak["lower"] < 0.3
    test = factor_tests(rows, covariates(rows)).set_index("factor").loc["peak"]
    assert test["df_error"] == 4
    error = (peak["upper"] - peak["log_ratio"]) / stats.t.ppf(1 - 0.05 / 2 / len(table), 4)
    assert test["F"] == pytest.approx((peak["log_ratio"] / error) ** 2, rel=1e-6)  # of one column, F = t²


def test_recipes_that_differ_whatever_their_factors_are_no_finding(rows: pd.DataFrame) -> None:
    (null,) = (world for world in worlds_in_groups("log_gain", "x corpus", 0.5, 0.3) if world.id == "normal")
    rng, given = np.random.default_rng(1), covariates(rows)
    false = [(factor_tests(null.change(rows, rng), given)["p_holm"] <= 0.05).any() for _ in range(60)]
    assert np.mean(false) <= 0.1  # 0.24 with models as the error


def judged_rows(n02: ModuleType, rows: pd.DataFrame, *only: str) -> dict[str, Finding]:
    """Findings of made-up rows by the classical rules."""
    n02.models = lambda _: rows
    n02.pooled = lambda _: {name: np.zeros((4, 10, len(levels))) for name, levels in RECIPE.items()}
    return findings(n02, shipped(), *only)


def verdicts(rows: pd.DataFrame, *only: str) -> dict[str, str]:
    """Their verdicts."""
    return {name: finding.verdict for name, finding in judged_rows(by_rules_alone("n02"), rows, *only).items()}


def test_effects_and_sign_follow_the_causes(rows: pd.DataFrame) -> None:
    found = factor_tests(rows, covariates(rows))
    assert set(found.loc[found["p_holm"] < 0.01, "factor"]) == {"peak", "optimiser"}
    assert verdicts(rows, "effect", "sign") == {"effect": YES, "sign": YES}
    all_above = rows.assign(log_gain=rows["log_gain"] + 3)
    sign = judged_rows(by_rules_alone("n02"), all_above, "sign")["sign"]
    assert (sign.verdict, sign.reason) == WITHHELD
    assert judged_rows(untried(by_rules_alone("n02")), all_above, "sign")["sign"].verdict == NO
    rng = np.random.default_rng(1)
    still = rows.assign(log_gain=0.02 * rng.normal(size=len(rows)) + 0.01)
    assert verdicts(still, "effect")["effect"] != YES


def test_what_goes_through_the_ratio(rows: pd.DataFrame) -> None:
    rng = np.random.default_rng(2)
    through = rows.assign(log_gain=0.8 * np.log(rows["wv_wo_ratio"]) + rng.normal(0, 0.01, len(rows)))
    beside = rows.assign(log_gain=0.4 * rows["x peak"] + rng.normal(0, 0.01, len(rows)))
    assert verdicts(through, "mediator") == {"mediator": YES} and verdicts(beside, "mediator") == {"mediator": NO}
    share, slope = split(through.assign(log_ratio=np.log(through["wv_wo_ratio"])), covariates(through))
    assert slope == pytest.approx(0.8, abs=0.05) and 0.9 < share < 1.1


def test_too_few_models_need_measurement() -> None:
    found = findings(by_rules_alone("n02"), Simulated(lambda x: x["peak"], models=30))
    assert {finding.verdict for finding in found.values()} == {UNMEASURED} and len(found) == 8


@pytest.mark.slow
def test_the_fit_decides_with_the_test() -> None:
    found = findings(analysis("n02"), Simulated(lambda x: 0.3 * x["peak"], noise=0.02))["effect"]
    assert found.posterior is not None and found.posterior.conclusion.probability > 0.95
    assert "pooled" in found.table and "p_flip" in found.table
