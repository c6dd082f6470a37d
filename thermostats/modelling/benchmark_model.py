"""The crossed model of `fit_benchmark`: what it says, what it takes, and its design of effects that sum to zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.cells import Crossed
from thermostats.modelling.draws import Array

SCALE = 0.5
"""Prior scale of log gains of models, a factor 1.6."""
PROMPTS = SCALE / 2
"""Prior scale of what prompts do to one model, half of that; the spreads of the three kinds of effects share it."""
SHARE = PROMPTS / 3**0.5
SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation, roughly."""
NU = 4.0
LARGEST = 1_000_000
"""Entries of the design: about 85 models with 25 prompts in 5 categories."""

EQUATIONS = (
    "log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp,  ε_mp ~ t₄(0, σ_m)",
    "κ_c ~ N(0, s_κ²),  π_p ~ N(0, s_π²),  ξ_mc ~ N(0, s_ξ²);  κ and ξ sum to zero, π within each category",
    "log σ_m ~ N(ν, ω²)",
    "entropy_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e_mp,  x = log g, both standardised within models",
    "β_m ~ N(b, s_β²),  γ_p ~ N(0, s_γ²),  γ sums to zero,  e_mp ~ N(0, r²)",
)
PRIORS = (
    ("μ_m", f"N(0, {SCALE:g}²)", "level of a model: a factor 1.6 either way is one standard deviation"),
    ("s_κ, s_π, s_ξ", f"half-normal({SHARE:.2f})", "together half of what models differ by, in equal parts"),
    ("ν", "N(−3, 1.5²)", "residual scale of a middling model: 0.05, a factor 4.5 either way"),
    ("ω", "log-normal(log 0.5, 0.5²)", "models differ in residual scale by a factor 1.6 or so"),
    ("b, B", f"N(0, {SLOPE_SD:g}²)", "slopes of standardised columns, near correlations"),
    ("s_β", f"half-normal({SLOPE_SD:g})", "models may differ as much as the mean slope is uncertain"),
    ("s_γ, r", "half-normal(1)", "the standardised entropy has spread 1"),
)


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects sum to zero, prompts within their category.

    Beside it, sharing nothing: entropy z_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e, β_m ~ N(b, s_b²), x the log gain,
    both standardised within models. b is the slope inside prompts, B that between prompts: whether prompts with high
    gain in every model have high entropy in every model. All effects of an outcome are one vector that meets one
    design matrix: a graph that compiles in a third of the time of one variable for each kind.
    """
    level = pm.Normal("level", 0.0, SCALE, shape=data["n_models"])
    sigma_centre, sigma_spread = pm.Normal("sigma_centre", -3.0, 1.5), pm.LogNormal("sigma_spread", np.log(0.5), 0.5)
    log_sigma = pm.Normal("log_sigma", sigma_centre, sigma_spread, shape=data["n_models"])
    spreads = pm.HalfNormal("spreads", SHARE, shape=data["n_spreads"])
    spread = pm.math.dot(data["kind"], spreads)
    z = pm.Normal("z", 0.0, spread ** data["centred"], shape=data["n_effects"])
    effects = pm.Deterministic("effects", z * spread ** (1 - data["centred"]))
    fitted = pm.math.dot(data["which"], level) + pm.math.dot(data["design"], effects)
    sigma = pm.math.exp(pm.math.dot(data["which"], log_sigma))
    pm.StudentT("gains", nu=NU, mu=fitted, sigma=sigma, observed=data["y"])
    if data["entropy"]:
        fixed = pm.Normal("fixed", 0.0, SLOPE_SD, shape=2)
        own_spreads = pm.HalfNormal("own_spreads", 2 * SLOPE_SD * data["half_for_slopes"], shape=2)
        own_z = pm.Normal("own_z", 0.0, 1.0, shape=data["n_own"])
        own = pm.Deterministic("own", pm.math.dot(data["own_kind"], own_spreads) * own_z)
        rest = pm.HalfNormal("rest", 1.0)
        expected = pm.math.dot(data["fixed_design"], fixed) + pm.math.dot(data["own_design"], own)
        pm.Normal("entropies", expected, rest, observed=data["entropies_observed"])


def blocks(cells: Crossed) -> dict[str, Array]:
    """Design of every kind of effect there is, cells × effects, each summing to zero over what it belongs to."""
    m, c = (sum_zero(len(names)) for names in (cells.models, cells.categories))
    p = sum_zero(len(cells.prompts), cells.category)
    kind = cells.category[cells.prompt]
    cross = (m[cells.model][:, :, None] * c[kind][:, None, :]).reshape(cells.y.size, -1)
    found = {"prompt": p[cells.prompt], "category": c[kind], "model × category": cross}
    return {name: block for name, block in found.items() if block.shape[1]}


def arrays(cells: Crossed) -> dict[str, Any]:
    """What `benchmark_model` takes, with `entropy` where two models or more hold entropies.

    Raises UsageError for a design of more than `LARGEST` entries.
    """
    n_models, n_kinds = len(cells.models), len(cells.categories) - 1
    columns = n_models * (1 + n_kinds) + len(cells.prompts)
    if cells.y.size * columns > LARGEST:
        raise UsageError(
            "too many models and prompts to compare one by one",
            got=f"{n_models} models × {len(cells.prompts)} prompts",
            allowed=f"a design of at most {LARGEST} entries, here {cells.y.size} × {columns}",
            next_step="choose models, such as those of one claim",
        )
    has_entropy = len(set(cells.xz_model.tolist())) >= 2
    which = (cells.model[:, None] == np.arange(n_models)).astype(np.float64)
    data = {"y": cells.y, "n_models": n_models, "which": which, "entropy": has_entropy}
    design, kind = _stack(list(blocks(cells).values()))
    data |= {"design": design, "kind": kind, "n_effects": kind.shape[0], "n_spreads": kind.shape[1]}
    data |= {"centred": kind @ _determined(cells.y, which, design, kind)}
    if not has_entropy:
        return data
    mean = pd.Series(cells.x).groupby(cells.xz_prompt).transform("mean").to_numpy()
    within = cells.x - mean
    by_model = within[:, None] * (cells.xz_model[:, None] == np.arange(n_models))
    own, own_kind = _stack([by_model, sum_zero(len(cells.prompts))[cells.xz_prompt]])
    return data | {
        "entropies_observed": cells.z,
        "fixed_design": np.column_stack([within, mean]),
        "own_design": own,
        "own_kind": own_kind,
        "n_own": own_kind.shape[0],
        "half_for_slopes": np.array([0.5, 1.0]),
    }


def without(cells: Crossed, data: Mapping[str, Any], model: int) -> dict[str, Any]:
    """The same model of the same sizes without the cells of one model: its parameters keep their priors."""
    gains, entropies = cells.model != model, cells.xz_model != model
    shorter = dict.fromkeys(("y", "which", "design"), gains)
    shorter |= dict.fromkeys(("entropies_observed", "fixed_design", "own_design"), entropies)
    return {name: value[shorter[name]] if name in shorter else value for name, value in data.items()}


def left_out_entropies(data: Mapping[str, Any], own_spreads: Array, rest: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every entropy given all others, draws × cells, for draws of the three scales.

    z ~ N(0, V), V = r² I + U Λ Uᵀ: z_i | z_−i has mean z_i − (V⁻¹z)_i/(V⁻¹)_ii and variance 1/(V⁻¹)_ii.
    """
    U, z = np.column_stack([data["fixed_design"], data["own_design"]]), data["entropies_observed"]
    own = np.square(np.maximum(own_spreads, 1e-9) @ data["own_kind"].T)
    variance = np.concatenate([np.full((len(rest), 2), SLOPE_SD**2), own], axis=1)
    means, sds = np.empty((len(rest), z.size)), np.empty((len(rest), z.size))
    for k, r in enumerate(np.square(rest)):
        inner = np.linalg.solve(U.T @ U / r + np.diag(1 / variance[k]), U.T)
        diagonal = (1 - np.einsum("ij,ji->i", U, inner) / r) / r
        means[k] = z - (z - U @ (inner @ z) / r) / r / diagonal
        sds[k] = diagonal**-0.5
    return means, sds


def sum_zero(n: int, within: NDArray[np.int64] | None = None) -> Array:
    """Orthonormal columns that sum to zero, over all n or within each group: n × (n − groups)."""
    group = np.zeros(n, dtype=np.int64) if within is None else within
    same = (group[:, None] == group).astype(np.float64)
    basis, size, _ = np.linalg.svd(np.eye(n) - same / same.sum(axis=1))
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)


def _determined(y: Array, which: Array, design: Array, kind: Array) -> Array:
    """How far every kind of effect is sampled on its own scale rather than in units of its spread, 0 to 1.

    [1 − s² mean(diag (DᵀD)⁻¹) / mean(ê²)]², from the share of the squared effects that is not noise, 0 below
    0.8. It changes how the sampler moves, not the posterior.
    """
    both = np.concatenate([which, design], axis=1)
    inverse = np.linalg.pinv(both.T @ both)
    found = inverse @ both.T @ y
    noise = np.square(y - both @ found).sum() / max(y.size - np.linalg.matrix_rank(both), 1)
    size = np.square(found[which.shape[1] :]) @ kind
    error = noise * np.diag(inverse)[which.shape[1] :] @ kind
    share = np.square(np.clip(1 - error / np.maximum(size, 1e-300), 0.0, 1.0))
    return np.asarray(np.where(share < 0.8, 0.0, share))


def _stack(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Blocks side by side, and which block every column is of, columns × blocks."""
    kind = np.repeat(np.arange(len(parts)), [block.shape[1] for block in parts])
    return np.concatenate(parts, axis=1), (kind[:, None] == np.arange(len(parts))).astype(np.float64)
