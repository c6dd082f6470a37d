"""The line of `laws.lines` sampled through the seam: what the exact draws are held against."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import Draws, Settings
from thermostats.modelling.inference.quadrature import Lines
from thermostats.modelling.inference.sensitivity import NU, SAME_SD


def line(pm: Any, data: Mapping[str, Any]) -> None:
    """y_i ~ N(X_i β + u_g(i), σ² + error_i²), u_g = τ z_g; `heavy`: t_4 errors of the same variance."""
    beta = pm.Normal("beta", data["mean"], data["sd"], shape=data["n_columns"])
    sigma = pm.HalfNormal("sigma", data["sigma_scale"])
    mean = pm.math.dot(data["X"], beta)
    if data["n_groups"]:
        z = pm.Normal("z", 0.0, 1.0, shape=data["n_groups"])
        mean = mean + pm.Deterministic("effects", pm.HalfNormal("tau", data["tau_scale"]) * z)[data["groups"]]
    spread = pm.math.sqrt(sigma**2 + data["error"] ** 2)
    if data["heavy"]:
        pm.StudentT("outcome", nu=NU, mu=mean, sigma=spread / SAME_SD, observed=data["y"])
    else:
        pm.Normal("outcome", mean, spread, observed=data["y"])


def sampled(lines: Lines, *, heavy: bool = False, draws: int = 1000) -> Draws:
    """Draws by the sampler."""
    data = {name: np.asarray(value) for name, value in vars(lines).items() if name != "n_groups"}
    settings = Settings(target_accept=0.97, draws=draws)
    data |= {"n_groups": lines.n_groups, "n_columns": lines.mean.size, "heavy": heavy}
    return sampling.fit(line, data, seed=1, settings=settings, cache=False)
