"""The nursery's verbs: what they hand on, what they print, how they end. Nothing is trained
here."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from dataclasses import asdict

import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from nursery import STUDIES, corpora, designs, measuring, training
from nursery.__main__ import _progress, app
from nursery.records import CORPORA, GAINS, RECORD, Trained, model_folder, read_gains
from thermostats.errors import DataError
from thermostats.measurement import spec
from thermostats.measurement.spec import Cost, Outcome, Problem
from thermostats.studies.nursery import SECOND

MODEL = "c005-L04d32h8"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def record(model, steps=600):
    return Trained(model, "", "english", steps, 1000, 3.25, 4.5, True, 2.0)


@pytest.fixture
def handed_on(monkeypatch, tmp_path):
    """What the trainer was asked for; a folder that says it has corpora."""
    arguments = {}

    def train_all(packs, folder, *, device, processes, engine):
        arguments.update(
            packs=packs, folder=folder, device=device, processes=processes, engine=engine
        )
        for pack in packs:
            yield training.Step(pack, 0.5)
            yield training.Step(
                pack, 1.0, [record(member.model, pack.steps) for member in pack.members]
            )

    monkeypatch.setattr(training, "train_all", train_all)
    monkeypatch.setattr(
        corpora,
        "load",
        lambda folder, name, context: arguments.setdefault("corpora", []).append((name, context)),
    )
    (tmp_path / CORPORA).write_text("{}")
    return arguments


def test_train_hands_on_what_is_asked_and_says_what_came_of_it(handed_on, tmp_path):
    options = ("--folder", tmp_path, "--no-tune", "--processes", "3", "--engine", "ray")
    result = run("train", "--model", "c005-L04d32h8", "--model", "c021-L16d80h3", *options)
    assert result.exit_code == 0, result.exception
    held = {member.model for pack in handed_on["packs"] for member in pack.members}
    assert (
        len(handed_on["packs"]) == 2
        and {"c005-L04d32h8", "c021-L16d80h3"} < held
        and len(held) <= 16
    )
    assert handed_on["corpora"] == [("english", 64), ("synthetic", 64)]
    assert (handed_on["folder"], handed_on["device"], handed_on["processes"]) == (
        tmp_path,
        "cpu",
        3,
    )
    assert handed_on["engine"].name == "ray"
    lines = result.stdout.splitlines()
    assert lines[0].split("\t") == [
        "model",
        "corpus",
        "steps",
        "loss",
        "loss_unigram",
        "learned",
        "seconds",
    ]
    assert {line.split("\t")[0] for line in lines[1:]} == held
    assert "held-out loss 3.25, about 0 min left" in result.stderr
    assert f"python -m nursery measure --folder {tmp_path} --data mine" in result.stderr


def test_a_recipe_as_json_before_all_are_trained_is_not_tuned(handed_on, tmp_path):
    result = run("train", "--recipe", "c005", "--folder", tmp_path, "--json")
    assert (
        len({row["model"] for row in json.loads(result.stdout) if row["model"].startswith("c005-")})
        >= 12
    )
    assert "Next:" not in result.stderr


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_the_first_gpu_where_there_is_one(handed_on, tmp_path, monkeypatch, gpus, device):
    monkeypatch.setattr("nursery.__main__.count_gpus", lambda: gpus)
    run("train", "--model", MODEL, "--folder", tmp_path, "--device", "auto")
    assert handed_on["device"] == device
    assert spec.NAMES.fullmatch(handed_on["device"])


def test_on_a_terminal_a_bar_says_what_is_through(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with _progress(20.0, 10.0) as tell:
        tell("r04-1", 10.0, 1.0, [record("r04-1")])
        tell("r05-1", 10.0, 0.5, [])
        tell("r05-1", 10.0, 1.0, [record("r05-1")])
    lines = re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", sys.stderr.getvalue())
    assert "r04-1: 600 steps, held-out loss 3.25, trained before" in lines
    assert "r05-1: 600 steps, held-out loss 3.25, about 0 min left" in lines
    assert "training r05-1" in lines and "100%" in lines


@pytest.fixture
def trained(tmp_path):
    folder = model_folder(tmp_path, MODEL)
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps(asdict(record(MODEL))))
    return tmp_path


@pytest.mark.parametrize(("status", "code"), [("measured", 0), ("failed", 1)])
def test_measure_says_what_became_of_every_checkpoint(trained, monkeypatch, status, code):
    def measure_all(members, folder, data):
        assert ([member.model for member in members], folder) == ([MODEL], trained)
        problem = Problem("no room" if status == "failed" else "")
        yield MODEL, Outcome("x", status, "step00600", cost=Cost(seconds=1.5), problem=problem)

    monkeypatch.setattr(measuring, "measure_all", measure_all)
    result = run("measure", "--model", MODEL, "--folder", trained, "--data", trained / "mine")
    assert result.exit_code == code
    assert result.stdout.splitlines()[1].split("\t")[:4] == [MODEL, "step00600", status, "1.5"]
    assert f"{MODEL} step00600: {status}" in result.stderr
    assert ("thermostats report --all --data" in result.stderr) == (code == 0)


@pytest.mark.parametrize(("same", "code"), [([True, True], 0), ([True, False], 1)])
def test_compare_fails_where_a_gain_is_another(trained, monkeypatch, same, code):
    table = pd.DataFrame({"model": MODEL, "checkpoint": ["step00000", "step00600"], "same": same})
    monkeypatch.setattr(measuring, "compare", lambda members, folder: table)
    result = run("compare", "--model", MODEL, "--folder", trained)
    assert result.exit_code == code
    assert result.stdout.splitlines()[2].split("\t") == [MODEL, "step00600", str(same[1])]
    assert "differ by at most 0.05" in result.stderr
    assert (
        "differ by at most"
        not in run("compare", "--model", MODEL, "--folder", trained, "--json").stderr
    )


def test_compare_prints_a_gain_that_is_not_finite(trained, monkeypatch):
    table = pd.DataFrame({"model": [MODEL], "largest": [math.nan], "same": [False]})
    monkeypatch.setattr(measuring, "compare", lambda members, folder: table)
    result = run("compare", "--model", MODEL, "--folder", trained, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        1,
        [{"model": MODEL, "largest": None, "same": False}],
    )


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', json.dumps(asdict(record("another")))])
def test_a_damaged_record_is_named_with_what_to_do(trained, text):
    path = model_folder(trained, MODEL) / RECORD
    path.write_text(text)
    for verb in (["compare"], ["measure", "--data", trained / "mine"]):
        result = run(*verb, "--model", MODEL, "--folder", trained)
        assert isinstance(result.exception, DataError) and result.exception.where == str(path)
        assert f"remove the folder {path.parent}" in result.exception.next_step


COLUMNS = ",".join(SECOND["gains"][1:])


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", f"{COLUMNS}\n", "step,layer\n0,1\n", f"{COLUMNS}\n0,1,a,0,1,1\n"),
        f"{COLUMNS}\n0,1,0,0,1,1\n0,2,0,0,1,1\n9,1,0,0,1,1\n",
    ],
)
def test_damaged_gains_are_named_with_what_to_do(trained, text):
    path = model_folder(trained, MODEL) / GAINS
    if text is not None:
        path.write_text(text)
    result = run("compare", "--model", MODEL, "--folder", trained)
    assert isinstance(result.exception, DataError) and result.exception.where == str(path)
    assert f"remove the folder {path.parent}" in result.exception.next_step
    with pytest.raises(DataError, match=GAINS):
        read_gains(trained, MODEL)


def test_corpora_are_built_where_and_of_what_is_said(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(corpora, "build", lambda folder, text: calls.append((folder, text)))
    text = tmp_path / "novel.txt"
    text.write_text("It is a truth.")
    result = run("corpora", "--folder", tmp_path / "own", "--text", text)
    assert calls == [(tmp_path / "own", text)]
    assert result.stdout == f"{tmp_path / 'own'}\n"
    assert (
        f"python -m nursery train --model c005-L04d32h8 --folder {tmp_path / 'own'}"
        in result.stderr
    )


def test_train_says_first_what_it_will_do(handed_on, tmp_path):
    result = run(
        "train", "--model", "c005-L04d32h8", "--folder", tmp_path, "--no-tune", "--processes", "1"
    )
    assert re.match(r"7 models in 1 packs on cpu, about \d+ min\n", result.stderr)
    packs = handed_on["packs"]
    third = designs.read(STUDIES / "third" / "design.toml").packs()
    assert 200 < designs.seconds_of(third, "cuda", 10) < 288, (
        "the 60 tuned models and the start were in the 288 s"
    )
    assert designs.seconds_of(packs, "cpu", 2) == pytest.approx(
        designs.seconds_of(packs, "cpu", 1) / 2
    )


def test_gains_by_prompt_are_of_packs_that_are_trained(tmp_path):
    result = run("prompts", tmp_path / "rows.parquet", "--folder", tmp_path)
    assert result.exit_code == 1 and "no pack is trained here" in str(result.exception)
