"""Does entropy go with gain? The second model of `fit_benchmark`: exact draws, and what its checks need."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.modelling import checks, sampling
from thermostats.modelling.benchmark_model import stack, sum_zero
from thermostats.modelling.cells import Crossed
from thermostats.modelling.components import Components, draw, left_out
from thermostats.modelling.draws import Array, Draws, Settings
from thermostats.modelling.fitted import CHECKED, UPDATED, Part
from thermostats.modelling.interface import Update, updates_of

SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation, roughly."""
EQUATIONS = (
    "entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp,  x = log g, both standardised within models",
    "β_m ~ N(b, s_β²),  γ_p ~ N(0, s_γ²),  γ sums to zero,  e_mp ~ N(0, r²)",
)
PRIORS = (
    ("b, B", f"N(0, {SLOPE_SD:g}²)", "slopes of standardised columns, near correlations"),
    ("s_β", f"half-normal({SLOPE_SD:g})", "models may differ as much as the mean slope is uncertain"),
    ("s_γ, r", "half-normal(1)", "the standardised entropy has spread 1"),
)


def components(cells: Crossed) -> Components | None:
    """The model of the cells that hold an entropy; None for fewer than two models of them.

    b is the slope inside prompts, B that between prompts: whether prompts with high gain in every model have high
    entropy in every model. Columns of U: b, B, deviations of the models' slopes, prompts as sums to zero.
    """
    if len(set(cells.xz_model.tolist())) < 2:
        return None
    mean = pd.Series(cells.x).groupby(cells.xz_prompt).transform("mean").to_numpy()
    within = cells.x - mean
    by_model = within[:, None] * (cells.xz_model[:, None] == np.arange(len(cells.models)))
    own, kind = stack([by_model, sum_zero(len(cells.prompts))[cells.xz_prompt]])
    return Components(
        z=cells.z,
        U=np.column_stack([within, mean, own]),
        sd=np.full(2, SLOPE_SD),
        kind=kind,
        scales=np.array([SLOPE_SD, 2 * SLOPE_SD, 1.0]),
    )


def without(model: Components, kept: NDArray[np.bool_]) -> Components:
    """The same effects with some of the outcomes."""
    return replace(model, z=model.z[kept], U=model.U[kept])


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """Draws of the slopes; `draws` holds fixed (b, B), own, own_spreads (s_β, s_γ) and rest (r)."""

    draws: Draws
    model: Components

    def quantities(self, n_models: int) -> dict[str, Array]:
        """Slopes by model, their mean and spread, and the slope between prompts, chain × draw × …"""
        slope = self.draws["fixed"][..., 0]
        return {
            "slopes": slope[..., None] + self.draws["own"][..., :n_models],
            "slope": slope,
            "slope_sd": self.draws["own_spreads"][..., 0],
            "between": self.draws["fixed"][..., 1],
        }

    def part(self, cells: Crossed) -> Part:
        """What the checks need."""
        size = self.draws["rest"].size
        chosen = np.linspace(0, size - 1, CHECKED).astype(int)
        effects = np.column_stack([self.draws.flat("fixed")[chosen], self.draws.flat("own")[chosen]])
        mean, rest = effects @ self.model.U.T, self.draws.flat("rest")[chosen][:, None]
        fixed = self.draws["fixed"]
        return Part(
            draws=self.draws,
            observed=self.model.z,
            statistics={
                "correlation with gain": lambda z: (z * cells.x).mean(axis=-1),
                "spread": lambda z: z.std(axis=-1),
            },
            decisive={"slope > 0": fixed[..., 0] > 0, "between > 0": fixed[..., 1] > 0},
            prior=self._prior_outcomes,
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(mean, rest)),
            density=lambda: np.asarray(stats.norm.logpdf(self.model.z, mean, rest)),
            log_prior=self._log_prior,
            updates=self._updates,
            loo=self._pit,
        )

    def _prior(self, seed: int, size: int) -> dict[str, Array]:
        rng = np.random.default_rng(seed)
        scales = np.abs(rng.normal(0, self.model.scales, (size, self.model.scales.size)))
        return {"fixed": rng.normal(0, SLOPE_SD, (size, 2)), "own_spreads": scales[:, :-1], "rest": scales[:, -1]}

    def _prior_outcomes(self, seed: int) -> Array:
        found, rng = self._prior(seed, CHECKED), np.random.default_rng([seed, 1])
        own = rng.normal(0, found["own_spreads"] @ self.model.kind.T)
        mean = np.column_stack([found["fixed"], own]) @ self.model.U.T
        return np.asarray(rng.normal(mean, found["rest"][:, None]))

    def _log_prior(self) -> Array:
        scales = np.concatenate([self.draws["own_spreads"], self.draws["rest"][..., None]], axis=-1)
        total = np.square(self.draws["fixed"] / SLOPE_SD).sum(axis=-1)
        return np.asarray(-0.5 * (total + np.square(scales / self.model.scales).sum(axis=-1)))

    def _updates(self, seed: int) -> dict[str, Update]:
        return updates_of(self._prior(seed, UPDATED), self.draws.values)

    def _pit(self, seed: int) -> checks.Check:
        """Every entropy given all others with its effects summed out; importance weights for the three scales only."""
        scales = np.column_stack([self.draws.flat("own_spreads"), self.draws.flat("rest")])
        chosen = np.random.default_rng(seed).choice(len(scales), CHECKED, replace=False)
        found = left_out(self.model, scales[chosen])
        return checks.weighted_pit(stats.norm.logpdf(self.model.z, *found), stats.norm.cdf(self.model.z, *found))


def sample(model: Components, *, seed: int, settings: Settings) -> Slopes:
    """Independent draws, as many as `settings` ask for."""
    start = time.perf_counter()
    found = draw(model, seed=seed, draws=settings.chains * settings.draws)
    flat = {
        "fixed": found.effects[:, :2], "own": found.effects[:, 2:],
        "own_spreads": found.scales[:, :-1], "rest": found.scales[:, -1],
    }  # fmt: skip
    return Slopes(draws=sampling.exact_draws(flat, seed=seed, settings=settings, start=start), model=model)
