import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from by_pymc import benchmark_arrays, benchmark_model
from calibrated import assert_same_means
from scipy import stats
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.inference import quadrature, sampling
from thermostats.modelling.inference.draws import Settings
from thermostats.modelling.inference.fitted import NO_SOURCE
from thermostats.modelling.inference.quadrature import CANDIDATES
from thermostats.modelling.laws import entropy_slopes
from thermostats.modelling.laws.crossed_table import crossed, without_each
from thermostats.modelling.laws.entropy_slopes import fit_slopes
from thermostats.modelling.laws.ranking import (
    CENTRE,
    RESIDUAL,
    RESIDUAL_SD,
    SCALE,
    SPREAD,
    SPREAD_SD,
    blocks,
    expected,
    fit_benchmark,
    from_prior,
    heavy,
    in_order,
    log_ratios,
    outcomes,
    sweeps,
)
from thermostats.modelling.laws.ranking import SHARE as EFFECTS

LEVELS = [-0.2, 0.1, 0.4, 0.41]


@pytest.fixture(scope="module")
def fitted():
    table = benchmark_table(np.random.default_rng(1), LEVELS)
    return fit_benchmark(table, order=["m0", "m1", "m2"], seed=1, cache=False)


def test_levels_ranks_and_orders_are_recovered(fitted):
    ranks = fitted.table("ranks").set_index("model_id")
    assert fitted.status == "passed"
    assert fitted.probabilities["order"] > 0.999
    assert fitted.warnings == ("one model per lab: an order of models is not yet one of labs", NO_SOURCE)
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


@pytest.mark.slow
def test_the_result_is_checked_and_written(fitted):
    gate = fitted.check()
    assert gate.passes, gate.reasons
    names = set(gate.table()["check"])
    kinds, whole = (
        ("prior predictive", "posterior predictive", "LOO-PIT"),
        {"sampler", "prior sensitivity", "influence"},
    )
    assert names == whole | {f"{part}: {kind}" for part in ("gains", "entropies") for kind in kinds}
    influence = gate.checks[-1].table
    assert influence["left_out"].tolist() == 3 * ["nothing", "m0", "m1", "m2", "m3"]
    assert (influence.loc[influence["statement"] == "order", "probability"] > 0.99).all()
    summary = fitted.summary().set_index("quantity")
    assert summary["rhat"].notna()["gain[m0]"] and summary["rhat"].isna()["slope"]
    written = json.loads(json.dumps(fitted.to_dict(), allow_nan=False))
    assert len(written["equations"]) == 5
    assert len(written["priors"]) == 8
    assert fitted.plot().has_data()


def test_bad_tables_are_refused():
    table = benchmark_table(np.random.default_rng(2), LEVELS)
    with pytest.raises(UsageError, match="occurs twice"):
        fit_benchmark(pd.concat([table, table]), seed=1)
    with pytest.raises(UsageError, match="two categories"):
        fit_benchmark(table.assign(category=table["model_id"]), seed=1)
    with pytest.raises(UsageError, match="too small"):
        fit_benchmark(table[table["model_id"] == "m0"], seed=1)
    with pytest.raises(UsageError, match="not an order"):
        fit_benchmark(table, order=["m0", "m9"], seed=1)
    with pytest.raises(UsageError, match="labels are missing"):
        crossed(table.assign(category=table["category"].where(table.index > 0)))
    with pytest.raises(UsageError, match="entropy"):
        crossed(table.assign(entropy=table["entropy"].where(table.index > 0, np.inf)))


def test_what_the_table_cannot_tell_is_said():
    table = benchmark_table(np.random.default_rng(2), LEVELS)
    assert set(blocks(crossed(table.assign(category=table["prompt_id"])))) == {"category", "model × category"}
    assert set(blocks(crossed(table.assign(category="one")))) == {"prompt"}
    assert "3 of 100 cells are missing" in " ".join(crossed(table.iloc[3:]).warnings)
    apart = table["prompt_id"].where(table["model_id"] < "m2", "other " + table["prompt_id"])
    said = " ".join(crossed(table.assign(prompt_id=apart)).warnings)
    assert "no shared prompts, compared through the priors only: m0, m1 | m2, m3" in said


SHORT = Settings(chains=2, draws=600, tune=500)


@pytest.mark.slow
def test_two_models_of_one_lab_and_no_entropy():
    table = benchmark_table(np.random.default_rng(3), [-0.2, 0.3], categories=1, prompt_sd=0.2).drop(columns="entropy")
    found = fit_benchmark(table.assign(heritage="one"), seed=1, settings=SHORT, cache=False)
    said = " ".join(found.warnings)
    for words in ("one category", "no order was given", "one lab"):
        assert words in said
    assert "slope" not in found.quantities
    assert found.left_out is None
    assert found.probabilities["order"] > 0.99
    assert len(found.equations) == 3


@pytest.mark.parametrize("n_models", [2, 11])
def test_the_prior_covers_tables_of_a_known_truth(n_models):
    """Levels far from 1 or near it, alike or apart, however many models: the prior can give what was simulated."""
    truths = [(0.0, 0.02), (0.0, 0.6), (0.9, 0.05), (-0.9, 0.3), (1.4, 0.5)]
    tables = [
        crossed(benchmark_table(rng, list(common + apart * rng.standard_normal(n_models)), noise=0.04))
        for common, apart in truths
        for rng in [np.random.default_rng([n_models, round(100 * apart)])]
    ]
    of = tables[0].model

    def told(y):
        means = np.stack([y[..., of == m].mean(axis=-1) for m in range(n_models)], axis=-1)
        return np.stack([means.mean(axis=-1), means.std(axis=-1), y.max(axis=-1), y.min(axis=-1)])

    model, rng = heavy(tables[0]), np.random.default_rng(1)
    simulated = told(outcomes(tables[0], model, from_prior(model, n_models, rng, 1000), rng))
    for cells in tables:
        below = (simulated < told(cells.y)[:, None]).mean(axis=1)
        assert ((below > 0.005) & (below < 0.995)).all(), below


def test_a_table_without_each_model_is_that_of_the_others():
    table = benchmark_table(np.random.default_rng(5), LEVELS, prompts=8)
    found = dict(without_each(table, crossed(table).models))
    assert list(found) == ["m0", "m1", "m2", "m3"]
    assert found["m2"].models == ("m0", "m1", "m3")
    assert found["m2"].y == pytest.approx(np.log(table.loc[table["model_id"] != "m2", "value"]))
    few = table[(table["model_id"] == "m2") | table["prompt_id"].isin(sorted(set(table["prompt_id"]))[:3])]
    assert dict(without_each(few, crossed(few).models))["m2"] is None


def test_slopes_alone_are_those_of_the_whole(fitted):
    table = benchmark_table(np.random.default_rng(1), LEVELS)
    alone = fit_slopes(table, seed=1)
    assert alone.quantities["slopes"] == pytest.approx(fitted.quantities["slopes"])
    assert alone.probabilities.items() <= fitted.probabilities.items()
    gate = alone.check()
    assert gate.passes, gate.reasons
    assert gate.checks[-1].table["left_out"].tolist() == 2 * ["nothing", "m0", "m1", "m2", "m3"]
    assert alone.plot().has_data()
    with pytest.raises(UsageError, match="need two models"):
        fit_slopes(table.assign(entropy=3.0), seed=1)
    with pytest.raises(UsageError, match="need two models"):
        fit_slopes(table.drop(columns="entropy"), seed=1)


def test_too_few_effective_weights_fail_the_gate(monkeypatch):
    model = entropy_slopes.components(crossed(benchmark_table(np.random.default_rng(1), LEVELS)))
    usual = entropy_slopes.sample(model, seed=1, settings=SHORT)
    assert usual.status == "passed"
    assert 0.2 < usual.diagnostics.effective / (CANDIDATES * SHORT.chains * SHORT.draws) <= 1
    monkeypatch.setattr(quadrature, "_log_joint", steep(quadrature._log_joint))
    rough = entropy_slopes.sample(model, seed=1, settings=SHORT)
    assert rough.diagnostics.effective < 400
    assert any("importance weights" in reason for reason in rough.failures())


def steep(density):
    """A density with a spike that nodes of the grid cannot see."""
    return lambda model, logs: density(model, logs) + np.where(np.abs(logs[:, 0] + 2) < 1e-3, 40.0, 0.0)


def test_alternatives_are_weighed_and_their_weights_are_ratios_of_densities(fitted):
    table = fitted.sensitivity().set_index(["statement", "alternative"])["probability"]
    names = {"as fitted", "half the prior scales", "twice the prior scales", "normal errors of the same variance"}
    assert names < set(table["order"].index)
    assert {"one slope for all models", "no effects of prompts"} < set(table["slope > 0"].index)
    for statement in ("order", "slope > 0"):
        assert table[statement, "as fitted"] == fitted.probabilities[statement]
    cells = crossed(benchmark_table(np.random.default_rng(1), LEVELS))
    model, draws = heavy(cells), fitted.parts["gains"].draws
    few = replace(draws, values={name: drawn[:, :3] for name, drawn in draws.values.items()})
    mean, scale = expected(cells, model, {name: few.flat(name) for name in few.values})
    t, normal = stats.t.logpdf(cells.y, 4, mean, scale), stats.norm.logpdf(cells.y, mean, 2**0.5 * scale)
    found = log_ratios(cells, model, few)
    assert found["normal errors of the same variance"] == pytest.approx((normal - t).sum(axis=1), rel=1e-6)

    def prior(factor):
        half = stats.halfnorm.logpdf
        return (
            stats.norm.logpdf(few["centre"], 0, CENTRE * factor)
            + half(few["apart"], scale=SCALE * factor)
            + stats.norm.logpdf(few["sigma_centre"], RESIDUAL, RESIDUAL_SD * factor)
            + stats.lognorm.logpdf(few["sigma_spread"], SPREAD_SD * factor, scale=SPREAD)
            + half(few["spreads"], scale=EFFECTS * factor).sum(axis=-1)
        )

    assert found["twice the prior scales"] == pytest.approx(prior(2.0) - prior(1.0), rel=1e-6)
    powers = fitted.parts["gains"].log_prior() - fitted.parts["gains"].log_prior()[0, 0]
    assert powers[:, :3] == pytest.approx(prior(1.0) - prior(1.0)[0, 0], rel=1e-6, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "categories"), [(LEVELS, 5), ([-0.2, 0.3], 1), pytest.param(7 * [0.1], 3, marks=pytest.mark.long)]
)
def test_gibbs_sampling_and_pymc_agree(levels, categories):
    cells = crossed(benchmark_table(np.random.default_rng(6), levels, categories=categories).iloc[3:])
    settings = Settings(draws=3000, target_accept=0.98)
    own = sampling.by_gibbs(sweeps, heavy(cells), seed=1, settings=Settings(draws=3000, tune=200), cache=False)
    assert_same_means(own, sampling.fit(benchmark_model, benchmark_arrays(cells), seed=1, settings=settings))


def test_labs_of_several_models_are_left_out_whole():
    table = benchmark_table(np.random.default_rng(4), LEVELS)
    table["heritage"] = table["model_id"].map({"m0": "two", "m1": "two", "m2": "b", "m3": "c"})
    found = dict(without_each(table, crossed(table).models))
    assert list(found) == ["m0", "m1", "m2", "m3", "all models of two"]
    assert found["all models of two"].models == ("m2", "m3")


def test_an_order_is_that_of_the_models_there_are() -> None:
    drawn = {name: np.full((2, 5), float(k)) for k, name in enumerate(["m0", "m1", "m2"])}
    assert in_order(["m0", "m1", "m2"], drawn).all() and in_order(["m0", "absent", "m2"], drawn).all()
    assert not in_order(["m1", "m0"], drawn).any()
    with pytest.raises(KeyError):
        in_order(["m0", "absent"], drawn)


@pytest.mark.slow
@pytest.mark.long
def test_the_order_is_fitted_again_without_all_models_of_a_lab():
    """m2 and m3 lie 0.01 apart: their order is open wherever both are left, and of the others it is sure."""
    table = benchmark_table(np.random.default_rng(5), LEVELS).drop(columns="entropy")
    table["heritage"] = table["model_id"].map({"m0": "a", "m1": "b", "m2": "two", "m3": "two"})
    found = fit_benchmark(table, seed=1, settings=Settings(chains=2, draws=300, tune=200), cache=False)
    ordered = found.check().checks[-1].table.set_index("left_out")["probability"].drop("nothing")
    assert ordered.index.tolist() == ["m0", "m1", "m2", "m3", "all models of two"]
    assert (ordered[["m2", "m3", "all models of two"]] == 1.0).all()
    assert ordered[["m0", "m1"]].between(0.05, 0.95).all()
