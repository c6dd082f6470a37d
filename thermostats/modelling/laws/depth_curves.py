"""Two power laws of depth: y = m e^(−β x) + u_lab + ε through the middle, and an envelope y = m e^(−β x) − w + v above.

The curve is drawn exactly by quadrature. The envelope (w half-normal, v normal: a stochastic frontier, Aigner, Lovell
and Schmidt 1977, doi:10.1016/0304-4076(77)90052-5) is sampled through the seam, and by importance weights for refits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.interpolate import Akima1DInterpolator
from scipy.special import log_ndtr, logsumexp

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, by_sampling, weighed
from thermostats.modelling.inference.checks import UNDECIDED, Check, Statistic, exact_pit
from thermostats.modelling.inference.draws import Array, Draws, Settings
from thermostats.modelling.inference.fitted import Part, direct_part, spaced
from thermostats.modelling.inference.held_out import few_folds
from thermostats.modelling.inference.quadrature import Lines, Posterior, log_evidence, posterior, predict

BETA = (0.5, 1.0)
"""Normal prior of β: no dependence (0) and the claim (1) are equally likely beforehand."""
NOISE = 1 / 6
"""Prior scale of the noise around the envelope, as a share of that of the gains."""
NODES, REACH, NEGLIGIBLE = 31, 3.5, 10.0
"""First nodes of β, prior standard deviations to either side, log density below the highest that is left out."""
STEP, HALVINGS, FINE = 1.0, 30, 16
"""Nodes are added until the log density changes by less than this from one to the next, at most so many times; and
points between two nodes in which it is interpolated."""
LEAST_EFFECTIVE = 200.0
"""Effective draws below which a refit of the envelope says nothing."""
PROPOSED, WANTED, ROUNDS, TAIL = 3000, 600, 40, 5
"""Draws a round of the importance sampler, their effective number, rounds at most, degrees of freedom of a proposal."""
STEPS = Settings(target_accept=0.97)
CURVE = ("middle", "beta", "sigma", "tau")
FRONTIER = ("frontier_middle", "frontier_beta", "below", "noise")
FOLDED = np.array([True, False, True, True])
"""Which of (m, β, below, noise) are never below 0."""
IMAGES = np.array([(a, 1, b, c) for a in (1, -1) for b in (1, -1) for c in (1, -1)])
"""Signs under which a proposal folded at 0 gives the same draw."""


@dataclass(frozen=True, kw_only=True)
class Depths:
    """Rows of both models: y = log10 G, x = log(L/L₀), standard errors of y, labs, prior scale and prior of β."""

    y: Array
    x: Array
    error: Array
    groups: NDArray[np.int64]
    """Labs from 0; −1 for one never seen."""
    n_groups: int
    """0: no effects of labs."""
    scale: float
    beta: tuple[float, float] = BETA

    def rows(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Depths:
        """The same model of some rows."""
        parts = {name: getattr(self, name)[chosen] for name in ("y", "x", "error", "groups")}
        return replace(self, **parts)

    @property
    def share(self) -> float:
        """Prior scale of labs and of models within labs, half the variance each."""
        return self.scale / 2**0.5


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Draws of y = m e^(−β x) + u_lab + ε: m is the height at the middle depth L₀."""

    beta: Array
    found: Posterior
    """Its `beta` is m."""
    log_evidence: float
    settled: bool
    """Whether there are nodes enough to say anything."""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Draws of y = m e^(−β x) − u + v, u half-normal(below), v normal(noise and error of measurement)."""

    middle: Array
    beta: Array
    below: Array
    noise: Array
    log_evidence: float
    effective: float
    """Effective number of the importance weights that the draws were taken by."""

    @property
    def settled(self) -> bool:
        """Whether the weights are even enough to say anything."""
        return self.effective >= LEAST_EFFECTIVE


def envelope_model(pm: Any, data: Mapping[str, Any]) -> None:
    """y_i = m (L_i/L₀)^(−β) − w_i + v_i, w ~ half-normal(below), v ~ N(0, noise² + error_i²).

    w is summed out: with s² = below² + v² and λ = below/v the density of e = y − frontier is (2/s) φ(e/s) Φ(−e λ/s).
    Data tell below and noise together better than apart: they are sampled as size r and angle θ, below = r sin θ and
    noise = r cos θ, so that d below d noise = r² d log r dθ.
    """
    middle = pm.HalfNormal("frontier_middle", data["scale"])
    beta = pm.Normal("frontier_beta", data["beta_mean"], data["beta_sd"])
    log_size, angle = pm.Flat("log_size"), pm.Uniform("angle", 0.0, math.pi / 2)
    in_scales = pm.math.stack([pm.math.sin(angle), pm.math.cos(angle) / NOISE]) * pm.math.exp(log_size)
    pm.Potential("half_normals", 2 * log_size - 0.5 * pm.math.sum(in_scales**2))
    below = pm.Deterministic("below", data["scale"] * in_scales[0])
    noise = pm.Deterministic("noise", NOISE * data["scale"] * in_scales[1])
    either = pm.math.sqrt(noise**2 + data["error"] ** 2)
    spread = pm.math.sqrt(below**2 + either**2)
    z = (data["y"] - middle * pm.math.exp(-beta * data["x"])) / spread
    tilt = pm.logcdf(pm.Normal.dist(0.0, 1.0), -z * below / either)
    pm.Potential("envelope", pm.math.sum(tilt - pm.math.log(spread) - 0.5 * z**2))


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Draws of both models, each quantity under its own name."""

    curve_draws: Draws
    """Without groups `tau` is 0 throughout."""
    frontier_draws: Draws
    effects: Array
    """Of the labs on the curve, draws × labs."""
    depths: Depths

    def curve(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """The curve through the middle with what the checks need; replicates keep the labs' effects."""
        depths, draws = self.depths, self.curve_draws
        chosen = spaced(draws)
        centre, spread = _curve(depths, {name: draws.flat(name)[chosen] for name in CURVE})
        if depths.n_groups:
            centre = centre + self.effects[chosen][:, depths.groups]
        priors = _priors(depths)

        def again(y: Array, seed: int) -> Refit:
            return weighed(draw_curve(replace(depths, y=y), seed=seed, settings=SHORT)[0])

        return direct_part(
            draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            priors={name: priors[name] for name in (CURVE if depths.n_groups else CURVE[:-1])},
            simulator=Simulator(joint=partial(_curve_joint, depths), posterior=again),
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(centre, spread)),
            density=lambda: np.asarray(stats.norm.logpdf(depths.y, centre, spread)),
            loo=partial(_left_out_check, depths, False),
        )

    def frontier(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """The envelope with what the checks need."""
        depths, draws = self.depths, self.frontier_draws
        chosen, priors = spaced(draws), _priors(depths)
        found = _frontier(depths, {name: draws.flat(name)[chosen] for name in FRONTIER})
        return direct_part(
            draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            priors={name: priors[name] for name in FRONTIER},
            simulator=by_sampling(
                envelope_model,
                _envelope_data(depths),
                partial(_frontier_joint, depths),
                lambda y: {"y": y},
                settings=replace(SHORT, target_accept=STEPS.target_accept),
            ),
            replicate=lambda seed: _below(*found, np.random.default_rng(seed)),
            density=lambda: frontier_density(depths.y, *found),
            loo=partial(_left_out_check, depths, True),
        )


def sample(depths: Depths, *, seed: int, cache: bool = True) -> Laws:
    """Draws of both models."""
    data = _envelope_data(depths)
    frontier_draws = sampling.fit(envelope_model, data, seed=seed, settings=STEPS, cache=cache)
    curve_draws, effects = draw_curve(depths, seed=seed)
    return Laws(curve_draws=curve_draws, frontier_draws=frontier_draws, effects=effects, depths=depths)


def _envelope_data(depths: Depths) -> dict[str, Array]:
    priors = {"scale": depths.scale, "beta_mean": depths.beta[0], "beta_sd": depths.beta[1]}
    rows = {name: getattr(depths, name) for name in ("y", "x", "error")}
    return rows | {name: np.array(value) for name, value in priors.items()}


def draw_curve(depths: Depths, *, seed: int, settings: Settings = STEPS) -> tuple[Draws, Array]:
    """Independent draws of m, β, σ and τ, and of the labs' effects, draws × labs.

    Where the quadrature did not settle the diagnostics fail.
    """
    start = time.perf_counter()
    found = curve(depths, seed=seed, draws=settings.chains * settings.draws)
    values = {"middle": found.found.beta[:, 0], "beta": found.beta, "sigma": found.found.sigma, "tau": found.found.tau}
    draws = sampling.exact_draws(
        values,
        seed=seed,
        settings=settings,
        start=start,
        effective=math.inf if found.settled else 0.0,
        weights="β by quadrature",
    )
    return draws, found.found.effects


def _priors(depths: Depths) -> dict[str, tuple[float, float]]:
    """Centre and scale of the normal or half-normal prior of every quantity."""
    return {
        "middle": (0.0, depths.scale),
        "beta": depths.beta,
        "sigma": (0.0, depths.share),
        "tau": (0.0, depths.share),
        "frontier_middle": (0.0, depths.scale),
        "frontier_beta": depths.beta,
        "below": (0.0, depths.scale),
        "noise": (0.0, NOISE * depths.scale),
    }


def _from_prior(depths: Depths, rng: np.random.Generator, size: int) -> dict[str, Array]:
    found = {name: centre + scale * rng.standard_normal(size) for name, (centre, scale) in _priors(depths).items()}
    return {name: v if name in ("middle", "beta", "frontier_beta") else np.abs(v) for name, v in found.items()}


def _curve_joint(depths: Depths, seed: int, size: int) -> tuple[dict[str, Array], Array]:
    """Quantities of the curve from their priors, and outcomes of them, draws × rows."""
    rng = np.random.default_rng(seed)
    own = _from_prior(depths, rng, size)
    centre, spread = _curve(depths, own)
    if depths.n_groups:
        labs = own["tau"][:, None] * rng.standard_normal((size, depths.n_groups))
        centre = centre + labs[:, depths.groups]
    outcomes = np.asarray(rng.normal(centre, spread))
    return {name: own[name] for name in (CURVE if depths.n_groups else CURVE[:-1])}, outcomes


def _frontier_joint(depths: Depths, seed: int, size: int) -> tuple[dict[str, Array], Array]:
    """The same of the envelope."""
    rng = np.random.default_rng(seed)
    own = _from_prior(depths, rng, size)
    return {name: own[name] for name in FRONTIER}, _below(*_frontier(depths, own), rng)


def _curve(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array]:
    """Height of the curve without effects of labs and spread around it, draws × rows."""
    centre = values["middle"][:, None] * np.exp(-values["beta"][:, None] * depths.x)
    return centre, np.hypot(values["sigma"][:, None], depths.error)


def _frontier(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Envelope, width below it and noise around it, each draws × rows."""
    top = values["frontier_middle"][:, None] * np.exp(-values["frontier_beta"][:, None] * depths.x)
    noise = np.hypot(values["noise"][:, None], depths.error)
    return top, np.broadcast_to(values["below"][:, None], top.shape), noise


def _below(top: Array, below: Array, noise: Array, rng: np.random.Generator) -> Array:
    """Outcomes below an envelope."""
    return np.asarray(rng.normal(top - np.abs(rng.standard_normal(top.shape)) * below, noise))


def _left_out_check(depths: Depths, envelope: bool, seed: int) -> Check:
    """Models predicted from all others by exact refits; of many models every twentieth together."""
    folds = few_folds([str(i) for i in range(depths.y.size)], "models")
    pit = left_out_pit(depths, folds, envelope=envelope, seed=seed)
    known = np.isfinite(pit)
    if known.all():
        return exact_pit(pit)
    reason = f"{int((~known).sum())} of {pit.size} refits of the envelope did not settle"
    return Check(name="LOO-PIT", outcome=UNDECIDED, reason=reason, table=pd.DataFrame({"pit": pit}))


def node(depths: Depths, beta: float) -> Lines:
    """The curve at one exponent, a linear model."""
    return Lines(
        y=depths.y,
        X=np.exp(-beta * depths.x)[:, None],
        groups=depths.groups,
        n_groups=depths.n_groups,
        error=depths.error,
        mean=np.zeros(1),
        sd=np.array([depths.scale]),
        sigma_scale=depths.share,
        tau_scale=depths.share,
    )


def curve(depths: Depths, *, seed: int, draws: int = 4000) -> Curve:
    """Posterior of the curve in independent draws: β by nodes that are added where its density is, σ and τ by
    `gaussian` at the nearest node, m and the effects of labs exactly given these.

    No mode is missed for want of a path to it, as where gains lie almost on a curve: there a curve with and one without
    effects of labs can both fit.
    """
    grid, density, settled = _nodes(depths)
    fine = np.concatenate([np.linspace(a, b, FINE, endpoint=False) for a, b in pairwise(grid)])
    fine = fine + np.repeat(np.diff(grid), FINE) / FINE / 2
    width = np.repeat(np.diff(grid), FINE) / FINE
    log_mass = np.asarray(Akima1DInterpolator(grid, density)(fine)) + np.log(width)
    total = float(logsumexp(log_mass))
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(fine.size, draws, p=np.exp(log_mass - total)))
    beta = fine[chosen] + width[chosen] * rng.uniform(-0.5, 0.5, draws)
    nearest, counts = np.unique(np.abs(beta[:, None] - grid).argmin(axis=1), return_counts=True)
    parts = [
        posterior(node(depths, grid[i]), seed=seed + int(i), draws=int(n)) for i, n in zip(nearest, counts, strict=True)
    ]
    order = rng.permutation(draws)
    sigma, tau = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("sigma", "tau"))
    m, effects = _level(depths, beta[order], sigma, tau, rng)
    evidence = total - math.log(depths.beta[1] * math.sqrt(2 * math.pi))
    found = Posterior(log_evidence=evidence, beta=m[:, None], effects=effects, sigma=sigma, tau=tau)
    return Curve(beta=beta[order], found=found, log_evidence=evidence, settled=settled)


def _nodes(depths: Depths) -> tuple[Array, Array, bool]:
    """Nodes of β, the log of p(y | β) exp(−z²/2) at them, and whether they are close enough."""
    mean, sd = depths.beta

    def at(beta: Array) -> Array:
        return np.array([log_evidence(node(depths, b)) for b in beta]) - 0.5 * np.square((beta - mean) / sd)

    grid = np.linspace(mean - REACH * sd, mean + REACH * sd, NODES)
    density = at(grid)
    for _ in range(HALVINGS):
        steep = np.pad(np.abs(np.diff(density)) > STEP, 1)
        near = steep[:-2] | steep[1:-1] | steep[2:]
        near &= np.maximum(density[:-1], density[1:]) > density.max() - NEGLIGIBLE
        if not near.any():
            return grid, density, True
        between = (grid[:-1] + grid[1:])[near] / 2
        order = np.argsort(np.concatenate([grid, between]))
        grid, density = (np.concatenate(pair)[order] for pair in ((grid, between), (density, at(between))))
    return grid, density, False


def _level(depths: Depths, beta: Array, sigma: Array, tau: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """m, and effects of labs (draws × labs), given the rest: with ⟨a, b⟩ = Σ a_i b_i/d_i − Σ_g κ_g A_g B_g,
    A_g = Σ_{i∈g} a_i/d_i, d_i = σ² + error_i², κ_g = τ²/(1 + τ² Σ_{i∈g} 1/d_i): m ~ N(⟨f, y⟩/P, 1/P),
    P = scale⁻² + ⟨f, f⟩, and u_g ~ N(κ_g (Y_g − m F_g), κ_g).
    """
    f = np.exp(-beta[:, None] * depths.x)
    weight = 1 / (np.square(sigma)[:, None] + np.square(depths.error))
    member = (depths.groups[:, None] == np.arange(depths.n_groups)).astype(np.float64)
    of_f, of_y = (f * weight) @ member, (depths.y * weight) @ member
    shrink = np.square(tau)[:, None] / (1 + np.square(tau)[:, None] * (weight @ member))
    fy = (f * depths.y * weight).sum(axis=1) - (shrink * of_f * of_y).sum(axis=1)
    precision = depths.scale**-2.0 + (f * f * weight).sum(axis=1) - (shrink * of_f * of_f).sum(axis=1)
    m = fy / precision + rng.standard_normal(fy.size) / np.sqrt(precision)
    effects = shrink * (of_y - m[:, None] * of_f) + np.sqrt(shrink) * rng.standard_normal(shrink.shape)
    return m, effects


def predict_curve(found: Curve, asked: Depths, *, seed: int) -> Array:
    """Draws of y of the rows asked for, draws × rows."""
    flat = predict(found.found, replace(node(asked, 0.0), X=np.zeros((asked.y.size, 1))), seed=seed)
    return np.asarray(flat + found.found.beta * np.exp(-found.beta[:, None] * asked.x))


def frontier_density(y: Array, top: Array, below: Array, noise: Array) -> Array:
    """log p(y) of y = top − u + v: with s² = below² + noise² and e = y − top, (2/s) φ(e/s) Φ(−e below/(noise s))."""
    s = np.hypot(below, noise)
    z = (y - top) / s
    return np.asarray(math.log(2) - 0.5 * math.log(2 * math.pi) - np.log(s) - 0.5 * z**2 + log_ndtr(-z * below / noise))


def frontier(depths: Depths, *, seed: int, draws: int = 4000) -> Frontier:
    """Posterior of the envelope: tempered adaptive importance sampling of (m, β, below, noise)."""
    rng = np.random.default_rng(seed)
    spread = max(float(depths.y.std()), 0.01 * depths.scale)
    top = max(float(np.quantile(depths.y, 0.9)), 0.1 * depths.scale)
    centre = np.array([top, depths.beta[0], spread, spread / 3])
    factor = np.diag([0.7 * top, 0.7 * depths.beta[1], spread, spread / 2])
    for _ in range(ROUNDS):
        theta, log_ratio = _propose(depths, centre, factor, rng)
        power = _tempered(log_ratio)
        weights = np.exp(power * log_ratio - logsumexp(power * log_ratio))
        centre = weights @ theta
        factor = np.linalg.cholesky(np.cov(theta.T, aweights=weights) + np.diag(1e-12 + 1e-6 * np.square(centre)))
        if power == 1.0:
            break
    batches: list[tuple[Array, Array]] = []
    effective = 0.0
    while effective < WANTED and len(batches) < ROUNDS:
        batches += [_propose(depths, centre, factor, rng) for _ in range(2)]
        every, ratios = (np.concatenate(part) for part in zip(*batches, strict=True))
        weights = np.exp(ratios - logsumexp(ratios))
        effective = float(1 / np.square(weights).sum())
    chosen = every[rng.choice(len(every), draws, p=weights)]
    return Frontier(
        middle=chosen[:, 0],
        beta=chosen[:, 1],
        below=chosen[:, 2],
        noise=chosen[:, 3],
        log_evidence=float(logsumexp(ratios)) - math.log(len(every)),
        effective=effective,
    )


def predict_frontier(found: Frontier, asked: Depths, *, seed: int) -> Array:
    """Draws of y of the rows asked for, draws × rows."""
    rng = np.random.default_rng(seed)
    values = dict(zip(FRONTIER, (found.middle, found.beta, found.below, found.noise), strict=True))
    return _below(*_frontier(asked, values), rng)


def left_out_pit(depths: Depths, folds: Sequence[str], *, envelope: bool, seed: int) -> Array:
    """Share of predictive draws below every outcome, predicted from the folds it is not in, by exact refits.

    NaN where a refit of the envelope did not settle.
    """
    fold_of, pit = np.asarray(folds), np.full(depths.y.size, np.nan)
    for k, fold in enumerate(dict.fromkeys(folds)):
        out = fold_of == fold
        rest, asked = depths.rows(~out), depths.rows(out)
        asked = replace(asked, groups=np.where(np.isin(asked.groups, rest.groups), asked.groups, -1))
        if not envelope:
            drawn = predict_curve(curve(rest, seed=seed + k), asked, seed=seed + k)
        elif (top := frontier(rest, seed=seed + k)).settled:
            drawn = predict_frontier(top, asked, seed=seed + k)
        else:
            continue
        pit[out] = (drawn < asked.y).mean(axis=0)
    return pit


def _propose(depths: Depths, centre: Array, factor: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of a multivariate Student-t, its scales folded at 0, and the log of what they should have over has."""
    z = rng.standard_normal((PROPOSED, 4)) / np.sqrt(rng.chisquare(TAIL, (PROPOSED, 1)) / TAIL)
    theta = np.where(FOLDED, np.abs(centre + z @ factor.T), centre + z @ factor.T)
    constant = math.lgamma((TAIL + 4) / 2) - math.lgamma(TAIL / 2) - 2 * math.log(TAIL * math.pi)
    inverse = np.linalg.inv(factor)
    images = [np.square((theta * signs - centre) @ inverse.T).sum(axis=1) for signs in IMAGES]
    density = logsumexp([-0.5 * (TAIL + 4) * np.log1p(image / TAIL) for image in images], axis=0)
    return theta, _log_joint(depths, theta) - (constant + density - np.log(np.diag(factor)).sum())


def _log_joint(depths: Depths, theta: Array) -> Array:
    """log p(y, θ) of draws of θ = (m, β, below, noise)."""
    m, beta, below, noise = np.maximum(theta, [1e-12, -np.inf, 1e-12, 1e-12]).T
    top = m[:, None] * np.exp(-np.clip(beta[:, None] * depths.x, -40, 40))
    found = frontier_density(depths.y, top, below[:, None], np.hypot(noise[:, None], depths.error)).sum(axis=1)
    mean, sd = depths.beta
    found = found - 0.5 * np.square((beta - mean) / sd) - math.log(sd * math.sqrt(2 * math.pi))
    for value, scale in ((m, depths.scale), (below, depths.scale), (noise, NOISE * depths.scale)):
        found = found + 0.5 * math.log(2 / math.pi) - math.log(scale) - 0.5 * np.square(value / scale)
    return np.asarray(found)


def _tempered(log_ratio: Array) -> float:
    """Largest power up to 1 at which the weights have the effective number wanted."""

    def enough(power: float) -> bool:
        scaled = power * log_ratio
        return bool(2 * logsumexp(scaled) - logsumexp(2 * scaled) >= math.log(WANTED))

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return max(low, 1e-6)
