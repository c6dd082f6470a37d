"""Models × prompts: what a table must hold, and columns of effects that sum to zero."""

import numpy as np
import pandas as pd
import pytest
from simulated import benchmark_table

from thermostats.errors import UsageError
from thermostats.modelling.populations import build_sum_zero, read_cells

LEVELS = [-0.2, 0.1, 0.4, 0.41]


def table(seed: int = 2, **options: int) -> pd.DataFrame:
    return benchmark_table(np.random.default_rng(seed), LEVELS, **options)


def test_bad_tables_are_refused() -> None:
    rows = table()
    bad = {
        "occurs twice": pd.concat([rows, rows]),
        "two categories": rows.assign(category=rows["model_id"]),
        "too small": rows[rows["model_id"] == "m0"],
        "labels are missing": rows.assign(category=rows["category"].where(rows.index > 0)),
        "logarithm": rows.assign(value=rows["value"].where(rows.index > 0, 0.0)),
        "constant column": rows.assign(value=1.5),
        "no such column": rows.drop(columns="category"),
    }
    for words, wrong in bad.items():
        with pytest.raises(UsageError, match=words):
            read_cells(wrong, "an order")


def test_effects_sum_to_zero_and_are_exchangeable() -> None:
    basis = build_sum_zero(5)
    assert basis @ basis.T == pytest.approx(np.eye(5) - 1 / 5)
    assert build_sum_zero(1).shape == (1, 0)
