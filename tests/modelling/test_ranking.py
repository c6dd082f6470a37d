"""Ranks of models by NUTS; what needs no sampler is tested without it."""

from itertools import pairwise

import numpy as np
import pytest
from calibrated import FALSE_ALARM, ranks
from scipy import stats
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.crossed_table import cells
from thermostats.modelling.draws import Settings
from thermostats.modelling.ranking import EFFECTS, fit_benchmark, in_order
from thermostats.modelling.ranking import _law as law

LEVELS = [-0.2, 0.1, 0.4, 0.41]
SHORT = Settings(draws=250, tune=300)


def laid(rows, like=None):
    return law(["m0", "m1"]).lay_out(cells(rows, "")[0] if like is None else rows, like)


@pytest.fixture(scope="module")
def table():
    return benchmark_table(np.random.default_rng(1), LEVELS)


@pytest.fixture(scope="module")
def fitted(table):
    return fit_benchmark(table, order=["m0", "m1", "m2"], seed=1)


def test_an_order_is_that_of_the_models_there_are(table) -> None:
    drawn = {name: np.full((2, 5), float(k)) for k, name in enumerate(["m0", "m1", "m2"])}
    assert in_order(["m0", "m1", "m2"], drawn).all() and in_order(["m0", "absent", "m2"], drawn).all()
    assert not in_order(["m1", "m0"], drawn).any()
    with pytest.raises(KeyError):
        in_order(["m0", "absent"], drawn)
    for order in (["m0", "m9"], ["m0"], ["m0", "m0"]):
        with pytest.raises(UsageError, match="not an order"):
            fit_benchmark(table, order=order, seed=1)


def test_columns_of_effects_belong_to_their_kind_and_the_rest_to_no_cell(table):
    whole = laid(table)
    data, columns = whole.model.data, whole.constants["columns"]
    assert columns == [20, 4, 12]
    assert not data["design"][:, 36:].any()
    assert data["kind"].sum(axis=0).tolist() == [20, 4, 12, 92]
    one = laid(table.assign(category="one"))
    assert one.constants["columns"] == [24, 0, 0]
    single = laid(table.assign(category=table["prompt_id"]))
    assert single.constants["columns"] == [0, 24, 72]
    assert {key: one.model.data[key] for key in ("size", "n_effects")} == {"size": 32, "n_effects": 128}


def test_the_same_rows_seen_from_a_fit_are_the_same_and_new_ones_have_columns_of_no_cell_before(table):
    whole = laid(table)
    again = laid(table.iloc[::-1], whole.constants)
    assert again.model.data["design"] == pytest.approx(whole.model.data["design"][::-1])
    new = table.iloc[:2].assign(model_id=["m0", "m9"], prompt_id=["p00", "pz"], category=["c0", "cz"])
    data = laid(new.drop(columns="value"), whole.constants).model.data
    assert data["model"].tolist() == [0, 4]
    assert not data["design"][1, :36].any() and data["design"][1, 36:39].tolist() == [1, 1, 1]
    assert data["kind"][36:39].argmax(axis=1).tolist() == [0, 1, 2]
    assert not data["effects_told"][36:].any() and not data["seen"][4:].any()


def test_the_prior_of_effects_is_that_of_zero_sums(table):
    """Var(π_p) = s²(1 − 1/5) for 5 prompts in a category, κ likewise, ξ s²(1 − 1/4)(1 − 1/5); E s² = scale²."""
    whole = laid(table)
    rng = np.random.default_rng(1)
    values = whole.model.from_prior(4000, rng)
    design, columns = whole.model.data["design"], np.cumsum([0, *whole.constants["columns"]])
    for (a, b), shrunk in zip(pairwise(columns), (0.8, 0.8, 0.6), strict=True):
        effect = values["effects"][:, a:b] @ design[0, a:b]
        assert effect.std() == pytest.approx(EFFECTS * shrunk**0.5, rel=0.05)


@pytest.mark.parametrize("n_models", [2, 11])
def test_the_prior_covers_tables_of_a_known_truth(n_models):
    """Levels far from 1 or near it, alike or apart, however many models: the prior can give what was simulated."""
    truths = [(0.0, 0.02), (0.0, 0.6), (0.9, 0.05), (-0.9, 0.3), (1.4, 0.5)]

    def summaries(y, model):
        means = np.stack([y[..., model == m].mean(axis=-1) for m in range(n_models)], axis=-1)
        return np.stack([means.mean(axis=-1), means.std(axis=-1), y.max(axis=-1), y.min(axis=-1)])

    rng = np.random.default_rng(n_models)
    models = [
        laid(benchmark_table(rng, list(common + apart * rng.standard_normal(n_models)), noise=0.04)).model
        for common, apart in truths
    ]
    simulated = summaries(models[0].from_prior(1000, rng)["y"], models[0].data["model"])
    for model in models:
        below = (simulated < summaries(model.observed, model.data["model"])[:, None]).mean(axis=1)
        assert ((below > 0.005) & (below < 0.995)).all(), below


@pytest.mark.slow
@pytest.mark.long
def test_levels_ranks_and_orders_are_recovered(fitted):
    ranked = fitted.table("ranks").set_index("model_id")
    assert fitted.status == "passed"
    assert fitted.probabilities["order"] > 0.999
    assert fitted.warnings[0] == "one model per lab: an order of models is not yet one of labs"
    assert ranked.loc["m0", "p_rank_1"] > 0.999 and ranked.loc["m0", "p_dampens"] > 0.99
    assert ranked.loc[["m2", "m3"], ["p_rank_3", "p_rank_4"]].sum().sum() == pytest.approx(2, abs=0.01)
    assert ranked.filter(like="p_rank").sum(axis=1).to_numpy() == pytest.approx(np.ones(4))
    assert fitted.plot().has_data() and fitted.to_dict()["tables"]["order"][0] == {"rank": 1, "model_id": "m0"}


@pytest.mark.slow
@pytest.mark.long
def test_shares_are_the_analysis_of_variance_of_the_same_cells(table, fitted):
    y, share = np.log(table["value"]), fitted.table("shares").set_index("part")["share"]
    means = y.groupby(table["model_id"]).transform("mean")
    kinds = y.groupby(table["category"]).transform("mean") - y.mean()
    assert share["model"] == pytest.approx(means.var() / y.var(), abs=0.03)
    assert share["category"] == pytest.approx(kinds.var() / y.var(), abs=0.03)
    assert share.sum() == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.long
def test_checks_and_predictions(table, fitted):
    gate = fitted.check(refits=False)
    assert gate.passes, gate.reasons
    known = fitted.predict(table)
    inside = (np.log(table["value"]) >= known["lower"]) & (np.log(table["value"]) <= known["upper"])
    assert inside.mean() > 0.9 and known["sd"].mean() < 2 * 0.03
    new = fitted.predict(table.head(1).assign(model_id="another", heritage="another"))
    assert new["sd"].item() > 3 * known["sd"].mean()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shape", ["few", "constant", "one category", "one prompt a category"])
def test_small_tables_are_fitted_and_refitted_without_each_model(shape):
    """Four small models on four prompts or so: of the kind that a user measures first."""
    rows = benchmark_table(np.random.default_rng(3), [0.1, 0.5, 0.2, 0.9], prompts=4, categories=2, noise=0.1)
    if shape == "constant":
        rows = rows.assign(value=rows["value"].where(rows["model_id"] != "m1", 1.25))
    if shape == "one category":
        rows = rows.assign(category="one")
    if shape == "one prompt a category":
        rows = rows.assign(category=rows["prompt_id"])
    fit = fit_benchmark(rows, seed=1, settings=SHORT)
    for out in [np.zeros(len(rows), dtype=bool), *(rows["model_id"] == name for name in ("m0", "m1"))]:
        again = fit.without(out)
        share = again.quantities["share"]
        assert np.isfinite(share).all() and share.sum(axis=-1) == pytest.approx(np.ones(share.shape[:2]))
        assert all(np.isfinite(table).all() for table in again.reported.values())


@pytest.mark.slow
@pytest.mark.long
def test_the_order_is_fitted_again_without_all_models_of_a_lab():
    """m2 and m3 lie 0.01 apart: their order is open wherever both are left, and of the others it is sure."""
    table = benchmark_table(np.random.default_rng(5), LEVELS)
    table["heritage"] = table["model_id"].map({"m0": "a", "m1": "b", "m2": "two", "m3": "two"})
    fit = fit_benchmark(table, seed=1)
    ordered = fit.check().checks[-1].table.set_index("left_out")["probability"].drop("nothing")
    assert ordered.index.tolist() == ["a", "b", "two", "m0", "m1", "m2", "m3"]
    assert (ordered[["m2", "m3", "two"]] == 1.0).all()
    assert ordered[["m0", "m1"]].between(0.05, 0.95).all()


@pytest.mark.slow
@pytest.mark.long
def test_calibrated(fitted):
    """Half the prior scales: at the full ones residual scales of a hundredth and of 40% occur side by side."""
    model = fitted.law.alternatives["half the prior scales"].lay_out(fitted.rows, None).model

    def read(values):
        named = {name: values[name] for name in ("level_mean", "apart", "log_sigma_mean", "sigma_spread", "prompt SD")}
        return named | {"level of m0": values["level"][..., 0], "scale of m3": values["log_sigma"][..., 3]}

    for name, rank in ranks(model, read, 60, seed=2, settings=SHORT).items():
        assert stats.kstest(rank, "uniform").pvalue > FALSE_ALARM, name


@pytest.mark.slow
@pytest.mark.long
def test_normal_errors_are_another_law_on_the_same_rows(fitted):
    law = fitted.law.alternatives["normal errors of the same variance"]
    model, values = law.lay_out(fitted.rows, None).model, fitted.draws.few(3)
    mean = values["level"][:, model.data["model"]] + values["effects"] @ model.data["design"].T
    scale = np.exp(values["log_sigma"])[:, model.data["model"]]
    normal, t = stats.norm(mean, 2**0.5 * scale), stats.t(4, mean, scale)
    assert model.log_likelihood(values) == pytest.approx(normal.logpdf(model.observed), rel=1e-3, abs=0.02)
    assert fitted.model.log_likelihood(values) == pytest.approx(t.logpdf(model.observed))
