"""Does the largest gain fall with depth as log10 G_max = k L^(−β), and does k = β = 1 bound it?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.modelling import sampling
from thermostats.modelling.bounds import probability_above, quantile_power_law, share_above, share_of_models
from thermostats.modelling.draws import LEVEL, Array, Draws, equal_tailed
from thermostats.modelling.estimates import numbers
from thermostats.modelling.fitted import Fitted, sampled_part
from thermostats.modelling.model_rows import ModelRows, lines, model_rows, standardised
from thermostats.modelling.rivals import Rival, compare, mixture, model_folds, rival

SCALE = 0.3
"""Prior scale of log10 gains and their spread: a factor of two."""
BETA = (0.5, 1.0)
"""Normal prior of β: no dependence (0) and the claim (1) are equally likely beforehand."""
NOISE = 0.05
PARTS = {
    "curve": ("around", ("middle", "beta", "sigma")),
    "frontier": ("under", ("frontier_middle", "frontier_beta", "below", "noise")),
}
"""Name of the outcome and of its quantities in `power_laws_model`."""
RIVALS = {"depth": "n_layers", "density": "rho", "scale": "n_params_nonembedding"}
"""Columns whose logarithm is a rival explanation."""


def power_laws_model(pm: Any, data: Mapping[str, Any]) -> None:
    """Two models of the same gains side by side, which share no quantity, so that one compilation serves both.

    Around, a curve through the middle: log10 g_i ~ N(m (L_i/L₀)^(−β), σ² + error_i²).
    Under, an envelope: log10 g_i = m (L_i/L₀)^(−β) − u_i + v_i, u ~ half-normal(σ_u), v ~ N(0, σ_v² + error_i²): a
    stochastic frontier (Aigner, Lovell and Schmidt 1977, doi:10.1016/0304-4076(77)90052-5), u summed out: with
    s² = σ_u² + v² and λ = σ_u/v the density of e = y − frontier is (2/s) φ(e/s) Φ(−e λ/s).
    """
    middle = pm.Normal("middle", 0.0, SCALE)
    beta = pm.Normal("beta", *BETA)
    sigma = pm.HalfNormal("sigma", SCALE)
    centre = middle * pm.math.exp(-beta * data["log_depth"])
    pm.Normal("around", centre, pm.math.sqrt(sigma**2 + data["error"] ** 2), observed=data["y"])

    top_middle = pm.HalfNormal("frontier_middle", SCALE)
    top_beta = pm.Normal("frontier_beta", *BETA)
    below = pm.HalfNormal("below", SCALE)
    noise = pm.HalfNormal("noise", NOISE)
    top = top_middle * pm.math.exp(-top_beta * data["log_depth"])

    def log_density(value: Any, mu: Any, down: Any, either: Any) -> Any:
        spread = pm.math.sqrt(down**2 + either**2)
        tilt = -(value - mu) * down / (either * spread)
        return math.log(2) + pm.logp(pm.Normal.dist(mu, spread), value) + pm.logcdf(pm.Normal.dist(0.0, 1.0), tilt)

    def draw(mu: Any, down: Any, either: Any, rng: Any = None, size: Any = None) -> Any:
        return mu - np.abs(rng.normal(0.0, down, size)) + rng.normal(0.0, either, size)

    either = pm.math.sqrt(noise**2 + data["error"] ** 2)
    pm.CustomDist("under", top, below, either, logp=log_density, random=draw, observed=data["y_under"])


def fit_kleiber(
    table: pd.DataFrame,
    estimand: str = "max_gain_to_penultimate",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """Exponent and constant of log10 G = k L^(−β), the envelope twice, who lies above 10^(1/L), and rivals of depth.

    `table`: rows of `features`; the rest as in `model_rows`. Quantities: k, beta, sigma of the curve in the middle;
    frontier_k, frontier_beta, below (σ_u), noise (σ_v) of the envelope. Tables: `models` (P(above) with each model's
    error of measurement), `quantiles` (the envelope by quantile regression), `rivals` (exact leave one model out and
    leave one lab out; `published` is k = β = 1 through the middle with its spread free).

    Raises UsageError for fewer than 4 models, one depth only, or a gain not above 0.
    """
    rows = model_rows(table, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts, least=4)
    frame, said = rows.table, list(rows.warnings)
    L = numbers(frame["n_layers"].astype("float64"), "n_layers", positive=True, varied=True)
    y, error = frame["log_gain"].to_numpy() / math.log(10), frame["error"].to_numpy() / math.log(10)
    reference = float(np.exp(np.log(L).mean()))
    data = {"y": y, "y_under": y.copy(), "error": error, "log_depth": np.log(L / reference)}
    draws = sampling.fit(power_laws_model, data, seed=seed, cache=cache)
    models = _models(frame, y, error, L)
    if not (y > 0).any():
        said.append("no gain is above 1: no envelope of the claimed form, and no quantile lines")
    above = models["p_above"].to_numpy()
    mean, low, high = share_above(above)
    all_mean, all_low, all_high = share_of_models(int((y > 1 / L).sum()), y.size)
    quantities = {
        "k": draws["middle"] * reference ** draws["beta"],
        "beta": draws["beta"],
        "sigma": draws["sigma"],
        "frontier_k": draws["frontier_middle"] * reference ** draws["frontier_beta"],
        "frontier_beta": draws["frontier_beta"],
        "below": draws["below"],
        "noise": draws["noise"],
        "frontier_over_bound": draws["frontier_middle"] * reference,
    }
    return Fitted(
        family="kleiber",
        estimand=estimand,
        sources=rows.sources,
        n_models=y.size,
        n_heritages=frame["heritage"].nunique(),
        parts={
            name: sampled_part(
                power_laws_model,
                data,
                draws,
                outcome,
                observed=y,
                top=top,
                statistics=_statistics(L),
                decisive={"beta": draws[top[1]], "at the middle depth": draws[top[0]]},
            )
            for name, (outcome, top) in PARTS.items()
        },
        quantities=quantities,
        probabilities={
            "beta > 0": float((draws["beta"] > 0).mean()),
            "beta < 1": float((draws["beta"] < 1).mean()),
            "frontier beta > 0": float((draws["frontier_beta"] > 0).mean()),
            "frontier above 10^(1/L) at the middle depth": float((draws["frontier_middle"] > 1 / reference).mean()),
            "new model at the middle depth above 10^(1/L)": _new_above(draws, reference),
            "every model below 10^(1/L)": float(np.prod(1 - above)),
        },
        numbers={
            "middle_depth": reference,
            "models_above": float((y > 1 / L).sum()),
            "share_above": mean,
            "share_above_lower": low,
            "share_above_upper": high,
            "share_of_all_models": all_mean,
            "share_of_all_models_lower": all_low,
            "share_of_all_models_upper": all_high,
        },
        tables={
            "models": models,
            "quantiles": quantile_power_law(L, y, seed=seed),
            "rivals": _compared(rows, y, error, L, reference, said),
        },
        warnings=tuple(said),
        figure=_figure,
        seed=seed,
    )


def _models(frame: pd.DataFrame, y: Array, error: Array, L: Array) -> pd.DataFrame:
    n = frame["n_prompts"].astype("float64").to_numpy()
    return frame[["model_id", "heritage", "n_layers"]].assign(
        log10_gain=y, error=error, bound=1 / L, p_above=probability_above(y, error, 1 / L, n)
    )


def _new_above(draws: Draws, reference: float) -> float:
    return float(stats.norm.sf((1 / reference - draws.flat("middle")) / draws.flat("sigma")).mean())


def _statistics(L: Array) -> dict[str, Any]:
    deep = np.median(L) < L
    return {
        "largest": lambda y: y.max(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "share above 10^(1/L)": lambda y: (y > 1 / L).mean(axis=-1),
        "deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1),
    }


def _compared(rows: ModelRows, y: Array, error: Array, L: Array, reference: float, said: list[str]) -> pd.DataFrame:
    frame, one = rows.table, np.ones((y.size, 1))

    def of(outcome: Array, X: Array) -> Rival:
        return rival(_lines(frame, outcome, X, error))

    grid = np.linspace(BETA[0] - 3 * BETA[1], BETA[0] + 3 * BETA[1], 31)
    curves = [_lines(frame, y, ((L / reference) ** -b)[:, None], error) for b in grid]
    found = {
        "published": of(y - 1 / L, np.empty((y.size, 0))),
        "power law": mixture(curves, stats.norm.pdf(grid, *BETA)),
        "constant": of(y, one),
    }
    for name, column in RIVALS.items():
        values = frame[column].astype("float64") if column in frame else pd.Series(dtype="float64")
        if len(values) == 0 or values.isna().any() or values.nunique() < 2 or values.le(0).any():
            said.append(f"rival {name} left out: {column} is missing, constant or not above 0")
            continue
        found[name] = of(y, np.column_stack([one, standardised(np.log(values), column)[0]]))
    folds = {"model": model_folds(y.size, said)}
    if frame["heritage"].nunique() > 1:
        folds["lab"] = frame["heritage"].astype(str).tolist()
    else:
        said.append("one lab only: nothing is left out by lab")
    return compare(found, folds)


def _lines(frame: pd.DataFrame, y: Array, X: Array, error: Array) -> Any:
    return lines(frame, y, X, sd=[SCALE] * X.shape[1], sigma_scale=SCALE, tau_scale=SCALE, groups=None, error=error)


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    models, reference = fitted.table("models"), fitted.numbers["middle_depth"]
    L = np.linspace(models["n_layers"].min(), models["n_layers"].max(), 60).astype("float64")
    draws = fitted.parts["curve"].draws
    for prefix, label in (("", "through the middle"), ("frontier_", "envelope (frontier)")):
        middle, beta = draws.flat(f"{prefix}middle")[::8, None], draws.flat(f"{prefix}beta")[::8, None]
        curves = 10 ** (middle * (L / reference) ** -beta)
        lower, upper = equal_tailed(curves, LEVEL)
        axes.plot(L, np.median(curves, axis=0), label=label)
        axes.fill_between(L, lower, upper, alpha=0.2)
    axes.plot(L, 10 ** (1 / L), linestyle="--", label="10^(1/L)")
    axes.scatter(models["n_layers"], 10 ** models["log10_gain"], s=30, zorder=3)
    axes.set_xlabel("layers, L")
    axes.set_ylabel(fitted.estimand.replace("_", " "))
    axes.legend()
    return axes
