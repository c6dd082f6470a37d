"""The model of `fit_invariance`: pairs of a base and the model tuned from it, one population of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Simulator, by_sampling
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.sensitivity import NU, SAME_SD
from thermostats.modelling.laws.pairs import Pairs

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; a mean and its spread over pairs share it, 0.5/√2 each."""
SHARE = SCALE / 2**0.5
PROMPTS = SCALE / 2
"""Prior scale of the spread over prompts within a model: half of that over models."""
RESIDUAL = PROMPTS / 2
"""Of what tuning adds prompt by prompt, which is the part that the base does not tell, PROMPTS/√2: t_4 has SD √2 r."""
SLOPE = 0.5
"""Prior scale of how far changes follow the base's prompts."""
HYPER = ("centre", "level_sd", "shift", "shift_sd")
RANKED = (*HYPER, "level", "change", "slope", "spread", "residual")
"""What calibration looks at."""
EQUATIONS = (
    "log g_jp(base) ~ N(μ_j, s_j²)",
    "log g_jp(tuned) − log g_jp(base) ~ t₄(δ_j + γ_j (log g_jp(base) − μ_j), r_j)",
    "μ_j ~ N(m, s_μ²),  δ_j ~ N(Δ, s_δ²);  j a pair, p a prompt that both answered",
)
PRIORS = (
    ("m, Δ", f"N(0, {SHARE:.2f}²)", "mean level and mean change over pairs: half the variance of log gains each way"),
    ("s_μ, s_δ", f"half-normal({SHARE:.2f})", "spread of levels and of changes over pairs: the other half"),
    ("γ_j", "N(0, 0.5²)", "−1 were tuning that forgets the base's prompts, 0 that keeps their differences"),
    ("s_j", f"half-normal({PROMPTS:g})", "spread over prompts: half of what models differ by"),
    ("r_j", f"half-normal({RESIDUAL:g})", "changes prompt by prompt: SD √2 r_j, half the variance of prompts"),
)


def pairs_model(pm: Any, data: Mapping[str, Any]) -> None:
    """base_jp ~ N(μ_j, s_j²), change_jp | base_jp ~ t_4(δ_j + γ_j (base_jp − μ_j), r_j); and
    μ_j ~ N(m, s_μ²), δ_j ~ N(Δ, s_δ²).

    Pairs stand apart in level and spread; m, Δ and the two spreads over pairs speak of pairs not seen. m and Δ are
    summed out, (μ_1 … μ_n) ~ N(0, s_μ² I + SHARE² 11ᵀ), and drawn given the rest: sampled beside their spreads they
    leave divergences with one pair. Q turns pairs so that this covariance is diagonal. δ_j is sampled by way of the
    change at the mean of the prompts, δ_j + γ_j (b̄_j − μ_j), which the data tell apart from the level.
    `factor` times all prior scales and `normal` errors of the same variance are alternatives.
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
    residual = pm.HalfNormal("residual", RESIDUAL * factor, shape=n)
    pm.Normal("bases", level[pair], spread[pair], observed=data["base"])
    expected = at_mean[pair] + slope[pair] * (data["base"] - data["base_mean"][pair])
    if data.get("normal"):
        pm.Normal("changes", expected, SAME_SD * residual[pair], observed=data["change_observed"])
    else:
        pm.StudentT("changes", nu=NU, mu=expected, sigma=residual[pair], observed=data["change_observed"])


def arrays(pairs: Pairs) -> dict[str, Any]:
    """What `pairs_model` takes."""
    n, means = len(pairs.names), np.bincount(pairs.pair, pairs.base) / np.bincount(pairs.pair)
    first = np.eye(n)[0]
    turned = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0]
    observed = {"base": pairs.base, "base_mean": means, "change_observed": pairs.change}
    return observed | {"pair": pairs.pair, "rotation": turned, "common": n * first, "n_pairs": n}


def simulator(data: Mapping[str, Any], target_accept: float) -> Simulator:
    """These pairs with other gains: an outcome is the bases and then the changes of all prompts."""
    pair, n = data["pair"], data["pair"].size

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        drawn = sampling.prior_predictive(pairs_model, data, seed=seed, draws=size)
        bases, slope = drawn["bases"], drawn["slope"][:, pair]
        middle = drawn["change"][:, pair] + slope * (bases - drawn["level"][:, pair])
        noise = np.random.default_rng([seed, 1]).standard_t(NU, (size, n)) * drawn["residual"][:, pair]
        return {name: drawn[name] for name in RANKED}, np.concatenate([bases, middle + noise], axis=1)

    def told(outcome: Array) -> dict[str, Array]:
        base, change = np.split(outcome, 2)
        return {"base": base, "base_mean": np.bincount(pair, base) / np.bincount(pair), "change_observed": change}

    return by_sampling(pairs_model, data, joint, told, settings=replace(SHORT, target_accept=target_accept))
