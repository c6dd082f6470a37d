from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.plots import general, posterior
from thermostats.plots.general import COLUMN, log_axis

TABLE = pd.DataFrame(
    {
        "model_id": ["meta/opt-125m", "EleutherAI/$x_1$", "<script>", "unknown lab/one"],
        "heritage": ["Meta", "EleutherAI", "TII", "A lab nobody knows"],
        "n_layers": [12, 24, 32, 24],
        "layer": [1, 2, 3, 4],
        "gain": [1.1, 0.9, 1.3, 1.0],
        "lower": [1.0, 0.8, 1.2, 0.9],
        "upper": [1.2, 1.0, 1.4, 1.1],
    }
)
SUMMARY = pd.DataFrame(
    {
        "quantity": [
            "sd_heritage",
            "share_scale",
            "share_model",
            "share_geometry",
            "share_heritage",
        ],
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
    posterior.draw_variance_shares: SUMMARY,
    posterior.order_probability_bar: ORDERS,
    posterior.draw_lab_forest: LABS,
    posterior.draw_predictive_panels: PREDICTIVE,
    posterior.draw_prior_to_posterior: STAGES,
    posterior.draw_left_out_errors: PREDICTIONS,
}


def shown(function: Callable[..., Axes]) -> Axes:
    axes = Figure(figsize=(COLUMN, 2)).add_subplot()
    assert function(DRAWN[function], axes) is axes
    return axes


def rows(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


HELPERS: dict[str, Callable[[Axes], Axes]] = {
    "scatter_labelled": lambda axes: general.draw_scatter(TABLE, axes, x="n_layers", y="gain"),
    "gain_by_depth": lambda axes: general.draw_gain_by_depth(
        TABLE,
        axes,
        y="gain",
        lower="lower",
        upper="upper",
        curves={"bound": lambda L: 10 ** (1 / L)},
    ),
    "forest": lambda axes: general.draw_forest(
        TABLE, axes, label="model_id", estimate="gain", heritage="heritage", null=1.0
    ),
    "slopes": lambda axes: general.draw_slopes(
        TABLE, axes, before=("gain", "lower", "upper"), after=("upper", "gain", "upper")
    ),
    "lines_by_layer": lambda axes: general.draw_lines_by_layer(TABLE, axes, y="gain", null=1.0),
    "strip_by_group": lambda axes: general.strip_by_group(TABLE, axes, value="gain"),
}


def test_families_of_three_depths_are_joined_through_their_geometric_means() -> None:
    table = pd.DataFrame({"n_layers": [6, 12, 12, 24, 6, 12], "gain": [4.0, 1, 4, 1, 2, 3]})
    table = table.assign(model_id=list("abcdef"), heritage="Meta", family=list("ooooqq"))
    axes = Figure().add_subplot()
    curves = {"bound": lambda L: 10 ** (1 / L)}
    general.draw_gain_by_depth(table, axes, y="gain", curves=curves, families="family")
    lines = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 3]
    (joined,) = lines
    assert joined.tolist() == [[6, 4], [12, 2], [24, 1]]


PICTURES = {name: (draw, TABLE) for name, draw in HELPERS.items()}
PICTURES |= {
    function.__name__: (partial(function, table), table) for function, table in DRAWN.items()
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_same_table_gives_the_same_picture_twice_and_is_left_as_it_was(name: str) -> None:
    (draw, table), images = PICTURES[name], []
    before = table.copy()
    for _ in range(2):
        with general.set_house_style():
            axes = Figure().add_subplot()
            assert draw(axes) is axes
            stream = io.BytesIO()
            axes.figure.savefig(stream, format="svg", metadata={"Date": None})
            images.append(stream.getvalue())
    assert images[0] == images[1]
    pd.testing.assert_frame_equal(before, table)


def test_known_heritages_differ_in_colour_and_in_shape() -> None:
    assert len({mark.color for mark in general.HERITAGES.values()}) == len(general.HERITAGES)
    assert len({mark.marker for mark in general.HERITAGES.values()}) == len(general.HERITAGES)
    assert general.mark("MistralAI") == general.mark("Mistral AI")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0.7, 3.2), ["1", "1.5", "2", "2.5", "3"]),
        ((0.7, 4.0), ["1", "2"]),
        ((0.9, 30000.0), ["1", "10", "100", "1,000", "10,000"]),
        ((3e3, 3e8), ["10⁴", "10⁵", "10⁶", "10⁷", "10⁸"]),
    ],
)
def test_ticks_are_plain_numbers_within_the_limits(
    limits: tuple[float, float], expected: list[str]
) -> None:
    axes = Figure().add_subplot()
    axes.plot(limits, limits)
    axes.set_xlim(*limits)
    log_axis(axes, "x")
    ticks = [tick for tick in axes.get_xticks() if limits[0] <= tick <= limits[1]]
    assert [axes.xaxis.get_major_formatter()(tick, 0) for tick in ticks] == expected
    assert axes.get_xlim() == limits


def test_ticks_follow_limits_that_are_set_after_the_axis_is_made() -> None:
    axes = Figure().add_subplot()
    axes.plot([1, 2], [0.9, 90])
    log_axis(axes, "y")
    axes.set_ylim(0.95, 1.4)
    ticks = [tick for tick in axes.get_yticks() if 0.95 <= tick <= 1.4]
    assert [axes.yaxis.get_major_formatter()(tick, 0) for tick in ticks] == [
        "1",
        "1.1",
        "1.2",
        "1.3",
        "1.4",
    ]


def test_shares_stand_in_the_order_of_the_claim_and_other_quantities_are_left_out() -> None:
    axes = shown(posterior.draw_variance_shares)
    assert rows(axes) == ["heritage", "geometry", "scale", "residual between models"]
    medians = next(c for c in axes.collections if "median" in str(c.get_label())).get_offsets()
    assert np.ma.getdata(medians)[:, 0] == pytest.approx([0.4, 0.2, 0.05, 0.3])


def test_bars_are_as_long_as_the_probabilities() -> None:
    axes = shown(posterior.order_probability_bar)
    lengths = [[patch.get_width() for patch in container] for container in axes.containers]
    assert lengths == [[0.71, 0.44], [0.5, 0.18]]
    assert [text.get_text() for text in axes.texts] == ["BF 2.4", "BF 3.6"]


def test_labs_stand_in_order_of_their_effect_with_their_own_probability() -> None:
    axes = shown(posterior.draw_lab_forest)
    assert rows(axes) == ["EleutherAI (12)", "<script> (1)", "Meta (5)"]
    assert [text.get_text() for text in axes.texts][:3] == ["0.97", "0.50", "0.01"]


def test_an_observation_outside_its_interval_has_another_mark() -> None:
    axes = shown(posterior.draw_predictive_panels)
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in axes.collections}
    assert points["observed, inside"].tolist() == [[0.5, 0.0]]
    assert points["observed, further to the left than shown"].tolist() == [[-posterior.BEYOND, 1.0]]
    near = posterior.draw_predictive_panels(
        PREDICTIVE.assign(observed=-0.6), Figure().add_subplot()
    )
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in near.collections}
    assert points["observed, outside"][0].tolist() == pytest.approx([-0.1, 1.0])
