"""A fit as ArviZ has it: groups of variables, their dimensions and coordinates by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from thermostats.modelling import checks
from thermostats.modelling.columns import list_names
from thermostats.modelling.draws import (
    LOG_PRIOR,
    PARETO_LIMIT,
    Array,
    build_arviz,
    normalise_pareto_weights,
)
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.group_effects import compute_effects, list_group_kinds
from thermostats.modelling.mixed_model import MixedDesign

ROUNDING = 1e-12
OUTCOME = "outcome"
"""The dimension of outcomes."""
NO_ENERGY = "these draws are independent, of no chain that would have an energy"
ERROR = "y_se"
"""Known standard errors of outcomes, among the constants."""


def build_groups(fit: FittedLaw, outcomes: list[Any]) -> Any:
    """InferenceData, or a DataTree since ArviZ 1.0, of a fit whose outcomes have these names."""
    rng = np.random.default_rng(fit.seed)
    values = fit.draws.values
    few = fit.draws.few(fit.draws.size)
    before = fit.model.draw_prior(checks.OF_PRIOR, rng)
    chains = next(iter(values.values())).shape[:2]
    drawn = {name: each[None] for name, each in before.items()}
    prior = fit.law.quantities(drawn, fit.design)
    varied = {name: each for name, each in fit.reported.items() if is_varied(each)}
    replicated = fit.model.replicate(few, rng)
    of_prior = fit.model.replicate(before, rng)
    log_likelihood = fit.model.log_likelihood(few)
    posterior = dict(varied)
    of_varied = {name: prior[name] for name in varied}
    groups: dict[str, dict[str, Array]] = {
        "posterior": posterior,
        "prior": of_varied,
        "posterior_predictive": {"y": replicated.reshape(*chains, -1)},
        "prior_predictive": {"y": of_prior[None]},
        "log_likelihood": {"y": log_likelihood.reshape(*chains, -1)},
        LOG_PRIOR: {"prior": fit.log_prior.reshape(chains)},
        "observed_data": {"y": fit.model.observed},
    }
    dims = {}
    coords = {}
    for name, labels in fit.design.labels.items():
        if name in varied:
            dims[name] = [f"{name}_of"]
            coords[f"{name}_of"] = list(labels)
    dims["y"] = [OUTCOME]
    coords[OUTCOME] = outcomes
    for group, kind in list_group_kinds(fit).items():
        dimension = f"{group}_of" if group in {*varied, OUTCOME, "y"} else group
        name = f"{group}_effect"
        design = fit.designed(MixedDesign)
        posterior[name] = compute_effects(values, design, kind)
        of_varied[name] = compute_effects(drawn, design, kind)
        dims[name] = [dimension]
        coords[dimension] = list(design.effects[kind.block].names)
    constants = list_constants(fit, taken=set(dims) | set(posterior))
    if constants:
        groups["constant_data"] = constants
        dims |= {name: [OUTCOME] for name in constants}
    data = build_arviz(groups, dims, coords)
    data["posterior"].attrs |= {"energy": NO_ENERGY} if fit.draws.exact else {}
    words = describe_untrusted(groups["log_likelihood"]["y"], outcomes)
    data["log_likelihood"].attrs |= {"pareto_k": words}
    return data


def describe_untrusted(log_likelihood: Array, outcomes: Sequence[Any]) -> str:
    """Outcomes that these draws, weighted, do not predict from the others, chain × draw × outcome:
    in words, with what does."""
    outcome_count = log_likelihood.shape[-1]
    flat = log_likelihood.reshape(-1, outcome_count)
    _, k = normalise_pareto_weights(-flat.T)
    beyond = []
    for name, each in zip(outcomes, k, strict=True):
        if not each <= PARETO_LIMIT:
            beyond.append(str(name))
    if not beyond:
        return f"none of {len(k)} outcomes has k above {PARETO_LIMIT}"
    names = list_names(beyond)
    return (
        f"{len(beyond)} of {len(k)} outcomes have k above {PARETO_LIMIT} ({names}): "
        f"weights of these draws do not predict them; fit.loo() does"
    )


def is_varied(values: Array) -> bool:
    """Whether draws differ by more than rounding."""
    largest = np.abs(values).max()
    return bool(np.ptp(values) > ROUNDING * largest)


def list_constants(fit: FittedLaw, taken: set[str]) -> dict[str, Array]:
    """What the law reads of every outcome: numbers as the rows have them, the place of its group
    among the coordinates, and its known standard error."""
    design = fit.design
    if not isinstance(design, MixedDesign):
        return {}
    constants = {}
    for name in design.covariates:
        if name in design.table and pd.api.types.is_numeric_dtype(design.table[name]):
            constants[str(name)] = design.table[name].to_numpy(dtype=np.float64)
    for group, kind in list_group_kinds(fit).items():
        constants[f"{group}_index"] = design.effects[kind.block].codes
    if design.gaussian.error.any():
        constants[ERROR] = design.gaussian.error
    return {name: each for name, each in constants.items() if name not in taken}
