"""The page of methods: how a claim becomes a verdict, with the picture of what p is worth."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from thermostats.claims import levels
from thermostats.claims.calibration import FAIR, load_levels
from thermostats.claims.levels import BOUNDS, PLAUSIBLE
from thermostats.claims.result import SUPPORTED, SURE
from thermostats.claims.rule import ALPHA, NEAR
from thermostats.formatting import format_declared
from thermostats.modelling import checks, draws
from thermostats.modelling.draws import Settings
from thermostats.plots.svg import render_svg
from thermostats.reporting.claim_page import INTERVALS
from thermostats.reporting.render import Files, Text, render_text
from thermostats.reporting.state import describe_machine
from thermostats.settings import LEVEL, SAMPLERS
from thermostats.tables.schemas import GAINS, POSITIONS, TRANSITION_DEFINITIONS

CLASSICAL_LEVEL = 0.95
FIGURE = "p-in-worlds.svg"
QUIET = "#6B6B6B"
LOUD = "#0072B2"
"""Colours of what a test assumes, and of the world that is simulated."""
SMALL = 8.0
"""Points of the labels of lines."""


def build_methods_files() -> dict[str, bytes]:
    """The page's Markdown and its picture."""
    made = Files()
    example = choose_example(load_levels())
    figure = Text()
    if example is not None:
        caption = describe_example(example)
        figure = made.add_figure(render_svg(partial(draw_example, example)), FIGURE, caption)
    made.add("methods.md", render_methods(figure).encode())
    return made.contents


def render_methods(figure: str = "") -> str:
    """The page's Markdown. figure: its picture, as Markdown."""
    versions = describe_machine()
    return render_text(
        "methods.md",
        figure=figure,
        sure=SURE,
        draws=draws,
        checks=checks,
        powers=checks.POWERS,
        level_of_posteriors=LEVEL,
        settings=Settings(),
        level=CLASSICAL_LEVEL,
        simulations=levels.STUDY_BY_STUDY.fresh,
        at_once=levels.AT_ONCE.fresh,
        of_many_rows=levels.OF_MANY_ROWS.fresh,
        decides=levels.DECIDES,
        decided=list_decided_rules(load_levels()),
        most_false=ALPHA,
        without=levels.WITHOUT,
        fair=FAIR,
        near=NEAR,
        interval=INTERVALS[draws.KIND],
        gains=GAINS,
        positions=POSITIONS,
        layers=TRANSITION_DEFINITIONS,
        samplers={name: version for name, version in versions.items() if name in SAMPLERS},
        machine=versions,
    )


def list_decided_rules(table: pd.DataFrame) -> list[str]:
    """Rules of a table of worlds whose limit rests on a world that was simulated once more, in
    `DECIDES` times as many studies."""
    efforts = (levels.STUDY_BY_STUDY, levels.AT_ONCE, levels.OF_MANY_ROWS)
    longer = {levels.DECIDES * effort.fresh for effort in efforts}
    plausible = table[table["box"] == PLAUSIBLE]
    return sorted(plausible.loc[plausible["studies"].isin(longer), "rule"].unique())


def choose_example(table: pd.DataFrame) -> pd.Series | None:
    """The first plausible world of the table in which support comes too often and every share of
    studies has a level of its own; None without one."""
    of_box = table[(table["box"] == PLAUSIBLE) & (table["side"] == SUPPORTED)]
    for _, row in of_box.sort_values(["rule", "bound_05"], kind="stable").iterrows():
        points = [0.0, *sorted(row[name] for name in BOUNDS), ALPHA]
        if all(low < high for low, high in pairwise(points)):
            return row
    return None


def describe_example(example: pd.Series) -> str:
    """What the picture says: its caption, the finding first."""
    limit = format_declared(float(f"{example['bound_05']:.2g}"))
    rule = str(example["rule"]).partition(".")[0]
    return (
        "Where errors are not as a test assumes, 5% of false studies lie below a p of "
        f"{limit}, and a verdict takes a smaller one. Share of simulated studies in which the "
        f"statement is false that reach a p or less: {rule} in one of its worlds "
        f"({example['words']}), and a test whose errors are as it assumes."
    )


def draw_example(example: pd.Series, axes: Axes) -> None:
    """Share of false studies by p: of the example, and of a test whose errors are as assumed."""
    limit = float(example["bound_05"])
    p = [*sorted(float(example[name]) for name in BOUNDS), ALPHA]
    share = [*sorted(BOUNDS.values()), float(example["rate"])]
    ends = [p[0], 0.5]
    axes.plot(ends, ends, color=QUIET, lw=1.0)
    axes.plot(p, share, color=LOUD, marker="o", ms=3.5, lw=1.4)
    dashed: dict[str, Any] = {"lw": 0.8, "ls": (0, (4, 3))}
    axes.plot([p[0], ALPHA], [ALPHA, ALPHA], color=QUIET, **dashed)
    for at, color in ((limit, LOUD), (ALPHA, QUIET)):
        axes.plot([at, at], [p[0], ALPHA], color=color, **dashed)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis, values in ((axes.xaxis, [*p[1:], 0.5]), (axes.yaxis, [*share, 0.5])):
        axis.set_major_locator(FixedLocator(values))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        axis.set_minor_locator(NullLocator())
    axes.set(xlabel="p of a study", ylabel="share of false studies with this p or less")
    said = (
        (ALPHA, share[-1], "the worst world", LOUD, (-8, 4), "right"),
        (ALPHA, ALPHA, "errors as the test assumes", QUIET, (6, -8), "left"),
        (limit, p[0], "largest p\nthat counts", LOUD, (4, 6), "left"),
        (p[0], ALPHA, "5% of studies", QUIET, (4, 4), "left"),
    )
    for x, y, words, color, offset, ha in said:
        axes.annotate(
            words,
            (x, y),
            xytext=offset,
            textcoords="offset points",
            fontsize=SMALL,
            color=color,
            ha=ha,
        )
