"""What a heritage fit says, against its draws by hand; the draws are those of the closed form, which are quick."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritage import predictive
from thermostats.modelling.heritage.blocks import BLOCKS, LARGE_STUDY, LINEAGE_ORDER, ORDER, verdict
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.fit import CAREFUL, HeritageFit, fit_heritage
from thermostats.modelling.heritage.model import arrays, heritage_model, prior_blocks, prior_orders
from thermostats.modelling.heritage.simulate import model_facts, simulate_heritage
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import LEVEL, PASSED, SAMPLER, Draws, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE

SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}


def rows(n_models: int = 12, n_labs: int = 4):
    facts = model_facts(n_models, n_labs, np.random.default_rng(1))
    return simulate_heritage(facts, shares=SHARES, seed=1, n_prompts=6, n_categories=1).table


@pytest.fixture(scope="module")
def fitted() -> HeritageFit:
    return fit_heritage(rows().assign(source="made up"), estimand="last_gain", seed=3, method="closed form")


def quantile(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    flat = values.reshape(-1, *values.shape[2:])
    return np.quantile(flat, (1 - level) / 2, axis=0), np.quantile(flat, (1 + level) / 2, axis=0)


def test_it_says_what_it_rests_on(fitted: HeritageFit) -> None:
    assert NO_SOURCE not in fitted.warnings
    assert (fitted.estimand, fitted.sources, fitted.n_models, fitted.n_heritages) == ("last_gain", ("made up",), 12, 4)
    assert (fitted.family, fitted.level, fitted.method, fitted.seed) == ("heritage", LEVEL, "closed form", 3)
    assert list(fitted.sampled) == ["heritage"] and fitted.sampled["heritage"] is fitted.draws
    assert "closed form of the models' means" in fitted.warnings[-1]
    assert fitted.total_sd == 0.5
    assert fit_heritage(rows(), estimand="total_amplification", seed=3, method="closed form").total_sd == 2.0
    assert len(fitted.priors) == len({prior[0] for prior in fitted.priors}) >= 4


def test_models_are_summed_up_from_their_draws(fitted: HeritageFit) -> None:
    m, table = fitted.draws["m"], fitted.models()
    assert list(table)[:2] == ["model_id", "heritage"]
    assert table["model_id"].tolist() == list(fitted.design.models)
    labs = rows().drop_duplicates("model_id").set_index("model_id")["heritage"]
    assert table["heritage"].tolist() == labs[table["model_id"]].tolist()
    assert table["mean"].to_numpy() == pytest.approx(m.mean(axis=(0, 1)))
    lower, upper = quantile(m, LEVEL)
    assert table["lower"].to_numpy() == pytest.approx(lower)
    assert table["upper"].to_numpy() == pytest.approx(upper)
    assert table["probability_dampens"].to_numpy() == pytest.approx((m < 0).mean(axis=(0, 1)))


def test_labs_are_means_over_their_models(fitted: HeritageFit) -> None:
    m, effect, table = fitted.draws["m"], fitted.contributions["heritage"], fitted.labs().set_index("heritage")
    assert list(fitted.labs())[:2] == ["heritage", "n_models"]
    assert list(table.index) == list(fitted.design.labs)
    assert (table["mean"] * table["n_models"]).sum() == pytest.approx(0, abs=1e-9)
    for number, lab in enumerate(fitted.design.labs):
        own = np.flatnonzero(fitted.design.lab == number)
        mean = m[..., own].mean(axis=-1)
        assert table.loc[lab, "n_models"] == own.size
        assert table.loc[lab, "mean"] == pytest.approx(effect[..., own].mean(axis=-1).mean())
        assert table.loc[lab, "mean_log_gain"] == pytest.approx(mean.mean())
        assert table.loc[lab, "probability_dampens"] == pytest.approx((mean < 0).mean())


def test_a_lab_s_population_is_less_sure_than_its_models_and_its_next_model_less_still() -> None:
    """By simulation from the draws: new families and residuals with the geometry and scale of models at hand."""
    table = rows(16, 4).assign(gain=lambda t: t["gain"] * 0.95)
    family = table["model_id"].str[-2:].astype(int) % 3
    fit = fit_heritage(table.assign(family=family.astype(str)), estimand="last_gain", seed=1, method="closed form")
    rng, draws, design = np.random.default_rng(1), fit.draws, fit.design
    scale = draws.flat("tau")[:, None] * np.sqrt(draws.flat("share"))
    sizes = np.bincount(design.family) / 16
    unit = 1 / np.sqrt(1 - np.square(sizes).sum())
    parts = {name: part.reshape(-1, 16) for name, part in fit.contributions.items()}
    mean = draws.flat("alpha")[:, None] + parts["heritage"] + parts["geometry"] + parts["scale"]
    mean = mean - (unit * scale[:, 3] * (draws.flat("v") @ sizes))[:, None]
    new = mean + unit * scale[:, [3]] * rng.normal(size=mean.shape) + scale[:, [4]] * rng.normal(size=mean.shape)
    found = fit.labs()
    for number, row in found.iterrows():
        own = design.lab == number
        assert row["population_dampens"] == pytest.approx((mean[:, own].mean(axis=1) < 0).mean(), abs=1e-9)
        assert row["next_dampens"] == pytest.approx((new[:, own] < 0).mean(), abs=0.02)
    doubt = {name: (found[name] - 0.5).abs().mean() for name in found if str(name).endswith("dampens")}
    assert doubt["probability_dampens"] > doubt["population_dampens"] > doubt["next_dampens"]


def test_the_spread_of_few_labs_is_shown_under_other_priors(fitted: HeritageFit) -> None:
    table = fitted.table("superpopulation")
    assert table["prior"].tolist() == ["as fitted", "half the prior scale", "double the prior scale"]
    assert (table["groups"] == 4).all()
    upper = table.set_index("prior")["upper"]
    assert upper["half the prior scale"] < upper["as fitted"] < upper["double the prior scale"]
    sd = fitted.draws["tau"] * np.sqrt(fitted.draws["share"][..., 0])
    assert table["median"][0] == pytest.approx(np.median(sd))


def test_quantities_are_those_of_the_contributions(fitted: HeritageFit) -> None:
    found = fitted.quantities
    for number, name in enumerate(BLOCKS):
        part = fitted.contributions[name]
        assert found[f"sd_{name}"] == pytest.approx(part.std(axis=-1))
        assert (found[f"share_{name}"] == fitted.draws["share"][..., number]).all()
    assert sum(found[f"share_{name}"] for name in BLOCKS) == pytest.approx(np.ones(found["total_sd"].shape))
    assert (found["total_sd"] == fitted.draws["tau"]).all()
    assert found["mean_log_gain"] == pytest.approx(fitted.draws["m"].mean(axis=-1))
    summary = fitted.summary().set_index("quantity")
    assert set(summary.index) == set(found)
    assert summary["mean"].to_dict() == pytest.approx({name: values.mean() for name, values in found.items()})
    assert (summary["sources"] == "made up").all()
    assert (summary["level"] == LEVEL).all()


def test_probabilities_count_draws_in_order_and_bayes_factors_follow(fitted: HeritageFit) -> None:
    sd = {name: part.std(axis=-1) for name, part in fitted.contributions.items()}
    counted = np.mean((sd["heritage"] > sd["geometry"]) & (sd["geometry"] > sd["scale"]))
    assert fitted.probabilities[ORDER] == pytest.approx(counted)
    orders = fitted.orders().set_index("statement")
    before = prior_orders(fitted.design, concentration=1.0, seed=3)
    assert fitted.prior == before
    for statement, row in orders.iterrows():
        p, q = fitted.probabilities[statement], before[statement]
        assert (row["probability"], row["prior"]) == (p, q)
        assert row["bayes_factor"] == pytest.approx(p / (1 - p) / (q / (1 - q)) if p < 1 else np.inf)


def test_updates_hold_prior_and_posterior(fitted: HeritageFit) -> None:
    before = prior_blocks(fitted.design, total_sd=0.5, concentration=1.0, lab_df=0.0, seed=3)
    updates = fitted.updates()
    assert set(updates) == {"total_sd", *(f"{kind}_{name}" for kind in ("sd", "share") for name in BLOCKS)}
    assert (updates["total_sd"].prior == before["total_sd"]).all()
    assert (updates["total_sd"].posterior == fitted.draws["tau"].ravel()).all()
    for name in BLOCKS:
        for kind in ("sd", "share"):
            assert (updates[f"{kind}_{name}"].prior == before[f"{kind}_{name}"]).all()
            assert (updates[f"{kind}_{name}"].posterior == fitted.quantities[f"{kind}_{name}"].ravel()).all()
    assert (fitted.updates(seed=4)["total_sd"].prior != before["total_sd"]).any()
    assert before["share_heritage"].mean() == pytest.approx(0.25, abs=0.01)
    assert before["total_sd"].mean() == pytest.approx(0.5 * np.sqrt(2 / np.pi), rel=0.03)


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.95, "supported"), (0.9499, "inconclusive"), (0.0501, "inconclusive"), (0.05, "not supported")],
)
def test_the_rule_holds_at_its_bounds(probability: float, expected: str) -> None:
    assert verdict(probability) == expected


def test_the_gate_comes_before_the_verdict(fitted: HeritageFit) -> None:
    sure = replace(fitted, probabilities={ORDER: 0.99})
    assert (fitted.status, sure.verdict()) == (PASSED, "supported")
    bad = replace(fitted.draws, diagnostics=replace(fitted.draws.diagnostics, pareto_k=2.0))
    stuck = replace(sure, parts={"heritage": replace(fitted.parts["heritage"], draws=bad)})
    assert (stuck.status, stuck.verdict()) == (SAMPLER, SAMPLER)


def test_tables_and_the_record_hold_everything_and_are_json(fitted: HeritageFit) -> None:
    assert set(fitted.tables) == {
        *("orders", "labs", "models", "classical", "dominance", "commonality", "superpopulation")
    }
    assert fitted.table("labs") is fitted.tables["labs"]
    with pytest.raises(UsageError, match=r"no such table.*'?ranks'?"):
        fitted.table("ranks")
    record = json.loads(json.dumps(fitted.to_dict(), allow_nan=False))
    assert {"priors", "versions", "summary", "probabilities", "numbers", "tables", "warnings"} <= set(record)
    named = ("family", "estimand", "sources", "n_models", "n_heritages", "method")
    assert [record[name] for name in named] == ["heritage", "last_gain", ["made up"], 12, 4, "closed form"]
    assert (record["status"], record["verdict"]) == (PASSED, fitted.verdict())
    assert (record["level"], record["seed"], record["gate"]) == (LEVEL, 3, {"heritage": []})
    assert record["warnings"] == list(fitted.warnings)
    assert record["equations"] == list(fitted.equations)
    assert [line[0] for line in record["priors"]] == [prior[0] for prior in fitted.priors]
    assert [row["quantity"] for row in record["summary"]] == list(fitted.quantities)
    assert record["probabilities"] == dict(fitted.probabilities)
    assert len(record["tables"]["models"]) == 12


def test_the_figure_shows_the_blocks_in_their_order(fitted: HeritageFit) -> None:
    axes = fitted.plot(Figure().subplots())
    assert axes.get_xlabel() == "standard deviation over models, log last gain"
    shown = {label.get_text() for label in axes.get_yticklabels()}
    assert shown >= {"heritage", "geometry", "scale", "residual between models"}


@pytest.mark.parametrize(("estimand", "total_sd"), [("total_amplification", 2.0), ("last_gain", 0.5)])
def test_sampling_is_given_the_design_its_priors_and_its_settings(
    estimand: str, total_sd: float, fitted: HeritageFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, object] = {}

    def sampled(model: object, data: dict[str, object], **options: object) -> Draws:
        given.update(model=model, data=data, **options)
        return fitted.draws

    monkeypatch.setattr(sampling, "fit", sampled)
    fit = fit_heritage(rows(), estimand=estimand, seed=5, lab_df=4.0, concentration=2.0, cache=False, progress=True)
    expected = arrays(fit.design, total_sd=total_sd, concentration=2.0, lab_df=4.0)
    data = given.pop("data")
    assert isinstance(data, dict) and data.keys() == expected.keys()
    assert all(np.array_equal(data[name], value) for name, value in expected.items())
    settings = given.pop("settings")
    assert isinstance(settings, Settings) and settings.target_accept == 0.98
    assert given == {"model": heritage_model, "seed": 5, "cache": False, "progress": True}
    assert (fit.method, fit.total_sd, fit.concentration, fit.lab_df, fit.seed) == ("sampling", total_sd, 2.0, 4.0, 5)
    assert fit.prior == prior_orders(fit.design, concentration=2.0, lab_df=4.0, seed=5)
    assert fit.prior != prior_orders(fit.design, concentration=2.0, lab_df=0.0, seed=5)
    assert fit.sources == () and fit.warnings == (*fit.design.warnings, NO_SOURCE)
    fit_heritage(rows(), estimand=estimand, seed=5, method="sampling", settings=Settings(target_accept=0.9))
    assert given["cache"] is True and given["progress"] is None
    assert given["settings"] == Settings(target_accept=0.9)


def test_the_closed_form_is_given_its_priors(fitted: HeritageFit) -> None:
    other = fit_heritage(rows(), estimand="last_gain", seed=3, method="closed form", concentration=4.0)
    expected = closed_form(other.design, total_sd=0.5, concentration=4.0, seed=3, settings=CAREFUL)
    assert np.array_equal(other.draws["share"], expected["share"])
    assert not np.array_equal(other.draws["share"], fitted.draws["share"])
    assert other.prior == prior_orders(other.design, concentration=4.0, seed=3)


@pytest.mark.parametrize("options", [{"lab_df": 2.01}, {"concentration": 0.01}])
def test_priors_just_within_their_range_are_taken(
    options: dict[str, float], fitted: HeritageFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "fit", lambda *_, **__: fitted.draws)
    assert fit_heritage(rows(), estimand="last_gain", seed=1, **options).method == "sampling"


def test_what_is_refused_is_said(fitted: HeritageFit) -> None:
    for options, words, got in (
        ({"concentration": 0.0, "lab_df": 4.0}, "priors out of range", "concentration 0.0, lab_df 4.0"),
        ({"concentration": math.inf}, "priors out of range", "concentration inf, lab_df 0.0"),
        ({"lab_df": math.nan}, "priors out of range", "concentration 1.0, lab_df nan"),
        ({"concentration": -1.0}, "priors out of range", "concentration -1.0, lab_df 0.0"),
        ({"lab_df": 1.0}, "priors out of range", "concentration 1.0, lab_df 1.0"),
        ({"lab_df": 2.0}, "priors out of range", "concentration 1.0, lab_df 2.0"),
        ({"method": "guess"}, "no such method", "guess"),
        ({"lab_df": 4.0, "method": "closed form"}, "Student-t lab effects have no closed form", "4.0"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            fit_heritage(rows(), estimand="last_gain", seed=1, **options)
        assert caught.value.got == got
    with pytest.raises(UsageError, match="log last_gain"):
        fit_heritage(rows().assign(gain=2.0), estimand="last_gain", seed=1, method="closed form")


def test_a_study_of_just_the_size_is_sampled(fitted: HeritageFit, monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(*_: object, **__: object) -> Draws:
        raise InterruptedError("sampled")

    monkeypatch.setattr(sampling, "fit", sampled)
    with pytest.raises(InterruptedError, match="sampled"):
        fit_heritage(rows(LARGE_STUDY, 10), estimand="last_gain", seed=1)


def test_families_have_a_share_of_their_own_and_lineage_is_both(fitted: HeritageFit) -> None:
    table = rows(12, 3).sort_values("model_id")
    facts = table.drop_duplicates("model_id").sort_values(["heritage", "model_id"])
    family = dict(zip(facts["model_id"], ["x", "x", "y", "y"] * 3, strict=True))
    fit = fit_heritage(
        table.assign(family=table["model_id"].map(family)), estimand="last_gain", seed=1, method="closed form"
    )
    assert len(fit.design.families) == 6
    assert fit.design.blocks == ("heritage", "geometry", "scale", "family", "model")
    assert fit.draws["share"].shape[-1] == 5 and fit.draws["share"].sum(axis=-1) == pytest.approx(np.ones((4, 1500)))
    lab, families = fit.contributions["heritage"], fit.contributions["family"]
    assert np.ptp(lab[..., fit.design.lab == 0], axis=-1) == pytest.approx(np.zeros((4, 1500)), abs=1e-9)
    assert np.ptp(families[..., fit.design.lab == 0], axis=-1).max() > 0.01
    both = (lab + families).std(axis=-1)
    assert fit.quantities["sd_lineage"] == pytest.approx(both)
    assert fit.quantities["lineage_share"] == pytest.approx(fit.draws["share"][..., [0, 3]].sum(axis=-1))
    sd = {name: part.std(axis=-1) for name, part in fit.contributions.items()}
    counted = np.mean((both > sd["geometry"]) & (sd["geometry"] > sd["scale"]))
    assert fit.probabilities[LINEAGE_ORDER] == pytest.approx(counted)
    assert fit.prior[LINEAGE_ORDER] > fit.prior[ORDER]
    assert fit.orders()["statement"].tolist()[-1] == LINEAGE_ORDER
    assert len(fit.equations) == len(fitted.equations) + 1 and len(fit.priors) == len(fitted.priors) + 1
    assert set(fit.updates()) > {"share_family", "sd_family"}
    assert "families dropped" in set(fit.sensitivity()["alternative"])


def test_families_alone_are_not_taken_for_heritage() -> None:
    """Families differ and labs do not: the share goes to the family, and the order is not found for it."""
    rng, n = np.random.default_rng(4), 48
    facts = model_facts(n, 6, rng).sort_values("heritage", ignore_index=True)
    family = np.arange(n) // 2
    y = 0.3 * rng.normal(size=n // 2)[family] + 0.05 * rng.normal(size=n)
    table = facts.assign(family=family.astype(str), gain=np.exp(y), gain_sd=0.02 * np.exp(y), n_prompts=25)
    given = {"estimand": "last_gain", "seed": 1, "method": "closed form"}
    found = {name: q.mean() for name, q in fit_heritage(table, **given).quantities.items()}
    assert found["sd_family"] > 3 * found["sd_heritage"] and found["sd_lineage"] > 0.2
    assert fit_heritage(table, **given).probabilities["heritage > geometry"] < 0.95


def test_replicates_are_of_the_models_and_follow_their_seed(fitted: HeritageFit) -> None:
    part = fitted.parts["heritage"]
    assert fitted.diagnostics()["passes"].all() and set(fitted.diagnostics()["part"]) == {"heritage"}
    assert (part.observed == fitted.design.means()[0]).all()
    assert part.replicate(3).shape[1] == 12 and np.array_equal(part.replicate(3), part.replicate(3))
    assert (part.replicate(4) != part.replicate(3)).any()


@pytest.mark.slow
def test_prompts_under_draws_and_prior_are_those_of_the_declared_model() -> None:
    """Densities against PyMC's own, and means of models under the prior against its draws (Kolmogorov–Smirnov)."""
    facts = model_facts(8, 3, np.random.default_rng(2))
    table = simulate_heritage(facts, shares=SHARES, seed=2, n_prompts=6, n_categories=2).table
    short = Settings(chains=2, draws=60, tune=60)
    fit = fit_heritage(table, estimand="last_gain", seed=2, method="sampling", settings=short, cache=False)
    built = sampling._build(heritage_model, fit.data())
    given = {rv.name: fit.draws[rv.name] for rv in built.free_RVs}
    trace = sampling.to_arviz({"posterior": given}, {}, {}, {})
    stated = sampling._pymc().compute_log_likelihood(trace, model=built, extend_inferencedata=False, progressbar=False)
    centre, sigma, nu = predictive._prompts(fit, {name: fit.draws.flat(name) for name in fit.draws.values})
    density = stats.t.logpdf(fit.design.y, nu, centre, sigma)
    assert density == pytest.approx(stated["log_gain"].values.reshape(density.shape), rel=1e-6, abs=1e-8)
    own = predictive.from_prior(fit, 1)
    drawn = sampling.prior_predictive(heritage_model, fit.data(), seed=1, draws=400)["log_gain"]
    for i in range(3):
        other = drawn[:, fit.design.y_model == i].mean(axis=1)
        assert stats.ks_2samp(own[:, i], other).pvalue > 0.001
