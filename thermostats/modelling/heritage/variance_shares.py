"""Shares of the variance of blocks of columns: raw ones of R², and ones corrected for chance with
intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import shuffle_values
from thermostats.modelling.classical.mixed import fit_mixed_model
from thermostats.modelling.columns import (
    RESAMPLES,
    Array,
    apply_holm,
    check_columns,
    is_constant,
    read_labels,
    read_numbers,
)
from thermostats.modelling.fit import Fit
from thermostats.modelling.heritage.law import (
    FAMILY,
    list_bases,
    list_groups,
    name_groups,
    name_lab,
)
from thermostats.modelling.mixed_model import MixedDesign
from thermostats.settings import check_coverage

Blocks = Mapping[str, Sequence[str]]
"""Name of a block → its columns; text, category and true/false columns become a column for each
value."""
Bases = Mapping[frozenset[str], Array]
"""Orthonormal basis, n × (1 + rank), of the intercept and every set of blocks."""
Values = tuple[float | str | bool | None, ...]


def check_outcome(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> Array:
    """The outcome of rows in which it and every column of the blocks differ.

    Raises UsageError for a block without columns, for missing values, and for a column that is the
    same in all rows.
    """
    if not blocks or not all(blocks.values()):
        named = {name: list(columns) for name, columns in blocks.items()}
        raise UsageError("a block without columns", got=named, allowed="one column or more a block")
    columns = list(itertools.chain(*blocks.values()))
    check_columns(frame, outcome, *columns)
    y = read_numbers(frame[outcome], outcome, least=3, varied=True)
    for column in columns:
        if all(map(is_constant, _build_design(frame[column]).T)):
            got = frame[column].iloc[0]
            raise UsageError(
                "a constant column decides nothing",
                where=column,
                got=got,
                allowed="two values or more",
            )
    return y


def refuse_saturation(n: int, rank: int) -> None:
    """Raise UsageError where a design of this rank leaves n outcomes no residual degree of
    freedom."""
    if rank >= n:
        raise UsageError(
            "more predictors than rows",
            got=f"{n} rows, rank {rank}",
            allowed="fewer columns than rows",
        )


def build_designs(frame: pd.DataFrame, blocks: Blocks) -> dict[str, Array]:
    """One design matrix per block, intercept left out; columns that are the same in all rows are
    left out, too."""
    designs = {}
    for name, columns in blocks.items():
        columns_of_block = [_build_design(frame[column]) for column in columns]
        designs[name] = np.column_stack(columns_of_block)
    return designs


def _build_design(column: pd.Series) -> Array:
    """A column of numbers, or a column for each value of another; none where all rows are the
    same."""
    name = str(column.name)
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        x = read_numbers(column, name)[:, None]
    else:
        labels = read_labels(column, name)
        codes, values = pd.factorize(labels)
        member = codes[:, None] == np.arange(len(values))
        x = np.asarray(member, dtype=float)
    varied = np.ptp(x, axis=0) > 0
    return x[:, varied]


def build_basis(designs: Sequence[Array], n: int) -> Array:
    """Orthonormal basis (n × rank) of the intercept and the designs, columns standardised before
    the rank is taken."""
    none = np.empty((n, 0))
    x = np.column_stack([*designs, none])
    if x.shape[1]:
        x = x - x.mean(axis=0)
        x = x / np.linalg.norm(x, axis=0)
        x = find_span(x)
    intercept = np.full(n, n**-0.5)
    return np.column_stack([intercept, x])


def find_span(columns: Array) -> Array:
    """Orthonormal basis of what columns span."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    kept = s > s[0] * 1e-9
    return np.asarray(u[:, kept])


def sum_squares(values: Array) -> Array:
    """Sum of squares of every row."""
    squares = np.square(values)
    return np.asarray(squares.sum(axis=1))


def build_bases(table: pd.DataFrame, blocks: Blocks) -> Bases:
    """Bases of all sets of blocks; of a design to which many outcomes are put they are computed
    once."""
    columns_in_blocks = itertools.chain(*blocks.values())
    names = tuple(dict.fromkeys(columns_in_blocks))
    check_columns(table, *names)
    values = tuple((name, tuple(table[name].tolist())) for name in names)
    columns = tuple((name, tuple(columns)) for name, columns in blocks.items())
    return _build_bases(columns, values)


@lru_cache(maxsize=128)
def _build_bases(
    blocks: tuple[tuple[str, tuple[str, ...]], ...], values: tuple[tuple[str, Values], ...]
) -> Bases:
    columns = {name: list(column) for name, column in values}
    table = pd.DataFrame(columns)
    designs = build_designs(table, dict(blocks))
    bases = {}
    for size in range(len(designs) + 1):
        for chosen in itertools.combinations(designs, size):
            stacked = [designs[name] for name in chosen]
            basis = build_basis(stacked, len(table))
            bases[frozenset(chosen)] = basis
    return bases


def measure_r_squared(outcomes: Array, bases: Bases) -> dict[frozenset[str], Array]:
    """R² of every set of blocks, one for every outcome (a row each)."""
    y = outcomes - outcomes.mean(axis=1, keepdims=True)
    total = sum_squares(y)
    r_squared = {}
    for chosen, q in bases.items():
        r_squared[chosen] = sum_squares(y @ q) / total
    return r_squared


def compute_shapley(values: Mapping[frozenset[str], Array], names: Sequence[str]) -> Array:
    """Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (v(S ∪ b) − v(S)) of every block b, outcomes × blocks."""
    k = len(names)
    n_outcomes = len(values[frozenset(names)])
    shares = np.zeros((n_outcomes, k))
    for column, block in enumerate(names):
        for subset, value in values.items():
            if block not in subset:
                orders = math.factorial(len(subset)) * math.factorial(k - len(subset) - 1)
                weight = orders / math.factorial(k)
                added = values[subset | {block}] - value
                shares[:, column] += weight * added
    return shares


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
    """R² of the full model, all blocks in it."""


def compute_block_f(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> dict[str, BlockF]:
    """Partial F of every block, F = ((RSS_without − RSS_full)/df_block) / (RSS_full/df_residual),
    Holm across blocks.

    Degrees of freedom are ranks, so columns that others determine count once. Raises UsageError
    where a block adds nothing to the others, no residual degree of freedom is left, or values are
    missing.
    """
    y = check_outcome(frame, outcome, blocks)
    designs = build_designs(frame, blocks)
    tests = {block: _compute_partial_f(y, designs, blocks, block) for block in blocks}
    p_values = {block: test.p_value for block, test in tests.items()}
    adjusted = apply_holm(p_values)
    block_f = {}
    for block, test in tests.items():
        block_f[block] = replace(test, p_holm=adjusted[block])
    return block_f


def run_freedman_lane(
    frame: pd.DataFrame,
    outcome: str,
    blocks: Blocks,
    block: str,
    *,
    seed: int,
    permutations: int = RESAMPLES,
) -> BlockF:
    """Partial F of one block with its permutation p: residuals of the model without it are
    shuffled.

    Freedman and Lane 1983, doi:10.2307/1391660; p = (b + 1)/(m + 1). Raises UsageError as
    `compute_block_f` does.
    """
    if block not in blocks:
        raise UsageError("no such block", got=block, allowed=", ".join(blocks))
    y = check_outcome(frame, outcome, blocks)
    designs = build_designs(frame, blocks)
    observed = _compute_partial_f(y, designs, blocks, block)
    full, reduced = _build_nested_bases(designs, block)
    fitted = reduced @ (reduced.T @ y)
    rng = np.random.default_rng(seed)
    shuffled = shuffle_values(y - fitted, permutations, rng) + fitted
    rss_full = _measure_left(shuffled, full)
    rss_reduced = _measure_left(shuffled, reduced)
    f = (rss_reduced - rss_full) / observed.df_block / (rss_full / observed.df_residual)
    least = observed.f * (1 - 1e-12)
    n_larger = np.sum(f >= least)
    p = float((n_larger + 1) / (permutations + 1))
    return replace(observed, p_value=p)


def _measure_left(outcomes: Array, basis: Array) -> Array:
    """Residual sum of squares of every outcome (a row each)."""
    explained = (outcomes @ basis) @ basis.T
    left = outcomes - explained
    return sum_squares(left)


def _compute_partial_f(
    y: Array, designs: Mapping[str, Array], blocks: Blocks, block: str
) -> BlockF:
    """Partial F of one block, its p not yet adjusted."""
    full, reduced = _build_nested_bases(designs, block)
    df_residual = y.size - full.shape[1]
    df = full.shape[1] - reduced.shape[1]
    refuse_saturation(y.size, full.shape[1])
    if df == 0:
        raise UsageError(
            "a block adds nothing to the others",
            where=block,
            got=", ".join(blocks[block]),
            allowed="a block not determined by the others",
        )
    rss_full, rss_reduced = (float(np.square(y - q @ (q.T @ y)).sum()) for q in (full, reduced))
    off = y - y.mean()
    total = float(np.square(off).sum())
    added = rss_reduced - rss_full
    f = added / df / (rss_full / df_residual) if rss_full > 0 else math.inf
    p = float(stats.f.sf(f, df, df_residual))
    return BlockF(
        estimate=added / total,
        f=f,
        df_block=df,
        df_residual=df_residual,
        p_value=p,
        r_squared=1 - rss_full / total,
    )


def _build_nested_bases(designs: Mapping[str, Array], block: str) -> tuple[Array, Array]:
    """Bases of all blocks and of all but one."""
    n = len(designs[block])
    others = [design for name, design in designs.items() if name != block]
    full = build_basis(list(designs.values()), n)
    return full, build_basis(others, n)


Differences = Sequence[tuple[str, str]]
"""Pairs of blocks: the share of the first minus that of the second."""
LEAST_DF = 8
"""Residual degrees of freedom below which a correction is too uncertain to be given."""
STUDIES = 100
"""Studies whose shares are drawn at once."""


@dataclass(frozen=True, kw_only=True)
class Dominance:
    """Shapley (LMG) shares of R² per block, never without their permutation null."""

    table: pd.DataFrame
    """By block: df; share, which sum to R²; null_mean and null_upper, mean and 95% quantile of the
    share with the outcome shuffled; p_value, P(shuffled share ≥ share); rank, 1 for the largest."""
    null_order_probability: float
    """How often shuffled outcomes give exactly this raw `order`; near 1 means that the order says
    nothing."""
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


def measure_dominance(
    frame: pd.DataFrame, outcome: str, blocks: Blocks, *, seed: int, permutations: int = 2000
) -> Dominance:
    """Shapley shares of R² for 2 to 4 blocks (LMG; Budescu 1993, doi:10.1037/0033-2909.114.3.542)
    with their null.

    share_b = Σ_{S ∌ b} |S|!(k − |S| − 1)!/k! · (R²(S ∪ b) − R²(S)). Raw shares grow with a block's
    degrees of freedom and order blocks of noise by their size, hence the null: the same shares with
    the outcome shuffled over rows. Raises UsageError for another number of blocks, missing values,
    or no residual degree of freedom.
    """
    if not 2 <= len(blocks) <= 4:
        raise UsageError("dominance analysis of too many blocks", got=len(blocks), allowed="2 to 4")
    y = check_outcome(frame, outcome, blocks)
    bases = build_bases(frame, blocks)
    every = bases[frozenset(blocks)]
    refuse_saturation(y.size, every.shape[1])
    rng = np.random.default_rng(seed)
    shuffled = shuffle_values(y, permutations, rng)
    outcomes = np.vstack([y, shuffled])
    r_squared = measure_r_squared(outcomes, bases)
    shares = compute_shapley(r_squared, list(blocks))
    observed = shares[0]
    null = shares[1:]
    largest_first = np.argsort(-observed, kind="stable")
    rank = 1 + np.argsort(largest_first)
    null_orders = np.argsort(-null, axis=1, kind="stable")
    as_large = np.sum(null >= observed - 1e-12, axis=0)
    df = [bases[frozenset([block])].shape[1] - 1 for block in blocks]
    index = pd.Index(blocks, name="block")
    columns = {
        "df": df,
        "share": observed,
        "null_mean": null.mean(axis=0),
        "null_upper": np.quantile(null, 0.95, axis=0),
        "p_value": (as_large + 1) / (permutations + 1),
        "rank": rank,
    }
    table = pd.DataFrame(columns, index=index)
    in_order = (null_orders == np.argsort(rank)).all(axis=1)
    asked_order = np.arange(len(table))
    in_asked_order = (null_orders == asked_order).all(axis=1)
    return Dominance(
        table=table,
        null_order_probability=float(in_order.mean()),
        asked_order_null_probability=float(in_asked_order.mean()),
    )


def estimate_corrected_shares(
    table: pd.DataFrame, outcome: str, blocks: Blocks
) -> dict[str, float]:
    """Share of every block: LMG_b − r̄_b·σ̂²/TSS, 0 on average for a block that does nothing; may
    be negative.

    LMG_b is the block's gain in R² averaged over all orders of entry (see `measure_dominance`),
    r̄_b the mean over orders of rank(S ∪ b) − rank(S), σ̂² = RSS/df of all blocks: E[LMG_b·TSS] is
    what its signal gives, and r̄_b·σ². Columns that are the same in all rows explain nothing.
    Raises UsageError for missing values and below 8 residual degrees of freedom.
    """
    y, bases = _fit_for_correction(table, outcome, blocks)
    shares = _compute_corrected_shares(y[None], bases, list(blocks))
    return dict(zip(blocks, shares[0].tolist(), strict=True))


def measure_signal_shares(table: pd.DataFrame, signals: Array, blocks: Blocks) -> Array:
    """LMG shares of signals without noise (one a row), signals × blocks: what corrected shares
    estimate.

    Of the signal's own variance, so they sum to 1 where the blocks span it. Raises UsageError for
    missing values.
    """
    r_squared = measure_r_squared(signals, build_bases(table, blocks))
    return compute_shapley(r_squared, list(blocks))


def build_share_difference(
    table: pd.DataFrame, outcome: str, blocks: Blocks, first: str, second: str
) -> Callable[[Array], Array]:
    """Difference between the corrected shares of two blocks, as a function of outcomes, m × rows →
    m.

    Raises UsageError as `estimate_corrected_shares` does.
    """
    _, bases = _fit_for_correction(table, outcome, blocks)
    names = list(blocks)
    place = names.index(first)
    other = names.index(second)

    def difference(outcomes: Array) -> Array:
        shares = _compute_corrected_shares(outcomes, bases, names)
        return np.asarray(shares[:, place] - shares[:, other])

    return difference


def estimate_share_table(
    table: pd.DataFrame,
    outcome: str,
    blocks: Blocks,
    differences: Differences = (),
    *,
    seed: int,
    level: float = 0.95,
    draws: int = 400,
) -> pd.DataFrame:
    """Columns what, estimate, lower, upper, unique, p: corrected share of every block, then `a − b`
    of every pair.

    Intervals: estimate ± t_df · SD of the shares of ŷ + N(0, σ̂²), a parametric bootstrap with the
    design fixed. unique: what a block explains after all others, corrected alike; p: of its partial
    F. Raises UsageError as `estimate_corrected_shares` does.
    """
    y, _ = _fit_for_correction(table, outcome, blocks)
    made = estimate_share_tables(
        table, y[None], blocks, differences, seed=seed, level=level, draws=draws
    )
    share_table = pd.DataFrame({"what": name_shares(blocks, differences)})
    for name, values in made.items():
        share_table[name] = values[0]
    return share_table


def name_shares(blocks: Blocks, differences: Differences) -> list[str]:
    """Names of the shares of blocks and of their differences."""
    pairs = [f"{a} − {b}" for a, b in differences]
    return [*blocks, *pairs]


def count_free(table: pd.DataFrame, blocks: Blocks) -> int:
    """Degrees of freedom of the errors once all blocks are taken out."""
    bases = _build_correction_bases(table, blocks)
    n, rank = bases[frozenset(blocks)].shape
    return int(n - rank)


def estimate_share_tables(
    table: pd.DataFrame,
    outcomes: Array,
    blocks: Blocks,
    differences: Differences = (),
    *,
    seed: int,
    level: float = 0.95,
    draws: int = 400,
) -> dict[str, Array]:
    """Columns of `estimate_share_table` for many outcomes (study × row), each study ×
    `name_shares`; all meet the same noise."""
    names = list(blocks)
    bases = _build_correction_bases(table, blocks)
    y = outcomes - outcomes.mean(axis=1, keepdims=True)
    every = frozenset(names)
    n, rank = bases[every].shape
    projected = {}
    explained = {}
    for chosen, q in bases.items():
        projected[chosen] = y @ q
        explained[chosen] = sum_squares(projected[chosen])
    total = sum_squares(y)
    left = np.maximum(total - explained[every], 0.0)
    variance = left / (n - rank)
    r_squared = {chosen: each / total for chosen, each in explained.items()}
    shares = _subtract_chance(r_squared, bases, names)
    estimate = _append_differences(shares, names, differences)
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(draws, n))
    spreads = []
    for start in range(0, len(y), STUDIES):
        at = slice(start, start + STUDIES)
        of_studies = {chosen: of_set[at] for chosen, of_set in projected.items()}
        spread = _measure_spread(of_studies, variance[at], z, bases, names, differences)
        spreads.append(spread)
    quantile = stats.t.ppf((1 + check_coverage(level)) / 2, n - rank)
    half = quantile * np.concatenate(spreads)
    ranks = np.empty(len(names))
    gains = np.empty((len(y), len(names)))
    for place, name in enumerate(names):
        others = every - {name}
        rank_of_others = bases[others].shape[1]
        ranks[place] = rank - rank_of_others
        gains[:, place] = explained[every] - explained[others]
    added = gains / total[:, None]
    unexplained = (variance / total)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        f = added / ranks / unexplained
        p = stats.f.sf(f, ranks, n - rank)
    size = (len(y), len(differences))
    none = np.full(size, math.nan)
    unique = added - ranks * unexplained
    return {
        "estimate": estimate,
        "lower": estimate - half,
        "upper": estimate + half,
        "unique": np.hstack([unique, none]),
        "p": np.hstack([p, none]),
    }


def _measure_spread(
    projected: Bases,
    variance: Array,
    z: Array,
    bases: Bases,
    names: Sequence[str],
    differences: Differences,
) -> Array:
    """SD over draws of the shares of ŷ + σz, study × share; projected: Q'y of the basis Q of every
    set of blocks.

    A set explains |Q'y|² + 2σ Q'y·Q'z + σ²|Q'z|² of it; the whole is what all blocks explain and
    the rest of σ²|z|².
    """
    z = z - z.mean(axis=1, keepdims=True)
    variance = variance[:, None]
    every = frozenset(names)
    drawn = {chosen: z @ q for chosen, q in bases.items()}
    explained = {}
    for chosen, of_y in projected.items():
        of_z = drawn[chosen]
        by_y = np.square(of_y).sum(axis=1, keepdims=True)
        products = of_y @ of_z.T
        by_both = 2 * variance**0.5 * products
        by_z = variance * sum_squares(of_z)
        explained[chosen] = by_y + by_both + by_z
    left = sum_squares(z) - sum_squares(drawn[every])
    total = explained[every] + variance * left
    r_squared = {chosen: (each / total).ravel() for chosen, each in explained.items()}
    shares = _subtract_chance(r_squared, bases, names)
    values = _append_differences(shares, names, differences)
    by_draw = values.reshape(*total.shape, -1)
    return np.asarray(by_draw.std(axis=1, ddof=1))


def _append_differences(shares: Array, names: Sequence[str], differences: Differences) -> Array:
    by_block = dict(zip(names, shares.T, strict=True))
    pairs = [by_block[a] - by_block[b] for a, b in differences]
    return np.column_stack([shares, *pairs])


def _fit_for_correction(table: pd.DataFrame, outcome: str, blocks: Blocks) -> tuple[Array, Bases]:
    """The outcome and the bases of all sets of blocks, where they leave degrees of freedom
    enough."""
    check_columns(table, outcome)
    y = read_numbers(table[outcome], outcome)
    return y, _build_correction_bases(table, blocks)


def _build_correction_bases(table: pd.DataFrame, blocks: Blocks) -> Bases:
    bases = build_bases(table, blocks)
    rank = bases[frozenset(blocks)].shape[1]
    df = len(table) - rank
    if df < LEAST_DF:
        raise UsageError(
            "too few rows for corrected shares",
            got=f"{len(table)} rows, {df} residual degrees of freedom",
            allowed=f"{LEAST_DF} residual degrees of freedom or more",
        )
    return bases


def _compute_corrected_shares(outcomes: Array, bases: Bases, names: Sequence[str]) -> Array:
    """Corrected shares of every outcome (a row each), outcomes × blocks."""
    return _subtract_chance(measure_r_squared(outcomes, bases), bases, names)


def _subtract_chance(
    r_squared: Mapping[frozenset[str], Array], bases: Bases, names: Sequence[str]
) -> Array:
    """Shares of R² of every outcome, outcomes × blocks, less what blocks of noise would have."""
    every = frozenset(names)
    n, rank = bases[every].shape
    ranks = {chosen: np.array([float(q.shape[1])]) for chosen, q in bases.items()}
    mean_rank = compute_shapley(ranks, names)[0]
    left = (1 - r_squared[every]) / (n - rank)
    by_chance = left[:, None] * mean_rank
    return np.asarray(compute_shapley(r_squared, names) - by_chance)


def measure_gain_r_squared(frame: pd.DataFrame, blocks: Blocks) -> dict[frozenset[str], float]:
    """R² of `log_gain` by every set of blocks."""
    y = check_outcome(frame, "log_gain", blocks)
    bases = build_bases(frame, blocks)
    gain_r_squared = {}
    for chosen, values in measure_r_squared(y[None], bases).items():
        gain_r_squared[chosen] = float(values[0])
    return gain_r_squared


PERMUTATIONS = 4999
ColumnsByBlock = dict[str, list[str]]


def build_model_frame(fit: Fit) -> tuple[pd.DataFrame, ColumnsByBlock]:
    """One row per model: log_gain (mean over prompts), groups, columns of the other blocks; and the
    blocks.

    Families, which lie within labs, are not among them.
    """
    design = fit.designed(MixedDesign)
    blocks = ColumnsByBlock()
    frame = pd.DataFrame({"log_gain": fit.model.observed})
    groups = list_groups(design.mixed)
    for name, basis in list_bases(design).items():
        if name == FAMILY:
            continue
        if name in groups:
            blocks[name] = [name]
            labels = name_groups(fit.rows, groups[name].columns)
            frame[name] = labels.to_numpy()
        else:
            columns = range(basis.shape[1])
            blocks[name] = [f"{name}_{column + 1}" for column in columns]
            frame[blocks[name]] = basis
    return frame, blocks


def run_block_tests(fit: Fit, permutations: int = PERMUTATIONS) -> pd.DataFrame:
    """Block tests on the models' means: method, block, p_value, p_holm, statistic, df, df_residual,
    sd, residual_sd, note.

    Partial F and Freedman–Lane of every block given the others; a mixed model with a random
    intercept a lab, its standard deviations by REML and likelihood-ratio tests (χ²) of geometry and
    scale by maximum likelihood. Holm is across the blocks of one method. What cannot be computed is
    a row whose note says why.
    """
    frame, blocks = build_model_frame(fit)
    lab = name_lab(fit.designed(MixedDesign).mixed)
    shuffled = partial(_record_shuffled_f, frame, blocks, fit.seed, permutations)
    ways: dict[str, Callable[[str], dict[str, object]]] = {
        "partial F": partial(_record_partial_f, frame, blocks),
        "Freedman–Lane": shuffled,
        "mixed model": partial(_record_mixed_model, frame, blocks, lab),
    }
    rows = []
    for method, compute in ways.items():
        for block in blocks:
            row: dict[str, object] = {"method": method, "block": block, "note": ""}
            try:
                rows.append(row | compute(block))
            except UsageError as error:
                rows.append(row | {"note": f"not possible: {error}"})
    columns = [
        "method",
        "block",
        "p_value",
        "statistic",
        "df",
        "df_residual",
        "sd",
        "residual_sd",
        "note",
    ]
    table = pd.DataFrame(rows, columns=columns)
    adjusted = pd.Series(np.nan, index=table.index)
    for _, p in table["p_value"].dropna().groupby(table["method"]):
        in_order = apply_holm(p.to_dict())
        adjusted[p.index] = list(in_order.values())
    table.insert(3, "p_holm", adjusted)
    return table


def list_dominance(fit: Fit) -> pd.DataFrame:
    """Raw shares of R² per block with their permutation null, and corrected; a note where that is
    not possible."""
    frame, blocks = build_model_frame(fit)
    try:
        shares = measure_dominance(frame, "log_gain", blocks, seed=fit.seed)
        corrected = estimate_corrected_shares(frame, "log_gain", blocks)
    except UsageError as error:
        return pd.DataFrame({"note": [f"not possible: {error}"]})
    table = shares.table.assign(corrected=pd.Series(corrected))
    return table.reset_index().assign(
        null_order_probability=shares.null_order_probability,
        claimed_order_null_probability=shares.asked_order_null_probability,
    )


def measure_commonality(fit: Fit) -> pd.DataFrame:
    """R² of geometry and scale each alone and in common, without and given the lab: given, part,
    r_squared.

    unique_g = R²(g, s, ·) − R²(s, ·); common = R²(g, ·) + R²(s, ·) − R²(g, s, ·) − R²(·), which may
    be negative.
    """
    frame, blocks = build_model_frame(fit)
    rows = []
    if not {"geometry", "scale"} <= set(blocks):
        return pd.DataFrame(
            {"note": ["not possible: there is no block of geometry, or none of scale"]}
        )
    r_squared = measure_gain_r_squared(frame, blocks)
    lab = name_lab(fit.designed(MixedDesign).mixed)
    for fixed in dict.fromkeys(["", lab]):
        given = frozenset({fixed} - {""})
        base = r_squared[given]
        g = r_squared[given | {"geometry"}]
        s = r_squared[given | {"scale"}]
        both = r_squared[given | {"geometry", "scale"}]
        common = g + s - both - base
        parts = {"geometry alone": both - s, "scale alone": both - g, "in common": common}
        for part, value in parts.items():
            rows.append({"given": fixed or "nothing", "part": part, "r_squared": value})
    return pd.DataFrame(rows)


def _record_partial_f(frame: pd.DataFrame, blocks: ColumnsByBlock, block: str) -> dict[str, object]:
    f = compute_block_f(frame, "log_gain", blocks)[block]
    return {"statistic": f.f, "df": f.df_block, "df_residual": f.df_residual, "p_value": f.p_value}


def _record_shuffled_f(
    frame: pd.DataFrame, blocks: ColumnsByBlock, seed: int, permutations: int, block: str
) -> dict[str, object]:
    test = run_freedman_lane(frame, "log_gain", blocks, block, seed=seed, permutations=permutations)
    return {"statistic": test.f, "p_value": test.p_value}


def _record_mixed_model(
    frame: pd.DataFrame, blocks: ColumnsByBlock, lab: str, block: str
) -> dict[str, object]:
    """Standard deviations of the model with all other blocks for labs, the likelihood-ratio test of
    another block."""
    if not lab:
        raise UsageError("there are no labs")
    others = []
    for name, columns in blocks.items():
        if name != lab:
            others += columns
    every = " + ".join(others) or "1"
    full = fit_mixed_model(frame, f"log_gain ~ {every}", lab, reml=block == lab)
    if block == lab:
        note = full.note if full.converged else f"did not converge; {full.note}"
        return {"sd": full.group_sd, "residual_sd": full.residual_sd, "note": note}
    left = [column for column in others if column not in blocks[block]]
    rest = " + ".join(left) or "1"
    reduced = fit_mixed_model(frame, f"log_gain ~ {rest}", lab, reml=False)
    df = len(blocks[block])
    if not (full.converged and reduced.converged):
        notes = ["did not converge", full.note]
        return {"df": df, "note": "; ".join(filter(None, notes))}
    statistic = max(2 * (full.log_likelihood - reduced.log_likelihood), 0.0)
    p = float(stats.chi2.sf(statistic, df))
    return {"statistic": statistic, "df": df, "p_value": p, "note": full.note}


TABLES = {
    "classical": run_block_tests,
    "dominance": list_dominance,
    "commonality": measure_commonality,
}
"""Counterparts of the posterior, by name."""
