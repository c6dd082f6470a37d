"""Declared causes: Pearl's examples with their known answers, and random graphs against
networkx."""

from __future__ import annotations

import numpy as np
import pytest

from thermostats.errors import DataError, UsageError
from thermostats.modelling.causal_graph import CausalGraph

PEARL = CausalGraph.build(
    [
        ("1", "3"),
        ("1", "4"),
        ("2", "4"),
        ("2", "5"),
        ("3", "x"),
        ("4", "x"),
        ("4", "y"),
        ("5", "y"),
        ("x", "6"),
        ("6", "y"),
    ]
)
"""Pearl 2009, figure 3.4."""


def test_a_chain_a_fork_and_a_collider() -> None:
    chain, fork = (
        CausalGraph.build([("x", "z"), ("z", "y")]),
        CausalGraph.build([("z", "x"), ("z", "y")]),
    )
    collider = CausalGraph.build([("x", "z"), ("y", "z"), ("z", "below")])
    assert not chain.is_separated("x", "y") and chain.is_separated("x", "y", ["z"])
    assert not fork.is_separated("x", "y") and fork.is_separated("x", "y", ["z"])
    assert collider.is_separated("x", "y")
    assert not collider.is_separated("x", "y", ["z"]) and not collider.is_separated(
        "x", "y", ["below"]
    )


def test_pearls_back_door_sets() -> None:
    """{X3, X4} and {X4, X5} satisfy the criterion, {X4} alone does not (his example after
    definition 3.3.1)."""
    cut = CausalGraph({name: own - {"x"} for name, own in PEARL.causes.items()})
    assert cut.is_separated("x", "y", ["3", "4"]) and cut.is_separated("x", "y", ["4", "5"])
    assert not cut.is_separated("x", "y", ["4"])
    sets = PEARL.find_back_door("x", "y")
    assert {frozenset({"3", "4"}), frozenset({"4", "5"})} < set(sets) and {
        len(z) for z in sets
    } == {2}
    assert PEARL.find_back_door("x", "y", measured=["4", "5"]) == [frozenset({"4", "5"})]


def test_random_graphs_against_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    rng, answers = np.random.default_rng(0), []
    for _ in range(60):
        n = int(rng.integers(4, 9))
        arrows = [
            (str(i), str(j)) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35
        ]
        graph, theirs = CausalGraph.build(arrows), networkx.DiGraph(arrows)
        if len(names := list(graph.causes)) < 4:
            continue
        x, y, *rest = rng.permutation(names)
        given = set(rest[: int(rng.integers(0, 3))])
        answers.append(graph.is_separated(x, y, given))
        assert answers[-1] == networkx.is_d_separator(theirs, {x}, {y}, given)
    assert 10 < sum(answers) < len(answers) - 10


def test_what_is_no_graph_of_causes_is_refused() -> None:
    with pytest.raises(DataError, match="a cause is its own effect: got a, b"):
        CausalGraph.build([("a", "b"), ("b", "a")])
    with pytest.raises(UsageError, match="no such node: got 'z'"):
        PEARL.is_separated("x", "z")


M = CausalGraph.build([("a", "x"), ("a", "m"), ("b", "m"), ("b", "y"), ("x", "y")])


def test_what_is_held_fixed_needlessly_opens_a_path() -> None:
    assert M.find_back_door("x", "y") == [frozenset()]
    cut = CausalGraph({name: own - {"x"} for name, own in M.causes.items()})
    assert (
        cut.is_separated("x", "y")
        and not cut.is_separated("x", "y", ["m"])
        and cut.is_separated("x", "y", ["m", "a"])
    )


def test_an_unmeasured_common_cause_cannot_be_held_fixed_and_an_effect_must_not_be() -> None:
    graph = CausalGraph.build([("u", "x"), ("u", "y"), ("x", "between"), ("between", "y")])
    assert graph.find_back_door("x", "y", measured=["between"]) == []
    assert graph.find_back_door("x", "y") == [frozenset({"u"})]
    assert graph.find_effects("x") == {"between", "y"} and graph.find_ancestors(["between"]) == {
        "between",
        "x",
        "u",
    }
