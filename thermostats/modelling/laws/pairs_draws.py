"""base_jp ~ N(μ_j, s_j²), change_jp | base_jp ~ t₄(δ_j + γ_j (base_jp − μ_j), r_j): the draws, by Gibbs sampling.

μ_j ~ N(m, s_μ²), δ_j ~ N(Δ, s_δ²). With change_jp − its mean = r_j z_jp/√w_jp, w ~ Gamma(2, rate 2), all but the scales
is normal given the rest: (δ_j, γ_j) are drawn together, then (μ_j, δ_j), which go together where tuning undoes the
base's differences between prompts. r_j is walked with w summed out. m and s_μ are drawn given μ, and again together
given (μ − m)/s_μ, and so are Δ and s_δ (Yu and Meng 2011, doi:10.1198/jcgs.2011.203main).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.inference.draws import Array, Settings
from thermostats.modelling.inference.gibbs import STRIDE, walked
from thermostats.modelling.inference.sensitivity import NU

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; a mean and its spread over pairs share it, 0.5/√2 each."""
SHARE = SCALE / 2**0.5
PROMPTS = SCALE / 2
"""Prior scale of the spread over prompts within a model: half of that over models."""
RESIDUAL = PROMPTS / 2
"""Of what tuning adds prompt by prompt, which is the part that the base does not tell, PROMPTS/√2: t_4 has SD √2 r."""
SLOPE = 0.5
"""Prior scale of how far changes follow the base's prompts."""


@dataclass(frozen=True, kw_only=True)
class Prompted:
    """Log gains of bases and their changes by tuning, prompt by prompt; `pair` counts from 0."""

    base: Array
    change: Array
    pair: NDArray[np.int64]

    @property
    def member(self) -> Array:
        """Which pair a row is of, rows × pairs."""
        return np.asarray((self.pair[:, None] == np.arange(self.pair.max() + 1)).astype(np.float64))


def sweeps(model: Prompted, *, seed: int, settings: Settings) -> dict[str, Array]:
    """Draws of centre (m), shift (Δ), level_sd, shift_sd, level (μ), change (δ), slope (γ), spread (s) and residual."""
    rng, member, pair = np.random.default_rng(seed), model.member, model.pair
    base, change, count = model.base, model.change, member.sum(axis=0)
    shape = (settings.chains, count.size)
    mean = base @ member / count
    spread, residual = PROMPTS * rng.uniform(0.1, 1, (2, *shape))
    level_sd, shift_sd = SHARE * rng.uniform(0.1, 1, (2, settings.chains, 1))
    level, delta = mean + rng.normal(0, 0.1, shape), change @ member / count + rng.normal(0, 0.1, shape)
    centre, shift = level.mean(axis=1, keepdims=True), delta.mean(axis=1, keepdims=True)
    weight, kept = np.ones((settings.chains, base.size)), []
    for sweep in range(settings.tune + settings.draws):
        precision = weight / np.square(residual)[:, pair]
        own = precision @ member
        x = base - level[:, pair]
        across = (precision * x) @ member
        delta, slope = _two(
            (own + shift_sd**-2.0, across, (precision * np.square(x)) @ member + SLOPE**-2.0),
            ((precision * change) @ member + shift * shift_sd**-2.0, (precision * x * change) @ member),
            rng,
        )
        rest = (precision * (change - slope[:, pair] * base)) @ member
        seen = count / np.square(spread)
        level, delta = _two(
            (np.square(slope) * own + seen + level_sd**-2.0, -slope * own, own + shift_sd**-2.0),
            (seen * mean - slope * rest + centre * level_sd**-2.0, rest + shift * shift_sd**-2.0),
            rng,
        )
        told = seen * mean - slope * (rest - own * delta)
        level, centre, level_sd = _population(level, level_sd, np.square(slope) * own + seen, told, rng)
        delta, shift, shift_sd = _population(delta, shift_sd, own, rest + own * slope * level, rng)
        e2 = np.square(change - (delta - slope * level)[:, pair] - slope[:, pair] * base)
        spread = _normal_scale(spread, np.square(base - level[:, pair]) @ member, count, rng)
        residual = _heavy_scale(residual, e2, member, count, rng)
        scaled = e2 / np.square(residual)[:, pair]
        weight = rng.standard_gamma((NU + 1) / 2, scaled.shape) / ((NU + scaled) / 2)
        if sweep >= settings.tune:
            hyper = (drawn[:, 0] for drawn in (centre, shift, level_sd, shift_sd))
            kept.append((*hyper, level, delta, slope, spread, residual))
    names = ("centre", "shift", "level_sd", "shift_sd", "level", "change", "slope", "spread", "residual")
    return {name: np.stack(drawn, axis=1) for name, drawn in zip(names, zip(*kept, strict=True), strict=True)}


def from_prior(n_pairs: int, rng: np.random.Generator, size: int) -> dict[str, Array]:
    """Draws from the prior of what `sweeps` draws, each draws × …"""
    centre, shift = rng.normal(0, SHARE, (2, size))
    level_sd, shift_sd = np.abs(rng.normal(0, SHARE, (2, size)))
    each = (size, n_pairs)
    return {
        "centre": centre,
        "shift": shift,
        "level_sd": level_sd,
        "shift_sd": shift_sd,
        "level": rng.normal(centre[:, None], level_sd[:, None], each),
        "change": rng.normal(shift[:, None], shift_sd[:, None], each),
        "slope": rng.normal(0, SLOPE, each),
        "spread": np.abs(rng.normal(0, PROMPTS, each)),
        "residual": np.abs(rng.normal(0, RESIDUAL, each)),
    }


def _two(
    precision: tuple[Array, Array, Array], right: tuple[Array, Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of two numbers that are normal with precision [[a, b], [b, c]] and mean its inverse times `right`."""
    (a, b, c), (f, g) = precision, right
    rest = c - b * b / a
    second = (g - b * f / a) / rest + rng.standard_normal(rest.shape) / np.sqrt(rest)
    return (f - b * second) / a + rng.standard_normal(rest.shape) / np.sqrt(a), second


def _population(
    values: Array, sd: Array, precision: Array, right: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Values of pairs, their mean and spread; `precision` and `right` are what the rows say of every value."""
    n = values.shape[1]
    variance = 1 / (n / np.square(sd) + SHARE**-2.0)
    mean = variance * values.sum(axis=1, keepdims=True) / np.square(sd)
    mean = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    sd = _normal_scale(sd, np.square(values - mean).sum(axis=1, keepdims=True), float(n), rng, SHARE)
    z = (values - mean) / sd

    def over(x: Array) -> Array:
        return np.asarray(x.sum(axis=1, keepdims=True))

    mean, signed = _two(
        (over(precision) + SHARE**-2.0, over(precision * z), over(precision * z * z) + SHARE**-2.0),
        (over(right), over(right * z)),
        rng,
    )
    return mean + signed * z, mean, np.abs(signed)


def _normal_scale(
    scale: Array, squares: Array, count: Array | float, rng: np.random.Generator, prior: float = PROMPTS
) -> Array:
    """A scale, half-normal, given the sum of squares of so many normal numbers."""
    return _scale(
        scale,
        lambda s: -count * np.log(s) - 0.5 * squares / np.square(s),
        prior,
        1 / np.sqrt(2 * np.asarray(count)),
        rng,
    )


def _heavy_scale(scale: Array, e2: Array, member: Array, count: Array, rng: np.random.Generator) -> Array:
    """The scale of t₄ residuals, half-normal, given their squares."""

    def said(s: Array) -> Array:
        tails = np.log1p(e2 * ((1 / np.square(s)) @ member.T) / NU) @ member
        return np.asarray(-count * np.log(s) - (NU + 1) / 2 * tails)

    return _scale(scale, said, RESIDUAL, np.sqrt((NU + 3) / (2 * NU * count)), rng)


def _scale(scale: Array, said: Callable[[Array], Array], prior: float, sd: Array, rng: np.random.Generator) -> Array:
    """A scale with a half-normal prior, its logarithm walked in steps of about `sd`."""

    def density(log_s: Array) -> Array:
        s = np.exp(log_s)
        return said(s) + log_s - 0.5 * np.square(s / prior)

    return np.exp(walked(np.log(scale), density, STRIDE * sd, rng))
