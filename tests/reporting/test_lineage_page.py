"""The page of the tree: every model with a gain is drawn and listed once, counts are those of the
tables."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import POOLED
from thermostats.claims.shared import build_tree
from thermostats.modelling.tree_likelihood import Restricted
from thermostats.reporting.pages import PAGES, lineage
from thermostats.tables.model_rows import model_rows


@pytest.fixture(scope="module")
def page() -> dict[str, bytes]:
    return lineage.build_files(shipped_tables())


def test_every_model_with_a_gain_is_listed_with_what_is_stated_of_it(
    page: dict[str, bytes],
) -> None:
    gains = model_rows(shipped_tables().named(POOLED), incomparable=True).set_index("model_id")[
        "gain"
    ]
    listed = pd.read_csv(io.BytesIO(page["lineage.csv"])).set_index("model_id")
    assert set(listed.index) == set(gains.index)
    assert listed["gain"].to_dict() == pytest.approx(gains.to_dict())
    stated = shipped_tables().table("lineage").set_index("model_id")
    assert (
        listed.loc["Qwen/Qwen3-8B", "parent"]
        == stated.loc["Qwen/Qwen3-8B", "parent"]
        == "Qwen/Qwen3-8B-Base"
    )


def test_what_is_stated_is_counted_and_the_navigation_leads_to_the_page(
    page: dict[str, bytes],
) -> None:
    listed = pd.read_csv(io.BytesIO(page["lineage.csv"])).drop_duplicates("model_id")
    known = pd.read_csv(io.BytesIO(page["stated.csv"])).set_index("fact")
    for fact in ("tokens", "tokenizer", "corpus"):
        assert known.loc[fact].tolist() == [
            listed[fact].notna().sum(),
            len(listed),
            listed[fact].nunique(),
        ]
    assert (
        known.loc["parent", "stated"]
        == ((listed["kind"] == "scratch") | listed["parent"].notna()).sum()
    )
    assert (
        "no child older than its parent" in page["lineage.md"].decode()
        and PAGES["lineage"].in_navigation
    )


def test_the_page_says_what_its_tree_can_tell(page: dict[str, bytes]) -> None:
    """The power of the sentence is that of simulations of the likelihood ratio on the same tree."""
    gains = model_rows(shipped_tables().named(POOLED), incomparable=True)
    k = build_tree(shipped_tables().named(POOLED), gains).covariance(list(gains["model_id"]))
    test = Restricted.build(np.zeros(len(k)), np.ones((len(k), 1)), k)
    said = re.search(
        r"a share of descent of 0.6 is separated from none in (\d+)% of simulated",
        page["lineage.md"].decode(),
    )
    assert said and float(said.group(1)) / 100 == pytest.approx(
        test.power(0.6, 7, size=4_000), abs=0.08
    )
