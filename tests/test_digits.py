"""Numbers that are printed have at most four digits; JSON has all."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import command

import thermostats
from thermostats.claims.planning.advice import NextModel, NextModels, NextSet
from thermostats.claims.planning.scoring import Looks
from thermostats.claims.planning.search import Budget
from thermostats.modelling.draws import EXACT, Draws, Settings
from thermostats.modelling.group_effects import GroupEffects
from thermostats.modelling.heritage.prediction import Prediction, TrackRecord
from thermostats.modelling.leave_out import LeftOut
from thermostats.modelling.specification import build_correlation
from thermostats.reporting.report import ReportRun
from thermostats.terminal import print_rows

LONG = re.compile(r"\d\.\d{5,}")
DECIMAL = re.compile(r"(?<![\w.,@/+-])(\d+(?:,\d{3})*\.\d+)(?:e[+-]?\d+)?(?![\w./]*\w)")
"""A number with decimals, not of a version, a DOI or a name."""
VERBS = [
    *(f"ls {what}" for what in ("evidence", "models", "prompts", "runs", "tables", "columns")),
    "ls architectures --proofs",
    "ls runs --own --data mine",
    "ls models --own --data mine",
    "check --data mine",
    "doctor",
    "needs --all",
    "needs C02 --data mine",
    "predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI --data mine",
    "power C05 --models 20 --labs 5 --studies 20 --data mine",
    "set one lab=Mine --data mine",
    "forget --source mine --data mine --dry-run",
    "join gains.csv --map map.toml --data mine",
    "report C02 --data mine --out out",
    "findings C02 --out out --evidence all",
    "ls claims --data mine",
    "export tables runs --data mine",
    "cite --data mine",
    "new claim depth-helps --folder new",
    "version",
    "next C02",
]
"""Every verb that needs no torch, in the state of rows that were joined."""
ROWS = [{"name": "a", "gain": 1.040928850387436, "r": np.float64(0.17909021535605735), "n": 123456}]


def test_a_pipe_has_four_digits_and_json_all(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ["name", "gain", "r", "n"])
    assert capsys.readouterr().out == "name\tgain\tr\tn\na\t1.041\t0.1791\t123456\n"
    print_rows(ROWS, ["name", "gain", "r", "n"], digits=2)
    assert capsys.readouterr().out.splitlines()[1] == "a\t1\t0.18\t123456"
    print_rows(ROWS, ["name", "gain", "r", "n"], as_json=True)
    assert json.loads(capsys.readouterr().out)[0]["gain"] == ROWS[0]["gain"]


def test_a_prediction_shows_its_sentences() -> None:
    record = TrackRecord(
        lab="known", models=31, right=28, majority=23, side="above 1",
        error=0.11579134856197783, covered=0.9354838709677419, level=0.94,
    )  # fmt: skip
    names = [f"gain_{what}" for what in ("median", "lower", "upper")]
    numbers = dict(zip(names, (1.0340666033325756, 0.8518277, 1.2955729), strict=True))
    table = pd.DataFrame([{"heritage": "A", **numbers, "P(gain < 1)": 0.37175, "outside": ""}])
    shown = repr(Prediction(table=table, gain="gain", records=(record,), labs=("A",), level=0.94))
    assert shown.splitlines()[0].startswith("Gain: 1.03, 94% interval 0.852 to 1.3;")
    assert not LONG.search(shown)


def test_draws_show_a_line_a_quantity() -> None:
    values = {"slope": np.full((1, 200), 1.040928850387436), "effects": np.zeros((1, 200, 3))}
    draws = Draws(
        values=values,
        diagnostics=pd.DataFrame(),
        engine=EXACT,
        settings=Settings(),
        effective=150.4,
    )
    head, *lines = repr(draws).splitlines()
    assert head == "200 draws (exact, 150 effective)" and len(lines) == 2
    assert "mean 1.041" in lines[0] and "of 3 elements" in lines[1]
    independent = Draws(
        values=values, diagnostics=pd.DataFrame(), engine=EXACT, settings=Settings()
    )
    assert math.isinf(independent.effective)
    assert repr(independent).splitlines()[0] == "200 draws (exact)"


def test_a_fit_and_its_parts_show_no_long_numbers() -> None:
    rng = np.random.default_rng(1)
    rows = {"g": list("aabbccdd") * 3, "x": rng.normal(size=24), "y": rng.normal(size=24)}
    fit = thermostats.fit_line(pd.DataFrame(rows), "y", "x", group="g")
    assert not LONG.search(repr(fit)) and not LONG.search(repr(fit.draws))


def list_long(text: str) -> list[str]:
    """Numbers of more than four significant digits."""
    found = (match[1] for match in DECIMAL.finditer(text))
    return [each for each in found if len(re.sub("[.,]", "", each).lstrip("0")) > 4]


def test_what_counts_as_a_long_number() -> None:
    said = "1.0409 0.00076372 12.5.3 10.5281/zen 1,036.5 0.1158 3.52e-07 v1.23456 1.2345e-07"
    assert list_long(said) == ["1.0409", "0.00076372", "1,036.5", "1.2345"]


def join_one(folder: Path) -> None:
    """A model of a user's own with gains of its blocks, and files to join once more."""
    facts = {"model_id": "one", "n_layers": 3, "n_heads": 2, "d_model": 16, "n_params": 20_001}
    thermostats.join([facts | {"heritage": "Mine"}], table="models", data=folder / "mine")
    rng = np.random.default_rng(1)
    rows = {"model_id": "one", "layer": [1, 2, 3] * 3, "prompt_id": sorted("abc" * 3)}
    gains = pd.DataFrame({**rows, "gain_block": np.exp(rng.normal(0.1, 0.05, 9))})
    gains.to_csv(folder / "gains.csv", index=False)
    columns = "\n".join(f'{name} = "{name}"' for name in gains)
    stated = '[constants]\nsource = "mine"\nposition = "last"'
    (folder / "map.toml").write_text(f'table = "layers"\n[columns]\n{columns}\n{stated}\n')


@pytest.mark.slow
def test_no_verb_prints_a_long_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe; the lines that were asked for come first."""
    monkeypatch.chdir(tmp_path)
    join_one(tmp_path)
    assert command("join", "gains.csv", "--map", "map.toml", "--data", "mine").returncode == 0
    for line in VERBS:
        ran = command(*line.split())
        assert ran.returncode == 0, (line, ran.stderr)
        assert not list_long(ran.stdout + ran.stderr), line


def test_a_fit_and_what_follows_from_it_show_no_long_number() -> None:
    rows = thermostats.model_rows("published", "penultimate_gain")
    fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
    shown = [fit, fit.draws, fit.power(models=12, labs=4, studies=4), fit.check(refits=False)]
    shown.append(
        thermostats.predict_gain({"n_layers": 9, "n_heads": 8, "d_head": 64, "n_params": 1e8})
    )
    assert not [found for each in shown if (found := list_long(repr(each)))]


def test_effects_of_groups_show_small_and_large_ones_to_three_digits() -> None:
    draws = np.random.default_rng(1).normal(0.0, 1.0, (1, 400, 2)) * [1e-3, 1.0] + [0.002, 1234.5]
    shown = GroupEffects(
        group="lab", names=("a", "b"), draws=draws, counts=(3, 2), scale="log", level=0.94
    )
    text = repr(shown)
    assert not list_long(text) and "0.00188" in text and "1,235" in text


def test_outcomes_left_out_show_no_long_number() -> None:
    density = {str(k): -123.456789 - k for k in range(9)}
    shown = LeftOut(
        draws=np.zeros((5, 9)), pit=np.zeros(9), log_density=density, refits=0, untrusted=0
    )
    assert repr(shown).startswith("elpd -1147, standard error 8.22; 9 outcomes in 9 folds")


def test_a_curve_shows_its_median_and_what_moves_it() -> None:
    rows = pd.DataFrame({"g": list("aabbccdd"), "x": range(8), "outcome": np.arange(8) ** 1.3})
    curve = thermostats.specification_curve(
        rows, {"rows": {"all": "", "some": "x > 1"}}, build_correlation("x")
    )
    text = repr(curve)
    assert text.startswith("2 universes, median ") and curve.summary in text
    assert text.count("universes") == 1
    assert not list_long(text) and len(text.splitlines()) == 2


def test_advice_shows_its_sentences_and_no_long_number() -> None:
    model = NextModel("lab/one", 1.0409288, 2.1234567, "no", "a lab")
    chosen = NextSet((model,), 12, 0.1790902, (0.3333333, 0.2222222), None, "too few rows")
    budget, looks = Budget(25.0, 2), Looks()
    advice = NextModels("C01", "Gains", "a", "pooled", 11, budget, looks, (chosen,), lines=("go",))
    lines = repr(advice).splitlines()
    assert lines[0] == "C01. Gains" and lines[-1] == "go" and not list_long(repr(advice))


def test_a_run_of_a_report_shows_what_it_prints() -> None:
    ran = ReportRun(True, "out", (), seconds=1.23456789)
    assert repr(ran) == str(ran) and "1.2 s" in repr(ran)


def test_what_was_asked_for_stands_in_80_columns() -> None:
    """In a pipe, as tabs of eight show it: the number of `predict`, and of `power` the share."""
    asked = "predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI"
    head, row, *_ = command(*asked.split()).stdout.expandtabs().splitlines()
    for name in ("median", "lower", "upper", "P(gain < 1)"):
        assert row[head.index(name)].isdigit() and head.index(name) < 74
    power = "power C05 --models 20 --labs 5 --studies 20"
    head, *rows = command(*power.split()).stdout.expandtabs().splitlines()
    assert head.index("power") < head.index("error") < 74 and len(rows) > 1


def test_names_are_shortened_before_numbers_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    rows = [{"finding": "C05.ratio.right_value_matrix", "power": 0.8123456, "labs": 10}]
    print_rows(rows, ["finding", "power", "labs"], shorten=("finding",))
    shown = capsys.readouterr()
    assert "….ratio.right_value_matrix" in shown.out and "0.8123" in shown.out
    print_rows(rows, ["finding", "power", "labs"])
    assert "left out" in capsys.readouterr().err and not shown.err


def test_what_can_be_done_next_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    join_one(tmp_path)
    done = command("join", "gains.csv", "--map", "map.toml", "--data", "mine")
    (step,) = [line for line in done.stderr.splitlines() if line.startswith("Next: ")]
    why, _, line = step.removeprefix("Next: ").partition(": ")
    assert "ceiling of gains that claim C02 states" in why
    assert line == "thermostats report C02 --out my-report --data mine"
