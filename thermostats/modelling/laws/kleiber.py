"""Does the largest gain fall with depth as log10 G_max = k L^(−β), and does k = β = 1 bound it?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical import counterparts
from thermostats.modelling.classical.estimates import numbers
from thermostats.modelling.heritage.rows import ModelRows, lines, model_rows, standardised
from thermostats.modelling.inference.checks import Check, influence
from thermostats.modelling.inference.draws import LEVEL, Array, equal_tailed
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import Rival, compare, few_folds, mixture, model_folds, rival
from thermostats.modelling.laws import depth_parts
from thermostats.modelling.laws.bounds import probability_above, quantile_power_law, share_above, share_of_models
from thermostats.modelling.laws.depth_laws import BETA, NOISE, Depths, curve, frontier, node
from thermostats.modelling.laws.linear import SURE

SCALE = 0.3
"""Prior scale of log10 of one block's gain: a factor of two."""
NODES = 41
AT_MIDDLE = "frontier above 10^(1/L) at the middle depth"
RIVALS = {"depth": "n_layers", "density": "rho", "scale": "n_params_nonembedding"}
"""Columns whose logarithm is a rival explanation."""
WIDER = (BETA[0], 2 * BETA[1])
ONE_DEPTH = "one depth is left"


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """One row a model with what the power laws of depth take; `middle_depth`: L₀, the geometric mean of L."""

    rows: ModelRows
    L: Array
    middle_depth: float
    depths: Depths
    warnings: tuple[str, ...]


def bounded_rows(
    table: pd.DataFrame,
    estimand: str,
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    scale: float | None = None,
) -> Bounded:
    """The rows of `fit_kleiber`; raises as it does."""
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise UsageError("a prior scale must be above 0", where="scale", got=scale, allowed="a finite number above 0")
    stands = error_from if error_from in table else None
    rows = model_rows(table, estimand, source=source, error_from=stands, prompt_counts=prompt_counts, least=4)
    frame, said = rows.table, list(rows.warnings)
    L = numbers(frame["n_layers"].astype("float64"), "n_layers", positive=True, varied=True)
    labs = frame["heritage"].astype(str)
    if labs.nunique() == 1:
        said.append("one lab only: nothing here speaks of other labs, and nothing is left out by lab")
    elif not labs.duplicated().any():
        said.append("one model of every lab: labs cannot be told from models, their prior decides")
    y, middle = frame["log_gain"].to_numpy() / math.log(10), float(np.exp(np.log(L).mean()))
    if not (y > 0).any():
        said.append("no gain is above 1: no envelope of the claimed form, and no quantile lines")
    averaged = math.sqrt(max(middle - 2, 1)) if estimand.startswith("geometric_gain") else 1.0
    depths = Depths(
        y=y,
        x=np.log(L / middle),
        error=frame["error"].to_numpy() / math.log(10),
        groups=pd.factorize(labs)[0],
        n_groups=labs.nunique() if labs.nunique() > 1 else 0,
        scale=SCALE / averaged if scale is None else scale,
    )
    return Bounded(rows=rows, L=L, middle_depth=middle, depths=depths, warnings=tuple(said))


def fit_kleiber(
    table: pd.DataFrame,
    estimand: str = "max_gain_to_penultimate",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = "penultimate_gain",
    prompt_counts: Mapping[str, int] | None = None,
    scale: float | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """Exponent and constant of log10 G = k L^(−β), the envelope twice, who lies above 10^(1/L), and rivals of depth.

    `table`: rows of `features`; the rest as in `model_rows`. `scale`: prior scale of log10 G, by default `SCALE`, and
    for a mean over the blocks `SCALE` over the root of their number. Quantities: k, beta, sigma, lab_sd of the curve in
    the middle; frontier_k, frontier_beta, below, noise of the envelope. Tables: `models` (P(above) with each model's
    error of measurement), `quantiles` (the envelope by quantile regression), `rivals` (exact leave one model out and
    leave one lab out; `published` is k = β = 1 through the middle with its spread free), `sensitivity` (exact refits
    under other priors, without effects of labs, without labs of one model).

    The classical counterparts: table `classical`, as `counterparts.of_depth` gives it, and `quantiles`.

    Raises UsageError for fewer than 4 models, one depth only, or a gain that is not finite and above 0.
    """
    bounded = bounded_rows(
        table, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts, scale=scale
    )
    depths, L, middle = bounded.depths, bounded.L, bounded.middle_depth
    frame, said = bounded.rows.table, list(bounded.warnings)
    laws = depth_parts.sample(depths, seed=seed, cache=cache)
    draws, y = {**laws.curve_draws.values, **laws.frontier_draws.values}, depths.y
    models = _models(frame, depths, L)
    above = models["p_above"].to_numpy()
    mean, low, high = share_above(above)
    all_mean, all_low, all_high = share_of_models(int((y > 1 / L).sum()), y.size)
    rivals = _compared(bounded, said)
    evidence = rivals.set_index("rival")["log_evidence"]
    over_bound = draws["frontier_middle"] * middle
    new = stats.norm.sf((1 / middle - draws["middle"]) / np.hypot(draws["sigma"], draws["tau"]))
    decided = {"beta": draws["beta"], "at the middle depth": draws["middle"]}
    over = {"beta": draws["frontier_beta"], "at the middle depth": draws["frontier_middle"]}
    return Fitted(
        family="kleiber",
        estimand=bounded.rows.estimand,
        sources=bounded.rows.sources,
        n_models=y.size,
        n_heritages=frame["heritage"].nunique(),
        parts={"curve": laws.curve(_statistics(L), decided), "frontier": laws.frontier(_statistics(L), over)},
        quantities={
            "k": draws["middle"] * middle ** draws["beta"],
            "beta": draws["beta"],
            "sigma": draws["sigma"],
            **({"lab_sd": draws["tau"]} if depths.n_groups else {}),
            "frontier_k": draws["frontier_middle"] * middle ** draws["frontier_beta"],
            "frontier_beta": draws["frontier_beta"],
            "below": draws["below"],
            "noise": draws["noise"],
            "frontier_over_bound": over_bound,
        },
        probabilities={
            "beta > 0": float((draws["beta"] > 0).mean()),
            "beta < 1": float((draws["beta"] < 1).mean()),
            "frontier beta > 0": float((draws["frontier_beta"] > 0).mean()),
            AT_MIDDLE: float((over_bound > 1).mean()),
            "new model at the middle depth above 10^(1/L)": float(new.mean()),
            "every model below 10^(1/L)": float(np.prod(1 - above)),
        },
        numbers={
            "middle_depth": middle,
            "prior_scale": depths.scale,
            "models_above": float((y > 1 / L).sum()),
            "share_above": mean,
            "share_above_lower": low,
            "share_above_upper": high,
            "share_of_all_models": all_mean,
            "share_of_all_models_lower": all_low,
            "share_of_all_models_upper": all_high,
            "log_bayes_power_law_over_published": float(evidence["power law"] - evidence["published"]),
            "log_bayes_power_law_over_constant": float(evidence["power law"] - evidence["constant"]),
        },
        tables={
            "models": models,
            "quantiles": quantile_power_law(L, y, seed=seed),
            "rivals": rivals,
            "sensitivity": _sensitivity(depths, middle, seed),
            "classical": counterparts.of_depth(L, y, seed=seed),
        },
        warnings=tuple(said),
        figure=_figure,
        influence=lambda seed: _left_out(bounded, seed),
        equations=(
            "yᵢ = log₁₀ Gᵢ,  xᵢ = log(Lᵢ/L₀),  sᵢ the standard error of yᵢ over prompts",
            "curve: yᵢ = m e^(−β xᵢ)" + (" + u_lab(i)" if depths.n_groups else "") + " + εᵢ,  εᵢ ~ N(0, σ² + sᵢ²)",
            *(("u_lab ~ N(0, τ²)",) if depths.n_groups else ()),
            "envelope: yᵢ = m′ e^(−β′ xᵢ) − wᵢ + vᵢ,  wᵢ ~ half-normal(ω),  vᵢ ~ N(0, η² + sᵢ²)",
            "k = m L₀^β,  k′ = m′ L₀^β′;  the claim: k = β = 1 and y ≤ 1/L",
        ),
        priors=_priors(depths),
        seed=seed,
    )


def _priors(depths: Depths) -> tuple[tuple[str, str, str], ...]:
    scale, share = f"{depths.scale:.2g}", f"{depths.share:.2g}"
    factor = f"log10 gains within a factor of {10**depths.scale:.2g} either way are no surprise"
    own = (
        ("m", f"N(0, {scale}²)", factor),
        ("m′", f"half-normal({scale})", f"an envelope of this form lies above 1; {factor}"),
        ("β, β′", f"N({BETA[0]:g}, {BETA[1]:g}²)", "no dependence (0) and the claim (1) are equally likely beforehand"),
        ("σ", f"half-normal({share})", "models within labs: half the variance of log10 gains"),
        ("ω", f"half-normal({scale})", "models may lie far below an envelope"),
        ("η", f"half-normal({NOISE * depths.scale:.2g})", "few lie above it, and not far: a sixth of that"),
    )
    return (*own, ("τ", f"half-normal({share})", "labs: the other half")) if depths.n_groups else own


def _models(frame: pd.DataFrame, depths: Depths, L: Array) -> pd.DataFrame:
    n = frame["n_prompts"].astype("float64").to_numpy()
    return frame[["model_id", "heritage", "n_layers"]].assign(
        log10_gain=depths.y,
        error=depths.error,
        bound=1 / L,
        p_above=probability_above(depths.y, depths.error, 1 / L, n),
    )


def _statistics(L: Array) -> dict[str, Any]:
    deep = np.median(L) < L
    return {
        "largest": lambda y: y.max(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "share above 10^(1/L)": lambda y: (y > 1 / L).mean(axis=-1),
        "deep less shallow": lambda y: y[..., deep].mean(axis=-1) - y[..., ~deep].mean(axis=-1),
    }


def _compared(bounded: Bounded, said: list[str]) -> pd.DataFrame:
    frame, depths = bounded.rows.table, bounded.depths
    one = np.ones((depths.y.size, 1))

    def of(outcome: Array, X: Array) -> Rival:
        return rival(
            lines(
                frame,
                outcome,
                X,
                sd=[depths.scale] * X.shape[1],
                sigma_scale=depths.share,
                tau_scale=depths.share,
                groups="heritage" if depths.n_groups else None,
                error=depths.error,
            )
        )

    grid = np.linspace(BETA[0] - 3.5 * BETA[1], BETA[0] + 3.5 * BETA[1], NODES)
    found = {
        "published": of(depths.y - 1 / bounded.L, np.empty((depths.y.size, 0))),
        "power law": mixture([node(depths, b) for b in grid], stats.norm.pdf(grid, *BETA)),
        "constant": of(depths.y, one),
    }
    for name, column in RIVALS.items():
        values = frame[column].astype("float64") if column in frame else pd.Series(dtype="float64")
        if len(values) == 0 or not np.isfinite(values).all() or values.nunique() < 2 or values.le(0).any():
            said.append(f"rival {name} left out: {column} is missing, constant or not above 0")
            continue
        found[name] = of(depths.y, np.column_stack([one, standardised(np.log(values), column)[0]]))
    folds = {"model": model_folds(depths.y.size, said)}
    if depths.n_groups:
        folds["lab"] = few_folds(frame["heritage"].astype(str).tolist(), "labs", said)
    return compare(found, folds)


def _exact(depths: Depths, middle: float, seed: int) -> dict[str, float]:
    """What is decided, by exact refit; NaN where that of the envelope did not settle."""
    found, top = curve(depths, seed=seed), frontier(depths, seed=seed)
    low, high = equal_tailed(found.beta)
    return {
        "P(beta > 0)": float((found.beta > 0).mean()),
        "beta": float(np.median(found.beta)),
        "lower": float(low),
        "upper": float(high),
        "frontier_beta": float(np.median(top.beta)) if top.settled else math.nan,
        f"P({AT_MIDDLE})": float((top.middle * middle > 1).mean()) if top.settled else math.nan,
    }


def _sensitivity(depths: Depths, middle: float, seed: int) -> pd.DataFrame:
    """Exact refits under other priors and without what a reader may doubt."""
    sizes = np.bincount(depths.groups)[depths.groups]
    others = {
        "as stated": depths,
        "half the prior scale": replace(depths, scale=depths.scale / 2),
        "twice the prior scale": replace(depths, scale=depths.scale * 2),
        "twice as wide a prior of β": replace(depths, beta=WIDER),
        "gains taken as exact": replace(depths, error=np.zeros(depths.y.size)),
    }
    if depths.n_groups:
        others["no effects of labs"] = replace(depths, n_groups=0)
        kept = depths.rows(sizes > 1)
        if (sizes == 1).any() and kept.y.size >= 4 and np.ptp(kept.x) > 0:
            others["without labs of one model"] = kept
    return pd.DataFrame([{"alternative": name, **_exact(d, middle, seed)} for name, d in others.items()])


def _left_out(bounded: Bounded, seed: int) -> Check:
    """Exact refits without each lab and without each model: is β above 0, and is the envelope above the bound?"""
    depths, frame = bounded.depths, bounded.rows.table
    ways = [few_folds(frame["model_id"].astype(str).tolist(), "models")]
    if depths.n_groups:
        ways.insert(0, few_folds(frame["heritage"].astype(str).tolist(), "labs"))

    def say(chosen: Depths) -> tuple[str, dict[str, float]]:
        figures = _exact(chosen, bounded.middle_depth, seed)
        p = (figures["P(beta > 0)"], figures[f"P({AT_MIDDLE})"])
        words = ["above" if q >= SURE else "below" if q <= 1 - SURE else "open against" for q in p]
        return f"β {words[0]} 0, envelope {words[1]} the bound", figures

    found: dict[str, tuple[str, dict[str, float]]] = {}
    for way in ways:
        for name in dict.fromkeys(way):
            rest = depths.rows(np.asarray(way) != name)
            found[name] = say(rest) if np.ptp(rest.x) > 0 else (ONE_DEPTH, {})
    return influence(say(depths)[0], {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()})


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    models, reference = fitted.table("models"), fitted.numbers["middle_depth"]
    L = np.linspace(models["n_layers"].min(), models["n_layers"].max(), 60).astype("float64")
    ways = (("curve", "", "through the middle"), ("frontier", "frontier_", "envelope (frontier)"))
    for part, prefix, label in ways:
        draws = fitted.parts[part].draws
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
