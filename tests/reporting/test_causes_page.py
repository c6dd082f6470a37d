"""The declared graph and its page: every cause leads to the gain, sets by the criterion, numbers of
the rows."""

from __future__ import annotations

import io
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import shipped_tables

from thermostats.claims.evidence import POOLED
from thermostats.claims.shared import (
    GAIN,
    compare_causes,
    find_lab_rivals,
    measure_separation,
    read_causes,
    read_inherited,
)
from thermostats.reporting.pages import PAGES, causes
from thermostats.tables.model_rows import model_rows


@pytest.fixture(scope="module")
def page() -> dict[str, bytes]:
    return causes.build_files(shipped_tables())


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    pooled = shipped_tables().named(POOLED)
    table = model_rows(pooled, "penultimate_gain")
    return table.join(read_inherited(pooled, table["model_id"]))


def test_every_declared_cause_leads_to_the_gain_and_has_a_place_and_columns(
    rows: pd.DataFrame,
) -> None:
    known = read_causes()
    assert set(known.graph.causes) == set(known.nodes) and known.graph.find_effects(GAIN) == set()
    assert known.graph.find_ancestors([GAIN]) == set(known.nodes)
    for name, node in known.nodes.items():
        assert len(node["place"]) == 2 and set(node["columns"]) <= set(rows), name
    asked = (
        "lab year tokenizer parallel norm_kind norm_place position embedding corpus quantisation "
        "prompts"
    )
    assert set(asked.split()) <= set(known.nodes)


def test_sets_of_the_page_satisfy_the_criterion_and_smaller_ones_do_not(
    page: dict[str, bytes],
) -> None:
    known = read_causes()
    names = {node["words"]: name for name, node in known.nodes.items()}
    table = pd.read_csv(io.BytesIO(page["adjustments.csv"]))
    assert len(table) == len(known.nodes) - 1
    for cause, fixed in zip(table["cause of the gain"], table["hold fixed"], strict=True):
        x = names[cause]
        z = (
            []
            if fixed == "nothing"
            else [names[word] for word in fixed.split("; or ")[0].split(", ")]
        )
        cut = type(known.graph)({name: own - {x} for name, own in known.graph.causes.items()})
        assert cut.is_separated(x, GAIN, z) and not set(z) & known.graph.find_effects(x)
        assert not any(cut.is_separated(x, GAIN, [one for one in z if one != out]) for out in z)


def test_numbers_of_the_page_are_those_of_the_rows(
    page: dict[str, bytes], rows: pd.DataFrame
) -> None:
    table = pd.read_csv(io.BytesIO(page["separation.csv"])).set_index("cause of the gain")
    varied = rows.groupby("heritage")["parallel_block"].nunique() > 1
    assert table.loc["parallel block", "labs where it varies"] == varied.sum()
    own = rows["parallel_block"].astype(float)
    own, lab = own - own.mean(), pd.get_dummies(rows["heritage"]).to_numpy(float)
    x = np.column_stack([lab, rows["year"].astype(float), np.log(rows["n_params"].astype(float))])
    residual = own - x @ np.linalg.lstsq(x, own, rcond=None)[0]
    free = len(rows) - np.linalg.matrix_rank(x)
    expected = (residual @ residual / free) / (own @ own / (len(rows) - 1))
    assert table.loc["parallel block", "left"] == pytest.approx(expected)
    assert PAGES["causes"].in_navigation and "<svg" in page["causes.svg"].decode()


def test_what_goes_together_is_counted_pair_by_pair(
    page: dict[str, bytes], rows: pd.DataFrame
) -> None:
    table = pd.read_csv(io.BytesIO(page["pairs.csv"])).set_index(
        ["what models share", "what else they share"]
    )
    both = alone = 0
    for i, j in combinations(range(len(rows)), 2):
        same_corpus = bool(rows["corpus"][i]) and rows["corpus"][i] == rows["corpus"][j]
        both += same_corpus and rows["heritage"][i] == rows["heritage"][j]
        alone += same_corpus and rows["heritage"][i] != rows["heritage"][j]
    pair = table.loc["lab", "corpus"]
    assert both > 0 and (
        pair["pairs that share both"],
        pair["pairs that share the second alone"],
    ) == (both, alone)
    words = page["causes.md"].decode()
    assert (f"All {both} pairs with the same corpus have the same lab too" in words) == (alone == 0)


def test_two_tokenizers_of_one_lab_tell_the_two_apart(rows: pd.DataFrame) -> None:
    four = rows.head(4).assign(
        heritage=["a", "a", "b", "b"], tokenizer=["x", "y", "x", ""], corpus="", family=None
    )
    pairs = compare_causes(four).set_index(["fact", "other"])
    assert pairs.loc[("lab", "tokenizer")].tolist() == [0, 2, 1, 0.0]
    assert pairs.loc[("lab", "corpus"), "other_alone"] == 0 and np.isnan(
        pairs.loc[("family", "corpus"), "jaccard"]
    )


def test_what_a_tuned_model_has_is_that_of_the_nearest_ancestor_that_states_it(
    rows: pd.DataFrame,
) -> None:
    lines = [("child", "middle", ""), ("middle", "base", "code"), ("base", "", "web")]
    table = pd.DataFrame(lines, columns=["model_id", "parent", "corpus"]).assign(tokenizer="")
    stated = read_inherited(SimpleNamespace(table=lambda name: table), ["child", "base", "unknown"])
    assert stated["corpus"].tolist() == ["code", "web", ""]
    assert rows.set_index("model_id").loc["Qwen/Qwen3-8B", "corpus"] == "qwen3"


def test_what_a_lab_alone_has_is_named_as_its_rival(rows: pd.DataFrame) -> None:
    two = rows[rows["heritage"].isin(["EleutherAI", "Meta"])].reset_index(drop=True)
    two["position_scheme"] = two["heritage"].map({"EleutherAI": "rotary", "Meta": "learned"})
    named = {row["cause"]: row for row in find_lab_rivals(two)}
    assert named["position scheme"]["left"] == 0 and named["position scheme"]["labs"] == 0
    free = two.assign(
        position_scheme=np.random.default_rng(1).choice(["rotary", "learned"], len(two))
    )
    assert "position scheme" not in {row["cause"] for row in find_lab_rivals(free)}
    assert (
        measure_separation(read_causes(), two)
        .set_index("cause of the gain")
        .loc["position scheme", "left"]
        == 0
    )
