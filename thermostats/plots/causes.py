"""A graph of causes: nodes at given places, arrows from cause to effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from matplotlib.axes import Axes

INCHES = (8.5, 6.0)


def draw_causes(
    words: Mapping[str, str],
    places: Mapping[str, tuple[float, float]],
    arrows: Collection[tuple[str, str]],
    unmeasured: Collection[str],
    effect: str,
    axes: Axes,
) -> Axes:
    """Arrows into `effect` in colour, nodes that nobody measured in a dashed frame."""
    boxes = {
        name: axes.text(
            places[name][0],
            places[name][1],
            words[name],
            ha="center",
            va="center",
            fontsize=8,
            zorder=1,  # drawn first: arrows end where the frames are
            bbox={
                "boxstyle": "round,pad=0.35",
                "facecolor": "white",
                "edgecolor": "0.3",
                "linestyle": "--" if name in unmeasured else "-",
                "linewidth": 0.8,
            },
        )
        for name in words
    }
    for cause, to in arrows:
        last = to == effect
        axes.annotate(
            "",
            xy=places[to],
            xytext=places[cause],
            zorder=3 if last else 2,
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#542788" if last else "0.55",
                "linewidth": 0.9,
                "mutation_scale": 9,
                "patchA": boxes[cause].get_bbox_patch(),
                "patchB": boxes[to].get_bbox_patch(),
                "connectionstyle": "arc3,rad=0.06",
            },
        )
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.set_size_inches(*INCHES)
    x, y = ([place[k] for place in places.values()] for k in (0, 1))
    axes.set_xlim(min(x) - 0.4, max(x) + 0.4)
    axes.set_ylim(min(y) - 0.6, max(y) + 0.6)
    axes.set_axis_off()
    return axes
