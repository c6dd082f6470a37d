"""y_i = X_i β + u_g(i) + ε_i, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²): a line with levels of groups and known errors.

Every straight law is this line with its own columns and prior scales: β normal, σ and τ half-normal. It is sampled
through the seam (`sample`), and refitted exactly by `quadrature`. `fit_line` is the plain case: a mean or a slope over
models, the counterpart of a t test; `between` takes outcomes that are known only to lie between bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, labels, numbers
from thermostats.modelling.heritage.rows import lines, standardised
from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.calibration import SHORT, Simulator, by_sampling
from thermostats.modelling.inference.checks import Check, Statistic, exact_pit, influence_of_refits, joined, settled
from thermostats.modelling.inference.draws import PASSED, Array, Draws, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted, Part, direct_part, spaced
from thermostats.modelling.inference.held_out import few_folds, held_out
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior
from thermostats.modelling.inference.sensitivity import HEAVY, NU, SAME_SD, exactly_refitted, row, sensitivity
from thermostats.plots.marks import ABOVE, mark

LEAST = 4
"""Rows beyond the number of coefficients' own that a residual needs."""
MOST_NAMED = 10
"""Groups that a legend can still tell apart."""
LEFT_OUT = 1000
"""Predictive draws of a row that is left out."""
STEPS = Settings(target_accept=0.97)
"""Six quantities at most, cheap to sample: small steps spare the second attempt."""
COLUMNS, GROUPS = 4, 8
"""Coefficients and groups are filled up to multiples of these, so that fits of one size class share a compilation."""
ROUNDS, DRAWS = 4, 600
"""Of expectation propagation, and predictive draws in each."""
BEYOND = 1.0
"""Where an open outcome is put at first: this far beyond its one bound."""
LEAST_KNOWN = 30.0
"""Standard error of an outcome of which its bounds say nothing."""
STATISTICS: dict[str, Statistic] = {
    "mean": lambda y: y.mean(axis=-1),
    "spread": lambda y: y.std(axis=-1),
    "largest": lambda y: y.max(axis=-1),
    "smallest": lambda y: y.min(axis=-1),
}
Quantity = Callable[[Posterior], Array]
"""A quantity whose sign is asked, one a draw."""


def fit_line(
    table: pd.DataFrame,
    outcome: str,
    covariates: Sequence[str] = (),
    *,
    scale: float,
    group: str | None = "heritage",
    error: str | None = None,
    sources: Sequence[str] = (),
    seed: int,
    cache: bool = True,
) -> Fitted:
    """y_i = a + Σ_k b_k z_ik + u_g(i) + ε_i, z standardised, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²).

    `table`: a row a unit, with `model_id` and `heritage`; `outcome` and `covariates` name columns of numbers, `error` a
    column of known standard errors of the outcome, `group` a column whose values have a level of their own (None: no
    levels). `scale`: a difference of the outcome that would be no surprise; a ~ N(0, (2 scale)²), b_k ~ N(0, scale²),
    σ and τ half-normal of that scale. Quantities: mean (a), a slope for each covariate in units of the covariate,
    residual_sd and, with levels, group_sd. Probabilities: "mean > 0" and "<covariate> > 0" for every covariate.
    Tables: `rows`, and `sensitivity` (exact refits; t errors by importance weights).

    Raises UsageError for missing columns or groups, values that are no finite numbers, a constant outcome or covariate,
    errors below 0, a scale that is not above 0, or fewer rows than four more than there are covariates.
    """
    columns_of(table, "model_id", "heritage", outcome, *covariates, *([group] if group else []))
    if not (math.isfinite(scale) and scale > 0):
        raise UsageError("a prior scale must be above 0", where=outcome, got=scale, allowed="a finite number above 0")
    y = numbers(table[outcome].astype("float64"), outcome, least=LEAST + len(covariates), varied=True)
    spread = {name: standardised(table[name], name) for name in covariates}
    levels, said = _levels(table, group)
    said += [] if sources else [NO_SOURCE]
    X = np.column_stack([np.ones(y.size), *(spread[name][0] for name in covariates)])
    if (rank := int(np.linalg.matrix_rank(X))) < X.shape[1]:
        said.append(f"columns of rank {rank - 1} of {len(covariates)}: priors decide between their slopes")
    known = numbers(table[error].astype("float64"), error, least=1) if error else np.zeros(y.size)
    if (known < 0).any():
        raise UsageError("a standard error below 0", where=error, got=f"{known.min():g}", allowed="0 or above")
    grouped = group if levels else None
    sd = [2 * scale, *[scale] * len(covariates)]
    model = lines(table, y, X, sd=sd, sigma_scale=scale, tau_scale=scale, groups=grouped, error=known)
    fit = sample(model, seed=seed, cache=cache)
    sizes = {"mean": 1.0} | {name: spread[name][2] for name in covariates}
    slopes = {name: fit.beta[..., k] / size for k, (name, size) in enumerate(sizes.items())}
    decided = {f"{name} > 0": slopes[name] > 0 for name in sizes}
    few_folds([str(i) for i in range(y.size)], "rows", said)
    return fitted_line(
        fit,
        table,
        {name: coefficient(k, 1 / size) for k, (name, size) in enumerate(sizes.items())},
        judged=[[*sizes][-1]],
        ways=_ways(levels, table["model_id"].astype(str).tolist()),
        part="line",
        statistics=STATISTICS | {f"covariance with {n}": partial(_covariance, z) for n, (z, *_) in spread.items()},
        decisive=decided,
        group="lab" if grouped == "heritage" else str(grouped),
        cache=cache,
        seed=seed,
        family="line",
        estimand=outcome,
        sources=tuple(sources),
        quantities=slopes | {"residual_sd": fit.sigma} | ({"group_sd": fit.tau} if grouped else {}),
        probabilities={statement: float(true.mean()) for statement, true in decided.items()},
        numbers={f"one_sd_of_{name}": spread[name][2] for name in covariates},
        tables={
            "rows": table[list(dict.fromkeys(["model_id", "heritage", *covariates]))].assign(outcome=y, error=known)
        },
        warnings=tuple(said),
        figure=_figure,
        equations=_equations(outcome, covariates, grouped, error),
        priors=_priors(scale, covariates, grouped),
    )


def _covariance(z: Array, y: Array) -> float:
    return (y * z).mean(axis=-1)  # type: ignore[no-any-return]


def _levels(table: pd.DataFrame, group: str | None) -> tuple[list[str], list[str]]:
    """The group of every row, none where there are no levels to fit; and what cannot be told apart."""
    if not group:
        return [], []
    found = labels(table[group], group).tolist()
    if len(set(found)) < 2:
        return [], [f"one {group}: its level cannot be told from the mean, and none is fitted"]
    if len(set(found)) == len(found):
        return found, [f"one row of every {group}: its level cannot be told from the row's rest, their priors decide"]
    return found, []


def _ways(groups: Sequence[str], models: Sequence[str]) -> list[Sequence[str]]:
    """What is left out in turn: groups where there are three or more, and models where they are not the same rows."""
    found: list[Sequence[str]] = [groups] if len(set(groups)) > 2 else []
    finer = len(set(zip(groups, models, strict=True))) > len(set(groups)) if found else True
    return [*found, *([models] if finer and len(set(models)) > 1 else [])]


def _equations(outcome: str, covariates: Sequence[str], group: str | None, error: str | None) -> tuple[str, ...]:
    slopes = "".join(f" + b_{k} z_{k}i" for k in range(1, len(covariates) + 1))
    return (
        f"{outcome}_i = a{slopes}{f' + u_{group}(i)' if group else ''} + ε_i",
        *(f"z_{k}: {name}, standardised" for k, name in enumerate(covariates, 1)),
        *([f"u_{group} ~ N(0, τ²)"] if group else []),
        f"ε_i ~ N(0, σ²{f' + {error}_i²' if error else ''})",
    )


def _priors(scale: float, covariates: Sequence[str], group: str | None) -> tuple[tuple[str, str, str], ...]:
    why = f"a difference of {scale:g} would be no surprise"
    return (
        ("a", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}"),
        *((f"b_{k}", f"N(0, {scale:g}²)", f"over one SD of {name}; {why}") for k, name in enumerate(covariates, 1)),
        *((name, f"half-normal({scale:g})", why) for name in ("σ", "τ")[: 2 if group else 1]),
    )


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Outcomes with their errors over the covariate asked, which is the last, and the line's interval.

    Where there are other covariates their part, by the slopes' medians, is taken off the outcomes.
    """
    rows = fitted.table("rows")
    covariates = [name for name in rows.columns if name not in {"model_id", "heritage", "outcome", "error"}]
    *others, asked = covariates or [""]
    x = rows[asked].to_numpy(dtype=np.float64) if asked else np.arange(len(rows), dtype=np.float64)
    part = sum(float(np.median(fitted.quantities[name])) * (rows[name] - rows[name].mean()) for name in others)
    points(axes, rows.assign(_x=x, _y=rows["outcome"] - part), "_x", "_y")
    grid = np.linspace(x.min(), x.max(), 50)
    slope = fitted.quantities[asked].reshape(-1, 1) if asked else 0.0
    band = fitted.quantities["mean"].reshape(-1, 1) + slope * (grid - x.mean())
    lower, middle, upper = np.quantile(band, [(1 - fitted.level) / 2, 0.5, (1 + fitted.level) / 2], axis=0)
    axes.plot(grid, middle, color="0.2", linewidth=1)
    axes.fill_between(grid, lower, upper, color="0.2", alpha=0.15, linewidth=0)
    axes.axhline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xlabel(asked.replace("_", " "))
    axes.set_ylabel(fitted.estimand.replace("_", " ") + (", others held" if others else ""))
    if not asked:
        axes.set_xticks(x, rows["model_id"], rotation=45, ha="right")
    if rows["heritage"].nunique() <= MOST_NAMED:
        axes.legend(**ABOVE)
    return axes


def points(axes: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Two columns and the errors of the second, with the mark of every lab."""
    for lab, own in rows.groupby("heritage"):
        color, marker = mark(str(lab))
        axes.errorbar(own[x], own[y], own["error"], fmt=marker, color=color, markersize=5, label=str(lab))


def coefficient(column: int, factor: float = 1.0) -> Quantity:
    """A coefficient, times a factor."""
    return lambda found: factor * found.beta[:, column]


def lab_statistics(labs: NDArray[np.int64], x: Array, name: str) -> dict[str, Statistic]:
    """Test quantities of log gains: who dampens, how labs differ, and whether gains go with x; `labs` from 0."""
    centred = x - x.mean()

    def by_lab(y: Array | NDArray[np.bool_]) -> Array:
        return np.stack([y[..., labs == g].mean(axis=-1) for g in range(labs.max() + 1)])

    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of labs' shares of dampeners": lambda y: by_lab(y < 0).std(axis=0),
        "spread of lab means": lambda y: by_lab(y).std(axis=0),
        f"covariance with {name}": lambda y: (y * centred).mean(axis=-1),
    }


def fitted_line(
    fit: LinesFit,
    rows: pd.DataFrame,
    asked: Mapping[str, Quantity],
    *,
    ways: Sequence[Sequence[str]],
    judged: Sequence[str],
    part: str,
    statistics: Mapping[str, Statistic],
    decisive: Mapping[str, Array | NDArray[np.bool_]],
    tables: Mapping[str, pd.DataFrame],
    seed: int,
    cache: bool,
    group: str = "lab",
    **law: Any,
) -> Fitted:
    """The record of a law that is a line.

    `asked`: quantities whose sign is asked under every alternative and, those `judged`, without each fold of each of
    `ways`; `part`: the line's name in the checks; `law`: the record's other fields.
    """
    model = fit.lines
    return Fitted(
        n_models=rows["model_id"].nunique(),
        n_heritages=rows["heritage"].nunique(),
        parts={part: fit.part(statistics=statistics, decisive=decisive)},
        tables={**tables, "sensitivity": sensitivity(model, asked, seed=seed, group=group)},
        refits=partial(sensitivity_anew, model, asked, group=group, cache=cache),
        influence=partial(without_each, model, {name: asked[name] for name in judged}, ways) if ways else None,
        seed=seed,
        **law,
    )


def without_each(lines: Lines, asked: Mapping[str, Quantity], ways: Sequence[Sequence[str]], seed: int) -> Check:
    """Influence of every fold on P(quantity > 0) by exact refits: does it stay above 0.95, below 0.05 or between?

    `ways`: a name for every row, one way to fold or several; of many names every twentieth are left out together.
    """

    def say(quantity: Quantity, name: str, chosen: Lines) -> tuple[str, dict[str, float]]:
        p = float((quantity(posterior(chosen, seed=seed)) > 0).mean())
        return settled(p), {f"P({name} > 0)": p}

    found = []
    for name, quantity in asked.items():
        for way in ways:
            folds = few_folds(way, "units")
            rests = {fold: lines.rows(np.asarray(folds) != fold) for fold in dict.fromkeys(folds)}
            found.append(influence_of_refits(partial(say, quantity, name), lines, rests))
    return joined(found)


def lines_model(pm: Any, data: Mapping[str, Any]) -> None:
    """y_i ~ N(X_i β + u_g(i), d_i), d_i = σ² + error_i², u_g ~ N(0, τ²), with u summed out.

    Given β, σ and τ, with e = y − Xβ, S_g = Σ_{i∈g} 1/d_i and T_g = Σ_{i∈g} e_i/d_i: −2 log p(y) =
    Σ_i (log 2π d_i + e_i²/d_i) + Σ_g [log(1 + τ² S_g) − τ² T_g²/(1 + τ² S_g)]. Sampling u with τ leaves divergences
    with labs of one model and of twelve. Coefficients of columns of zeros keep their priors and touch nothing.
    """
    beta = pm.Normal("beta", data["mean"], data["sd"], shape=data["n_coefficients"])
    sigma = pm.HalfNormal("sigma", data["sigma_scale"])
    weight = 1 / (sigma**2 + data["error"] ** 2)
    e = data["y"] - pm.math.dot(data["X"], beta)
    total = pm.math.sum(math.log(2 * math.pi) - pm.math.log(weight) + e**2 * weight)
    if data["grouped"]:
        tau = pm.HalfNormal("tau", data["tau_scale"])
        s, t = _sums(pm, weight, data["rows"]), _sums(pm, e * weight, data["rows"])
        total = total + pm.math.sum(pm.math.log(1 + tau**2 * s) - tau**2 * t**2 / (1 + tau**2 * s))
    pm.Potential("log_density", -0.5 * total)


def _sums(pm: Any, values: Any, rows: Any) -> Any:
    """Σ over the rows of every group; `rows`: groups × most rows, numbers of rows, of none where that is n."""
    padded = pm.math.concatenate([values, np.zeros(1)])
    return padded[rows.flatten()].reshape(rows.shape).sum(axis=1)


def heavy_model(pm: Any, data: Mapping[str, Any]) -> None:
    """The same line with t_4 errors of variance d_i, and the levels of groups sampled: u = τ z."""
    beta = pm.Normal("beta", data["mean"], data["sd"], shape=data["n_coefficients"])
    sigma = pm.HalfNormal("sigma", data["sigma_scale"])
    mean = pm.math.dot(data["X"], beta)
    if data["grouped"]:
        z = pm.Normal("z", 0.0, 1.0, shape=data["n_groups"])
        effects = pm.Deterministic("effects", pm.HalfNormal("tau", data["tau_scale"]) * z)
        mean = mean + pm.math.concatenate([effects, np.zeros(1)])[data["group"]]  # -1: none
    scale = pm.math.sqrt(sigma**2 + data["error"] ** 2) / SAME_SD
    pm.StudentT("outcome", nu=NU, mu=mean, sigma=scale, observed=data["y"])


@dataclass(frozen=True, kw_only=True)
class LinesFit:
    """Draws of β, σ and τ through the seam, and of u from its normal distribution given them."""

    draws: Draws
    lines: Lines
    beta: Array
    """chain × draw × coefficients, in the order of the columns of X."""
    effects: Array
    """chain × draw × groups; no groups: of width 0."""
    sigma: Array
    tau: Array

    def part(self, **asked: Any) -> Part:
        """What the checks need of this fit; replicates keep the groups' effects.

        `asked`: statistics and decisive, as `direct_part` takes them.
        """
        model, size, chosen = self.lines, self.sigma.size, spaced(self.draws)
        mean = self.beta.reshape(size, -1)[chosen] @ model.X.T
        if model.n_groups:
            mean = mean + self.effects.reshape(size, -1)[chosen][:, model.groups]
        spread = np.sqrt(np.square(self.sigma.ravel()[chosen])[:, None] + np.square(model.error))
        priors = {"beta": (model.mean, model.sd), "sigma": (0.0, model.sigma_scale)}
        return direct_part(
            self.draws,
            observed=model.y,
            **asked,
            priors=priors | ({"tau": (0.0, model.tau_scale)} if model.n_groups else {}),
            values={"beta": self.beta, "sigma": self.sigma, "tau": self.tau},
            simulator=simulator(model),
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(mean, spread)),
            density=lambda: np.asarray(stats.norm.logpdf(model.y, mean, spread)),
            loo=self._left_out_pit,
        )

    def _left_out_pit(self, seed: int) -> Check:
        """Rows predicted from all others by exact refits; of many rows every twentieth together."""
        folds = few_folds([str(i) for i in range(self.lines.y.size)], "rows")
        return exact_pit(held_out(self.lines, folds, seed=seed, draws=LEFT_OUT).pit)


def sample(lines: Lines, *, seed: int, cache: bool = True) -> LinesFit:
    """Posterior draws through the seam."""
    draws = sampling.fit(lines_model, model_data(lines), seed=seed, settings=STEPS, cache=cache)
    beta, sigma = draws["beta"][..., : lines.X.shape[1]], draws["sigma"]
    tau = draws["tau"] if lines.n_groups else np.zeros(sigma.shape)
    return LinesFit(
        draws=draws, lines=lines, beta=beta, effects=_effects(lines, beta, sigma, tau, seed), sigma=sigma, tau=tau
    )


def _effects(lines: Lines, beta: Array, sigma: Array, tau: Array, seed: int) -> Array:
    """u_g ~ N(τ² T_g/(1 + τ² S_g), τ²/(1 + τ² S_g)) for every draw."""
    member = (lines.groups[:, None] == np.arange(lines.n_groups)).astype(np.float64)
    weight = 1 / (np.square(sigma)[..., None] + np.square(lines.error))
    s, t = weight @ member, (weight * (lines.y - beta @ lines.X.T)) @ member
    shrink = np.square(tau)[..., None] / (1 + np.square(tau)[..., None] * s)
    noise = np.random.default_rng(seed).standard_normal(s.shape)
    return np.asarray(shrink * t + np.sqrt(shrink) * noise)


def model_data(lines: Lines) -> dict[str, Any]:
    """What `lines_model` takes, filled up."""
    p = lines.X.shape[1]
    columns = -(-p // COLUMNS) * COLUMNS
    grouped = {"rows": _rows(lines), "tau_scale": np.array(lines.tau_scale)} if lines.n_groups else {}
    return {
        "y": lines.y,
        "X": np.pad(lines.X, ((0, 0), (0, columns - p))),
        "error": lines.error,
        "mean": np.pad(lines.mean, (0, columns - p)),
        "sd": np.pad(lines.sd, (0, columns - p), constant_values=1.0),
        "sigma_scale": np.array(lines.sigma_scale),
        "n_coefficients": columns,
        "grouped": lines.n_groups > 0,
    } | grouped


def _rows(lines: Lines) -> NDArray[np.int64]:
    """Numbers of the rows of every group, groups × most rows, filled up with n; groups filled up with empty ones."""
    order = np.argsort(lines.groups, kind="stable")
    order = order[lines.groups[order] >= 0]
    group = lines.groups[order]
    sizes = np.bincount(group, minlength=-(-lines.n_groups // GROUPS) * GROUPS)
    found = np.full((sizes.size, sizes.max()), lines.y.size)
    found[group, np.arange(order.size) - (np.cumsum(sizes) - sizes)[group]] = order
    return found


def simulator(lines: Lines) -> Simulator:
    """The same lines with other outcomes, fitted as `sample` does it."""
    p = lines.X.shape[1]

    def joint(seed: int, draws: int) -> tuple[dict[str, Array], Array]:
        rng = np.random.default_rng(seed)
        beta = rng.normal(lines.mean, lines.sd, (draws, p))
        sigma, tau = (np.abs(rng.normal(0, scale, (draws, 1))) for scale in (lines.sigma_scale, lines.tau_scale))
        mean = beta @ lines.X.T
        if lines.n_groups:
            mean = mean + (tau * rng.standard_normal((draws, lines.n_groups)))[:, lines.groups]
        outcomes = np.asarray(rng.normal(mean, np.sqrt(sigma**2 + lines.error**2)))
        return {"beta": beta, "sigma": sigma[:, 0]} | ({"tau": tau[:, 0]} if lines.n_groups else {}), outcomes

    return by_sampling(
        lines_model,
        model_data(lines),
        joint,
        lambda y: {"y": y},
        settings=replace(SHORT, target_accept=STEPS.target_accept),
        quantities=lambda drawn: {**drawn, "beta": drawn["beta"][..., :p]},
    )


def sensitivity_anew(
    lines: Lines, quantities: Mapping[str, Quantity], seed: int, *, group: str = "lab", cache: bool = True
) -> pd.DataFrame:
    """The table of alternatives with t errors sampled, and the `status` of these draws."""
    data = {k: v for k, v in model_data(lines).items() if k != "rows"}
    if lines.n_groups:
        data |= {"group": lines.groups, "n_groups": lines.n_groups}
    draws = sampling.fit(heavy_model, data, seed=seed, settings=STEPS, cache=cache)
    sigma = draws.flat("sigma")
    found = Posterior(
        log_evidence=math.nan,
        beta=draws.flat("beta")[:, : lines.X.shape[1]],
        effects=draws.flat("effects") if lines.n_groups else np.empty((sigma.size, 0)),
        sigma=sigma,
        tau=draws.flat("tau") if lines.n_groups else np.zeros(sigma.size),
    )
    rows = [{**row(HEAVY, name, of(found), lines.y.size), "status": draws.status} for name, of in quantities.items()]
    exact = exactly_refitted(lines, quantities, seed=seed, group=group).assign(status=PASSED)
    return pd.concat([exact, pd.DataFrame(rows)], ignore_index=True)


def between(lines: Lines, lower: Array, upper: Array, *, seed: int) -> Lines:
    """The same model with y_i only known to lie between lower_i and upper_i, one of which may be infinite.

    By expectation propagation every indicator lower_i < y_i < upper_i becomes the normal factor N(y_i | m_i, r_i²) that
    gives the mean and variance of y_i under its prediction from the other rows, truncated to the bounds; m and r take
    the place of y and error (Minka 2001, arXiv:1301.2294). For narrow bounds that is their middle and width/√12.
    """
    closed = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(closed, (lower + upper) / 2, np.where(np.isfinite(lower), lower + BEYOND, upper - BEYOND))
        width = np.where(closed, (upper - lower) / 12**0.5, BEYOND)
    found = replace(lines, y=middle, error=width)
    folds = few_folds([str(i) for i in range(lines.y.size)], "rows")
    for _ in range(ROUNDS):
        drawn = held_out(found, folds, seed=seed, draws=DRAWS, exact=True).draws
        centre, spread = drawn.mean(axis=0), drawn.std(axis=0)
        a, b = (np.clip((bound - centre) / spread, -35, 35) for bound in (lower, upper))
        mean, variance = stats.truncnorm.stats(a, np.maximum(b, a + 1e-9), centre, spread, moments="mv")
        known = 1 / variance - 1 / np.square(spread)
        usable = known > LEAST_KNOWN**-2
        known = np.where(usable, known, LEAST_KNOWN**-2)
        y = np.where(usable, (mean / variance - centre / np.square(spread)) / known, mean)
        found = replace(lines, y=np.asarray(y), error=np.asarray(known**-0.5))
    return found
