"""What each block (heritage, geometry, scale) adds to the others: partial F, by its distribution and by permutation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import RESAMPLES, Array, holm
from thermostats.modelling.heritage.designs import Blocks, basis, checked_outcome, designs_of, refuse_saturation


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


def block_f(frame: pd.DataFrame, outcome: str, blocks: Blocks) -> dict[str, BlockF]:
    """Partial F of every block, F = ((RSS_without − RSS_full)/df_block) / (RSS_full/df_residual), Holm across blocks.

    Degrees of freedom are ranks, so columns that others determine count once. Raises UsageError where a block adds
    nothing to the others, no residual degree of freedom is left, or values are missing.
    """
    y, designs = checked_outcome(frame, outcome, blocks), designs_of(frame, blocks)
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
    y, designs = checked_outcome(frame, outcome, blocks), designs_of(frame, blocks)
    observed, (full, reduced) = _partial_f(y, designs, blocks, block), _nested(designs, block)
    fitted = reduced @ (reduced.T @ y)
    shuffled = np.random.default_rng(seed).permuted(np.tile(y - fitted, (permutations, 1)), axis=1) + fitted
    rss_full, rss_reduced = (np.square(shuffled - (shuffled @ q) @ q.T).sum(axis=1) for q in (full, reduced))
    f = (rss_reduced - rss_full) / observed.df_block / (rss_full / observed.df_residual)
    return replace(observed, p_value=float((np.sum(f >= observed.f * (1 - 1e-12)) + 1) / (permutations + 1)))


def _partial_f(y: Array, designs: Mapping[str, Array], blocks: Blocks, block: str) -> BlockF:
    """Partial F of one block, its p not yet adjusted."""
    full, reduced = _nested(designs, block)
    df_residual, df = y.size - full.shape[1], full.shape[1] - reduced.shape[1]
    refuse_saturation(y.size, full.shape[1])
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
    return basis(list(designs.values()), n), basis(others, n)
