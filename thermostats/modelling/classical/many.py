"""Tests of many studies of one design at once: what single tests give, as arrays with one element a
study."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.interval_laws import IntervalLaw, ShareLaw, StudentLaw
from thermostats.modelling.columns import LEVEL, Array, read_numbers
from thermostats.modelling.populations import (
    Codes,
    Labels,
    Mask,
    indicate_groups,
    number_groups,
    weigh_group_means,
)

MOST_ARRANGEMENTS = 41_000
"""Arrangements listed one by one at most: 8! = 40,320 pairings, 2^15 sign flips."""
RESAMPLES = 1499
"""Rearrangements where not all are listed, the same for every study."""
HELD = 20_000_000
"""Statistics of rearrangements held at once."""
LEAST_CLUSTERS = 3
"""Clusters of a slope, and values on a side of a difference."""
ROUNDING, CERTAIN = 1e-9, 1e-12
"""Statistics nearer to one another are equal; a correlation nearer to 1 or −1 has no interval."""


AtOnce = Callable[..., Mapping[str, Any]]
"""Rows and outcomes (study × row) to estimates of every study, by the names that a rule reads; of a
table a list of rows, each the estimates by name. What it takes besides has defaults for many
studies."""


@dataclass(frozen=True)
class Many:
    """Estimates of many studies, by the names that rules use."""

    estimate: Array
    lower: Array
    upper: Array
    p: Array
    law: IntervalLaw | None = None
    """By which intervals were made; None: there are none, or nobody asks."""

    def shift(self, by: float) -> Many:
        """The same of a quantity that is larger by a number."""
        ends = {name: getattr(self, name) + by for name in ("estimate", "lower", "upper")}
        return replace(self, **ends)


def measure_margin(error: Array | float, df: Any, level: float = LEVEL) -> Array:
    """Half of an interval of Student's t."""
    return np.asarray(stats.t.ppf((1 + level) / 2, df) * error)


def infer_by_student(
    estimate: Array, error: Array, df: float, *, against: float = 0.0, level: float = LEVEL
) -> Many:
    """An interval of a level by Student's t, and the two-sided p of the same t against a number."""
    half = measure_margin(error, df, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * stats.t.sf(np.abs(estimate - against) / error, df)
    return Many(estimate, estimate - half, estimate + half, p, StudentLaw(df, level=level))


def shuffle_values(values: NDArray[Any], resamples: int, rng: np.random.Generator) -> NDArray[Any]:
    """Values in so many orders, one a row."""
    return rng.permuted(np.tile(values, (resamples, 1)), axis=1)


def _cut_slices(size: int, numbers: int) -> list[slice]:
    """Slices of so many studies or pairs, of which each takes so many numbers and `HELD` fit."""
    step = max(1, HELD // numbers)
    return [slice(start, start + step) for start in range(0, size, step)]


def estimate_correlations(
    x: Array | pd.Series,
    outcomes: Array,
    *,
    method: Literal["pearson", "spearman"] = "pearson",
    groups: Labels | None = None,
    seed: int = 0,
    resamples: int = 0,
    exact: bool = True,
) -> Many:
    """Correlation r of x with every row of `outcomes` (study × row), its interval, and its
    two-sided p.

    groups: where there are k > 1 of them, r is that within groups: both less the mean of their
    group, x shuffled within groups, and n − k + 1 in the place of n in the interval.

    Fisher: tanh(artanh r ± z s), s² = 1/(n − 3) for Pearson and (1 + r²/2)/(n − 3) for Spearman
    (Bonett and Wright 2000, doi:10.1007/BF02294183).

    p: of |r| over all n! pairings for n ≤ 8 without groups; else that of t = r √(ν/(1 − r²)) with
    ν = n − k − 1, which has no floor, or of so many rearrangements as `resamples` says, which
    cannot be below 1/(resamples + 1). exact: whether it is over all pairings where these are few.

    Raises UsageError for fewer than 4 points, a constant column, or missing values.
    """
    x = read_numbers(x, "x", least=4, varied=True)
    read_numbers(outcomes[0], "y", least=4, varied=True)
    codes = number_groups(groups, x.size)
    k = int(codes.max()) + 1
    df = x.size - k - 2
    if df < 1:
        raise UsageError(
            "too few points inside groups", got=f"{x.size} points in {k} groups", allowed="3 more"
        )
    if k > 1:
        within = indicate_groups(codes)
        within /= within.sum(axis=0)
        x = x - (x @ within)[codes]
        outcomes = outcomes - (outcomes @ within)[:, codes]
    if method == "spearman":
        x = stats.rankdata(x)
        outcomes = stats.rankdata(outcomes, axis=1)
    x = _normalise_rows(x)
    y = _normalise_rows(outcomes)
    r = np.clip(y @ x, -1.0, 1.0)
    squares = 1 if method == "pearson" else 1 + r * r / 2
    half = stats.norm.ppf((1 + LEVEL) / 2) * np.sqrt(squares / df)
    z = np.arctanh(np.where(np.abs(r) < 1 - CERTAIN, r, math.nan))
    if resamples or (exact and _lists_orders(x.size, k)):
        orders = _permute_predictor(x, codes, seed, resamples)
        p = _compute_permutation_p(orders, y, r)
    else:
        p = _compute_correlation_p(r, x.size - k - 1)
    law = StudentLaw(scale="atanh")
    return Many(r, np.tanh(z - half), np.tanh(z + half), p, law)


def _lists_orders(size: int, groups: int) -> bool:
    """Whether all orders of so many points are listed."""
    return groups == 1 and math.factorial(size) <= MOST_ARRANGEMENTS


def _compute_correlation_p(r: Array, df: int) -> Array:
    """Two-sided p of a correlation by t; 0 where it is 1 or −1."""
    with np.errstate(divide="ignore"):
        scale = np.sqrt(df / (1 - r * r))
        t = np.abs(r) * scale
    return np.asarray(2 * stats.t.sf(t, df))


def describe_rearrangements(size: int, groups: int = 1, resamples: int = 0) -> str:
    """How p of a correlation of so many points in so many groups is counted."""
    if _lists_orders(size, groups):
        return f"exact, all {math.factorial(size)} arrangements"
    if not resamples:
        return f"t of the correlation, {size - groups - 1} degrees of freedom"
    return f"Monte Carlo{' within groups' * (groups > 1)}, (b + 1)/({resamples} + 1)"


@lru_cache(4)
def list_orders(n: int) -> Array:
    """All n! orders of n places, one a row."""
    orders = permutations(range(n))
    return np.array(list(orders))


def count_draws(drawn: Codes, n: int) -> Array:
    """How often each of n rows is among those drawn, resample × row."""
    times = np.zeros((len(drawn), n))
    resamples = np.arange(len(drawn))[:, None]
    np.add.at(times, (resamples, drawn), 1.0)
    return times


def standardise_resampled(values: Array, times: Array, *, ranked: bool) -> Array:
    """Values, or their ranks, over resampled rows, off their mean and of length 1; NaN where
    nothing varies."""
    if ranked:
        column = values[:, None]
        below = values < column
        equal = values == column
        ranks = below + 0.5 * equal
        values = times @ ranks.T
    size = times.shape[1]
    centred = values - (times * values).sum(axis=1, keepdims=True) / size
    squares = (times * np.square(centred)).sum(axis=1, keepdims=True)
    spread = np.sqrt(squares)
    sizes = np.abs(values)
    least = 1e-12 * sizes.max()
    return np.asarray(centred / np.where(spread > least, spread, np.nan))


def estimate_within_correlations(x: Array, outcomes: Array, *, seed: int, resamples: int) -> Many:
    """Mean over models of rank correlations over prompts, as
    `association.estimate_within_correlation` has it of one study.

    x: prompt × model; outcomes: study × prompt × model. With w_i how often prompt i is drawn and r
    its rank by x, the product with the ranks of y is ½ Σ_{i<j} w_i w_j (r_i − r_j) sign(y_i − y_j),
    and the squared length of these (n³ − Σ_t W_t³)/12 whatever their order, W_t how often prompts
    of one value of y are drawn. Raises UsageError for fewer than four prompts, and for models of
    which x, or y in the first study, is the same for all prompts.
    """
    _, n, m = outcomes.shape
    rng = np.random.default_rng(seed)
    for name, columns in (("x", x.T), ("y", outcomes[0].T)):
        for column in columns:
            read_numbers(column, f"{name} of a model", least=4, varied=True)
    shuffled = shuffle_values(np.arange(n), resamples, rng)
    times = count_draws(rng.integers(0, n, (resamples, n)), n)
    models = count_draws(rng.integers(0, m, (resamples, m)), m)
    ranks = _normalise_rows(stats.rankdata(x.T, axis=1)) / m
    ranked = stats.rankdata(outcomes, axis=1)
    y = _normalise_rows(ranked.swapaxes(1, 2))
    places = np.vstack([np.arange(n), np.argsort(shuffled, axis=1)])
    orders = np.moveaxis(ranks[:, places], 0, 1)
    arranged = orders.reshape(len(places), -1)
    y = y.reshape(len(y), -1)
    r = y @ arranged[0]
    drawn = _resample_rank_correlations(x, outcomes, times, models)
    tail = (1 - LEVEL) / 2
    lower, upper = np.nanquantile(drawn, [tail, (1 + LEVEL) / 2], axis=1)
    p = _compute_permutation_p(arranged, y, r)
    return Many(r, lower, upper, p, StudentLaw(min(n, m) - 1))


def _resample_rank_correlations(x: Array, outcomes: Array, times: Array, models: Array) -> Array:
    """Mean rank correlation over resampled models and prompts, study × resample; times, models: how
    often each is."""
    first, second = np.triu_indices(len(x), 1)
    of_models = [standardise_resampled(column, times, ranked=True) for column in x.T]
    shape = (len(outcomes), len(times))
    total = np.zeros(shape)
    weights = np.zeros(shape)
    pairs = _cut_slices(first.size, max(shape))
    for place, of_model in enumerate(of_models):
        values = outcomes[:, :, place]
        lengths = _measure_rank_lengths(values, times)
        varies = np.isfinite(of_model[:, 0]) & (lengths > 0)
        products = np.zeros(shape)
        for at in pairs:
            i = first[at]
            j = second[at]
            apart = np.nan_to_num(of_model[:, i] - of_model[:, j])
            signs = np.sign(values[:, i] - values[:, j])
            weighted = times[:, i] * times[:, j] * apart / 2
            products += signs @ weighted.T
        weight = models[:, place] * varies
        total += weight * products / np.where(varies, lengths, 1.0)
        weights += weight
    with np.errstate(invalid="ignore"):
        return total / np.where(weights > 0, weights, np.nan)


def _measure_rank_lengths(values: Array, times: Array) -> Array:
    """Lengths of the ranks of values (study × prompt) over resampled prompts, off their mean, study
    × resample; of all studies alike where no two values of a study are equal."""
    equal = values[:, :, None] == values[:, None, :]
    n = values.shape[1]
    if equal.sum() == values.size:
        equal = np.eye(n, dtype=bool)[None]
    tied = np.einsum("snm,rm->srn", equal, times, optimize=True)
    cubes = (times * np.square(tied)).sum(axis=2)
    squares = np.maximum(n**3 - cubes, 0.0) / 12
    return np.asarray(np.sqrt(squares))


def count_chance_pairs(groups: Sequence[tuple[Array, int]], resamples: int = RESAMPLES) -> Array:
    """Pairs in which one of k members is above another of its group, less half of them, over all
    groups.

    groups: ranks and k. In all choices of members, of more than 41,000 in some drawn at random.
    """
    arrangements = math.prod(math.comb(ranks.size, k) for ranks, k in groups)
    exact = arrangements <= MOST_ARRANGEMENTS
    null = np.zeros(1 if exact else resamples)
    rng = np.random.default_rng(1)
    for ranks, k in groups:
        least = k * (k + 1) / 2 + k * (ranks.size - k) / 2
        if exact:
            choices = combinations(ranks.tolist(), k)
            chosen = np.array(list(choices))
            null = np.add.outer(null, chosen.sum(axis=1) - least).ravel()
        else:
            shuffled = shuffle_values(ranks, resamples, rng)
            chosen = shuffled[:, :k]
            null = null + chosen.sum(axis=1) - least
    return null


@lru_cache(maxsize=256)
def _measure_untied_distances(sizes: tuple[tuple[int, int], ...]) -> Array:
    """The same of many studies, in groups of n with k members and no ties."""
    groups = [(np.arange(1.0, n + 1), k) for n, k in sizes]
    distances = np.abs(count_chance_pairs(groups))
    return np.sort(distances)


def measure_separations(
    outcomes: Array, member: Mask, group: Labels, *, resamples: int = RESAMPLES
) -> tuple[Many, list[tuple[Array, Array]]]:
    """Share of pairs in which a member is above another of its group, ties half, and its two-sided
    exact p.

    p is that of |pairs above − half of the pairs|, membership permuted within groups, of more than
    41,000 arrangements some drawn at random; no two outcomes of several studies are equal. And of
    every group with both kinds the share, and how many kinds have values both above and below all
    values of the other. Raises UsageError where there is none.
    """
    by_group = []
    above = np.zeros(len(outcomes))
    pairs = 0
    groups = find_sided_groups(member, group)
    read_numbers(outcomes[0], "values")
    for ours, others in groups:
        first = outcomes[:, ours]
        second = outcomes[:, others]
        apart = first[:, :, None] - second[:, None, :]
        of_group = ((1 + np.sign(apart)) / 2).sum(axis=(1, 2))
        low = np.sign(first.min(axis=1) - second.min(axis=1))
        high = np.sign(first.max(axis=1) - second.max(axis=1))
        straddles = (low * high < 0).astype(np.float64)
        n_pairs = ours.size * others.size
        by_group.append((of_group / n_pairs, straddles))
        above = above + of_group
        pairs = pairs + n_pairs
    null = draw_chance_distances(outcomes, groups, resamples)
    distances = np.abs(above - pairs / 2)
    p = 1 - np.searchsorted(null, distances - ROUNDING) / null.size
    shares = wrap_counts(above / pairs)
    return replace(shares, p=p), by_group


def find_sided_groups(member: Mask, group: Labels) -> list[tuple[Codes, Codes]]:
    """Places of members and of others of every group that has both; raises UsageError where none
    has."""
    places = []
    if len(member):
        codes = number_groups(group, len(member))
        places = _locate_clusters(codes)
    found = []
    for at in places:
        inside = member[at]
        if inside.any() and not inside.all():
            found.append((at[inside], at[~inside]))
    if not found:
        raise UsageError(
            "no group has both kinds",
            got=f"{len(member)} rows",
            allowed="members and others in one group",
        )
    return found


def draw_chance_distances(
    outcomes: Array, groups: Sequence[tuple[Codes, Codes]], resamples: int = RESAMPLES
) -> Array:
    """|pairs above − half of them| by chance, from the smallest on; of one study with its ties."""
    if len(outcomes) > 1:
        sizes = tuple((ours.size + others.size, ours.size) for ours, others in groups)
        return _measure_untied_distances(sizes)
    ranks = []
    for sides in groups:
        both = np.concatenate(sides)
        rows = np.sort(both)
        ranks.append((stats.rankdata(outcomes[0, rows]), sides[0].size))
    counted = count_chance_pairs(ranks, resamples)
    return np.sort(np.abs(counted))


def estimate_means(
    outcomes: Array, against: float = 0.0, level: float = LEVEL, least: int = 0
) -> Many:
    """Mean of every study with its t interval of a level, and the two-sided p of the same t against
    a number.

    least: values below which UsageError is raised, as it then is for missing ones and where none
    varies.
    """
    if least:
        first = outcomes[0]
        read_numbers(first, "values", least=least, varied=True)
    n = outcomes.shape[1]
    mean = outcomes.mean(axis=1)
    error = outcomes.std(axis=1, ddof=1) / math.sqrt(n)
    return infer_by_student(mean, error, n - 1, against=against, level=level)


def take_group_means(outcomes: Array, groups: Labels) -> Array:
    """Means of groups, study × group, in the order in which groups are met."""
    codes = number_groups(groups, outcomes.shape[1])
    return outcomes @ weigh_group_means(codes)


def transform_logs(logs: Many) -> Many:
    """Ratios of the same level: estimate and interval are exponentials."""
    law = replace(logs.law, scale="log") if isinstance(logs.law, StudentLaw) else None
    ends = {name: np.exp(getattr(logs, name)) for name in ("estimate", "lower", "upper")}
    return replace(logs, **ends, law=law)


def bootstrap_means(outcomes: Array, seed: int) -> Many:
    """Mean of every study with its BCa interval, as `association.bootstrap_bca` has it; all studies
    are resampled alike.

    There is no p, and the law is that of t of so many values. The interval of values that are all
    alike is their mean.
    """
    studies, n = outcomes.shape
    chosen = np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
    times = np.zeros((RESAMPLES, n))
    resampled = np.arange(RESAMPLES)[:, None]
    np.add.at(times, (resampled, chosen), 1 / n)
    mean = outcomes.mean(axis=1)
    off = outcomes - outcomes.mean(axis=1, keepdims=True)
    ends = np.empty((2, studies))
    with np.errstate(divide="ignore", invalid="ignore"):
        cubes = (off**3).sum(axis=1) / 6
        turn = cubes / (off**2).sum(axis=1) ** 1.5
        for at in _cut_slices(studies, RESAMPLES):
            drawn = np.round(off[at] @ times.T, 12)
            drawn = np.sort(drawn, axis=1)
            below = (drawn < 0).sum(axis=1) + (drawn <= 0).sum(axis=1)
            z = stats.norm.ppf(below / 2 / RESAMPLES)
            for end, tail in enumerate(((1 - LEVEL) / 2, (1 + LEVEL) / 2)):
                quantile = stats.norm.ppf(tail)
                moved = z + quantile
                stretched = moved / (1 - turn[at] * moved)
                share = stats.norm.cdf(z + stretched)
                ends[end, at] = mean[at] + _read_sorted_quantile(drawn, share)
    alike = np.ptp(outcomes, axis=1) <= 0
    lower, upper = np.where(alike, mean, ends)
    none = np.full(studies, math.nan)
    return Many(mean, lower, upper, none, StudentLaw(n - 1))


def _read_sorted_quantile(values: Array, share: Array) -> Array:
    """The quantile of every row, linear between two values; NaN for a share that is NaN."""
    place = np.nan_to_num(share) * (values.shape[1] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.ceil(place).astype(np.int64)
    below = np.take_along_axis(values, low[:, None], 1)[:, 0]
    above = np.take_along_axis(values, high[:, None], 1)[:, 0]
    between = below + (place - low) * (above - below)
    return np.where(np.isnan(share), math.nan, between)


def estimate_shares(outcomes: Array, against: float = 0.5) -> Many:
    """Share of true values of every study, Clopper–Pearson interval, and the two-sided exact p
    against a share.

    Of no values there is no share, and its interval is the whole range.
    """
    n = outcomes.shape[1]
    k = outcomes.sum(axis=1).astype(np.int64)
    law = ShareLaw(n)
    if n == 0:
        none = np.full(len(outcomes), math.nan)
        return Many(none, np.zeros(len(none)), np.ones(len(none)), none, law)
    tail = (1 - LEVEL) / 2
    counts, place = np.unique(k, return_inverse=True)
    lower = np.zeros(len(counts))
    some = counts[counts > 0]
    lower[counts > 0] = stats.beta.ppf(tail, some, n - some + 1)
    upper = np.ones(len(counts))
    not_all = counts[counts < n]
    upper[counts < n] = stats.beta.isf(tail, not_all + 1, n - not_all)
    p = np.array([stats.binomtest(int(count), n, against).pvalue for count in counts])
    return Many(k / n, lower[place], upper[place], p[place], law)


def estimate_grouped_shares(outcomes: Array, groups: Labels) -> Many:
    """Share p of true values of every study, n units in k groups, with the interval of their
    effective number.

    n* = min(n, p(1 − p)/v) (t_{n−1}/t_{k−1})², v = k/(k − 1) Σ_g (Σ_{i∈g} (y_i − p))²/n², bounds
    from the beta distribution at x = p n* (Korn and Graubard 1998, Survey Methodology 24:193-201).
    Where p is 0 or 1, or groups do not differ, v says nothing and n stands for n*. There is no
    p-value.
    """
    codes, names = pd.factorize(np.asarray(groups))
    n = outcomes.shape[1]
    k = len(names)
    tail = (1 - LEVEL) / 2
    if k < 2:
        raise UsageError(
            "one group has no spread over groups", where="groups", got=names[0], allowed="2 or more"
        )
    y = outcomes.astype(np.float64)
    p = y.mean(axis=1)
    by_group = (y - p[:, None]) @ indicate_groups(codes)
    squares = np.square(by_group).sum(axis=1)
    variance = k / (k - 1) * squares / n**2
    independent = np.full_like(p, float(n))
    np.divide(p * (1 - p), variance, out=independent, where=variance > 0)
    most = np.minimum(n, independent)
    ratio = float(stats.t.isf(tail, n - 1) / stats.t.isf(tail, k - 1))
    effective = most * ratio**2
    x = p * effective
    least = stats.beta.ppf(tail, x, effective - x + 1)
    greatest = stats.beta.isf(tail, x + 1, effective - x)
    lower = np.where(x > 0, least, 0.0)
    upper = np.where(p < 1, greatest, 1.0)
    return Many(p, lower, upper, np.full_like(p, math.nan), ShareLaw(effective))


def wrap_counts(numbers: Array) -> Many:
    """Numbers without interval and p."""
    none = np.full(len(numbers), math.nan)
    return Many(numbers.astype(np.float64), none, none, none)


def estimate_differences(
    outcomes: Array, focal: Mask, groups: Labels, *, seed: int = 0, resamples: int = RESAMPLES
) -> Many:
    """Mean over groups of the means of those inside minus that of the others.

    p: two-sided, groups moved whole between the two sides. Interval: Welch 1947
    (doi:10.1093/biomet/34.1-2.28), t over groups. Of truth values it is a difference of shares.
    Raises UsageError for fewer than two groups on a side, and for a group on both.
    """
    means_of, inside = _take_side_means(outcomes, focal, groups)
    difference = means_of @ _weigh_sides(inside)
    half, law = _measure_welch_margin(means_of[:, inside], means_of[:, ~inside])
    sides = _list_sides(inside, seed, resamples)
    arrangements = _weigh_sides(sides)
    p = _compute_permutation_p(arrangements, means_of, difference)
    return Many(difference, difference - half, difference + half, p, law)


def find_least_p(outcomes: Array, focal: Mask, groups: Labels) -> float:
    """The least p that `estimate_differences` can give of the first study; NaN where it is not
    exact."""
    means_of, inside = _take_side_means(outcomes[:1], focal, groups)
    if math.comb(inside.size, int(inside.sum())) > MOST_ARRANGEMENTS:
        return math.nan
    null = np.abs(_weigh_sides(_list_sides(inside, 0, 0)) @ means_of[0])
    return float((null >= null.max() - ROUNDING).mean())


def _take_side_means(outcomes: Array, focal: Mask, groups: Labels) -> tuple[Array, Mask]:
    """Means of groups, study × group, and which groups are inside."""
    inside = take_group_means(focal[None].astype(np.float64), groups)[0]
    if ((inside > ROUNDING) & (inside < 1 - ROUNDING)).any():
        raise UsageError(
            "a group lies on both sides", where="groups", allowed="groups on one side each"
        )
    inside = inside > 0.5
    k = int(inside.sum())
    if min(k, inside.size - k) < 2:
        got = f"{k} and {inside.size - k}"
        allowed = "two or more on a side"
        raise UsageError("too few groups to exchange", got=got, allowed=allowed)
    numbers = outcomes.astype(np.float64)
    return take_group_means(numbers, groups), inside


def _weigh_sides(sides: Mask) -> Array:
    """Weights of groups in the difference of the means of both sides, which lie along the last
    axis."""
    k = sides.sum(axis=-1, keepdims=True)
    others = sides.shape[-1] - k
    return np.asarray(np.where(sides, 1 / k, -1 / others))


def estimate_welch_differences(outcomes: Array, inside: Mask) -> Many:
    """Mean of those inside minus that of the others, with Welch's interval; no p. Raises UsageError
    below 3 a side."""
    first = outcomes[:, inside]
    second = outcomes[:, ~inside]
    if (least := min(first.shape[1], second.shape[1])) < LEAST_CLUSTERS:
        raise UsageError("too few values on a side", got=least, allowed=f"{LEAST_CLUSTERS} or more")
    estimate = first.mean(axis=1) - second.mean(axis=1)
    half, law = _measure_welch_margin(first, second)
    return replace(wrap_counts(estimate), lower=estimate - half, upper=estimate + half, law=law)


def _measure_welch_margin(first: Array, second: Array) -> tuple[Array, StudentLaw]:
    """Half of the interval of the difference of two means, of every study, and its law; 0 where
    nothing varies."""
    first_n = first.shape[1]
    second_n = second.shape[1]
    first_error = first.var(axis=1, ddof=1) / first_n
    second_error = second.var(axis=1, ddof=1) / second_n
    error = first_error + second_error
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = first_error**2 / (first_n - 1) + second_error**2 / (second_n - 1)
        df = error**2 / shares
        half = measure_margin(np.sqrt(error), df)
    return np.nan_to_num(half), StudentLaw(df)


def fit_slopes(x: Array, outcomes: Array, groups: Labels | None = None) -> Many:
    """Slope b of y = a_g + b x by least squares, of every row of `outcomes` (study × row), with a
    level a_g for each of k groups, or one.

    Error: classical, t with n − k − 1 degrees of freedom. p: two-sided, of b = 0. Raises UsageError
    where these are none, and for an x that does not vary within groups.
    """
    codes = number_groups(groups, x.size)
    levels = indicate_groups(codes)
    df = x.size - levels.shape[1] - 1
    if df < 1:
        got = f"{x.size} points in {levels.shape[1]} groups"
        raise UsageError("too few points inside groups", got=got, allowed="2 more than groups")
    shares = levels / levels.sum(axis=0)
    inner = x - (x @ shares)[codes]
    if not np.abs(inner).max() > ROUNDING:
        raise UsageError("a slope needs values that differ", got=float(x[0]))
    y = outcomes - (outcomes @ shares)[:, codes]
    weights = inner / np.square(inner).sum()
    slopes = y @ weights
    left = y - slopes[:, None] * inner
    variance = np.square(left).sum(axis=1) / df
    error = np.sqrt(variance * np.square(weights).sum())
    return infer_by_student(slopes, error, df)


def fit_clustered_slopes(x: Array, outcomes: Array, clusters: Labels) -> Many:
    """Slope b of y = a + b x by least squares, of every row of `outcomes` (study × row), rows alike
    within clusters.

    Error: CR2, Var b = Σ_g (w_g (I − H_gg)^(−½) e_g)², w the weights of b and e the residuals; t
    with the degrees of freedom of Bell and McCaffrey: Imbens and Kolesár 2016
    (doi:10.1162/REST_a_00552). With clusters of one row each it is HC2. p: two-sided. Raises
    UsageError for fewer than three clusters and for an x that does not vary.
    """
    codes, names = pd.factorize(np.asarray(clusters))
    if len(names) < LEAST_CLUSTERS:
        raise UsageError(
            "too few clusters for a slope", got=len(names), allowed=f"{LEAST_CLUSTERS} or more"
        )
    centred = x - x.mean()
    design = np.column_stack([np.ones(x.size), centred])
    if not np.ptp(x) > 0:
        raise UsageError("a slope needs values that differ", got=float(x[0]))
    inverse = np.linalg.inv(design.T @ design)
    hat = design @ inverse @ design.T
    weights = centred / np.square(centred).sum()
    left = np.eye(x.size) - hat
    rows = []
    for at in _locate_clusters(codes):
        within = np.ix_(at, at)
        root = _take_inverse_root(left[within])
        rows.append(weights[at] @ root @ left[at])
    of_clusters = np.stack(rows)
    products = of_clusters @ of_clusters.T
    slopes = outcomes @ weights
    error = np.linalg.norm(outcomes @ of_clusters.T, axis=1)
    df = np.trace(products) ** 2 / np.square(products).sum()
    return infer_by_student(slopes, error, df)


def _locate_clusters(codes: Codes) -> list[Codes]:
    """Rows of every cluster."""
    clusters: list[Codes] = []
    for code in range(int(codes.max()) + 1):
        inside = codes == code
        clusters.append(np.flatnonzero(inside))
    return clusters


def _take_inverse_root(matrix: Array) -> Array:
    """The symmetric M^(−½); directions in which M is 0 are left out."""
    values, vectors = np.linalg.eigh(matrix)
    positive = values > ROUNDING
    axes = vectors[:, positive]
    return np.asarray((axes / np.sqrt(values[positive])) @ axes.T)


def _list_sides(inside: Mask, seed: int, resamples: int) -> Mask:
    """Which groups are inside, the observed ones first; then all other choices of so many, or some
    drawn at random."""
    k = int(inside.sum())
    n = inside.size
    if math.comb(n, k) <= MOST_ARRANGEMENTS:
        choices = combinations(range(n), k)
        chosen = np.array(list(choices))
    else:
        order = np.random.default_rng(seed).random((resamples, n)).argsort(axis=1)
        chosen = np.vstack([np.flatnonzero(inside), order[:, :k]])
    sides = np.zeros((len(chosen), n), dtype=bool)
    sides[np.arange(len(chosen))[:, None], chosen] = True
    return sides


def _normalise_rows(values: Array) -> Array:
    """Off their mean, of length 1, along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    lengths = np.sqrt(np.square(centred).sum(axis=-1, keepdims=True))
    return np.asarray(centred / lengths)


def _permute_predictor(x: Array, codes: Codes, seed: int, resamples: int) -> Array:
    """x in other orders, one a row, within groups; all of them where they can be listed, the
    observed one first."""
    grouped = codes.max() > 0
    if not grouped and math.factorial(x.size) <= MOST_ARRANGEMENTS:
        return np.asarray(x[list_orders(x.size)])
    rng = np.random.default_rng(seed)
    if not grouped:
        return np.vstack([x, shuffle_values(x, resamples, rng)])
    place = np.argsort(codes, kind="stable")
    shuffled = np.empty((resamples + 1, x.size))
    shuffled[0] = x
    keys = codes[place] + rng.random((resamples, x.size))
    orders = np.argsort(keys, axis=1)
    shuffled[1:, place] = x[place][orders]
    return shuffled


def _compute_permutation_p(rearranged: Array, y: Array, observed: Array) -> Array:
    """Share of rearrangements, the observed one among them, with a statistic as large as the
    observed one."""
    shares = []
    for at in _cut_slices(max(len(y), 1), len(rearranged)):
        statistics = np.abs(y[at] @ rearranged.T)
        least = np.abs(observed[at, None]) - ROUNDING
        as_large = statistics >= least
        shares.append(as_large.mean(axis=1))
    return np.concatenate(shares)
