"""What joined rows need not say: which columns are filled in, with what, and which may be left out.

`mapping.filled` and `mapping.with_runs` do it where a mapping, or `table=`, says which table rows are of; hashes of
texts and prompt sets are filled in here.
"""

from __future__ import annotations

import hashlib

import pandas as pd

from thermostats.tables.mapping import TELLING, UNSTATED, may_be_left_out
from thermostats.tables.rows import as_text
from thermostats.tables.runs import prompt_sha
from thermostats.tables.schemas import key

NEEDED, OPTIONAL = "needed", "optional"
REFUSED = {"findings": "findings are made by `thermostats report`"}
"""Tables that nothing is joined to, and why."""


FILLED = {
    ("prompts", "text_sha256"): "filled in from text",
    ("runs", "prompt_sha"): "filled in from prompt_set",
    **{("runs", label): f"filled in: {value}" for label, value in UNSTATED.items()},
}


def when_joined(table: str, label: str) -> str:
    """Whether rows that are joined with a mapping must have a column: `needed`, `optional`, or how it is filled in.

    Empty for a table that nothing is joined to.
    """
    if table in REFUSED:
        return ""
    if label == "run_id":
        return f"filled in from {' and '.join(TELLING)}"
    spare = label not in key(table) and may_be_left_out(table, label)
    return FILLED.get((table, label), OPTIONAL if spare else NEEDED)


def with_hashes(prompts: pd.DataFrame) -> pd.DataFrame:
    """Rows of prompts whose `text_sha256` is empty though their text is there, with the hash of the text."""
    if not {"text", "text_sha256"} <= set(prompts.columns):
        return prompts
    texts, said = as_text(prompts["text"]), as_text(prompts["text_sha256"])
    made = texts.map(lambda text: hashlib.sha256(text.encode()).hexdigest() if text else "")
    return prompts.assign(text_sha256=said.where(said != "", made))


def hashes_of_sets(prompts: pd.DataFrame) -> dict[str, str]:
    """`prompt_sha` of every prompt set of a table of prompts; empty where no text's hash is known."""
    return {
        str(name): prompt_sha(own) if (own["text_sha256"] != "").any() else ""
        for name, own in prompts.groupby("prompt_set")
    }
