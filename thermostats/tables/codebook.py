"""The codebook: every table and column in words, made from the schemas."""

from __future__ import annotations

from thermostats.tables import schemas
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.schemas import TABLES, key

TYPES = {FLOAT: "number", INTEGER: "whole number", TEXT: "text", FLAG: "true or false"}


def codebook() -> str:
    """The codebook as Markdown: every table and column with type, unit, meaning and key."""
    lines = ["# Codebook", "", "Made from `thermostats/tables/schemas.py`; `thermostats ls tables` lists the same.", ""]
    lines += [str(schemas.__doc__).split("\n\n")[1].replace("\n", " ").strip(), ""]
    for name, schema in TABLES.items():
        lines += [
            f"## {name}",
            "",
            f"{schema.description[0].upper()}{schema.description[1:]}. Key: {', '.join(f'`{k}`' for k in key(name))}.",
            "",
        ]
        lines += ["| column | type | unit | may be empty | meaning |", "|---|---|---|---|---|"]
        for label, declared in schema.columns.items():
            kind = TYPES[declared.metadata["dtype"]]
            bold = f"**{label}**" if label in key(name) else label
            empty = "yes" if declared.nullable else ""
            lines.append(f"| {bold} | {kind} | {declared.metadata['unit']} | {empty} | {declared.description} |")
        lines.append("")
    return "\n".join(lines)
