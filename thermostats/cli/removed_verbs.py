"""Verbs and options of earlier versions, and what does their job now."""

from __future__ import annotations

import re

from thermostats.measurement.settings import SETTINGS

SHARDS = "one job of a job array a shard: thermostats measure MODEL --shard $SLURM_ARRAY_TASK_ID/8 --data mine"
GONE = {f"measure --{name.replace('_', '-')}": f"thermostats measure MODEL --set {name}=VALUE" for name in SETTINGS} | {
    "can-measure": "thermostats measure MODEL --dry-run",
    "import": "rows and the texts of prompts are joined: thermostats join FILE --data mine",
    "measure --heritage": "thermostats measure MODEL --lab LAB",
    "measure --slurm": SHARDS,
    "nursery": "in a checkout python -m nursery; the trained models that ship: thermostats ls models --paths",
    "replicate": "measure the study's models, thermostats measure --models delia2026 --data mine; R01 compares them",
}
"""Words of a command line, to what replaces them."""
UNKNOWN = re.compile(r"No such command '([^']*)'")


def replaced(command: str, error: Exception) -> str | None:
    """What replaces the verb or option that an error of the command line is about; None where there was never one.

    command: the words up to the one that failed, such as `thermostats measure`.
    """
    verb = UNKNOWN.match(str(getattr(error, "message", "")))
    last = verb[1] if verb else str(getattr(error, "option_name", None) or "")
    return GONE.get(f"{command.rpartition('thermostats')[2]} {last}".strip())
