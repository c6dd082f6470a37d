"""Numbers that are printed have at most four digits; JSON has all."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.modelling.draws import EXACT, Draws, Settings
from thermostats.modelling.heritage.prediction import Prediction, TrackRecord
from thermostats.terminal import print_rows

LONG = re.compile(r"\d\.\d{5,}")
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
