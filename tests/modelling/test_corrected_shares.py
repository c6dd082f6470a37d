"""Corrected shares: right on average where the truth is known, and exact beside the definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from thermostats.errors import UsageError
from thermostats.modelling.heritage.variance_shares import (
    estimate_corrected_shares,
    estimate_share_table,
)
from thermostats.studies.nursery import load_shipped_table

WORLDS = 400


def r_squared(columns: list[np.ndarray], y: np.ndarray) -> tuple[float, int]:
    """R² and rank of a least-squares fit, intercept apart."""
    x = np.column_stack([np.ones(len(y)), *columns])
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return 1 - np.square(residual).sum() / np.square(y - y.mean()).sum(), np.linalg.matrix_rank(
        x
    ) - 1


def coded(rows: pd.DataFrame, blocks: dict[str, list[str]]) -> dict[str, np.ndarray]:
    return {name: pd.get_dummies(rows[own], dtype=float).to_numpy() for name, own in blocks.items()}


def unexplained(rows: pd.DataFrame, y: np.ndarray, blocks: dict[str, list[str]]) -> float:
    """(1 − R²)/df of all blocks."""
    whole, rank = r_squared(list(coded(rows, blocks).values()), y)
    return (1 - whole) / (len(y) - 1 - rank)


def over_orders(
    rows: pd.DataFrame, y: np.ndarray, blocks: dict[str, list[str]], of_rank: float = 0.0
) -> dict[str, float]:
    """The equation, order by order: R² that a block adds, less `of_rank` for every rank that it
    adds."""
    x, orders = coded(rows, blocks), list(permutations(blocks))
    found = dict.fromkeys(blocks, 0.0)
    for order in orders:
        for place, name in enumerate(order):
            after, before = (r_squared([x[b] for b in order[: place + one]], y) for one in (1, 0))
            found[name] += (after[0] - before[0] - (after[1] - before[1]) * of_rank) / len(orders)
    return found


GEOMETRY = ["log_L", "log_rho"]


def nursery() -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """The first controlled study's design without gains: unbalanced, four blocks that overlap."""
    design = load_shipped_table()
    rows = design[(design["norm"] != "post") & (design["n_layers"] > 2)].reset_index(drop=True)
    rows["log_d"], rows["log_L"], rows["log_rho"] = (
        np.log(rows[c]) for c in ("d_model", "n_layers", "rho")
    )
    rows["tied"] = rows["tied"].astype(float)
    architecture = ["architecture", "norm", "position", "tied"]
    return rows, {
        "recipe": ["recipe"],
        "architecture": architecture,
        "geometry": GEOMETRY,
        "scale": ["log_d"],
    }


def study_of_256() -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """32 recipes by 8 shapes."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(
        [(f"r{r}", s % 4, s // 4) for r in range(32) for s in range(8)],
        columns=["recipe", "L", "d"],
    )
    rows["rho"] = rng.permutation(np.tile([0, 1], 128))
    return rows.astype({"L": float, "d": float}), {
        "recipe": ["recipe"],
        "geometry": ["L", "rho"],
        "scale": ["d"],
    }


def test_shares_are_those_of_the_definition() -> None:
    rows, blocks = nursery()
    y = np.random.default_rng(1).normal(size=len(rows))
    expected = over_orders(rows, y, blocks, unexplained(rows, y, blocks))
    assert estimate_corrected_shares(rows.assign(log_gain=y), "log_gain", blocks) == pytest.approx(
        expected
    )


def test_shares_are_right_on_average_in_the_design_of_the_controlled_study() -> None:
    rows, blocks = nursery()
    rng = np.random.default_rng(3)
    recipe = dict(
        zip(rows["recipe"].unique(), rng.normal(size=rows["recipe"].nunique()), strict=True)
    )
    signal = 0.053 * rows["recipe"].map(recipe) + 0.042 * rows[GEOMETRY].apply(
        lambda c: c / c.std()
    ).sum(axis=1)
    signal = (signal + 0.019 * (rows["log_d"] / rows["log_d"].std())).to_numpy()
    y = signal + rng.normal(scale=0.06, size=(WORLDS, len(rows)))
    tables = [estimate_corrected_shares(rows.assign(log_gain=one), "log_gain", blocks) for one in y]
    squares = np.square(signal - signal.mean()).sum()
    total = squares + 0.06**2 * (len(rows) - 1)
    for name, share in over_orders(rows, signal, blocks).items():
        assert np.mean([one[name] for one in tables]) == pytest.approx(
            share * squares / total, abs=0.02
        )


def test_many_models_do_not_turn_a_true_order_round() -> None:
    rows, blocks = study_of_256()
    rng, against, simulations = np.random.default_rng(4), 0, 150
    for seed in range(simulations):
        effects = rng.normal(size=32)[rows["recipe"].str[1:].astype(int)]
        shape = rows["L"] - 1.5 + rows["rho"] - 0.5
        y = (
            0.053 * effects
            + 0.042 * shape / shape.std()
            + 0.019 * (rows["d"] - 0.5) * 2
            + rng.normal(0, 0.06, 256)
        )
        table = estimate_share_table(
            rows.assign(y=y), "y", blocks, [("recipe", "geometry")], seed=seed
        ).set_index("what")
        against += table.loc["recipe − geometry", "upper"] < 0
    assert against / simulations <= 0.03


def test_noise_has_no_share_and_few_rows_are_refused() -> None:
    rows, blocks = study_of_256()
    rng = np.random.default_rng(5)
    found = [
        estimate_corrected_shares(rows.assign(y=rng.normal(size=256)), "y", blocks)
        for _ in range(200)
    ]
    for name in blocks:
        values = np.array([one[name] for one in found])
        assert abs(values.mean()) < 3 * values.std() / np.sqrt(len(values)) + 1e-3
    with pytest.raises(UsageError, match="residual degrees of freedom"):
        estimate_corrected_shares(rows.head(9).assign(y=range(9)), "y", {"geometry": ["L", "rho"]})
