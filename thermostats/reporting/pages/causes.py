"""The page of the declared causal graph: causes of the gain, what has to be held fixed, what rows
can separate."""

from __future__ import annotations

from functools import cache, partial

import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.shared import (
    GAIN,
    Causes,
    compare_causes,
    list_adjustments,
    measure_separation,
    read_causes,
    read_inherited,
)
from thermostats.plots.posterior import draw_causes
from thermostats.plots.svg import render_svg
from thermostats.reporting.render import Files
from thermostats.reporting.state import describe_machine
from thermostats.tables.model_rows import model_rows

MEASURE = "penultimate_gain"
CAPTION = (
    "What may cause the gain of a model, as declared. Violet arrows lead into the gain; what no "
    "table states has a "
    "dashed frame. The lab has no arrow of its own into the gain: a lab acts by what it does."
)
PAIRS = {
    "fact": "what models share",
    "other": "what else they share",
    "both": "pairs that share both",
    "fact_alone": "pairs that share the first alone",
    "other_alone": "pairs that share the second alone",
    "jaccard": "both, of pairs that share either",
}
"""Columns of `compare_causes` in words."""


def build_files(tables: Evidence) -> dict[str, bytes]:
    """`causes.md`, its figure, and its tables as CSV."""
    causes = read_causes()
    made = Files()
    pooled = tables.named(POOLED)
    rows = model_rows(pooled, MEASURE)
    rows = rows.join(read_inherited(pooled, rows["model_id"]))
    carriers = compare_causes(rows)
    why = []
    for (a, b), reason in causes.why.items():
        why.append((causes.words([a]), causes.words([b]), reason))
    arrows = pd.DataFrame(why, columns=["cause", "effect", "why"])
    figure = made.add_figure(render_picture(), "causes.svg", CAPTION)
    fixed = list_adjustments(causes)
    sets = made.add_table(fixed, "What has to be held fixed", "adjustments.csv")
    apart = pairs = ""
    if len(rows):
        separation = measure_separation(causes, rows)
        together = carriers.rename(columns=PAIRS)
        apart = made.add_table(separation, "What the models can separate", "separation.csv")
        pairs = made.add_table(together, "What goes together", "pairs.csv")
    arrows_table = made.add_table(arrows, "Arrows and their reasons", "arrows.csv", excerpt=arrows)
    made.add_page(
        "causes.md",
        figure=figure,
        n_models=len(rows),
        n_labs=rows["heritage"].nunique(),
        sets=sets,
        apart=apart,
        carriers=carriers.to_dict("records"),
        pairs=pairs,
        arrows=arrows_table,
        machine=describe_machine(),
    )
    return made.contents


@cache
def render_picture() -> bytes:
    """The declared graph as SVG: no row of a table is in it."""
    return render_svg(partial(draw_causal_graph, read_causes()))


def draw_causal_graph(causes: Causes, axes: Axes) -> Axes:
    """The graph as its file places it."""
    words = {}
    for name, node in causes.nodes.items():
        words[name] = node["words"]
    places = {}
    for name, node in causes.nodes.items():
        places[name] = (node["place"][0], node["place"][1])
    unmeasured = set(causes.nodes) - set(causes.measured)
    return draw_causes(words, places, list(causes.why), unmeasured, GAIN, axes)
