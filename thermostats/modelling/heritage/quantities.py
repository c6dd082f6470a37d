"""What draws of the heritage model say: contributions of blocks, log gains, spreads, shares, means of labs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import special, stats

from thermostats.modelling import residuals
from thermostats.modelling.draws import Array
from thermostats.modelling.heritage.blocks import FAMILY, LINEAGE, OWN, block_sds
from thermostats.modelling.heritage.law import FACTORS, HeritageDesign
from thermostats.modelling.statements import Statistic

POPULATION_MEAN, MODELS_MEAN = "population_mean_log_gain", "models_mean_log_gain"
"""Means of log gains: over models that there could be, and over those at hand, which exact gains leave no doubt of."""
OF_LAB = "mean log gain of "
"""How the names of labs begin among the quantities that statements may ask about."""


def contributions(values: Mapping[str, Array], design: HeritageDesign) -> dict[str, Array]:
    """Contribution of every block to every model's log gain, and what is left to the model, … × M."""
    parts = {name: values[f"u_{name}"][..., : x.shape[1]] @ x.T for name, x in design.bases.items()}
    return {**parts, OWN: log_gains(values, design) - values["beta"] - sum(parts.values())}


def log_gains(values: Mapping[str, Array], design: HeritageDesign) -> Array:
    """Log gains of the models without their errors of measurement, … × M, drawn given all else.

    Of given draws always the same. Where draws are of the prior they have outcomes of their own, `y`.
    """
    models = slice(design.before, design.before + design.y.size)
    rng, y, variance = np.random.default_rng(0), values.get("y", design.y), np.square(values["scale"][..., -1:])
    error = np.square(values.get("error", design.error))
    centre = values["beta"] + np.zeros(design.y.size)
    for name, x in design.bases.items():
        centre = centre + values[f"u_{name}"][..., : x.shape[1]] @ x.T
    if "blur" in values:  # PyMC's factor of errors
        error = error * np.square(values["blur"][..., models])
    if "factor" in values:
        variance = _of_mixture(values, variance, error, y - centre, rng)
    if "delta" in values:
        shift, variance = _skewed(values["delta"][..., None], variance, error, y - centre, rng)
        centre = centre + shift
    weight = variance / (variance + error)
    return np.asarray(centre + weight * (y - centre) + np.sqrt(weight * error) * rng.standard_normal(centre.shape))


def _of_mixture(
    values: Mapping[str, Array], spread: Array, error: Array, off: Array, rng: np.random.Generator
) -> Array:
    """Given what outcomes are off, draws of the variance of every residual, one of those that make up Student's t."""
    each = spread[..., None] * values["factor"][..., None, :]
    variance = each + error[..., None]
    log_p = np.log(np.maximum(values["chance"], 1e-300))[..., None, :] - 0.5 * (
        np.log(variance) + np.square(off)[..., None] / variance
    )
    heights = np.cumsum(special.softmax(log_p, axis=-1), axis=-1)
    at = (rng.random(off.shape)[..., None] > heights).sum(axis=-1, keepdims=True)
    return np.asarray(np.take_along_axis(each + 0 * variance, np.minimum(at, FACTORS.size - 1), axis=-1)[..., 0])


def _skewed(delta: Array, spread: Array, error: Array, off: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Given what outcomes are off, draws of shifts, and variances about them, of which skew-normal residuals are made.

    ω(δ|z| + √(1 − δ²) z′) less its mean; |z| given the outcome is a normal cut off at 0.
    """
    omega = np.sqrt(spread / (1 - 2 * delta**2 / np.pi))
    slope, rest, mean = omega * delta, np.square(omega) * (1 - delta**2), omega * delta * (2 / np.pi) ** 0.5
    variance = (rest + error) / (np.square(slope) + rest + error)
    middle, sd = variance * slope * (off + mean) / (rest + error), np.sqrt(variance)
    z = stats.truncnorm.ppf(rng.random(middle.shape), -middle / sd, np.inf, middle, sd)
    return slope * z - mean, rest


def quantities(values: Mapping[str, Array], design: HeritageDesign) -> dict[str, Array]:
    """Finite-population standard deviations, shares, τ, and the mean log gain of every lab's models."""
    parts = contributions(values, design)
    square = np.square(values["scale"])
    total, m = square.sum(axis=-1), values["beta"] + sum(parts.values())
    shares = {name: square[..., k] / total for k, name in enumerate(parts)}
    drawn = block_sds(parts) | {f"share_{name}": share for name, share in shares.items()}
    lab = design.lab
    if FAMILY in parts and lab in parts:
        drawn |= block_sds({LINEAGE: parts[lab] + parts[FAMILY]})
        drawn[f"{LINEAGE}_share"] = shares[lab] + shares[FAMILY]
    drawn |= {"total_sd": np.sqrt(total), MODELS_MEAN: m.mean(axis=-1)}
    drawn[POPULATION_MEAN] = population_mean(values, design)
    if {"geometry", "scale"} <= set(parts):
        drawn |= geometry_and_scale(parts, design.bases)
    if lab in parts:
        means = m @ lab_means(design)
        drawn |= {f"{OF_LAB}{name}": means[..., j] for j, name in enumerate(design.levels[lab].index)}
    return drawn


def population_mean(values: Mapping[str, Array], design: HeritageDesign) -> Array:
    """α − Σ_b c_b Σ_j share_j u_bj over blocks of groups: the mean log gain of new models of new groups, … .

    The groups at hand are a sample of those there could be, so their mean is taken off; geometry and scale are those of
    the models at hand on average.
    """
    mean = values["beta"][..., 0]
    for name in set(design.heritage.groups) & set(design.bases):
        shares = design.levels[name].to_numpy()
        mean = mean - values[f"u_{name}"][..., : shares.size] @ shares / np.sqrt(1 - np.square(shares).sum())
    return np.asarray(mean)


def lab_means(design: HeritageDesign) -> Array:
    """M × labs: what values of models times this are means over the models of every lab."""
    codes = design.codes[design.lab]
    member = np.eye(len(design.levels[design.lab]))[codes]
    return np.asarray(member / member.sum(axis=0))


def geometry_and_scale(parts: Mapping[str, Array], bases: Mapping[str, Array]) -> dict[str, Array]:
    """Draws of the SD of geometry and scale together, and of what each has beyond the other's columns.

    Of the joint contribution f_g + f_s: what regression on scale leaves is geometry's alone, and the reverse.
    """
    together = parts["geometry"] + parts["scale"]
    centred = together - together.mean(axis=-1, keepdims=True)

    def beyond(basis: Array) -> Array:
        q, _ = np.linalg.qr(basis)
        return np.asarray((centred - (centred @ q) @ q.T).std(axis=-1))

    return {
        "sd_geometry_and_scale": centred.std(axis=-1),
        "sd_geometry_alone": beyond(bases["scale"]),
        "sd_scale_alone": beyond(bases["geometry"]),
    }


def statistics(design: HeritageDesign) -> dict[str, Statistic]:
    """Whether models dampen, and what of the residuals moves the blocks' shares."""
    return {
        "share of models that dampen": lambda y: (y < 0).mean(axis=-1),
        **residuals.statistics(design.regressors, residuals.CLOSING),
    }
