"""Tests of counts: 2 × 2 tables, proportions, shares above a bound, classifications and cuts, signs
in families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from thermostats.errors import UsageError
from thermostats.modelling.classical.many import ROUNDING, count_chance_pairs
from thermostats.modelling.columns import (
    LEVEL,
    RESAMPLES,
    Array,
    ClassicalEstimate,
    check_probability,
    check_same_length,
    read_labels,
    read_numbers,
)
from thermostats.modelling.populations import Labels, Mask

TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Exceedance(ClassicalEstimate):
    """Share of values above their bounds, and by how much."""

    n_above: int
    ratio: float
    """Geometric mean of value/bound over all values."""
    largest_ratio: float


@dataclass(frozen=True, kw_only=True)
class Accuracy(ClassicalEstimate):
    """Share of right predictions; the p-value is against the share of the most frequent class."""

    majority: float
    balanced_accuracy: float
    """Mean over observed classes of the share predicted right; 0.5 by chance for two classes."""


@dataclass(frozen=True, kw_only=True)
class Threshold(ClassicalEstimate):
    """The best cut of a score; `estimate`, `lower`, `upper` are the cut, the p-value allows for the
    search."""

    accuracy: float
    """In-sample balanced accuracy at the best cut: optimistic, compare with
    `accuracy_by_chance`."""
    accuracy_by_chance: float
    """Mean best balanced accuracy over shuffled outcomes."""


def run_fisher_exact(table: ArrayLike | pd.DataFrame) -> ClassicalEstimate:
    """Fisher's exact test, two-sided (sum over tables no more probable); rows are groups, columns
    outcomes.

    The estimate is the conditional maximum likelihood odds ratio with its exact conditional
    interval (0 and infinity are possible). Both margins are taken as fixed, every count as
    independent: models of one family are not. Raises UsageError for anything but a 2 × 2 table of
    counts with margins above 0.
    """
    counts = _check_two_by_two(table)
    result: Any = stats.contingency.odds_ratio(counts, kind="conditional")
    interval = result.confidence_interval(LEVEL)
    return ClassicalEstimate(
        test="Fisher's exact test of odds ratio 1",
        estimate=float(result.statistic),
        lower=float(interval.low),
        upper=float(interval.high),
        interval="exact conditional interval of the odds ratio",
        p_value=float(stats.fisher_exact(counts)[1]),
        n=int(counts.sum()),
    )


def run_barnard_exact(table: ArrayLike | pd.DataFrame) -> ClassicalEstimate:
    """Barnard's unconditional exact test (Wald statistic, pooled); rows are groups of fixed size,
    columns outcomes.

    The estimate is the first row's share of the first column less the second row's, with Newcombe's
    hybrid score interval (1998,
    doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I), which is not exact.
    Raises UsageError as `run_fisher_exact` does.
    """
    counts = _check_two_by_two(table)
    (a, _), (c, _) = counts.tolist()
    n1, n2 = map(int, counts.sum(axis=1))
    low, high = confint_proportions_2indep(
        a, n1, c, n2, compare="diff", method="newcomb", alpha=1 - LEVEL
    )
    return ClassicalEstimate(
        test="Barnard's exact test of equal proportions",
        estimate=a / n1 - c / n2,
        lower=float(low),
        upper=float(high),
        interval="Newcombe score interval of the difference in proportions",
        p_value=float(stats.barnard_exact(counts.T).pvalue),
        n=int(counts.sum()),
    )


def estimate_proportion(k: int, n: int, *, against: float = 0.5) -> ClassicalEstimate:
    """Share k/n with Clopper–Pearson interval and two-sided exact binomial test against a given
    share."""
    are_whole = isinstance(k, int | np.integer) and isinstance(n, int | np.integer)
    if not are_whole or n < 1 or not 0 <= k <= n:
        raise UsageError(
            "not a count of n", got=f"{k} of {n}", allowed="whole numbers, 0 ≤ k ≤ n, n ≥ 1"
        )
    test = f"binomial test of the share against {against:g}"
    tested = check_probability(against, "against")
    return _estimate_binomial(k, n, tested, "two-sided", test)


def measure_exceedance(
    values: ArrayLike, bounds: ArrayLike | float, *, tolerated: float = 0.05
) -> Exceedance:
    """Share of values above their own bounds, and the geometric mean of value/bound.

    The p-value is the one-sided exact binomial P(K ≥ k | share = tolerated): how surprising so many
    exceedances are if at most that share may lie above, by error of measurement. A strict bound is
    refuted by one. Raises UsageError for missing values, values or bounds not above 0, or fewer
    than 2 values.
    """
    x = read_numbers(values, "values", positive=True)
    own_bounds = np.full(x.size, bounds) if np.ndim(bounds) == 0 else bounds
    limit = read_numbers(own_bounds, "bounds", positive=True)
    check_same_length(values=x, bounds=limit)
    is_above = x > limit
    above = int(is_above.sum())
    logs = np.log(x / limit)
    test = f"binomial test that at most {tolerated:g} of the values lie above their bounds"
    against = check_probability(tolerated, "tolerated")
    share = _estimate_binomial(above, x.size, against, "greater", test)
    return Exceedance(
        **vars(share),
        n_above=above,
        ratio=math.exp(logs.mean()),
        largest_ratio=math.exp(logs.max()),
    )


def measure_accuracy(predicted: Labels, observed: Labels) -> Accuracy:
    """Share of right predictions with Clopper–Pearson interval, and p against the larger class's
    share.

    p is the one-sided exact binomial test against the majority share of these same observations, a
    rate taken as known. Raises UsageError for missing labels, unequal lengths or no rows.
    """
    guess = read_labels(predicted, "predicted")
    truth = read_labels(observed, "observed")
    check_same_length(predicted=guess, observed=truth)
    classes, n_of = np.unique(truth, return_counts=True)
    majority = float(n_of.max() / truth.size)
    test = "binomial test of the accuracy against the share of the larger class"
    if majority == 1:
        test = "none: only one class was observed, the share of the larger class cannot be beaten"
    is_right = guess == truth
    right = int(is_right.sum())
    share = _estimate_binomial(right, truth.size, majority, "greater", test)
    if majority == 1:
        share = replace(share, p_value=math.nan)
    by_class = [(guess[truth == c] == c).mean() for c in classes]
    balanced = float(np.mean(by_class))
    return Accuracy(**vars(share), majority=majority, balanced_accuracy=balanced)


def find_roc_threshold(
    scores: ArrayLike,
    outcomes: Sequence[bool] | pd.Series | Mask,
    *,
    seed: int,
    resamples: int = 2000,
) -> Threshold:
    """Best cut of a score for a yes/no outcome, with a p-value that allows for the search.

    Every midpoint between neighbouring distinct scores is tried in both directions; the best has
    the largest balanced accuracy (the middle one of ties). p = (b + 1)/(m + 1) over shuffled
    outcomes, each searched in the same way. The interval is the percentile bootstrap of the best
    cut. Raises UsageError for fewer than 4 points, a constant score or one outcome only.
    """
    x = read_numbers(scores, "scores", least=4, varied=True)
    y = _read_truth_values(outcomes)
    check_same_length(scores=x, outcomes=y)
    rng = np.random.default_rng(seed)
    tail = (1 - LEVEL) / 2
    cut, accuracy = _find_best_cut(x, y)
    by_chance = []
    for _ in range(resamples):
        by_chance.append(_find_best_cut(x, rng.permutation(y))[1])
    null = np.array(by_chance)
    cuts: list[float] = []
    while len(cuts) < resamples:
        chosen = rng.integers(0, x.size, x.size)
        scores_drawn = x[chosen]
        outcomes_drawn = y[chosen]
        if np.ptp(scores_drawn) > 0 and np.ptp(outcomes_drawn) > 0:
            cuts.append(_find_best_cut(scores_drawn, outcomes_drawn)[0])
    low, high = np.quantile(cuts, [tail, 1 - tail])
    is_as_good = null >= accuracy - TOLERANCE
    as_good = np.sum(is_as_good)
    return Threshold(
        test="permutation test of the best balanced accuracy over all cuts",
        estimate=cut,
        lower=float(low),
        upper=float(high),
        interval="percentile bootstrap of the best cut, resamples with both outcomes and two "
        "scores or more",
        p_value=float((as_good + 1) / (resamples + 1)),
        n=x.size,
        accuracy=accuracy,
        accuracy_by_chance=float(null.mean()),
    )


def _check_two_by_two(table: ArrayLike | pd.DataFrame) -> NDArray[np.int64]:
    counts = np.asarray(table, dtype=np.float64)
    if (
        counts.shape != (2, 2)
        or not np.isfinite(counts).all()
        or (counts < 0).any()
        or (counts % 1 != 0).any()
    ):
        raise UsageError(
            "not a 2 × 2 table of counts",
            got=counts.tolist(),
            allowed="two rows of two whole numbers, 0 or more",
        )
    if (counts.sum(axis=0) == 0).any() or (counts.sum(axis=1) == 0).any():
        raise UsageError(
            "an empty row or column decides nothing", got=counts.tolist(), allowed="margins above 0"
        )
    return counts.astype(np.int64)


def _read_truth_values(outcomes: Sequence[bool] | pd.Series | Mask) -> Array:
    """0 and 1, both there."""
    numbers = np.asarray(outcomes, dtype=np.float64)
    if set(numbers) != {0.0, 1.0}:
        raise UsageError(
            "the outcome does not vary",
            where="outcomes",
            got=sorted(set(numbers)),
            allowed="both true and false",
        )
    return numbers


@lru_cache(256)
def _estimate_binomial(
    k: int, n: int, against: float, alternative: str, test: str
) -> ClassicalEstimate:
    result: Any = stats.binomtest(int(k), int(n), against, alternative=alternative)
    interval = stats.binomtest(int(k), int(n)).proportion_ci(LEVEL, method="exact")
    return ClassicalEstimate(
        test=test,
        estimate=result.k / result.n,
        lower=float(interval.low),
        upper=float(interval.high),
        interval="Clopper–Pearson exact interval",
        p_value=float(result.pvalue),
        n=int(n),
    )


def _find_best_cut(x: Array, y: Array) -> tuple[float, float]:
    """Cut and its balanced accuracy, in the better direction."""
    values = np.unique(x)
    cuts = (values[1:] + values[:-1]) / 2
    above = x[:, None] > cuts[None, :]
    right = above[y == 1].mean(axis=0) + 1 - above[y == 0].mean(axis=0)
    balanced = right / 2
    both = np.maximum(balanced, 1 - balanced)
    ties = np.flatnonzero(both >= both.max() - TOLERANCE)
    middle = ties.size // 2
    best = int(ties[middle])
    return float(cuts[best]), float(both[best])


@dataclass(frozen=True)
class Separation:
    """Pairs of a member and a non-member of one group, and how often the member is above."""

    share: float
    """Share of all pairs in which the member is above, ties half."""
    p: float
    """Two-sided p of |pairs above − half of the pairs|, membership permuted within groups; exact
    but for many rows."""
    smallest_p: float
    """The p of the most extreme arrangement of these numbers."""
    groups: pd.DataFrame
    """Per group with both kinds: group, n, pairs, above, share, and straddling, the kinds with
    values both above and below all values of the other kind."""


def measure_separation(values: ArrayLike, member: ArrayLike, group: ArrayLike) -> Separation:
    """Count pairs across kinds within groups and test the count over all groups together.

    All arrangements are enumerated, of more than 41,000 as many as `RESAMPLES` are drawn. Groups of
    one kind are left out. Raises UsageError where no group has both kinds.
    """
    is_member = np.asarray(member, bool)
    numbers = np.asarray(values, float)
    columns = {"value": numbers, "member": is_member, "group": group}
    rows = pd.DataFrame(columns)
    entries = []
    distance = 0.0
    ranks = []
    for name, part in rows.groupby("group", sort=False):
        x = part["value"].to_numpy()
        chosen = part["member"].to_numpy()
        k = int(chosen.sum())
        n = len(part)
        if k in (0, n):
            continue
        pairs = k * (n - k)
        above = count_pairs_above(x, chosen)
        distance += above - pairs / 2
        ranks.append((stats.rankdata(x), k))
        ours = x[chosen]
        others = x[~chosen]
        straddling = _is_straddling(ours, others) + _is_straddling(others, ours)
        entries.append((name, n, pairs, above, above / pairs, straddling))
    if not entries:
        raise UsageError(
            "no group has both kinds",
            got=f"{len(rows)} rows",
            allowed="members and others in one group",
        )
    groups = pd.DataFrame(entries, columns=["group", "n", "pairs", "above", "share", "straddling"])
    counted = count_chance_pairs(ranks, RESAMPLES)
    distances = np.abs(counted)
    p = float((distances >= abs(distance) - ROUNDING).mean())
    smallest = float((distances >= distances.max() - ROUNDING).mean())
    share = float(groups["above"].sum() / groups["pairs"].sum())
    return Separation(share, p, smallest, groups)


def count_pairs_above(values: Array, member: Mask) -> float:
    """Pairs of a member and a non-member in which the member is above, ties half."""
    apart = values[member][:, None] - values[~member][None, :]
    return float(((1 + np.sign(apart)) / 2).sum())


def _is_straddling(first: Array, second: Array) -> bool:
    is_lower = first.min() < second.min()
    return bool(is_lower and first.max() > second.max())


LEAST_POINTS = 4
"""Points in a piece: a line has two parameters, and three points often lie near one."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """The best partition of a curve into a given number of straight pieces."""

    starts: tuple[float, ...]
    """Where each piece but the first begins."""
    bic: float


def fit_phases(x: ArrayLike, y: ArrayLike, *, most: int = 7) -> dict[int, Phases]:
    """Best least-squares partitions of y over x into 1 … `most` straight pieces, by dynamic
    programming.

    BIC = n log(RSS/n) + 4k log n for k pieces: two coefficients each, and a border that costs as
    much as two, since it is searched for (Zhang and Siegmund 2007,
    doi:10.1111/j.1541-0420.2006.00662.x). Pieces need not meet. Only as many pieces are tried as
    have four points each.

    Raises UsageError for fewer than 8 points, missing values, x not increasing.
    """
    x = read_numbers(x, "x", least=2 * LEAST_POINTS)
    y = read_numbers(y, "y", least=2 * LEAST_POINTS, varied=True)
    check_same_length(x=x, y=y)
    if not (np.diff(x) > 0).all():
        raise UsageError(
            "x does not increase", where="x", got="a step of 0 or less", allowed="increasing layers"
        )
    n = x.size
    cost = _measure_costs(x, y)
    best = [cost[0]]
    cut = [np.zeros(n + 1, dtype=int)]
    for _ in range(1, min(most, n // LEAST_POINTS)):
        totals = best[-1][:, None] + cost
        best.append(totals.min(axis=0))
        cut.append(totals.argmin(axis=0))
    floor = 1e-12 * float(np.square(y - y.mean()).sum())
    fits = {}
    for k, totals in enumerate(best, 1):
        ends = []
        end = n
        for level in range(k - 1, 0, -1):
            end = int(cut[level][end])
            ends.append(end)
        rss = max(float(totals[n]), floor)
        bic = n * math.log(rss / n) + 4 * k * math.log(n)
        starts = tuple(float(x[end]) for end in reversed(ends))
        fits[k] = Phases(starts=starts, bic=bic)
    return fits


def _measure_costs(x: Array, y: Array) -> Array:
    """Residual sum of squares of a line through points i … j − 1, at [i, j]; infinite for too few
    points."""
    n = x.size
    cost = np.full((n + 1, n + 1), math.inf)
    for i in range(n):
        for j in range(i + LEAST_POINTS, n + 1):
            dx = x[i:j] - x[i:j].mean()
            dy = y[i:j] - y[i:j].mean()
            left = dy @ dy - (dx @ dy) ** 2 / (dx @ dx)
            cost[i, j] = max(0.0, float(left))
    return cost
