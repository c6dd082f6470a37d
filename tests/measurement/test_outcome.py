"""What became of a spec: its row, and the command with which a failed one would pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from thermostats.cli.options import choose_exit_code, suggest_option
from thermostats.errors import DataError, TransientError, UsageError
from thermostats.measurement.spec import Cost, Outcome, Problem, RunSpec, build_failure, build_loss

ROW = (
    "model",
    "status",
    "revision",
    "runs",
    "finished",
    "rows",
    "n_params",
    "gigabytes",
    "disk",
    "seconds",
)
ROW += ("differences", "reason", "wrong_use", "again", "attempts")


def outcome_of(error: Exception) -> Outcome:
    try:
        raise error
    except Exception as raised:
        return build_failure(RunSpec("lab/a"), raised)


def test_the_row_is_flat() -> None:
    cost, problem = (
        Cost(2.5, 1.0, 3.0),
        Problem("no room", again=True, options=("--set", "token_budget=512")),
    )
    row = Outcome("lab/a", "failed", runs=("x",), cost=cost, problem=problem).build_row()
    assert tuple(row) == ROW
    assert (row["gigabytes"], row["disk"], row["seconds"]) == (2.5, 1.0, 3.0)
    assert (row["reason"], row["wrong_use"], row["again"], row["runs"]) == (
        "no room",
        False,
        True,
        ("x",),
    )


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (
            UsageError("x", options=("--prompts", "images")),
            "thermostats measure lab/a --prompts images --lab Us",
        ),
        (
            TransientError("x", options=("--set", "token_budget=512")),
            "thermostats measure lab/a --set token_budget=512 --lab",
        ),
        (UsageError("x", next_step="--prompts images, or a folder of them"), ""),
        (OSError("x"), ""),
    ],
)
def test_a_failed_model_is_measured_with_the_option_that_it_lacked(
    error: Exception, command: str
) -> None:
    said = suggest_option(outcome_of(error), "Us", Path("mine"))
    assert (
        said.startswith(command)
        and bool(said) == bool(command)
        and (not said or said.endswith("--data mine"))
    )


def test_a_problem_says_whose_fault_it_is() -> None:
    outcomes = [
        outcome_of(error)
        for error in (UsageError("x"), DataError("x"), TransientError("x"), MemoryError("x"))
    ]
    faults = [(outcome.problem.wrong_use, outcome.problem.again) for outcome in outcomes]
    assert faults == [(True, False), (False, False), (False, True), (False, True)]
    assert build_loss(RunSpec("lab/a"), "gone").problem == Problem("gone", again=True)
    assert choose_exit_code(outcomes[:1]) == 2 and choose_exit_code(outcomes) == 1
