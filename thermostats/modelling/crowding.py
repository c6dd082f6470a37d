"""Does head density ρ = H/d_h move the gain: sign and size within and between labs, and is there a threshold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.modelling import linear
from thermostats.modelling.draws import LEVEL, Array
from thermostats.modelling.estimates import is_constant, numbers
from thermostats.modelling.fitted import Fitted, Part
from thermostats.modelling.gaussian import Lines, posterior
from thermostats.modelling.model_rows import lines, model_rows
from thermostats.modelling.rivals import compare, mixture, model_folds, node_evidence, rival

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; both slopes (over one SD of log ρ), labs and the rest share it, half each."""
SHARE = SCALE / 2
MOST_CUTS = 24
PUBLISHED = (0.15, 0.20)
"""The study's threshold of ρ lies between these."""


def fit_crowding(
    table: pd.DataFrame,
    estimand: str = "penultimate_gain",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int,
    cache: bool = True,
) -> Fitted:
    """log g_i = a + b_w (x_i − x̄_lab) + b_b (x̄_lab − x̄) + u_lab + ε_i with x = log ρ, and the same with a step.

    `table`: rows of `features`; the rest as in `model_rows`. Quantities: within (b_w), between (b_b), their difference,
    lab_sd, residual_sd; a slope is the change of log gain when ρ grows by a factor e. The step model is
    a + δ [ρ > c] + u_lab + ε, c uniform in log ρ between the smallest and the largest ρ; tables: `threshold` (posterior
    of c over the gaps between neighbouring values, with the step and the levels below and above it there), `rivals`
    (constant, slope, step, slope within and between apart: evidence, exact leave one model out, leave one lab out).

    Raises UsageError for fewer than 5 models, fewer than 2 labs, ρ constant, or a gain not above 0.
    """
    rows = model_rows(table, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts, least=5)
    frame, said = rows.table, list(rows.warnings)
    rho = numbers(frame["rho"].astype("float64"), "rho", positive=True, varied=True)
    y, error, x = frame["log_gain"].to_numpy(), frame["error"].to_numpy(), np.log(rho)
    labs = frame["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError("nothing lies between labs", where="heritage", got=labs.unique()[0], allowed="2 labs or more")
    lab_mean = pd.Series(x).groupby(labs.to_numpy()).transform("mean").to_numpy()
    within, between = x - lab_mean, lab_mean - x.mean()
    if is_constant(within + 1):
        said.append("ρ does not vary within any lab: the slope within labs is its prior")
    if labs.nunique() < 4:
        said.append(f"{labs.nunique()} labs: the slope between labs rests on as many points")
    one = np.ones(y.size)

    def of(*columns: Array, slope: float = SHARE / float(x.std())) -> Lines:
        slope_sd = [slope] * len(columns)
        X = np.column_stack([one, *columns])
        return lines(frame, y, X, sd=[SCALE, *slope_sd], sigma_scale=SHARE, tau_scale=SHARE, error=error)

    apart = of(within, between)
    fit = linear.sample(apart, seed=seed, cache=cache)
    b_w, b_b = fit.beta[..., 1], fit.beta[..., 2]
    cuts, widths = _cuts(rho)
    steps = [of((rho > c).astype(np.float64), slope=2 * SHARE) for c in cuts]
    threshold, joint = _threshold(steps, cuts, widths, seed)
    step = mixture(steps, widths)
    rivals = compare(
        {"constant": rival(of()), "slope": rival(of(x - x.mean())), "slopes apart": rival(apart), "step": step},
        {"model": model_folds(y.size, said), "lab": labs.tolist()},
    )
    chance = dict(zip(rivals["rival"], rivals["probability"], strict=True))
    return Fitted(
        family="crowding",
        estimand=estimand,
        sources=rows.sources,
        n_models=y.size,
        n_heritages=labs.nunique(),
        parts={"slopes": _part(fit, x, labs.to_numpy())},
        quantities={
            "within": b_w,
            "between": b_b,
            "between_less_within": b_b - b_w,
            "lab_sd": fit.tau,
            "residual_sd": fit.sigma,
        },
        probabilities={
            "within < 0": float((b_w < 0).mean()),
            "between < 0": float((b_b < 0).mean()),
            "both < 0": float(((b_w < 0) & (b_b < 0)).mean()),
            "a step rather than constant, slope or slopes apart": chance["step"],
            "gain falls at the step": float((joint["step"] < 0).mean()),
            "expands below and dampens above": float(((joint["below"] > 0) & (joint["above"] < 0)).mean()),
            "threshold within 0.15 to 0.20": float(
                ((joint["threshold"] >= PUBLISHED[0]) & (joint["threshold"] <= PUBLISHED[1])).mean()
            ),
        },
        numbers={
            "log_bayes_step_over_constant": _log_ratio(rivals, "step", "constant"),
            "log_bayes_step_over_slope": _log_ratio(rivals, "step", "slope"),
            "log_bayes_slope_over_constant": _log_ratio(rivals, "slope", "constant"),
            "prior_threshold_within_0.15_to_0.20": _prior_share(rho),
            "threshold_median": float(np.median(joint["threshold"])),
            "threshold_lower": float(np.quantile(joint["threshold"], (1 - LEVEL) / 2)),
            "threshold_upper": float(np.quantile(joint["threshold"], (1 + LEVEL) / 2)),
        },
        tables={
            "threshold": threshold,
            "rivals": rivals,
            "models": frame[["model_id", "heritage", "rho"]].assign(log_gain=y, error=error, lab_mean_log_rho=lab_mean),
        },
        warnings=tuple(said),
        figure=_figure,
        influence=partial(linear.without_each, apart, labs.tolist(), lambda p: p.beta[:, 1], "within"),
        seed=seed,
    )


def _cuts(rho: Array) -> tuple[Array, Array]:
    """Middle of every gap between neighbouring values of ρ and its width, both on the log scale.

    Of more than `MOST_CUTS` gaps the narrowest are put to their neighbours.
    """
    values = np.log(np.unique(rho))
    if values.size > MOST_CUTS + 1:
        near = np.linspace(values[0], values[-1], MOST_CUTS + 1)
        values = np.unique(values[np.abs(values[:, None] - near).argmin(axis=0)])
    return np.exp((values[1:] + values[:-1]) / 2), np.diff(values)


def _threshold(steps: list[Lines], cuts: Array, widths: Array, seed: int) -> tuple[pd.DataFrame, dict[str, Array]]:
    """Posterior over the gaps, and joint draws of threshold, step and levels."""
    logs = np.log(widths) + node_evidence(mixture(steps, np.ones(cuts.size)))
    weights = np.exp(logs - logsumexp(logs))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(8000, weights)
    found = [posterior(node, seed=seed + i, draws=4000) for i, node in enumerate(steps)]
    ends = np.exp(np.log(cuts) - widths / 2), np.exp(np.log(cuts) + widths / 2)
    table = pd.DataFrame(
        {
            "lower": ends[0],
            "upper": ends[1],
            "prior": widths / widths.sum(),
            "probability": weights,
            "step": [f.beta[:, 1].mean() for f in found],
            "below": [f.beta[:, 0].mean() for f in found],
            "above": [f.beta.sum(axis=1).mean() for f in found],
        }
    )
    beta = np.concatenate([f.beta[rng.integers(0, 4000, n)] for f, n in zip(found, counts, strict=True)])
    gap = np.repeat(np.arange(cuts.size), counts)
    drawn = np.exp(np.log(cuts[gap]) + widths[gap] * rng.uniform(-0.5, 0.5, gap.size))
    return table, {"threshold": drawn, "step": beta[:, 1], "below": beta[:, 0], "above": beta.sum(axis=1)}


def _prior_share(rho: Array) -> float:
    low, high = np.clip(np.log(PUBLISHED), np.log(rho.min()), np.log(rho.max()))
    return float((high - low) / np.log(rho.max() / rho.min()))


def _log_ratio(rivals: pd.DataFrame, one: str, other: str) -> float:
    evidence = rivals.set_index("rival")["log_evidence"]
    return float(evidence[one] - evidence[other])


def _part(fit: linear.LinesFit, x: Array, labs: Any) -> Part:
    codes = pd.factorize(labs)[0]
    centred = x - x.mean()
    return fit.part(
        {
            "share of dampeners": lambda y: (y < 0).mean(axis=-1),
            "spread of lab means": lambda y: np.stack([y[..., codes == g].mean(axis=-1) for g in set(codes)]).std(
                axis=0
            ),
            "covariance with log ρ": lambda y: (y * centred).mean(axis=-1),
            "largest": lambda y: y.max(axis=-1),
        },
        {"within < 0": fit.beta[..., 1] < 0, "between < 0": fit.beta[..., 2] < 0},
    )


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    models = fitted.table("models")
    for lab, own in models.groupby("heritage"):
        axes.errorbar(own["rho"], np.exp(own["log_gain"]), own["error"], fmt="o", label=str(lab), markersize=5)
    threshold = fitted.table("threshold")
    second = axes.twinx()
    density = threshold["probability"] / np.log(threshold["upper"] / threshold["lower"])
    second.stairs(density, [*threshold["lower"], threshold["upper"].iloc[-1]], alpha=0.3, fill=True)
    second.set_yticks([])
    second.set_ylabel("posterior density of a threshold")
    axes.axhline(1, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("head density ρ = H / d_h")
    axes.set_ylabel(fitted.estimand.replace("_", " "))
    axes.legend()
    return axes
