"""Gains with their intervals, stated figures and copied gains, from a made-up store and from the
shipped tables."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import shipped_tables
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.errors import DataError
from thermostats.studies.delia2026.published_gains import load_gains
from thermostats.studies.delia2026.stated_facts import (
    H4_EXTENDED,
    H4_V2,
    load_known_gains,
    load_stated,
)


@pytest.fixture(scope="module")
def tables() -> Evidence:
    return shipped_tables()


def test_one_row_a_model_from_the_file_with_more_prompts(tables: Evidence) -> None:
    rows = load_gains(tables).set_index("model_id")
    assert rows.index.is_unique and len(rows) == 23
    assert rows["n_prompts"]["EleutherAI/pythia-6.9b"] == 25
    assert rows["n_prompts"]["tiiuae/falcon-7b"] == 5


def test_interval_over_prompts_is_the_t_interval(tables: Evidence) -> None:
    """From the 25 gains themselves by scipy, and for five prompts from the published deviation with
    divisor n."""
    layers = tables.table("layers", model_id="EleutherAI/pythia-70m", layer=[5], position="last")
    values = layers.loc[
        (layers["prompt_id"] != "") & layers["source"].str.startswith("pythia_family"), "gain_block"
    ]
    by_scipy = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    row = load_gains(tables).set_index("model_id").loc["EleutherAI/pythia-70m"]
    assert [row["lower"], row["upper"]] == pytest.approx([by_scipy.low, by_scipy.high])
    falcon = load_gains(tables).set_index("model_id").loc["tiiuae/falcon-7b"]
    half = stats.t.ppf(0.975, 4) * falcon["penultimate_gain_sd"] * np.sqrt(5 / 4) / np.sqrt(5)
    assert falcon["upper"] - falcon["gain"] == pytest.approx(half)


def test_products_are_products_of_the_layers(tables: Evidence) -> None:
    layers = tables.table(
        "layers", model_id="tiiuae/falcon-7b", position="last", prompt_id=""
    ).sort_values("layer")
    row = load_gains(tables).set_index("model_id").loc["tiiuae/falcon-7b"]
    assert row["total_from_input"] == pytest.approx(layers["gain_block"].prod())
    assert row["total_to_penultimate"] == pytest.approx(layers["gain_block"].iloc[1:].prod())


def test_stated_figures_by_name(tables: Evidence) -> None:
    assert load_stated(tables, {"r": "abstract (1) r", "later r": "Kleiber r"}) == {
        "r": -0.81,
        "later r": -0.878,
    }
    with pytest.raises(DataError, match="section 99"):
        load_stated(tables, {"nothing": "section 99"})


def test_a_gain_with_unknown_behaviour_is_left_out(tables: Evidence) -> None:
    copied = load_known_gains(tables, H4_V2, H4_EXTENDED)
    assert "google/gemma-2b" not in set(copied["model_id"])
    assert copied.set_index("model_id").loc["openai-community/gpt2"].tolist() == [1.05, "EXPAND"]
