"""The figure of prices: what is drawn of one model and of several, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from thermostats.errors import UsageError
from thermostats.plots.price_curves import FREE, ROOM, draw_price_scale, draw_prices


def rows(model: str, before: float) -> list[dict[str, object]]:
    same = {"model_id": model, "seed": 1, "gain_before": before}
    steered = [
        {
            **same,
            "operation": "steer",
            "gain": "penultimate_gain",
            "gain_after": before * np.exp(step),
            "kl": 0.1 * step**2 + 0.001,
        }
        for step in (-0.4, -0.2, 0.2, 0.4)
    ]
    floor = {**same, "operation": "floor", "gain": "", "gain_after": None, "kl": 0.001}
    free = {
        **same,
        "operation": "do",
        "gain": "penultimate_gain",
        "gain_after": before / 2,
        "kl": 0.0,
    }
    tuned = {
        **same,
        "operation": "tune",
        "gain": "penultimate_gain",
        "gain_after": before,
        "kl": 0.5,
    }
    return [*steered, floor, free, tuned]


def points(axes, marker: str) -> list[tuple[float, float]]:
    lines = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [pair for line in lines for pair in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_of_one_model_the_gain_is_drawn_and_points_beyond_one_are_filled() -> None:
    axes = draw_prices(pd.DataFrame(rows("lab/m", 1.1)))
    filled = [
        line
        for line in axes.get_lines()
        if line.get_marker() == "o" and line.get_markerfacecolor() != "white"
    ]
    beyond = [x for line in filled for x in np.atleast_1d(line.get_xdata())]
    assert beyond and all(x < 1 for x in beyond)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert points(axes, "+") == [(pytest.approx(0.55), FREE)]
    assert points(axes, "x") == [(pytest.approx(1.1), 0.5)]
    assert (pytest.approx(1.1), 0.001) in points(axes, "_")


def test_of_several_the_distance_towards_one_is_drawn(tmp_path) -> None:
    path = tmp_path / "prices.svg"
    axes = draw_prices(pd.DataFrame([*rows("m", 1.2), *rows("n", 0.8)]), figure=path)
    assert path.stat().st_size > 1000
    assert axes.get_xscale() == "linear"
    steered = sorted(x for x, _ in points(axes, "o"))
    assert steered[0] == pytest.approx(-0.4)
    assert steered[-1] == pytest.approx(0.4)


def test_a_scale_is_as_wide_as_training_moved_the_gain_and_names_its_levels() -> None:
    axes = Figure().subplots()
    draw_price_scale(pd.DataFrame([*rows("m", 1.2), *rows("n", 0.8)]), axes)
    assert axes.get_xlim() == pytest.approx((-0.4 * ROOM, 0.4 * ROOM))
    levels = {text.get_text(): text.xy[1] for text in axes.texts}
    assert levels["exactly free: 0"] == FREE
    assert levels["exactly free: 0"] < levels["nearly free"] < levels["dear"]
    sides = {line.get_label() for line in axes.get_lines()}
    assert not sides & {"gain above 1 before", "gain below 1 before"}  # two curves have names


def test_many_curves_are_coloured_by_the_side_they_were_on() -> None:
    models = [row for place in range(5) for row in rows(f"m{place}", 1.2 if place else 0.8)]
    axes = draw_prices(pd.DataFrame(models))
    colors = {line.get_label(): line.get_color() for line in axes.get_lines()}
    assert colors["gain above 1 before"] != colors["gain below 1 before"]


def test_rows_of_no_gain_or_of_several_are_refused() -> None:
    two = pd.DataFrame(rows("m", 1.2)).assign(gain=["a", "b", "a", "b", "", "a", "a"])
    with pytest.raises(UsageError, match="prices of one gain"):
        draw_prices(two)
    with pytest.raises(UsageError, match="no row of operation steer"):
        draw_prices(pd.DataFrame(rows("m", 1.2)[-2:]))
    with pytest.raises(UsageError, match="no such kind of figure"):
        draw_prices(pd.DataFrame(rows("m", 1.2)), figure="prices.txt")
