"""The verb `power`: shares as text, limits of rates, output for people and machines."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from thermostats.cli.app import app
from thermostats.errors import UsageError
from thermostats.modelling.heritage import study
from thermostats.modelling.heritage.power import Power

ORDER = "heritage > geometry > scale"


def test_limits_are_those_of_clopper_and_pearson() -> None:
    """0 of 100: upper limit 1 − 0.025^(1/100); 50 of 100: 39.83 and 60.17%."""
    rates = {"heritage > geometry": 0.5, ORDER: 0.0}
    power = Power(
        n_models=24,
        n_labs=8,
        shares={"heritage": 0.6, "geometry": 0.15, "scale": 0.05},
        geometry="met",
        seed=1,
        simulations=100,
        threshold=0.95,
        rates=rates,
        errors=dict.fromkeys(rates, 0.01),
    )
    half, none = power.rows()
    assert (half["lower"], half["upper"]) == pytest.approx((39.83, 60.17), abs=0.01)
    assert (none["lower"], none["upper"]) == pytest.approx((0, 100 * (1 - 0.025**0.01)))
    assert "24 models in 8 labs" in power.sentence()
    assert "heritage above geometry in 50% of cases and the whole order in 0%" in power.sentence()


def test_verb() -> None:
    arguments = ["power", "--models", "8", "--labs", "3", "--shares", "0.9,0.05,0", "--simulations", "20"]
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["shares"] == {"heritage": 0.9, "geometry": 0.05, "scale": 0}
    assert [row["statement"] for row in found["rates"]] == ["heritage > geometry", "geometry > scale", ORDER]
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 0
    assert table.stdout.splitlines()[0].split("\t")[:3] == ["statement", "P above", "percent"]
    assert "8 models in 3 labs" in table.stderr


@pytest.mark.parametrize("text", ["0.6,0.15", "0.6,0.3,0.2", "a,b,c", "0.5,-0.1,0.1", "nan,0.1,0.1"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="not shares of one whole"):
        study.parsed(text)
