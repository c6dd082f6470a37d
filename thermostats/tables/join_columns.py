"""Which columns rows must have that are joined with a mapping, and what the others come to."""

from __future__ import annotations

from thermostats.tables.schemas import TABLES, TEXT, absent, key

FILLED_WITH = {("models", "revision"): "main", ("runs", "revision"): "main"} | {
    ("runs", label): "unstated" for label in ("dtype", "attention")
}
FILLED_WITH |= {("summaries", "prompt_id"): ""}
"""What a column is filled with where rows do not have it; any other text is empty."""
TELLING = ("model_id", "source")
"""What rows must say for the run that they are of to follow."""
NEEDED, OPTIONAL = "needed", "optional"
REFUSED = {"findings": "findings are made by `thermostats report`"}
"""Tables that nothing is joined to, and why."""
FILLED = {("prompts", "text_sha256"): "filled in from text", ("runs", "prompt_sha"): "filled in from prompt_set"} | {
    place: f"filled in: {value or 'empty, all prompts together'}" for place, value in FILLED_WITH.items()
}


SHAPE: tuple[str, ...] = ("d_head", "n_kv_heads", "d_ff", "n_params_nonembedding")
READ = ("heritage", "family", *SHAPE, "norm_kind", "norm_place", "position_scheme", "year")
"""Columns of models that may be left out and that a claim reads."""


def may_be_left_out(table: str, name: str) -> bool:
    """Whether a column may be empty: it is filled in, or no key, and nullable or any text."""
    column = TABLES[table].columns[name]
    if (table, name) in FILLED_WITH:
        return True
    if (table == "runs" and name in TELLING) or name in key(table):
        return False
    any_text = column.dtype == TEXT and (not column.checks or "" in column.checks[0].value)
    return column.nullable or any_text or name in absent(table)


def when_joined(table: str, label: str) -> str:
    """Whether rows that are joined with a mapping must have a column: `needed`, `optional`, or how it is filled in.

    Empty for a table that nothing is joined to.
    """
    if table in REFUSED:
        return ""
    if label == "run_id":
        return f"filled in from {' and '.join(TELLING)}"
    return FILLED.get((table, label), OPTIONAL if may_be_left_out(table, label) else NEEDED)
