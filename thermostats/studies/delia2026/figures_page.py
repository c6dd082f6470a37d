"""The page of all figures: each redrawn from the tables, with its caption and the rows behind it."""

from __future__ import annotations

from thermostats.claims.evidence import Evidence
from thermostats.reporting import rendering
from thermostats.reporting.blocks import FigureView, Files, Section
from thermostats.reporting.freshness import machine
from thermostats.reporting.svg import compact, inline
from thermostats.studies.delia2026 import figures

INTRODUCTION = (
    "The preprint’s figures, redrawn from the tables: uncertainty shown where the tables hold it, models by "
    "name, a lab "
    "always in the same colour and shape. Captions say what was estimated; their numbers are computed from the "
    "rows drawn."
)


def files(tables: Evidence) -> dict[str, bytes]:
    """`figures.html`, `figures.md`, and of each figure an SVG and its rows under `figures/`."""
    found = Files()
    sections = [_section(figure, tables, found) for figure in figures.FIGURES]
    shared = {
        "title": rendering.TITLES[rendering.FIGURES],
        "lead": INTRODUCTION,
        "sections": sections,
        "machine": machine(),
        "page": rendering.FIGURES,
        "up": "",
    }
    found.found["figures.html"] = rendering.html("sections.html", **shared)
    found.found["figures.md"] = rendering.markdown("sections.md", **shared)
    return found.found


def _section(figure: figures.Figure, tables: Evidence, found: Files) -> Section:
    claims = f"Claims: {', '.join(figure.claims)}." if figure.claims else ""
    table = figure.table(tables)
    if table.empty:
        return Section(figure.title, (figures.EMPTY, claims), id=f"figure-{figure.id}")
    name = f"figures/{rendering.slug(figure.id)}"
    svg = compact(figures.svg(figure, table))
    found.found[f"{name}.svg"] = svg
    caption = figure.caption(table)
    view = FigureView(f"{name}.svg", inline(svg, f"figures-{rendering.slug(figure.id)}", caption), caption)
    rows = found.table(table, f"Rows behind figure {figure.id}", f"{name}.csv")
    return Section(
        figure.title,
        (claims,) if claims else (),
        figures=(view,),
        tables=(rows,),
        details="Rows drawn",
        id=f"figure-{figure.id}",
    )
