"""Licences under which other people's figures may ship with the package, as rows with their source."""

from __future__ import annotations

import pandas as pd

from thermostats.errors import UsageError
from thermostats.tables.vocabulary import EXTERNAL

PERMITTED = ("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0")
"""SPDX identifiers of licences that let figures be passed on, with their source and the text of the licence."""


def check_licence(licence: str, where: object) -> None:
    """Raise UsageError where a licence does not permit that figures ship with the package.

    What is not stated permits nothing, and terms against commercial use or changed versions forbid it.
    """
    if licence not in PERMITTED:
        step = "ask its author, or leave the source out; `thermostats join` takes it into a folder of your own"
        raise UsageError(
            "this licence does not permit that the rows ship",
            where=where,
            got=licence or "none stated",
            allowed=", ".join(PERMITTED),
            next_step=step,
        )


def check_licences(runs: pd.DataFrame) -> None:
    """Raise UsageError for a run of other people that ships under no licence that permits it."""
    shipped = runs[runs["measure_version"] == EXTERNAL].drop_duplicates(["source", "licence"])
    for run in shipped.itertuples():
        check_licence(str(run.licence), f"{run.source}, run {run.run_id}")
