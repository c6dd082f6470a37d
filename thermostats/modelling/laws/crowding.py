"""log gᵢ = a + b_w (xᵢ − x̄_lab) + b_b (x̄_lab − x̄) + u_lab + εᵢ, x = log ρ: does head density ρ = H/d_h move the gain?

Sign and size within and between labs; and is there a threshold, log gᵢ = a + δ [ρᵢ > c] + u_lab + εᵢ?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, is_constant, numbers
from thermostats.modelling.heritage.rows import ModelRows, lines, model_rows
from thermostats.modelling.inference.draws import SEED, Array, equal_tailed
from thermostats.modelling.inference.fitted import Deferred, Fitted
from thermostats.modelling.inference.held_out import (
    Rival,
    compare,
    few_folds,
    mixture,
    model_folds,
    node_evidence,
    rival,
)
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.modelling.laws.lines import Change, fitted_line, lab_statistics, points
from thermostats.plots.marks import ABOVE
from thermostats.plots.scales import log_axis

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; both slopes (over one SD of log ρ), labs and the rest share it, half each."""
SHARE = SCALE / 2
MOST_CUTS = 24
EQUATIONS = (
    "log gᵢ = a + b_w (xᵢ − x̄_lab(i)) + b_b (x̄_lab(i) − x̄) + u_lab(i) + εᵢ,  xᵢ = log ρᵢ = log(Hᵢ/d_h,ᵢ)",
    "step: log gᵢ = a + δ [ρᵢ > c] + u_lab(i) + εᵢ",
    "u_lab ~ N(0, τ²),  εᵢ ~ N(0, σ² + sᵢ²),  sᵢ the standard error of log gᵢ over prompts",
)
PRIORS = (
    ("a", f"N(0, {SCALE:g}²)", "mean log gain: a factor 1.6 either way is one standard deviation"),
    ("b_w, b_b", f"N(0, ({SHARE:g}/SD(x))²)", "half of that over one SD of log ρ; no sign is preferred"),
    ("δ", f"N(0, {2 * SHARE:g}²)", "a step is as large as two SD of a slope"),
    ("c", "log c uniform between the smallest and the largest ρ", "no place of a threshold is preferred"),
    ("τ", f"half-normal({SHARE:g})", "labs: half the scale of log gains"),
    ("σ", f"half-normal({SHARE:g})", "models within labs: the other half"),
)
ASKED: dict[str, Statement] = {
    "within < 0": lambda q: q["within"] < 0,
    "between < 0": lambda q: q["between"] < 0,
    "both < 0": lambda q: (q["within"] < 0) & (q["between"] < 0),
}
STEPS, DRAWN = ("threshold", "step", "below", "above"), 8000


@dataclass(frozen=True, kw_only=True)
class Crowded:
    """One row per model with ρ, x = log ρ and its mean over the lab."""

    rows: ModelRows
    rho: Array
    x: Array
    lab_mean: Array
    warnings: tuple[str, ...]

    def of(self, *columns: Array, slope: float | None = None) -> Lines:
        """A line of the gains on these columns; `slope`: prior sd of their coefficients."""
        frame = self.rows.table
        X = np.column_stack([np.ones(len(frame)), *columns])
        sd = [SCALE, *[SHARE / float(self.x.std()) if slope is None else slope] * len(columns)]
        y, error = frame["log_gain"].to_numpy(), frame["error"].to_numpy()
        return lines(frame, y, X, sd=sd, sigma_scale=SHARE, tau_scale=SHARE, error=error)

    @property
    def apart(self) -> Lines:
        """The line with both slopes, within labs and between them."""
        return self.of(self.x - self.lab_mean, self.lab_mean - self.x.mean())


def crowding_rows(table: pd.DataFrame, estimand: str = "penultimate_gain", **chosen: Any) -> Crowded:
    """The rows of `fit_crowding` and their model; raises as it does. `chosen`: source, error_from, prompt_counts."""
    columns_of(table, "rho")
    rows = model_rows(table, estimand, least=5, **chosen)
    frame, said = rows.table, list(rows.warnings)
    rho = numbers(frame["rho"].astype("float64"), "rho", positive=True, varied=True)
    labs, x = frame["heritage"].astype(str), np.log(rho)
    if labs.nunique() < 2:
        raise UsageError(
            "there is no variation between labs", where="heritage", got=labs.unique()[0], allowed="2 labs or more"
        )
    lab_mean = pd.Series(x).groupby(labs.to_numpy()).transform("mean").to_numpy()
    if is_constant(x - lab_mean + 1):
        said.append("ρ does not vary within any lab: the slope within labs is its prior")
    if is_constant(lab_mean - x.mean() + 1):
        said.append("every lab has the same mean of log ρ: the slope between labs is its prior")
    if labs.nunique() < 4:
        said.append(f"{labs.nunique()} labs: the slope between labs rests on as many points")
    return Crowded(rows=rows, rho=rho, x=x, lab_mean=lab_mean, warnings=tuple(said))


def fit_crowding(
    table: pd.DataFrame,
    estimand: str = "penultimate_gain",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int = SEED,
) -> Fitted:
    """log g_i = a + b_w (x_i − x̄_lab) + b_b (x̄_lab − x̄) + u_lab + ε_i with x = log ρ, and the same with a step.

    `table`: rows of `features`; the rest as in `model_rows`. Quantities: within (b_w), between (b_b), their difference,
    lab_sd, residual_sd; a slope is the change of log gain when ρ grows by a factor e. The step model is
    a + δ [ρ > c] + u_lab + ε, c uniform in log ρ between the smallest and the largest ρ; tables: `threshold` (posterior
    of c over the gaps between neighbouring values, with the step and the levels below and above it there), `rivals`
    (constant, slope, step, slope within and between apart: evidence, exact leave one model out, leave one lab out).

    Raises UsageError for fewer than 5 models, fewer than 2 labs, ρ constant, or a gain not above 0.
    """
    crowded = crowding_rows(table, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts)
    frame, x, apart = crowded.rows.table, crowded.x, crowded.apart
    y, labs, said = apart.y, frame["heritage"].astype(str), list(crowded.warnings)
    step, threshold, joint = thresholds(crowded, seed=seed)
    straight = {"constant": crowded.of(), "slope": crowded.of(x - x.mean()), "slopes apart": apart}
    rivals = compare(
        {name: rival(model) for name, model in straight.items()} | {"step": step},
        {"model": model_folds(y.size, said), "lab": few_folds(labs.tolist(), "labs", said)},
    )
    return fitted_line(
        apart,
        frame,
        _slopes,
        ways=[labs.tolist(), frame["model_id"].astype(str).tolist()],
        part="slopes",
        statistics=lab_statistics(apart.groups, x, "log ρ"),
        statements=ASKED,
        more=lambda change: _steps(crowded, change, seed),
        seed=seed,
        family="crowding",
        estimand=crowded.rows.estimand,
        sources=crowded.rows.sources,
        probabilities={
            "a step rather than constant, slope or slopes apart": rivals.set_index("rival")["probability"]["step"],
            "gain falls at the step": float((joint["step"] < 0).mean()),
            "expands below and dampens above": float(((joint["below"] > 0) & (joint["above"] < 0)).mean()),
        },
        numbers={
            "threshold_median": float(np.median(joint["threshold"])),
            **dict(zip(("threshold_lower", "threshold_upper"), equal_tailed(joint["threshold"]), strict=True)),
        },
        tables={
            "threshold": threshold,
            "rivals": rivals,
            "models": frame[["model_id", "heritage", "rho"]].assign(
                log_gain=y, error=apart.error, lab_mean_log_rho=crowded.lab_mean
            ),
        },
        warnings=tuple(said),
        figure=_figure,
        labels={"beta": ("intercept", "within labs", "between labs")},
        equations=EQUATIONS,
        priors=PRIORS,
    )


def _slopes(found: Posterior) -> Quantities:
    within, between = found.beta[..., 1], found.beta[..., 2]
    slopes = {"within": within, "between": between, "between_less_within": between - within}
    return slopes | {"lab_sd": found.tau, "residual_sd": found.sigma}


def _steps(crowded: Crowded, change: Change, seed: int) -> Quantities:
    """Draws of the step model under a change of its rows or priors, made where a statement asks for them."""
    made = Deferred({"steps": lambda: thresholds(crowded, seed=seed, change=change)[2]})
    return Deferred({name: lambda name=name: made["steps"][name][None] for name in STEPS})  # type: ignore[misc]


def _cuts(rho: Array) -> tuple[Array, Array]:
    """Middle of every gap between neighbouring values of ρ and its width, both on the log scale.

    Of more than `MOST_CUTS` gaps the narrowest are put to their neighbours.
    """
    values = np.log(np.unique(rho))
    if values.size > MOST_CUTS + 1:
        near = np.linspace(values[0], values[-1], MOST_CUTS + 1)
        values = np.unique(values[np.abs(values[:, None] - near).argmin(axis=0)])
    return np.exp((values[1:] + values[:-1]) / 2), np.diff(values)


def thresholds(
    crowded: Crowded, *, seed: int, change: Change = lambda lines: lines
) -> tuple[Rival, pd.DataFrame, dict[str, Array]]:
    """The step model, the posterior over its gaps, and joint draws of threshold, step and levels.

    One node a gap of log ρ, with its width as prior weight. change: of every node's rows or priors.
    """
    cuts, widths = _cuts(crowded.rho)
    nodes = [crowded.of((crowded.rho > c).astype(np.float64), slope=2 * SHARE) for c in cuts]
    steps = mixture([change(node) for node in nodes], widths)
    logs = steps.log_weights + node_evidence(steps)
    weights = np.exp(logs - logsumexp(logs))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(DRAWN, weights)
    found = [posterior(node, seed=seed + i, draws=4000) for i, node in enumerate(steps.nodes)]
    table = pd.DataFrame(
        {
            "lower": np.exp(np.log(cuts) - widths / 2),
            "upper": np.exp(np.log(cuts) + widths / 2),
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
    return steps, table, {"threshold": drawn, "step": beta[:, 1], "below": beta[:, 0], "above": beta.sum(axis=1)}


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    models = fitted.table("models")
    points(axes, models.assign(gain=np.exp(models["log_gain"])), "rho", "gain")
    threshold = fitted.table("threshold")
    second = axes.twinx()
    density = threshold["probability"] / np.log(threshold["upper"] / threshold["lower"])
    second.stairs(density, [*threshold["lower"], threshold["upper"].iloc[-1]], alpha=0.3, fill=True)
    second.set_yticks([])
    second.set_ylabel("posterior density of a threshold")
    axes.axhline(1, linewidth=0.8)
    log_axis(axes, "x")
    axes.set_xlabel("head density ρ = H / d_h")
    axes.set_ylabel(fitted.estimand.replace("_", " "))
    axes.legend(**ABOVE)
    return axes
