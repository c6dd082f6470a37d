"""Models that Gibbs sampling draws, as PyMC takes them: the reference of the slow tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.sensitivity import NU, SAME_SD
from thermostats.modelling.laws.crossed_table import Crossed, stack
from thermostats.modelling.laws.depth import NOISE, Depths
from thermostats.modelling.laws.pairs import Pairs
from thermostats.modelling.laws.pairs_draws import PROMPTS, SHARE, SLOPE
from thermostats.modelling.laws.pairs_draws import RESIDUAL as OF_CHANGES
from thermostats.modelling.laws.ranking import CENTRE, RESIDUAL, RESIDUAL_SD, SCALE, SPREAD, SPREAD_SD, blocks
from thermostats.modelling.laws.ranking import SHARE as EFFECTS


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The model of `ranking` for PyMC; levels and log scales are centred, effects are not."""
    n = data["n_models"]
    level = pm.Normal("level", pm.Normal("centre", 0.0, CENTRE), pm.HalfNormal("apart", SCALE), shape=n)
    sigma_centre = pm.Normal("sigma_centre", RESIDUAL, RESIDUAL_SD)
    sigma_spread = pm.LogNormal("sigma_spread", np.log(SPREAD), SPREAD_SD)
    log_sigma = pm.Normal("log_sigma", sigma_centre, sigma_spread, shape=n)
    spreads = pm.HalfNormal("spreads", EFFECTS, shape=data["n_spreads"])
    spread = pm.math.dot(data["kind"], spreads)
    effects = pm.Deterministic("effects", spread * pm.Normal("z", shape=data["n_effects"]))
    fitted = pm.math.dot(data["which"], level) + pm.math.dot(data["design"], effects)
    sigma = pm.math.exp(pm.math.dot(data["which"], log_sigma))
    pm.StudentT("gains", nu=NU, mu=fitted, sigma=sigma, observed=data["y"])


def benchmark_arrays(cells: Crossed) -> dict[str, Any]:
    """What `benchmark_model` takes."""
    n_models = len(cells.models)
    which = (cells.model[:, None] == np.arange(n_models)).astype(np.float64)
    data = {"y": cells.y, "n_models": n_models, "which": which}
    design, kind = stack(list(blocks(cells).values()))
    return data | {"design": design, "kind": kind, "n_effects": kind.shape[0], "n_spreads": kind.shape[1]}


def pairs_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The model of `pairs` for PyMC: m and Δ are summed out, and drawn given the rest; Q makes the pairs independent.

    δ_j is sampled by way of the change at the mean of the prompts. `factor` times all prior scales and `normal` errors
    of the same variance are alternatives.
    """
    n, pair, Q, factor = data["n_pairs"], data["pair"], data["rotation"], data.get("factor", 1.0)
    share = SHARE * factor
    level_sd = pm.HalfNormal("level_sd", share)
    shift_sd = pm.HalfNormal("shift_sd", share)
    level_at = pm.Normal("level_at", 0.0, pm.math.sqrt(level_sd**2 + share**2 * data["common"]), shape=n)
    level = pm.Deterministic("level", pm.math.dot(Q, level_at))
    slope = pm.Normal("slope", 0.0, SLOPE * factor, shape=n)
    offset = slope * (data["base_mean"] - level)
    scale = pm.math.sqrt(shift_sd**2 + share**2 * data["common"])
    at_mean = pm.math.dot(Q, pm.Normal("change_at", pm.math.dot(offset, Q), scale, shape=n))
    change = pm.Deterministic("change", at_mean - offset)
    for name, values, sd in (("centre", level, level_sd), ("shift", change, shift_sd)):
        total = sd**2 + n * share**2
        rest = pm.Normal(f"{name}_z", 0.0, 1.0) * share * sd / pm.math.sqrt(total)
        pm.Deterministic(name, share**2 * pm.math.sum(values) / total + rest)
    spread = pm.HalfNormal("spread", PROMPTS * factor, shape=n)
    residual = pm.HalfNormal("residual", OF_CHANGES * factor, shape=n)
    pm.Normal("bases", level[pair], spread[pair], observed=data["base"])
    expected = at_mean[pair] + slope[pair] * (data["base"] - data["base_mean"][pair])
    if data.get("normal"):
        pm.Normal("changes", expected, SAME_SD * residual[pair], observed=data["change_observed"])
    else:
        pm.StudentT("changes", nu=NU, mu=expected, sigma=residual[pair], observed=data["change_observed"])


def pairs_arrays(pairs: Pairs) -> dict[str, Any]:
    """What `pairs_model` takes."""
    pair, n = pd.factorize(pairs.prompts["pair"])[0], len(pairs.pairs)
    turned = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0]
    base, change = (pairs.prompts[name].to_numpy() for name in ("base", "change"))
    outcomes = {"base": base, "base_mean": np.bincount(pair, base) / np.bincount(pair), "change_observed": change}
    return {**outcomes, "pair": pair, "rotation": turned, "common": n * np.eye(n)[0], "n_pairs": n}


def envelope_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The envelope of `depth` for PyMC, with what lies below it summed out.

    Data tell below and noise together better than apart: they are sampled as size r and angle θ, below = r sin θ and
    noise = r cos θ, so that d below d noise = r² d log r dθ.
    """
    middle = pm.HalfNormal("frontier_middle", data["scale"])
    beta = pm.Normal("frontier_beta", data["beta_mean"], data["beta_sd"])
    log_size, angle = pm.Flat("log_size"), pm.Uniform("angle", 0.0, math.pi / 2)
    in_scales = pm.math.stack([pm.math.sin(angle), pm.math.cos(angle) / NOISE]) * pm.math.exp(log_size)
    pm.Potential("half_normals", 2 * log_size - 0.5 * pm.math.sum(in_scales**2))
    below = pm.Deterministic("below", data["scale"] * in_scales[0])
    noise = pm.Deterministic("noise", NOISE * data["scale"] * in_scales[1])
    either = pm.math.sqrt(noise**2 + data["error"] ** 2)
    spread = pm.math.sqrt(below**2 + either**2)
    z = (data["y"] - middle * pm.math.exp(-beta * data["x"])) / spread
    tilt = pm.logcdf(pm.Normal.dist(0.0, 1.0), -z * below / either)
    pm.Potential("envelope", pm.math.sum(tilt - pm.math.log(spread) - 0.5 * z**2))


def envelope_data(depths: Depths) -> dict[str, Array]:
    priors = {"scale": depths.scale, "beta_mean": depths.beta[0], "beta_sd": depths.beta[1]}
    rows = {name: getattr(depths, name) for name in ("y", "x", "error")}
    return rows | {name: np.array(value) for name, value in priors.items()}
