"""What a fit of the heritage model says, against its draws by hand; bad input; free blocks; labs
never seen."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

import thermostats
from thermostats import formatting
from thermostats.errors import UsageError
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.fit_heritage import fit_heritage, leave_one_out
from thermostats.modelling.heritage.law import (
    ORDER,
    build_scaled_map,
    compute_bayes_factor,
    compute_contributions,
    group_basis,
    list_orders,
    log_gains,
)
from thermostats.modelling.heritage.simulated import simulate_facts, simulate_heritage

SHARES = {"heritage": 0.6, "geometry": 0.15, "scale": 0.05}
BLOCKS = ("heritage", "geometry", "scale", "model")


def rows(n_models: int = 12, n_labs: int = 4) -> pd.DataFrame:
    facts = simulate_facts(n_models, n_labs, np.random.default_rng(1))
    return simulate_heritage(facts, shares=SHARES, seed=1, n_prompts=6, n_categories=1).table


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit_heritage(rows().assign(source="made up"), estimand="last_gain", seed=3)


def test_means_and_errors_are_those_of_the_prompts(fitted: Fit) -> None:
    logs = np.log(rows()["gain"]).groupby(rows()["model_id"])
    assert fitted.rows["log_gain"].to_numpy() == pytest.approx(logs.mean().to_numpy())
    assert fitted.rows["sd"].to_numpy() == pytest.approx(logs.std().to_numpy())
    assert (fitted.rows["n_prompts"] == 6).all()
    off = np.log(fitted.rows["error"] * 6**0.5 / fitted.rows["sd"])
    assert off.abs().max() < 1 and np.ptp(off) > 0.05  # moderated


def test_an_average_is_worth_its_prompts() -> None:
    """The same table known by mean and spread of the logs alone."""
    table = rows()
    logs = np.log(table["gain"]).groupby(table["model_id"])
    facts = table.drop(columns=["prompt_id", "category", "gain"]).drop_duplicates("model_id")
    mean, sd = (facts["model_id"].map(values) for values in (logs.mean(), logs.std()))
    gain = np.exp(mean + sd**2 / 2)
    averaged = facts.assign(gain=gain, gain_sd=sd * gain, n_prompts=6, prompt_id="")
    one, other = (fit_heritage(t, estimand="last_gain", seed=3) for t in (table, averaged))
    for column in ("log_gain", "error", "freedom"):
        assert one.rows[column].to_numpy() == pytest.approx(
            other.rows[column].to_numpy(), rel=1e-6
        ), column


def test_models_and_labs_are_summed_up_from_their_draws(fitted: Fit) -> None:
    m, models, labs = (
        log_gains(fitted.draws.values, fitted.design),
        fitted.table("models"),
        fitted.table("labs"),
    )
    assert (
        models["model_id"].tolist()
        == sorted(set(rows()["model_id"]))
        == list(fitted.design.outcomes)
    )
    assert models["mean"].to_numpy() == pytest.approx(m.mean(axis=(0, 1)))
    assert models["probability_dampens"].to_numpy() == pytest.approx((m < 0).mean(axis=(0, 1)))
    lower, upper = np.quantile(m.reshape(-1, 12), [0.03, 0.97], axis=0)
    assert (models["lower"].to_numpy(), models["upper"].to_numpy()) == (
        pytest.approx(lower),
        pytest.approx(upper),
    )
    effect = compute_contributions(fitted.draws.values, fitted.design)["heritage"]
    assert (labs["mean"] * labs["n_models"]).sum() == pytest.approx(0, abs=1e-9)
    for row in labs.to_dict("records"):
        own = np.flatnonzero(models["heritage"] == row["heritage"])
        mean = m[..., own].mean(axis=-1)
        assert row["n_models"] == own.size
        assert row["mean"] == pytest.approx(effect[..., own].mean())
        assert (row["mean_log_gain"], row["probability_dampens"]) == pytest.approx(
            (mean.mean(), (mean < 0).mean())
        )
        assert fitted.quantities[f"mean log gain of {row['heritage']}"] == pytest.approx(mean)


def test_a_lab_s_population_is_less_sure_than_its_models_and_its_next_model_less_still() -> None:
    """By simulation from the draws: new families and residuals with the geometry and scale of
    models at hand."""
    table = rows(16, 4).assign(gain=lambda t: t["gain"] * 0.95)
    family = table["model_id"].str[-2:].astype(int) % 3
    fit = fit_heritage(table.assign(family=family.astype(str)), estimand="last_gain", seed=1)
    rng, values, design = np.random.default_rng(1), fit.draws.values, fit.design
    scale = values["scale"].reshape(-1, 5)
    sizes = design.effects["u_family"].basis.to_numpy()
    unit = 1 / np.sqrt(1 - np.square(sizes).sum())
    parts = {
        name: part.reshape(-1, 16) for name, part in compute_contributions(values, design).items()
    }
    mean = fit.draws.flat("beta") + parts["heritage"] + parts["geometry"] + parts["scale"]
    mean = mean - unit * (fit.draws.flat("u_family") @ sizes)[:, None]
    new = (
        mean
        + unit * scale[:, [3]] * rng.normal(size=mean.shape)
        + scale[:, [4]] * rng.normal(size=mean.shape)
    )
    found = fit.table("labs")
    for number, row in found.iterrows():
        own = design.effects["u_heritage"].codes == number
        assert row["population_dampens"] == pytest.approx(
            (mean[:, own].mean(axis=1) < 0).mean(), abs=1e-9
        )
        assert row["next_dampens"] == pytest.approx((new[:, own] < 0).mean(), abs=0.02)
    doubt = {
        name: (found[name] - 0.5).abs().mean() for name in found if str(name).endswith("dampens")
    }
    assert doubt["probability_dampens"] > doubt["population_dampens"] > doubt["next_dampens"]


def test_the_spread_of_few_labs_is_shown_under_other_priors(fitted: Fit) -> None:
    table = fitted.table("superpopulation")
    assert table["prior"].tolist() == [
        "as fitted",
        "half the prior scale",
        "double the prior scale",
    ]
    assert (table["groups"] == 4).all()
    upper = table.set_index("prior")["upper"]
    assert upper["half the prior scale"] < upper["as fitted"] < upper["double the prior scale"]
    assert table["median"][0] == pytest.approx(np.median(fitted.draws["scale"][..., 0]))


def test_quantities_are_those_of_the_contributions(fitted: Fit) -> None:
    quantities, square = fitted.quantities, np.square(fitted.draws["scale"])
    for number, name in enumerate(BLOCKS):
        part = compute_contributions(fitted.draws.values, fitted.design)[name]
        assert quantities[f"sd_{name}"] == pytest.approx(part.std(axis=-1))
        assert quantities[f"share_{name}"] == pytest.approx(
            square[..., number] / square.sum(axis=-1)
        )
    assert quantities["total_sd"] == pytest.approx(np.sqrt(square.sum(axis=-1)))
    m = log_gains(fitted.draws.values, fitted.design)
    assert quantities["models_mean_log_gain"] == pytest.approx(m.mean(axis=-1))
    unprinted = {name for name in quantities if name.startswith("mean log gain of")} | {
        "models_mean_log_gain"
    }
    assert set(fitted.summary().index) == set(quantities) - unprinted


def test_the_mean_that_is_printed_has_the_error_of_a_sample_of_labs_and_models() -> None:
    """Balanced labs of exact gains: given the scales its variance is that of a mean of labs,
    s_lab²/J + s_model²/M."""
    rng = np.random.default_rng(5)
    lab = np.repeat(np.arange(10), 6)
    y = 0.0763 + rng.normal(0, 0.1, 10)[lab] + rng.normal(0, 0.1, 60)
    names = {"model_id": [f"m{i}" for i in range(60)], "heritage": [f"lab{i}" for i in lab]}
    fit = fit_heritage(pd.DataFrame({**names, "gain": np.exp(y)}), seed=1)
    row = fit.summary().loc["population_mean_log_gain"]
    square = np.square(
        fit.draws["scale"]
    )  # of labs centred, so that in the population it is 10/9 of that
    given = square[..., 0] * 10 / 9 / 10 + square[..., 1] / 60
    assert row["mean"] == pytest.approx(y.mean(), abs=0.005) and row["sd"] == pytest.approx(
        given.mean() ** 0.5, rel=0.05
    )
    assert row["upper"] - row["lower"] > 0.05
    assert fit.quantities["models_mean_log_gain"] == pytest.approx(y.mean())


def test_probabilities_count_draws_in_order_and_bayes_factors_follow(fitted: Fit) -> None:
    sd = {name: fitted.quantities[f"sd_{name}"] for name in BLOCKS}
    counted = np.mean((sd["heritage"] > sd["geometry"]) & (sd["geometry"] > sd["scale"]))
    assert fitted.probabilities[ORDER] == pytest.approx(counted)
    orders = fitted.table("orders").set_index("statement")
    assert list(orders.index) == [
        "heritage > geometry and scale",
        ORDER,
        "heritage > geometry",
        "geometry > scale",
    ]
    for row in orders.itertuples():
        p, q = row.probability, row.prior
        assert row.bayes_factor == pytest.approx(p / (1 - p) / (q / (1 - q)) if p < 1 else np.inf)
    assert (compute_bayes_factor(0.25, 0.25), compute_bayes_factor(1.0, 0.25)) == (
        pytest.approx(1),
        np.inf,
    )


def test_the_first_statement_is_the_lab_above_shape_and_size_together(fitted: Fit) -> None:
    """The spread of the sum of both contributions, counted draw by draw; it and the order are what
    is printed first."""
    parts = compute_contributions(fitted.draws.values, fitted.design)
    together = np.mean(
        parts["heritage"].std(axis=-1) > (parts["geometry"] + parts["scale"]).std(axis=-1)
    )
    first, second = list(fitted.probabilities.items())[:2]
    assert (
        first == ("heritage > geometry and scale", pytest.approx(together)) and second[0] == ORDER
    )
    lines = repr(fitted).splitlines()
    assert (
        f"P({first[0]}) = {formatting.format_number(first[1])}" in lines
        and f"P({ORDER}) = {formatting.format_number(second[1])}" in lines
    )


def test_checks_list_every_alternative_and_every_unit(fitted: Fit) -> None:
    gate = fitted.check()
    assert gate.passes, gate.reasons
    tables = {check.name: check.table for check in gate.checks}
    others = set(tables["prior sensitivity"]["alternative"])
    assert {
        "concentration 0.5",
        "concentration 2",
        "scale dropped",
        "geometry residualised on scale",
    } < others
    assert "scale residualised on geometry" in others
    left = tables["influence"]
    assert len(left[left["statement"] == ORDER]) == 1 + 4 + 12
    assert set(tables["posterior predictive"]["statistic"]) >= {"curvature", "spread by group"}


@pytest.mark.parametrize(
    "kind", ["blocks", "shares", "orders", "labs", "prior", "replicated", "intervals"]
)
def test_figures_are_drawn(fitted: Fit, kind: str) -> None:
    axes = fitted.plot(kind, Figure().subplots())
    assert axes.has_data()
    if kind == "blocks":
        assert axes.get_xlabel() == "standard deviation over models, log last gain"
        shown = {label.get_text() for label in axes.get_yticklabels()}
        assert shown >= {"heritage", "geometry", "scale", "residual between models"}


def test_what_is_refused_is_said() -> None:
    for options, words in (
        ({"concentration": 0.0}, "priors out of range"),
        ({"concentration": math.inf}, "priors out of range"),
        ({"lab_df": math.nan}, "priors out of range"),
        ({"lab_df": 2.0}, "priors out of range"),
        ({"residuals": "skewed"}, "did you mean skew"),
        ({"blocks": {}}, "no such blocks"),
        ({"blocks": {"heritage": []}}, "no such blocks"),
        ({"blocks": {"family": ["heritage"]}}, "no such blocks"),
        ({"blocks": {"heritage": ["lab"]}}, "no such column"),
        ({"blocks": {"recipe": ["heritage", "n_layers"]}}, "a block of names and numbers"),
    ):
        with pytest.raises(UsageError, match=words):
            fit_heritage(rows(), estimand="last_gain", **options)
    with pytest.raises(UsageError, match="log last_gain"):
        fit_heritage(rows().assign(gain=2.0), estimand="last_gain")


def test_families_have_a_share_of_their_own_and_lineage_is_both() -> None:
    table = rows(16, 4)
    family = (table["model_id"].str[-2:].astype(int) // 4 % 2).astype(str)
    fit = fit_heritage(table.assign(family=family), estimand="last_gain")
    parts = compute_contributions(fit.draws.values, fit.design)
    assert list(parts) == ["heritage", "geometry", "scale", "family", "model"]
    assert fit.quantities["sd_lineage"] == pytest.approx(
        (parts["heritage"] + parts["family"]).std(axis=-1)
    )
    both = fit.quantities["share_heritage"] + fit.quantities["share_family"]
    assert fit.quantities["lineage_share"] == pytest.approx(both)
    assert "lineage > geometry > scale" in fit.probabilities
    assert "families dropped" in fit.law.alternatives


def test_blocks_are_free_and_fits_of_other_blocks_are_compared() -> None:
    table = rows(24, 6).rename(columns={"heritage": "lab"})
    labs = fit_heritage(table, estimand="last_gain", blocks={"heritage": ["lab"]})
    assert labs.probabilities == {} and list(labs.quantities)[:2] == ["sd_heritage", "sd_model"]
    shape = fit_heritage(
        table, estimand="last_gain", blocks={"size": ["n_params"], "depth": ["n_layers"]}
    )
    assert list(shape.probabilities) == ["size > depth"] and "labs" not in shape.law.tables
    compared = thermostats.compare({"shape": shape, "labs": labs})
    assert compared.index.tolist() == ["labs", "shape"] and compared["dse"].iloc[1] > 0
    with pytest.raises(UsageError, match="with labs"):
        leave_one_out(shape, by="model")
    both = fit_heritage(
        table, estimand="last_gain", blocks={"recipe": ["lab"], "depth": ["n_layers"]}
    )
    assert list(both.probabilities) == ["recipe > depth"] and both.law.units == ("lab", "model_id")
    assert list_orders(("a", "b")) == ("a > b",)


def test_a_lab_never_seen_is_drawn_anew(fitted: Fit) -> None:
    """Models at hand are predicted by their blocks; two of one new lab share its effect, two of two
    new labs do not."""
    facts = rows().drop_duplicates("model_id").sort_values("model_id").drop(columns=["gain"])
    centre = fitted.model.expected(fitted.draws.few(4000)).mean(axis=0)
    assert fitted.predict(facts, scale="log")["log_last_gain_mean"].to_numpy() == pytest.approx(
        centre, abs=0.02
    )
    pair = pd.concat([facts.head(1)] * 2, ignore_index=True).assign(model_id=["a", "b"])
    known, one, two = (
        fitted.predicted(pair.assign(heritage=labs))
        for labs in (pair["heritage"], "new", ["x", "y"])
    )
    assert one.std(axis=0).min() > known.std(axis=0).max()
    own = np.square(fitted.draws["scale"][..., -1]).mean()
    share = 1 - own / one.var(axis=0).mean()
    assert np.corrcoef(one.T)[0, 1] == pytest.approx(share, abs=0.1)
    assert np.corrcoef(two.T)[0, 1] < np.corrcoef(one.T)[0, 1] - 0.2


def test_models_and_labs_left_out_are_predicted(fitted: Fit) -> None:
    held = leave_one_out(fitted, by="model")
    assert len(held.predictions) == 12 and held.coverage >= 0.75
    assert held.rmse < held.rmse_baseline and held.elpd_difference > 0
    own = held.predictions
    mean = own["observed"].mean()
    assert own["baseline"].to_numpy() == pytest.approx((12 * mean - own["observed"]) / 11)
    labs = own.groupby("heritage")["observed"].transform("sum")
    assert own["lab_mean"].to_numpy() == pytest.approx((labs - own["observed"]) / 2)
    by_lab = leave_one_out(fitted, by="heritage")
    assert np.isnan(by_lab.rmse_lab_mean) and len(by_lab.predictions) == 12
    assert fitted.table("left out")["left_out"].tolist() == ["model", "heritage"]
    with pytest.raises(UsageError, match="nothing to leave out"):
        leave_one_out(fitted, by="prompt")


def test_a_lab_left_out_is_predicted_as_by_a_fit_without_it(fitted: Fit) -> None:
    """The refit's own prediction of a lab that it has never seen."""
    held = leave_one_out(fitted, by="heritage").predictions
    lab = held["heritage"][0]
    out = fitted.rows["heritage"] == lab
    without = fitted.exclude_rows(out).predict(
        fitted.rows[out].drop(columns="log_gain"), scale="log"
    )
    without = without.rename(columns=lambda name: name.removeprefix("log_last_gain_"))
    own = held[held["heritage"] == lab]
    assert own["predicted"].to_numpy() == pytest.approx(without["mean"].to_numpy(), abs=0.05)
    assert (own["upper"] - own["lower"]).to_numpy() == pytest.approx(
        (without["upper"] - without["lower"]).to_numpy(), rel=0.3
    )


def test_blocks_have_unit_expected_variance() -> None:
    rng = np.random.default_rng(0)
    lab = np.array([0, 0, 0, 0, 1, 1, 2])
    columns = rng.normal(size=(7, 3))
    mapped = (columns - columns.mean(axis=0)) @ build_scaled_map(columns)
    for basis in (group_basis(lab, np.bincount(lab) / 7), mapped):
        assert basis.mean(axis=0) == pytest.approx(0, abs=1e-12)
        assert np.trace(basis @ basis.T) / 7 == pytest.approx(1)
    deficient = rng.normal(size=(9, 2))
    assert build_scaled_map(np.column_stack([deficient, deficient.sum(axis=1)])).shape == (3, 2)
    assert build_scaled_map(np.ones((4, 2))).shape == (2, 0)


def test_rows_too_few_for_shares_say_what_they_do_say() -> None:
    """Three models, one lab, one model a lab: the geometric mean with its t interval, and a call
    that works."""
    df = rows(24, 6).drop_duplicates("model_id").drop(columns="prompt_id")
    few = df.head(3)
    interval = stats.ttest_1samp(np.log(few["gain"]), 0.0).confidence_interval(0.95)
    said = (
        f"geometric mean gain is {stats.gmean(few['gain']):.3g}, 95% interval "
        f"{np.exp(interval.low):.3g} to "
    )
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        fit_heritage(few)
    assert caught.value.next_step.endswith('df.groupby("heritage")["gain"].describe()')
    for table in (df.assign(heritage="one"), df.drop_duplicates("heritage")):
        with pytest.raises(UsageError, match="geometric mean gain is") as caught:
            fit_heritage(table)
        call = caught.value.next_step
        assert "lab=None" in call
        assert eval(call, {"thermostats": thermostats, "df": table}).quantities  # noqa: S307


def test_other_concentrations_are_other_priors(fitted: Fit) -> None:
    other = fit_heritage(rows(), estimand="last_gain", seed=3, concentration=4.0)
    assert other.model.prior == replace(fitted.model.prior, concentrations=(4.0,) * 4)
    spread = [fit.quantities["share_heritage"].std() for fit in (other, fitted)]
    assert spread[0] < spread[1]
