"""What `measure` writes into a pipe is one table, or with --json one list: gains stand in the row
of their model."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
import small
from typer.testing import CliRunner

from thermostats.cli.app import app
from thermostats.errors import DataError
from thermostats.tables import reading


def test_a_pipe_gets_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = small.save_model(Path("small"))
    prompts = small.save_prompts(Path())
    asked = ["measure", str(folder), "--lab", "Who", "--prompts", str(prompts), "--what", "gains"]
    done = CliRunner().invoke(app, [*asked, "--data", "mine"])
    assert done.exit_code == 0, done.output
    (row,) = csv.DictReader(io.StringIO(done.stdout), delimiter="\t")
    assert row["status"] == "measured" and float(row["last_gain"]) > 0 and None not in row
    assert "To draw them: thermostats measure small" in done.stderr
    line = done.stderr.partition("for a spreadsheet: ")[2].splitlines()[0]
    exec(shlex.split(line)[2], {})  # noqa: S102
    (gains,) = csv.DictReader(Path("gains.csv").read_text().splitlines())
    assert float(gains["last_gain"]) == pytest.approx(float(row["last_gain"]), rel=1e-3)
    again = CliRunner().invoke(app, [*asked, "--data", "mine", "--json"])
    (listed,) = json.loads(again.stdout)
    assert listed["last_gain"] == pytest.approx(float(row["last_gain"]), rel=1e-3)


def test_what_was_measured_is_told_before_gains_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: object) -> None:
        raise DataError("a table is damaged")

    monkeypatch.setattr(reading, "summarise_runs", refuse)
    folder = small.save_model(Path("small"))
    prompts = small.save_prompts(Path())
    asked = ["measure", str(folder), "--lab", "Who", "--prompts", str(prompts), "--what", "gains"]
    done = CliRunner().invoke(app, [*asked, "--data", "mine"])
    assert isinstance(done.exception, DataError)
    (row,) = csv.DictReader(io.StringIO(done.stdout), delimiter="\t")
    assert row["status"] == "measured" and not row["last_gain"]
