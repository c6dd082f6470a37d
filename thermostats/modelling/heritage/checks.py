"""The checks of `checks`, and the sensitivities that are always reported, for the heritage model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.heritage.blocks import (
    BLOCKS,
    LARGE_STUDY,
    ORDER,
    Design,
    Integers,
    bayes_factor,
    block_sds,
    orders,
    residual,
    scaled_basis,
    stacked_sds,
)
from thermostats.modelling.heritage.closed_form import closed_form
from thermostats.modelling.heritage.fit import CLOSED, SAMPLING
from thermostats.modelling.heritage.fitted import HeritageFit, verdict
from thermostats.modelling.heritage.model import arrays, block_contributions, heritage_model, prior_blocks, prior_orders
from thermostats.modelling.inference import checks, sampling
from thermostats.modelling.inference.draws import Array

CONCENTRATIONS = (0.5, 2.0)
POWERS = (0.8, 1.25)
LAB_DF = 4.0
"""Degrees of freedom of the heavy-tailed alternative for lab effects."""
LEFT_OUT = "without "
ORDERS = ("heritage > geometry", "geometry > scale", ORDER)
REPLICATED = 400


def check(
    fit: HeritageFit, *, seed: int, draws: int = REPLICATED, influence: Callable[[], checks.Check | None] | None = None
) -> checks.Gate:
    """Sampler, prior and posterior predictive, LOO-PIT, prior sensitivity, influence of labs and models.

    LOO-PIT is of prompts where prompts were sampled, else of the models' means given labs, geometry and scale. Labs and
    models are not left out one by one of more than `LARGE_STUDY` models, and influence is undecided then.
    `influence` stands in for the check of influence, which takes minutes where there are more than a few dozen models.
    """
    observed, error = fit.design.means()
    statistics = model_statistics(fit.design)
    data = arrays(fit.design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=fit.lab_df)
    replicated = new_models(fit, seed, draws)
    found = [
        checks.diagnostics(fit.draws),
        checks.prior_predictive(_from_prior(fit, data, seed, draws), observed, statistics),
        checks.posterior_predictive(replicated, observed, statistics),
    ]
    if fit.method == SAMPLING and fit.design.prompted.size:
        prompts = sampling.posterior_predictive(heritage_model, data, fit.draws, seed=seed, draws=draws)["log_gain"]
        density = sampling.log_likelihood(heritage_model, data, fit.draws)["log_gain"]
        density = density.reshape(-1, density.shape[-1])
        chosen = np.linspace(0, len(density) - 1, draws).astype(int)
        found.append(checks.loo_pit(density[chosen], prompts, fit.design.y, seed=seed))
    else:
        explained, own = _explained(fit, draws)
        density = stats.norm.logpdf(observed, explained, np.hypot(own, error))
        found.append(checks.loo_pit(density, replicated, observed, seed=seed))
    found.append(prior_sensitivity(fit))
    if influence is not None:
        return checks.Gate(checks=tuple(one for one in (*found, influence()) if one is not None))
    variants = sensitivity(fit, seed=seed)
    left_out = variants[variants["variant"].str.startswith(LEFT_OUT)]
    base = str(variants.loc[variants["variant"] == "as fitted", "verdict"].iloc[0])
    verdicts, figures = {}, {}
    for row in left_out.to_dict("records"):
        name = str(row["variant"]).removeprefix(LEFT_OUT)
        verdicts[name], figures[name] = str(row["verdict"]), {order: float(row[order]) for order in ORDERS}
    refits = [checks.influence(base, verdicts, figures)] if verdicts else []
    if fit.n_models > LARGE_STUDY:
        refits.append(checks.nothing_left_out(f"{fit.n_models} models are not left out one by one"))
    found.append(checks.joined(refits))
    return checks.Gate(checks=tuple(found))


def model_statistics(design: Design) -> dict[str, checks.Statistic]:
    """Statistics of the models' mean log gains that the claims are about."""
    sizes = design.lab_sizes()
    indicators = np.eye(len(design.labs))[design.lab] / sizes[design.lab][:, None]
    return {
        "share of models that dampen": lambda m: float((m < 0).mean()),
        "spread of labs' shares of dampeners": lambda m: float(((m < 0) @ indicators).std()),
        "spread of lab means": lambda m: float((m @ indicators).std()),
        "largest": lambda m: float(m.max()),
        "smallest": lambda m: float(m.min()),
        "skew": lambda m: float(((m - m.mean()) ** 3).mean() / m.std() ** 3),
    }


def prior_sensitivity(fit: HeritageFit) -> checks.Check:
    """Shares with concentration 0.5 and 2, and the prior of τ raised to 0.8 and 1.25, by importance weights.

    Where lab effects were fitted as normal, also Student-t effects with `LAB_DF` degrees of freedom.
    """
    log_share, tau = np.log(fit.draws["share"]).sum(axis=-1), fit.draws["tau"]
    log_prior_tau = -0.5 * np.square(tau / fit.total_sd)
    ratios = {
        f"concentration {value * fit.concentration:g}": (value - 1) * fit.concentration * log_share
        for value in CONCENTRATIONS
    }
    ratios |= {f"prior of total SD to the power {p:g}": checks.power_scaling(log_prior_tau, power=p) for p in POWERS}
    if not fit.lab_df:
        ratios["Student-t lab effects"] = heavy_tails(fit)
    sd = {name: block_sds(part) for name, part in fit.contributions.items()}
    quantities: dict[str, Array | NDArray[np.bool_]] = {
        "heritage > geometry": sd["heritage"] > sd["geometry"],
        "geometry > scale": sd["geometry"] > sd["scale"],
        ORDER: (sd["heritage"] > sd["geometry"]) & (sd["geometry"] > sd["scale"]),
        "total SD": tau,
    }
    return checks.prior_sensitivity(ratios, quantities)


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
    left out; each lab and each model left out (exact refits, blocks built anew), unless there are more than
    `LARGE_STUDY` models. `as fitted` is the closed form of the fit itself. Columns: variant, how, verdict, note,
    n_models, the orders, bayes_factor.
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
    if single.any():
        variants.append((f"{LEFT_OUT}labs of one model", design, everyone[~single], a))
    if design.n_models <= LARGE_STUDY:
        variants += [(f"{LEFT_OUT}{name}", design, everyone[design.lab != j], a) for j, name in enumerate(design.labs)]
        variants += [(f"{LEFT_OUT}{name}", design, everyone[everyone != i], a) for i, name in enumerate(design.models)]
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


def new_models(fit: HeritageFit, seed: int, draws: int = REPLICATED) -> Array:
    """Mean log gains of new models with the same labs, geometry and scale, draws × M: their own part is drawn anew."""
    _, error = fit.design.means()
    explained, own = _explained(fit, draws)
    return np.asarray(explained + np.random.default_rng(seed).normal(size=explained.shape) * np.hypot(own, error))


def _explained(fit: HeritageFit, draws: int) -> tuple[Array, Array]:
    """What lab, geometry and scale say of every model, draws × M, and the SD of the model's own part, draws × 1."""
    parts = fit.contributions
    explained = np.asarray(fit.draws["alpha"][..., None] + sum(parts[name] for name in BLOCKS[:-1]))
    own = (fit.draws["tau"] * np.sqrt(fit.draws["share"][..., -1])).reshape(-1, 1)
    chosen = np.linspace(0, len(own) - 1, draws).astype(int)
    return explained.reshape(len(own), -1)[chosen], own[chosen]


def _from_prior(fit: HeritageFit, data: Mapping[str, Any], seed: int, draws: int) -> Array:
    """Means of models under the prior, draws × M: over prompts where they were sampled, else about the model's mean."""
    design = fit.design
    if fit.method == CLOSED:
        prior = {"total_sd": fit.total_sd, "concentration": fit.concentration, "lab_df": fit.lab_df}
        m = prior_blocks(design, **prior, seed=seed)["m"][:draws]
        return np.asarray(m + np.random.default_rng(seed).normal(size=m.shape) * design.means()[1])
    drawn = sampling.prior_predictive(heritage_model, data, seed=seed, draws=draws)
    means = np.empty((draws, design.n_models))
    if "average_gain" in drawn:
        means[:, design.average_model] = drawn["average_gain"]
    for i in design.prompted:
        means[:, i] = drawn["log_gain"][:, design.y_model == i].mean(axis=1)
    return means
