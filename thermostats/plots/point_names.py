"""Names of points in a figure, placed so that they cover neither each other nor the points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

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

Box = tuple[float, float, float, float]


def place_labels(
    axes: Axes, x: ArrayLike, y: ArrayLike, names: Sequence[str], size: float = SIZE
) -> None:
    """Write every name next to its point, at the first place around it that covers least; distant
    names get a leader.

    A name that would cover another, or a point, is left out; of many points those alone are named
    whose names stand by them. `size` is in points. The places are found when the figure is drawn,
    so that scales and limits may still be set afterwards.
    """
    axes.add_artist(
        Names(
            np.column_stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)]), names, size
        )
    )


def name_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], size: float = SIZE) -> None:
    """Name lines at the right of the axes, at the heights at which they end, moved apart so that
    each can be read.

    ends: height, name and colour of each; the scale must be set.
    """
    axes.autoscale_view()  # else limits that are not set yet are those of an empty axes
    ordered = sorted(ends)
    inches = axes.get_window_extent().height / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    points = axes.transData.transform([(0.0, y) for y, _, _ in ordered])
    heights = axes.transAxes.inverted().transform(points)[:, 1]
    steps = APART * size / 72 / inches * np.arange(len(ordered))
    placed = np.maximum.accumulate(heights - steps) + steps
    placed -= max(0.0, placed[-1] - 1)
    for (_, name, color), height, at in zip(ordered, heights, placed, strict=True):
        axes.annotate(
            name,
            (1, height),
            xytext=(1.05, at),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=size,
            color=color,
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": LEADER,
                "linewidth": 0.5,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


class Names(Artist):
    """The names of an axes' points, placed whenever they are drawn."""

    def __init__(self, points: np.ndarray, names: Sequence[str], size: float = SIZE) -> None:
        super().__init__()
        self.points, self.names, self.size = points, list(names), size
        self.set_zorder(2.5)
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Place and draw the names of the points that have a place."""
        figure = self.get_figure(root=True)
        if self.axes is None or figure is None or not self.names or not self.get_visible():
            return
        scale = 72.0 / figure.dpi
        points = self.axes.transData.transform(self.points) * scale
        x0, y0, x1, y1 = self.axes.get_window_extent().extents
        bounds = (x0 * scale, y0 * scale, x1 * scale, y1 * scale)
        lines: list[Box] = []
        for line in self.axes.get_lines():
            lines.extend(_make_line_boxes(line, scale))
        lines += [
            box for kind in self.axes.collections for box in _make_interval_boxes(kind, scale)
        ]
        finite = np.flatnonzero(np.isfinite(points).all(axis=1))
        names = [self.names[index] for index in finite]
        marks = _measure_half_mark(self.axes.collections)
        for place, offset, far in _choose_places(
            points[finite], names, bounds, self.size, lines, marks
        ):
            leader = {
                "arrowstyle": "-",
                "color": LEADER,
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 3,
            }
            name = Annotation(
                names[place],
                tuple(self.points[finite[place]]),
                xytext=offset,
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=self.size,
                color=COLOR,
                parse_math=False,
                bbox=GROUND,
                arrowprops=leader if far else None,
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
        offsets = _list_offsets(width, height, half - MARK - AROUND)[
            : FAR if len(points) > MANY else None
        ]
        boxes = [_make_box(points[index], offset, width, height) for offset in offsets]
        leaders = []
        for offset, box in zip(offsets, boxes, strict=True):
            leaders.append(list(_make_leader_boxes(points[index], box, offset)))
        others = np.delete(points, index, axis=0)
        wrong = np.array([_count_nearer(box, points[index], others) for box in boxes])
        covered = _measure_overlap(boxes, marks) + _measure_overlap(boxes, named)
        crossed = _measure_overlap(boxes, lines)
        struck = _measure_overlap(boxes, drawn) + np.array(
            [_measure_overlap(bits, named).sum() for bits in leaders]
        )
        away = np.array(
            [
                _score_distance(box, bounds, offset)
                for offset, box in zip(offsets, boxes, strict=True)
            ]
        )
        place = int(
            np.argmin(10.0 * covered + away + LINE * crossed + WRONG * wrong + STRUCK * struck)
        )
        if (
            covered[place] > COVERED
            or _is_crossing(boxes[place], bounds)
            or (len(points) > MANY and (crossed[place] > COVERED or wrong[place]))
        ):
            continue
        named.append(boxes[place])
        drawn += leaders[place]
        yield int(index), offsets[place], bool(leaders[place])


def _make_leader_boxes(point: np.ndarray, box: Box, offset: tuple[float, float]) -> Iterator[Box]:
    """Small boxes along the leader from a point to the box of its name; none where the name is
    near."""
    (x, y), (left, low, right, high) = point, box
    away = max(0.0, left - x + 1, x - right + 1), max(0.0, low - y + 0.5, y - high + 0.5)
    if np.hypot(*away) > NEAR[1]:
        for part in np.linspace(0, 1, 2 + int(np.hypot(*offset) / STEP)):
            x, y = point + part * np.asarray(offset)
            if not (left <= x <= right and low <= y <= high):
                yield x - 1, y - 1, x + 1, y + 1


def _make_line_boxes(line: Line2D, scale: float) -> Iterator[Box]:
    """Small boxes along a drawn line, so that no name stands on it; `scale`: points to a pixel."""
    drawn = line.get_transform().transform(line.get_xydata()) * scale
    if line.get_linestyle() == "None":
        return
    for (x0, y0), (x1, y1) in pairwise(drawn):
        if np.isfinite([x0, y0, x1, y1]).all():
            length = np.hypot(x1 - x0, y1 - y0)
            steps = np.linspace(0, 1, min(200, 2 + int(length / STEP)))
            along_x = x0 + steps * (x1 - x0)
            along_y = y0 + steps * (y1 - y0)
            for x, y in zip(along_x, along_y, strict=True):
                yield x - 1, y - 1, x + 1, y + 1


def _make_interval_boxes(kind: Collection, scale: float) -> Iterator[Box]:
    """Boxes of the straight lines of a collection, such as intervals."""
    if isinstance(kind, LineCollection):
        for segment in filter(len, kind.get_segments()):
            (x0, y0), (x1, y1) = kind.get_transform().transform(segment)[[0, -1]] * scale
            yield min(x0, x1) - 1, min(y0, y1) - 1, max(x0, x1) + 1, max(y0, y1) + 1


def _measure_name(name: str, size: float = SIZE) -> tuple[float, float]:
    plain = name.replace("$", "S") or "-"
    extent = TextPath(
        (0, 0), plain, size=size, prop=FontProperties(family="DejaVu Sans")
    ).get_extents()
    return float(extent.width), size


def _list_offsets(width: float, height: float, more: float = 0.0) -> list[tuple[float, float]]:
    """Centres to try, nearest first: the name's box touches a circle around the point, `more`
    points larger."""
    angles = 2 * np.pi * np.arange(FAR) / FAR
    away = [near + more for near in NEAR]
    offsets: list[tuple[float, float]] = []
    for d in away:
        for a in angles:
            offsets.append(
                (float(np.cos(a) * (d + width / 2)), float(np.sin(a) * (d + height / 2)))
            )
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
    return (cx - width / 2 - 1, cy - height / 2 - 0.5, cx + width / 2 + 1, cy + height / 2 + 0.5)


def _count_nearer(box: Box, point: np.ndarray, others: np.ndarray) -> int:
    """How many other points lie nearer to a name than its own."""
    low = np.array(box[:2])
    high = np.array(box[2:])
    off, away = (
        np.maximum(0.0, np.maximum(low - of, of - high)) for of in (point[None, :], others)
    )
    return int((np.hypot(*away.T) < np.hypot(*off.T)).sum())


def _score_distance(box: Box, bounds: Box, offset: tuple[float, float]) -> float:
    """What it costs to be beyond the axes, and away from where a name stands best."""
    beyond = (bounds[0] - box[0], bounds[1] - box[1], box[2] - bounds[2], box[3] - bounds[3])
    outside = sum(max(0.0, by) for by in beyond)
    return (
        ACROSS * _is_crossing(box, bounds)
        + 20.0 * outside
        + 0.3 * float(np.hypot(offset[0] - (box[2] - box[0]) / 2, offset[1]))
    )


def _is_crossing(box: Box, bounds: Box) -> bool:
    """Whether a name would stand across the left or the lower axis."""
    return box[0] < bounds[0] or box[1] < bounds[1]


def _measure_overlap(boxes: Sequence[Box], others: Sequence[Box] | np.ndarray) -> np.ndarray:
    """Area of every box that others cover, together."""
    a, b = (np.reshape(np.asarray(some, dtype=float), (-1, 4)) for some in (boxes, others))
    a = a[:, None]
    low = np.maximum(a[..., :2], b[:, :2])
    high = np.minimum(a[..., 2:], b[:, 2:])
    return np.asarray(np.maximum(0.0, high - low).prod(axis=2).sum(axis=1))
