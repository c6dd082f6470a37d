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
from thermostats.modelling.draws import Array, Draws, equal_tailed
from thermostats.modelling.fitted import Fitted, Part, replicates
from thermostats.modelling.within import within_correlation

SCALE = 0.5
"""Prior scale of log gains and of every spread: a factor 1.6."""
SLOPE_SD = 0.5
"""Prior scale of slopes of entropy on log gain, both in SDs within a model: a correlation, roughly."""
NU = 4.0
PUBLISHED_ORDER = (
    "EleutherAI/pythia-6.9b", "mistralai/Mistral-7B-v0.1", "meta-llama/Llama-3.1-8B", "google/gemma-7b",
)  # fmt: skip
PARTS = ("model", "category", "prompt", "model × category", "residual")


def benchmark_model(pm: Any, data: Mapping[str, Any]) -> None:
    """log g_mp = μ_m + κ_c(p) + π_p + ξ_m,c(p) + ε, ε ~ t_4(σ_m); effects centred to sum zero, spreads half-normal.

    Beside it, sharing nothing: entropy z_mp = β_m (x_mp − x̄_p) + B x̄_p + γ_p + e, β_m ~ N(b, s_b²), x the log gain,
    both standardised within models. b is the slope inside prompts, B that between prompts: whether prompts with high
    gain in every model have high entropy in every model.
    """
    m, p, c, category = data["n_models"], data["n_prompts"], data["n_categories"], data["category"]
    model, prompt = data["model"], data["prompt"]
    centre = pm.Normal("centre", 0.0, SCALE)
    model_sd = pm.HalfNormal("model_sd", SCALE)
    level = pm.Normal("level", centre, model_sd, shape=m)
    prompt_sd = pm.HalfNormal("prompt_sd", SCALE)
    prompt_z = pm.Normal("prompt_z", 0.0, 1.0, shape=p - 1)
    by_prompt = pm.Deterministic("by_prompt", prompt_sd * pm.math.dot(data["sum_zero_prompts"], prompt_z))
    fitted = level[model] + by_prompt[prompt]
    if c > 1:
        kinds_basis, models_basis = data["sum_zero_categories"], data["sum_zero_models"]
        category_sd, cross_sd = pm.HalfNormal("category_sd", SCALE), pm.HalfNormal("cross_sd", SCALE)
        category_z = pm.Normal("category_z", 0.0, 1.0, shape=c - 1)
        kinds = pm.Deterministic("by_category", category_sd * pm.math.dot(kinds_basis, category_z))
        cross_z = pm.Normal("cross_z", 0.0, 1.0, shape=(m - 1, c - 1))
        cross = pm.math.dot(pm.math.dot(models_basis, cross_z), kinds_basis.T)
        both = pm.Deterministic("by_model_category", cross_sd * cross)
        fitted = fitted + kinds[category[prompt]] + both[model, category[prompt]]
    log_sigma = pm.Normal("log_sigma", -2.5, 1.0, shape=m)
    sigma = pm.math.exp(log_sigma)
    pm.StudentT("gains", nu=NU, mu=fitted, sigma=sigma[model], observed=data["y"])
    if data["entropy"]:
        slope = pm.Normal("slope", 0.0, SLOPE_SD)
        slope_sd = pm.HalfNormal("slope_sd", SLOPE_SD)
        slopes = pm.Deterministic("slopes", slope + slope_sd * pm.Normal("slope_z", 0.0, 1.0, shape=m))
        between = pm.Normal("between", 0.0, SLOPE_SD)
        shared_sd = pm.HalfNormal("shared_sd", 1.0)
        shared_z = pm.Normal("shared_z", 0.0, 1.0, shape=p - 1)
        shared = shared_sd * pm.math.dot(data["sum_zero_prompts"], shared_z)
        rest = pm.HalfNormal("rest", 1.0)
        own, of = data["xz_model"], data["xz_prompt"]
        centre_z = slopes[own] * data["x_within"] + between * data["x_between"] + shared[of]
        pm.Normal("entropies", centre_z, rest, observed=data["z"])


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
    draws = sampling.fit(benchmark_model, data, seed=seed, cache=cache)
    level = draws.flat("level")
    at = [cells.models.index(name) for name in asked]
    shares = _shares(cells, draws)
    new = _new_prompts(cells, draws, seed)[:, at]
    quantities = {
        "gain": np.exp(draws["level"]),
        "prompt_sd": draws["prompt_sd"],
        **({name: draws[name] for name in ("category_sd", "cross_sd")} if len(cells.categories) > 1 else {}),
        "share": shares,
        **({name: draws[name] for name in ("slopes", "slope", "slope_sd", "between")} if has_entropy else {}),
    }
    probabilities = {
        "order": float((np.diff(level[:, at], axis=1) > 0).all(axis=1).mean()),
        "order on a new prompt": float((np.diff(new, axis=1) > 0).all(axis=1).mean()),
        **{f"dampens: {name}": float((level[:, i] < 0).mean()) for i, name in enumerate(cells.models)},
    }
    if has_entropy:
        probabilities |= {
            "slope > 0": float((draws.flat("slope") > 0).mean()),
            "between > 0": float((draws.flat("between") > 0).mean()),
            "slopes of one sign": float(np.maximum(
                (draws.flat("slopes") > 0).all(axis=1).mean(), (draws.flat("slopes") < 0).all(axis=1).mean())),
        }  # fmt: skip
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
                {"slopes": _slopes(cells, draws), "correlation": _correlation(table, cells, seed)}
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


def _data(cells: Crossed, has_entropy: bool) -> dict[str, Any]:
    data = {
        "y": cells.y,
        "model": cells.model,
        "prompt": cells.prompt,
        "category": cells.category,
        "n_models": len(cells.models),
        "n_prompts": len(cells.prompts),
        "n_categories": len(cells.categories),
        "entropy": has_entropy,
        "sum_zero_prompts": _sum_zero(len(cells.prompts)),
    }
    if len(cells.categories) > 1:
        data |= {
            "sum_zero_categories": _sum_zero(len(cells.categories)),
            "sum_zero_models": _sum_zero(len(cells.models)),
        }
    if has_entropy:
        mean = pd.Series(cells.x).groupby(cells.xz_prompt).transform("mean").to_numpy()
        data |= {"z": cells.z, "x_within": cells.x - mean, "x_between": mean, "xz_model": cells.xz_model,
                 "xz_prompt": cells.xz_prompt}  # fmt: skip
    return data


def _sum_zero(n: int) -> Array:
    """Orthonormal columns that sum to zero, n × (n − 1): effects Q z have the covariance I − 1/n."""
    return np.asarray(np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1], dtype=np.float64)


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


def _effects(cells: Crossed, draws: Draws) -> dict[str, Array]:
    """Contribution of every part to every cell, draws × cells."""
    kind, zero = cells.category[cells.prompt], np.zeros((1, 1))
    several = len(cells.categories) > 1
    parts = {
        "model": draws.flat("level")[:, cells.model],
        "category": draws.flat("by_category")[:, kind] if several else zero,
        "prompt": draws.flat("by_prompt")[:, cells.prompt],
        "model × category": draws.flat("by_model_category")[:, cells.model, kind] if several else zero,
    }
    return parts | {"residual": cells.y - sum(parts.values())}


def _shares(cells: Crossed, draws: Draws) -> Array:
    """Share of each part in the sum of the variances over the cells, chain × draw × part."""
    effects = _effects(cells, draws)
    size = draws.flat("level").shape[0]
    variance = np.column_stack([np.broadcast_to(effects[name].var(axis=1), size) for name in PARTS])
    share = variance / variance.sum(axis=1, keepdims=True)
    return np.asarray(share.reshape(*draws["prompt_sd"].shape, len(PARTS)))


def _new_prompts(cells: Crossed, draws: Draws, seed: int) -> Array:
    """Log gains of every model on a new prompt a draw, of one of these categories, less what all models share."""
    rng = np.random.default_rng(seed)
    level, sigma = draws.flat("level"), np.exp(draws.flat("log_sigma"))
    if len(cells.categories) > 1:
        kind = rng.integers(0, len(cells.categories), level.shape[0])
        level = level + draws.flat("by_model_category")[np.arange(level.shape[0]), :, kind]
    return np.asarray(level + sigma * rng.standard_t(NU, level.shape))


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


def _slopes(cells: Crossed, draws: Draws) -> pd.DataFrame:
    slopes = draws.flat("slopes")
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

    gains = Part(
        draws=draws,
        observed=cells.y,
        replicate=replicates(benchmark_model, data, draws, "gains"),
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
    replicate = replicates(benchmark_model, data, draws, "entropies")
    return {
        "gains": gains,
        "entropies": Part(draws=draws, observed=cells.z, replicate=replicate, statistics=statistics),
    }


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
