"""Does one cut separate two kinds? Pairs across kinds within groups, and their exact permutation test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import RESAMPLES
from thermostats.modelling.classical.resampling import MOST_ARRANGEMENTS

ROUNDING = 1e-9


@dataclass(frozen=True)
class Separation:
    """Pairs of a member and a non-member of one group, and how often the member is above."""

    share: float
    """Share of all pairs in which the member is above, ties half."""
    p: float
    """Two-sided p of |pairs above − half of the pairs|, membership permuted within groups; exact but for many rows."""
    smallest_p: float
    """The p of the most extreme arrangement of these numbers."""
    groups: pd.DataFrame
    """Per group with both kinds: group, n, pairs, above, share, and straddling, the kinds with values both above
    and below all values of the other kind."""


def separation(values: ArrayLike, member: ArrayLike, group: ArrayLike) -> Separation:
    """Count pairs across kinds within groups and test the count over all groups together.

    All arrangements are enumerated, of more than 41,000 as many as `RESAMPLES` are drawn. Groups of one kind are left
    out. Raises UsageError where no group has both kinds.
    """
    rows = pd.DataFrame({"value": np.asarray(values, float), "member": np.asarray(member, bool), "group": group})
    sizes = rows.groupby("group")["member"].agg(["size", "sum"]).astype(int)
    exact = math.prod(math.comb(n, k) for n, k in sizes.to_numpy().tolist()) <= MOST_ARRANGEMENTS
    entries, distance, null, rng = [], 0.0, np.zeros(1 if exact else RESAMPLES), np.random.default_rng(1)
    for name, part in rows.groupby("group", sort=False):
        x, chosen = part["value"].to_numpy(), part["member"].to_numpy()
        k, n = int(chosen.sum()), len(part)
        if k in (0, n):
            continue
        half, above = k * (n - k) / 2, pairs_above(x, chosen)
        distance += above - half
        if exact:
            sums = np.array(list(combinations(stats.rankdata(x).tolist(), k))).sum(axis=1)
            null = np.add.outer(null, sums - k * (k + 1) / 2 - half).ravel()
        else:
            null = null + _drawn(x, k, rng) - half
        straddling = sum(_straddles(x[mask], x[~mask]) for mask in (chosen, ~chosen))
        pairs = k * (n - k)
        entries.append((name, n, pairs, above, above / pairs, straddling))
    if not entries:
        raise UsageError("no group has both kinds", got=f"{len(rows)} rows", allowed="members and others in one group")
    groups = pd.DataFrame(entries, columns=["group", "n", "pairs", "above", "share", "straddling"])
    distances = np.abs(null)
    p, smallest = (float((distances >= bar - ROUNDING).mean()) for bar in (abs(distance), distances.max()))
    return Separation(float(groups["above"].sum() / groups["pairs"].sum()), p, smallest, groups)


def pairs_above(values: NDArray[np.float64], member: NDArray[np.bool_]) -> float:
    """Pairs of a member and a non-member in which the member is above, ties half."""
    return float(((1 + np.sign(values[member][:, None] - values[~member][None, :])) / 2).sum())


def _drawn(values: NDArray[np.float64], k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Pairs above of k random members: of ranks R, ΣR over the members less k(k + 1)/2."""
    ranks = np.tile(stats.rankdata(values), (RESAMPLES, 1))
    return np.asarray(rng.permuted(ranks, axis=1)[:, :k].sum(axis=1) - k * (k + 1) / 2)


def _straddles(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    return bool(first.min() < second.min() and first.max() > second.max())
