"""The page of what can be changed: its numbers are those of the rows, and without rows it says
so."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import INTERVENED
from thermostats.formatting import format_number
from thermostats.modelling.price_curves import list_crossings
from thermostats.reporting.pages import PAGES, interventions

MOST_WORDS = 1200
"""Of a page, its caption read once."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return shipped_tables().named(INTERVENED).table("interventions")


@pytest.fixture(scope="module")
def page() -> dict[str, bytes]:
    return interventions.build_files(shipped_tables())


def test_every_price_is_counted_once_on_one_scale(
    page: dict[str, bytes], rows: pd.DataFrame
) -> None:
    scale = pd.read_csv(io.BytesIO(page["scale.csv"])).set_index("change")
    tuned = scale[scale.index.str.startswith("ordinary tuning")]
    assert tuned["rows"].sum() == (rows["operation"] == "tune").sum()
    floors = rows.loc[rows["operation"] == "floor", "kl"]
    assert scale.loc["the same steps without a target", "median"] == pytest.approx(floors.median())
    curve = scale[scale.index.str.startswith("steered by")]
    models = rows.loc[rows["operation"] == "steer", "model_id"].nunique()
    assert curve["rows"].tolist() == [2 * models] * 3
    assert curve["median"].is_monotonic_increasing
    exact = scale[scale.index.str.startswith("exact")]
    assert exact[["cheapest", "median", "dearest"]].eq(0).all(axis=None)


def test_crossings_stand_with_their_mirrors_and_the_text_has_their_medians(
    page: dict[str, bytes], rows: pd.DataFrame
) -> None:
    text = page["interventions.md"].decode()
    crossings = list_crossings(rows)
    own = crossings[crossings["gain"] == interventions.GAIN]
    assert f"costs {format_number(own['kl'].median())} nats a token" in text
    assert f"the two is {format_number(own['ratio'].median())} for" in text
    listed = pd.read_csv(io.BytesIO(page["crossings.csv"]))
    counted = crossings.groupby(["gain", "direction"])["model_id"].nunique()
    assert sorted(listed["models"]) == sorted(counted)


def test_the_page_says_what_it_does_and_does_not_say_and_is_short(page: dict[str, bytes]) -> None:
    text = page["interventions.md"].decode()
    for sentence in (
        "Tuning that aims at it moves this gain of these small models across 1, at this price.",
        "Whether RLHF or instruction tuning does so unasked is another question: only a count",
        "No model of the study was steered.",
    ):
        assert sentence in text
    read = re.sub(r"!\[.*?\]\(.*?\)|\||---:?", "", text)
    assert len(read.split()) <= MOST_WORDS
    assert PAGES["interventions"].title in text
    assert PAGES["interventions"].in_navigation


def test_exact_changes_move_the_gain_and_no_entropy() -> None:
    exact = interventions.list_exact_changes()
    assert len(exact)
    assert (np.log(exact["gain_after"] / exact["gain_before"]).abs() > 0.01).all()


def test_how_far_others_move_is_a_slope_through_nothing_moved() -> None:
    states = [
        '{"penultimate_gain": 1, "last_gain": 1, "total_amplification": 1}',
        '{"penultimate_gain": 2, "last_gain": 0.5, "total_amplification": 4}',
    ]
    rows = pd.DataFrame(
        {
            "operation": ["steer", "steer"],
            "gain": interventions.GAIN,
            "gains_before": [states[0], states[1]],
            "gains_after": [states[1], states[0]],
        }
    )
    shares = {row["words"]: row["share"] for row in interventions.measure_besides(rows)}
    assert shares == {"last gain": pytest.approx(-1), "total gain": pytest.approx(2)}


def test_a_share_is_not_estimated_of_few_families() -> None:
    stiffness = pd.DataFrame({"model_id": ["a", "b"], "stiffness": [0.1, 0.2]})
    models = pd.DataFrame({"model_id": ["a", "b"], "family": ["f", "f"]})
    assert interventions.describe_inherited(stiffness, models) == ""


class NoRows:
    """Tables without any intervention on the gain."""

    def named(self, name: str) -> NoRows:
        return self

    def table(self, name: str) -> pd.DataFrame:
        rows: pd.DataFrame = shipped_tables().named(INTERVENED).table(name)
        return rows[rows["operation"] == "tune"]


def test_without_steered_rows_the_page_says_so_and_how_to_make_them() -> None:
    page = interventions.build_files(NoRows())
    assert list(page) == ["interventions.md"]
    text = page["interventions.md"].decode()
    assert "no model whose penultimate gain was steered" in text
    assert "thermostats steer MODEL" in text
