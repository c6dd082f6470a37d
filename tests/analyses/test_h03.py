"""H03: branches whose ends lie clearly on opposite sides are counted; the nearest measured ancestor
is the parent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, analysis


@pytest.mark.parametrize(("n", "changed", "verdict"), [(60, 3, YES), (60, 30, NO), (10, 1, OPEN)])
def test_the_rule_on_many_branches(n: int, changed: int, verdict: str) -> None:
    h03 = analysis("h03")
    rows = pd.DataFrame(
        {
            "model_id": [f"m{i}" for i in range(n)],
            "heritage": "lab",
            "changes": np.arange(n) < changed,
        }
    )
    assert h03.KEEPS.verdict(h03.CHANGED(rows)) == verdict


def test_a_branch_changes_the_side_only_where_both_intervals_exclude_1() -> None:
    h03 = analysis("h03")
    own = {"heritage": "lab", "family": "f", "source": "s", "n_prompts": 9, "gain": 1.0}
    ends = {
        name: own | {"lower": low, "upper": high}
        for name, (low, high) in {
            "below": (0.8, 0.9),
            "near": (0.9, 1.1),
            "above": (1.1, 1.2),
        }.items()
    }
    changes = {(a, b): h03.build_row(a, b, "tuned", ends)[-1] for a in ends for b in ends}
    assert {pair for pair, changed in changes.items() if changed} == {
        ("below", "above"),
        ("above", "below"),
    }


def test_the_parent_is_the_nearest_ancestor_that_was_measured() -> None:
    h03 = analysis("h03")
    parents = {"chat": "base", "base": "older", "older": ""}
    assert h03.find_ancestor("chat", parents, {"chat", "older"}) == "older"
    assert h03.find_ancestor("chat", parents, {"chat"}) == ""
