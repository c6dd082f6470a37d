"""Which columns rows must have that are joined with a mapping, and what the others come to."""

from __future__ import annotations

from thermostats.tables.schemas import TABLES, TEXT, absent, key

UNSTATED = {"revision": "main", "dtype": "unstated", "attention": "unstated"}
"""What a run has where its rows do not say; of any other text nothing."""
TELLING = ("model_id", "source")
"""What rows must say for the run that they are of to follow."""
NEEDED, OPTIONAL = "needed", "optional"
REFUSED = {"findings": "findings are made by `thermostats report`"}
"""Tables that nothing is joined to, and why."""
FILLED = {("prompts", "text_sha256"): "filled in from text", ("runs", "prompt_sha"): "filled in from prompt_set"} | {
    ("runs", label): f"filled in: {value}" for label, value in UNSTATED.items()
}


def may_be_left_out(table: str, name: str) -> bool:
    """Whether a column may be empty: it is no key, and nullable, any text, or `UNSTATED` of a run."""
    column = TABLES[table].columns[name]
    if table == "runs" and name in (*UNSTATED, *TELLING):
        return name in UNSTATED
    any_text = name in absent(table) or (column.dtype == TEXT and not column.checks)
    return name not in key(table) and (column.nullable or any_text)


def when_joined(table: str, label: str) -> str:
    """Whether rows that are joined with a mapping must have a column: `needed`, `optional`, or how it is filled in.

    Empty for a table that nothing is joined to.
    """
    if table in REFUSED:
        return ""
    if label == "run_id":
        return f"filled in from {' and '.join(TELLING)}"
    return FILLED.get((table, label), OPTIONAL if may_be_left_out(table, label) else NEEDED)
