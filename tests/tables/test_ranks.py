"""Keys as numbers: the order and the repetitions that pandas finds in the keys themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from thermostats.tables import validation as module
from thermostats.tables.validation import (
    locate_ranks,
    locate_values,
    mark_repeats,
    order_ranks,
    rank_rows,
)

RNG = np.random.default_rng(11)
TEXTS = ["", "a", "A", "ab", "é", "\U0001f600", "\uffff", "10", "9", " "]


def keys(n: int) -> pd.DataFrame:
    numbers = pd.array(RNG.integers(-3, 12, n), dtype="Int64")
    numbers[RNG.random(n) < 0.1] = pd.NA
    texts = pd.array(RNG.choice(TEXTS, n), dtype="str")
    return pd.DataFrame(
        {"run": texts, "layer": numbers, "prompt": pd.array(RNG.choice(TEXTS, n), dtype="str")}
    )


@pytest.mark.parametrize("largest", [2**62, 50])
def test_ranks_order_and_repeat_as_the_keys_do(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", largest)
    for n in (1, 2, 400):
        frame = keys(n)
        rank = rank_rows(frame[label] for label in frame)
        order = order_ranks(rank)
        ordered = frame if order is None else frame.take(order)
        expected = frame.sort_values(list(frame), kind="stable")
        pd.testing.assert_frame_equal(ordered, expected)
        for keep in ("first", "last", False):
            assert (mark_repeats(rank, keep=keep) == frame.duplicated(keep=keep)).all()
    assert order_ranks(rank_rows([expected["run"]])) is None


def test_places_are_those_of_equal_keys() -> None:
    frame = keys(300)
    rank = rank_rows(frame[label] for label in frame)
    among, first = np.unique(rank, return_index=True)
    shuffled = RNG.permutation(len(among))[: len(among) // 2]
    at = locate_ranks(rank, among[shuffled])
    there = at >= 0
    assert 0 < there.sum() < len(rank) and (among[shuffled][at[there]] == rank[there]).all()
    assert not np.isin(rank[~there], among[shuffled]).any()
    assert (locate_ranks(rank, among[:0]) == -1).all() and len(first) == len(among)


def test_rows_are_found_by_their_text() -> None:
    values, among = (
        pd.Series(["b", "x", "a", "b"], dtype="str"),
        pd.Series(["a", "b", "c"], dtype="str"),
    )
    assert locate_values(values, among).tolist() == [1, -1, 0, 1]
