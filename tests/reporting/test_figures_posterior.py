from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.plots import posterior
from thermostats.plots.column import COLUMN, column_style

SUMMARY = pd.DataFrame(
    {
        "quantity": ["sd_heritage", "share_scale", "share_model", "share_geometry", "share_heritage"],
        "median": [0.1, 0.05, 0.3, 0.2, 0.4],
        "lower": [0.0, 0.0, 0.1, 0.0, 0.1],
        "upper": [0.2, 0.3, 0.6, 0.5, 0.8],
    }
)
ORDERS = pd.DataFrame(
    {
        "statement": ["heritage > geometry", "heritage > geometry > scale"],
        "probability": [0.71, 0.44],
        "prior": [0.5, 0.18],
        "bayes_factor": [2.4, 3.6],
    }
)
LABS = pd.DataFrame(
    {
        "heritage": ["Meta", "EleutherAI", "<script>"],
        "n_models": [5, 12, 1],
        "median": [0.03, -0.05, 0.0],
        "lower": [-0.03, -0.1, -0.2],
        "upper": [0.1, 0.0, 0.2],
        "probability_dampens": [0.01, 0.97, 0.5],
    }
)
PREDICTIVE = pd.DataFrame(
    {
        "statistic": ["largest", "smallest"],
        "observed": [0.2, -1.0],
        "lower": [0.0, -0.5],
        "upper": [0.4, 0.5],
        "p": [0.5, 0.999],
    }
)
STAGES = pd.DataFrame(
    {
        "quantity": ["tau", "tau", "share", "share"],
        "stage": ["prior", "posterior"] * 2,
        "median": [0.5, 0.2, 0.3, 0.4],
        "lower": [0.1, 0.1, 0.0, 0.2],
        "upper": [0.9, 0.3, 0.6, 0.6],
    }
)
PREDICTIONS = pd.DataFrame(
    {
        "model_id": ["a/one", "b/two", "b/three"],
        "heritage": ["Meta", "TII", "TII"],
        "observed": [0.1, 0.5, -0.1],
        "predicted": [0.0, 0.0, 0.0],
        "lower": [-0.2] * 3,
        "upper": [0.2] * 3,
        "baseline": [0.05] * 3,
    }
)
DRAWN: dict[Callable[..., Axes], pd.DataFrame] = {
    posterior.variance_shares: SUMMARY,
    posterior.order_probability_bar: ORDERS,
    posterior.lab_forest: LABS,
    posterior.posterior_predictive_panels: PREDICTIVE,
    posterior.prior_to_posterior: STAGES,
    posterior.left_out_errors: PREDICTIONS,
}


def drawn(function: Callable[..., Axes]) -> Axes:
    axes = Figure(figsize=(COLUMN, 2)).add_subplot()
    assert function(DRAWN[function], axes) is axes
    return axes


def rows(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


@pytest.mark.parametrize("function", DRAWN, ids=lambda function: function.__name__)
def test_a_table_gives_the_same_picture_twice_and_is_left_as_it_was(function: Callable[..., Axes]) -> None:
    before, files = DRAWN[function].copy(), []
    for _ in range(2):
        with column_style():
            stream = io.BytesIO()
            drawn(function).figure.savefig(stream, format="svg", metadata={"Date": None})
        files.append(stream.getvalue())
    assert files[0] == files[1]
    pd.testing.assert_frame_equal(before, DRAWN[function])


def test_shares_stand_in_the_order_of_the_claim_and_other_quantities_are_left_out() -> None:
    axes = drawn(posterior.variance_shares)
    assert rows(axes) == ["heritage", "geometry", "scale", "residual between models"]
    medians = next(c for c in axes.collections if "median" in str(c.get_label())).get_offsets()
    assert np.ma.getdata(medians)[:, 0] == pytest.approx([0.4, 0.2, 0.05, 0.3])


def test_bars_are_as_long_as_the_probabilities() -> None:
    axes = drawn(posterior.order_probability_bar)
    lengths = [[patch.get_width() for patch in container] for container in axes.containers]
    assert lengths == [[0.71, 0.44], [0.5, 0.18]]
    assert [text.get_text() for text in axes.texts] == ["BF 2.4", "BF 3.6"]


def test_labs_stand_in_order_of_their_effect_with_their_own_probability() -> None:
    axes = drawn(posterior.lab_forest)
    assert rows(axes) == ["EleutherAI (12)", "<script> (1)", "Meta (5)"]
    assert [text.get_text() for text in axes.texts][:3] == ["0.97", "0.50", "0.01"]


def test_an_observation_outside_its_interval_has_another_mark() -> None:
    axes = drawn(posterior.posterior_predictive_panels)
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in axes.collections}
    assert points["observed, inside"].tolist() == [[0.5, 0.0]]
    assert points["observed, further to the left than shown"].tolist() == [[-posterior.BEYOND, 1.0]]
    near = posterior.posterior_predictive_panels(PREDICTIVE.assign(observed=-0.6), Figure().add_subplot())
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in near.collections}
    assert points["observed, outside"][0].tolist() == pytest.approx([-0.1, 1.0])


def test_prior_and_posterior_of_a_quantity_share_its_row() -> None:
    axes = drawn(posterior.prior_to_posterior)
    assert rows(axes) == ["tau", "share"]
    assert [bar.get_width() for bar in axes.containers[0]] == pytest.approx([0.8, 0.6])
    ends = [end for bar in axes.containers[0] for end in (bar.get_x(), bar.get_x() + bar.get_width())]
    assert axes.get_xlim()[0] < min(ends) and max(ends) < axes.get_xlim()[1]


def test_a_missed_model_is_hollow() -> None:
    axes = drawn(posterior.left_out_errors)
    white = [c for c in axes.collections if len(c.get_facecolor()) and np.allclose(c.get_facecolor()[0, :3], 1.0)]
    hollow = [c for c in white if len(c.get_offsets()) and c.get_linewidths()[0] > 1]
    assert [np.ma.getdata(c.get_offsets())[0, 0] for c in hollow] == [0.5]
