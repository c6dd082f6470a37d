"""C02: two models clearly above a bound are enough against it, one is not; few models below decide
nothing."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, judged


@pytest.mark.parametrize(
    ("n", "factor", "above", "verdict"),
    [
        (16, 0.98, 0, YES),
        (16, 1.02, 0, NO),
        (16, 0.98, 1, OPEN),
        (16, 0.98, 2, NO),
        (8, 0.98, 0, OPEN),
    ],
)
def test_bound_verdict(
    monkeypatch: pytest.MonkeyPatch, n: int, factor: float, above: int, verdict: str
) -> None:
    c02 = by_rules_alone("c02")
    rows = pd.DataFrame(
        {"model_id": [f"lab/m{i}" for i in range(n)], "heritage": "lab", "family": "m"}
    )
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
