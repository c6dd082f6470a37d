"""The envelope of Kleiber’s law as PyMC takes it: the reference of the slow tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from thermostats.modelling.inference.draws import Array
from thermostats.modelling.laws.depth import NOISE, Depths


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
