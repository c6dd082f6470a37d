"""Price of moving a gain against how far it is moved: a curve a model, where 1 is crossed, floors,
other changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.formatting import format_number, strip_owner
from thermostats.plots.general import (
    COLUMN,
    MUTED,
    check_figure_file,
    draw_reference,
    log_axis,
    place_wide_legend,
    set_column_style,
    set_title,
    start_axes,
    write_figure,
)
from thermostats.plots.point_names import Look

FREE = 1e-6
"""Nats a token below which a change is drawn as free: what rounding in float32 leaves."""
HEIGHT = 2.9
MOST_NAMED = 4
"""Curves that have names; of more none is named."""
OTHERS = {"tune": ("x", "ordinary tuning"), "do": ("+", "changed without training")}
"""Mark and name of changes that were aimed at no gain."""
SIDES = {True: ("C0", "gain above 1 before"), False: ("C1", "gain below 1 before")}
"""Colour and name of curves that are too many to be named, by the side they were on."""
LEVELS = {"steer": "nearly free", "tune": "dear"}
"""What the median price of an operation is called."""
ROOM = 1.12
"""Width of the frame of a scale over the farthest that training moved the gain."""


def draw_prices(
    rows: pd.DataFrame, *, axes: Axes | None = None, figure: str | Path | None = None
) -> Axes:
    """Draw prices of rows of `interventions` of one gain, with their `model_id`.

    Of one model the gain that was reached is drawn, and 1 is marked; of several the log distance
    from where the gain was, positive towards 1 and beyond it. A point is filled where the gain is
    on the other side of 1 than it was, and open elsewhere; a dash at no distance is the floor.
    Prices below 1e-6 nats a token stand at the foot.

    figure: a file to write, SVG, PNG or PDF. Raises UsageError for rows without a steered gain, or
    of several.
    """
    path = check_figure_file(figure)
    steered = rows[rows["operation"] == "steer"]
    gains = sorted(set(steered["gain"]))
    if len(gains) != 1:
        what = "prices of one gain are drawn, each on its own scale"
        raise UsageError(what, where="rows", got=", ".join(gains) or "no row of operation steer")
    with set_column_style():
        drawn = axes
        if drawn is None:
            drawn = start_axes(figsize=(COLUMN, HEIGHT))
        alone = steered["model_id"].nunique() == 1
        _draw_curves(drawn, rows, steered, alone=alone)
        of_gain = rows["gain"] == gains[0]
        _draw_others(drawn, rows[of_gain], alone=alone)
        words = gains[0].replace("_", " ")
        drawn.set_xlabel(words if alone else f"log distance of the {words}, towards 1")
        drawn.set_ylabel("KL, nats per token")
        costs = []
        for price in steered["kl"].agg(["min", "max"]):
            costs.append(format_number(float(price), 2))
        some = " to ".join(dict.fromkeys(costs))
        set_title(drawn, f"Moving the {words} costs {some} nats a token")
        log_axis(drawn, "y")
        if alone:
            log_axis(drawn, "x")
            draw_reference(drawn, 1.0, vertical=True)
        place_wide_legend(drawn)
        if path is not None:
            write_figure(drawn, path)
    return drawn


def _draw_curves(axes: Axes, rows: pd.DataFrame, steered: pd.DataFrame, *, alone: bool) -> None:
    """A curve for every model and seed, its points filled where 1 was crossed, and its floor."""
    groups = list(steered.groupby(["model_id", "seed"], sort=False))
    named = len(groups) <= MOST_NAMED
    for number, ((model, seed), group) in enumerate(groups):
        ordered = group.sort_values("gain_after")
        start = float(ordered["gain_before"].iloc[0])
        color = f"C{number}" if named else SIDES[start > 1][0]
        label = _name_curve(str(model), int(seed), groups) if named else "_"
        x = _place_points(ordered, alone=alone)
        y = _clip_prices(ordered)
        look: Look = {"color": color, "alpha": 1.0 if named else 0.35}
        axes.plot(x, y, linewidth=0.9, label=label, zorder=2, **look)
        beyond = _is_beyond(ordered)
        for part, face in ((beyond, color), (~beyond, "white")):
            axes.plot(x[part], y[part], "o", mfc=face, ms=3.5, label="_", zorder=3, **look)
        is_floor = rows["operation"] == "floor"
        floor = rows[is_floor & (rows["model_id"] == model)]
        floor = floor[floor["seed"] == seed]
        at = [start if alone else 0.0] * len(floor)
        axes.plot(at, _clip_prices(floor), "_", ms=9, label="_", **look)
    if not named:
        for grew in sorted(set(steered["gain_before"] > 1), reverse=True):
            color, label = SIDES[bool(grew)]
            axes.plot([], [], color=color, linewidth=0.9, label=label)
    axes.plot([], [], "o", color=MUTED, ms=3.5, label="1 crossed")
    axes.plot([], [], "o", color=MUTED, mfc="white", ms=3.5, label="not crossed")
    axes.plot([], [], "_", color=MUTED, ms=9, label="floor")


def _draw_others(axes: Axes, rows: pd.DataFrame, *, alone: bool) -> None:
    """Changes that were aimed at no gain, by what they did to this one."""
    for operation, (marker, label) in OTHERS.items():
        part = rows[rows["operation"] == operation]
        if len(part):
            x = _place_points(part, alone=alone)
            look: Look = {"color": MUTED, "ms": 4, "alpha": 0.7}
            axes.plot(x, _clip_prices(part), marker, label=label, linestyle="none", **look)


def draw_price_scale(rows: pd.DataFrame, axes: Axes) -> Axes:
    """Draw prices of several models as `draw_prices` does, in a frame as wide as training moved the
    gain.

    Rows of operation `do` whose price is 0 are exact: each model's are joined by a line, since a
    smaller change of the same kind comes to any gain between them, and run out of the frame.
    """
    draw_prices(rows, axes=axes)
    trained = rows[rows["operation"].isin(["steer", "tune"])]
    moves = _place_points(trained, alone=False)
    farthest = float(np.abs(moves).max())
    is_free = rows["kl"] == 0
    exact = rows[(rows["operation"] == "do") & is_free]
    for _, group in exact.groupby("model_id"):
        moved = _place_points(group, alone=False)
        x = np.sort(np.append(moved, 0.0))
        level = np.full(len(x), FREE)
        axes.plot(x, level, color=MUTED, linewidth=0.9, zorder=1)
    edge = ROOM * farthest
    axes.set_xlim(-edge, edge)
    draw_reference(axes, 0.0, vertical=True)
    _name_level(axes, FREE, "exactly free: 0")
    for operation, text in LEVELS.items():
        part = rows[rows["operation"] == operation]
        if len(part):
            price = float(part["kl"].median())
            _name_level(axes, price, text)
    return axes


def _name_level(axes: Axes, price: float, text: str) -> None:
    """Name a price at the right edge of the frame."""
    offset: Look = {"xytext": (-3, 3), "textcoords": "offset points"}
    look: Look = {"fontsize": 7.5, "color": MUTED, "ha": "right", "va": "bottom"}
    axes.annotate(text, (1, price), xycoords=("axes fraction", "data"), **offset, **look)


def _name_curve(model: str, seed: int, groups: Sequence[object]) -> str:
    """What a curve is called: its model, and where a model has several its seed."""
    name = strip_owner(model)
    return name if len(groups) == 1 else f"{name}, seed {seed}"


def _place_points(rows: pd.DataFrame, *, alone: bool) -> NDArray[np.float64]:
    """Where points stand: the gain reached, or its log distance from where it was, positive towards
    1."""
    after = _read_numbers(rows, "gain_after")
    if alone:
        return after
    before = _read_numbers(rows, "gain_before")
    side = -np.sign(np.log(before))
    towards: NDArray[np.float64] = side * np.log(after / before)
    return towards


def _read_numbers(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return np.asarray(rows[name], dtype=float)


def _clip_prices(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Prices, those that are nothing but rounding at `FREE`."""
    prices: NDArray[np.float64] = np.maximum(_read_numbers(rows, "kl"), FREE)
    return prices


def _is_beyond(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether the gain is on the other side of 1 than it was."""
    before = np.log(_read_numbers(rows, "gain_before"))
    after = np.log(_read_numbers(rows, "gain_after"))
    crossed: NDArray[np.bool_] = before * after < 0
    return crossed
