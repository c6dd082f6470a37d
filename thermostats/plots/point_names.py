"""Names of points in a figure, placed so that they cover neither each other nor the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.textpath import TextPath
from numpy.typing import ArrayLike

SIZE = 7.5
"""Size of a name in points."""
NEAR, FAR = (6.0, 13.0, 22.0, 33.0), 16
"""Distances tried from the point, in points, and directions tried at each."""
STEP, LINE, WRONG, STRUCK, ACROSS = 4.0, 1.0, 40.0, 10.0, 1e4
"""Points along a line between places that a name should not stand on, and the cost of an area of a
line, of a point of another name that lies nearer, of an area of another name that a leader crosses,
and of a name across an axis."""
COVERED, MANY = 4.0, 14
"""Square points of other names and points above which a name has no room, and points above which
only names that need no leader are given."""
APART = 1.25
"""Heights of a name from line to line."""
MARK, AROUND = 2.3, 1.2
"""Half the size of a mark at least, and points around it that no name reaches into."""
GROUND = {"facecolor": "#fffefb", "alpha": 0.75, "linewidth": 0.0, "pad": 0.4}
COLOR = "#3c4043"
LEADER = "#9aa0a6"
LEADING = {"arrowstyle": "-", "color": LEADER, "linewidth": 0.5}

Box = tuple[float, float, float, float]
Look = dict[str, Any]
"""How something is drawn: keywords of a function of matplotlib."""


def place_labels(
    axes: Axes, x: ArrayLike, y: ArrayLike, names: Sequence[str], size: float = SIZE
) -> None:
    """Write every name next to its point, at the first place around it that covers least; distant
    names get a leader.

    A name that would cover another, or a point, is left out; of many points those alone are named
    whose names stand by them. `size` is in points. The places are found when the figure is drawn,
    so that scales and limits may still be set afterwards.
    """
    across = np.asarray(x, dtype=float)
    points = np.column_stack([across, np.asarray(y, dtype=float)])
    axes.add_artist(Names(points, names, size))


def name_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], size: float = SIZE) -> None:
    """Name lines at the right of the axes, at the heights at which they end, moved apart so that
    each can be read.

    ends: height, name and colour of each; the scale must be set.
    """
    axes.autoscale_view()  # else limits that are not set yet are those of an empty axes
    ordered = sorted(ends)
    inches = axes.get_window_extent().height / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    ends_in_data = [(0.0, y) for y, _, _ in ordered]
    points = axes.transData.transform(ends_in_data)
    in_axes = axes.transAxes.inverted().transform(points)
    heights = in_axes[:, 1]
    step = APART * size / 72 / inches
    steps = step * np.arange(len(ordered))
    moved = np.maximum.accumulate(heights - steps)
    placed = moved + steps
    placed -= max(0.0, placed[-1] - 1)
    look: Look = {"va": "center", "fontsize": size, "parse_math": False}
    fractions: Look = dict.fromkeys(("xycoords", "textcoords"), "axes fraction")
    leader = {**LEADING, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    for (_, name, color), height, at in zip(ordered, heights, placed, strict=True):
        axes.annotate(
            name,
            (1, height),
            xytext=(1.05, at),
            color=color,
            annotation_clip=False,
            arrowprops=leader,
            **look,
            **fractions,
        )


class Names(Artist):
    """The names of an axes' points, placed whenever they are drawn."""

    def __init__(self, points: np.ndarray, names: Sequence[str], size: float = SIZE) -> None:
        super().__init__()
        self.points = points
        self.names = list(names)
        self.size = size
        self.set_zorder(2.5)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Place and draw the names of the points that have a place."""
        figure = self.get_figure(root=True)
        if self.axes is None or figure is None or not self.names or not self.get_visible():
            return
        scale = 72.0 / figure.dpi
        in_pixels = self.axes.transData.transform(self.points)
        points = in_pixels * scale
        bounds = np.asarray(self.axes.get_window_extent().extents) * scale
        lines: list[Box] = []
        for line in self.axes.get_lines():
            lines.extend(_make_line_boxes(line, scale))
        for kind in self.axes.collections:
            lines.extend(_make_interval_boxes(kind, scale))
        is_finite = np.isfinite(points).all(axis=1)
        finite = np.flatnonzero(is_finite)
        names = [self.names[index] for index in finite]
        marks = _measure_half_mark(self.axes.collections)
        look: Look = {"ha": "center", "va": "center", "fontsize": self.size}
        look |= {"color": COLOR, "parse_math": False, "bbox": GROUND}
        leader = {**LEADING, "shrinkA": 0, "shrinkB": 3}
        for place, offset, far in _choose_places(
            points[finite], names, tuple(bounds), self.size, lines, marks
        ):
            at = tuple(self.points[finite[place]])
            arrow = leader if far else None
            name = Annotation(
                names[place],
                at,
                xytext=offset,
                textcoords="offset points",
                arrowprops=arrow,
                **look,
            )
            name.axes = self.axes
            name.set_figure(figure)
            name.draw(renderer)
        self.stale = False


def _choose_places(
    points: np.ndarray,
    names: Sequence[str],
    bounds: Box,
    size: float = SIZE,
    lines: Sequence[Box] = (),
    half: float = MARK + AROUND,
) -> Iterator[tuple[int, tuple[float, float], bool]]:
    """Number of a point, offset of its name and whether that is far, from the lowest point up,
    where there is room.

    half: points from the middle of a mark to the edge of what no name may cover.
    """
    named: list[Box] = []
    drawn: list[Box] = []
    marks = np.column_stack([points - half, points + half])
    for index in np.lexsort((points[:, 0], points[:, 1])):
        width, height = _measure_name(names[index], size)
        most = FAR if len(points) > MANY else None
        more = half - MARK - AROUND
        offsets = _list_offsets(width, height, more)[:most]
        point = points[index]
        boxes = [_make_box(point, offset, width, height) for offset in offsets]
        others = np.delete(points, index, axis=0)
        leaders = []
        distances = []
        for offset, box in zip(offsets, boxes, strict=True):
            leaders.append(list(_make_leader_boxes(point, box, offset)))
            distances.append(_score_distance(box, bounds, offset))
        n_nearer = [_count_nearer(box, point, others) for box in boxes]
        wrong = np.array(n_nearer)
        covered = _measure_overlap(boxes, marks) + _measure_overlap(boxes, named)
        crossed = _measure_overlap(boxes, lines)
        struck_names = [_measure_overlap(bits, named).sum() for bits in leaders]
        struck = _measure_overlap(boxes, drawn) + np.array(struck_names)
        cost = 10.0 * covered + np.array(distances) + LINE * crossed
        cost = cost + WRONG * wrong + STRUCK * struck
        place = int(np.argmin(cost))
        if (
            covered[place] > COVERED
            or _is_crossing(boxes[place], bounds)
            or (len(points) > MANY and (crossed[place] > COVERED or wrong[place]))
        ):
            continue
        named.append(boxes[place])
        drawn += leaders[place]
        led = bool(leaders[place])
        yield int(index), offsets[place], led


def _make_leader_boxes(point: np.ndarray, box: Box, offset: tuple[float, float]) -> Iterator[Box]:
    """Small boxes along the leader from a point to the box of its name; none where the name is
    near."""
    x, y = point
    left, low, right, high = box
    across = max(0.0, left - x + 1, x - right + 1)
    along = max(0.0, low - y + 0.5, y - high + 0.5)
    if np.hypot(across, along) > NEAR[1]:
        length = np.hypot(*offset)
        steps = 2 + int(length / STEP)
        for part in np.linspace(0, 1, steps):
            x, y = point + part * np.asarray(offset)
            if not (left <= x <= right and low <= y <= high):
                yield _make_bit(x, y)


def _make_bit(x: float, y: float) -> Box:
    """A small box about a place on a line."""
    return x - 1, y - 1, x + 1, y + 1


def _make_line_boxes(line: Line2D, scale: float) -> Iterator[Box]:
    """Small boxes along a drawn line, so that no name stands on it; `scale`: points to a pixel."""
    drawn = line.get_transform().transform(line.get_xydata()) * scale
    if line.get_linestyle() == "None":
        return
    for (x0, y0), (x1, y1) in pairwise(drawn):
        if np.isfinite([x0, y0, x1, y1]).all():
            length = np.hypot(x1 - x0, y1 - y0)
            n_steps = min(200, 2 + int(length / STEP))
            steps = np.linspace(0, 1, n_steps)
            along_x = x0 + steps * (x1 - x0)
            along_y = y0 + steps * (y1 - y0)
            for x, y in zip(along_x, along_y, strict=True):
                yield _make_bit(x, y)


def _make_interval_boxes(kind: Collection, scale: float) -> Iterator[Box]:
    """Boxes of the straight lines of a collection, such as intervals."""
    if isinstance(kind, LineCollection):
        for segment in filter(len, kind.get_segments()):
            drawn = kind.get_transform().transform(segment) * scale
            x, y = drawn[[0, -1]].T
            yield x.min() - 1, y.min() - 1, x.max() + 1, y.max() + 1


@cache
def _measure_name(name: str, size: float = SIZE) -> tuple[float, float]:
    plain = name.replace("$", "S") or "-"
    font = FontProperties(family="DejaVu Sans")
    path = TextPath((0, 0), plain, size=size, prop=font)
    extent = path.get_extents()
    return float(extent.width), size


def _list_offsets(width: float, height: float, more: float = 0.0) -> list[tuple[float, float]]:
    """Centres to try, nearest first: the name's box touches a circle around the point, `more`
    points larger."""
    angles = 2 * np.pi * np.arange(FAR) / FAR
    away = [near + more for near in NEAR]
    offsets = []
    for d in away:
        for a in angles:
            x = np.cos(a) * (d + width / 2)
            y = np.sin(a) * (d + height / 2)
            offsets.append((float(x), float(y)))
    return offsets


def _measure_half_mark(kinds: Sequence[Artist]) -> float:
    """Half the size of the largest mark among what is drawn with the room around it, in points."""
    marks = [kind for kind in kinds if isinstance(kind, PathCollection)]
    halves = []
    for mark in marks:
        for size in mark.get_sizes():
            halves.append(float(size) ** 0.5 / 2)
    largest: float = max([MARK, *halves])
    return largest + AROUND


def _make_box(point: np.ndarray, offset: tuple[float, float], width: float, height: float) -> Box:
    cx = point[0] + offset[0]
    cy = point[1] + offset[1]
    left = cx - width / 2 - 1
    low = cy - height / 2 - 0.5
    return (left, low, cx + width / 2 + 1, cy + height / 2 + 0.5)


def _count_nearer(box: Box, point: np.ndarray, others: np.ndarray) -> int:
    """How many other points lie nearer to a name than its own."""
    low = np.array(box[:2])
    high = np.array(box[2:])
    own = _measure_away(low, high, point[None, :])
    nearer = _measure_away(low, high, others) < own
    return int(nearer.sum())


def _measure_away(low: np.ndarray, high: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Distance of points from the box between two corners."""
    beyond = np.maximum(low - points, points - high)
    off = np.maximum(0.0, beyond)
    return np.asarray(np.hypot(*off.T))


def _score_distance(box: Box, bounds: Box, offset: tuple[float, float]) -> float:
    """What it costs to be beyond the axes, and away from where a name stands best."""
    left, low, right, high = box
    least_x, least_y, most_x, most_y = bounds
    beyond = (least_x - left, least_y - low, right - most_x, high - most_y)
    outside = sum(max(0.0, by) for by in beyond)
    x, y = offset
    middle = (right - left) / 2
    away = float(np.hypot(x - middle, y))
    crossing = ACROSS * _is_crossing(box, bounds)
    return crossing + 20.0 * outside + 0.3 * away


def _is_crossing(box: Box, bounds: Box) -> bool:
    """Whether a name would stand across the left or the lower axis."""
    left, low, *_ = box
    least_x, least_y, *_ = bounds
    return left < least_x or low < least_y


def _measure_overlap(boxes: Sequence[Box], others: Sequence[Box] | np.ndarray) -> np.ndarray:
    """Area of every box that others cover, together."""
    some = np.asarray(boxes, dtype=float)
    covering = np.asarray(others, dtype=float)
    a = some.reshape(-1, 4)[:, None]
    b = covering.reshape(-1, 4)
    low = np.maximum(a[..., :2], b[:, :2])
    high = np.minimum(a[..., 2:], b[:, 2:])
    areas = np.maximum(0.0, high - low).prod(axis=2)
    return np.asarray(areas.sum(axis=1))
