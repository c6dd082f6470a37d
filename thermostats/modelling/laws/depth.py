"""log₁₀ Gᵢ = m (Lᵢ/L₀)^(−β) + u_lab + εᵢ: does the largest gain fall with depth, and does k = β = 1 bound it?

The curve goes through the middle; an envelope of the same form lies above (`depth_curves`). Without a model: quantile
lines, and who lies above 10^(1/L), errors and all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.tools.sm_exceptions import IterationLimitWarning

from thermostats.errors import UsageError
from thermostats.modelling.classical import counterparts
from thermostats.modelling.classical.estimates import numbers, same_length
from thermostats.modelling.heritage.rows import ModelRows, lines, model_rows, standardised
from thermostats.modelling.inference.checks import Check, Statistic, influence_of_refits, settled
from thermostats.modelling.inference.draws import LEVEL, Array, equal_tailed
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import Rival, compare, few_folds, mixture, model_folds, rival
from thermostats.modelling.laws.depth_curves import BETA, NOISE, Depths, Laws, curve, frontier, node, sample

SCALE = 0.3
"""Prior scale of log10 of one block's gain: a factor of two."""
NODES = 41
AT_MIDDLE = "frontier above 10^(1/L) at the middle depth"
RIVALS = {"depth": "n_layers", "density": "rho", "scale": "n_params_nonembedding"}
"""Columns whose logarithm is a rival explanation."""
WIDER = (BETA[0], 2 * BETA[1])
ONE_DEPTH = "one depth is left"
RESAMPLES = 1000
ENUMERABLE = 200
"""Up to so many models the lines of resamples are found among all lines through two models."""
FLOOR = 0.1
"""Outcomes not above 0 are put at this share of the smallest that is: a quantile line above them does not move."""


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
    frame, said, y = bounded.rows.table, list(bounded.warnings), bounded.depths.y
    laws = sample(depths, seed=seed, cache=cache)
    draws = {**laws.curve_draws.values, **laws.frontier_draws.values}
    models, rivals = _models(frame, depths, L), _compared(bounded, said)
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
            "frontier_over_bound": draws["frontier_middle"] * middle,
        },
        probabilities=_probabilities(laws, middle, models["p_above"].to_numpy()),
        numbers={"middle_depth": middle, "prior_scale": depths.scale} | _figures(models, rivals),
        tables={
            "models": models,
            "quantiles": quantile_power_law(L, y, seed=seed),
            "rivals": rivals,
            "sensitivity": _sensitivity(depths, middle, seed),
            "classical": counterparts.of_depth(L, y, seed=seed),
        },
        warnings=tuple(said),
        figure=_figure,
        influence=partial(_left_out, bounded),
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


def _probabilities(laws: Laws, middle: float, above: Array) -> dict[str, float]:
    """What the claim says, by its probability; `above`: P(above 10^(1/L)) of every model."""
    curve_draws, top = laws.curve_draws, laws.frontier_draws
    spread = np.hypot(curve_draws["sigma"], curve_draws["tau"])
    return {
        "beta > 0": float((curve_draws["beta"] > 0).mean()),
        "beta < 1": float((curve_draws["beta"] < 1).mean()),
        "frontier beta > 0": float((top["frontier_beta"] > 0).mean()),
        AT_MIDDLE: float((top["frontier_middle"] * middle > 1).mean()),
        "new model at the middle depth above 10^(1/L)": float(
            stats.norm.sf((1 / middle - curve_draws["middle"]) / spread).mean()
        ),
        "every model below 10^(1/L)": float(np.prod(1 - above)),
    }


def _figures(models: pd.DataFrame, rivals: pd.DataFrame) -> dict[str, float]:
    """How many lie above the bound, of these models and of all such, and what the data say of rivals."""
    over, evidence = int((models["log10_gain"] > models["bound"]).sum()), rivals.set_index("rival")["log_evidence"]
    shares = {
        "share_above": share_above(models["p_above"].to_numpy()),
        "share_of_all_models": share_of_models(over, len(models)),
    }
    found = {"models_above": float(over)}
    for name, bounds in shares.items():
        found |= dict(zip((name, f"{name}_lower", f"{name}_upper"), bounds, strict=True))
    rest = ("published", "constant")
    return found | {f"log_bayes_power_law_over_{n}": float(evidence["power law"] - evidence[n]) for n in rest}


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


def _statistics(L: Array) -> dict[str, Statistic]:
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
        if np.ptp(chosen.x) == 0:
            return ONE_DEPTH, {}
        figures = _exact(chosen, bounded.middle_depth, seed)
        p = (figures["P(beta > 0)"], figures[f"P({AT_MIDDLE})"])
        words = [settled(q, ("above", "below", "open against")) for q in p]
        return f"β {words[0]} 0, envelope {words[1]} the bound", figures

    rests = {name: depths.rows(np.asarray(way) != name) for way in ways for name in dict.fromkeys(way)}
    return influence_of_refits(say, depths, rests)


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


def probability_above(value: Array, error: Array, bound: Array, n: Array) -> Array:
    """P(true value > bound): (true − value)/error is Student-t, n − 1 degrees of freedom, normal where n is not known.

    Where the error is 0 the value is exact and the probability is 0 or 1.
    """
    df = np.where(np.isfinite(n) & (n > 1), n - 1, 1e9)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.t.cdf((value - bound) / error, df)
    return np.asarray(np.where(error > 0, found, (value > bound).astype(np.float64)))


def share_above(probabilities: Array, level: float = LEVEL) -> tuple[float, float, float]:
    """Mean and equal-tailed interval of the share of these models that lie above, each with its own probability.

    The number above is a sum of independent coins (Poisson-binomial, by convolution).
    """
    mass = np.ones(1)
    for p in probabilities:
        mass = np.convolve(mass, [1 - p, p])
    below = np.cumsum(mass)
    low, high = (int(np.searchsorted(below, q)) for q in ((1 - level) / 2, (1 + level) / 2))
    n = probabilities.size
    return float(probabilities.mean()), low / n, min(high, n) / n


def share_of_models(above: int, n: int, level: float = LEVEL) -> tuple[float, float, float]:
    """Posterior mean and equal-tailed interval of the share of all such models above: Beta(½ + above, ½ + below)."""
    law = stats.beta(0.5 + above, 0.5 + n - above)
    low, high = law.ppf([(1 - level) / 2, (1 + level) / 2])
    return float(law.mean()), float(low), float(high)


def quantile_power_law(
    L: Array, y: Array, quantiles: tuple[float, ...] = (0.5, 0.75, 0.9, 0.95), *, seed: int, level: float = LEVEL
) -> pd.DataFrame:
    """Quantiles of y = log10 G as k L^(−β): log10 y on log10 L by quantile regression (Koenker and Bassett 1978).

    A quantile goes through a monotone transformation unchanged, so the log-log line is the quantile of y itself; rows
    with y ≤ 0 are kept below every line (`n_floored`). Intervals: percentile bootstrap over models, asymptotic above
    `ENUMERABLE` models. One row a quantile: k, beta and their bounds, and `above_claim`, the share of resamples whose
    line lies above 1/L at the mean log depth. No row where no y is above 0.

    Raises UsageError for fewer than 4 models, one depth only, a depth not above 0, or values that are not finite.
    """
    same_length(L=L, y=y)
    depth, value = numbers(L, "n_layers", least=4, positive=True, varied=True), numbers(y, "log10 gain", least=4)
    if not (value > 0).any():
        return pd.DataFrame(columns=["quantile", "k", "k_lower", "k_upper", "beta", "beta_lower", "beta_upper"])
    x, z = np.log10(depth), np.log10(np.maximum(value, FLOOR * value[value > 0].min()))
    counts = np.random.default_rng(seed).multinomial(x.size, np.full(x.size, 1 / x.size), RESAMPLES)
    few = x.size <= ENUMERABLE
    rows = []
    for tau in quantiles:
        a, b, spread = _line(x, z, tau)
        drawn = (
            _bootstrap(x, z, tau, counts)
            if few
            else np.random.default_rng(seed).multivariate_normal([a, b], spread, RESAMPLES)
        )
        (low, beta_high), (high, beta_low) = equal_tailed(drawn, level)
        at_mean = drawn @ np.array([1.0, x.mean()])
        rows.append(
            {
                "quantile": tau,
                "k": 10**a,
                "k_lower": 10**low,
                "k_upper": 10**high,
                "beta": -b,
                "beta_lower": -beta_low,
                "beta_upper": -beta_high,
                "above_claim": float((at_mean > -x.mean()).mean()),
                "level": level,
                "interval": "bootstrap over models" if few else "asymptotic, kernel",
                "n": x.size,
                "n_floored": int((value <= 0).sum()),
            }
        )
    return pd.DataFrame(rows)


def _line(x: NDArray[np.float64], z: NDArray[np.float64], tau: float) -> tuple[float, float, NDArray[np.float64]]:
    """Intercept, slope and their covariance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IterationLimitWarning)  # it cycles between lines of equal loss
        fit = QuantReg(z, np.column_stack([np.ones(x.size), x])).fit(q=tau, max_iter=300)
    return float(fit.params[0]), float(fit.params[1]), np.asarray(fit.cov_params())


def _bootstrap(x: Array, z: Array, tau: float, counts: NDArray[np.int64]) -> Array:
    """Intercept and slope of every resample: the best of all lines through two models, where the optimum lies."""
    i, j = np.triu_indices(x.size, 1)
    apart = x[i] != x[j]
    i, j = i[apart], j[apart]
    slope = (z[j] - z[i]) / (x[j] - x[i])
    intercept = z[i] - slope * x[i]
    residual = z - intercept[:, None] - slope[:, None] * x
    loss = np.where(residual > 0, tau * residual, (tau - 1) * residual)
    best = (counts @ loss.T).argmin(axis=1)
    return np.column_stack([intercept[best], slope[best]])
