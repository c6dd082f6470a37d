"""The heritage model under other priors and of other models at hand: by weights of its draws, and by exact refits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import stats

from thermostats.modelling.heritage.blocks import LARGE_STUDY, Design, Integers, residual, scaled_basis
from thermostats.modelling.heritage.held_out import refit
from thermostats.modelling.heritage.model import HeritagePosterior
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.statements import Quantities

CONCENTRATIONS = (0.5, 2.0)
LAB_DF = 4.0
"""Degrees of freedom of the heavy-tailed alternative for lab effects."""


def log_ratios(fit: HeritagePosterior) -> dict[str, Array]:
    """Shares with concentration 0.5 and 2, and Student-t lab effects where they were fitted as normal, chain × draw.

    Log ratios of the densities of every draw; lab effects have unit variance under both priors.
    """
    a, log_share, u = fit.concentration, np.log(fit.draws["share"]).sum(axis=-1), fit.draws["u"]
    ratios = {f"concentration {value * a:g}, by weights": (value - 1) * a * log_share for value in CONCENTRATIONS}
    if not fit.lab_df:
        heavy = stats.t.logpdf(u, LAB_DF, scale=((LAB_DF - 2) / LAB_DF) ** 0.5) - stats.norm.logpdf(u)
        ratios[f"Student-t lab effects, {LAB_DF:g} degrees of freedom"] = heavy.sum(axis=-1)
    return ratios


def alternatives(fit: HeritagePosterior, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Other concentrations and designs of all models, refitted in closed form from the models' means.

    The closed form of the fit itself; families dropped, where they are in the model; scale dropped;
    geometry residualised on scale and the reverse; labs of one model left out.
    """
    everyone = np.arange(fit.design.n_models)
    for name, (laid_out, concentration) in _variants(fit).items():
        yield name, _refit(replace(fit, concentration=concentration), laid_out, everyone, seed)
    single = fit.design.lab_sizes()[fit.design.lab] == 1
    if single.any() and "model" in fit.leave_out and _told_apart(fit.design, everyone[~single]):
        yield "without labs of one model", _refit(fit, fit.design, everyone[~single], seed)


def left_out(fit: HeritagePosterior, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each lab and each model, as `fit.leave_out` asks; none of more than `LARGE_STUDY` models."""
    design, everyone = fit.design, np.arange(fit.design.n_models)
    units = {"heritage": (design.labs, design.lab), "model": (design.models, everyone)}
    for names, own in (units[unit] for unit in fit.leave_out if design.n_models <= LARGE_STUDY):
        for i, name in enumerate(names):
            if _told_apart(design, kept := everyone[own != i]):
                yield name, _refit(fit, design, kept, seed)


def _variants(fit: HeritagePosterior) -> dict[str, tuple[Design, float]]:
    """Other designs and concentrations of all models, by name."""
    design, a = fit.design, fit.concentration
    found = {"closed form": (design, a)} | {f"concentration {c * a:g}": (design, c * a) for c in CONCENTRATIONS}
    if design.families:
        found["families dropped"] = replace(design, families=()), a
    found["scale dropped"] = replace(design, scale=np.zeros((design.n_models, 1))), a
    geometry = scaled_basis(residual(design.geometry, design.scale))
    scale = scaled_basis(residual(design.scale, design.geometry))
    if geometry.shape[1]:
        found["geometry residualised on scale"] = replace(design, geometry=geometry), a
    if scale.shape[1]:
        found["scale residualised on geometry"] = replace(design, scale=scale), a
    return found


def _told_apart(design: Design, kept: Integers) -> bool:
    """Whether heritage can be separated from the mean and from the residual between models."""
    sizes = np.bincount(design.lab[kept])
    return bool((sizes > 0).sum() >= 2 and sizes.max() >= 2)


def _refit(fit: HeritagePosterior, design: Design, kept: Integers, seed: int) -> Quantities:
    """What the closed form of some of the models says, blocks built anew."""
    labs, lab = np.unique(design.lab[kept], return_inverse=True)
    families, family = np.unique(design.family[kept] if design.families else kept[:0], return_inverse=True)
    smaller = replace(
        design,
        models=tuple(design.models[i] for i in kept),
        labs=tuple(design.labs[i] for i in labs),
        lab=lab,
        families=tuple(design.families[i] for i in families),
        family=family,
        geometry=scaled_basis(design.geometry[kept]),
        scale=scaled_basis(design.scale[kept]),
    )
    draws = refit(fit, smaller, kept, seed=seed, means=design.averages.of(kept))
    refitted = replace(fit, design=smaller, draws=draws)
    return refitted.reported | refitted.lab_means
