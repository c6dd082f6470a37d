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
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator
from thermostats.modelling.inference.draws import GIBBS, SEED, Array, Draws, Settings, equal_tailed
from thermostats.modelling.inference.fitted import Fitted, chances
from thermostats.modelling.inference.gibbs import Heavy, sample
from thermostats.modelling.inference.parts import Part, direct_part, spaced
from thermostats.modelling.inference.sensitivity import AT_ONCE, FACTORS, NORMAL, NU, SAME_SD, rescaled
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
from thermostats.plots.general import forest
from thermostats.plots.scales import log_axis

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

EQUATIONS = (
    "log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε_mp,  ε_mp ~ t₄(0, σ_m)",
    "μ_m ~ N(c, s_μ²),  log σ_m ~ N(ν, ω²)",
    "κ_c ~ N(0, s_κ²),  π_p ~ N(0, s_π²),  ξ_mc ~ N(0, s_ξ²);  κ and ξ sum to zero, π within each category",
)
PRIORS = (
    ("c", f"N(0, {CENTRE:g}²)", "all models alike may lengthen or shorten by a factor e"),
    ("s_μ", f"half-normal({SCALE:g})", "models that differ by a factor 1.6, or by nothing, are no surprise"),
    ("s_κ, s_π, s_ξ", f"half-normal({SHARE:.2f})", "together half of what models differ by, in equal parts"),
    ("ν", f"N({RESIDUAL:g}, {RESIDUAL_SD:g}²)", "residual scale of a middling model: 5%, and 1% to 20%"),
    ("ω", "log-normal(log 0.5, 0.5²)", "models differ in residual scale by a factor 1.6 or so"),
)
LONGER = Settings(draws=2000, tune=200, sampler=GIBBS)
"""Enough for the spreads of effects, which move most slowly."""
REFIT = Settings(draws=500, tune=150, sampler=GIBBS)
"""Of refits, which are asked for probabilities alone."""
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

    `table`: one row per model and prompt, as `crossed` takes it; `estimand` names the gain in `value`. `order`: models
    from low to high whose order is asked for; by default that of the means (which any table has, so that its
    probability is no test). Quantities: gain (exp μ by model), the spreads,
    share (finite-population: realised variance of each part over these cells), entropy slopes by model, slope (their
    mean) and between. Tables: `ranks` (P(rank) by model), `shares`, `slopes`,
    `correlation` (mean over models, prompts permuted: the classical counterpart).

    Raises UsageError as `crossed`, and for an order of models that are not there.
    """
    cells = crossed(table)
    model = heavy(cells)
    said = list(warnings_of(table, cells, "an order of models"))
    asked = _order(cells, order, said)
    draws = sampling.by_gibbs(sweeps, model, seed=seed, settings=settings, cache=cache)
    slopes = fit_slopes(table, estimand, seed=seed) if components(cells) is not None else None
    if slopes is None and "entropy" in table:
        said.append("no slopes of entropy: fewer than two models whose gain and entropy vary over 4 prompts or more")
    level = draws.flat("level")
    shown = _quantities(cells, model, draws.values)
    more = dict(zip(cells.models, np.moveaxis(draws["level"], -1, 0), strict=True))
    ordered: dict[str, Statement] = {"order": partial(in_order, asked)}
    fitted = Fitted(
        family="benchmark",
        **about(table, cells, estimand),
        parts={"gains": _gains(cells, model, draws)},
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
        left_out=partial(_left_out, table, cells) if len(cells.models) > 2 else None,
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
        said.append("no order was given, so that of the means is used, which is not a test")
        return [cells.models[i] for i in pd.Series(cells.y).groupby(cells.model).mean().sort_values().index]
    if len(order) < 2 or set(order) - set(cells.models) or len(set(order)) < len(order):
        raise UsageError("not an order of the models", got=", ".join(order), allowed=", ".join(cells.models))
    return list(order)


def _shares(cells: Crossed, model: Heavy, drawn: Mapping[str, Array]) -> Array:
    """Share of each part in the sum of the variances over the cells, chain × draw × part."""
    level, effects = drawn["level"][..., cells.model], drawn["effects"]
    parts = {"model": level}
    for name, design, own in _by_kind(cells, model):
        parts[name] = effects[..., own] @ design.T
    parts["residual"] = cells.y - sum(parts.values())
    none = np.zeros(level.shape[:2])
    variance = np.stack([parts[name].var(axis=-1) if name in parts else none for name in PARTS], axis=-1)
    return np.asarray(variance / variance.sum(axis=-1, keepdims=True))


def _by_kind(cells: Crossed, model: Heavy) -> Iterator[tuple[str, Array, NDArray[np.bool_]]]:
    """Every kind of effect: its name, its design, and which of the effects are of it."""
    first = 1 + len(cells.models)
    for name, own in zip(blocks(cells), model.kind[first - 1 :, 1:].T > 0, strict=True):
        yield name, model.U[:, first:][:, own], own


def _quantities(cells: Crossed, model: Heavy, drawn: Mapping[str, Array]) -> dict[str, Array]:
    found = {"gain": np.exp(drawn["level"])}
    found |= {f"{name}_sd": drawn["spreads"][..., i] for i, name in enumerate(blocks(cells))}
    return found | {"share": _shares(cells, model, drawn)}


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


def _gains(cells: Crossed, model: Heavy, draws: Draws) -> Part:
    """What the checks need."""

    def by(codes: NDArray[np.int64], y: Array) -> Array:
        return np.stack([y[..., codes == k].mean(axis=-1) for k in range(codes.max() + 1)])

    def joint(seed: int, size: int) -> tuple[dict[str, Array], Array]:
        drawn = from_prior(model, len(cells.models), np.random.default_rng(seed), size)
        truths = {name: drawn[name] for name in (*TOP, "level")}
        return truths, outcomes(cells, model, drawn, np.random.default_rng([seed, 1]))

    def again(y: Array, seed: int) -> Refit:
        return Refit(values=sweeps(replace(model, y=y), seed=seed, settings=SHORT))

    def log_prior() -> Array:
        sure = {name: (draws[name] - centre) / scale for name, (centre, scale) in priors.items()}
        sure["sigma_spread"] = np.log(draws["sigma_spread"] / SPREAD) / SPREAD_SD
        squares = (np.square(z).reshape(*z.shape[:2], -1).sum(axis=-1) for z in sure.values())
        return np.asarray(-0.5 * sum(squares) - np.log(draws["sigma_spread"]))

    chosen = spaced(draws)
    few = {name: draws.flat(name)[chosen] for name in ("level", "effects", "log_sigma")}
    priors = {
        "centre": (0.0, CENTRE),
        "apart": (0.0, SCALE),
        "spreads": (0.0, SHARE),
        "sigma_centre": (RESIDUAL, RESIDUAL_SD),
    }
    simulator = Simulator(joint=joint, posterior=again)
    part = direct_part(
        draws,
        observed=cells.y,
        of=cells.names(cells.model, cells.prompt),
        statistics={
            "share of dampeners": lambda y: (y < 0).mean(axis=-1),
            "spread of model means": lambda y: by(cells.model, y).std(axis=0),
            "spread of prompt means": lambda y: by(cells.prompt, y).std(axis=0),
        },
        alternatives=partial(log_ratios, cells, model, draws),
        priors=dict.fromkeys(TOP, (0.0, 1.0)) | priors,
        simulator=simulator,
        replicate=lambda seed: outcomes(cells, model, few, np.random.default_rng(seed)),
        density=lambda: stats.t.logpdf(cells.y, NU, *expected(cells, model, few)),
    )
    return replace(part, log_prior=log_prior)


def from_prior(model: Heavy, n_models: int, rng: np.random.Generator, size: int) -> dict[str, Array]:
    """Draws from the prior of what `sweeps` draws, each draws × …"""
    every = np.abs(rng.normal(0, model.scales, (size, model.scales.size)))
    centre, own = rng.normal(0, CENTRE, size), rng.normal(0, every @ model.kind.T)
    sigma_centre, sigma_spread = (
        rng.normal(RESIDUAL, RESIDUAL_SD, size),
        SPREAD * np.exp(rng.normal(0, SPREAD_SD, size)),
    )
    log_sigma = rng.normal(sigma_centre[:, None], sigma_spread[:, None], (size, n_models))
    return named_draws(
        {
            "fixed": centre[:, None],
            "own": own,
            "spreads": every,
            "log_sigma": log_sigma,
            "sigma_centre": sigma_centre,
            "sigma_spread": sigma_spread,
        },
        n_models,
    )


def expected(cells: Crossed, model: Heavy, drawn: Mapping[str, Array]) -> tuple[Array, Array]:
    """Expected log gain and residual scale of every cell, draws × cells."""
    mean = drawn["level"][:, cells.model] + drawn["effects"] @ model.U[:, 1 + len(cells.models) :].T
    return mean, np.exp(drawn["log_sigma"])[:, cells.model]


def outcomes(cells: Crossed, model: Heavy, drawn: Mapping[str, Array], rng: np.random.Generator) -> Array:
    """Log gains of every draw, draws × cells."""
    mean, scale = expected(cells, model, drawn)
    return np.asarray(mean + scale * rng.standard_t(NU, mean.shape))


def _left_out(table: pd.DataFrame, cells: Crossed, seed: int) -> Iterator[tuple[str, Quantities]]:
    """Exact refits without each model and each lab of several."""
    for number, (name, rest) in enumerate(without_each(table, cells.models)):
        if rest is not None:
            model = heavy(rest)
            drawn = sweeps(model, seed=seed + number, settings=REFIT)
            levels = np.moveaxis(drawn["level"], -1, 0)
            yield name, _quantities(rest, model, drawn) | dict(zip(rest.models, levels, strict=True))


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    forest(fitted.table("ranks"), axes, label="model_id", estimate="gain", null=1.0)
    log_axis(axes, "x")
    axes.set_xlabel(fitted.estimand.replace("_", " "))
    return axes


def heavy(cells: Crossed) -> Heavy:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects sum to zero, prompts within their category.

    The priors are on the unit of the data, the log of a ratio of norms, whose 0 is a gain of 1. Every model passes the
    same step of a transformer, so that their levels have a common mean: a step may lengthen or shorten all of them by a
    factor e or more (c), and the models lie around that by a factor 1.6 at most or so (s_μ), not around 1. What one
    prompt does to one model beyond all effects is small against them (0.25 in all): below 1% a gain of a prompt of a
    few tokens is not reproduced by a change of wording, above 20% it would outdo all effects of prompts, so that the
    middle of that, 5%, has two standard deviations of its logarithm to either side (ν).
    Columns of U: c, what every model's level is beyond it, and the effects, kind by kind.

    Raises UsageError for a design of more than `LARGEST` entries.
    """
    n_models, n_kinds = len(cells.models), len(cells.categories) - 1
    refuse_large(cells, cells.y.size, n_models * (1 + n_kinds) + len(cells.prompts))
    which = (cells.model[:, None] == np.arange(n_models)).astype(np.float64)
    effects = list(blocks(cells).values())
    own, kind = stack([which, *effects])
    return Heavy(
        y=cells.y,
        U=np.column_stack([np.ones(cells.y.size), own]),
        sd=np.array([CENTRE]),
        kind=kind,
        scales=np.array([SCALE, *[SHARE] * len(effects)]),
        group=cells.model,
        centre=(RESIDUAL, RESIDUAL_SD),
        spread=(SPREAD, SPREAD_SD),
    )


def sweeps(model: Heavy, *, seed: int, settings: Settings) -> dict[str, Array]:
    """Draws of centre (c), level (μ), apart (s_μ), effects, spreads (of their kinds), log_sigma, and ν and ω."""
    return named_draws(sample(model, seed=seed, settings=settings), int(model.group.max()) + 1)


def named_draws(drawn: Mapping[str, Array], n_models: int) -> dict[str, Array]:
    """Draws as `Heavy` has them by the names of this model."""
    own, spreads = drawn["own"], drawn["spreads"]
    return {
        "centre": drawn["fixed"][..., 0],
        "level": drawn["fixed"] + own[..., :n_models],
        "apart": spreads[..., 0],
        "effects": own[..., n_models:],
        "spreads": spreads[..., 1:],
        **{name: drawn[name] for name in ("log_sigma", "sigma_centre", "sigma_spread")},
    }


def log_ratios(cells: Crossed, model: Heavy, draws: Draws) -> dict[str, Array]:
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
    flat = {name: draws.flat(name) for name in ("level", "log_sigma", "effects")}
    normal = np.empty(len(flat["level"]))
    for at in np.array_split(np.arange(normal.size), -(-normal.size * cells.y.size // AT_ONCE)):
        mean, scale = expected(cells, model, {name: values[at] for name, values in flat.items()})
        e = (cells.y - mean) / scale
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
