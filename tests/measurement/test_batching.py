"""Batches: every prompt once, within the budget, at the least cost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thermostats.errors import UsageError
from thermostats.measurement.batching import (
    TokenisedPrompt,
    check_prompts,
    plan_batches,
    plan_packs,
)


def cost(lengths: list[int], parts: list[list[int]], overhead: int) -> int:
    return sum(len(part) * max(lengths[i] for i in part) + overhead for part in parts)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(1, 60), st.integers(0, 40))
@settings(deadline=None, max_examples=60)
def test_no_partition_of_the_sorted_prompts_within_the_budget_is_cheaper(
    lengths: list[int], budget: int, overhead: int
) -> None:
    split = plan_batches(lengths, budget=budget, overhead=overhead)
    assert sorted(i for part in split for i in part) == list(range(len(lengths)))
    assert all(
        len(part) == 1 or len(part) * max(lengths[i] for i in part) <= budget for part in split
    )
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    costs = []
    for cuts in range(2 ** (len(order) - 1)):
        edges = [0, *(i + 1 for i in range(len(order) - 1) if cuts >> i & 1), len(order)]
        parts = [order[a:b] for a, b in pairwise(edges)]
        if all(len(part) == 1 or len(part) * lengths[part[-1]] <= budget for part in parts):
            costs.append(cost(lengths, parts, overhead))
    assert cost(lengths, split, overhead) == min(costs)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 60))
@settings(deadline=None, max_examples=60)
def test_packs_hold_every_prompt_once_within_the_budget(lengths: list[int], budget: int) -> None:
    packed = plan_packs(lengths, budget=budget)
    assert sorted(i for pack in packed for i in pack) == list(range(len(lengths)))
    sizes = [sum(lengths[i] for i in pack) for pack in packed]
    assert all(len(pack) == 1 or size <= budget for pack, size in zip(packed, sizes, strict=True))


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([], "no prompt"),
        ([TokenisedPrompt("a", ())], r"empty.*prompt a"),
        (
            [TokenisedPrompt("a", (1,) * 9)],
            r"longer than the model's context \(prompt a\): got 9 tokens",
        ),
        ([TokenisedPrompt("a", (1, 50))], "outside the model's vocabulary"),
        ([TokenisedPrompt("a", (1,)), TokenisedPrompt("a", (2,))], "same prompt_id"),
    ],
)
def test_prompts_that_cannot_be_measured(prompts: list[TokenisedPrompt], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_prompts(prompts, vocabulary=50, context=8)
