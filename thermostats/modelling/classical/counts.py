"""Tests of counts: 2 × 2 tables, proportions, shares above a bound, classifications and cuts, signs in families."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import (
    NO_INTERVAL,
    RESAMPLES,
    Array,
    Estimate,
    labels,
    numbers,
    probability,
    same_length,
)
from thermostats.modelling.classical.resampling import MOST_ARRANGEMENTS, bca

CLOPPER_PEARSON = "Clopper–Pearson exact interval"
TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class Exceedance(Estimate):
    """Share of values above their bounds, and by how much."""

    n_above: int
    ratio: float
    """Geometric mean of value/bound over all values."""
    ratio_lower: float
    ratio_upper: float
    ratio_interval: str
    largest_ratio: float


@dataclass(frozen=True, kw_only=True)
class Accuracy(Estimate):
    """Share of right predictions; the p-value is against the share of the most frequent class."""

    majority: float
    balanced_accuracy: float
    """Mean over observed classes of the share predicted right; 0.5 by chance for two classes."""


@dataclass(frozen=True, kw_only=True)
class Threshold(Estimate):
    """The best cut of a score; `estimate`, `lower`, `upper` are the cut, the p-value allows for the search."""

    positive_above: bool
    """True where scores above the cut are predicted positive."""
    accuracy: float
    """In-sample balanced accuracy at the best cut: optimistic, compare with `accuracy_by_chance`."""
    accuracy_by_chance: float
    """Mean best balanced accuracy over shuffled outcomes."""
    auc: float


@dataclass(frozen=True, kw_only=True)
class SignPermutation(Estimate):
    """Is the sign a matter of lab? The unit of `p_value` is the family."""

    p_families: float
    counted_families: str
    """How the arrangements were counted."""
    n_families: int
    n_labs: int
    smallest_p_families: float
    """The smallest p the test can give with these family sizes; NaN where it was not exact."""


@dataclass(frozen=True, kw_only=True)
class ClusteredShare(Estimate):
    """A share of units; `effective_n` is how many independent units would tell as much."""

    effective_n: float
    n_groups: int


def two_by_two(table: ArrayLike | pd.DataFrame) -> NDArray[np.int64]:
    """Return a 2 × 2 table of counts (rows: groups, columns: outcomes); UsageError for an empty row or column."""
    counts = np.asarray(table, dtype=np.float64)
    if counts.shape != (2, 2) or not np.isfinite(counts).all() or (counts < 0).any() or (counts % 1 != 0).any():
        raise UsageError(
            "not a 2 × 2 table of counts", got=counts.tolist(), allowed="two rows of two whole numbers, 0 or more"
        )
    if (counts.sum(axis=0) == 0).any() or (counts.sum(axis=1) == 0).any():
        raise UsageError("an empty row or column decides nothing", got=counts.tolist(), allowed="margins above 0")
    return counts.astype(np.int64)


def fisher_exact(table: ArrayLike | pd.DataFrame, *, level: float = 0.95) -> Estimate:
    """Fisher's exact test, two-sided (sum over tables no more probable); rows are groups, columns outcomes.

    The estimate is the conditional maximum likelihood odds ratio with its exact conditional interval (0 and infinity
    are possible). Both margins are taken as fixed, every count as independent: models of one family are not. Raises
    UsageError for anything but a 2 × 2 table of counts with margins above 0.
    """
    counts = two_by_two(table)
    result: Any = stats.contingency.odds_ratio(counts, kind="conditional")
    interval = result.confidence_interval(probability(level))
    return Estimate(
        test="Fisher's exact test of odds ratio 1",
        estimate=float(result.statistic),
        lower=float(interval.low),
        upper=float(interval.high),
        level=level,
        interval="exact conditional interval of the odds ratio",
        p_value=float(stats.fisher_exact(counts)[1]),
        n=int(counts.sum()),
    )


def barnard_exact(table: ArrayLike | pd.DataFrame, *, level: float = 0.95) -> Estimate:
    """Barnard's unconditional exact test (Wald statistic, pooled); rows are groups of fixed size, columns outcomes.

    The estimate is the first row's share of the first column less the second row's, with Newcombe's hybrid score
    interval (1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I), which is not exact. Raises
    UsageError as `fisher_exact` does.
    """
    counts = two_by_two(table)
    (a, _), (c, _) = counts.tolist()
    n1, n2 = map(int, counts.sum(axis=1))
    low, high = confint_proportions_2indep(a, n1, c, n2, compare="diff", method="newcomb", alpha=1 - probability(level))
    return Estimate(
        test="Barnard's exact test of equal proportions",
        estimate=a / n1 - c / n2,
        lower=float(low),
        upper=float(high),
        level=level,
        interval="Newcombe score interval of the difference in proportions",
        p_value=float(stats.barnard_exact(counts.T).pvalue),
        n=int(counts.sum()),
    )


def proportion(k: int, n: int, *, against: float = 0.5, level: float = 0.95) -> Estimate:
    """Share k/n with Clopper–Pearson interval and two-sided exact binomial test against a given share."""
    if not (isinstance(k, int | np.integer) and isinstance(n, int | np.integer)) or n < 1 or not 0 <= k <= n:
        raise UsageError("not a count of n", got=f"{k} of {n}", allowed="whole numbers, 0 ≤ k ≤ n, n ≥ 1")
    result = stats.binomtest(int(k), int(n), probability(against, "against"))
    return _binomial(result, f"binomial test of the share against {against:g}", level)


def one_sample_bound(
    values: ArrayLike,
    bounds: ArrayLike | float,
    *,
    tolerated: float = 0.05,
    level: float = 0.95,
    seed: int,
    resamples: int = RESAMPLES,
) -> Exceedance:
    """Share of values above their own bounds, and the geometric mean of value/bound with a BCa interval.

    The p-value is the one-sided exact binomial P(K ≥ k | share = tolerated): how surprising so many exceedances are if
    at most that share may lie above, by error of measurement. A strict bound is refuted by one. Raises UsageError for
    missing values, values or bounds not above 0, or fewer than 2 values.
    """
    x = numbers(values, "values", positive=True)
    limit = numbers(np.full(x.size, bounds) if np.ndim(bounds) == 0 else bounds, "bounds", positive=True)
    same_length(values=x, bounds=limit)
    above = int((x > limit).sum())
    test = stats.binomtest(above, x.size, probability(tolerated, "tolerated"), alternative="greater")
    share = _binomial(test, f"binomial test that at most {tolerated:g} of the values lie above their bounds", level)
    logs = np.log(x / limit)
    low, high, kind = bca([logs], np.mean, level=level, seed=seed, resamples=resamples)
    return Exceedance(
        **vars(share),
        n_above=above,
        ratio=math.exp(logs.mean()),
        ratio_lower=math.exp(low),
        ratio_upper=math.exp(high),
        ratio_interval=kind,
        largest_ratio=math.exp(logs.max()),
    )


def classification_accuracy(
    predicted: Sequence[object] | pd.Series, observed: Sequence[object] | pd.Series, *, level: float = 0.95
) -> Accuracy:
    """Share of right predictions with Clopper–Pearson interval, and p against the larger class's share.

    p is the one-sided exact binomial test against the majority share of these same observations, a rate taken as known.
    Raises UsageError for missing labels, unequal lengths or no rows.
    """
    guess, truth = labels(predicted, "predicted"), labels(observed, "observed")
    same_length(predicted=guess, observed=truth)
    classes, n_of = np.unique(truth, return_counts=True)
    majority = float(n_of.max() / truth.size)
    test = "binomial test of the accuracy against the share of the larger class"
    if majority == 1:
        test = "none: only one class was observed, the share of the larger class cannot be beaten"
    right = int((guess == truth).sum())
    result = stats.binomtest(right, truth.size, majority, alternative="greater")
    return Accuracy(
        **(vars(_binomial(result, test, level)) | ({"p_value": math.nan} if majority == 1 else {})),
        majority=majority,
        balanced_accuracy=float(np.mean([(guess[truth == c] == c).mean() for c in classes])),
    )


def roc_threshold(
    scores: ArrayLike,
    outcomes: Sequence[bool] | pd.Series | NDArray[np.bool_],
    *,
    level: float = 0.95,
    seed: int,
    resamples: int = 2000,
) -> Threshold:
    """Best cut of a score for a yes/no outcome, with a p-value that allows for the search.

    Every midpoint between neighbouring distinct scores is tried in both directions; the best has the largest balanced
    accuracy (the middle one of ties). p = (b + 1)/(m + 1) over shuffled outcomes, each searched in the same way. The
    interval is the percentile bootstrap of the best cut. Raises UsageError for fewer than 4 points, a constant score or
    one outcome only.
    """
    x, y = numbers(scores, "scores", least=4, varied=True), np.asarray(outcomes, dtype=np.float64)
    same_length(scores=x, outcomes=y)
    if not np.isin(y, (0.0, 1.0)).all() or len(set(y)) < 2:
        raise UsageError(
            "the outcome does not vary", where="outcomes", got=sorted(set(y)), allowed="both true and false"
        )
    rng, tail = np.random.default_rng(seed), (1 - probability(level)) / 2
    cut, above, accuracy = _best_cut(x, y)
    null = np.array([_best_cut(x, rng.permutation(y))[2] for _ in range(resamples)])
    cuts: list[float] = []
    while len(cuts) < resamples:
        chosen = rng.integers(0, x.size, x.size)
        if np.ptp(x[chosen]) > 0 and np.ptp(y[chosen]) > 0:
            cuts.append(_best_cut(x[chosen], y[chosen])[0])
    low, high = np.quantile(cuts, [tail, 1 - tail])
    wins = np.sign(x[y == 1][:, None] - x[y == 0][None, :])
    return Threshold(
        test="permutation test of the best balanced accuracy over all cuts",
        estimate=cut,
        lower=float(low),
        upper=float(high),
        level=level,
        interval="percentile bootstrap of the best cut, resamples with both outcomes and two scores or more",
        p_value=float((np.sum(null >= accuracy - TOLERANCE) + 1) / (resamples + 1)),
        n=x.size,
        positive_above=above,
        accuracy=accuracy,
        accuracy_by_chance=float(null.mean()),
        auc=float((1 + wins.mean()) / 2),
    )


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


def clustered_sign_permutation(
    dampens: Sequence[bool] | pd.Series,
    labs: Sequence[str] | pd.Series,
    families: Sequence[str] | pd.Series,
    *,
    focal: str,
    seed: int,
    resamples: int = RESAMPLES,
) -> SignPermutation:
    """Permutation test of "the sign is a matter of lab", one lab against the rest, with families as units.

    With s_f the share of a family's models that dampen, the statistic is mean(s in focal) − mean(s elsewhere),
    two-sided, so that models of one recipe do not count as independent; the estimate is the same over models.
    Raises UsageError where there is one lab, one sign, an unknown focal lab, or a family spread over two labs.
    """
    signs, lab, family = np.asarray(dampens, dtype=np.float64), labels(labs, "labs"), labels(families, "families")
    same_length(dampens=signs, labs=lab, families=family)
    if not np.isin(signs, (0.0, 1.0)).all() or len(set(signs)) < 2:
        raise UsageError(
            "the sign does not vary", where="dampens", got=sorted(set(signs)), allowed="both true and false"
        )
    if len(set(lab)) < 2 or focal not in lab:
        allowed = f"two labs or more, the focal one of {sorted(set(lab))}"
        raise UsageError("no labs to compare", where="labs", got=focal, allowed=allowed)
    units = (
        pd.DataFrame({"family": family, "lab": lab, "share": signs})
        .groupby("family")
        .agg(share=("share", "mean"), lab=("lab", "first"), n_labs=("lab", "nunique"))
    )
    if (units["n_labs"] > 1).any():
        spread = list(units.index[units["n_labs"] > 1])
        raise UsageError("a family spread over labs", where="families", got=spread, allowed="one lab a family")
    inside = (units["lab"] == focal).to_numpy()
    p, counted, smallest = _over_families(units["share"].to_numpy(np.float64), inside, seed=seed, resamples=resamples)
    return SignPermutation(
        test=f"permutation test of the sign against the lab, unit: the family; {focal} against the rest, two-sided",
        estimate=float(signs[lab == focal].mean() - signs[lab != focal].mean()),
        lower=math.nan,
        upper=math.nan,
        level=math.nan,
        interval=f"{NO_INTERVAL}: a test of no association",
        p_value=p,
        n=signs.size,
        p_families=p,
        counted_families=counted,
        n_families=len(units),
        n_labs=units["lab"].nunique(),
        smallest_p_families=smallest,
    )


def _over_families(values: Array, inside: NDArray[np.bool_], *, seed: int, resamples: int) -> tuple[float, str, float]:
    """p, how it was counted, and the smallest p possible (NaN where not exact)."""

    def contrast(arranged: Array) -> Array:
        return np.asarray(np.abs(arranged[:, inside].mean(axis=1) - arranged[:, ~inside].mean(axis=1)))

    observed = float(contrast(values[None, :])[0])
    size = int(inside.sum())
    total = math.comb(values.size, size)
    if total > MOST_ARRANGEMENTS:
        null = contrast(np.random.default_rng(seed).permuted(np.tile(values, (resamples, 1)), axis=1))
        p = float((np.sum(null >= observed - TOLERANCE) + 1) / (resamples + 1))
        return p, f"Monte Carlo, (b + 1)/({resamples} + 1)", math.nan
    chosen = np.zeros((total, values.size), dtype=bool)
    for row, units in enumerate(itertools.combinations(range(values.size), size)):
        chosen[row, list(units)] = True
    every, arranged = np.tile(values, (total, 1)), np.empty((total, values.size))
    arranged[:, inside] = every[chosen].reshape(total, size)
    arranged[:, ~inside] = every[~chosen].reshape(total, values.size - size)
    null = contrast(arranged)
    smallest = float(np.mean(null >= null.max() - TOLERANCE))
    return float(np.mean(null >= observed - TOLERANCE)), f"exact, all {total} arrangements", smallest


def _binomial(result: Any, test: str, level: float) -> Estimate:
    interval = stats.binomtest(result.k, result.n).proportion_ci(probability(level), method="exact")
    return Estimate(
        test=test,
        estimate=result.k / result.n,
        lower=float(interval.low),
        upper=float(interval.high),
        level=level,
        interval=CLOPPER_PEARSON,
        p_value=float(result.pvalue),
        n=int(result.n),
    )


def _best_cut(x: Array, y: Array) -> tuple[float, bool, float]:
    """Cut, direction (True: positive above) and balanced accuracy."""
    values = np.unique(x)
    cuts = (values[1:] + values[:-1]) / 2
    above = x[:, None] > cuts[None, :]
    balanced = (above[y == 1].mean(axis=0) + 1 - above[y == 0].mean(axis=0)) / 2
    both = np.maximum(balanced, 1 - balanced)
    ties = np.flatnonzero(both >= both.max() - TOLERANCE)
    best = int(ties[ties.size // 2])
    return float(cuts[best]), bool(balanced[best] >= 0.5), float(both[best])
