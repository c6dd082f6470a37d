"""What ArviZ gets of a fit: effects by names of labs, the prior of every draw, what was known."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from test_group_effects import fitted  # noqa: F401 - a fixture
from test_heritage import rows

import thermostats
from thermostats.modelling.arviz_groups import describe_untrusted
from thermostats.modelling.draws import is_first_generation, normalise_pareto_weights
from thermostats.modelling.fit import Fit
from thermostats.modelling.mixed_model import MixedDesign


@pytest.fixture(scope="module")
def data(fitted: Fit) -> object:  # noqa: F811
    return fitted.to_arviz()


def test_effects_of_labs_have_their_names(fitted: Fit, data: dict) -> None:  # noqa: F811
    effects = fitted.effects("lab")
    for group in ("posterior", "prior"):
        drawn = data[group]["lab_effect"]
        assert drawn.dims == ("chain", "draw", "lab")
        assert tuple(drawn["lab"].values) == effects.names
    name = effects.names[0]
    found = data["posterior"]["lab_effect"].sel(lab=name).values
    assert found == pytest.approx(effects.draws[..., 0])
    assert fitted.posterior["lab_effect"].dims == ("chain", "draw", "lab")


def test_the_prior_of_every_draw_is_there(fitted: Fit, data: dict) -> None:  # noqa: F811
    drawn = data["log_prior"]["prior"]
    assert drawn.dims == ("chain", "draw")
    assert drawn.values.ravel() == pytest.approx(fitted.log_prior)


def test_what_was_known_is_there(fitted: Fit, data: dict) -> None:  # noqa: F811
    known = data["constant_data"]
    design = fitted.designed(MixedDesign)
    for column in design.covariates:
        assert known[column].values == pytest.approx(fitted.rows[column].to_numpy(np.float64))
    assert known["y_se"].values == pytest.approx(design.gaussian.error)
    labs = data["posterior"]["lab"].values[known["lab_index"].values]
    assert labs.tolist() == fitted.rows["heritage"].tolist()
    assert known["y_se"].dims == data["observed_data"]["y"].dims == ("outcome",)


def test_a_line_has_its_groups_by_their_column() -> None:
    table = rows().groupby(["model_id", "heritage"], as_index=False)[["gain", "n_layers"]].mean()
    table = table.rename(columns={"model_id": "Name", "heritage": "mean"})
    fit = thermostats.fit_line(table, "gain", ["n_layers"], model="Name", group="mean")
    data = fit.to_arviz()
    assert data["posterior"]["mean_effect"].dims == ("chain", "draw", "mean_of")
    assert data["posterior"]["mean"].dims == ("chain", "draw")
    assert data["constant_data"]["n_layers"].values == pytest.approx(table["n_layers"])


@pytest.mark.skipif(not is_first_generation(), reason="names of calls of ArviZ before 1.0")
def test_calls_of_arviz_run(data: object) -> None:
    import arviz

    for component in ("prior", "likelihood"):
        sensitive = arviz.psens(data, component=component)
        assert np.isfinite(sensitive["lab_effect"].values).all()
    arviz.plot_forest(data, var_names=["lab_effect"])
    arviz.summary(data, var_names=["lab_effect", "sd_heritage"])
    plt.close("all")


def test_outcomes_that_weights_do_not_predict_are_named(fitted: Fit, data: dict) -> None:  # noqa: F811
    words = data["log_likelihood"].attrs["pareto_k"]
    assert "energy" in data["posterior"].attrs["energy"]
    likelihood = data["log_likelihood"]["y"].values
    names = data["observed_data"]["outcome"].values
    _, k = normalise_pareto_weights(-likelihood.reshape(-1, len(names)).T)
    beyond = names[k > 0.7]
    assert len(beyond) > 0
    assert words.startswith(f"{len(beyond)} of {len(names)} outcomes have k above 0.7 ({beyond[0]}")
    assert words.endswith("fit.loo() does")
    assert fitted.loo().untrusted == 0
    calm = np.random.default_rng(1).normal(0.0, 0.1, (4, 500, 3))
    assert describe_untrusted(calm, "abc") == "none of 3 outcomes has k above 0.7"
