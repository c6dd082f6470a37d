"""Identity of a run: a hash of what was measured; what was merely recorded with it is not part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from thermostats.errors import DataError

MEASURED = ("model_id", "revision", "dtype", "attention", "prompt_set", "prompt_sha", "measure_version", "source")
OF_THE_PASS = ("special_tokens", "versions", "device", "seconds", "measured_at", "proof")
RECORDED = (*OF_THE_PASS, "instrument", "licence", "confirmed_sha", "differences")
LIKE = [label for label in MEASURED if label != "measure_version"]
"""What two runs share that measured the same, perhaps of other weights or by another version."""


def run_id(run: Mapping[str, Any]) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the values of `MEASURED`, one a line, in that order, in UTF-8.

    `model_sha` is a last line where the run states it; runs of versions that did not know it keep their ids.
    """
    values = [run[label] for label in MEASURED] + [sha for sha in (run.get("model_sha"),) if sha]
    return hashlib.sha256("\n".join(map(str, values)).encode()).hexdigest()[:16]


def prompt_sha(prompts: pd.DataFrame) -> str:
    """SHA-256 over the hashes of a set's texts, one after the other in order of prompt_id, in hexadecimal."""
    ordered = prompts.sort_values("prompt_id")["text_sha256"]
    return hashlib.sha256("".join(ordered).encode()).hexdigest()


def superseded(runs: pd.DataFrame) -> pd.Series[bool]:
    """Runs that were measured again by a later version, of the same weights, or where they are stated only now: those
    rows stand instead."""
    version, sha = pd.to_numeric(runs["measure_version"], errors="coerce"), runs["model_sha"]
    like = [runs[label] for label in LIKE]
    of_any = version.where(sha != "").groupby(like).transform("max")
    of_these = version.groupby([*like, sha]).transform("max")
    return version < of_any.where(sha == "", of_these)


def check_run_ids(runs: pd.DataFrame) -> None:
    """Raise DataError where a row of `runs` carries another id than its values give."""
    for row in runs.to_dict("records"):
        if row["run_id"] != run_id(row):
            raise DataError(
                "a run's id does not follow from what was measured",
                got=f"run_id {row['run_id']!r} of model {row['model_id']!r}",
                allowed=f"{run_id(row)!r}",
                next_step="thermostats.run_id(row) computes it",
            )
