"""Models × prompts × categories: which order of models, how much of the gain is prompt, and does entropy go with it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.cells import Crossed, crossed
from thermostats.modelling.draws import Array, Draws, Settings, equal_tailed
from thermostats.modelling.fitted import Fitted, Part, sampled_part
from thermostats.modelling.within import within_correlation

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; the spreads of the effects share it, 0.5/√3 each."""
SHARE = SCALE / 3**0.5
LONGER = Settings(draws=3000, target_accept=0.98)
"""With four models the spread of models by category mixes slowly."""
SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation, roughly."""
NU = 4.0
PUBLISHED_ORDER = (
    "EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b",
)  # fmt: skip
PARTS = ("model", "category", "prompt", "model × category", "residual")


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects sum to zero, prompts within their category.

    Beside it, sharing nothing: entropy z_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e, β_m ~ N(b, s_b²), x the log gain,
    both standardised within models. b is the slope inside prompts, B that between prompts: whether prompts with high
    gain in every model have high entropy in every model. All effects of an outcome are one vector that meets one
    design matrix: a graph that compiles in a third of the time of one variable for each kind.
    """
    level = pm.Normal("level", 0.0, SCALE, shape=data["n_models"])
    log_sigma = pm.Normal("log_sigma", -2.5, 1.0, shape=data["n_models"])
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


def fit_benchmark(
    table: pd.DataFrame,
    estimand: str = "last_gain",
    *,
    order: Sequence[str] | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """Posterior ranks of the models, P(order), shares of the variance, and slopes of entropy on log gain.

    `table`: one row a model and prompt, as `crossed` takes it; `estimand` names the gain in `value`. `order`: models
    from low to high whose order is asked for; by default the study's four where they are all there, else the order of
    the means (which any table has, so that its probability is no test). Quantities: gain (exp μ by model), the spreads,
    share (finite-population: realised variance of each part over these cells), entropy slopes by model, slope (their
    mean) and between. Tables: `ranks` (P(rank) by model), `shares`, `slopes`,
    `correlation` (mean over models, prompts permuted: the classical counterpart).

    Raises UsageError as `crossed`, and for an order of models that are not there.
    """
    cells = crossed(table)
    has_entropy = len(set(cells.xz_model.tolist())) >= 2
    data = _data(cells, has_entropy)
    said = list(cells.warnings)
    asked, said_order = _order(cells, order)
    said += said_order
    draws = sampling.fit(benchmark_model, data, seed=seed, settings=LONGER, cache=cache)
    level = draws.flat("level")
    at = [cells.models.index(name) for name in asked]
    shares = _shares(cells, data, draws)
    new = _new_prompts(cells, data, draws, seed)[:, at]
    spreads = {f"{name}_sd": draws["spreads"][..., i] for i, name in enumerate(_kinds(cells))}
    slopes = _slope_quantities(cells, draws) if has_entropy else {}
    quantities = {"gain": np.exp(draws["level"]), **spreads, "share": shares, **slopes}
    probabilities = {
        "order": float((np.diff(level[:, at], axis=1) > 0).all(axis=1).mean()),
        "order on a new prompt": float((np.diff(new, axis=1) > 0).all(axis=1).mean()),
        **{f"dampens: {name}": float((level[:, i] < 0).mean()) for i, name in enumerate(cells.models)},
    }
    if has_entropy:
        positive = slopes["slopes"] > 0
        probabilities |= {
            "slope > 0": float((slopes["slope"] > 0).mean()),
            "between > 0": float((slopes["between"] > 0).mean()),
            "slopes of one sign": float(max(positive.all(axis=-1).mean(), (~positive).all(axis=-1).mean())),
        }
    return Fitted(
        family="benchmark",
        estimand=estimand,
        sources=tuple(sorted(set(table["source"]))) if "source" in table else (),
        n_models=len(cells.models),
        n_heritages=table["heritage"].nunique() if "heritage" in table else 0,
        parts=_parts(cells, data, draws, has_entropy),
        quantities=quantities,
        probabilities=probabilities,
        numbers={"n_prompts": float(len(cells.prompts)), "n_categories": float(len(cells.categories))},
        tables={
            "ranks": _ranks(cells, level),
            "shares": _by_part(shares.reshape(-1, len(PARTS))),
            **(
                {"slopes": _slopes(cells, slopes["slopes"]), "correlation": _correlation(table, cells, seed)}
                if has_entropy
                else {}
            ),
            "order": pd.DataFrame({"rank": np.arange(1, len(asked) + 1), "model_id": asked}),
        },
        warnings=tuple(said),
        figure=_figure,
        seed=seed,
        labels={"gain": cells.models, "slopes": cells.models, "share": PARTS},
    )


def _kinds(cells: Crossed) -> tuple[str, ...]:
    return ("prompt", "category", "model × category") if len(cells.categories) > 1 else ("prompt",)


def _blocks(cells: Crossed) -> dict[str, Array]:
    """Design of every kind of effect, cells × effects, each summing to zero over what it belongs to."""
    m, c = (_sum_zero(len(names)) for names in (cells.models, cells.categories))
    p = _sum_zero(len(cells.prompts), cells.category)
    kind = cells.category[cells.prompt]
    cross = (m[cells.model][:, :, None] * c[kind][:, None, :]).reshape(cells.y.size, -1)
    return dict(zip(_kinds(cells), (p[cells.prompt], c[kind], cross), strict=False))


def _data(cells: Crossed, has_entropy: bool) -> dict[str, Any]:
    which = (cells.model[:, None] == np.arange(len(cells.models))).astype(np.float64)
    data = {"y": cells.y, "n_models": len(cells.models), "which": which, "entropy": has_entropy}
    design, kind = _stack(list(_blocks(cells).values()))
    data |= {"design": design, "kind": kind, "n_effects": kind.shape[0], "n_spreads": kind.shape[1]}
    data |= {"centred": kind @ _determined(cells.y, which, design, kind)}
    if not has_entropy:
        return data
    mean = pd.Series(cells.x).groupby(cells.xz_prompt).transform("mean").to_numpy()
    within = cells.x - mean
    by_model = within[:, None] * (cells.xz_model[:, None] == np.arange(len(cells.models)))
    own, own_kind = _stack([by_model, _sum_zero(len(cells.prompts))[cells.xz_prompt]])
    return data | {
        "entropies_observed": cells.z,
        "fixed_design": np.column_stack([within, mean]),
        "own_design": own,
        "own_kind": own_kind,
        "n_own": own_kind.shape[0],
        "half_for_slopes": np.array([0.5, 1.0]),
    }


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


def _stack(blocks: Sequence[Array]) -> tuple[Array, Array]:
    """Blocks side by side, and which block every column is of, columns × blocks."""
    kind = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
    return np.concatenate(blocks, axis=1), (kind[:, None] == np.arange(len(blocks))).astype(np.float64)


def _sum_zero(n: int, within: NDArray[np.int64] | None = None) -> Array:
    """Orthonormal columns that sum to zero, over all n or within each group: n × (n − groups)."""
    group = np.zeros(n, dtype=np.int64) if within is None else within
    same = (group[:, None] == group).astype(np.float64)
    basis, size, _ = np.linalg.svd(np.eye(n) - same / same.sum(axis=1))
    return np.asarray(basis[:, size > 0.5], dtype=np.float64)


def _order(cells: Crossed, order: Sequence[str] | None) -> tuple[list[str], list[str]]:
    if order is not None:
        if len(order) < 2 or set(order) - set(cells.models) or len(set(order)) < len(order):
            raise UsageError("not an order of the models", got=", ".join(order), allowed=", ".join(cells.models))
        return list(order), []
    if set(PUBLISHED_ORDER) <= set(cells.models):
        return list(PUBLISHED_ORDER), []
    means = pd.Series(cells.y).groupby(cells.model).mean().sort_values()
    return [cells.models[i] for i in means.index], [
        "no order was asked for: that of the means is taken, which is no test"
    ]


def _shares(cells: Crossed, data: Mapping[str, Any], draws: Draws) -> Array:
    """Share of each part in the sum of the variances over the cells, chain × draw × part."""
    level, effects = draws.flat("level"), draws.flat("effects")
    parts = {"model": level[:, cells.model]}
    for k, name in enumerate(_kinds(cells)):
        own = data["kind"][:, k] > 0
        parts[name] = effects[:, own] @ data["design"][:, own].T
    parts["residual"] = cells.y - sum(parts.values())
    none = np.zeros(len(level))
    variance = np.column_stack([parts[name].var(axis=1) if name in parts else none for name in PARTS])
    share = variance / variance.sum(axis=1, keepdims=True)
    return np.asarray(share.reshape(*draws["level"].shape[:2], len(PARTS)))


def _new_prompts(cells: Crossed, data: Mapping[str, Any], draws: Draws, seed: int) -> Array:
    """Log gains of every model on a new prompt a draw, of one of these categories, less what all models share."""
    rng = np.random.default_rng(seed)
    level, sigma = draws.flat("level"), np.exp(draws.flat("log_sigma"))
    if len(cells.categories) > 1:
        n, c = len(level), _sum_zero(len(cells.categories))
        z = draws.flat("effects")[:, data["kind"][:, 2] > 0].reshape(n, len(cells.models) - 1, -1)
        kind = c[rng.integers(0, len(cells.categories), n)]
        level = level + np.einsum("nij,nj->ni", z, kind) @ _sum_zero(len(cells.models)).T
    return np.asarray(level + sigma * rng.standard_t(NU, level.shape))


def _slope_quantities(cells: Crossed, draws: Draws) -> dict[str, Array]:
    slope = draws["fixed"][..., 0]
    return {
        "slopes": slope[..., None] + draws["own"][..., : len(cells.models)],
        "slope": slope,
        "slope_sd": draws["own_spreads"][..., 0],
        "between": draws["fixed"][..., 1],
    }


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


def _slopes(cells: Crossed, slopes: Array) -> pd.DataFrame:
    slopes = slopes.reshape(-1, len(cells.models))
    lower, upper = equal_tailed(slopes)
    by_model = pd.DataFrame({"m": cells.xz_model, "x": cells.x, "z": cells.z}).groupby("m")
    alone = {m: float((own["x"] * own["z"]).mean()) for m, own in by_model}
    n = {m: len(own) for m, own in by_model}
    return pd.DataFrame(
        {
            "model_id": cells.models,
            "slope": slopes.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "p_positive": (slopes > 0).mean(axis=0),
            "correlation_alone": [alone.get(i, np.nan) for i in range(len(cells.models))],
            "n_prompts": [n.get(i, 0) for i in range(len(cells.models))],
        }
    )


def _correlation(table: pd.DataFrame, cells: Crossed, seed: int) -> pd.DataFrame:
    """The classical counterpart over the prompts that every model answered: mean correlation, prompts permuted."""
    known = table[table["entropy"].notna() & table["model_id"].isin([cells.models[m] for m in set(cells.xz_model)])]
    wide = known.pivot(index="prompt_id", columns="model_id", values=["value", "entropy"]).dropna()
    if len(wide) < 4:
        return pd.DataFrame(columns=["estimate", "lower", "upper", "p_value"])
    found = within_correlation(np.log(wide["value"]), wide["entropy"], method="pearson", seed=seed)
    fields = ("estimate", "lower", "upper", "level", "interval", "p_value", "n", "n_models")
    return pd.DataFrame([{name: getattr(found, name) for name in fields}])


def _parts(cells: Crossed, data: Mapping[str, Any], draws: Draws, has_entropy: bool) -> dict[str, Part]:
    def by(codes: NDArray[np.int64], y: Array) -> Array:
        return np.stack([y[..., codes == k].mean(axis=-1) for k in range(codes.max() + 1)])

    gains = sampled_part(
        benchmark_model,
        data,
        draws,
        "gains",
        observed=cells.y,
        top=("spreads",),
        decisive={f"{name}_sd": draws["spreads"][..., i] for i, name in enumerate(_kinds(cells))},
        statistics={
            "share of dampeners": lambda y: (y < 0).mean(axis=-1),
            "spread of model means": lambda y: by(cells.model, y).std(axis=0),
            "spread of prompt means": lambda y: by(cells.prompt, y).std(axis=0),
            "largest": lambda y: y.max(axis=-1),
            "smallest": lambda y: y.min(axis=-1),
        },
    )
    if not has_entropy:
        return {"gains": gains}
    statistics = {
        "correlation with gain": lambda z: (z * cells.x).mean(axis=-1),
        "spread": lambda z: z.std(axis=-1),
    }
    entropies = sampled_part(
        benchmark_model,
        data,
        draws,
        "entropies",
        observed=cells.z,
        top=("fixed", "own_spreads", "rest"),
        statistics=statistics,
        decisive={"slope > 0": draws["fixed"][..., 0] > 0, "between > 0": draws["fixed"][..., 1] > 0},
    )
    return {"gains": gains, "entropies": entropies}


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
