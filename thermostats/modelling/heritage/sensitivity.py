"""What other priors and other models at hand would give of the order of blocks: by weights, and by exact refits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritage.blocks import (
    LARGE_STUDY,
    ORDER,
    ORDERS,
    Design,
    Integers,
    bayes_factor,
    orders,
    residual,
    scaled_basis,
    stacked_sds,
)
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.model import CLOSED, arrays, block_contributions, heritage_model, prior_orders
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import Array

if TYPE_CHECKING:
    from thermostats.modelling.heritage.fit import HeritageFit

SUPPORTED_ABOVE, AGAINST_BELOW = 0.95, 0.05
CONCENTRATIONS = (0.5, 2.0)
POWERS = (0.8, 1.25)
LAB_DF = 4.0
"""Degrees of freedom of the heavy-tailed alternative for lab effects."""
LEFT_OUT = "without "


def verdict(probability: float) -> str:
    """The decision rule for an order of blocks."""
    if probability >= SUPPORTED_ABOVE:
        return "supported"
    return "not supported" if probability <= AGAINST_BELOW else "inconclusive"


def alternatives(fit: HeritageFit) -> dict[str, Array]:
    """Shares with concentration 0.5 and 2, and the prior of τ raised to 0.8 and 1.25: log ratios, chain × draw.

    Where lab effects were fitted as normal, also Student-t effects with `LAB_DF` degrees of freedom.
    """
    a, log_share = fit.concentration, np.log(fit.draws["share"]).sum(axis=-1)
    log_prior_tau = -0.5 * np.square(fit.draws["tau"] / fit.total_sd)
    ratios = {f"concentration {value * a:g}": (value - 1) * a * log_share for value in CONCENTRATIONS}
    ratios |= {f"prior of total SD to the power {p:g}": checks.power_scaling(log_prior_tau, power=p) for p in POWERS}
    return ratios if fit.lab_df else ratios | {"Student-t lab effects": heavy_tails(fit)}


def heavy_tails(fit: HeritageFit) -> Array:
    """Log ratio, chain × draw, of a Student-t prior of the lab effects (unit variance) to the normal one."""
    u = fit.draws["u"]
    scale = ((LAB_DF - 2) / LAB_DF) ** 0.5
    return np.asarray((stats.t.logpdf(u, LAB_DF, scale=scale) - stats.norm.logpdf(u)).sum(axis=-1))


def sensitivity(fit: HeritageFit, *, seed: int | None = None) -> pd.DataFrame:
    """Probabilities of the orders under every listed alternative, in closed form from the means of the models.

    Alternatives: concentrations; Student-t lab effects (importance weights of the fit's draws, and an exact refit by
    sampling where these cannot be trusted); heritage by lab or by family alone, where both are in the model; scale
    dropped (the order is then heritage > geometry); geometry residualised on scale and the reverse; labs of one model
    left out; each lab and each model left out as `fit.leave_out` asks (exact refits, blocks built anew), unless there
    are more than `LARGE_STUDY` models. `as fitted` is the closed form of the fit itself. Columns: variant, how,
    verdict, note, n_models, the orders, bayes_factor.
    """
    design, a, seed = fit.design, fit.concentration, fit.seed if seed is None else seed
    everyone = np.arange(design.n_models)
    geometry = scaled_basis(residual(design.geometry, design.scale))
    scale = scaled_basis(residual(design.scale, design.geometry))
    single = design.lab_sizes()[design.lab] == 1
    variants: list[tuple[str, Design, Integers, float]] = [("as fitted", design, everyone, a)]
    variants += [(f"concentration {value * a:g}", design, everyone, value * a) for value in CONCENTRATIONS]
    if design.families:
        variants.append(("heritage by lab alone", replace(design, families=()), everyone, a))
        by_family = replace(design, families=(), labs=design.families, lab=design.family)
        variants.append(("heritage by family alone", by_family, everyone, a))
    variants.append(("scale dropped", replace(design, scale=np.zeros((design.n_models, 1))), everyone, a))
    if geometry.shape[1]:
        variants.append(("geometry residualised on scale", replace(design, geometry=geometry), everyone, a))
    if scale.shape[1]:
        variants.append(("scale residualised on geometry", replace(design, scale=scale), everyone, a))
    if single.any() and "model" in fit.leave_out:
        variants.append((f"{LEFT_OUT}labs of one model", design, everyone[~single], a))
    if design.n_models <= LARGE_STUDY:
        units = {"heritage": (design.labs, design.lab), "model": (design.models, everyone)}
        for names, own in (units[unit] for unit in fit.leave_out):
            variants += [(f"{LEFT_OUT}{name}", design, everyone[own != i], a) for i, name in enumerate(names)]
    rows: list[dict[str, object]] = []
    for name, laid_out, kept, concentration in variants:
        try:
            found, prior = _closed_form(laid_out, kept, fit.total_sd, concentration, seed)
        except UsageError as error:
            rows.append({"variant": name, "verdict": "not possible", "note": str(error), "n_models": kept.size})
            continue
        rows.append(_row(name, "closed form", kept.size, found, prior))
    if not fit.lab_df:
        rows.insert(1, _student(fit, seed))
    return pd.DataFrame(rows)


def _row(variant: str, how: str, n: int, found: Mapping[str, float], prior: Mapping[str, float]) -> dict[str, object]:
    shown = {"variant": variant, "how": how, "verdict": verdict(found[ORDER]), "note": "", "n_models": n}
    return {**shown, **found, "bayes_factor": bayes_factor(found[ORDER], prior[ORDER])}


def _student(fit: HeritageFit, seed: int) -> dict[str, object]:
    """The orders with Student-t lab effects: by importance weights, or by sampling where Pareto k is above 0.7."""
    name = f"Student-t lab effects, {LAB_DF:g} degrees of freedom"
    log_weights, k = sampling.pareto_smooth(heavy_tails(fit).reshape(1, -1))
    prior = prior_orders(fit.design, concentration=fit.concentration, lab_df=LAB_DF, seed=seed)
    sd = stacked_sds(fit.contributions)
    if k[0] <= checks.PARETO_LIMIT:
        weight = np.exp(log_weights[0] - np.logaddexp.reduce(log_weights[0]))
        chosen = np.searchsorted(np.cumsum(weight), (np.arange(weight.size) + 0.5) / weight.size)
        weighted = orders(sd[np.minimum(chosen, weight.size - 1)])
        return _row(name, f"importance weights, Pareto k {k[0]:.2f}", fit.n_models, weighted, prior)
    if fit.method == CLOSED:
        note = f"importance weights cannot be trusted, Pareto k {k[0]:.2f}; fit by sampling with lab_df"
        return {"variant": name, "verdict": "not possible", "note": note, "n_models": fit.n_models}
    data = arrays(fit.design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=LAB_DF)
    draws = sampling.fit(heritage_model, data, seed=seed, settings=fit.draws.settings)
    row = _row(name, "sampling", fit.n_models, orders(stacked_sds(block_contributions(fit.design, draws))), prior)
    return row if draws.status == checks.PASSED else row | {"verdict": draws.status}


def _closed_form(
    design: Design, kept: Integers, total_sd: float, concentration: float, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    mean, error = design.means()
    labs, lab = np.unique(design.lab[kept], return_inverse=True)
    if labs.size < 2 or np.bincount(lab).max() < 2:
        raise UsageError("heritage cannot be told from the mean or the model", got=f"{labs.size} labs")
    families, family = np.unique(design.family[kept] if design.families else kept[:0], return_inverse=True)
    smaller = replace(
        design,
        models=tuple(design.models[i] for i in kept),
        lab=lab,
        families=tuple(design.families[i] for i in families),
        family=family,
        geometry=scaled_basis(design.geometry[kept]),
        scale=scaled_basis(design.scale[kept]),
    )
    drawn = closed_form(
        smaller, total_sd=total_sd, concentration=concentration, seed=seed, means=(mean[kept], error[kept])
    )
    prior = prior_orders(smaller, concentration=concentration, seed=seed)
    return orders(stacked_sds(block_contributions(smaller, drawn))), prior


def influence(fit: HeritageFit, seed: int) -> checks.Check | None:
    """Verdicts on the order without each lab and model; undecided of more than `LARGE_STUDY` models."""
    if not fit.leave_out:
        return None
    table = fit.sensitivity(seed=seed).set_index("variant")
    left_out = table[table.index.str.startswith(LEFT_OUT)].rename(index=lambda name: name.removeprefix(LEFT_OUT))
    figures = {str(name): {order: float(row[order]) for order in ORDERS} for name, row in left_out.iterrows()}
    refits = (
        [checks.influence(table.loc["as fitted", "verdict"], dict(left_out["verdict"]), figures)] if figures else []
    )
    if fit.n_models > LARGE_STUDY:
        refits.append(checks.nothing_left_out(f"{fit.n_models} models are not left out one by one"))
    return checks.joined(refits)
