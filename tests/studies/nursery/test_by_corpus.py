"""What the shipped rows say of either corpus, against figures computed apart; how alike prompts of a language are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.studies.nursery import languages, second, together
from thermostats.studies.nursery.slopes import combined
from thermostats.tables.folders import shipped
from thermostats.tables.vocabulary import NURSERY


@pytest.fixture(scope="module")
def tables() -> Evidence:
    return Evidence(shipped("data")).named(NURSERY)


@pytest.fixture(scope="module")
def rows(tables: Evidence) -> pd.DataFrame:
    return second.enough(tables)


def test_recipe_means_of_the_two_corpora_do_not_overlap(rows: pd.DataFrame) -> None:
    means = rows.groupby(["corpus", "recipe"])["log_gain"].mean()
    assert (means["english"].size, means["synthetic"].size) == (21, 11)
    assert means["english"].max() < means["synthetic"].min()


def test_slopes_on_depth_of_the_two_corpora_are_those_of_a_welch_test(rows: pd.DataFrame) -> None:
    by = second.slopes_of_corpora(rows, "log_L").set_index("corpus")
    each = {}
    for corpus, own in rows.groupby("corpus"):
        found = []
        for _, recipe in own.groupby("recipe"):
            X = np.column_stack([np.ones(len(recipe)), recipe[["log_L", "log_rho", "log_d"]]])
            found.append(np.linalg.lstsq(X, recipe["log_gain"], rcond=None)[0][1])
        each[corpus] = np.array(found)
    assert by["slope"].to_dict() == pytest.approx({corpus: own.mean() for corpus, own in each.items()})
    assert by["slope"].round(3).to_dict() == {"english": -0.025, "synthetic": -0.177}
    welch = stats.ttest_ind(each["synthetic"], each["english"], equal_var=False)
    apart = combined(by, -1.0)
    low, high = welch.confidence_interval()
    assert (apart.lower, apart.upper, apart.p) == pytest.approx((low, high, welch.pvalue))
    assert abs(welch.statistic) == pytest.approx(5.3, abs=0.05)


def test_given_the_corpus_no_other_factor_moves_the_gain(tables: Evidence) -> None:
    tests = together.factor_tests(second.recipes(tables), second.GIVEN_CORPUS, "corpus")
    assert len(tests) == 12 and tests["p"].min() > 0.08


def test_residuals_are_as_unlike_between_recipes_as_was_found(rows: pd.DataFrame) -> None:
    errors = second.checked(rows)
    assert errors.kurtosis > 10 and abs(errors.kurtosis_by_recipe) < 1
    assert errors.most / errors.least > 20 and errors.p < 1e-12


@pytest.mark.slow
def test_synthetic_prompts_are_one_prompt_three_times(tables: Evidence) -> None:
    table = languages.by_language(tables).set_index("prompts")
    assert table.loc["synthetic", "alike"] > 0.98 and table.loc["english", "alike"] < 0.9
    assert 0 < table.loc["english", "corpus"] < table.loc["synthetic", "corpus"]
    means = languages.log_gains(tables).mean(axis=1)
    first = together.models(tables).query("study == 'first'").set_index("model_id")["log_gain"]
    assert means.loc[first.index].to_numpy() == pytest.approx(first.to_numpy(), abs=1e-6)
