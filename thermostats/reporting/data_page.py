"""The data page: the tables with their files, sizes and checksums, how to verify them, and the codebook."""

from __future__ import annotations

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.reporting import rendering
from thermostats.reporting.blocks import Link, Section, view
from thermostats.reporting.freshness import machine
from thermostats.reporting.layout import CHECKSUMS, Layout
from thermostats.tables.describe import KINDS
from thermostats.tables.schemas import TABLES, key

LEAD = (
    "Every number of this report is computed from these tables. Published figures and a user’s own rows are CSV in "
    "UTF-8, numbers in their shortest exact form; measurements that ship are Parquet. All are sorted by key. "
    "Layers are 1-based: block 1 to block L."
)


def data_files(layout: Layout, tables: Evidence) -> dict[str, bytes]:
    """`data.html`, `data.md`, and copies of the tables and analyses where they do not lie beside the report."""
    sections = [_tables(layout, tables), _files(layout), _verify(layout), *map(_codebook, TABLES)]
    shared = {
        "title": rendering.TITLES[rendering.DATA],
        "lead": LEAD,
        "sections": sections,
        "machine": machine(),
        "page": rendering.DATA,
        "up": "",
    }
    return {
        "data.html": rendering.html("sections.html", **shared),
        "data.md": rendering.markdown("sections.md", **shared),
        **layout.copies(),
    }


def size(count: int) -> str:
    """Bytes in words: 812 B, 38.5 kB, 1.2 MB."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f}\u00a0{unit}"
    return f"{count}\u00a0B"


def _tables(layout: Layout, tables: Evidence) -> Section:
    rows = []
    for name, schema in TABLES.items():
        files = [listed for listed in layout.tables if listed.table == name]
        if not files:
            continue
        rows.append(
            {
                "table": Link(name, f"#table-{name}"),
                "rows": len(tables.table(name)),
                "columns": len(schema.columns),
                "files": len(files),
                "size": size(sum(len(listed.content) for listed in files)),
                "holds": schema.description,
            }
        )
    columns = ["table", "rows", "columns", "files", "size", "holds"]
    text = ("The texts of the study’s prompts are not among them: their SHA-256 stand in their place.",)
    return Section("Tables", text, tables=(view(pd.DataFrame(rows, columns=columns), "Tables", most=len(rows)),))


def _files(layout: Layout) -> Section:
    rows = [
        {
            "file": Link(listed.name or listed.path.name, layout.href(listed)),
            "size": size(len(listed.content)),
            "SHA-256": listed.sha,
        }
        for listed in (*layout.tables, *layout.analyses)
    ]
    text = ("Each can be opened from here, or read with pandas.read_csv or pandas.read_parquet.",)
    if any(not listed.name for listed in layout.tables):
        text = (
            "The tables are too large to be copied into the report; they are in the data folder that it was made from.",
        )
    shown = view(pd.DataFrame(rows, columns=["file", "size", "SHA-256"]), "Files", most=len(rows))
    return Section("Files and checksums", text, tables=(shown,))


def _verify(layout: Layout) -> Section:
    out = layout.name
    text = (
        f"{out}/{CHECKSUMS} lists the SHA-256 of every table, analysis and page, one a line, paths from the "
        "folder that "
        f"{out} lies in; it does not list itself. A report built again from the same tables on the same "
        "versions has the "
        "same bytes. A timestamp on that one file, by OpenTimestamps for instance, dates all of it.",
    )
    code = f"sha256sum --check {out}/{CHECKSUMS}\nots stamp {out}/{CHECKSUMS}"
    return Section("Verify", text, code=code)


def _codebook(name: str) -> Section:
    schema = TABLES[name]
    rows = [
        {
            "column": label,
            "key": "key" if label in key(name) else "",
            "type": KINDS[column.metadata["dtype"]],
            "unit": column.metadata["unit"],
            "may be empty": "yes" if column.nullable else "",
            "meaning": column.description,
        }
        for label, column in schema.columns.items()
    ]
    text = f"{schema.description[0].upper()}{schema.description[1:]}. Key: {', '.join(key(name))}."
    columns = view(pd.DataFrame(rows), f"Columns of {name}", most=len(rows))
    return Section(f"Codebook: {name}", (text,), tables=(columns,), id=f"table-{name}")
