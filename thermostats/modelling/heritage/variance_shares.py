"""Shares of the variance of blocks of columns: raw ones of R², and ones corrected for chance with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import Array, columns_of, numbers
from thermostats.modelling.heritage.designs import (
    Bases,
    Blocks,
    bases_of,
    checked_outcome,
    r_squared_by_set,
    refuse_saturation,
    shapley,
)
from thermostats.settings import coverage

Differences = Sequence[tuple[str, str]]
"""Pairs of blocks: the share of the first minus that of the second."""
LEAST_DF = 8
"""Residual degrees of freedom below which a correction is too uncertain to be given."""


@dataclass(frozen=True, kw_only=True)
class Dominance:
    """Shapley (LMG) shares of R² per block, never without their permutation null."""

    table: pd.DataFrame
    """By block: df; share, which sum to R²; null_mean and null_upper, mean and 95% quantile of the share with
    the outcome shuffled; p_value, P(shuffled share ≥ share); rank, 1 for the largest."""
    null_order_probability: float
    """How often shuffled outcomes give exactly this raw `order`; near 1 means that the order says nothing."""
    asked_order_null_probability: float
    """How often shuffled outcomes give the order in which the blocks were passed."""

    @property
    def shares(self) -> dict[str, float]:
        """Raw share of every block."""
        return dict(self.table["share"].to_dict())

    @property
    def order(self) -> tuple[str, ...]:
        """Blocks by raw share, largest first."""
        return tuple(self.table.sort_values("rank").index)


def dominance(frame: pd.DataFrame, outcome: str, blocks: Blocks, *, seed: int, permutations: int = 2000) -> Dominance:
    """Shapley shares of R² for 2 to 4 blocks (LMG; Budescu 1993, doi:10.1037/0033-2909.114.3.542) with their null.

    share_b = Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (R²(S ∪ b) − R²(S)). Raw shares grow with a block's degrees of freedom
    and order blocks of noise by their size, hence the null: the same shares with the outcome shuffled over rows. Raises
    UsageError for another number of blocks, missing values, or no residual degree of freedom.
    """
    if not 2 <= len(blocks) <= 4:
        raise UsageError("dominance analysis of too many blocks", got=len(blocks), allowed="2 to 4")
    y, bases = checked_outcome(frame, outcome, blocks), bases_of(frame, blocks)
    refuse_saturation(y.size, bases[frozenset(blocks)].shape[1])
    shuffled = np.random.default_rng(seed).permuted(np.tile(y, (permutations, 1)), axis=1)
    shares = shapley(r_squared_by_set(np.vstack([y, shuffled]), bases), list(blocks))
    observed, null = shares[0], shares[1:]
    null_mean = null.mean(axis=0)
    rank = 1 + np.argsort(np.argsort(-observed, kind="stable"))
    null_orders = np.argsort(-null, axis=1, kind="stable")
    table = pd.DataFrame(
        {
            "df": [bases[frozenset([block])].shape[1] - 1 for block in blocks],
            "share": observed,
            "null_mean": null_mean,
            "null_upper": np.quantile(null, 0.95, axis=0),
            "p_value": (np.sum(null >= observed - 1e-12, axis=0) + 1) / (permutations + 1),
            "rank": rank,
        },
        index=pd.Index(blocks, name="block"),
    )
    return Dominance(
        table=table,
        null_order_probability=float((null_orders == np.argsort(rank)).all(axis=1).mean()),
        asked_order_null_probability=float((null_orders == np.arange(len(table))).all(axis=1).mean()),
    )


def corrected_shares(table: pd.DataFrame, outcome: str, blocks: Blocks) -> dict[str, float]:
    """Share of every block: LMG_b − r̄_b·σ̂²/TSS, 0 on average for a block that does nothing; may be negative.

    LMG_b is the block's gain in R² averaged over all orders of entry (see `dominance`), r̄_b the mean over orders of
    rank(S ∪ b) − rank(S), σ̂² = RSS/df of all blocks: E[LMG_b·TSS] is what its signal gives, and r̄_b·σ². Columns that
    are the same in all rows explain nothing. Raises UsageError for missing values and below 8 residual degrees of
    freedom.
    """
    y, bases = _fit_for_correction(table, outcome, blocks)
    return dict(zip(blocks, map(float, _corrected(y[None], bases, list(blocks))[0][0]), strict=True))


def shares_of_signals(table: pd.DataFrame, signals: Array, blocks: Blocks) -> Array:
    """LMG shares of signals without noise (one a row), signals × blocks: what corrected shares estimate.

    Of the signal's own variance, so they sum to 1 where the blocks span it. Raises UsageError for missing values.
    """
    return shapley(r_squared_by_set(signals, bases_of(table, blocks)), list(blocks))


def share_difference(
    table: pd.DataFrame, outcome: str, blocks: Blocks, first: str, second: str
) -> Callable[[Array], Array]:
    """Difference between the corrected shares of two blocks, as a function of outcomes, m × rows → m.

    Raises UsageError as `corrected_shares` does.
    """
    _, bases = _fit_for_correction(table, outcome, blocks)
    names = list(blocks)
    places = names.index(first), names.index(second)

    def difference(outcomes: Array) -> Array:
        shares = _corrected(outcomes, bases, names)[0]
        return np.asarray(shares[:, places[0]] - shares[:, places[1]])

    return difference


def share_table(
    table: pd.DataFrame,
    outcome: str,
    blocks: Blocks,
    differences: Differences = (),
    *,
    seed: int,
    level: float = 0.95,
    draws: int = 400,
) -> pd.DataFrame:
    """Columns what, estimate, lower, upper, unique, p: corrected share of every block, then `a − b` of every pair.

    Intervals: estimate ± t_df · SD of the shares of ŷ + N(0, σ̂²), a parametric bootstrap with the design fixed. unique:
    what a block explains after all others, corrected alike; p: of its partial F. Raises UsageError as
    `corrected_shares` does.
    """
    y, bases = _fit_for_correction(table, outcome, blocks)
    estimate, variance = _corrected(y[None], bases, list(blocks))
    full = bases[frozenset(blocks)]
    noise = np.random.default_rng(seed).normal(scale=np.sqrt(np.maximum(variance, 0.0)), size=(draws, y.size))
    values = np.vstack([estimate, _corrected(full @ (full.T @ y) + noise, bases, list(blocks))[0]])
    names = list(blocks)
    pairs = [values[:, names.index(a)] - values[:, names.index(b)] for a, b in differences]
    values = np.column_stack([values, *pairs])
    df = y.size - full.shape[1]
    half = stats.t.ppf((1 + coverage(level)) / 2, df) * values[1:].std(axis=0, ddof=1)
    rest = [bases[frozenset(names) - {name}] for name in names]
    ranks = np.array([full.shape[1] - q.shape[1] for q in rest], dtype=float)
    total = float(np.square(y - y.mean()).sum())
    added = (np.square(y @ full).sum() - np.array([np.square(y @ q).sum() for q in rest])) / total
    unexplained = float(variance[0]) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stats.f.sf(added / ranks / unexplained, ranks, df)
    none = [math.nan] * len(differences)
    return pd.DataFrame(
        {
            "what": [*names, *(f"{a} − {b}" for a, b in differences)],
            "estimate": values[0],
            "lower": values[0] - half,
            "upper": values[0] + half,
            "unique": [*(added - ranks * unexplained), *none],
            "p": [*p, *none],
        }
    )


def _fit_for_correction(table: pd.DataFrame, outcome: str, blocks: Blocks) -> tuple[Array, Bases]:
    """The outcome and the bases of all sets of blocks, where they leave degrees of freedom enough."""
    columns_of(table, outcome)
    y, bases = numbers(table[outcome], outcome), bases_of(table, blocks)
    df = y.size - bases[frozenset(blocks)].shape[1]
    if df < LEAST_DF:
        raise UsageError(
            "too few rows for corrected shares",
            got=f"{len(table)} rows, {df} residual degrees of freedom",
            allowed=f"{LEAST_DF} residual degrees of freedom or more",
        )
    return y, bases


def _corrected(outcomes: Array, bases: Bases, names: Sequence[str]) -> tuple[Array, Array]:
    """Corrected shares of every outcome (a row each), outcomes × blocks; σ̂² of every outcome."""
    total = np.square(outcomes - outcomes.mean(axis=1, keepdims=True)).sum(axis=1)
    r_squared, full = r_squared_by_set(outcomes, bases), frozenset(names)
    df = outcomes.shape[1] - bases[full].shape[1]
    mean_rank = shapley({chosen: np.array([float(q.shape[1])]) for chosen, q in bases.items()}, names)[0]
    unexplained = (1 - r_squared[full]) / df
    return shapley(r_squared, names) - unexplained[:, None] * mean_rank, unexplained * total


def r_squared_of_sets(frame: pd.DataFrame, blocks: Blocks) -> dict[frozenset[str], float]:
    """R² of `log_gain` by every set of blocks."""
    y, bases = checked_outcome(frame, "log_gain", blocks), bases_of(frame, blocks)
    return {chosen: float(values[0]) for chosen, values in r_squared_by_set(y[None], bases).items()}
