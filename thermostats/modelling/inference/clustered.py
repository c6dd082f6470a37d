"""A share with an interval that knows that units of one group are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import Estimate, labels, probability, same_length


@dataclass(frozen=True, kw_only=True)
class ClusteredShare(Estimate):
    """A share of units; `effective_n` is how many independent units would tell as much."""

    effective_n: float
    n_groups: int


def clustered_share(
    holds: Sequence[bool] | pd.Series, groups: Sequence[str] | pd.Series, *, level: float = 0.95
) -> ClusteredShare:
    """Share p of n units in k groups, Clopper–Pearson interval of the effective number of units.

    n* = min(n, p(1 − p)/v) (t_{n−1}/t_{k−1})², v = k/(k − 1) Σ_g (Σ_{i∈g} (y_i − p))²/n², bounds from the beta
    distribution at x = p n* (Korn and Graubard 1998, Survey Methodology 24:193-201). Where p is 0 or 1, or groups do
    not differ, v says nothing and n stands for n*. Raises UsageError for cells neither true nor false, or one group.
    """
    group_of = labels(groups, "groups")
    same_length(holds=holds, groups=groups)
    if not set(holds) <= {True, False}:
        raise UsageError("neither true nor false", where="holds", got=sorted(map(str, set(holds)))[:5])
    y = np.asarray(holds, dtype=np.float64)
    names, codes = np.unique(group_of, return_inverse=True)
    n, k, p = y.size, names.size, float(y.mean())
    if k < 2:
        raise UsageError("one group has no spread over groups", where="groups", got=names[0], allowed="2 or more")
    tail = (1 - probability(level)) / 2
    variance = k / (k - 1) * float(np.square(np.bincount(codes, y - p)).sum()) / n**2
    most = min(float(n), p * (1 - p) / variance) if variance > 0 else float(n)
    effective = most * float(stats.t.isf(tail, n - 1) / stats.t.isf(tail, k - 1)) ** 2
    x = p * effective
    lower = float(stats.beta.ppf(tail, x, effective - x + 1)) if x > 0 else 0.0
    upper = float(stats.beta.isf(tail, x + 1, effective - x)) if p < 1 else 1.0
    return ClusteredShare(
        test="share of units",
        estimate=p,
        lower=lower,
        upper=upper,
        level=level,
        interval="Korn–Graubard interval, units in groups",
        p_value=float("nan"),
        n=n,
        effective_n=effective,
        n_groups=k,
    )
