"""Verbs and options of earlier versions, and what does their job now."""

from __future__ import annotations

import re

SHARDS = "one job of a job array a shard: thermostats measure MODEL --shard $SLURM_ARRAY_TASK_ID/8 --data mine"
GONE = {
    "import": "rows and the texts of prompts are joined: thermostats join FILE --data mine",
    "nursery": "in a checkout python -m nursery; the trained models that ship: thermostats ls models --paths",
    "measure --slurm": SHARDS,
}
"""Words of a command line, to what replaces them."""
UNKNOWN = re.compile(r"No such command '([^']*)'")


def replaced(command: str, error: Exception) -> str | None:
    """What replaces the verb or option that an error of the command line is about; None where there was never one.

    command: the words up to the one that failed, such as `thermostats measure`.
    """
    verb = UNKNOWN.match(str(getattr(error, "message", "")))
    last = verb[1] if verb else str(getattr(error, "option_name", None) or "")
    return GONE.get(f"{command} {last}".removeprefix("thermostats ").strip())
