"""Rows of models that rows of another table refer to and that are not there yet: as an expression
to paste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pandas as pd

from thermostats.next_steps import write_value
from thermostats.tables.choices import MAIN, PLACEHOLDERS, refuse_placeholder
from thermostats.tables.entries import drop_names
from thermostats.tables.frames import select_rows

IN_CAPITALS = drop_names(PLACEHOLDERS, ("family",))
"""Facts that a model must come with, besides its name, and the words that stand for them."""
YOURS = "write your own in the place of words in capitals"
NO_LAB = "where nobody knows the lab, leave it out"
"""Remarks on lines with words in capitals."""
LOOP = " for name in "
"""What makes rows of several models of the same facts."""
APART = "models of other facts need a list of their own"
"""The remark on such a line."""
MOST_NAMED = 5
"""Models that are named one by one in a line of their facts."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def check_filled(models: pd.DataFrame) -> None:
    """Raise UsageError for a fact that is the word in its place in a printed line."""
    for fact in PLACEHOLDERS:
        for value in models[fact].unique():
            refuse_placeholder(fact, value)


def suggest_models(lacking: Sequence[tuple[str, ...]], models: pd.DataFrame) -> str:
    """Rows for models and revisions that are lacking, as an expression of a list.

    Where some are further revisions of models that are known, these with their facts; else the
    first of all, with what only the user knows in capitals.
    """
    revisions = dict[str, list[str]]()
    for model, revision in lacking:
        revisions.setdefault(model, []).append(revision)
    known = select_rows(models, model_id=revisions).drop_duplicates("model_id")
    facts = {row.pop("model_id"): _drop_missing(row) for row in known.to_dict("records")}
    rows = []
    for model in facts or [*revisions][:MOST_NAMED]:
        rows.append(suggest_facts([model], revisions[model], facts.get(model, NOTHING)))
    more = " + MORE" * (not facts and len(revisions) > MOST_NAMED)
    return " + ".join(rows) + more


def _drop_missing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Facts that are stated of a model, whichever of its revisions it is."""
    present: dict[str, Any] = {}
    for name, value in row.items():
        if name != "revision" and not pd.isna(value) and value != "":
            present[name] = value
    return present


def suggest_facts(
    models: Sequence[str], revisions: Sequence[str] = (), facts: Mapping[str, Any] = NOTHING
) -> str:
    """Rows of models with the same facts and revisions as an expression of a list, one a model and
    revision, with what only the user knows in capitals.

    facts: those that are known.
    """
    written = {**IN_CAPITALS, "heritage": f'"{IN_CAPITALS["heritage"]}"'}
    for name, value in facts.items():
        written[name] = write_value(value)
    words = [f"{name}={value}" for name, value in written.items()]
    loops = ""
    name = write_value(models[0])
    if len(models) > 1:
        name = "name"
        loops += f"{LOOP}{write_value(list(models))}"
    entries = [f"model_id={name}", *words]
    if {*revisions} - {MAIN}:
        steps = sorted(revisions, key=lambda step: (len(step), step))
        entries.insert(1, "revision=step")
        loops += f" for step in {write_value(steps)}"
    return f"[dict({', '.join(entries)}){loops}]"
