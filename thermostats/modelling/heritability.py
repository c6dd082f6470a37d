"""Is a log gain heritable beyond shape, size and source? λ along labs and families next to levels
of sources.

y = Xβ + s + u + e, Var = σ² (ρ Z + λ K + (1 − λ) I); Z_ij is 1 where one source measured both
models; K_ij is the share of the path root, lab, family, model that they have in common: 0, 1/3, 2/3
or 1. The test of no descent is twice the logarithm of the ratio of restricted likelihoods with and
without λ, ρ free in both, and its p that of ½χ²₀ + ½χ²₁ (Self and Liang 1987,
doi:10.1080/01621459.1987.10478472).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg, stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.interval_laws import ProfileLaw
from thermostats.modelling.classical.many import Many, measure_margin
from thermostats.modelling.draws import SEED, Array, find_equal_tailed
from thermostats.modelling.tree_likelihood import GRID, Restricted, fit_gls
from thermostats.settings import check_coverage

DESCENT = "descent"
OWN = "own"
BOOTSTRAPS = 1_000
LEVEL = 0.95
LEAST = 2
"""Degrees of freedom that columns must leave, and branches of a mean change."""


@dataclass(frozen=True, kw_only=True)
class DescentSlope:
    """One slope under descent, with its t interval, and the share λ of descent in what the columns
    leave."""

    estimate: float
    lower: float
    upper: float
    p: float
    descent: float
    descent_lower: float
    descent_upper: float
    n_models: int


def estimate_descent_slope(
    y: Array, x: Array, k: Array, at: int, descent: float | None = None
) -> DescentSlope | None:
    """β of column `at` of X, at λ of the restricted likelihood or at a given one.

    None where fewer than 2 degrees of freedom are left, where columns leave nothing of y, or where
    models that share all of their descent cannot differ at the λ that is given.
    """
    n, p = x.shape
    free = n - np.linalg.matrix_rank(x)
    if free < LEAST or free < n - p:
        return None
    left = np.linalg.lstsq(x, y, rcond=None)[1]
    if left.sum() < 1e-12 * n:
        return None
    test = Restricted.build(y, x, k)
    lam = test.estimate() if descent is None else descent
    low, high = test.interval(LEVEL)
    v = (1 - lam) * np.eye(n) + lam * k
    if np.linalg.eigvalsh(v)[0] < 1e-10:
        return None
    made = fit_gls(y, x, v, parameter=lam)
    b = made.beta[at]
    se = made.se[at]
    df = n - p
    t = b / se
    half = measure_margin(se, df, LEVEL)
    p_value = 2 * stats.t.sf(abs(t), df)
    return DescentSlope(
        estimate=float(b),
        lower=float(b - half),
        upper=float(b + half),
        p=float(p_value),
        descent=lam,
        descent_lower=low,
        descent_upper=high,
        n_models=n,
    )


def estimate_shares(
    y: Array,
    blocks: Mapping[str, Array],
    k: Array,
    pairs: Sequence[tuple[str, str]] = (),
    *,
    seed: int = SEED,
) -> pd.DataFrame | None:
    """Shares of the variance over models of blocks of columns, of descent and of what is a model's
    own.

    A block has β'Sβ − tr(S Cov β) with S the covariance of its columns (what its estimate has by
    chance is taken off, so it may be negative), descent λσ² tr(CK)/(n − 1), own (1 − λ)σ²; all over
    the variance of all blocks together, descent and own. pairs: differences of two. Columns: what,
    estimate, lower, upper; percentiles of 1,000 outcomes drawn from the fit, the columns and the
    tree as they are. None where fewer than 2 degrees of freedom are left.
    """
    n = len(y)
    designs = []
    places = {}
    first = 1
    for name, columns_of in blocks.items():
        design = np.asarray(columns_of, dtype=np.float64).reshape(n, -1)
        designs.append(design)
        end = first + design.shape[1]
        places[name] = slice(first, end)
        first = end
    columns = np.column_stack(designs)
    x = np.column_stack([np.ones(n), columns])
    if n - x.shape[1] < LEAST or np.linalg.matrix_rank(x) < x.shape[1]:
        return None
    fit = _fit_lines(y[None], x, k)
    descent = fit.descent[0]
    v = (1 - descent) * np.eye(n) + descent * k
    z = np.random.default_rng(seed).standard_normal((BOOTSTRAPS, n))
    noise = np.sqrt(fit.variance[0]) * (z @ np.linalg.cholesky(v).T)
    drawn = _fit_lines(x @ fit.beta[0] + noise, x, k)
    values = _measure_parts(fit, x, k, places, pairs)
    again = _measure_parts(drawn, x, k, places, pairs)
    rows = []
    for name, value in values.items():
        lower, upper = find_equal_tailed(again[name], LEVEL)
        rows.append((name, float(value[0]), float(lower), float(upper)))
    return pd.DataFrame(rows, columns=["what", "estimate", "lower", "upper"])


@dataclass(frozen=True, kw_only=True)
class _Lines:
    """Restricted maxima of many outcomes at once."""

    descent: Array
    """λ on the grid, one a set of outcomes."""
    beta: Array
    variance: Array
    unscaled: Array
    """Cov β / σ², sets × p × p."""


def _fit_lines(y: Array, x: Array, k: Array) -> _Lines:
    """One line for every row of y, sets × n."""
    n, p = x.shape
    profile = Restricted.build(y, x, k).profile()
    lam = GRID[profile.argmax(axis=-1)]
    beta = np.empty((len(y), p))
    variance = np.empty(len(y))
    unscaled = np.empty((len(y), p, p))
    for value in np.unique(lam):
        at = lam == value
        covariance = (1 - value) * np.eye(n) + value * k
        root = np.linalg.cholesky(covariance)
        wx = np.linalg.solve(root, x)
        wy = np.linalg.solve(root, y[at].T)
        q, r = np.linalg.qr(wx)
        beta[at] = np.linalg.solve(r, q.T @ wy).T
        residual = wy - wx @ beta[at].T
        variance[at] = np.square(residual).sum(axis=0) / (n - p)
        unscaled[at] = np.linalg.inv(r.T @ r)
    return _Lines(descent=lam, beta=beta, variance=variance, unscaled=unscaled)


def _measure_parts(
    fit: _Lines, x: Array, k: Array, places: Mapping[str, slice], pairs: Sequence[tuple[str, str]]
) -> dict[str, Array]:
    n = len(x)
    s = np.cov(x, rowvar=False)

    def contribution(at: slice) -> Array:
        b = fit.beta[:, at]
        block = s[at, at]
        spread = np.einsum("ij,sji->s", block, fit.unscaled[:, at, at])
        explained = np.einsum("si,ij,sj->s", b, block, b)
        return np.asarray(explained - fit.variance * spread)

    drift = (np.trace(k) - k.sum() / n) / (n - 1)
    parts = {name: contribution(at) for name, at in places.items()}
    parts[DESCENT] = fit.descent * fit.variance * drift
    parts[OWN] = (1 - fit.descent) * fit.variance
    of_columns = contribution(slice(1, None))
    total = of_columns + parts[DESCENT] + parts[OWN]
    share = {name: value / total for name, value in parts.items()}
    for a, b in pairs:
        share[f"{a} − {b}"] = share[a] - share[b]
    return share


@dataclass(frozen=True, kw_only=True)
class BranchChange:
    """The mean change of a log gain along branches of one kind, and how often the next one would
    cross 1."""

    estimate: float
    lower: float
    upper: float
    crossing: float
    """Mean over parents of P(a further child lies on the other side of 1)."""
    n_branches: int


def estimate_branch_change(parent: Array, child: Array) -> BranchChange | None:
    """Of log gains at both ends of branches of equal length; None for fewer than 2 branches, or
    equal changes.

    Under Brownian motion with a trend, changes along different branches are independent whatever
    the branches have in common above: the mean has a t interval, and the next change along a branch
    a t distribution about it.
    """
    d = child - parent
    n = len(parent)
    if n < LEAST or np.ptp(d) < 1e-12:
        return None
    mean = float(d.mean())
    sd = float(d.std(ddof=1))
    t = stats.t(n - 1)
    half = float(t.ppf((1 + LEVEL) / 2)) * sd / n**0.5
    next_sd = sd * np.sqrt(1 + 1 / n)
    below = t.cdf((-parent - mean) / next_sd)
    crossing = np.where(parent > 0, below, 1 - below)
    return BranchChange(
        estimate=mean,
        lower=mean - half,
        upper=mean + half,
        crossing=float(crossing.mean()),
        n_branches=n,
    )


LEAST_TIPS = 3
"""Contrasts that columns must leave, and models beyond the labs."""
SHARES, SOURCES = np.linspace(0, 1, 21), np.array([0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
"""λ, and shares of sources in the whole, ρ/(1 + ρ), between which the likelihood is compared."""
FEW = 2
"""Models of a small lab."""
SMALLS = (1.0, 1.75, 3.0)
"""How many times as large errors of models of small labs may be."""
TOLERANCE = 1e-9


def build_lab_covariance(rows: pd.DataFrame) -> Array:
    """K of models by `heritage` and `family`; a model whose family is not stated is its own."""
    lab = rows["heritage"].astype(str).to_numpy()
    stated = rows["family"].fillna("").astype(str)
    own = rows["model_id"].astype(str)
    family = lab + " / " + stated.where(stated != "", own).to_numpy()
    same_lab = (lab[:, None] == lab).astype(np.float64)
    same_family = family[:, None] == family
    alike = same_lab + same_family + np.eye(len(lab))
    return np.asarray(alike / 3)


def estimate_heritabilities(
    rows: pd.DataFrame,
    outcomes: Array,
    columns: Sequence[str],
    *,
    level: float = 0.95,
    smalls: Sequence[float] = (1.0,),
) -> Many:
    """λ of every row of outcomes (study × model) beyond columns and sources, with p of none.

    The estimate is that of the largest restricted likelihood, the interval the λ that its ratio
    does not reject by χ² of one degree of freedom, both to 0.05. smalls: how many times as large
    errors of labs of one or two models may be, over which the likelihood is profiled. rows:
    heritage, family, model_id, source and the columns. Raises UsageError where labs or models are
    too few.
    """
    if not has_enough_models(rows, columns):
        labs = rows["heritage"].nunique()
        raise UsageError(
            "too few models or labs for a share of descent",
            got=f"{len(rows)} models of {labs} labs, {len(columns)} columns",
            allowed=f"2 labs, {LEAST_TIPS} models more than labs, {LEAST_TIPS} more than columns "
            f"and the mean",
        )
    by_share = _score_shares(rows, outcomes, columns, smalls)
    best = by_share.max(axis=1)
    below = best[:, None] - by_share
    inside = below <= stats.chi2.ppf(check_coverage(level), 1)
    ratio = best - by_share[:, 0]
    half = stats.chi2.sf(ratio, 1) / 2
    p = np.where(ratio > TOLERANCE, half, 1.0)
    likeliest = SHARES[by_share.argmax(axis=1)]
    lower = SHARES[inside.argmax(axis=1)]
    last = inside[:, ::-1].argmax(axis=1)
    upper = SHARES[::-1][last]
    return Many(likeliest, lower, upper, p, ProfileLaw(SHARES, below))


def _score_shares(
    rows: pd.DataFrame, outcomes: Array, columns: Sequence[str], smalls: Sequence[float]
) -> Array:
    """Twice the restricted log likelihood of each λ, study × λ, at the best share of sources and
    the best errors of small labs."""
    x = _build_columns(rows, columns)
    likelihood, shares = _score_restricted(outcomes, _build_contrasts(x), rows, smalls)
    best = []
    for share in SHARES:
        of_share = likelihood[:, shares == share]
        best.append(of_share.max(axis=1))
    return np.stack(best, axis=1)


def profile_heritability(
    rows: pd.DataFrame,
    outcome: str,
    columns: Sequence[str],
    *,
    level: float = 0.95,
    smalls: Sequence[float] = (1.0,),
) -> pd.DataFrame:
    """How well each λ fits: `share`, `log_likelihood` minus the largest, and whether the interval
    has it.

    The same restricted likelihood, rows and interval as `estimate_heritabilities`, which raises
    what this raises.
    """
    outcomes = rows[[outcome]].to_numpy(np.float64).T
    [twice] = _score_shares(rows, outcomes, columns, smalls)
    below = (twice - twice.max()) / 2
    limit = -stats.chi2.ppf(level, 1) / 2
    return pd.DataFrame({"share": SHARES, "log_likelihood": below, "inside": below >= limit})


def has_enough_models(rows: pd.DataFrame, columns: Sequence[str]) -> bool:
    """Whether there are two labs, and 3 models more than labs, and more than columns and the
    mean."""
    n = len(rows)
    labs = rows["heritage"].nunique()
    x = _build_columns(rows, columns)
    rank = int(np.linalg.matrix_rank(x))
    return labs >= 2 and n - labs >= LEAST_TIPS and n - rank >= LEAST_TIPS


def _build_columns(rows: pd.DataFrame, columns: Sequence[str]) -> Array:
    values = rows[list(columns)].to_numpy(np.float64)
    return np.column_stack([np.ones(len(rows)), values])


def _build_contrasts(x: Array) -> Array:
    """Orthonormal contrasts (n − rank × n) that no column moves."""
    u, s, _ = np.linalg.svd(x)
    rank = int((s > 1e-9 * s[0]).sum())
    return u[:, rank:].T


def _score_restricted(
    outcomes: Array, contrasts: Array, rows: pd.DataFrame, smalls: Sequence[float]
) -> tuple[Array, Array]:
    """Twice the restricted log likelihood, study × point, σ² at its maximum, and λ of each
    point."""
    sizes = rows.groupby("heritage")["heritage"].transform("size")
    few = (sizes <= FEW).to_numpy()
    if not 0 < few.sum() < len(few):
        smalls = smalls[:1]
    source = rows["source"].astype(str).to_numpy()
    alike = (source[:, None] == source).astype(np.float64)
    descent = contrasts @ build_lab_covariance(rows) @ contrasts.T
    sources = contrasts @ alike @ contrasts.T
    of_sources = SOURCES if np.unique(source).size > 1 else SOURCES[:1]
    w = outcomes @ contrasts.T
    df = len(contrasts)
    values = []
    for rest, small in itertools.product(of_sources, smalls):
        errors = np.diag(np.where(few, small**2, 1.0))
        own = contrasts @ errors @ contrasts.T
        none = rest * sources + (1 - rest) * own
        # at λ the covariance is `none` + λ (1 − rest) (K − own), diagonal at once for every λ
        growth = (1 - rest) * (descent - own)
        roots, turn = linalg.eigh(growth, none)
        spread = 1 + roots[:, None] * SHARES
        squares = np.square(w @ turn) @ (1 / spread)
        log_det_turn = np.linalg.slogdet(turn)[1]
        log_determinant = np.log(spread).sum(axis=0) - 2 * log_det_turn
        twice_log_likelihood = -df * np.log(squares / df) - log_determinant
        values.append(twice_log_likelihood)
    return np.hstack(values), np.tile(SHARES, len(values))
