"""Corrected shares of blocks and the differences between them, with jackknife intervals over the rows.

share_b = (LMG share − its mean under shuffling)/(1 − null R²), see `blocks.dominance`; with θ̂_(i) an estimate without
row i, se² = (n − 1)/n · Σ (θ̂_(i) − mean θ̂_(i))² and the interval is θ̂ ± t_(n − 1) · se (Tukey 1958; Miller 1974,
doi:10.1093/biomet/61.1.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.modelling.heritage.shares import Blocks, Dominance, dominance

Differences = Sequence[tuple[str, str]]
"""Pairs of blocks: the share of the first less that of the second."""


def with_differences(found: Dominance, differences: Differences) -> list[float]:
    """Corrected share of every block, then the differences."""
    share = found.adjusted
    return [*share.values(), *(share[a] - share[b] for a, b in differences)]


def jackknifed_shares(
    rows: pd.DataFrame,
    outcome: str,
    blocks: Blocks,
    differences: Differences,
    *,
    seed: int,
    whole: Dominance | None = None,
    level: float = 0.95,
) -> pd.DataFrame:
    """Columns what, estimate, lower, upper: every block, then every difference, rows left out one by one.

    whole: the dominance analysis of all rows with the same seed, where it is at hand. Raises UsageError as `dominance`
    does, also where one row less leaves no residual degree of freedom.
    """
    whole = whole or dominance(rows, outcome, blocks, seed=seed)
    estimates = np.array(with_differences(whole, differences))
    left_out = np.array(
        [with_differences(dominance(rows.drop(index=i), outcome, blocks, seed=seed), differences) for i in rows.index]
    )
    n = len(rows)
    errors = np.sqrt((n - 1) / n * np.square(left_out - left_out.mean(axis=0)).sum(axis=0))
    half = stats.t.ppf((1 + level) / 2, n - 1) * errors
    names = [*blocks, *(f"{a} − {b}" for a, b in differences)]
    return pd.DataFrame({"what": names, "estimate": estimates, "lower": estimates - half, "upper": estimates + half})
