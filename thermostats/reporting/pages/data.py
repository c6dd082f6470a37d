"""The data page: the tables with their files, sizes and checksums, how to verify them, and the
codebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import pandas as pd

from thermostats import formatting
from thermostats.claims.evidence import Evidence
from thermostats.claims.study import list_study_models
from thermostats.reporting.pages import CHECKSUMS
from thermostats.reporting.render import Text, render_link, render_table, render_text
from thermostats.reporting.state import Layout, describe_machine
from thermostats.tables.export import KINDS
from thermostats.tables.schemas import OURS, TABLES, list_key_columns

UNBROKEN = "\u00a0"
"""A space at which no line ends."""
MEASURED_GAINS = {
    "last_gain": "last gain",
    "penultimate_gain": "penultimate gain",
    "normed_gain": "last gain, normed",
    "geometric_gain": "mean gain a block",
    "total_amplification": "total amplification",
}


def render_data_page(layout: Layout, tables: Evidence) -> str:
    """The page's Markdown."""
    inconsistent = _load_table(tables, "inconsistencies")
    fates = _load_table(tables, "reconciliation")
    numbers: Iterable[tuple[Any, Any]] = ()
    if len(fates):
        numbers = fates.groupby("fate")["numbers"].sum().sort_values(ascending=False).items()
    kinds: list[tuple[str, int]] = []
    inconsistencies = ""
    if len(inconsistent):
        kinds = sorted(Counter(inconsistent["kind"]).items())
        inconsistencies = _render_inconsistencies(inconsistent)
    return render_text(
        "data.md",
        tables=_render_tables(layout, tables),
        apart=list_study_models(),
        measured=build_measured_table(tables.table("features", source=OURS)),
        sources=len(_load_table(tables, "sources")),
        fates=numbers,
        kinds=kinds,
        found=len(inconsistent),
        inconsistencies=inconsistencies,
        copied=all(listed.name for listed in layout.tables),
        files=_render_files(layout),
        out=layout.name,
        checksums=CHECKSUMS,
        codebook=[_build_codebook(name) for name in TABLES],
        machine=describe_machine(),
    )


def _load_table(tables: Evidence, name: str) -> pd.DataFrame:
    """A table that studies bring, which there may be none of."""
    return tables.table(name) if name in TABLES else pd.DataFrame()


def build_measured_table(features: pd.DataFrame) -> Text:
    """Gains that this package measured itself, one row per model, prompt set and precision; empty
    without any."""
    rows = features.dropna(subset=list(MEASURED_GAINS), how="all") if len(features) else features
    if rows.empty:
        return Text()
    n_prompts = rows["n_prompts"].astype(str)
    rows = rows.assign(prompts=rows["prompt_set"] + " (" + n_prompts + ")")
    heads = {
        "model_id": "model",
        "heritage": "lab",
        "n_layers": "L",
        "prompts": "prompts",
        "dtype": "dtype",
    }
    heads |= MEASURED_GAINS
    return render_table(rows[list(heads)].rename(columns=heads), "Gains measured here", most=None)


def _render_tables(layout: Layout, tables: Evidence) -> Text:
    rows = []
    for name, schema in TABLES.items():
        files = [listed for listed in layout.tables if listed.table == name]
        if files:
            link = render_link(name, f"#codebook-{name}")
            n_bytes = sum(len(listed.content) for listed in files)
            size = formatting.format_bytes(n_bytes, UNBROKEN)
            counts = (len(tables.table(name)), len(schema.columns), len(files))
            rows.append((link, *counts, size, schema.description))
    columns = ["table", "rows", "columns", "files", "size", "holds"]
    return render_table(pd.DataFrame(rows, columns=columns, dtype=object), "Tables", most=None)


def _render_files(layout: Layout) -> Text:
    rows = []
    for listed in (*layout.tables, *layout.analyses):
        href = quote(layout.make_href(listed))
        link = render_link(listed.name or listed.path.name, href)
        size = formatting.format_bytes(len(listed.content), UNBROKEN)
        rows.append((link, size, listed.sha))
    table = pd.DataFrame(rows, columns=["file", "size", "SHA-256"], dtype=object)
    return render_table(table, "Files", most=None)


def _build_codebook(name: str) -> dict[str, object]:
    schema = TABLES[name]
    keys = list_key_columns(name)
    rows = []
    for label, column in schema.columns.items():
        row = {
            "column": label,
            "key": "key" if label in keys else "",
            "type": KINDS[column.dtype],
            "unit": column.unit,
            "property of": column.of,
            "may be empty": "yes" if column.nullable else "",
            "meaning": column.description,
        }
        rows.append(row)
    sentence = f"{schema.description[0].upper()}{schema.description[1:]}."
    text = f"{sentence} Key: {', '.join(keys)}."
    columns = render_table(pd.DataFrame(rows), f"Columns of {name}", most=None)
    return {"title": f"Codebook: {name}", "text": text, "columns": columns}


def _render_inconsistencies(inconsistent: pd.DataFrame) -> Text:
    """Disagreements of a study's files, in words."""
    other = inconsistent["other_file"]
    files = inconsistent["file"] + other.where(other == "", " / " + other)
    figures = {}
    for name in ("value", "other_value"):
        figures[name] = [formatting.format_figure(value, 5) for value in inconsistent[name]]
    heads = {
        "kind": "kind",
        "file": "file",
        "model_id": "model",
        "what": "what disagrees",
        "value": "value",
    }
    heads |= {"other_value": "other value", "handling": "what was done"}
    listed = inconsistent.assign(file=files, **figures)[list(heads)].rename(columns=heads)
    return render_table(listed, "Inconsistencies", most=None)
