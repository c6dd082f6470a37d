"""The heritage model of many models in closed form: Gaussian means, effects summed out through the blocks' low rank.

θ_b = log τ²φ_b, a handful of numbers, is drawn by importance sampling: a t about the mode, then one about the weighted
draws of the round before; with each θ the errors, from their posterior given the spreads over prompts; everything else
exactly given both (`gaussian`). Draws are independent; the gate is on the weights. Where residuals are not normal the
weighted draws are where short chains begin (`moves`), in groups with weights of their own; a refit's chains begin at
the draws of the fit. The gate is on R-hat and effective size of these groups (cf. nested R-hat, Margossian et al. 2024,
doi:10.1214/24-BA1453).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from thermostats.modelling.heritage.averages import Averages
from thermostats.modelling.heritage.blocks import EFFECTS, Design
from thermostats.modelling.heritage.gaussian import Latent, Means, given_variances, log_density, plain, precision_of
from thermostats.modelling.heritage.laws import NORMAL, drawn_latents, law, narrow
from thermostats.modelling.heritage.moves import KEPT, moved
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import PARETO_LIMIT, Array, Draws, Settings, Weights
from thermostats.modelling.inference.sums import logsumexp

PROPOSALS, ENOUGH = (1000, 1500, 3000, 6000), 600
"""Draws of θ in every round; from the second on it ends with that many effective draws, Pareto k within its limit."""
LIKELY = 20
"""Draws of θ over which is averaged what an error says of its mean; twice as many where residuals are not normal."""
TAIL_DF = 5.0
Start = tuple[Array, Latent]
"""Draws of θ and of what makes the model Gaussian."""
FLOOR = 1e-4
"""Smallest standard error of a mean."""


def closed_form(
    laid_out: Design,
    *,
    total_sd: float,
    concentration: float = 1.0,
    seed: int,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    blocks: Sequence[str] | None = None,
    unseen: Sequence[int] | NDArray[np.int64] = (),
    means: Averages | None = None,
    residuals: str = NORMAL,
    begin: Start | None = None,
) -> Draws:
    """Draws of τ, shares, effects and model means, given mean, spread and number of prompts of every model.

    Named and shaped as sampling names them; `settings` gives chains and draws. Shares and effects of a block that is
    not in `blocks` (by default all of the design) are 0; models `unseen` (their numbers) are predicted; `means` stand
    in for those of the design. `residuals`: a name of `laws`; where they are not normal, draws have the law's `shape`,
    and of every model the `factor` of its residual variance, its `shift` in standard deviations and the `error` of its
    mean; `begin`, draws of a fit of more models, is then where the chains begin. Where the importance weights cannot be
    trusted (Pareto k above 0.7, or fewer than 400 effective draws), or groups of short chains disagree, the diagnostics
    fail.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    averages = laid_out.averages if means is None else means
    y = averages.mean
    bases = laid_out.bases()
    kept = [name for name in bases if blocks is None or name in blocks]
    given = Means(
        y=y,
        error=np.maximum(averages.error, FLOOR),
        Z=np.column_stack([np.ones(y.size), *(bases[name] for name in kept)]),
        ranks=tuple(bases[name].shape[1] for name in kept),
        seen=~np.isin(np.arange(y.size), unseen),
        total_sd=total_sd,
        concentration=concentration,
        law=(own := law(residuals)),
        units=laid_out.lab if own.of_labs else np.arange(y.size),
    )
    size = settings.chains * settings.draws
    if own.name == NORMAL:
        theta, latent, weight, k = _importance(given, averages, rng)
        chosen = _resampled(weight, size, rng)
    else:
        theta, latent = _chains(given, averages, settings, rng, begin)
        chosen = np.arange(size)
    tau, phi, effects, m = given_variances(given, theta, latent, chosen, rng)
    drawn = {"tau": tau, "alpha": effects[:, 0], "m": m, "share": np.zeros((size, len(laid_out.blocks)))}
    drawn["share"][:, [*(laid_out.blocks.index(name) for name in kept), -1]] = phi
    parts = dict(zip(kept, np.split(effects[:, 1:], np.cumsum(given.ranks)[:-1], axis=1), strict=True))
    for name, basis in bases.items():
        drawn[EFFECTS[name]] = parts.get(name, np.zeros((size, basis.shape[1])))
    if own.name != NORMAL:
        drawn |= {"shape": own.shape[latent.shape], "factor": latent.factor}
        drawn |= {"shift": latent.shift, "error": latent.errors}
        return sampling.chained_draws(
            drawn, judged=("tau", "share", "alpha", "shape"), seed=seed, settings=settings, start=start
        )
    weights = Weights(effective=float(1 / np.square(weight).sum()), pareto_k=k)
    return sampling.exact_draws(drawn, seed=seed, settings=settings, start=start, weights=weights)


def _resampled(weight: Array, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows chosen by their weights, systematically, in random order."""
    places = np.searchsorted(np.cumsum(weight), (rng.random() + np.arange(size)) / size)
    return rng.permutation(np.minimum(places, weight.size - 1))


def _chains(
    means: Means, averages: Averages, settings: Settings, rng: np.random.Generator, begin: Start | None
) -> tuple[Array, Latent]:
    """Draws of θ and what makes the model Gaussian, groups · draws rows, in every group one short chain after another.

    Each group of chains begins at draws by weights of its own, or of a fit of more models.
    """
    begun, side = [], -(-settings.draws // KEPT)
    if begin is not None:
        chosen = rng.choice(len(begin[0]), settings.chains * side)
        begun.append((begin[0][chosen], begin[1].of(chosen)))
    for _ in range(settings.chains if begin is None else 0):
        theta, latent, weight, _ = _importance(means, averages, rng)
        rows = _resampled(weight, side, rng)
        begun.append((theta[rows], latent.of(rows)))
    found = moved(means, *_together(begun), rng)
    theta, latent = _together(found)
    rows = np.moveaxis(np.arange(len(theta)).reshape(len(found), settings.chains, side), 0, -1)
    rows = rows.reshape(settings.chains, -1)[:, : settings.draws].ravel()
    return theta[rows], latent.of(rows)


def start_of(draws: Draws, residuals: str, models: NDArray[np.int64]) -> Start:
    """Where chains of some of the models (their numbers) begin, from draws of a fit whose residuals are not normal."""
    errors, factor, shift = (draws.flat(name)[:, models] for name in ("error", "factor", "shift"))
    shape = law(residuals).number_of(draws.flat("shape"))
    theta = 2 * np.log(draws.flat("tau"))[:, None] + np.log(draws.flat("share"))
    return theta, Latent(errors=errors, factor=factor, shift=shift, shape=shape)


def _together(parts: Sequence[tuple[Array, Latent]]) -> tuple[Array, Latent]:
    latents = [vars(latent) for _, latent in parts]
    joined = {name: np.concatenate([own[name] for own in latents]) for name in latents[0]}
    return np.concatenate([theta for theta, _ in parts]), Latent(**joined)


def _importance(means: Means, averages: Averages, rng: np.random.Generator) -> tuple[Array, Latent, Array, float]:
    """Draws of θ and what makes the model Gaussian, their smoothed weights and Pareto k."""
    spread_of_y = max(float(means.y[means.seen].std()), 0.01 * means.total_sd)
    start = np.full(len(means.ranks) + 1, 2 * np.log(spread_of_y / 2))
    mode = optimize.minimize(
        lambda theta: -log_density(means, theta[None])[0], start, method="BFGS", options={"gtol": 1e-2}
    )
    centre, spread = mode.x, _positive(np.atleast_2d(mode.hess_inv))
    likely, given, normal = mode.x[None], plain(means, 1), means.law.name == NORMAL
    for size in PROPOSALS if normal else PROPOSALS[:-1]:
        proposal = stats.multivariate_t(centre, spread, df=TAIL_DF, seed=rng)
        theta = proposal.rvs(size)
        latent, log_weight = _latent(means, averages, likely, given, size, rng)
        log_weight = log_weight + log_density(means, theta, latent) - proposal.logpdf(theta)
        weight = np.exp(log_weight - logsumexp(log_weight))
        smoothed, k = sampling.pareto_smooth(log_weight[None, :])
        even = 1 / np.square(weight).sum() >= ENOUGH and (k[0] <= PARETO_LIMIT or not normal)
        if size > PROPOSALS[0] and even:
            break
        rows = rng.choice(size, LIKELY if normal else 2 * LIKELY, p=weight)
        likely, given, centre = theta[rows], latent.of(rows), weight @ theta
        spread = _positive((theta - centre).T @ ((theta - centre) * weight[:, None]))
    return theta, latent, np.exp(smoothed[0] - logsumexp(smoothed[0])), float(k[0])


def _latent(
    means: Means, averages: Averages, theta: Array, given: Latent, size: int, rng: np.random.Generator
) -> tuple[Latent, Array]:
    """Draws of errors and latent numbers of the residuals, each favoured as it alone changes p(y | θ), log weights.

    `theta`, `given`: rows over which that change is averaged.
    """
    precision, pulled = precision_of(means, theta, given)
    alone = np.diagonal(precision, axis1=1, axis2=2)[..., None]

    def by_error(square: Array) -> Array:
        delta, found = square[means.seen] - np.square(given.errors[:, means.seen, None]), np.zeros(square.shape)
        change = _change(alone, pulled[..., None], np.ones(1), delta, np.zeros(1))
        found[means.seen] = change.mean(axis=0)
        return found

    errors, log_weight = averages.errors(size, rng, by_error)
    own, units = means.law, means.units
    tilt = np.zeros((own.shape.size, int(units.max()) + 1, own.log_p.shape[1]))
    scale = np.exp(theta[:, -1:])
    if own.name == NORMAL:
        shape, cell = np.zeros(size, dtype=np.int64), np.zeros((size, len(units)), dtype=np.int64)
    else:
        for unit in np.unique(units[means.seen]):
            at = np.flatnonzero(units[means.seen] == unit)
            values, vectors = np.linalg.eigh(precision[:, at[:, None], at])
            turned, first = np.swapaxes(vectors, 1, 2), np.flatnonzero(units == unit)[0]
            delta = scale[..., None] * (narrow(own.factor) - given.factor[:, [[first]]])
            shift = np.sqrt(scale)[..., None] * (narrow(own.shift) - given.shift[:, [[first]]])
            change = _change(values, np.einsum("tab,tb->ta", turned, pulled[:, at]), turned.sum(axis=2), delta, shift)
            tilt[:, unit] = change.mean(axis=0)
        shape, cell, more = drawn_latents(own, tilt, size, rng)
        log_weight = log_weight + more
    factor, shift = (values[shape[:, None], cell][:, units] for values in (own.factor, own.shift))
    errors = np.maximum(errors, FLOOR)
    return Latent(errors=errors, factor=factor, shift=shift, shape=shape), log_weight


def _change(values: Array, pulled: Array, ones: Array, delta: Array, shift: Array) -> Array:
    """How log p(y) changes as the variances of a unit's models grow by δ and their means shift by s, … × changes.

    Of the unit's block of P: eigenvalues e, and Py and a vector of ones turned to its eigenvectors:
    Σ −½ log(1 + δe) + (½ δ(Py)² + s·1·Py − ½ s²1²e)/(1 + δe).
    """
    axes = (slice(None),) * values.ndim + (None,) * (1 + delta.ndim - values.ndim)
    e, r, one = (np.moveaxis(np.broadcast_to(part, values.shape), -1, 0)[axes] for part in (values, pulled, ones))
    grown = np.maximum(1 + delta * e, 1e-3)
    parts = 0.5 * r**2 * delta + (shift * (one * r) - np.square(shift) * (0.5 * one**2 * e))
    parts = parts / grown - 0.5 * np.log(grown)
    return np.asarray(parts.sum(axis=0))


def _positive(covariance: Array) -> Array:
    """The nearest covariance whose standard deviations along its axes are between 0.01 and 5."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.clip(values, 0.01**2, 25.0)) @ vectors.T)
