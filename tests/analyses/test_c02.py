"""C02: two models clearly above a bound are enough against it, one is not; few models below decide nothing."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, judged

from thermostats.formatting import comparison


def test_bounds_that_two_models_break_fall_and_the_page_names_them() -> None:
    found = judged(by_rules_alone("c02"), altered())
    verdicts = {name: one.verdict for name, one in found.items()}
    assert {name for name, verdict in verdicts.items() if verdict == OPEN} == {
        "bound.geometric_gain",
        "total.from_block_1",
    }
    assert set(verdicts.values()) == {NO, OPEN}
    assert "Above the bound by more than the measurement error: gpt-j-6b, pythia-1b and bloom-560m." in (
        found["bound.penultimate_gain"].notes
    )
    assert "1 of 22 models" in found["total.from_block_1"].plain
    first = found["bound.max_gain"]
    (row,) = comparison(first.audit.published, first.audit.reproduced)
    assert (row.name, row.agrees) == ("total gain ≤", False)


@pytest.mark.parametrize(
    ("n", "factor", "above", "verdict"),
    [(16, 0.98, 0, YES), (16, 1.02, 0, NO), (16, 0.98, 1, OPEN), (16, 0.98, 2, NO), (8, 0.98, 0, OPEN)],
)
def test_bound_verdict(monkeypatch: pytest.MonkeyPatch, n: int, factor: float, above: int, verdict: str) -> None:
    c02 = by_rules_alone("c02")
    rows = pd.DataFrame({"model_id": [f"lab/m{i}" for i in range(n)], "heritage": "lab", "family": "m"})
    rows = rows.assign(n_layers=range(10, 10 + 2 * n, 2), comparable=True, n_prompts=10.0)
    largest = factor * 10 ** (1 / rows["n_layers"]) * np.linspace(0.99, 1.0, n)
    for what in c02.GAINS:
        rows[what.column] = largest.where(rows.index >= above, 2.0)
    for what in c02.PRODUCTS:
        rows[what.column] = np.linspace(2, 3, n)
    rows["upper"] = 1.001 * rows["gain"]
    monkeypatch.setattr(c02, "models", lambda *_: rows)
    found = judged(c02, altered())
    assert found["bound.penultimate_gain"].verdict == verdict
    assert found["total.from_block_1"].verdict == (YES if n == 16 else OPEN)
