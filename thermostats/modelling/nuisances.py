"""What errors may be like: posteriors of nuisances from the residuals of one outcome.

y = Xβ + D (√(1 − b) A e + √b Z u). A makes e, in the order of a column, a chain whose neighbours
are correlated at `ar`; Z has the groups' levels u, b their share; D has SDs that go along the
column from 1 to `ratio` times as much, by ranks. These three have their restricted likelihood
jointly, σ integrated out under 1/σ. e itself is normal in it. How skewed e is (σ of a log-normal
of either sign) and how long its tails are (1/ν of Student's t) is estimated from the skewness and
the L-kurtosis of residuals, whose distribution is simulated on the same X; how unlike the SDs of
groups are (SD of their logarithms), from the likelihood of sums of squares as σ²χ².

Priors are centred on no nuisance, and their 95% quantile is the bound that is declared where
nothing was measured (`Bounds`): half-normal for atanh ar, |ln ratio|, |σ|, 1/ν and the log-SD,
Beta(1, 3.27) for the share. A bound is the posterior's 95% quantile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.modelling.populations import Codes, indicate_groups

VERSION = 1
"""Raised by whoever changes a prior or an estimator, so that what was estimated before is old."""
LEVEL = 0.95
"""Of the quantile that is a bound."""
LEAST_FREE = 5
"""Degrees of freedom that columns must leave, for less says nothing of errors."""
LEAST_IN_GROUP = 0.5
"""Degrees of freedom of a group whose SD counts."""
WHOLE = 0.999
"""Leverage from which a row is fitted whatever it is."""
SHORTEST = 0.01
"""Tails shorter than those of all but this share of sets of normal errors count as theirs."""
STUDIES = 4000
"""Simulated sets of errors at each value of a shape."""
AR = "ar"
RATIO = "ratio"
SHARE = "share"
SKEW = "skew"
TAILS = "tails"
SPREAD = "spread"


@dataclass(frozen=True)
class Bounds:
    """How far each nuisance of an outcome may go; by default as it is declared without rows."""

    ar: float = 0.6
    """Correlation of neighbours' errors along a column."""
    ratio: float = 3.0
    """Ratio of SDs at the ends of a column, in either direction."""
    share: float = 0.6
    """Share of the errors' variance between groups."""
    skew: tuple[float, float] = (-1.0, 1.0)
    """σ of log-normal errors with a long lower tail (below 0) and with a long upper one."""
    tails: float = 1 / 3
    """1/ν of errors with the tails of Student's t."""
    spread: float = 0.7
    """SD of the logarithm of groups' SDs."""

    def widen(self) -> Bounds:
        """Beyond all bounds at once: tanh(2 atanh ar), ratio², four times the odds of the share.

        σ, 1/ν and the log-SD are doubled. A t with 1/ν of 1/2 or more has no variance.
        """
        odds = 4 * self.share / (1 - self.share)
        lower, upper = self.skew
        return Bounds(
            ar=math.tanh(2 * math.atanh(self.ar)),
            ratio=self.ratio**2,
            share=odds / (1 + odds),
            skew=(2 * lower, 2 * upper),
            tails=2 * self.tails,
            spread=2 * self.spread,
        )


DECLARED = Bounds()
BETA = math.log(1 - LEVEL) / math.log(1 - DECLARED.share)
"""Second parameter of the Beta(1, ·) whose 95% quantile is the declared share: 3.27."""


def find_half_normal_scale(bound: float) -> float:
    """The scale of a half-normal whose 95% quantile is a bound."""
    return bound / float(stats.norm.ppf((1 + LEVEL) / 2))


AR_SCALE = find_half_normal_scale(math.atanh(DECLARED.ar))
RATIO_SCALE = find_half_normal_scale(math.log(DECLARED.ratio))
SKEW_SCALE = find_half_normal_scale(DECLARED.skew[1])
TAILS_SCALE = find_half_normal_scale(DECLARED.tails)
SPREAD_SCALE = find_half_normal_scale(DECLARED.spread)
AR_NODES = np.tanh(np.linspace(0, 5 * AR_SCALE, 25))
RATIO_NODES = np.exp(np.linspace(-7 * RATIO_SCALE, 7 * RATIO_SCALE, 57))
SHARE_NODES = np.linspace(0, 0.995, 40)
SKEW_NODES = np.arange(-25, 26) / 10
TAILS_NODES = np.linspace(0, 0.8, 33)
SPREAD_NODES = np.linspace(0, 2, 41)
LOG_VARIANCE_STEP = 0.05
LOG_VARIANCES = LOG_VARIANCE_STEP * np.arange(-160, 161)
"""Nodes of the logarithm of a group's variance about that of all."""


@dataclass(frozen=True)
class NuisancePosterior:
    """A posterior of one nuisance in each of some studies."""

    nodes: Array
    """Values at even steps of the scale on which the density is."""
    density: Array
    """Study × node, up to a factor."""

    def quantile(self, level: float = LEVEL) -> Array:
        """One for each study, straight between nodes."""
        middle = (self.density[:, 1:] + self.density[:, :-1]) / 2
        cumulated = np.insert(middle, 0, 0.0, axis=1).cumsum(axis=1)
        cumulated /= cumulated[:, -1:]
        return np.array([np.interp(level, each, self.nodes) for each in cumulated])

    def fold(self) -> NuisancePosterior:
        """The posterior of exp |ln x| where nodes are those of x, even in ln x about 1."""
        middle = len(self.nodes) // 2
        above = self.density[:, middle:]
        below = self.density[:, middle::-1]
        return NuisancePosterior(self.nodes[middle:], above + below)

    def bound(self, name: str) -> tuple[Array, Array]:
        """Lower and upper bound of a nuisance by name; the lower one is NaN but for σ's."""
        if name == SKEW:
            lower = np.minimum(self.quantile(1 - LEVEL), 0.0)
            return lower, np.maximum(self.quantile(LEVEL), 0.0)
        folded = self.fold() if name == RATIO else self
        upper = folded.quantile(LEVEL)
        return np.full_like(upper, np.nan), upper


def span_columns(rows: pd.DataFrame, columns: Sequence[str]) -> Array:
    """An orthonormal basis of a constant and columns: numbers as they are, names as levels."""
    parts = [np.ones((len(rows), 1))]
    for name in columns:
        values = rows[name]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            x = values.to_numpy(np.float64)
            spread = x.std() or 1.0
            parts.append(((x - x.mean()) / spread)[:, None])
        else:
            codes = pd.factorize(values)[0]
            parts.append(indicate_groups(codes))
    return orthonormalise(np.hstack(parts))


def orthonormalise(x: Array) -> Array:
    """An orthonormal basis of what columns span."""
    left, size, _ = np.linalg.svd(x, full_matrices=False)
    return left[:, size > 1e-8 * size[0]]


def check_free(x: Array) -> None:
    """Raise UsageError where columns leave too little to say anything of errors."""
    free = x.shape[0] - x.shape[1]
    if free < LEAST_FREE:
        got = f"{x.shape[0]} rows and {x.shape[1]} columns"
        allowed = f"{LEAST_FREE} rows or more beyond the columns"
        raise UsageError("too few rows to tell what errors are like", got=got, allowed=allowed)


def tells_share(groups: Codes | None) -> bool:
    """Whether rows say what share lies between groups: two groups or more, some of two rows."""
    if groups is None:
        return False
    count = int(groups.max()) + 1
    return 1 < count < len(groups)


def estimate_dependence(
    y: Array,
    x: Array,
    column: Array | None = None,
    groups: Codes | None = None,
    *,
    ordered: bool = True,
) -> dict[str, NuisancePosterior]:
    """Posteriors of `ar`, `ratio` and `share`, jointly, of many studies of one design.

    y: study × row. x: an orthonormal basis (`span_columns`). column: values along which errors
    may differ, without which there are no `ar` and no `ratio`. groups: codes of groups, without
    which, or where every row or none is one, there is no `share`. ordered: whether neighbours
    along the column may err alike; those of a column of two values cannot.

    Raises UsageError where the columns of x leave less than `LEAST_FREE`.
    """
    check_free(x)
    n = len(x)
    levels = np.zeros((n, 0))
    shares = np.zeros(1)
    if groups is not None and tells_share(groups):
        levels = indicate_groups(groups)
        shares = SHARE_NODES
    ars = np.zeros(1)
    ratios = np.ones(1)
    values = np.zeros(n)
    if column is not None:
        values = column
        ratios = RATIO_NODES
        ars = AR_NODES if ordered and len(np.unique(column)) > 2 else ars
    nodes = {AR: ars, RATIO: ratios, SHARE: shares}
    density = measure_dependence_density(y, x, values, levels, nodes)
    dependence: dict[str, NuisancePosterior] = {}
    for axis, name in enumerate(nodes):
        if len(nodes[name]) > 1:
            dependence[name] = NuisancePosterior(nodes[name], marginalise(density, axis))
    return dependence


def measure_dependence_density(
    y: Array, x: Array, column: Array, levels: Array, nodes: Mapping[str, Array]
) -> Array:
    """Prior times restricted likelihood up to a factor, ar × ratio × share × study."""
    n, p = x.shape
    ars = nodes[AR]
    ratios = nodes[RATIO]
    shares = nodes[SHARE]
    place = rank_places(column)
    order = np.argsort(column, kind="stable")
    both = np.hstack([x, y.T])
    logs = np.empty((ars.size, ratios.size, shares.size, len(y)))
    for i, ar in enumerate(ars):
        whitened = whiten_chain(levels, order, ar)
        group_levels = GroupLevels.rotate(whitened, shares)
        chain = (n - 1) * math.log1p(-(ar**2))
        for j, ratio in enumerate(ratios):
            scale = ratio**place
            terms = group_levels.restrict(whiten_chain(both / scale[:, None], order, ar), p)
            log_scales = 2 * float(np.log(scale).sum())
            logs[i, j] = -(chain + log_scales + terms) / 2
    logs += weigh_dependence(ars, ratios, shares)[..., None]
    return np.asarray(np.exp(logs - logs.max(axis=(0, 1, 2))))


def weigh_dependence(ars: Array, ratios: Array, shares: Array) -> Array:
    """Log prior densities of atanh ar, ln ratio and the share, ar × ratio × share."""
    ar_prior = stats.norm.logpdf(np.arctanh(ars), scale=AR_SCALE)
    ratio_prior = stats.norm.logpdf(np.log(ratios), scale=RATIO_SCALE)
    share_prior = (BETA - 1) * np.log1p(-shares)
    along_column = ar_prior[:, None, None] + ratio_prior[:, None]
    return np.asarray(along_column + share_prior)


def marginalise(density: Array, axis: int) -> Array:
    """Study × node of one axis of a density whose last axis is studies, by trapezes."""
    for other in range(density.ndim - 1):
        if other != axis and density.shape[other] > 1:
            ends = [0, density.shape[other] - 1]
            half = density.take(ends, other).sum(axis=other, keepdims=True) / 2
            density = density.sum(axis=other, keepdims=True) - half
    return density.reshape(density.shape[axis], density.shape[-1]).T


def rank_places(column: Array) -> Array:
    """Places from 0 to 1 along a column, by ranks; 0 where nothing differs."""
    rank = stats.rankdata(column)
    span = max(float(np.ptp(rank)), 1.0)
    return np.asarray((rank - rank.min()) / span)


def whiten_chain(values: Array, order: Codes, ar: float) -> Array:
    """Rows in an order, each less `ar` times the one before, so that a chain is independent."""
    ordered = values[order]
    made = ordered.copy()
    innovations = ordered[1:] - ar * ordered[:-1]
    made[1:] = innovations / math.sqrt(1 - ar**2)
    return made


@dataclass(frozen=True)
class GroupLevels:
    """Groups' levels and independent errors, (1 − b) I + b Z Z', at each of some shares b."""

    turned: Array
    """U'Z' of Z'Z = U diag(λ) U'."""
    weights: Array
    """b / ((1 − b) + b λ), share × group."""
    log_determinant: Array
    """Of I + b/(1 − b) Z Z', by share; the powers of 1 − b cancel in what `restrict` returns."""

    @staticmethod
    def rotate(levels: Array, shares: Array) -> GroupLevels:
        """From levels Z, row × group, whitened as the errors are."""
        size, turn = np.linalg.eigh(levels.T @ levels)
        size = size.clip(0)
        b = shares[:, None]
        log_determinant = np.log1p(size * b / (1 - b)).sum(axis=1)
        weights = b / (1 - b + b * size)
        return GroupLevels(turn.T @ levels.T, weights, log_determinant)

    def restrict(self, whitened: Array, p: int) -> Array:
        """−2 log restricted likelihood with σ integrated out, share × study, up to a constant.

        whitened: p columns of x, then those of studies.
        """
        x = whitened[:, :p]
        y = whitened[:, p:]
        turned_x = self.turned @ x
        turned_y = self.turned @ y
        weighted = (self.weights[:, :, None] * turned_x).transpose(0, 2, 1)
        xx = x.T @ x - weighted @ turned_x
        xy = x.T @ y - weighted @ turned_y
        shrunk = self.weights @ np.square(turned_y)
        yy = np.square(y).sum(axis=0) - shrunk
        root = np.linalg.cholesky(xx)
        fitted = np.square(np.linalg.solve(root, xy)).sum(axis=1)
        log_roots = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        determinants = self.log_determinant + 2 * log_roots
        free = len(x) - p
        return np.asarray(determinants[:, None] + free * np.log(yy - fitted))


@dataclass(frozen=True)
class Shapes:
    """Skewness and L-kurtosis of residuals of one design, simulated at every node."""

    x: Array
    scaled: Codes | None
    skewness: Array
    """Node of σ × study."""
    kurtosis: Array
    """Node of 1/ν × study."""

    @staticmethod
    def simulate(
        x: Array, scaled: Codes | None = None, *, seed: int, studies: int = STUDIES
    ) -> Shapes:
        """Of errors that are independent and of one SD, residuals of x, in units of each one's SD.

        x: an orthonormal basis. scaled: codes of groups whose residuals are taken in units of
        their own SD, for outcomes that many rows of a group have. Raises UsageError where the
        columns leave less than `LEAST_FREE`.
        """
        check_free(x)
        rng = np.random.default_rng(seed)
        normal = rng.standard_normal((studies, len(x)))
        skewness = []
        for sigma in SKEW_NODES:
            errors = normal
            if sigma:
                errors = math.copysign(1.0, sigma) * np.exp(abs(sigma) * normal)
            residuals = studentise(errors, x, scaled)
            skewness.append(measure_skewness(residuals))
        kurtosis = []
        for tails in TAILS_NODES:
            errors = rng.standard_t(1 / tails, normal.shape) if tails else normal
            residuals = studentise(errors, x, scaled)
            kurtosis.append(measure_kurtosis(residuals))
        return Shapes(x, scaled, np.array(skewness), np.array(kurtosis))

    def estimate(self, y: Array) -> dict[str, NuisancePosterior]:
        """Posteriors of `skew` (σ, its sign that of the long tail) and of `tails` (1/ν).

        y: study × row. The density of a statistic at each node is a normal kernel's, of
        Silverman's width 1.06 SD S^(−1/5) (1986, doi:10.1007/978-1-4899-3324-9). Tails that are
        shorter than those of nearly all normal errors count as theirs, for no node has such.
        """
        left = studentise(y, self.x, self.scaled)
        skewness = measure_skewness(left)
        skewed = estimate_density(self.skewness, skewness)
        shortest = np.quantile(self.kurtosis[0], SHORTEST)
        kurtosis = measure_kurtosis(left)
        seen = np.maximum(kurtosis, shortest)
        tailed = estimate_density(self.kurtosis, seen)
        skew_prior = stats.norm.pdf(SKEW_NODES, scale=SKEW_SCALE)
        tails_prior = stats.norm.pdf(TAILS_NODES, scale=TAILS_SCALE)
        skew = NuisancePosterior(SKEW_NODES, skewed * skew_prior)
        tails = NuisancePosterior(TAILS_NODES, tailed * tails_prior)
        return {SKEW: skew, TAILS: tails}


def estimate_density(simulated: Array, seen: Array) -> Array:
    """Density of statistics at what was seen, study × node; simulated: node × study."""
    spreads = simulated.std(axis=1)
    width = 1.06 * spreads * simulated.shape[1] ** -0.2
    kernels = []
    for value in seen:
        kernels.append(stats.norm.pdf(value, simulated, width[:, None]))
    return np.array([kernel.mean(axis=1) for kernel in kernels])


def studentise(y: Array, x: Array, scaled: Codes | None) -> Array:
    """Residuals of x in units of their own SDs, study × row, without rows that x fits whatever
    they are; where groups are `scaled`, in units of their root mean square too."""
    leverage = np.square(x).sum(axis=1)
    kept = leverage < WHOLE
    residuals = y - (y @ x) @ x.T
    spreads = np.sqrt(np.where(kept, 1 - leverage, 1.0))
    left = (residuals / spreads)[:, kept]
    if scaled is None:
        return left
    kept_groups = scaled[kept]
    groups = pd.factorize(kept_groups)[0]
    squares = np.square(left) @ indicate_groups(groups) / np.bincount(groups)
    return left / np.sqrt(squares)[:, groups]


def measure_skewness(values: Array) -> Array:
    """m₃ / m₂^1.5 of each row."""
    centred = values - values.mean(axis=1, keepdims=True)
    third = (centred**3).mean(axis=1)
    second = np.square(centred).mean(axis=1)
    return np.asarray(third / second**1.5)


def measure_kurtosis(values: Array) -> Array:
    """L-kurtosis τ₄ of each row: Hosking 1990 (doi:10.1111/j.2517-6161.1990.tb01775.x)."""
    ordered = np.sort(values, axis=1)
    n = values.shape[1]
    i = np.arange(n)
    once = ordered * i
    twice = once * (i - 1)
    thrice = twice * (i - 2)
    b0 = ordered.mean(axis=1)
    b1 = once.mean(axis=1) / (n - 1)
    b2 = twice.mean(axis=1) / ((n - 1) * (n - 2))
    b3 = thrice.mean(axis=1) / ((n - 1) * (n - 2) * (n - 3))
    fourth = 20 * b3 - 30 * b2 + 12 * b1 - b0
    return np.asarray(fourth / (2 * b1 - b0))


def estimate_spread(y: Array, x: Array, groups: Codes) -> NuisancePosterior | None:
    """NuisancePosterior of the SD of the logarithm of groups' SDs, of many studies of one design.

    Sums of squares of the residuals of x and of groups' means are taken as σ²χ², with as many
    degrees of freedom as residuals have in the group; ln σ is normal about a mean that may be
    anything. That is exact without slopes; with three slopes of 44 models, which noisy groups
    pull, the 95% quantile holds in some 93%.

    y: study × row. x: an orthonormal basis. None where fewer than two groups have
    `LEAST_IN_GROUP` degrees of freedom. Raises UsageError where the columns of x and the groups
    leave less than `LEAST_FREE`.
    """
    levels = indicate_groups(groups)
    wider = orthonormalise(np.hstack([levels, x]))
    check_free(wider)
    free = (1 - np.square(wider).sum(axis=1)) @ levels
    kept = free > LEAST_IN_GROUP
    if kept.sum() < 2:
        return None
    residuals = y - (y @ wider) @ wider.T
    squares = np.square(residuals) @ levels
    density = [measure_spread_density(each[kept], free[kept]) for each in squares]
    return NuisancePosterior(SPREAD_NODES, np.array(density))


def measure_spread_density(squares: Array, free: Array) -> Array:
    """Prior times likelihood at each node, for one study's sums of squares by group."""
    logs = math.log(squares.sum() / free.sum()) + LOG_VARIANCES
    standardised = squares[:, None] * np.exp(-logs)
    each = -(free[:, None] * logs + standardised) / 2
    each = np.exp(each - each.max(axis=1, keepdims=True))
    averaged = np.maximum(build_spread_kernels() @ each.T, np.finfo(float).tiny)
    likelihoods = np.log(averaged).sum(axis=2)
    likelihood = np.exp(likelihoods - likelihoods.max()).sum(axis=1)
    return np.asarray(likelihood * stats.norm.pdf(SPREAD_NODES, scale=SPREAD_SCALE))


@cache
def build_spread_kernels() -> Array:
    """Weights of a group's log variance about that of all, node × the latter × the former."""
    apart = LOG_VARIANCES[:, None] - LOG_VARIANCES
    scales = 2 * SPREAD_NODES[1:, None, None]
    kernels = stats.norm.pdf(apart, scale=scales) * LOG_VARIANCE_STEP
    return np.concatenate([np.eye(len(apart))[None], kernels])
