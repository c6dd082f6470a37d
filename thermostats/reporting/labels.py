"""Names of points in a figure, placed so that they cover neither each other nor the points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from numpy.typing import ArrayLike

SIZE = 7.0
"""Size of a name in points."""
NEAR, FAR = (6.0, 13.0, 22.0, 33.0), 16
"""Distances tried from the point, in points, and directions tried at each."""
GROUND = {"facecolor": "#fffefb", "alpha": 0.75, "linewidth": 0.0, "pad": 0.4}
COLOR, LEADER = "#3c4043", "#9aa0a6"

Box = tuple[float, float, float, float]


def short_name(model_id: str) -> str:
    """Model id without its owner: `EleutherAI/pythia-70m` is shown as `pythia-70m`."""
    return model_id.rsplit("/", 1)[-1] or model_id


def place_labels(axes: Axes, x: ArrayLike, y: ArrayLike, names: Sequence[str]) -> None:
    """Write every name beside its point, at the first of the places around it that covers least; far ones get a leader.

    Call it after everything else is drawn: the limits of the axes are fixed here.
    """
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())
    figure = axes.get_figure(root=True)
    if figure is None or not len(xs):
        return
    figure.draw_without_rendering()
    scale = 72.0 / figure.dpi
    points = axes.transData.transform(np.column_stack([xs, ys])) * scale
    frame = axes.get_window_extent()
    bounds: Box = (frame.x0 * scale, frame.y0 * scale, frame.x1 * scale, frame.y1 * scale)
    taken: list[Box] = [(px - 3.5, py - 3.5, px + 3.5, py + 3.5) for px, py in points]
    for index in np.lexsort((points[:, 0], points[:, 1])):
        width, height = _size(names[index])
        boxes = {offset: _box(points[index], offset, width, height) for offset in _offsets(width, height)}
        dx, dy = min(boxes, key=lambda offset: _cost(boxes[offset], taken, bounds, offset))
        taken.append(boxes[dx, dy])
        far = np.hypot(dx, dy) > width / 2 + NEAR[1]
        leader = {"arrowstyle": "-", "color": LEADER, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            names[index], (xs[index], ys[index]), xytext=(dx, dy), textcoords="offset points", ha="center", va="center",
            fontsize=SIZE, color=COLOR, parse_math=False, zorder=2.5, bbox=GROUND,
            arrowprops=leader if far else None,
        )  # fmt: skip


def _size(name: str) -> tuple[float, float]:
    plain = name.replace("$", "S") or "-"
    extent = TextPath((0, 0), plain, size=SIZE, prop=FontProperties(family="DejaVu Sans")).get_extents()
    return float(extent.width), SIZE


def _offsets(width: float, height: float) -> list[tuple[float, float]]:
    """Centres to try, nearest first: the name's box touches a circle around the point."""
    angles = 2 * np.pi * np.arange(FAR) / FAR
    return [(float(np.cos(a) * (d + width / 2)), float(np.sin(a) * (d + height / 2))) for d in NEAR for a in angles]


def _box(point: np.ndarray, offset: tuple[float, float], width: float, height: float) -> Box:
    cx, cy = point[0] + offset[0], point[1] + offset[1]
    return (cx - width / 2 - 1, cy - height / 2 - 0.5, cx + width / 2 + 1, cy + height / 2 + 0.5)


def _cost(box: Box, taken: Sequence[Box], bounds: Box, offset: tuple[float, float]) -> float:
    covered = sum(_overlap(box, other) for other in taken)
    beyond = (bounds[0] - box[0], bounds[1] - box[1], box[2] - bounds[2], box[3] - bounds[3])
    outside = sum(max(0.0, by) for by in beyond)
    return 10.0 * covered + 20.0 * outside + 0.3 * float(np.hypot(offset[0] - (box[2] - box[0]) / 2, offset[1]))


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
