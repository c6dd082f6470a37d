"""Lines with group effects, sampled through the seam; `gaussian` computes the same posterior by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Simulator, by_sampling
from thermostats.modelling.inference.checks import Check, Statistic, exact_pit, influence
from thermostats.modelling.inference.draws import PASSED, Array, Draws, Settings
from thermostats.modelling.inference.fitted import CHECKED, UPDATED, Part, Update, updates_of
from thermostats.modelling.inference.held_out import few_folds, held_out
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior
from thermostats.modelling.inference.sensitivity import HEAVY, NU, SAME_SD, exactly_refitted, row

SURE = 0.95
LEFT_OUT = 1000
"""Predictive draws of a row that is left out."""
STEPS = Settings(target_accept=0.97)
"""Six quantities at most, cheap to sample: small steps spare the second attempt."""
COLUMNS, GROUPS = 4, 8
"""Coefficients and groups are filled up to multiples of these, so that fits of one size class share a compilation."""


def lines_model(pm: Any, data: Mapping[str, Any]) -> None:
    """y_i ~ N(X_i β + u_g(i), d_i), d_i = σ² + error_i², u_g ~ N(0, τ²), with u summed out.

    Given β, σ and τ, with e = y − Xβ, S_g = Σ_{i∈g} 1/d_i and T_g = Σ_{i∈g} e_i/d_i: −2 log p(y) =
    Σ_i (log 2π d_i + e_i²/d_i) + Σ_g [log(1 + τ² S_g) − τ² T_g²/(1 + τ² S_g)]. Sampling u beside τ leaves divergences
    with labs of one model and of twelve. Coefficients of columns of zeros keep their priors and touch nothing.
    """
    beta = pm.Normal("beta", data["mean"], data["sd"], shape=data["n_coefficients"])
    sigma = pm.HalfNormal("sigma", data["sigma_scale"])
    weight = 1 / (sigma**2 + data["error"] ** 2)
    e = data["y"] - pm.math.dot(data["X"], beta)
    total = pm.math.sum(math.log(2 * math.pi) - pm.math.log(weight) + e**2 * weight)
    if data["grouped"]:
        tau = pm.HalfNormal("tau", data["tau_scale"])
        s, t = _sums(pm, weight, data["rows"]), _sums(pm, e * weight, data["rows"])
        total = total + pm.math.sum(pm.math.log(1 + tau**2 * s) - tau**2 * t**2 / (1 + tau**2 * s))
    pm.Potential("log_density", -0.5 * total)


def _sums(pm: Any, values: Any, rows: Any) -> Any:
    """Σ over the rows of every group; `rows`: groups × most rows, numbers of rows, of none where that is n."""
    padded = pm.math.concatenate([values, np.zeros(1)])
    return padded[rows.flatten()].reshape(rows.shape).sum(axis=1)


def heavy_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The same line with t_4 errors of variance d_i, and the levels of groups sampled: u = τ z."""
    beta = pm.Normal("beta", data["mean"], data["sd"], shape=data["n_coefficients"])
    sigma = pm.HalfNormal("sigma", data["sigma_scale"])
    mean = pm.math.dot(data["X"], beta)
    if data["grouped"]:
        z = pm.Normal("z", 0.0, 1.0, shape=data["n_groups"])
        effects = pm.Deterministic("effects", pm.HalfNormal("tau", data["tau_scale"]) * z)
        mean = mean + pm.math.concatenate([effects, np.zeros(1)])[data["group"]]  # -1: none
    scale = pm.math.sqrt(sigma**2 + data["error"] ** 2) / SAME_SD
    pm.StudentT("outcome", nu=NU, mu=mean, sigma=scale, observed=data["y"])


@dataclass(frozen=True, kw_only=True)
class LinesFit:
    """Draws of β, σ and τ through the seam, and of u from its normal distribution given them."""

    draws: Draws
    lines: Lines
    beta: Array
    """chain × draw × coefficients, in the order of the columns of X."""
    effects: Array
    """chain × draw × groups; no groups: of width 0."""
    sigma: Array
    tau: Array

    def part(self, statistics: Mapping[str, Statistic], decisive: Mapping[str, Array | NDArray[np.bool_]]) -> Part:
        """What the checks need of this fit."""
        return Part(
            draws=self.draws,
            observed=self.lines.y,
            statistics=statistics,
            decisive=decisive,
            prior=lambda seed: _joint(self.lines, seed, CHECKED)[1],
            replicate=self.replicate,
            density=lambda: stats.norm.logpdf(self.lines.y, *self._outcomes()),
            log_prior=self._log_prior,
            updates=self._updates,
            simulator=simulator(self.lines),
            loo=self._loo,
        )

    def replicate(self, seed: int) -> Array:
        """Replicated outcomes of the same rows, draws × rows, the groups' effects kept."""
        mean, spread = self._outcomes()
        return np.asarray(np.random.default_rng(seed).normal(mean, spread))

    def _outcomes(self) -> tuple[Array, Array]:
        """Mean and spread of every row's outcome, draws × rows, draws at even spacing."""
        size = self.sigma.size
        chosen = np.linspace(0, size - 1, CHECKED).astype(int)
        mean = self.beta.reshape(size, -1)[chosen] @ self.lines.X.T
        if self.lines.n_groups:
            mean = mean + self.effects.reshape(size, -1)[chosen][:, self.lines.groups]
        return mean, np.sqrt(np.square(self.sigma.ravel()[chosen])[:, None] + np.square(self.lines.error))

    def _updates(self, seed: int) -> dict[str, Update]:
        beta, sigma, tau = _priors(self.lines, np.random.default_rng(seed), UPDATED)
        grouped = {"tau": tau[:, 0]} if self.lines.n_groups else {}
        prior = {"beta": beta, "sigma": sigma[:, 0]} | grouped
        return updates_of(prior, {"beta": self.beta, "sigma": self.sigma, "tau": self.tau})

    def _loo(self, seed: int) -> Check:
        """Rows predicted from all others by exact refits; of many rows every twentieth together."""
        folds = few_folds([str(i) for i in range(self.lines.y.size)], "rows")
        return exact_pit(held_out(self.lines, folds, seed=seed, draws=LEFT_OUT).pit)

    def _log_prior(self) -> Array:
        scaled = (self.beta - self.lines.mean) / self.lines.sd
        total = np.square(scaled).sum(axis=-1) + np.square(self.sigma / self.lines.sigma_scale)
        return np.asarray(-0.5 * (total + np.square(self.tau / self.lines.tau_scale)))


def _priors(lines: Lines, rng: np.random.Generator, draws: int) -> tuple[Array, Array, Array]:
    """β (draws × coefficients), σ and τ (draws × 1) from their priors."""
    beta = rng.normal(lines.mean, lines.sd, (draws, lines.X.shape[1]))
    sigma, tau = (np.abs(rng.normal(0, scale, (draws, 1))) for scale in (lines.sigma_scale, lines.tau_scale))
    return beta, sigma, tau


def _joint(lines: Lines, seed: int, draws: int) -> tuple[dict[str, Array], Array]:
    """β, σ and τ from their priors, and outcomes of them, draws × rows."""
    rng = np.random.default_rng(seed)
    beta, sigma, tau = _priors(lines, rng, draws)
    mean = beta @ lines.X.T
    if lines.n_groups:
        mean = mean + (tau * rng.standard_normal((draws, lines.n_groups)))[:, lines.groups]
    outcomes = np.asarray(rng.normal(mean, np.sqrt(sigma**2 + lines.error**2)))
    return {"beta": beta, "sigma": sigma[:, 0]} | ({"tau": tau[:, 0]} if lines.n_groups else {}), outcomes


def simulator(lines: Lines) -> Simulator:
    """The same lines with other outcomes, fitted as `sample` does it."""
    p = lines.X.shape[1]
    return by_sampling(
        lines_model,
        model_data(lines),
        partial(_joint, lines),
        lambda y: {"y": y},
        settings=replace(SHORT, target_accept=STEPS.target_accept),
        quantities=lambda drawn: {**drawn, "beta": drawn["beta"][..., :p]},
    )


def without_each(
    lines: Lines, labs: Sequence[str], quantity: Callable[[Posterior], Array], name: str, seed: int
) -> Check:
    """Influence of every lab on P(quantity > 0) by exact refits: does it stay above 0.95, below 0.05 or between?"""
    groups = np.asarray(labs)

    def say(chosen: Lines) -> tuple[str, dict[str, float]]:
        drawn = quantity(posterior(chosen, seed=seed))
        p = float((drawn > 0).mean())
        return ("above" if p >= SURE else "below" if p <= 1 - SURE else "open"), {f"P({name} > 0)": p}

    found = {lab: say(lines.rows(groups != lab)) for lab in dict.fromkeys(labs)}
    return influence(say(lines)[0], {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()})


def model_data(lines: Lines) -> dict[str, Any]:
    """What `lines_model` takes, filled up."""
    n, p = lines.X.shape
    columns = -(-p // COLUMNS) * COLUMNS
    grouped = {"rows": _rows(lines), "tau_scale": np.array(lines.tau_scale)} if lines.n_groups else {}
    return {
        "y": lines.y,
        "X": np.concatenate([lines.X, np.zeros((n, columns - p))], axis=1),
        "error": lines.error,
        "mean": np.concatenate([lines.mean, np.zeros(columns - p)]),
        "sd": np.concatenate([lines.sd, np.ones(columns - p)]),
        "sigma_scale": np.array(lines.sigma_scale),
        "n_coefficients": columns,
        "grouped": lines.n_groups > 0,
    } | grouped


def _rows(lines: Lines) -> NDArray[np.int64]:
    """Numbers of the rows of every group, groups × most rows, filled up with n; groups filled up with empty ones."""
    order = np.argsort(lines.groups, kind="stable")
    order = order[lines.groups[order] >= 0]
    group = lines.groups[order]
    sizes = np.bincount(group, minlength=-(-lines.n_groups // GROUPS) * GROUPS)
    found = np.full((sizes.size, sizes.max()), lines.y.size)
    found[group, np.arange(order.size) - (np.cumsum(sizes) - sizes)[group]] = order
    return found


def sensitivity_anew(
    lines: Lines,
    quantities: Mapping[str, Callable[[Posterior], Array]],
    seed: int,
    *,
    group: str = "lab",
    cache: bool = True,
) -> pd.DataFrame:
    """The table of alternatives with t errors sampled, and the `status` of these draws."""
    data = {k: v for k, v in model_data(lines).items() if k != "rows"}
    if lines.n_groups:
        data |= {"group": lines.groups, "n_groups": lines.n_groups}
    draws = sampling.fit(heavy_model, data, seed=seed, settings=STEPS, cache=cache)
    sigma = draws.flat("sigma")
    found = Posterior(
        log_evidence=math.nan,
        beta=draws.flat("beta")[:, : lines.X.shape[1]],
        effects=draws.flat("effects") if lines.n_groups else np.empty((sigma.size, 0)),
        sigma=sigma,
        tau=draws.flat("tau") if lines.n_groups else np.zeros(sigma.size),
    )
    rows = [{**row(HEAVY, name, of(found), lines.y.size), "status": draws.status} for name, of in quantities.items()]
    exact = exactly_refitted(lines, quantities, seed=seed, group=group).assign(status=PASSED)
    return pd.concat([exact, pd.DataFrame(rows)], ignore_index=True)


def sample(lines: Lines, *, seed: int, cache: bool = True) -> LinesFit:
    """Posterior draws through the seam."""
    draws = sampling.fit(lines_model, model_data(lines), seed=seed, settings=STEPS, cache=cache)
    beta, sigma = draws["beta"][..., : lines.X.shape[1]], draws["sigma"]
    tau = draws["tau"] if lines.n_groups else np.zeros(sigma.shape)
    return LinesFit(
        draws=draws, lines=lines, beta=beta, effects=_effects(lines, beta, sigma, tau, seed), sigma=sigma, tau=tau
    )


def _effects(lines: Lines, beta: Array, sigma: Array, tau: Array, seed: int) -> Array:
    """u_g ~ N(τ² T_g/(1 + τ² S_g), τ²/(1 + τ² S_g)) for every draw."""
    member = (lines.groups[:, None] == np.arange(lines.n_groups)).astype(np.float64)
    weight = 1 / (np.square(sigma)[..., None] + np.square(lines.error))
    s, t = weight @ member, (weight * (lines.y - beta @ lines.X.T)) @ member
    shrink = np.square(tau)[..., None] / (1 + np.square(tau)[..., None] * s)
    noise = np.random.default_rng(seed).standard_normal(s.shape)
    return np.asarray(shrink * t + np.sqrt(shrink) * noise)
