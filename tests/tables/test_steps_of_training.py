"""A log of a training by steps: each step is a revision of its model, and the lines that say so
run."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command

import thermostats
from thermostats.errors import DataError, UsageError

LAYERS = 4
STEPS = (900, 5000, 10000)


@pytest.fixture
def log() -> pd.DataFrame:
    """Norms of two runs at three steps, with other columns that tell rows apart as well."""
    norms = np.random.default_rng(3).uniform(1.0, 1.3, (2 * len(STEPS), LAYERS + 1)).cumprod(axis=1)
    states = {f"resid_norm/layer_{state}": norms[:, state] for state in range(LAYERS + 1)}
    names = np.repeat(["warm", "cold"], len(STEPS))
    return pd.DataFrame(
        {"Name": names, "_step": 2 * STEPS, "_runtime": np.arange(len(names)) * 60.0, **states}
    )


def read_lines(refused: pytest.ExceptionInfo[UsageError]) -> list[str]:
    """Calls of `join` in the next step of a refusal."""
    lines = str(refused.value).split("Next: ")[1].split("\n")
    return ["thermostats.join(" + line.split("thermostats.join(")[1] for line in lines[:2]]


def run(line: str, log: pd.DataFrame) -> None:
    """A line with the capitals filled in."""
    for word, value in {"LAYERS": LAYERS, "HEADS": 4, "WIDTH": 64, "PARAMETERS": 10**6}.items():
        line = line.replace(f"={word}", f"={value}")
    eval(line, {"thermostats": thermostats, "df": log})  # noqa: S307


def test_steps_are_revisions_in_the_lines_that_are_proposed(
    log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="whether _step is a step of training") as refused:
        thermostats.join(log, data="mine")
    facts, rows = read_lines(refused)
    run(facts.replace("LAB", "Mine"), log)
    run(rows, log)
    layers = thermostats.load("layers", data="mine", model=["warm", "cold"])
    runs = thermostats.load("runs", data="mine", model=["warm", "cold"])
    by_step = layers.merge(runs[["run_id", "model_id", "revision"]], on="run_id")
    assert len(by_step) == len(log) * LAYERS
    last = by_step[(by_step["revision"] == "900") & (by_step["model_id"] == "cold")]
    expected = (
        log.loc[3, f"resid_norm/layer_{LAYERS}"] / log.loc[3, f"resid_norm/layer_{LAYERS - 1}"]
    )
    assert last.loc[last["layer"] == LAYERS, "gain_block"].item() == pytest.approx(expected)
    listed = command("ls", "models", "--own", "--data", "mine", cwd=tmp_path)
    named = [row["revision"] for row in csv.DictReader(listed.stdout.splitlines(), delimiter="\t")]
    assert sorted(named) == sorted(map(str, 2 * STEPS))


def test_trainings_of_the_same_steps_are_one_list_and_others_have_their_own(
    log: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        thermostats.join(log, data=tmp_path / "mine")
    assert read_lines(refused)[0].count("[dict(") == 1
    assert "models of other facts need a list of their own" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        thermostats.join(log.iloc[:-1], data=tmp_path / "mine")
    assert read_lines(refused)[0].count("[dict(") == 2
    assert "a list of their own" not in str(refused.value)


def test_revisions_of_a_known_model_are_proposed_with_its_facts(
    log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = {"heritage": "Mine", "n_layers": LAYERS, "n_heads": 4, "d_model": 64, "n_params": 10**6}
    rows = [{"model_id": name, "norm_place": "pre", **facts} for name in ("warm", "cold")]
    thermostats.join(rows, data="mine")
    with pytest.raises(UsageError) as guessed:
        thermostats.join(log, data="mine")
    by_step = next(line for line in str(guessed.value).split("\n") if "revision" in line)
    by_step = "thermostats.join(" + by_step.split("thermostats.join(")[1]
    with pytest.raises(DataError, match="join the model first") as refused:
        run(by_step, log)
    run(str(refused.value).split("join the model first: ")[1], log)
    run(by_step, log)
    models = thermostats.load("models", data="mine")
    mine = models[models["heritage"] == "Mine"]
    assert len(mine) == 2 * (1 + len(STEPS))
    assert mine["norm_place"].eq("pre").all()
