"""Means of units with estimated errors, drawn exactly: in simulated tables.

In these errors of single prompts are Student-t, and models differ in spread.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulated import benchmark_table, pairs_of_log_gains, pairs_table

from thermostats.errors import DataError, UsageError
from thermostats.modelling import unit_means
from thermostats.modelling.draws import Settings
from thermostats.modelling.fit import Fit, load_fit
from thermostats.modelling.pairs import fit_invariance
from thermostats.modelling.ranking import fit_benchmark
from thermostats.modelling.unit_means import fit_unit_means

FEW = Settings(draws=250)
LEVELS = [-0.2, 0.1, 0.4, 0.41]


def test_a_pair_is_its_two_means_and_the_slope_of_its_prompts() -> None:
    table = pairs_table(
        np.random.default_rng(1), levels=[0.5, 0.3, -0.2], changes=[-0.3, 0.02, 0.4]
    )
    fit = fit_invariance(table, seed=1)
    assert fit.status == "passed" and fit.draws.exact
    for j, (pair, rows) in enumerate(fit.rows.groupby("pair")):
        line = stats.linregress(rows["base"], rows["change"])
        assert fit.model.y[[j, j + 3]] == pytest.approx([rows["base"].mean(), line.intercept])
        assert -fit.design.table["level"].iloc[j + 3] == pytest.approx(line.slope), pair
    pairs = fit.table("pairs")
    assert np.log(pairs["ratio"].to_numpy()) == pytest.approx(
        [-0.3, 0.02, 0.4], abs=4 * 0.05 / 25**0.5
    )
    assert pairs["p_sign_changes"].round(2).tolist() == [0, 0, 1]
    assert (
        fit.table("shown")["here"].sum() == 1
        and fit.table("new_pair")["p_sign_changes"].between(0, 1).all()
    )
    new = fit.predict(pd.DataFrame({"pair": ["b0 → t0", "never seen"]}))
    assert new["outcome"].tolist() == [
        "b0 → t0: base",
        "never seen: base",
        "b0 → t0: change",
        "never seen: change",
    ]
    assert (
        new.filter(like="_sd").to_numpy()[[1, 3]] > 10 * new.filter(like="_sd").to_numpy()[[0, 2]]
    ).all()


def test_ranks_are_of_means_whose_errors_leave_out_what_prompts_have_in_common() -> None:
    table = benchmark_table(np.random.default_rng(1), LEVELS, prompt_sd=0.5)
    fit = fit_benchmark(table, order=["m0", "m1", "m2"], seed=1)
    means = np.log(table["value"]).groupby([table["model_id"], table["category"]]).mean()
    assert fit.model.y == pytest.approx(means.to_numpy())
    assert np.median(fit.model.error) == pytest.approx(0.03 / 5**0.5, rel=0.25)
    assert fit.probabilities["order"] > 0.99
    ranks = fit.table("ranks").set_index("model_id")
    assert ranks.filter(like="p_rank").sum(axis=1).to_numpy() == pytest.approx(np.ones(4))
    y, share = np.log(table["value"]), fit.table("shares").set_index("part")["share"]
    between = y.groupby(table["model_id"]).transform("mean").var(ddof=0) / y.var(ddof=0)
    assert share["model"] == pytest.approx(between, abs=0.03) and share.sum() == pytest.approx(1)
    within = (y - y.groupby([table["model_id"], table["category"]]).transform("mean")).var(
        ddof=0
    ) / y.var(ddof=0)
    assert share["prompt and rest"] == pytest.approx(within, abs=0.03)


def test_a_missing_cell_moves_no_model_by_its_prompt() -> None:
    table = benchmark_table(np.random.default_rng(1), LEVELS, prompt_sd=1.0)
    whole = fit_benchmark(table, order=["m0", "m1"], seed=1)
    highest = table.loc[table["model_id"] == "m1", "value"].idxmax()
    lacking = fit_benchmark(table.drop(index=highest), order=["m0", "m1"], seed=1)
    assert lacking.model.y == pytest.approx(whole.model.y, abs=0.05)


def test_means_of_units_are_over_groups() -> None:
    table = benchmark_table(np.random.default_rng(1), LEVELS).assign(y=lambda t: np.log(t["value"]))
    fit = fit_unit_means(table, "y", scale=0.25, seed=1)
    means = table.groupby(["model_id", "category"])["y"].mean()
    assert fit.model.y == pytest.approx(means.groupby("model_id").mean().to_numpy())
    alone = fit_unit_means(table.assign(category="all"), "y", scale=0.25, seed=1)
    assert alone.model.y == pytest.approx(table.groupby("model_id")["y"].mean().to_numpy())
    assert (fit.model.freedom >= 4).all() and (alone.model.freedom >= 24).all()
    new = fit.predict(pd.DataFrame({"model_id": ["m0", "never seen"]}))
    assert new["y_mean"][0] == pytest.approx(fit.quantities["mean"][..., 0].mean(), abs=0.01)
    assert new["y_sd"][1] > 3 * new["y_sd"][0]


@pytest.mark.parametrize("fit", [fit_invariance, fit_benchmark])
def test_columns_that_a_law_reads_are_needed(fit: Callable[..., Fit]) -> None:
    table = pairs_table(np.random.default_rng(1), levels=[0.5, 0.3], changes=[-0.3, 0.02]).assign(
        category="a"
    )
    with pytest.raises(UsageError, match="no such column"):
        fit(table, seed=1).predict(table[["value"]])


def test_one_unit_is_fitted_and_checked_without_leaving_it_out() -> None:
    table = benchmark_table(np.random.default_rng(1), LEVELS[:1]).assign(
        y=lambda t: np.log(t["value"])
    )
    fit = fit_unit_means(table, "y", scale=0.25, seed=1)
    gate = fit.check()
    assert gate.passes and "LOO-PIT warned: not asked, since there is one outcome" in gate.reasons
    below = stats.t.cdf(-fit.model.y[0] / fit.model.error[0], fit.model.freedom[0])
    assert fit.probabilities["every mean < 0"] == pytest.approx(below, abs=0.03)


def student(rng: np.random.Generator, scale: float, n: int) -> np.ndarray:
    return scale * rng.standard_t(4, n)


@pytest.mark.slow
def test_changes_of_pairs_lie_in_their_intervals_as_often_as_they_say() -> None:
    """Prompts Student-t about their means, changes that go with the base; 60 studies of 5 pairs."""
    rng, inside, crossed = np.random.default_rng(5), [], []
    for seed in range(60):
        levels, changes, slopes = (
            rng.normal(0, 0.2, 5),
            rng.normal(0, 0.1, 5),
            rng.normal(0, 0.5, 5),
        )
        pairs = []
        for level, change, slope in zip(levels, changes, slopes, strict=True):
            base = level + rng.normal(0, 0.1, 25)
            pairs.append((base, base + change + slope * (base - level) + student(rng, 0.05, 25)))
        fit = fit_invariance(pairs_of_log_gains(pairs), seed=seed, settings=FEW)
        lower, upper = np.quantile(fit.quantities["change"].reshape(-1, 5), [0.03, 0.97], axis=0)
        inside += list((lower < changes) & (changes < upper))
        truth = (levels > 0) != (levels + changes > 0)
        crossed += list(fit.table("pairs")["p_sign_changes"] - truth)
    assert stats.binomtest(sum(inside), len(inside), 0.94).pvalue > 0.001, np.mean(inside)
    assert abs(np.mean(crossed)) < 4 * np.std(crossed) / len(crossed) ** 0.5


@pytest.mark.slow
def test_differences_of_models_lie_in_their_intervals_as_often_as_they_say() -> None:
    """Models of unlike spread, Student-t; 60 studies of 5 models."""
    rng, inside = np.random.default_rng(6), []
    for seed in range(60):
        levels = rng.normal(0, 0.3, 5)
        table = benchmark_table(rng, list(levels), noise=0.0)
        spread = dict(zip([f"m{k}" for k in range(5)], np.exp(rng.normal(-3, 0.5, 5)), strict=True))
        noise = rng.standard_t(4, len(table)) * table["model_id"].map(spread).to_numpy()
        fit = fit_benchmark(
            table.assign(value=table["value"] * np.exp(noise)), seed=seed, settings=FEW
        )
        off = fit.quantities["level"].reshape(-1, 5)
        off = off[:, 1:] - off[:, :1]
        lower, upper = np.quantile(off, [0.03, 0.97], axis=0)
        truth = levels[1:] - levels[0]
        inside += list((lower < truth) & (truth < upper))
    assert 0.88 < np.mean(inside) < 0.98, np.mean(inside)


def test_a_former_name_works_and_warns_and_its_saved_fits_load(tmp_path: Path) -> None:
    table = pairs_table(np.random.default_rng(1), levels=[0.5, 0.3], changes=[-0.3, 0.02])
    with pytest.warns(DeprecationWarning, match="fit_pair_means is fit_invariance now"):
        fit = unit_means.fit_pair_means(table, seed=1)
    call = replace(fit.call, module=unit_means.__name__, function="fit_pair_means")
    saved = replace(fit, call=call).save(tmp_path / "fit.nc")
    assert load_fit(saved).summary().equals(fit_invariance(table, seed=1).summary())


def test_a_saved_fit_of_a_law_that_was_sampled_is_refused(tmp_path: Path) -> None:
    """Its draws are of other variables."""
    fit = fit_benchmark(benchmark_table(np.random.default_rng(1), LEVELS), seed=1)
    saved = replace(fit, law=replace(fit.law, name="benchmark")).save(tmp_path / "fit.nc")
    with pytest.raises(
        DataError,
        match=r"another law by the name of a saved fit.*got benchmark; allowed: rank means",
    ):
        load_fit(saved)
