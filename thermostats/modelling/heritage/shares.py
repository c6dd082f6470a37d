"""What each block (heritage, geometry, scale) explains: partial F, Freedman–Lane, corrected shares with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import RESAMPLES, Array, columns_of, holm, labels, numbers

Blocks = Mapping[str, Sequence[str]]
"""Name of a block → its columns; text, category and true/false columns become dummies."""
Differences = Sequence[tuple[str, str]]
"""Pairs of blocks: the share of the first minus that of the second."""
Bases = Mapping[frozenset[str], Array]
"""Orthonormal basis, n × (1 + rank), of the intercept and every set of blocks."""
Values = tuple[float | str | bool | None, ...]
LEAST_DF = 8
"""Residual degrees of freedom below which a correction is too uncertain to be given."""


@dataclass(frozen=True, kw_only=True)
class BlockF:
    """Partial F test of one block, all others in the model."""

    estimate: float
    """The change in R² when the block is added last."""
    f: float
    df_block: int
    df_residual: int
    p_value: float
    p_holm: float = math.nan
    """Adjusted for the other blocks."""
    r_squared: float
    """Of the full model."""


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


def block_f(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> dict[str, BlockF]:
    """Partial F of every block, F = ((RSS_without − RSS_full)/df_block) / (RSS_full/df_residual), Holm across blocks.

    Degrees of freedom are ranks, so columns that others determine count once. Raises UsageError where a block adds
    nothing to the others, no residual degree of freedom is left, or values are missing.
    """
    y, designs = _outcome(frame, outcome, blocks), _designs(frame, blocks)
    tests = {block: _partial_f(y, designs, blocks, block) for block in blocks}
    adjusted = holm({block: test.p_value for block, test in tests.items()})
    return {block: replace(test, p_holm=adjusted[block]) for block, test in tests.items()}


def freedman_lane(
    frame: pd.DataFrame, outcome: str, blocks: Blocks, block: str, *, seed: int, permutations: int = RESAMPLES
) -> BlockF:
    """Partial F of one block with its permutation p: residuals of the model without it are shuffled.

    Freedman and Lane 1983, doi:10.2307/1391660; p = (b + 1)/(m + 1). Raises UsageError as `block_f` does.
    """
    if block not in blocks:
        raise UsageError("no such block", got=block, allowed=", ".join(blocks))
    y, designs = _outcome(frame, outcome, blocks), _designs(frame, blocks)
    observed, (full, reduced) = _partial_f(y, designs, blocks, block), _nested(designs, block)
    fitted = reduced @ (reduced.T @ y)
    shuffled = np.random.default_rng(seed).permuted(np.tile(y - fitted, (permutations, 1)), axis=1) + fitted
    rss_full, rss_reduced = (np.square(shuffled - (shuffled @ q) @ q.T).sum(axis=1) for q in (full, reduced))
    f = (rss_reduced - rss_full) / observed.df_block / (rss_full / observed.df_residual)
    return replace(observed, p_value=float((np.sum(f >= observed.f * (1 - 1e-12)) + 1) / (permutations + 1)))


def dominance(frame: pd.DataFrame, outcome: str, blocks: Blocks, *, seed: int, permutations: int = 2000) -> Dominance:
    """Shapley shares of R² for 2 to 4 blocks (LMG; Budescu 1993, doi:10.1037/0033-2909.114.3.542) with their null.

    share_b = Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (R²(S ∪ b) − R²(S)). Raw shares grow with a block's degrees of freedom
    and order blocks of noise by their size, hence the null: the same shares with the outcome shuffled over rows. Raises
    UsageError for another number of blocks, missing values, or no residual degree of freedom.
    """
    if not 2 <= len(blocks) <= 4:
        raise UsageError("dominance analysis of too many blocks", got=len(blocks), allowed="2 to 4")
    y, bases = _outcome(frame, outcome, blocks), _bases(_designs(frame, blocks), len(frame))
    _leave_residuals(y.size, bases[frozenset(blocks)].shape[1])
    shuffled = np.random.default_rng(seed).permuted(np.tile(y, (permutations, 1)), axis=1)
    shares = _shapley(_r_squared(np.vstack([y, shuffled]), bases), list(blocks))
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
    return _shapley(_r_squared(signals, _bases_of(table, blocks)), list(blocks))


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
    whole, variance = _corrected(y[None], bases, list(blocks))
    full = bases[frozenset(blocks)]
    noise = np.random.default_rng(seed).normal(scale=np.sqrt(np.maximum(variance, 0.0)), size=(draws, y.size))
    found = np.vstack([whole, _corrected(full @ (full.T @ y) + noise, bases, list(blocks))[0]])
    names = list(blocks)
    pairs = [found[:, names.index(a)] - found[:, names.index(b)] for a, b in differences]
    found = np.column_stack([found, *pairs])
    df = y.size - full.shape[1]
    half = stats.t.ppf((1 + level) / 2, df) * found[1:].std(axis=0, ddof=1)
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
            "estimate": found[0],
            "lower": found[0] - half,
            "upper": found[0] + half,
            "unique": [*(added - ranks * unexplained), *none],
            "p": [*p, *none],
        }
    )


def _fit_for_correction(table: pd.DataFrame, outcome: str, blocks: Blocks) -> tuple[Array, Bases]:
    """The outcome and the bases of all sets of blocks, where they leave degrees of freedom enough."""
    columns_of(table, outcome)
    y, bases = numbers(table[outcome], outcome), _bases_of(table, blocks)
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
    r_squared, full = _r_squared(outcomes, bases), frozenset(names)
    df = outcomes.shape[1] - bases[full].shape[1]
    mean_rank = _shapley({chosen: np.array([float(q.shape[1])]) for chosen, q in bases.items()}, names)[0]
    unexplained = (1 - r_squared[full]) / df
    return _shapley(r_squared, names) - unexplained[:, None] * mean_rank, unexplained * total


def r_squared_of_sets(frame: pd.DataFrame, blocks: Blocks) -> dict[frozenset[str], float]:
    """R² of `log_gain` by every set of blocks."""
    y, bases = _outcome(frame, "log_gain", blocks), _bases(_designs(frame, blocks), len(frame))
    return {chosen: float(found[0]) for chosen, found in _r_squared(y[None], bases).items()}


def _r_squared(outcomes: Array, bases: Bases) -> dict[frozenset[str], Array]:
    """R² of every set of blocks, one for every outcome (a row each)."""
    y = outcomes - outcomes.mean(axis=1, keepdims=True)
    total = np.square(y).sum(axis=1)
    return {chosen: np.square(y @ q).sum(axis=1) / total for chosen, q in bases.items()}


def _shapley(values: Mapping[frozenset[str], Array], names: Sequence[str]) -> Array:
    """Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (v(S ∪ b) − v(S)) of every block b, outcomes × blocks."""
    k, shares = len(names), np.zeros((len(values[frozenset(names)]), len(names)))
    for column, block in enumerate(names):
        for subset, value in values.items():
            if block not in subset:
                weight = math.factorial(len(subset)) * math.factorial(k - len(subset) - 1) / math.factorial(k)
                shares[:, column] += weight * (values[subset | {block}] - value)
    return shares


def _partial_f(y: Array, designs: Mapping[str, Array], blocks: Blocks, block: str) -> BlockF:
    """Partial F of one block, its p not yet adjusted."""
    full, reduced = _nested(designs, block)
    df_residual, df = y.size - full.shape[1], full.shape[1] - reduced.shape[1]
    _leave_residuals(y.size, full.shape[1])
    if df == 0:
        raise UsageError(
            "a block adds nothing to the others",
            where=block,
            got=", ".join(blocks[block]),
            allowed="a block not determined by the others",
        )
    rss_full, rss_reduced = (float(np.square(y - q @ (q.T @ y)).sum()) for q in (full, reduced))
    total = float(np.square(y - y.mean()).sum())
    f = (rss_reduced - rss_full) / df / (rss_full / df_residual) if rss_full > 0 else math.inf
    return BlockF(
        estimate=(rss_reduced - rss_full) / total,
        f=f,
        df_block=df,
        df_residual=df_residual,
        p_value=float(stats.f.sf(f, df, df_residual)),
        r_squared=1 - rss_full / total,
    )


def _nested(designs: Mapping[str, Array], block: str) -> tuple[Array, Array]:
    """Bases of all blocks and of all but one."""
    n, others = len(designs[block]), [design for name, design in designs.items() if name != block]
    return _basis(list(designs.values()), n), _basis(others, n)


def _outcome(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> Array:
    if not blocks or not all(blocks.values()):
        raise UsageError(
            "a block without columns",
            got={name: list(columns) for name, columns in blocks.items()},
            allowed="one column or more a block",
        )
    columns_of(frame, outcome, *(column for columns in blocks.values() for column in columns))
    return numbers(frame[outcome], outcome, least=3, varied=True)


def _designs(frame: pd.DataFrame, blocks: Blocks) -> dict[str, Array]:
    """One design matrix per block, intercept left out."""
    return {name: np.column_stack([_coded(frame[column]) for column in columns]) for name, columns in blocks.items()}


def _bases_of(table: pd.DataFrame, blocks: Blocks) -> Bases:
    """Bases of all sets of blocks, computed once for a design to which many outcomes are put."""
    names = tuple(dict.fromkeys(column for own in blocks.values() for column in own))
    columns_of(table, *names)
    values = tuple((name, tuple(table[name].tolist())) for name in names)
    return _bases_of_values(tuple((name, tuple(own)) for name, own in blocks.items()), values)


@lru_cache(maxsize=128)
def _bases_of_values(blocks: tuple[tuple[str, tuple[str, ...]], ...], values: tuple[tuple[str, Values], ...]) -> Bases:
    table = pd.DataFrame({name: list(column) for name, column in values})
    return _bases(_varied(table, dict(blocks)), len(table))


def _varied(frame: pd.DataFrame, blocks: Blocks) -> dict[str, Array]:
    coded = {name: np.column_stack([_levels(frame[column]) for column in own]) for name, own in blocks.items()}
    return {name: x[:, np.ptp(x, axis=0) > 0] for name, x in coded.items()}


def _levels(column: pd.Series) -> Array:
    """A column of numbers, or a column for each of its values; raises UsageError for missing values."""
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return numbers(column, name)[:, None]
    codes, values = pd.factorize(labels(column, name))
    return np.asarray(codes[:, None] == np.arange(len(values)), dtype=np.float64)


def _bases(designs: Mapping[str, Array], n: int) -> dict[frozenset[str], Array]:
    """Orthonormal basis, n × (1 + rank), of the intercept and every set of blocks."""
    subsets = (chosen for size in range(len(designs) + 1) for chosen in itertools.combinations(designs, size))
    return {frozenset(chosen): _basis([designs[name] for name in chosen], n) for chosen in subsets}


def _coded(column: pd.Series) -> Array:
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return numbers(column, name, varied=True)[:, None]
    dummies = pd.get_dummies(pd.Series(labels(column, name)), drop_first=True)
    if dummies.shape[1] == 0:
        raise UsageError(
            "a constant column decides nothing", where=name, got=column.iloc[0], allowed="two values or more"
        )
    return np.asarray(dummies.to_numpy(dtype=np.float64))


def _basis(designs: Sequence[Array], n: int) -> Array:
    """Orthonormal basis (n × rank) of the intercept and the designs, columns standardised before the rank is taken."""
    x = np.column_stack([*designs, np.empty((n, 0))])
    if x.shape[1]:
        x = x - x.mean(axis=0)
        x = x / np.linalg.norm(x, axis=0)
        u, s, _ = np.linalg.svd(x, full_matrices=False)
        x = u[:, s > s[0] * 1e-9]
    return np.column_stack([np.full(n, n**-0.5), x])


def _leave_residuals(n: int, rank: int) -> None:
    if rank >= n:
        raise UsageError("more predictors than rows", got=f"{n} rows, rank {rank}", allowed="fewer columns than rows")
