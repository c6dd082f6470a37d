"""C08: what separates expanders from dampeners, in one file and in two, and the figures it
shows."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, by_rules_alone

c08 = by_rules_alone("c08")


@pytest.mark.parametrize(
    ("files", "expands", "verdict"),
    [
        (1, [True] * 4 + [False] * 4, YES),
        (2, ([True] * 2 + [False] * 2) * 2, OPEN),
        (2, ([True] * 3 + [False] * 3) * 2, YES),
        (2, ([False] * 3 + [True] * 3) * 2, YES),
        (2, [True] * 3 + [False] * 6 + [True] * 3, OPEN),
        (1, [True, False, False, True] * 2, NO),
        (1, [True, True, False, True] * 2, NO),
    ],
    ids=[
        "one file",
        "too few",
        "two files",
        "the other way",
        "opposite ways",
        "dampeners between",
        "expanders around",
    ],
)
def test_one_cut_must_separate_the_kinds_the_same_way_in_every_file(
    files: int, expands: list[bool], verdict: str
) -> None:
    n = len(expands)
    source = np.repeat(list(c08.FILES)[:files], n // files)
    rows = pd.DataFrame(
        {
            "source": source,
            "multi_head": np.linspace(n, 1.0, n),
            "expands": expands,
            "heritage": "lab",
        }
    )
    result = c08.judge_separation(rows, "expands", "multi_head", "made up")
    assert c08.SEPARATES.verdict(result) == verdict and result.n_models == n
