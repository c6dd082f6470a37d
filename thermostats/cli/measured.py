"""What `measure` and `compare` show of gains: a table, a figure or the line that draws it, and paired differences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thermostats.errors import UsageError
from thermostats.next_steps import command
from thermostats.tables.by_layer import overview
from thermostats.terminal import print_rows

COLUMNS = ["model", "L", "last_gain", "penultimate_gain", "last_read_gain", "lowest_block"]


def show_gains(
    outcomes: Sequence[Any], models: Sequence[str], prompts: str, data: Path | None, figure: Path | None
) -> None:
    """Print a row for each model with gains, and draw them or say how."""
    runs = {name_in(outcome): (*outcome.runs, *outcome.finished) for outcome in outcomes}
    rows = overview(runs, data)
    if rows:
        print()
        print_rows(rows, COLUMNS)
    if figure is not None:
        from thermostats.plots.profile import profile  # noqa: PLC0415 - matplotlib

        profile([row["model"] for row in rows] or [name_in(outcome) for outcome in outcomes], data=data, figure=figure)
        print(f"figure: {figure}", file=sys.stderr)
    elif rows:
        again = command("measure", *models, prompts="" if prompts == "core" else prompts, data=data, figure="gains.svg")
        print(f"To draw them: {again}", file=sys.stderr)


def name_in(outcome: Any) -> str:
    """A model as `profile` takes it: with its revision, where that is none of the usual."""
    return f"{outcome.model}@{outcome.revision}" if outcome.revision not in ("", "main") else str(outcome.model)


def paired_rows(first: Path, second: Path, data: Path | None) -> tuple[list[dict[str, Any]], str]:
    """Differences of the gains of two folders' models, a row a block; where both are measured, why there are none."""
    from thermostats.measurement.spectra import model_sha  # noqa: PLC0415 - reads weights
    from thermostats.modelling.paired import paired  # noqa: PLC0415 - scipy
    from thermostats.tables import store  # noqa: PLC0415 - pandas

    runs = store.load("runs", data)
    runs = runs.assign(sha=runs["model_sha"].where(runs["model_sha"] != "", runs["confirmed_sha"]))
    runs = runs[runs["prompt_set"].ne("")]
    named = [runs.loc[runs["sha"].eq(model_sha(folder)), ["model_id", "revision"]] for folder in (first, second)]
    if any(of_one.empty for of_one in named):
        return [], ""
    models = [f"{of_one['model_id'].iloc[-1]}@{of_one['revision'].iloc[-1]}" for of_one in named]
    try:
        return paired(*models, data=data).to_dict("records"), ""
    except UsageError as error:
        return [], str(error)
