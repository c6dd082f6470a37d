"""log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp, μ_m ~ N(c, s_μ²), ε_mp ~ t₄(0, σ_m): how do models rank?

Models m × prompts p in categories c: which order of models, and how much of the gain is prompt. Whether entropy goes
with it inside models stands in `entropy_slopes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, by_sampling
from thermostats.modelling.inference.draws import SEED, Array, Draws, Settings, equal_tailed
from thermostats.modelling.inference.fitted import Fitted, chances
from thermostats.modelling.inference.parts import Part, sampled_part
from thermostats.modelling.inference.sensitivity import FACTORS, NORMAL, NU, SAME_SD, rescaled
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.crossed_table import (
    Crossed,
    about,
    crossed,
    refuse_large,
    stack,
    sum_zero,
    warnings_of,
    without_each,
)
from thermostats.modelling.laws.entropy_slopes import components, fit_slopes

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
LONGER = Settings(draws=3000, target_accept=0.98)
"""With four models the spread of models by category mixes slowly."""
REFIT = Settings(draws=1500, tune=750, target_accept=0.95)
"""Enough for the slowest spread to pass the gate at the first attempt."""
TOP = ("centre", "apart", "sigma_centre", "sigma_spread", "spreads")
"""Quantities that no other depends on."""
PARTS = ("model", "category", "prompt", "model × category", "residual")


def fit_benchmark(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int = SEED,
    settings: Settings = LONGER,
    cache: bool = True,
) -> Fitted:
    """Posterior ranks of the models, P(order), shares of the variance, and slopes of entropy on log gain.

    `table`: one row a model and prompt, as `crossed` takes it; `estimand` names the gain in `value`. `order`: models
    from low to high whose order is asked for; by default that of the means (which any table has, so that its
    probability is no test). Quantities: gain (exp μ by model), the spreads,
    share (finite-population: realised variance of each part over these cells), entropy slopes by model, slope (their
    mean) and between. Tables: `ranks` (P(rank) by model), `shares`, `slopes`,
    `correlation` (mean over models, prompts permuted: the classical counterpart).

    Raises UsageError as `crossed`, and for an order of models that are not there.
    """
    cells = crossed(table)
    data = arrays(cells)
    said = list(warnings_of(table, cells, "an order of models"))
    asked = _order(cells, order, said)
    draws = sampling.fit(benchmark_model, data, seed=seed, settings=settings, cache=cache)
    slopes = fit_slopes(table, estimand, seed=seed) if components(cells) is not None else None
    if slopes is None and "entropy" in table:
        said.append("no slopes of entropy: fewer than two models whose gain and entropy vary over 4 prompts or more")
    level = draws.flat("level")
    shown = _quantities(cells, data, draws)
    more = dict(zip(cells.models, np.moveaxis(draws["level"], -1, 0), strict=True))
    ordered: dict[str, Statement] = {"order": partial(in_order, asked)}
    fitted = Fitted(
        family="benchmark",
        **about(table, cells, estimand),
        parts={"gains": _gains(cells, data, draws)},
        quantities=shown,
        more=more,
        statements=ordered,
        probabilities={
            **chances(ordered, more),
            **{f"dampens: {name}": float((level[:, i] < 0).mean()) for i, name in enumerate(cells.models)},
        },
        numbers={"n_categories": float(len(cells.categories)), "n_prompts": float(len(cells.prompts))},
        tables={
            "ranks": _ranks(cells, level),
            "shares": _by_part(shown["share"].reshape(-1, len(PARTS))),
            "order": pd.DataFrame({"rank": np.arange(1, len(asked) + 1), "model_id": asked}),
        },
        warnings=tuple(said),
        figure=_figure,
        left_out=partial(_left_out, table, cells, cache) if len(cells.models) > 2 else None,
        seed=seed,
        equations=EQUATIONS,
        priors=PRIORS,
        labels={**dict.fromkeys(("gain", "slopes", "level", "log_sigma"), cells.models), "share": PARTS},
    )
    return _with_slopes(fitted, slopes) if slopes else fitted


def _with_slopes(gains: Fitted, slopes: Fitted) -> Fitted:
    """Both fits of the same rows as one."""
    both: dict[str, Any] = {
        name: {**getattr(gains, name), **getattr(slopes, name)}
        for name in ("parts", "quantities", "statements", "probabilities", "numbers")
    }
    return replace(
        gains,
        **both,
        tables={**slopes.tables, **gains.tables},
        exact=tuple(slopes.quantities),
        alternatives=slopes.alternatives,
        left_out=partial(_both_left_out, gains, slopes) if gains.left_out else None,
        equations=gains.equations + slopes.equations,
        priors=gains.priors + slopes.priors,
    )


def _both_left_out(gains: Fitted, slopes: Fitted, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Both without the same model or lab; where the entropies without it tell no slope, the gains alone."""
    own = dict(slopes.left_out(seed)) if slopes.left_out else {}
    for name, drawn in gains.left_out(seed) if gains.left_out else ():
        yield name, {**drawn, **own.get(name, {})}


def _order(cells: Crossed, order: Sequence[str] | None, said: list[str]) -> list[str]:
    """Models from low to high."""
    if order is None:
        said.append("no order was asked for: that of the means is taken, which is no test")
        return [cells.models[i] for i in pd.Series(cells.y).groupby(cells.model).mean().sort_values().index]
    if len(order) < 2 or set(order) - set(cells.models) or len(set(order)) < len(order):
        raise UsageError("not an order of the models", got=", ".join(order), allowed=", ".join(cells.models))
    return list(order)


def _shares(cells: Crossed, data: Mapping[str, Any], draws: Draws) -> Array:
    """Share of each part in the sum of the variances over the cells, chain × draw × part."""
    level, effects = draws.flat("level"), draws.flat("effects")
    parts = {"model": level[:, cells.model]}
    for k, name in enumerate(blocks(cells)):
        own = data["kind"][:, k] > 0
        parts[name] = effects[:, own] @ data["design"][:, own].T
    parts["residual"] = cells.y - sum(parts.values())
    none = np.zeros(len(level))
    variance = np.column_stack([parts[name].var(axis=1) if name in parts else none for name in PARTS])
    share = variance / variance.sum(axis=1, keepdims=True)
    return np.asarray(share.reshape(*draws["level"].shape[:2], len(PARTS)))


def _quantities(cells: Crossed, data: Mapping[str, Any], draws: Draws) -> dict[str, Array]:
    found = {"gain": np.exp(draws["level"])}
    found |= {f"{name}_sd": draws["spreads"][..., i] for i, name in enumerate(blocks(cells))}
    return found | {"share": _shares(cells, data, draws)}


def in_order(models: Sequence[str], drawn: Quantities) -> NDArray[np.bool_]:
    """Whether models rise from the first to the last, of those there are."""
    present = [name for name in models if name in drawn]
    if len(present) < 2:
        raise KeyError("an order needs two models")
    level = np.stack([drawn[name] for name in present], axis=-1)
    return np.asarray((np.diff(level, axis=-1) > 0).all(axis=-1))


def _ranks(cells: Crossed, level: Array) -> pd.DataFrame:
    ranks = level.argsort(axis=1).argsort(axis=1) + 1
    lower, upper = equal_tailed(np.exp(level))
    table = pd.DataFrame(
        {
            "model_id": cells.models,
            "gain": np.exp(np.median(level, axis=0)),
            "lower": lower,
            "upper": upper,
            "mean_rank": ranks.mean(axis=0),
        }
    )
    for k in range(1, len(cells.models) + 1):
        table[f"p_rank_{k}"] = (ranks == k).mean(axis=0)
    return table.sort_values("mean_rank", ignore_index=True)


def _by_part(shares: Array) -> pd.DataFrame:
    lower, upper = equal_tailed(shares)
    return pd.DataFrame({"part": PARTS, "share": shares.mean(axis=0), "lower": lower, "upper": upper})


def _gains(cells: Crossed, data: Mapping[str, Any], draws: Draws) -> Part:
    def by(codes: NDArray[np.int64], y: Array) -> Array:
        return np.stack([y[..., codes == k].mean(axis=-1) for k in range(codes.max() + 1)])

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        drawn = sampling.prior_predictive(benchmark_model, data, seed=seed, draws=size)
        return {name: drawn[name] for name in (*TOP, "level")}, drawn["gains"]

    return sampled_part(
        benchmark_model,
        data,
        draws,
        "gains",
        observed=cells.y,
        of=cells.names(cells.model, cells.prompt),
        top=TOP,
        statistics={
            "share of dampeners": lambda y: (y < 0).mean(axis=-1),
            "spread of model means": lambda y: by(cells.model, y).std(axis=0),
            "spread of prompt means": lambda y: by(cells.prompt, y).std(axis=0),
        },
        alternatives=partial(log_ratios, cells, data, draws),
        simulator=by_sampling(
            benchmark_model,
            data,
            joint,
            lambda y: {"y": y, "centred": centred(data, y)},
            settings=replace(SHORT, target_accept=draws.settings.target_accept),
        ),
    )


def _left_out(table: pd.DataFrame, cells: Crossed, cache: bool, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each model and each lab of several."""
    for number, (name, rest) in enumerate(without_each(table, cells.models)):
        if rest is not None:
            data = arrays(rest)
            draws = sampling.fit(benchmark_model, data, seed=seed + number, settings=REFIT, cache=cache)
            levels = np.moveaxis(draws["level"], -1, 0)
            yield name, _quantities(rest, data, draws) | dict(zip(rest.models, levels, strict=True))


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("ranks")
    rows = np.arange(len(shown))
    axes.hlines(rows, shown["lower"], shown["upper"], linewidth=3, alpha=0.5)
    axes.plot(shown["gain"], rows, "o")
    axes.axvline(1, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(rows, [str(name) for name in shown["model_id"]])
    axes.set_xlabel(fitted.estimand.replace("_", " "))
    return axes


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects sum to zero, prompts within their category.

    The priors are on the unit of the data, the log of a ratio of norms, whose 0 is a gain of 1. Every model passes the
    same step of a transformer, so that their levels have a common mean: a step may lengthen or shorten all of them by a
    factor e or more (c), and the models lie around that by a factor 1.6 at most or so (s_μ), not around 1. What one
    prompt does to one model beyond all effects is small against them (0.25 in all): below 1 % a gain of a prompt of a
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
    """How far every effect is sampled on its own scale rather than in units of its spread, 0 to 1, for outcomes y.

    By kind of effect [1 − s² mean(diag (DᵀD)⁻¹) / mean(ê²)]², from the share of the squared effects that is not noise,
    0 below 0.8. It changes how the sampler moves, not the posterior.
    """
    kind, first = data["kind"], data["n_models"]
    both = np.concatenate([data["which"], data["design"]], axis=1)
    inverse = np.linalg.pinv(both.T @ both)
    found = inverse @ both.T @ y
    noise = np.square(y - both @ found).sum() / max(y.size - np.linalg.matrix_rank(both), 1)
    size = np.square(found[first:]) @ kind
    error = noise * np.diag(inverse)[first:] @ kind
    share = np.square(np.clip(1 - error / np.maximum(size, 1e-300), 0.0, 1.0))
    return np.asarray(kind @ np.where(share < 0.8, 0.0, share))
