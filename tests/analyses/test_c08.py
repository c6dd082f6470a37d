"""C08: what separates expanders from dampeners, in one file and in two, and the figures it shows."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, is_drawn, judged, shipped

from thermostats.formatting import comparison

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
    ids=["one file", "too few", "two files", "the other way", "opposite ways", "dampeners between", "expanders around"],
)
def test_one_cut_must_separate_the_kinds_the_same_way_in_every_file(
    files: int, expands: list[bool], verdict: str
) -> None:
    n = len(expands)
    source = np.repeat(list(c08.FILES)[:files], n // files)
    rows = pd.DataFrame({"source": source, "multi_head": np.linspace(n, 1.0, n), "expands": expands, "heritage": "lab"})
    result = c08.separated(rows, "expands", "multi_head", "made up")
    assert c08.SEPARATES.verdict(result) == verdict and result.n_models == n


def test_the_shipped_traces_do_not_separate() -> None:
    found = judged(c08, shipped())
    assert [finding.verdict for finding in found.values()] == [OPEN, NO, OPEN]
    assert [finding.reason for finding in found.values()] == ["hangs on one unit", "", "hangs on one unit"]
    first = found["trace.as_labelled"]
    rows = comparison(first.audit.published, first.audit.reproduced)
    assert len(rows) == 14 and all(row.agrees for row in rows)
    assert "3 of 3 pairs among the 4 larger models" in first.plain and "no cut can separate them" in first.plain
    assert any("labels alike" in note for note in first.notes) and not found["trace.by_gain"].notes
    assert is_drawn(first)


def test_an_expander_above_all_dampeners_in_every_file_would_decide_nothing_with_so_few_models() -> None:
    def lifted(attention: pd.DataFrame) -> pd.DataFrame:
        attention.loc[attention["model_id"] == "facebook/opt-125m", "trace"] *= 1000
        return attention

    found = judged(c08, altered(attention=lifted), "trace.as_labelled")["trace.as_labelled"]
    assert found.verdict == OPEN and found.estimate == 1 and "no data of these numbers" in found.plain
