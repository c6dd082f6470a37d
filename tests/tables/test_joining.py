"""Trees from distances: the example of Saitou and Nei, another by R's `ape::nj`, roots, and what is
refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats.errors import UsageError
from thermostats.tables.tree import Tree
from thermostats.tables.tree_of_models import compare_groups

PUBLISHED = (
    (7,),
    (8, 5),
    (11, 8, 5),
    (13, 10, 7, 8),
    (16, 13, 10, 11, 5),
    (13, 10, 7, 8, 6, 9),
    (17, 14, 11, 12, 10, 13, 8),
)
"""Saitou and Nei 1987, eight units whose distances add along the tree below."""
THEIRS = "(t8:6,t7:2,((((t1:5,t2:2):2,t3:1):1,t4:3):2,(t5:1,t6:4):2):1)root;"
NINE = (
    (2.235,), (2.026, 1.791), (3.612, 3.155, 2.799), (2.644, 3.784, 3.021, 2.603), (3.666, 2.929, 3.0, 4.184, 4.12),  # noqa: E501
    (1.832, 1.642, 1.501, 1.892, 2.243, 3.175), (1.651, 1.968, 2.611, 3.048, 2.577, 3.253, 1.507),
    (2.253, 1.021, 2.037, 2.741, 3.192, 2.447, 1.311, 1.372),
)  # fmt: skip
"""Distances of nine random points in four dimensions, which add along no tree."""
BY_APE = (
    "(t3:0.93109375,((t2:0.6478333333,t9:0.3731666667):0.180875,t6:1.996625):0.18190625,(((t4:1.290785714,"
    "t5:1.312214286):0.4104166667,t7:0.3555833333):0.17221875,(t1:0.92975,t8:0.72125):0.28840625):0.17096875)root;"
)
"""R's ape 5.7, `nj`."""


def matrix(lower: tuple[tuple[float, ...], ...]) -> pd.DataFrame:
    d = np.zeros((len(lower) + 1,) * 2)
    for i, row in enumerate(lower, 1):
        d[i, :i] = d[:i, i] = row
    names = [f"t{i + 1}" for i in range(len(d))]
    return pd.DataFrame(d, index=names, columns=names)


def apart(tree: Tree) -> pd.DataFrame:
    """Lengths of the paths between tips, which say what an unrooted tree is."""
    tips = sorted(tree.tips)
    k = tree.roots()[[tree.place(name) for name in tips]]
    k = k @ k.T
    return pd.DataFrame(k.diagonal()[:, None] + k.diagonal() - 2 * k, index=tips, columns=tips)


@pytest.mark.parametrize(
    ("lower", "theirs"), [(PUBLISHED, THEIRS), (NINE, BY_APE)], ids=["published", "ape"]
)
def test_as_published_and_as_ape_joins(lower: tuple[tuple[float, ...], ...], theirs: str) -> None:
    d, by_hand = matrix(lower), thermostats.tree(theirs)
    tree = thermostats.neighbour_joining(d)
    pd.testing.assert_frame_equal(apart(tree), apart(by_hand), atol=1e-8)
    assert compare_groups(by_hand, tree, list(d))["recovered"].tolist() == [True] * (len(d) - 3)
    assert tree.unit == "distance" and len(tree) == 2 * len(d) - 1


def test_the_root_lies_amid_the_longest_path_or_at_a_model() -> None:
    d = matrix(PUBLISHED)
    tree = thermostats.neighbour_joining(d)
    heights = dict(zip(tree.names, tree.heights, strict=True))
    assert heights["t1"] == heights["t8"] == 17 / 2 == max(heights.values())
    base = thermostats.neighbour_joining(d, root="t3")
    heights = dict(zip(base.names, base.heights, strict=True))
    assert base.names[0] == "t3" and {name: heights[name] for name in d} == pytest.approx(
        d["t3"].to_dict()
    )


def test_groups_of_a_declared_tree_that_are_missed() -> None:
    declared = thermostats.tree("((a:1,b:1)ab:1,(c:1,d:1)cd:1,e:1)root;")
    other = thermostats.tree("((a:1,b:1)ab:1,(c:1,e:1)ce:1,d:1)root;")
    table = compare_groups(declared, other, "abcde").set_index("models")["recovered"]
    assert table.to_dict() == {"c, d, e": True, "c, d": False}
    with_base = thermostats.tree("((b:1,c:1)a:1,(e:1,f:1)d:1)root;")
    assert compare_groups(
        with_base, thermostats.tree("((a:0,b:1,c:1)x:1,(d:0,e:1,f:1)y:1)root;"), "abcdef"
    )["recovered"].all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.iloc[:2, :2], "too few models for a tree: got 2"),
        (lambda d: d.rename(index={"t1": "t9"}), "rows and columns of distances differ"),
        (lambda d: d + np.eye(8), "these are no distances"),
        (lambda d: d.assign(t2=d["t2"] + 1), "these are no distances"),
        (lambda d: d.where(d != 17), "these are no distances"),
        (lambda d: d * 0, "none of which differs"),
    ],
)
def test_what_is_no_distance_is_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        thermostats.neighbour_joining(change(matrix(PUBLISHED)))


def test_a_root_is_one_of_the_models() -> None:
    with pytest.raises(UsageError, match="no such root: got t9"):
        thermostats.neighbour_joining(matrix(PUBLISHED), root="t9")


def test_what_adds_along_a_random_tree_gives_it_back() -> None:
    rng, names = np.random.default_rng(3), ["root"]
    edges = [("root", "", 0.0)]
    for i in range(38):
        parent = names[i // 2]
        edges.append((f"n{i}", parent, float(rng.uniform(0.1, 2.0))))
        names.append(f"n{i}")
    tree = Tree.build(pd.DataFrame(edges, columns=["name", "parent", "length"]))
    found = thermostats.neighbour_joining(
        apart(tree).sample(frac=1, random_state=1).pipe(lambda d: d[d.index])
    )
    pd.testing.assert_frame_equal(apart(found), apart(tree), atol=1e-9)


def test_negative_branches_become_nothing_and_their_neighbours_shorter() -> None:
    tree = thermostats.neighbour_joining(matrix(((1,), (4, 1), (4, 4, 4))))
    assert (tree.lengths >= 0).all()
