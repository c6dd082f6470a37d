from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from thermostats.plots import general as plots
from thermostats.plots import labels, marks, posterior
from thermostats.plots.column import COLUMN
from thermostats.plots.scales import log_axis
from thermostats.plots.svg import drawn

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


def shown(function: Callable[..., Axes]) -> Axes:
    axes = Figure(figsize=(COLUMN, 2)).add_subplot()
    assert function(DRAWN[function], axes) is axes
    return axes


def rows(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


HELPERS: dict[str, Callable[[Axes], Axes]] = {
    "scatter_labelled": lambda axes: plots.scatter_labelled(TABLE, axes, x="n_layers", y="gain"),
    "gain_by_depth": lambda axes: plots.gain_by_depth(
        TABLE, axes, y="gain", lower="lower", upper="upper", curves={"bound": lambda L: 10 ** (1 / L)}
    ),
    "forest": lambda axes: plots.forest(TABLE, axes, label="model_id", estimate="gain", heritage="heritage", null=1.0),
    "slopes": lambda axes: plots.slopes(
        TABLE, axes, before=("gain", "lower", "upper"), after=("upper", "gain", "upper")
    ),
    "lines_by_layer": lambda axes: plots.lines_by_layer(TABLE, axes, y="gain", null=1.0),
    "strip_by_group": lambda axes: plots.strip_by_group(TABLE, axes, value="gain"),
}


PICTURES = {name: (draw, TABLE) for name, draw in HELPERS.items()}
PICTURES |= {function.__name__: (partial(function, table), table) for function, table in DRAWN.items()}


@pytest.mark.parametrize("name", PICTURES)
def test_the_same_table_gives_the_same_picture_twice_and_is_left_as_it_was(name: str) -> None:
    (draw, table), images = PICTURES[name], []
    before = table.copy()
    for _ in range(2):
        with plots.house_style():
            axes = Figure().add_subplot()
            assert draw(axes) is axes
            stream = io.BytesIO()
            axes.figure.savefig(stream, format="svg", metadata={"Date": None})
            images.append(stream.getvalue())
    assert images[0] == images[1]
    pd.testing.assert_frame_equal(before, table)


def test_a_heritage_looks_the_same_whatever_else_is_shown() -> None:
    def colours(table: pd.DataFrame) -> dict[str, tuple[float, ...]]:
        axes = plots.scatter_labelled(table, Figure().add_subplot(), x="n_layers", y="gain")
        return {str(c.get_label()): tuple(np.ravel(c.get_facecolor())) for c in axes.collections}

    alone, together = colours(TABLE.iloc[[3]]), colours(TABLE)
    assert together["A lab nobody knows"] == alone["A lab nobody knows"]
    assert len(set(together.values())) == len(together)


def test_known_heritages_differ_in_colour_and_in_shape() -> None:
    assert len({mark.color for mark in marks.HERITAGES.values()}) == len(marks.HERITAGES)
    assert len({mark.marker for mark in marks.HERITAGES.values()}) == len(marks.HERITAGES)
    assert marks.mark("MistralAI") == marks.mark("Mistral AI")


def test_recipes_differ_from_one_another() -> None:
    assert len({marks.mark(f"r{number:02d}") for number in range(1, 17)}) == 16


def test_rows_stand_in_the_table_s_order_and_ticks_hold_the_names() -> None:
    axes = HELPERS["forest"](Figure().add_subplot())
    assert [text.get_text() for text in axes.get_yticklabels()] == ["opt-125m", "$x_1$", "<script>", "one"]
    assert axes.yaxis_inverted()


def test_pairs_stand_apart_with_their_intervals_before_the_marks() -> None:
    axes = HELPERS["slopes"](Figure().add_subplot())
    lines = [line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 2][1:]
    assert all(after[0] - before[1] > 1 for before, after in pairwise(lines))
    intervals = [kind for kind in axes.collections if isinstance(kind, LineCollection)]
    marks_at = [kind.get_zorder() for kind in axes.collections if not isinstance(kind, LineCollection)]
    assert len(intervals) == 8 and min(kind.get_zorder() for kind in intervals) > max(marks_at)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["opt-125m", "$x_1$", "<script>", "one"]


def test_names_at_the_ends_of_lines_keep_their_order_and_their_distance() -> None:
    axes = Figure(figsize=(4, 3)).add_subplot(ylim=(0, 10))
    labels.name_ends(axes, [(5.0, "b", "k"), (5.1, "c", "k"), (1.0, "a", "k"), (9.9, "d", "k")])
    at = [(text.get_text(), text.xyann[1]) for text in axes.texts]
    assert [name for name, _ in at] == ["a", "b", "c", "d"] and at[0][1] == pytest.approx(0.1)
    heights = [height for _, height in at]
    assert min(np.diff(heights)) * axes.bbox.height / axes.figure.dpi * 72 >= labels.SIZE


def test_no_name_stands_across_the_left_or_the_lower_axis() -> None:
    points = np.array([[2.0, 2.0], [2.0, 50.0], [50.0, 2.0]])
    for index, offset, _ in labels._places(points, ["a-rather-long-name"] * 3, (0, 0, 200, 200)):
        box = labels._box(points[index], offset, *labels._size("a-rather-long-name"))
        assert box[0] >= 0 and box[1] >= 0


def test_the_tick_of_a_group_is_its_mean() -> None:
    table = pd.DataFrame({"heritage": ["TII"] * 4, "gain": [1.0, 2.0, 3.0, 6.0]})
    axes = plots.strip_by_group(table, Figure().add_subplot(), value="gain", null=None)
    assert list(axes.lines[-1].get_xdata()) == [3.0, 3.0]


def test_names_cover_neither_each_other_nor_points_where_there_is_room() -> None:
    rng = np.random.default_rng(3)
    points = rng.uniform(40, 460, size=(15, 2))
    names = [f"model-{number}" for number in range(15)]
    boxes = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    for index, (dx, dy), _ in labels._places(points, names, (0, 0, 500, 500)):
        width, height = labels._size(names[index])
        x, y = points[index] + (dx, dy)
        boxes.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    names_and_points = [(a, b) for a, b in combinations(range(30), 2) if b >= 15]
    assert sum(labels._overlap([boxes[a]], [boxes[b]])[0] for a, b in names_and_points) == 0
    assert all(min(x0, y0) >= 0 and max(x1, y1) <= 500 for x0, y0, x1, y1 in boxes)


def test_a_point_without_a_place_leaves_the_names_of_others_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.column_stack([np.linspace(0.1, 0.9, 6), np.full(6, 0.5)])

    def drawn(x: np.ndarray, y: np.ndarray, names: list[str]) -> list[tuple[object, ...]]:
        written: list[tuple[object, ...]] = []
        monkeypatch.setattr(
            labels, "Annotation", lambda name, at, *, xytext, **_: written.append((name, at, xytext)) or MagicMock()
        )
        figure = Figure()
        labels.place_labels(figure.add_subplot(xlim=(0, 1), ylim=(0, 1)), x, y, names)
        figure.savefig(io.BytesIO(), format="svg")
        return written

    names = [f"a-rather-long-name-{number}" for number in range(6)]
    alone = drawn(*points.T, names)
    assert len({offset for *_, offset in alone}) > 1
    among = np.insert(points, 2, (0.3, np.nan), axis=0)
    assert drawn(*among.T, [*names[:2], "nowhere", *names[2:]]) == alone
    assert drawn(np.array([np.inf]), np.array([0.5]), ["nowhere"]) == []


@pytest.mark.parametrize("count", [13, 22])
def test_a_name_without_room_is_left_out(count: int) -> None:
    points = np.column_stack([np.full(count, 50.0), np.linspace(48, 52, count)])
    names = [f"a-rather-long-name-{number}" for number in range(count)]
    placed = list(labels._places(points, names, (0, 0, 100, 100)))
    boxes = [labels._box(points[index], offset, *labels._size(names[index])) for index, offset, _ in placed]
    assert 0 < len(placed) < count
    assert max(labels._overlap([a], [b])[0] for a, b in combinations(boxes, 2)) <= labels.COVERED
    assert any(far for _, _, far in placed) is (count <= labels.MANY)


def test_a_power_in_a_legend_is_set_as_one_and_no_other_name_is_a_formula() -> None:
    axes = Figure().add_subplot()
    for name in ("bound 10^(1/L)", "$x^{2}$"):
        axes.plot([1, 2], [1, 2], label=name)
    plots.legend_above(axes)
    power, plain = axes.get_legend().get_texts()
    assert power.get_text() == r"bound 10$^{\mathregular{1/L}}$" and power.get_parse_math()
    assert plain.get_text() == "$x^{2}$" and not plain.get_parse_math()


def test_rows_of_one_name_share_a_line() -> None:
    table = TABLE.assign(family=["b", "a", "b", "c"])
    axes = plots.forest(table, Figure().add_subplot(), label="family", estimate="gain")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b", "a", "c"]


def test_labels_of_axes_stay_within_the_figure_and_have_subscripts() -> None:
    def draw(axes: Axes) -> None:
        plots.forest(TABLE, axes, label="model_id", estimate="gain", heritage="heritage")
        axes.set_xlabel("a label that is far too long for the axes of a figure whose rows have names, of W_V and d_h")
        seen.append(axes)

    seen: list[Axes] = []
    drawn(draw)
    label, figure = seen[0].xaxis.label, seen[0].figure
    assert "\n" in label.get_text() and "W_{V}" in label.get_text()
    box = label.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


def test_scales_may_be_set_after_the_names() -> None:
    axes = plots.scatter_labelled(TABLE.assign(gain=[0.01, 1, 10, 100]), Figure().add_subplot(), x="n_layers", y="gain")
    axes.set_yscale("log")
    axes.figure.savefig(io.BytesIO(), format="svg")
    low, high = axes.get_ylim()
    assert 1e-3 < low < 0.01 and 100 < high < 1e3


def test_a_long_legend_takes_more_rows_rather_than_more_width() -> None:
    axes = Figure().add_subplot()
    for number in range(6):
        axes.plot([0], [0], label=f"a rather long entry with number {number}")
    plots.legend_above(axes)
    assert isinstance(axes.get_legend(), Legend) and axes.get_legend()._ncols <= 3


def test_a_reference_line_has_its_words_at_its_end() -> None:
    axes = Figure().subplots()
    plots.reference(axes, 1.5, text="the bound")
    [line], [words] = axes.get_lines(), axes.texts
    assert list(line.get_ydata()) == [1.5, 1.5]
    assert (words.get_text(), tuple(words.xy)) == ("the bound", (1, 1.5))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0.7, 3.2), ["1", "1.5", "2", "2.5", "3"]),
        ((0.7, 4.0), ["1", "2"]),
        ((0.9, 30000.0), ["1", "10", "100", "1,000", "10,000"]),
        ((3e3, 3e8), ["10⁴", "10⁵", "10⁶", "10⁷", "10⁸"]),
    ],
)
def test_ticks_are_plain_numbers_within_the_limits(limits: tuple[float, float], expected: list[str]) -> None:
    axes = Figure().add_subplot()
    axes.plot(limits, limits)
    axes.set_xlim(*limits)
    log_axis(axes, "x")
    ticks = [tick for tick in axes.get_xticks() if limits[0] <= tick <= limits[1]]
    assert [axes.xaxis.get_major_formatter()(tick, 0) for tick in ticks] == expected
    assert axes.get_xlim() == limits


def test_shares_stand_in_the_order_of_the_claim_and_other_quantities_are_left_out() -> None:
    axes = shown(posterior.variance_shares)
    assert rows(axes) == ["heritage", "geometry", "scale", "residual between models"]
    medians = next(c for c in axes.collections if "median" in str(c.get_label())).get_offsets()
    assert np.ma.getdata(medians)[:, 0] == pytest.approx([0.4, 0.2, 0.05, 0.3])


def test_bars_are_as_long_as_the_probabilities() -> None:
    axes = shown(posterior.order_probability_bar)
    lengths = [[patch.get_width() for patch in container] for container in axes.containers]
    assert lengths == [[0.71, 0.44], [0.5, 0.18]]
    assert [text.get_text() for text in axes.texts] == ["BF 2.4", "BF 3.6"]


def test_labs_stand_in_order_of_their_effect_with_their_own_probability() -> None:
    axes = shown(posterior.lab_forest)
    assert rows(axes) == ["EleutherAI (12)", "<script> (1)", "Meta (5)"]
    assert [text.get_text() for text in axes.texts][:3] == ["0.97", "0.50", "0.01"]


def test_an_observation_outside_its_interval_has_another_mark() -> None:
    axes = shown(posterior.posterior_predictive_panels)
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in axes.collections}
    assert points["observed, inside"].tolist() == [[0.5, 0.0]]
    assert points["observed, further to the left than shown"].tolist() == [[-posterior.BEYOND, 1.0]]
    near = posterior.posterior_predictive_panels(PREDICTIVE.assign(observed=-0.6), Figure().add_subplot())
    points = {str(c.get_label()): np.ma.getdata(c.get_offsets()) for c in near.collections}
    assert points["observed, outside"][0].tolist() == pytest.approx([-0.1, 1.0])


def test_prior_and_posterior_of_a_quantity_share_its_row() -> None:
    axes = shown(posterior.prior_to_posterior)
    assert rows(axes) == ["tau", "share"]
    assert [bar.get_width() for bar in axes.containers[0]] == pytest.approx([0.8, 0.6])
    ends = [end for bar in axes.containers[0] for end in (bar.get_x(), bar.get_x() + bar.get_width())]
    assert axes.get_xlim()[0] < min(ends) and max(ends) < axes.get_xlim()[1]


def test_a_missed_model_is_hollow() -> None:
    axes = shown(posterior.left_out_errors)
    white = [c for c in axes.collections if len(c.get_facecolor()) and np.allclose(c.get_facecolor()[0, :3], 1.0)]
    hollow = [c for c in white if len(c.get_offsets()) and c.get_linewidths()[0] > 1]
    assert [np.ma.getdata(c.get_offsets())[0, 0] for c in hollow] == [0.5]
