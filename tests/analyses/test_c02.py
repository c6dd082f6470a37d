"""C02: one model above a bound is enough against it; none above among few models decides nothing."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, judged, untested_by_draws

from thermostats.words import comparison


def test_every_bound_is_broken() -> None:
    found = judged(untested_by_draws("c02"), altered())
    assert len(found) == 5 and {one.verdict for one in found.values()} == {NO}
    first = found["bound.max_gain"]
    (row,) = comparison(first.published, first.reproduced)
    assert (row.name, row.agrees) == ("total gain ≤", False)


@pytest.mark.parametrize(
    ("n", "factor", "one_above", "verdict"),
    [(16, 0.98, False, YES), (16, 1.02, False, NO), (16, 0.98, True, NO), (8, 0.98, False, OPEN)],
)
def test_bound_verdict(monkeypatch: pytest.MonkeyPatch, n: int, factor: float, one_above: bool, verdict: str) -> None:
    c02 = untested_by_draws("c02")
    rows = pd.DataFrame({"model_id": [f"lab/m{i}" for i in range(n)], "heritage": "lab", "family": "m"})
    rows = rows.assign(n_layers=range(10, 10 + 2 * n, 2), comparable=True)
    largest = factor * 10 ** (1 / rows["n_layers"]) * np.linspace(0.99, 1.0, n)
    for what in c02.GAINS:
        rows[what.column] = largest.where(~(rows.index.isin([0]) & one_above), 2.0)
    for what in c02.PRODUCTS:
        rows[what.column] = np.linspace(2, 3, n)
    monkeypatch.setattr(c02, "gains", lambda *_: rows)
    found = judged(c02, altered())
    assert found["bound.penultimate_gain"].verdict == verdict
    assert found["total.from_block_1"].verdict == (YES if n == 16 else OPEN)
