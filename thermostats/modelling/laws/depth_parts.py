"""The power laws of depth as parts that can be checked: the curve drawn exactly, the envelope sampled by the seam."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, by_sampling, weighed
from thermostats.modelling.inference.checks import UNDECIDED, Check, Statistic, exact_pit
from thermostats.modelling.inference.draws import Array, Draws, Settings
from thermostats.modelling.inference.fitted import CHECKED, UPDATED, Part, Update, updates_of
from thermostats.modelling.inference.held_out import few_folds
from thermostats.modelling.laws.depth_laws import NOISE, Depths, curve, frontier_density, left_out_pit

STEPS = Settings(target_accept=0.97)
CURVE = ("middle", "beta", "sigma", "tau")
FRONTIER = ("frontier_middle", "frontier_beta", "below", "noise")


def envelope_model(pm: Any, data: Mapping[str, Any]) -> None:
    """y_i = m (L_i/L₀)^(−β) − w_i + v_i, w ~ half-normal(below), v ~ N(0, noise² + error_i²).

    A stochastic frontier (Aigner, Lovell and Schmidt 1977, doi:10.1016/0304-4076(77)90052-5), w summed out: with
    s² = below² + v² and λ = below/v the density of e = y − frontier is (2/s) φ(e/s) Φ(−e λ/s). Data tell
    below and noise together better than apart: they are sampled as size r and angle θ, below = r sin θ and
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
        depths, values = self.depths, self._values(self.curve_draws, CURVE)
        names = CURVE if depths.n_groups else CURVE[:-1]
        centre = values["middle"][:, None] * np.exp(-values["beta"][:, None] * depths.x)
        spread = np.hypot(values["sigma"][:, None], depths.error)
        if depths.n_groups:
            centre = centre + self.effects[self._chosen(self.curve_draws)][:, depths.groups]

        def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
            rng = np.random.default_rng(seed)
            own = _prior(depths, rng, size)
            flat = own["middle"][:, None] * np.exp(-own["beta"][:, None] * depths.x)
            if depths.n_groups:
                labs = own["tau"][:, None] * rng.standard_normal((size, depths.n_groups))
                flat = flat + labs[:, depths.groups]
            outcomes = np.asarray(rng.normal(flat, np.hypot(own["sigma"][:, None], depths.error)))
            return {name: own[name] for name in names}, outcomes

        def again(y: Array, seed: int) -> Refit:
            return weighed(draw_curve(replace(depths, y=y), seed=seed, settings=SHORT)[0])

        return Part(
            draws=self.curve_draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            prior=lambda seed: joint(seed, CHECKED)[1],
            simulator=Simulator(joint=joint, posterior=again),
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(centre, spread)),
            density=lambda: np.asarray(stats.norm.logpdf(depths.y, centre, spread)),
            log_prior=lambda: self._log_prior(self.curve_draws, names),
            updates=lambda seed: self._updates(seed, self.curve_draws, names),
            loo=lambda seed: self._loo(seed, envelope=False),
        )

    def frontier(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """The envelope with what the checks need."""
        depths, values = self.depths, self._values(self.frontier_draws, FRONTIER)

        def outcomes(own: Mapping[str, Array], rng: np.random.Generator) -> Array:
            top, below, noise = _frontier(depths, own)
            return np.asarray(rng.normal(top - np.abs(rng.standard_normal(top.shape)) * below, noise))

        def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
            rng = np.random.default_rng(seed)
            own = _prior(depths, rng, size)
            return {name: own[name] for name in FRONTIER}, outcomes(own, rng)

        return Part(
            draws=self.frontier_draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            prior=lambda seed: joint(seed, CHECKED)[1],
            simulator=by_sampling(
                envelope_model,
                _envelope_data(depths),
                joint,
                lambda y: {"y": y},
                settings=replace(SHORT, target_accept=STEPS.target_accept),
            ),
            replicate=lambda seed: outcomes(values, np.random.default_rng(seed)),
            density=lambda: frontier_density(depths.y, *_frontier(depths, values)),
            log_prior=lambda: self._log_prior(self.frontier_draws, FRONTIER),
            updates=lambda seed: self._updates(seed, self.frontier_draws, FRONTIER),
            loo=lambda seed: self._loo(seed, envelope=True),
        )

    def _chosen(self, draws: Draws) -> NDArray[np.int64]:
        """Draws at even spacing."""
        return np.linspace(0, draws.settings.chains * draws.settings.draws - 1, CHECKED).astype(np.int64)

    def _values(self, draws: Draws, names: tuple[str, ...]) -> dict[str, Array]:
        return {name: draws.flat(name)[self._chosen(draws)] for name in names}

    def _log_prior(self, draws: Draws, names: tuple[str, ...]) -> Array:
        centres = {"beta": self.depths.beta[0], "frontier_beta": self.depths.beta[0]}
        scaled = [(draws[n] - centres.get(n, 0.0)) / _scales(self.depths)[n] for n in names]
        return np.asarray(-0.5 * sum(np.square(z) for z in scaled))

    def _updates(self, seed: int, draws: Draws, names: tuple[str, ...]) -> dict[str, Update]:
        prior = _prior(self.depths, np.random.default_rng(seed), UPDATED)
        return updates_of({name: prior[name] for name in names}, draws.values)

    def _loo(self, seed: int, *, envelope: bool) -> Check:
        """Models predicted from all others by exact refits; of many models every twentieth together."""
        folds = few_folds([str(i) for i in range(self.depths.y.size)], "models")
        pit = left_out_pit(self.depths, folds, envelope=envelope, seed=seed)
        known = np.isfinite(pit)
        if known.all():
            return exact_pit(pit)
        reason = f"{int((~known).sum())} of {pit.size} refits of the envelope did not settle"
        return Check(name="LOO-PIT", outcome=UNDECIDED, reason=reason, table=pd.DataFrame({"pit": pit}))


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


def _scales(depths: Depths) -> dict[str, float]:
    """Prior standard deviation, or scale of the half-normal, of every quantity."""
    return {
        "middle": depths.scale,
        "beta": depths.beta[1],
        "sigma": depths.share,
        "tau": depths.share,
        "frontier_middle": depths.scale,
        "frontier_beta": depths.beta[1],
        "below": depths.scale,
        "noise": NOISE * depths.scale,
    }


def _prior(depths: Depths, rng: np.random.Generator, size: int) -> dict[str, Array]:
    found = {name: scale * rng.standard_normal(size) for name, scale in _scales(depths).items()}
    signed = {"middle": 0.0, "beta": depths.beta[0], "frontier_beta": depths.beta[0]}
    return {name: values + signed[name] if name in signed else np.abs(values) for name, values in found.items()}


def _frontier(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Envelope, width below it and noise around it, each draws × rows."""
    top = values["frontier_middle"][:, None] * np.exp(-values["frontier_beta"][:, None] * depths.x)
    noise = np.hypot(values["noise"][:, None], depths.error)
    return top, np.broadcast_to(values["below"][:, None], top.shape), noise
