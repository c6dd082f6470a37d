"""The claims of a folder as a table, by their words alone."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from thermostats.claims.scripts import scripts
from thermostats.claims.template import Template
from thermostats.errors import UsageError
from thermostats.next_steps import in_words
from thermostats.tables.folders import shipped

COLUMNS = ("claim", "title", "said", "reads", "needs", "file")


@in_words
def claims(analyses: str | Path | None = None) -> pd.DataFrame:
    """Every claim of a folder of analyses, by default those that ship: id, title, what is said, rows it reads, script.

    `thermostats.findings(id)` has the verdicts of the last report, `thermostats.report(id)` makes them. Raises
    UsageError where the folder has no claims.
    """
    folder = shipped("analyses") if analyses is None else Path(analyses)
    rows = []
    for script in scripts(folder).values():
        words = Template.read(script.with_suffix(".md"))
        statement = words.text("Said") if "Said" in words.sections else ""
        facts = (words.facts.get("rows", ""), words.facts.get("needs", ""))
        rows.append((words.id, words.title, statement, *facts, str(script)))
    if not rows:
        raise UsageError("no claims in this folder", where=folder, next_step="thermostats.claims()")
    return pd.DataFrame(rows, columns=list(COLUMNS))
