"""Power of a fit: against tables that are drawn and tested without it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import thermostats
from thermostats.errors import UsageError
from thermostats.modelling import fit_power as planning
from thermostats.modelling.fit import Fit

SLOPE, NOISE, MODELS = 0.6, 1.0, 24


def draw_line(n: int, rng: np.random.Generator) -> pd.DataFrame:
    x = rng.standard_normal(n)
    y = 3.0 + SLOPE * x + NOISE * rng.standard_normal(n)
    return pd.DataFrame({"name": [f"m{i}" for i in range(n)], "x": x, "y": y})


@pytest.fixture(scope="module")
def line() -> Fit:
    """A line that 3,000 models leave no doubt of."""
    rows = draw_line(3000, np.random.default_rng(1))
    return thermostats.fit_line(rows, "y", "x", model="name", group=None)


def test_power_of_a_slope_is_that_of_tables_with_the_known_truth(line: Fit) -> None:
    """The share of p ≤ 1 − level of least squares, over 4,000 tables of the true line."""
    rng = np.random.default_rng(2)
    tables = (draw_line(MODELS, rng) for _ in range(4000))
    found = [stats.linregress(rows["x"], rows["y"]).pvalue <= 1 - line.level for rows in tables]
    truth = float(np.mean(found))
    assert 0.6 < truth < 0.95
    table = line.power(MODELS, studies=100).table.set_index("asked")
    row = table.loc[f"{line.level:.0%} interval of slope on x excludes 0"]
    assert row["power"] == pytest.approx(truth, abs=4 * (truth * (1 - truth) / 100) ** 0.5)
    assert table.loc["P(mean > 0) ≥ 0.95", "power"] == 1
    assert table.loc["P(mean > 0) ≥ 0.95", "against"] == 0


def draw_labs(spread: float, rng: np.random.Generator) -> pd.DataFrame:
    """Twelve labs of five models; labs differ by their spread, models by .05."""
    labs = np.repeat(np.arange(12), 5)
    layers = rng.choice([12, 24, 32, 48], 60)
    gain = np.exp(spread * rng.standard_normal(12)[labs] + 0.05 * rng.standard_normal(60))
    named = {"model": [f"m{i}" for i in range(60)], "lab": [f"lab {k}" for k in labs]}
    return pd.DataFrame({**named, "layers": layers, "gain": gain})


def test_labs_that_differ_are_found_and_labs_that_do_not_are_not() -> None:
    powers = []
    for spread in (0.3, 0.0):
        rows = draw_labs(spread, np.random.default_rng(3))
        fit = thermostats.fit_heritage(
            rows, outcome="gain", model="model", lab="lab", geometry="layers"
        )
        made = fit.power(sizes=[[6, 5, 5, 4, 4, 4], [8, 7, 1, 1]], studies=30)
        assert made.table["models"].unique().tolist() == [28, 17]
        assert made.table.loc[0, "asked"] == "P(heritage > geometry) ≥ 0.95"
        powers.append(made.table["power"].iloc[0])
    assert powers[0] > 0.8 and powers[1] < 0.3


def test_a_number_is_a_list_of_one_and_numbers_are_the_labs_of_one_study(line: Fit) -> None:
    made = line.power(20, studies=20)
    assert made.table["models"].tolist() == [20] * 3 and made.table["labs"].eq(1).all()
    assert made.sentences[0].startswith("P(slope on x > 0) ≥ 0.95: ")
    assert made.sentences[0].endswith("% of studies of 20 models; 80% from 20 models on")
    assert repr(made).startswith(made.sentences[0])
    assert made.plot().get_title().startswith("P(slope on x > 0)")


def test_what_is_stopped_keeps_what_it_has_and_says_what_it_lacks(
    line: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = planning._simulate(line, line.design, planning.PlannedStudy((20,)), 40, 1)

    def stop_soon(*_: object) -> object:
        for number, each in enumerate(fits):
            if number == 7:
                raise KeyboardInterrupt
            yield each

    monkeypatch.setattr(planning, "_simulate", stop_soon)
    made = line.power([20, 40], studies=30)
    assert made.table["studies"].tolist() == [7] * 3
    assert made.stopped == (
        "Stopped after 7 of 30 studies of 20 models; 1 further size not started."
    )
    assert made.sentences[-1] == made.stopped


def test_what_is_simulated_is_said_without_a_terminal(
    line: Fit, capsys: pytest.CaptureFixture[str]
) -> None:
    line.power([20, 40], studies=10)
    assert capsys.readouterr().err.splitlines() == [
        "20 models: 10 studies are simulated and fitted",
        "40 models: 10 studies are simulated and fitted",
    ]


def test_what_has_no_power_is_refused_with_the_call_that_has(line: Fit) -> None:
    with pytest.raises(
        UsageError, match=r"plans studies by its own law.*fit\.power\(models=40, la"
    ):
        thermostats.power(line, models=40, labs=9)
    with pytest.raises(UsageError, match=r"id of a claim.*thermostats\.power\(\"C05\", models"):
        thermostats.power(5, models=40, labs=9)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"by a fit.*fit_heritage\(df, .*\)\.power\(models=40, "):
        thermostats.power(line.rows, models=40, labs=9)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"no study is asked for.*fit\.power\(models=\[40, 80\]\)"):
        line.power(labs=9)
    with pytest.raises(UsageError, match="whole numbers above 0"):
        line.power("many")
    share = thermostats.fit_share(
        draw_line(30, np.random.default_rng(4)), "y > 3", model="name", group=None
    )
    with pytest.raises(UsageError, match="not simulated by this law"):
        share.power(40, 9)


def test_a_sentence_says_how_often_studies_are_sure_of_the_opposite() -> None:
    rows = {"asked": "P(slope > 0) ≥ 0.95", "models": [20, 40], "labs": 1, "largest": [20, 40]}
    table = pd.DataFrame({**rows, "power": [0.0, 0.4], "against": [0.4, 0.005], "error": 0.03})
    assert planning.FitPower(table, "line").sentences == [
        "P(slope > 0) ≥ 0.95: 0% of studies of 20 models (40% are as sure of the opposite), "
        "40% of studies of 40 models; no study of these sizes reaches 80%",
        "next: fit.power(models=80)",
    ]
    (few,) = planning.FitPower(table, "line", chances={"P(slope > 0) ≥ 0.95": 0.62}).sentences
    assert few.endswith(
        "; no study of these sizes reaches 80%, nor would a larger one: in the fit itself P = 0.620"
    )
    hardly = planning.FitPower(table, "line", chances={"P(slope > 0) ≥ 0.95": 0.795}).sentences
    assert hardly[-1] == "next: fit.power(models=80)", ".795 + .05 × .205 is above .8"
    likely = {"P(slope > 0) ≥ 0.95": 0.97}
    labs = planning.FitPower(table.assign(labs=[4, 9]), "line", chances=likely).sentences
    assert labs[-1] == "next: fit.power(models=80, labs=18)"
    stopped = planning.FitPower(table, "line", "Stopped.", likely).sentences
    assert stopped[1:] == ["Stopped."]
    enough = {"models": [40, 40, 80], "labs": [9, 4, 4], "power": [0.85, 0.7, 0.81]}
    more = pd.DataFrame({"asked": "P(slope > 0) ≥ 0.95", **enough, "against": 0.0, "error": 0.03})
    (sentence,) = planning.FitPower(more, "line").sentences
    assert sentence.endswith("; 80% from 40 models of 9 labs on")


def test_power_comes_to_what_the_fit_gives_a_statement_and_goes_no_further() -> None:
    """Outcomes without a slope; the smallest seed whose fit finds P(slope > 0) of .6 to .75."""
    rng = np.random.default_rng(3)
    for seed in range(40):
        rows = draw_line(20, np.random.default_rng(seed)).assign(y=rng.normal(0, 1, 20))
        fit = thermostats.fit_line(rows, "y", "x", model="name", group=None)
        chance = fit.probability("slope on x > 0")
        if 0.6 < chance < 0.75:
            break
    else:
        raise AssertionError("no fit is that undecided")
    made = fit.power([100, 1000], studies=60)
    asked = "P(slope on x > 0) ≥ 0.95"
    assert made.chances[asked] == chance
    rows = made.table[made.table["asked"] == asked]
    first, last = rows["power"]
    assert first < last < chance + 3 * rows["error"].max()
    assert f"nor would a larger one: in the fit itself P = {chance:.3f}" in made.sentences[0]


def test_the_likelier_direction_is_asked_first() -> None:
    """Of a falling slope how often studies would find it falling, not how seldom rising."""
    rows = draw_line(60, np.random.default_rng(5)).assign(x=lambda table: -table["x"])
    falling = thermostats.fit_line(rows, "y", "x", model="name", group=None)
    made = falling.power(MODELS, studies=20)
    first = made.table.iloc[0]
    assert first["asked"] == "P(slope on x < 0) ≥ 0.95"
    assert first["power"] > 0.5 and first["against"] < 0.1
    assert made.table["asked"].tolist()[1] == "P(mean > 0) ≥ 0.95"
    rising = thermostats.fit_line(rows.assign(x=-rows["x"]), "y", "x", model="name", group=None)
    again = rising.power(MODELS, studies=20).table
    assert again["asked"].iloc[0] == "P(slope on x > 0) ≥ 0.95"
    error = np.hypot(first["error"], again["error"].iloc[0])
    assert again["power"].iloc[0] == pytest.approx(first["power"], abs=3 * error)


def test_orders_of_two_are_turned_and_orders_of_several_are_not() -> None:
    matches = {
        "heritage > geometry": True,
        "slope on a and b > 0": True,
        "heritage > geometry and scale": False,
        "heritage > geometry > scale": False,
    }
    assert {name: bool(planning.TWO_SIDES.fullmatch(name)) for name in matches} == matches
