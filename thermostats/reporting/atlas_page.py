"""The files of the layer atlas: the interactive page, and its curves as a table."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.reporting import atlas, atlas_rows, rendering
from thermostats.reporting.blocks import Files, Section
from thermostats.reporting.freshness import machine

LEAD = (
    "Every quantity that the tables hold layer by layer, one row a curve. The interactive page, atlas.html, "
    "draws them over "
    "relative depth."
)


def files(tables: Evidence) -> dict[str, bytes]:
    """`atlas.html`, `atlas.md`, `atlas.csv`."""
    drawn = atlas_rows.rows(tables)
    found = Files()
    curves = found.table(pd.DataFrame(atlas.curves(drawn)), "Curves", "atlas.csv")
    lacking = tuple(f"{row['quantity']}: {row['models']}" for row in atlas.lacking(drawn, tables))
    sections = [Section("Curves", tables=(curves,)), Section("What is not drawn", items=lacking)]
    shared = {"title": rendering.TITLES[rendering.ATLAS], "lead": LEAD, "sections": sections, "machine": machine()}
    found.found["atlas.html"] = atlas.page(tables).encode()
    found.found["atlas.md"] = rendering.markdown("sections.md", **shared)
    return found.found
