"""Trees of descent: what they say of covariance, what is refused, Newick there and back, and the
tree that ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, UsageError
from thermostats.tables import store, tree_of_models
from thermostats.tables.store import check_lineage
from thermostats.tables.tree import Tree

ROWS = pd.DataFrame(
    {
        "model_id": ["m1", "m1-it", "m2", "m3", "m4"],
        "heritage": ["A", "A", "A", "B", "B"],
        "family": ["f", "f", "f", "g", "h"],
        "parent": ["", "m1", "", "", ""],
        "kind": ["scratch", "tuned", "scratch", "scratch", "scratch"],
        "year": [2022, 2023, 2023, 2023, 2024],
        "tokens": [300.0, 1.0, 600.0, np.nan, 300.0],
    }
)


def test_covariance_is_the_path_that_two_models_share() -> None:
    k = thermostats.tree(ROWS).covariance(["m1", "m1-it", "m2", "m3", "m4"]) * 4
    assert k.tolist() == [
        [3, 3, 2, 0, 0],
        [3, 4, 2, 0, 0],
        [2, 2, 3, 0, 0],
        [0, 0, 0, 3, 1],
        [0, 0, 0, 1, 3],
    ]


def test_a_merge_is_the_mean_of_its_parents() -> None:
    both = pd.DataFrame(
        {"model_id": ["m5", "m5"], "parent": ["m1", "m3"], "share": [0.25, 0.75], "kind": "merged"}
    )
    tree = thermostats.tree(pd.concat([ROWS, both], ignore_index=True))
    k = tree.covariance(["m1", "m3", "m5"])
    assert k[0, 2] / k[0, 0] == pytest.approx(0.25) and k[1, 2] / k[1, 1] == pytest.approx(0.75)
    assert k[2, 2] / k[0, 0] == pytest.approx((3 * (0.25**2 + 0.75**2) + 1) / 3)
    assert tree.clades(["m5"]) == ["A + B"] and tree.merges == ("m5",)
    assert tree.heights[tree.place("m5")] == pytest.approx(3 * (0.25**2 + 0.75**2) + 1)
    with pytest.raises(UsageError, match=r"one parent a node.*m5.*edges\(\)"):
        tree.newick()


def test_lengths_are_a_column_and_what_lacks_one_is_named() -> None:
    tree = thermostats.tree(ROWS, lengths="tokens")
    assert tree.lengths[tree.place("m2")] == 600 and tree.lengths[tree.place("m3")] == 300
    assert "tokens of 1 of 5 branches are not stated" in tree.notes[0]
    with pytest.raises(UsageError, match=r"no such branch lengths: got 'token'"):
        thermostats.tree(ROWS, lengths="token")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parent": ["m1-it", "m1", "", "", ""]}, "its own ancestor: got m1 ← m1-it ← m1"),
        ({"parent": ["m1", "m1", "", "", ""]}, "its own parent: got m1"),
        ({"parent": ["", "m9", "", "", ""]}, r"orphan.*m1-it.*parent m9.*add a row for m9"),
        (
            {"year": [2024, 2023, 2023, 2023, 2024]},
            "a child is older than its parent.*m1-it of 2023, its parent m1 of 2024",
        ),
        ({"tokens": [300.0, -1.0, 600.0, 1.0, 1.0]}, "no finite number of at least 0.*m1-it.*-1"),
        ({"tokens": [0.0] * 5}, "all branches have length 0"),
        (
            {"model_id": ["m1", "m1-it", "m2", "m3", "B"]},
            "a model is called as a lab or a family is: got B",
        ),
    ],
)
def test_what_is_no_descent_is_named(change: dict[str, list[object]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        thermostats.tree(ROWS.assign(**change), lengths="tokens")


def test_two_roots_shares_and_twice_the_same_parent_are_refused() -> None:
    edges = pd.DataFrame({"name": ["r", "s", "a"], "parent": ["", "", "r"], "length": 1.0})
    with pytest.raises(DataError, match="2 roots: got r, s"):
        Tree.build(edges)
    merged = pd.DataFrame(
        {"name": ["r", "a", "b", "c", "c"], "parent": ["", "r", "r", "a", "b"], "length": 1.0}
    )
    with pytest.raises(
        DataError, match=r"shares of parents do not add up to 1 \(c\): got a 0.5, b 0.6"
    ):
        Tree.build(merged.assign(share=[np.nan, 1, 1, 0.5, 0.6]))
    with pytest.raises(DataError, match="the same parent twice: got c"):
        Tree.build(merged.assign(parent=["", "r", "r", "a", "a"]))


@pytest.mark.parametrize(
    "text", ["(A:1.5,('b c''s':1,(D:0.25)E:1)in:2)root;", "A;", "((((a:1)b:1)c:1)d:1)e;"]
)
def test_newick_there_and_back(text: str) -> None:
    assert tree_of_models.read(text).newick() == text.replace("1,", "1.0,").replace(
        ":1)", ":1.0)"
    ).replace(":2)", ":2.0)")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("((A:1,B:1);", "brackets do not match"),
        ("(A:1,B:1));", "brackets do not match"),
        ("(A:1,B:1)", "ends with a semicolon"),
        ("(A:1,B:1);(C:1);", "more than one tree"),
        ("(A:1,A:1);", "a name twice in one tree: got A"),
        ("(A:x,B:1);", "a branch length is no number"),
        ("(A:1,B);", "a branch without a length: got B"),
        ("(A:1,B:-1);", "no finite number of at least 0"),
    ],
)
def test_newick_that_is_none(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        tree_of_models.read(text)


def test_a_tree_from_files_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "tree.nwk").write_text("(A:1,B:1)r;")
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    assert thermostats.tree(tmp_path / "tree.nwk").tips == ("A", "B")
    assert set(thermostats.tree(tmp_path / "rows.csv").tips) == {"m1-it", "m2", "m3", "m4"}
    with pytest.raises(UsageError, match=r"no such tree: got .*nowhere"):
        thermostats.tree(tmp_path / "nowhere.csv")
    with pytest.raises(UsageError, match="no column model_id"):
        thermostats.tree(ROWS.drop(columns="model_id"))


def test_parents_that_a_user_lacks_are_the_packages() -> None:
    own = pd.DataFrame(
        {"model_id": ["mine"], "parent": ["Qwen/Qwen2.5-Coder-0.5B"], "heritage": ["me"]}
    )
    tree = thermostats.tree(own)
    assert tree.ancestors("mine")[1:4] == ("Alibaba", "Alibaba: qwen2.5", "Qwen/Qwen2.5-0.5B")


def test_every_model_that_ships_has_its_descent_with_a_source() -> None:
    models, lineage = store.load("models"), store.load("lineage")
    assert set(models["model_id"]) <= set(lineage["model_id"])
    assert (lineage["source"] != "").all()
    tree = thermostats.tree()
    assert set(models["model_id"]) <= set(tree.names)
    distilled = "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"
    assert tree.clades([distilled, "google/gemma-7b-it"]) == ["Meta", "Google"]


@pytest.mark.parametrize(
    ("label", "value", "words"),
    [
        ("parent", "google/gemma-2b", "two tables name another parent.*gemma-7b-it"),
        (
            "parent",
            "google/gemma-9",
            "names a parent that neither it nor table models has.*google/gemma-9",
        ),
        ("heritage", "Googol", "two tables name another heritage.*Googol, Google"),
    ],
)
def test_tables_that_contradict_each_other_are_refused(label: str, value: str, words: str) -> None:
    models, lineage = store.load("models"), store.load("lineage")
    own = lineage["model_id"] == "google/gemma-7b-it"
    with pytest.raises(DataError, match=words):
        check_lineage(models, lineage.assign(**{label: lineage[label].mask(own, value)}))


def test_branches_of_length_0_are_kept_and_named() -> None:
    tree = thermostats.tree("((A:1,B:0)x:1,C:2)r;")
    assert tree.notes == (
        "branches of length 0, so these cannot differ from their parents by descent: B",
    )
    assert tree.covariance(["A", "B"]).tolist() == [[1, 0.5], [0.5, 0.5]]


def test_newick_as_others_write_it() -> None:
    tree = tree_of_models.read(
        "[&R]\n( Homo sapiens : 1e0 ,\n (B,C) :1 );".replace("(B,C)", "(B:1,C:1)")
    )
    assert tree.tips == ("Homo sapiens", "B", "C") and tree.names[0] == "node 1"
    assert tree_of_models.read("((A,B),C);").unit == "equal"
