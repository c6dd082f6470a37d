"""Outcomes predicted from all others: exactly given the scales of a Gaussian model, by importance
weights elsewhere.

Where the weights cannot be trusted (Pareto k above 0.7) the model is fitted again without what is
predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special, stats

from thermostats.errors import UsageError
from thermostats.modelling.draws import (
    PARETO_LIMIT,
    Array,
    Draws,
    Settings,
    find_equal_tailed,
    normalise_pareto_weights,
    resample_systematically,
)
from thermostats.modelling.gaussian import (
    NUMBERS,
    Gaussian,
    Mixture,
    build_factor,
    read_scales,
    whiten_design,
)
from thermostats.modelling.importance import normalise_weights
from thermostats.modelling.sampling import Sampled

SIZE = 1000
"""Draws that are weighted."""
REFIT = Settings(draws=500)
"""Settings of a refit without one outcome."""
OF_FOLD = Settings(draws=250)
"""Settings of an exact refit without a fold."""
LARGE = 0.1
"""Share of the outcomes from which on a fold of several is left out by a refit: weights would have
to carry too far."""
JITTER = 1e-10
"""Of the outcomes' variance, added to a covariance that rounding may make singular."""
MOST_FOLDS = 100
FEWER = 20


@dataclass(frozen=True, kw_only=True, repr=False)
class LeftOut:
    """Every outcome predicted from the folds it is not in."""

    draws: Array
    """Predictive draws, size × n."""
    pit: Array
    """P(prediction < outcome): uniform where the model is right."""
    log_density: Mapping[str, float]
    """log p(y_fold | y_rest) of every fold."""
    refits: int
    """Folds that were left out by a refit: large ones, and those whose weights cannot be
    trusted."""
    untrusted: int = 0
    """Folds whose weights cannot be trusted and stand all the same, since nothing was to be
    refitted."""

    @property
    def elpd(self) -> float:
        """Expected log predictive density: the sum over folds."""
        return float(sum(self.log_density.values()))

    @property
    def se(self) -> float:
        """Its standard error over folds."""
        points = np.array(list(self.log_density.values()))
        return float(points.std(ddof=1) * points.size**0.5)

    def __repr__(self) -> str:
        folds = len(self.log_density)
        outcomes = self.draws.shape[1]
        untrusted = f", {self.untrusted} not to be trusted" if self.untrusted else ""
        how = f"{self.refits} by a refit{untrusted}"
        return (
            f"elpd {self.elpd:.4g}, standard error {self.se:.3g}; {outcomes} outcomes in {folds} "
            f"folds, {how}"
        )

    def interval(self, level: float | None = None) -> tuple[Array, Array]:
        """Give the equal-tailed predictive interval of every outcome.

        Parameters
        ----------
        level : float
            Its probability; by default that of `options`.

        Returns
        -------
        tuple of array
            Lower and upper ends.

        Examples
        --------
        >>> import thermostats
        >>> rows = thermostats.model_rows("published", "penultimate_gain")
        >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
        >>> lower, upper = fit.loo().interval(0.9)
        >>> bool((lower < upper).all())
        True
        """
        return find_equal_tailed(self.draws, level)


def build_folds(names: Sequence[str]) -> list[str]:
    """A fold for every name; of more than `MOST_FOLDS` names every `FEWER`-th together."""
    number = {}
    for i, name in enumerate(dict.fromkeys(names)):
        number[name] = i
    if len(number) <= MOST_FOLDS:
        return list(names)
    folds = []
    for name in names:
        folds.append(f"group {number[name] % FEWER + 1} of {FEWER}")
    return folds


def list_units(
    rows: pd.DataFrame, columns: Sequence[str]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Names of units and their rows: of every column with three units or more whose units no column
    before has."""
    seen = []
    for column in columns:
        if column not in rows or rows[column].nunique() < 3:
            continue
        names = rows[column].astype(str).tolist()
        labels = np.asarray(build_folds(names))
        units = {}
        for label in dict.fromkeys(labels.tolist()):
            units[label] = labels == label
        sets = {frozenset(np.flatnonzero(out).tolist()) for out in units.values()}
        if sets in seen:
            continue
        seen.append(sets)
        yield from units.items()


def build_model_and_lab_folds(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Folds of models, and of labs where there are several."""
    models = rows["model_id"].astype(str).tolist()
    labs = rows["heritage"].astype(str).tolist()
    ways = {"model": build_folds(models)}
    if len(set(labs)) > 1:
        ways["lab"] = build_folds(labs)
    return ways


def leave_folds_out(
    model: Gaussian,
    draws: Draws,
    folds: Sequence[str],
    *,
    seed: int,
    size: int = 1000,
    measured: bool = True,
) -> LeftOut:
    """Predict every fold from all others: exactly given the scales, of which each draw weighs
    1/p(y_fold | y_rest, θ).

    With V the covariance of y given θ, Q = (V⁻¹)_ff and r = (V⁻¹y)_f: y_f | y_rest ~ N(y_f − Q⁻¹r,
    Q⁻¹) (Sundararajan and Keerthi 2001, doi:10.1162/08997660151134343). `measured`: with errors of
    measurement. Raises UsageError for fewer than 2 folds.
    """
    if not model.LEAVES_OUT:
        what = "so many models along a tree are not left out"
        step = "fit one of its clades"
        raise UsageError(what, got=f"{model.y.size} models", next_step=step)
    names = np.asarray(folds, dtype=str)
    if len(distinct := dict.fromkeys(names.tolist())) < 2:
        raise UsageError("nothing to leave out", got=f"{len(distinct)} fold", allowed="at least 2")
    rng = np.random.default_rng(seed)
    n = model.y.size
    nothing = np.zeros(n, dtype=bool)
    theta, square = _draw_scales(model, draws.few(size), nothing, rng)
    predicted = np.empty((len(theta), n))
    pit = np.empty(n)
    density = {}
    refits = 0
    precision, weighted = _build_precision(model, theta, square, names, tuple(distinct))
    for fold in distinct:
        out = names == fold
        y = model.y[out]
        mean, cov, log_p = _leave_rows_out(y, precision[fold], weighted[:, out])
        log_w, k = normalise_pareto_weights(-log_p[None])
        if k[0] > PARETO_LIMIT or 1 < out.sum() >= LARGE * n:
            rest = model.select_rows(~out).sample(seed=seed, settings=OF_FOLD)
            refits = refits + 1
            scales = _draw_scales(model, rest.few(size), out, rng)
            alone = np.where(out, fold, "")
            again, weighted_again = _build_precision(model, *scales, alone, (fold,))
            mean, cov, log_p = _leave_rows_out(y, again[fold], weighted_again[:, out])
            size_again = len(log_p)
            log_w = np.full((1, size_again), -math.log(size_again))
            density[fold] = draws.log_evidence - rest.log_evidence
        else:
            density[fold] = _average_density(log_w[0], log_p)
        weight = normalise_weights(log_w[0])
        spread = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
        pit[out] = weight @ stats.norm.cdf((y - mean) / spread)
        rows = resample_systematically(weight, len(theta), rng)
        identity = np.eye(y.size)
        error = identity * (0.0 if measured else square[rows][:, None, out])
        jitter = JITTER * model.unit**2 * identity
        root = np.linalg.cholesky(cov[rows] - error + jitter)
        noise = rng.standard_normal((len(rows), y.size, 1))
        residual = root @ noise
        predicted[:, out] = mean[rows] + residual[..., 0]
    return LeftOut(draws=predicted, pit=pit, log_density=density, refits=refits)


def _average_density(log_weight: Array, log_density: Array) -> float:
    """Log of the weighted mean of densities."""
    total = special.logsumexp(log_weight + log_density)
    return float(total - special.logsumexp(log_weight))


def _draw_scales(
    model: Gaussian, values: Mapping[str, Array], out: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Array, Array]:
    """θ and the squared error of every outcome, rows × n, of draws of the model without the
    outcomes that are `out`."""
    theta = np.log(values["scale"])
    square = np.tile(np.square(model.error), (len(theta), 1))
    if model.freedom is not None:
        square *= model.freedom / rng.chisquare(model.freedom, square.shape)
        square[:, ~out] = np.square(values["error"])
    return theta, square


def _build_precision(
    model: Gaussian, theta: Array, square: Array, names: NDArray[np.str_], folds: Sequence[str]
) -> tuple[dict[str, Array], Array]:
    """Blocks of V⁻¹ by fold, size × rows × rows, and V⁻¹y, size × n."""
    blocks: dict[str, list[Array]] = {}
    for fold in folds:
        blocks[fold] = []
    weighted = []
    parts = max(1, theta.shape[0] * model.design.size // NUMBERS)
    pieces = zip(np.array_split(theta, parts), np.array_split(square, parts), strict=True)
    for part, own_square in pieces:
        known = own_square if model.freedom is not None else model.moments[0][None]
        factor, _, d = build_factor(model, part, known)
        scale = read_scales(model, part)
        noise = np.square(scale[:, -1:]) + own_square
        half, pulled = whiten_design(model, factor, d, noise)
        weighted.append(pulled)
        for fold in folds:
            out = names == fold
            columns = half[:, :, out]
            alone = np.eye(out.sum()) / noise[:, None, out]
            block = alone - np.swapaxes(columns, 1, 2) @ columns
            blocks[fold].append(block)
    precision = {fold: np.concatenate(parts) for fold, parts in blocks.items()}
    return precision, np.concatenate(weighted)


def _leave_rows_out(y: Array, precision: Array, weighted: Array) -> tuple[Array, Array, Array]:
    """Mean, covariance and log density of some outcomes given all others, for every θ."""
    cov = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    off = (cov @ weighted[..., None])[..., 0]
    log_det = np.asarray(np.linalg.slogdet(precision)[1], dtype=np.float64)
    quadratic = (off * weighted).sum(axis=1)
    constant = y.size * math.log(2 * math.pi)
    log_density = 0.5 * (log_det - quadratic - constant)
    return y - off, cov, np.asarray(log_density)


def leave_mixture_folds_out(
    mixture: Mixture, folds: Sequence[str], *, seed: int, size: int = SIZE
) -> LeftOut:
    """The same of a mixture: p(value | y_rest) ∝ p(value | y) / p(y_fold | y_rest, value)."""
    rng = np.random.default_rng(seed)
    nodes = []
    for node, draws in zip(mixture.nodes, mixture.fits, strict=True):
        nodes.append(leave_folds_out(node, draws, folds, seed=seed, size=size))
    names = np.asarray(folds, dtype=str)
    density = {}
    predicted = np.empty_like(nodes[0].draws)
    pit = np.empty(names.size)
    for fold in nodes[0].log_density:
        out = names == fold
        of_nodes = [node.log_density[fold] for node in nodes]
        log_rest = mixture.log_joint - np.array(of_nodes)
        density[fold] = mixture.log_evidence - float(special.logsumexp(log_rest))
        weight = normalise_weights(log_rest)
        pits = [node.pit[out] for node in nodes]
        pit[out] = weight @ np.array(pits)
        chosen = rng.choice(len(nodes), len(predicted), p=weight)
        for row, k in enumerate(chosen):
            predicted[row, out] = nodes[k].draws[row, out]
    refits = sum(node.refits for node in nodes)
    return LeftOut(draws=predicted, pit=pit, log_density=density, refits=refits)


def leave_one_out(
    model: Gaussian | Mixture | Sampled,
    draws: Draws,
    *,
    seed: int,
    together: bool = True,
    refit: bool = True,
) -> LeftOut:
    """Every outcome predicted from all others.

    Of more than 100 outcomes of an exact model every 20th `together`; of a sampled one each is left
    out alone. Without `refit` smoothed weights of a sampled one stand, whatever their Pareto k.
    """
    if not isinstance(model, Sampled):
        each = [str(i) for i in range(model.observed.size)]
        names = build_folds(each) if together else each
        if isinstance(model, Mixture):
            return leave_mixture_folds_out(model, names, seed=seed)
        return leave_folds_out(model, draws, names, seed=seed)
    values = draws.few(SIZE)
    rng = np.random.default_rng(seed)
    log_p = model.log_likelihood(values)
    again = model.replicate(values, rng)
    log_w, k = normalise_pareto_weights(-log_p.T)
    density = {}
    pit = np.empty(len(k))
    predicted = again.copy()
    heavy = ~(k <= PARETO_LIMIT)
    for i, y in enumerate(model.observed):
        weights = log_w[i]
        p = log_p[:, i]
        replicates = again[:, i]
        if heavy[i] and refit:
            out = np.arange(len(k)) == i
            others = model.select_rows(~out)
            rest = others.sample(seed=seed, settings=REFIT, retry=False).few(SIZE)
            alone = model.select_rows(out)
            p = alone.log_likelihood(rest)[:, 0]
            replicates = alone.replicate(rest, rng)[:, 0]
            weights = np.full(len(p), -math.log(len(p)))
        weight = normalise_weights(weights)
        density[str(i)] = _average_density(weights, p)
        ties = rng.random() * (replicates == y)
        pit[i] = weight @ ((replicates < y) + ties)
        drawn = resample_systematically(weight, len(predicted), rng)
        predicted[:, i] = replicates[drawn]
    n_heavy = int(heavy.sum())
    refits = n_heavy if refit else 0
    untrusted = 0 if refit else n_heavy
    return LeftOut(
        draws=predicted, pit=pit, log_density=density, refits=refits, untrusted=untrusted
    )


def compare_predictions(left_out: Mapping[str, LeftOut]) -> pd.DataFrame:
    """The table of predictions of the same outcomes; UsageError where others were left out
    together."""
    folds = {frozenset(each.log_density) for each in left_out.values()}
    if len(folds) > 1:
        numbers = ", ".join(f"{len(f)} folds" for f in folds)
        raise UsageError("other outcomes were left out together", got=numbers)
    densities = {}
    for name, each in left_out.items():
        densities[name] = pd.Series(dict(each.log_density))
    points = pd.DataFrame(densities)
    order = list(points.sum().sort_values(ascending=False).index)
    points, spread = points[order], len(points) ** 0.5
    below = (-points).add(points[order[0]], axis=0)
    difference = below.sum().to_numpy()
    error = below.std().to_numpy() * spread
    with np.errstate(divide="ignore", invalid="ignore"):
        worse = stats.norm.cdf(difference / error)
    is_best = np.arange(len(order)) == 0
    table = {
        "rank": range(len(order)),
        "elpd": points.sum().to_numpy(),
        "elpd_diff": difference,
        "weight": fit_stacking_weights(points.to_numpy()),
        "se": points.std().to_numpy() * spread,
        "dse": error,
        "p_worse": np.where(is_best, np.nan, worse),
    }
    return pd.DataFrame(table, index=pd.Index(order, name="fit"))


def fit_stacking_weights(points: Array) -> Array:
    """Weights w ≥ 0, Σ w = 1, that make Σ_i log Σ_k w_k exp(points_ik) largest; points × fits."""
    density = np.exp(points - points.max(axis=1, keepdims=True))

    def negative(x: Array) -> tuple[float, Array]:
        weight = special.softmax(np.append(x, 0.0))
        mixed = density @ weight
        share = (density / mixed[:, None]).sum(axis=0)
        slope = weight * (share - len(points))
        loss = float(np.log(mixed).sum())
        return -loss, -slope[:-1]

    start = np.zeros(points.shape[1] - 1)
    best = optimize.minimize(negative, start, jac=True, method="BFGS")
    return np.asarray(special.softmax(np.append(best.x, 0.0)))
