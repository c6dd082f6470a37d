"""The codebook: every table and column in words, made from the schemas."""

from __future__ import annotations

from thermostats.tables import schemas
from thermostats.tables.declare import FLAG, FLOAT, INTEGER, TEXT
from thermostats.tables.feature_columns import MEANING, feature_columns
from thermostats.tables.filling import when_joined
from thermostats.tables.schemas import TABLES, key

TYPES = {FLOAT: "number", INTEGER: "whole number", TEXT: "text", FLAG: "true or false"}
JOINED = (
    "When joined: what rows that come with a mapping (or `table=` in Python) must have; without one a file has every "
    "column of its table, empty where a value may be."
)


def codebook() -> str:
    """The codebook as Markdown: every table and column with type, unit, meaning and key."""
    lines = ["# Codebook", "", "Made from `thermostats/tables/schemas.py`; `thermostats ls tables` lists the same.", ""]
    lines += [str(schemas.__doc__).split("\n\n")[1].replace("\n", " ").strip(), "", JOINED, ""]
    for name, schema in TABLES.items():
        lines += [
            f"## {name}",
            "",
            f"{schema.description[0].upper()}{schema.description[1:]}. Key: {', '.join(f'`{k}`' for k in key(name))}.",
            "",
        ]
        lines += ["| column | type | unit | may be empty | when joined | meaning |", "|---|---|---|---|---|---|"]
        for label, declared in schema.columns.items():
            kind = TYPES[declared.metadata["dtype"]]
            bold = f"**{label}**" if label in key(name) else label
            empty = "yes" if declared.nullable else ""
            joined = when_joined(name, label)
            lines.append(
                f"| {bold} | {kind} | {declared.metadata['unit']} | {empty} | {joined} | {declared.description} |"
            )
        lines.append("")
    lines += ["## features", "", f"{MEANING[0].upper()}{MEANING[1:]}; `thermostats.features()`.", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| {each.column} | {TYPES[each.type]} | {each.unit} | {each.meaning} |" for each in feature_columns()]
    lines.append("")
    return "\n".join(lines)
