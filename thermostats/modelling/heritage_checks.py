"""The checks of `checks`, and the sensitivities that are always reported, for the heritage model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling import checks, sampling
from thermostats.modelling import heritage_gaussian as gaussian
from thermostats.modelling.draws import Array
from thermostats.modelling.heritage import ORDER, HeritageFit, arrays, heritage_model, prior_orders, verdict
from thermostats.modelling.heritage_design import BLOCKS, Design, Integers, scaled_basis

CONCENTRATIONS = (0.5, 2.0)
POWERS = (0.8, 1.25)
LEFT_OUT = "without "
ORDERS = ("heritage > geometry", "geometry > scale", ORDER)


def check(fit: HeritageFit, *, seed: int, draws: int = 400) -> checks.Gate:
    """Sampler, prior and posterior predictive, LOO-PIT of prompts, prior sensitivity, influence of labs and models."""
    observed, _ = fit.design.means()
    statistics = model_statistics(fit.design)
    data = arrays(fit.design, total_sd=fit.total_sd, concentration=fit.concentration, lab_df=fit.lab_df)
    prior = sampling.prior_predictive(heritage_model, data, seed=seed, draws=draws)
    replicated = sampling.posterior_predictive(heritage_model, data, fit.draws, seed=seed, draws=draws)
    found = [
        checks.diagnostics(fit.draws),
        checks.prior_predictive(_model_means(fit.design, prior), observed, statistics),
        checks.posterior_predictive(_new_models(fit, seed, draws), observed, statistics),
    ]
    if "log_gain" in replicated:
        density = sampling.log_likelihood(heritage_model, data, fit.draws)["log_gain"]
        density = density.reshape(-1, density.shape[-1])
        chosen = np.linspace(0, len(density) - 1, draws).astype(int)
        found.append(checks.loo_pit(density[chosen], replicated["log_gain"], fit.design.y, seed=seed))
    found.append(prior_sensitivity(fit))
    variants = sensitivity(fit, seed=seed)
    left_out = variants[variants["variant"].str.startswith(LEFT_OUT)]
    base = str(variants.loc[variants["variant"] == "as fitted", "verdict"].iloc[0])
    verdicts, figures = {}, {}
    for row in left_out.to_dict("records"):
        name = str(row["variant"]).removeprefix(LEFT_OUT)
        verdicts[name], figures[name] = str(row["verdict"]), {order: float(row[order]) for order in ORDERS}
    found.append(checks.influence(base, verdicts, figures))
    return checks.Gate(checks=tuple(found))


def model_statistics(design: Design) -> dict[str, checks.Statistic]:
    """Statistics of the models' mean log gains that the claims are about."""
    sizes = design.lab_sizes()
    indicators = np.eye(len(design.labs))[design.lab] / sizes[design.lab][:, None]
    return {
        "share of models that dampen": lambda m: float((m < 0).mean()),
        "spread of lab means": lambda m: float((m @ indicators).std()),
        "largest": lambda m: float(m.max()),
        "smallest": lambda m: float(m.min()),
        "skew": lambda m: float(((m - m.mean()) ** 3).mean() / m.std() ** 3),
    }


def prior_sensitivity(fit: HeritageFit) -> checks.Check:
    """Shares with concentration 0.5 and 2, and the prior of τ raised to 0.8 and 1.25, by importance weights."""
    log_share, tau = np.log(fit.draws["share"]).sum(axis=-1), fit.draws["tau"]
    log_prior_tau = -0.5 * np.square(tau / fit.total_sd)
    ratios = {
        f"concentration {value * fit.concentration:g}": (value - 1) * fit.concentration * log_share
        for value in CONCENTRATIONS
    }
    ratios |= {f"prior of total SD to the power {p:g}": checks.power_scaling(log_prior_tau, power=p) for p in POWERS}
    sd = {name: gaussian.block_sds(part) for name, part in fit.contributions().items()}
    quantities: dict[str, Array | NDArray[np.bool_]] = {
        "heritage > geometry": sd["heritage"] > sd["geometry"],
        "geometry > scale": sd["geometry"] > sd["scale"],
        ORDER: (sd["heritage"] > sd["geometry"]) & (sd["geometry"] > sd["scale"]),
        "total SD": tau,
    }
    return checks.prior_sensitivity(ratios, quantities)


def sensitivity(fit: HeritageFit, *, seed: int) -> pd.DataFrame:
    """Probabilities of the orders under every listed alternative, in closed form from the means of the models.

    Alternatives: concentrations; scale dropped (the order is then heritage > geometry); geometry residualised on scale
    and the reverse; labs of one model left out; each lab and each model left out (exact refits, blocks built anew).
    `as fitted` is the closed form of the fit itself.
    """
    design, a = fit.design, fit.concentration
    everyone = np.arange(design.n_models)
    geometry = scaled_basis(_residual(design.geometry, design.scale))
    scale = scaled_basis(_residual(design.scale, design.geometry))
    single = design.lab_sizes()[design.lab] == 1
    variants: list[tuple[str, Design, Integers, float]] = [("as fitted", design, everyone, a)]
    variants += [(f"concentration {value * a:g}", design, everyone, value * a) for value in CONCENTRATIONS]
    variants.append(("scale dropped", replace(design, scale=np.zeros((design.n_models, 1))), everyone, a))
    if geometry.shape[1]:
        variants.append(("geometry residualised on scale", replace(design, geometry=geometry), everyone, a))
    if scale.shape[1]:
        variants.append(("scale residualised on geometry", replace(design, scale=scale), everyone, a))
    if single.any():
        variants.append((f"{LEFT_OUT}labs of one model", design, everyone[~single], a))
    variants += [(f"{LEFT_OUT}{name}", design, everyone[design.lab != j], a) for j, name in enumerate(design.labs)]
    variants += [(f"{LEFT_OUT}{name}", design, everyone[everyone != i], a) for i, name in enumerate(design.models)]
    rows = []
    for name, laid_out, kept, concentration in variants:
        try:
            orders, prior = _closed_form(laid_out, kept, fit.total_sd, concentration, seed)
        except UsageError as error:
            rows.append({"variant": name, "verdict": "not possible", "note": str(error), "n_models": kept.size})
            continue
        row = {"variant": name, "verdict": verdict(orders[ORDER]), "note": "", "n_models": kept.size, **orders}
        rows.append(row | {"bayes_factor": gaussian.bayes_factor(orders[ORDER], prior[ORDER])})
    return pd.DataFrame(rows)


def _closed_form(
    design: Design, kept: Integers, total_sd: float, concentration: float, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    mean, error = design.means()
    labs, lab = np.unique(design.lab[kept], return_inverse=True)
    if labs.size < 2 or np.bincount(lab).max() < 2:
        raise UsageError("heritage cannot be told from the mean or the model", got=f"{labs.size} labs")
    smaller = replace(
        design,
        models=tuple(design.models[i] for i in kept),
        lab=lab,
        geometry=scaled_basis(design.geometry[kept]),
        scale=scaled_basis(design.scale[kept]),
    )
    prepared = gaussian.prepare(
        smaller.covariances(), error[kept], total_sd=total_sd, concentration=concentration, seed=seed
    )
    drawn = gaussian.posterior(prepared, mean[kept], seed=seed, draws=4000)
    return gaussian.orders(drawn["sd"]), prior_orders(smaller, concentration=concentration, seed=seed)


def _residual(columns: Array, given: Array) -> Array:
    return np.asarray(columns - given @ np.linalg.lstsq(given, columns, rcond=None)[0])


def _model_means(design: Design, drawn: Mapping[str, Array]) -> Array:
    """Means per model of replicated data, draws × M."""
    size = next(iter(drawn.values())).shape[0]
    means = np.empty((size, design.n_models))
    if "average_gain" in drawn:
        means[:, design.average_model] = drawn["average_gain"]
    for i in design.prompted:
        means[:, i] = drawn["log_gain"][:, design.y_model == i].mean(axis=1)
    return means


def _new_models(fit: HeritageFit, seed: int, draws: int) -> Array:
    """Mean log gains of new models with the same labs, geometry and scale: their own part is drawn anew."""
    rng = np.random.default_rng(seed)
    _, error = fit.design.means()
    parts = fit.contributions()
    explained = fit.draws["alpha"][..., None] + sum(parts[name] for name in BLOCKS[:-1])
    flat = np.asarray(explained).reshape(-1, fit.design.n_models)
    own = (fit.draws["tau"] * np.sqrt(fit.draws["share"][..., -1])).ravel()
    chosen = np.linspace(0, len(flat) - 1, draws).astype(int)
    noise = rng.normal(size=(draws, fit.design.n_models))
    return np.asarray(flat[chosen] + noise * np.hypot(own[chosen, None], error))
