"""The power laws of depth sampled through the seam, each as a part that can be checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling import sampling
from thermostats.modelling.checks import UNDECIDED, Check, Statistic, exact_pit
from thermostats.modelling.depth_laws import NOISE, Depths, frontier_density, left_out_pit
from thermostats.modelling.draws import Array, Draws, Settings
from thermostats.modelling.fitted import CHECKED, UPDATED, Part
from thermostats.modelling.interface import Update, updates_of
from thermostats.modelling.rivals import few_folds

STEPS = Settings(target_accept=0.97)
GROUPS = 8
"""Groups are filled up to a multiple, so that fits of one size class share a compilation."""
CURVE = ("middle", "beta", "sigma")
FRONTIER = ("frontier_middle", "frontier_beta", "below", "noise")


def power_laws_model(pm: Any, data: Mapping[str, Any]) -> None:
    """Two models of the same gains side by side, which share no quantity, so that one compilation serves both.

    A curve through the middle: y_i = m (L_i/L₀)^(−β) + u_lab(i) + ε_i, u ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²), with u
    summed out as in `linear.lines_model`.
    An envelope: y_i = m (L_i/L₀)^(−β) − w_i + v_i, w ~ half-normal(below), v ~ N(0, noise² + error_i²): a stochastic
    frontier (Aigner, Lovell and Schmidt 1977, doi:10.1016/0304-4076(77)90052-5), w summed out: with
    s² = below² + v² and λ = below/v the density of e = y − frontier is (2/s) φ(e/s) Φ(−e λ/s).
    `start` and `unit`, mean of y and its error, are where chains start and no part of the model: from below 0 a chain
    can stay where m and β are both negative and the labs explain everything.
    """
    scale, share = data["scale"], data["scale"] / math.sqrt(2)
    at, unit = data["start"], data["unit"]
    middle = pm.Deterministic("middle", at + unit * pm.Normal("offset", -at / unit, scale / unit, initval=0.0))
    beta = pm.Normal("beta", data["beta_mean"], data["beta_sd"])
    sigma = pm.HalfNormal("sigma", share)
    weight = 1 / (sigma**2 + data["error"] ** 2)
    e = data["y"] - middle * pm.math.exp(-beta * data["x"])
    total = pm.math.sum(math.log(2 * math.pi) - pm.math.log(weight) + e**2 * weight)
    if data["grouped"]:
        tau = pm.HalfNormal("tau", share)
        s, t = pm.math.dot(weight, data["member"]), pm.math.dot(e * weight, data["member"])
        total = total + pm.math.sum(pm.math.log(1 + tau**2 * s) - tau**2 * t**2 / (1 + tau**2 * s))
    pm.Potential("curve", -0.5 * total)

    top_middle = pm.HalfNormal("frontier_middle", scale)
    top_beta = pm.Normal("frontier_beta", data["beta_mean"], data["beta_sd"])
    below = pm.HalfNormal("below", scale)
    noise = pm.HalfNormal("noise", NOISE * scale)
    either = pm.math.sqrt(noise**2 + data["error"] ** 2)
    spread = pm.math.sqrt(below**2 + either**2)
    z = (data["y"] - top_middle * pm.math.exp(-top_beta * data["x"])) / spread
    tilt = pm.logcdf(pm.Normal.dist(0.0, 1.0), -z * below / either)
    pm.Potential("frontier", pm.math.sum(tilt - pm.math.log(spread) - 0.5 * z**2))


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Draws of both models through the seam."""

    draws: Draws
    depths: Depths

    def curve(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """The curve through the middle with what the checks need; replicates keep the labs' effects."""
        depths, values = self.depths, self._values((*CURVE, "tau") if self.depths.n_groups else CURVE)
        tau = values.get("tau", np.zeros(values["sigma"].shape))
        centre = values["middle"][:, None] * np.exp(-values["beta"][:, None] * depths.x)
        spread = np.hypot(values["sigma"][:, None], depths.error)
        if depths.n_groups:
            centre = centre + _effects(depths, centre, spread, tau)[:, depths.groups]

        def prior(seed: int) -> Array:
            rng = np.random.default_rng(seed)
            own = _prior(depths, rng, CHECKED)
            flat = own["middle"][:, None] * np.exp(-own["beta"][:, None] * depths.x)
            if depths.n_groups:
                labs = own["tau"][:, None] * rng.standard_normal((CHECKED, depths.n_groups))
                flat = flat + labs[:, depths.groups]
            return np.asarray(rng.normal(flat, np.hypot(own["sigma"][:, None], depths.error)))

        return Part(
            draws=self.draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            prior=prior,
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(centre, spread)),
            density=lambda: np.asarray(stats.norm.logpdf(depths.y, centre, spread)),
            log_prior=lambda: self._log_prior(tuple(values)),
            updates=lambda seed: self._updates(seed, tuple(values)),
            loo=lambda seed: self._loo(seed, envelope=False),
        )

    def frontier(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """The envelope with what the checks need."""
        depths, values = self.depths, self._values(FRONTIER)

        def outcomes(own: Mapping[str, Array], rng: np.random.Generator) -> Array:
            top, below, noise = _frontier(depths, own)
            return np.asarray(rng.normal(top - np.abs(rng.standard_normal(top.shape)) * below, noise))

        def prior(seed: int) -> Array:
            rng = np.random.default_rng(seed)
            return outcomes(_prior(depths, rng, CHECKED), rng)

        return Part(
            draws=self.draws,
            observed=depths.y,
            statistics=statistics,
            decisive=decisive,
            prior=prior,
            replicate=lambda seed: outcomes(values, np.random.default_rng(seed)),
            density=lambda: frontier_density(depths.y, *_frontier(depths, values)),
            log_prior=lambda: self._log_prior(FRONTIER),
            updates=lambda seed: self._updates(seed, FRONTIER),
            loo=lambda seed: self._loo(seed, envelope=True),
        )

    def _values(self, names: tuple[str, ...]) -> dict[str, Array]:
        """Draws at even spacing."""
        flat = {name: self.draws.flat(name) for name in names}
        chosen = np.linspace(0, len(flat[names[0]]) - 1, CHECKED).astype(int)
        return {name: values[chosen] for name, values in flat.items()}

    def _log_prior(self, names: tuple[str, ...]) -> Array:
        centres = {"beta": self.depths.beta[0], "frontier_beta": self.depths.beta[0]}
        scaled = [(self.draws[n] - centres.get(n, 0.0)) / _scales(self.depths)[n] for n in names]
        return np.asarray(-0.5 * sum(np.square(z) for z in scaled))

    def _updates(self, seed: int, names: tuple[str, ...]) -> dict[str, Update]:
        prior = _prior(self.depths, np.random.default_rng(seed), UPDATED)
        return updates_of({name: prior[name] for name in names}, self.draws.values)

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
    """Draws of both models through the seam."""
    member = depths.groups[:, None] == np.arange(-(-depths.n_groups // GROUPS) * GROUPS)
    data: dict[str, Any] = {name: getattr(depths, name) for name in ("y", "x", "error")}
    data |= {"scale": np.array(depths.scale), "beta_mean": np.array(depths.beta[0]), "grouped": depths.n_groups > 0}
    unit = max(float(depths.y.std()) / depths.y.size**0.5, 1e-3 * depths.scale)
    data |= {"start": np.array(depths.y.mean()), "unit": np.array(unit)}
    data |= {"beta_sd": np.array(depths.beta[1])} | ({"member": member.astype(np.float64)} if depths.n_groups else {})
    return Laws(draws=sampling.fit(power_laws_model, data, seed=seed, settings=STEPS, cache=cache), depths=depths)


def _scales(depths: Depths) -> dict[str, float]:
    """Prior standard deviation, or scale of the half-normal, of every quantity."""
    return {
        "middle": depths.scale, "beta": depths.beta[1], "sigma": depths.share, "tau": depths.share,
        "frontier_middle": depths.scale, "frontier_beta": depths.beta[1], "below": depths.scale,
        "noise": NOISE * depths.scale,
    }  # fmt: skip


def _prior(depths: Depths, rng: np.random.Generator, size: int) -> dict[str, Array]:
    found = {name: scale * rng.standard_normal(size) for name, scale in _scales(depths).items()}
    signed = {"middle": 0.0, "beta": depths.beta[0], "frontier_beta": depths.beta[0]}
    return {name: values + signed[name] if name in signed else np.abs(values) for name, values in found.items()}


def _frontier(depths: Depths, values: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """Envelope, width below it and noise around it, each draws × rows."""
    top = values["frontier_middle"][:, None] * np.exp(-values["frontier_beta"][:, None] * depths.x)
    noise = np.hypot(values["noise"][:, None], depths.error)
    return top, np.broadcast_to(values["below"][:, None], top.shape), noise


def _effects(depths: Depths, centre: Array, spread: Array, tau: Array) -> Array:
    """Effects of the labs given all else, draws × labs: normal with mean κ Σ e/d and variance κ = τ²/(1 + τ² Σ 1/d)."""
    member = (depths.groups[:, None] == np.arange(depths.n_groups)).astype(np.float64)
    weight = 1 / np.square(spread)
    shrink = np.square(tau)[:, None] / (1 + np.square(tau)[:, None] * (weight @ member))
    noise = np.random.default_rng(depths.y.size).standard_normal(shrink.shape)
    return np.asarray(shrink * ((weight * (depths.y - centre)) @ member) + np.sqrt(shrink) * noise)
