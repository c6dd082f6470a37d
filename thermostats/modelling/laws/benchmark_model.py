"""The crossed model of `fit_benchmark`: what it says, what it takes, and its design of effects that sum to zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference.draws import Array, Draws
from thermostats.modelling.inference.sensitivity import FACTORS, NORMAL, NU, SAME_SD, rescaled
from thermostats.modelling.laws.cells import Crossed

CENTRE = 1.0
"""Prior scale of what all models have in common in log gain: a factor e either way."""
SCALE = 0.5
"""Prior scale of how far models lie apart, a factor 1.6."""
PROMPTS = SCALE / 2
"""Prior scale of what prompts do to one model, half of that; the spreads of the three kinds of effects share it."""
SHARE = PROMPTS / 3**0.5
RESIDUAL, RESIDUAL_SD = -3.0, 0.7
"""Prior of the log residual scale of a middling model."""
SPREAD, SPREAD_SD = 0.5, 0.5
"""Prior median of the spread of log residual scales over models, and the standard deviation of its logarithm."""
AT_ONCE = 4_000_000
"""Numbers of a table of draws × cells; of more, fewer draws at a time."""
LARGEST = 1_000_000
"""Entries of the design: about 85 models with 25 prompts in 5 categories."""

EQUATIONS = (
    "log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp,  ε_mp ~ t₄(0, σ_m)",
    "μ_m ~ N(c, s_μ²),  log σ_m ~ N(ν, ω²)",
    "κ_c ~ N(0, s_κ²),  π_p ~ N(0, s_π²),  ξ_mc ~ N(0, s_ξ²);  κ and ξ sum to zero, π within each category",
)
PRIORS = (
    ("c", f"N(0, {CENTRE:g}²)", "all models alike may lengthen or shorten by a factor e"),
    ("s_μ", f"half-normal({SCALE:g})", "models that differ by a factor 1.6, or by nothing, are no surprise"),
    ("s_κ, s_π, s_ξ", f"half-normal({SHARE:.2f})", "together half of what models differ by, in equal parts"),
    ("ν", f"N({RESIDUAL:g}, {RESIDUAL_SD:g}²)", "residual scale of a middling model: 5 %, and 1 % to 20 %"),
    ("ω", "log-normal(log 0.5, 0.5²)", "models differ in residual scale by a factor 1.6 or so"),
)


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects sum to zero, prompts within their category.

    The priors are on the unit of the data, the log of a ratio of norms, whose 0 is a gain of 1. Every model passes the
    same step of a transformer, so that their levels have a common mean: a step may lengthen or shorten all of them by a
    factor e or more (c), and the models lie around that by a factor 1.6 at most or so (s_μ), not around 1. What one
    prompt does to one model beyond all effects is small beside those (0.25 together): below 1 % a gain of a prompt of a
    few tokens is not reproduced by a change of wording, above 20 % it would outdo all effects of prompts, so that the
    middle of that, 5 %, has two standard deviations of its logarithm to either side (ν).
    Levels and log scales are centred on their distributions, since each rests on its model's own prompts.
    All effects are one vector that meets one design matrix: a graph that compiles in a third of the time of one
    variable for each kind. `factor` times all prior scales and `normal` errors of the same variance are alternatives.
    """
    n, f = data["n_models"], data.get("factor", 1.0)
    level = pm.Normal("level", pm.Normal("centre", 0.0, CENTRE * f), pm.HalfNormal("apart", SCALE * f), shape=n)
    sigma_centre = pm.Normal("sigma_centre", RESIDUAL, RESIDUAL_SD * f)
    sigma_spread = pm.LogNormal("sigma_spread", np.log(SPREAD), SPREAD_SD * f)
    log_sigma = pm.Normal("log_sigma", sigma_centre, sigma_spread, shape=n)
    spreads = pm.HalfNormal("spreads", SHARE * f, shape=data["n_spreads"])
    spread = pm.math.dot(data["kind"], spreads)
    z = pm.Normal("z", 0.0, spread ** data["centred"], shape=data["n_effects"])
    effects = pm.Deterministic("effects", z * spread ** (1 - data["centred"]))
    fitted = pm.math.dot(data["which"], level) + pm.math.dot(data["design"], effects)
    sigma = pm.math.exp(pm.math.dot(data["which"], log_sigma))
    if data.get("normal"):
        pm.Normal("gains", fitted, SAME_SD * sigma, observed=data["y"])
    else:
        pm.StudentT("gains", nu=NU, mu=fitted, sigma=sigma, observed=data["y"])


def log_ratios(cells: Crossed, data: Mapping[str, Any], draws: Draws) -> dict[str, Array]:
    """log(joint density under an alternative / under the model) of every draw, for importance weights."""
    log_spread = np.log(draws["sigma_spread"] / SPREAD)
    tops = (
        (draws["centre"], CENTRE),
        (draws["apart"], SCALE),
        (draws["sigma_centre"] - RESIDUAL, RESIDUAL_SD),
        (log_spread, SPREAD_SD),
        (draws["spreads"], SHARE),
    )
    found = {name: np.asarray(sum(rescaled(x, scale, f) for x, scale in tops)) for name, f in FACTORS.items()}
    level, log_sigma, effects = (draws.flat(name) for name in ("level", "log_sigma", "effects"))
    normal = np.empty(len(level))
    for at in np.array_split(np.arange(len(level)), -(-len(level) * cells.y.size // AT_ONCE)):
        fitted = level[at][:, cells.model] + effects[at] @ data["design"].T
        e = (cells.y - fitted) / np.exp(log_sigma[at][:, cells.model])
        normal[at] = (stats.norm.logpdf(e, scale=SAME_SD) - stats.t.logpdf(e, NU)).sum(axis=1)
    return found | {NORMAL: normal}


def blocks(cells: Crossed) -> dict[str, Array]:
    """Design of every kind of effect there is, cells × effects, each summing to zero over what it belongs to."""
    m, c = (sum_zero(len(names)) for names in (cells.models, cells.categories))
    p = sum_zero(len(cells.prompts), cells.category)
    kind = cells.category[cells.prompt]
    cross = (m[cells.model][:, :, None] * c[kind][:, None, :]).reshape(cells.y.size, -1)
    found = {"prompt": p[cells.prompt], "category": c[kind], "model × category": cross}
    return {name: block for name, block in found.items() if block.shape[1]}


def arrays(cells: Crossed) -> dict[str, Any]:
    """What `benchmark_model` takes.

    Raises UsageError for a design of more than `LARGEST` entries.
    """
    n_models, n_kinds = len(cells.models), len(cells.categories) - 1
    columns = n_models * (1 + n_kinds) + len(cells.prompts)
    refuse_large(cells, cells.y.size, columns)
    which = (cells.model[:, None] == np.arange(n_models)).astype(np.float64)
    data = {"y": cells.y, "n_models": n_models, "which": which}
    design, kind = stack(list(blocks(cells).values()))
    data |= {"design": design, "kind": kind, "n_effects": kind.shape[0], "n_spreads": kind.shape[1]}
    return data | {"centred": centred(data, cells.y)}


def centred(data: Mapping[str, Any], y: Array) -> Array:
    """How far every effect is sampled on its own scale where these are the outcomes."""
    return np.asarray(data["kind"] @ _determined(y, data["which"], data["design"], data["kind"]))


def refuse_large(cells: Crossed, rows: int, columns: int) -> None:
    """Raise UsageError for a design of more than `LARGEST` entries."""
    if rows * columns > LARGEST:
        raise UsageError(
            "too many models and prompts to compare one by one",
            got=f"{len(cells.models)} models × {len(cells.prompts)} prompts",
            allowed=f"a design of at most {LARGEST} entries, here {rows} × {columns}",
            next_step="choose models, such as those of one claim",
        )


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


def stack(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Blocks side by side, and which block every column is of, columns × blocks."""
    kind = np.repeat(np.arange(len(parts)), [block.shape[1] for block in parts])
    return np.concatenate(parts, axis=1), (kind[:, None] == np.arange(len(parts))).astype(np.float64)
