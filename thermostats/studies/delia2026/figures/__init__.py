"""The figures of the report: the study's eight redrawn from the tables, all of them as one, and their page."""

from __future__ import annotations

from thermostats import formatting
from thermostats.claims.evidence import Evidence
from thermostats.plots.svg import compact
from thermostats.reporting.text import Files, slug
from thermostats.studies.delia2026.figures.figure import EMPTY, Figure, combine, svg
from thermostats.studies.delia2026.figures.gains import BESIDE, DEPTH, LABS, PROMPTS, SIZE
from thermostats.studies.delia2026.figures.spectra import LAYERS, SPECTRA, SQUARED
from thermostats.studies.delia2026.figures.transition import TRANSITION

SINGLE = (DEPTH, LABS, SPECTRA, LAYERS, TRANSITION, SIZE, PROMPTS, SQUARED)
"""In the order of the preprint."""
COMBINED = combine(SINGLE)
FIGURES: tuple[Figure, ...] = (BESIDE, *SINGLE[1:], COMBINED)

INTRODUCTION = (
    "These are the preprint’s figures, redrawn from the tables. They show uncertainty where the tables hold it, name "
    "the models, and give each lab one colour and shape throughout. Captions say what was estimated; their numbers are "
    "computed from the rows drawn."
)


def files(tables: Evidence) -> dict[str, bytes]:
    """`figures.md`, and of each figure an SVG and its rows under `figures/`."""
    page = Files()
    parts = ["# Figures", "[All claims](index.md)", INTRODUCTION]
    for figure in FIGURES:
        parts += _section(figure, tables, page)
    page.add("figures.md", ("\n\n".join(parts) + "\n").encode())
    return page.contents


def _section(figure: Figure, tables: Evidence, page: Files) -> list[str]:
    head = [f"## {formatting.markdown(figure.title)}"]
    head += [f"Claims: {', '.join(figure.claims)}."] * bool(figure.claims)
    table = figure.table(tables)
    if table.empty:
        return [*head, EMPTY]
    name = f"figures/{slug(figure.id)}"
    drawn = page.figure(compact(svg(figure, table)), f"{name}.svg", figure.caption(table))
    rows = page.table(table, f"Rows: {figure.title}", f"{name}.csv")
    return [*head, drawn, "#### Rows drawn", rows]
