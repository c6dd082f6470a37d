"""What other priors and other models at hand would give of the order of blocks: by weights, and by exact refits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    verdict,
)
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.model import (
    CLOSED,
    HeritagePosterior,
    arrays,
    block_contributions,
    heritage_model,
    prior_orders,
)
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import POWERS
from thermostats.modelling.inference.sensitivity import resampled

CONCENTRATIONS = (0.5, 2.0)
LAB_DF = 4.0
"""Degrees of freedom of the heavy-tailed alternative for lab effects."""
LEFT_OUT = "without "


def alternatives(fit: HeritagePosterior) -> dict[str, Array]:
    """Shares with concentration 0.5 and 2, and the prior of τ raised to 0.8 and 1.25: log ratios, chain × draw.

    Where lab effects were fitted as normal, also Student-t effects with `LAB_DF` degrees of freedom.
    """
    a, log_share = fit.concentration, np.log(fit.draws["share"]).sum(axis=-1)
    ratios = {f"concentration {value * a:g}": (value - 1) * a * log_share for value in CONCENTRATIONS}
    ratios |= checks.powers(-0.5 * np.square(fit.draws["tau"] / fit.total_sd), POWERS, "prior of total SD")
    return ratios if fit.lab_df else ratios | {"Student-t lab effects": heavy_tails(fit)}


def heavy_tails(fit: HeritagePosterior) -> Array:
    """Log ratio, chain × draw, of a Student-t prior of the lab effects (unit variance) to the normal one."""
    u = fit.draws["u"]
    scale = ((LAB_DF - 2) / LAB_DF) ** 0.5
    return np.asarray((stats.t.logpdf(u, LAB_DF, scale=scale) - stats.norm.logpdf(u)).sum(axis=-1))


def sensitivity(fit: HeritagePosterior, seed: int) -> pd.DataFrame:
    """Probabilities of the orders under every listed alternative, in closed form from the means of the models.

    Alternatives: concentrations; Student-t lab effects (importance weights of the fit's draws, and an exact refit by
    sampling where these cannot be trusted); heritage by lab or by family alone, where both are in the model; scale
    dropped (the order is then heritage > geometry); geometry residualised on scale and the reverse; labs of one model
    left out; each lab and each model left out as `fit.leave_out` asks (exact refits, blocks built anew), unless there
    are more than `LARGE_STUDY` models. `as fitted` is the closed form of the fit itself. Columns: variant, how,
    verdict, note, n_models, the orders, bayes_factor.
    """
    everyone = np.arange(fit.design.n_models)
    rows = [
        _exact(name, laid_out, everyone, fit.total_sd, concentration, seed)
        for name, (laid_out, concentration) in _variants(fit).items()
    ]
    for name, kept in _rests(fit):
        rows.append(_exact(LEFT_OUT + name, fit.design, kept, fit.total_sd, fit.concentration, seed))
    if not fit.lab_df:
        rows.insert(1, _student(fit, seed))
    return pd.DataFrame(rows)


def _variants(fit: HeritagePosterior) -> dict[str, tuple[Design, float]]:
    """Other designs and concentrations of all models, by name."""
    design, a = fit.design, fit.concentration
    found = {"as fitted": (design, a)} | {f"concentration {c * a:g}": (design, c * a) for c in CONCENTRATIONS}
    if design.families:
        by_family = replace(design, families=(), labs=design.families, lab=design.family)
        found["heritage by lab alone"] = replace(design, families=()), a
        found["heritage by family alone"] = by_family, a
    found["scale dropped"] = replace(design, scale=np.zeros((design.n_models, 1))), a
    geometry = scaled_basis(residual(design.geometry, design.scale))
    scale = scaled_basis(residual(design.scale, design.geometry))
    if geometry.shape[1]:
        found["geometry residualised on scale"] = replace(design, geometry=geometry), a
    if scale.shape[1]:
        found["scale residualised on geometry"] = replace(design, scale=scale), a
    return found


def _rests(fit: HeritagePosterior) -> list[tuple[str, Integers]]:
    """Models that are left without labs of one model, each lab and each model, by what is left out."""
    design, everyone = fit.design, np.arange(fit.design.n_models)
    single = design.lab_sizes()[design.lab] == 1
    alone = single.any() and "model" in fit.leave_out
    found = [("labs of one model", everyone[~single])] if alone else []
    units = {"heritage": (design.labs, design.lab), "model": (design.models, everyone)}
    for names, own in (units[unit] for unit in fit.leave_out if design.n_models <= LARGE_STUDY):
        found += [(name, everyone[own != i]) for i, name in enumerate(names)]
    return found


def _row(variant: str, how: str, n: int, found: Mapping[str, float], prior: Mapping[str, float]) -> dict[str, object]:
    shown = {"variant": variant, "how": how, "verdict": verdict(found[ORDER]), "note": "", "n_models": n}
    return {**shown, **found, "bayes_factor": bayes_factor(found[ORDER], prior[ORDER])}


def _student(fit: HeritagePosterior, seed: int) -> dict[str, object]:
    """The orders with Student-t lab effects: by importance weights, or by sampling where Pareto k is above 0.7."""
    name, design = f"Student-t lab effects, {LAB_DF:g} degrees of freedom", fit.design
    at, k = resampled(heavy_tails(fit))
    prior = prior_orders(design, concentration=fit.concentration, lab_df=LAB_DF, seed=seed)
    if k <= checks.PARETO_LIMIT:
        weighted = orders(stacked_sds(fit.contributions).reshape(at.size, -1)[at])
        return _row(name, f"importance weights, Pareto k {k:.2f}", design.n_models, weighted, prior)
    if fit.method == CLOSED:
        note = f"importance weights cannot be trusted, Pareto k {k:.2f}; fit by sampling with lab_df"
        return {"variant": name, "verdict": "not possible", "note": note, "n_models": design.n_models}
    data = arrays(design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=LAB_DF)
    draws = sampling.fit(heritage_model, data, seed=seed, settings=fit.draws.settings)
    row = _row(name, "sampling", design.n_models, orders(stacked_sds(block_contributions(design, draws))), prior)
    return row if draws.status == checks.PASSED else row | {"verdict": draws.status}


def _exact(
    name: str, design: Design, kept: Integers, total_sd: float, concentration: float, seed: int
) -> dict[str, object]:
    """The row of an alternative in closed form, with some of the models."""
    mean, error = design.means()
    labs, lab = np.unique(design.lab[kept], return_inverse=True)
    if labs.size < 2 or np.bincount(lab).max() < 2:
        note = str(UsageError("heritage cannot be told from the mean or the model", got=f"{labs.size} labs"))
        return {"variant": name, "verdict": "not possible", "note": note, "n_models": kept.size}
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
    means, a = (mean[kept], error[kept]), concentration
    drawn = closed_form(smaller, total_sd=total_sd, concentration=a, seed=seed, means=means)
    found = orders(stacked_sds(block_contributions(smaller, drawn)))
    return _row(name, "closed form", kept.size, found, prior_orders(smaller, concentration=a, seed=seed))


def influence(fit: HeritagePosterior, table: pd.DataFrame) -> checks.Check | None:
    """Verdicts on the order without each lab and model; undecided of more than `LARGE_STUDY` models.

    `table`: as `sensitivity` gives it.
    """
    if not fit.leave_out:
        return None
    table = table.set_index("variant")
    left_out = table[table.index.str.startswith(LEFT_OUT)].rename(index=lambda name: name.removeprefix(LEFT_OUT))
    figures = {str(name): {order: float(row[order]) for order in ORDERS} for name, row in left_out.iterrows()}
    refits = (
        [checks.influence(table.loc["as fitted", "verdict"], dict(left_out["verdict"]), figures)] if figures else []
    )
    if fit.design.n_models > LARGE_STUDY:
        refits.append(checks.nothing_left_out(f"{fit.design.n_models} models are not left out one by one"))
    return checks.joined(refits)
