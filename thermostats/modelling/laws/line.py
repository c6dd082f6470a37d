"""A mean or a straight line over models, with a level for every group: the plain counterpart of a t test or a slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import columns_of, labels, numbers
from thermostats.modelling.heritage.rows import lines, standardised
from thermostats.modelling.inference.checks import Check, Statistic, joined
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted
from thermostats.modelling.inference.held_out import few_folds
from thermostats.modelling.inference.quadrature import Lines, Posterior
from thermostats.modelling.inference.sensitivity import sensitivity
from thermostats.modelling.laws import linear
from thermostats.plots.marks import ABOVE, mark

LEAST = 4
"""Rows beyond the number of coefficients' own that a residual needs."""
MOST_NAMED = 10
"""Groups that a legend can still tell apart."""


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
    said: list[str] = []
    labs = labels(table[group], group).tolist() if group else []
    if group and len(set(labs)) < 2:
        said.append(f"one {group}: its level cannot be told from the mean, and none is fitted")
    elif group and len(set(labs)) == len(labs):
        said.append(f"one row of every {group}: its level cannot be told from the row's rest, their priors decide")
    grouped = group if group and len(set(labs)) >= 2 else None
    said += [] if sources else [NO_SOURCE]
    X = np.column_stack([np.ones(y.size), *(spread[name][0] for name in covariates)])
    if (rank := int(np.linalg.matrix_rank(X))) < X.shape[1]:
        said.append(f"columns of rank {rank - 1} of {len(covariates)}: priors decide between their slopes")
    known = numbers(table[error].astype("float64"), error, least=1) if error else np.zeros(y.size)
    if (known < 0).any():
        raise UsageError("a standard error below 0", where=error, got=f"{known.min():g}", allowed="0 or above")
    sd = [2 * scale, *[scale] * len(covariates)]
    model = lines(table, y, X, sd=sd, sigma_scale=scale, tau_scale=scale, groups=grouped, error=known)
    fit = linear.sample(model, seed=seed, cache=cache)
    quantities = {"mean": fit.beta[..., 0]}
    quantities |= {name: fit.beta[..., k] / spread[name][2] for k, name in enumerate(covariates, 1)}
    quantities |= {"residual_sd": fit.sigma} | ({"group_sd": fit.tau} if grouped else {})
    sizes = {"mean": 1.0} | {name: spread[name][2] for name in covariates}
    slopes = {name: partial(_coefficient, k, 1 / size) for k, (name, size) in enumerate(sizes.items())}
    kind = "lab" if grouped == "heritage" else str(grouped)
    decided = {f"{name} > 0": quantities[name] > 0 for name in ("mean", *covariates)}
    column = len(covariates)
    last = covariates[-1] if covariates else "mean"
    ways = _ways(labs if grouped else [], table["model_id"].astype(str).tolist())
    few_folds([str(i) for i in range(y.size)], "rows", said)
    keep = ["model_id", "heritage", *covariates]
    return Fitted(
        family="line",
        estimand=outcome,
        sources=tuple(sources),
        n_models=table["model_id"].nunique(),
        n_heritages=table["heritage"].nunique(),
        parts={"line": fit.part(_statistics({name: spread[name][0] for name in covariates}), decided)},
        quantities=quantities,
        probabilities={statement: float(true.mean()) for statement, true in decided.items()},
        numbers={f"one_sd_of_{name}": spread[name][2] for name in covariates},
        tables={
            "rows": table[list(dict.fromkeys(keep))].assign(outcome=y, error=known),
            "sensitivity": sensitivity(model, slopes, seed=seed, group=kind),
        },
        warnings=tuple(said),
        figure=_figure,
        refits=partial(linear.sensitivity_anew, model, slopes, group=kind, cache=cache),
        influence=partial(_left_out, model, ways, column, last) if ways else None,
        equations=_equations(outcome, covariates, grouped, error),
        priors=_priors(scale, covariates, grouped),
        seed=seed,
    )


def _ways(groups: Sequence[str], models: Sequence[str]) -> list[Sequence[str]]:
    """What is left out in turn: groups where there are three or more, and models where they are not the same rows."""
    found: list[Sequence[str]] = [groups] if len(set(groups)) > 2 else []
    finer = len(set(zip(groups, models, strict=True))) > len(set(groups)) if found else True
    return [*found, *([models] if finer and len(set(models)) > 1 else [])]


def _coefficient(column: int, factor: float, found: Posterior) -> Array:
    return factor * found.beta[:, column]


def _left_out(model: Lines, ways: Sequence[Sequence[str]], column: int, name: str, seed: int) -> Check:
    """Exact refits without each group, then without each model; of many every twentieth together."""
    slope = partial(_coefficient, column, 1.0)
    return joined([linear.without_each(model, few_folds(way, "units"), slope, name, seed) for way in ways])


def _statistics(columns: dict[str, Array]) -> dict[str, Statistic]:
    found: dict[str, Statistic] = {
        "mean": lambda y: y.mean(axis=-1),
        "spread": lambda y: y.std(axis=-1),
        "largest": lambda y: y.max(axis=-1),
        "smallest": lambda y: y.min(axis=-1),
    }
    for name, z in columns.items():
        found[f"covariance with {name}"] = lambda y, z=z: (y * z).mean(axis=-1)  # type: ignore[misc]
    return found


def _equations(outcome: str, covariates: Sequence[str], group: str | None, error: str | None) -> tuple[str, ...]:
    slopes = "".join(f" + b_{k} z_{k}i" for k in range(1, len(covariates) + 1))
    level = f" + u_{group}(i)" if group else ""
    first = f"{outcome}_i = a{slopes}{level} + ε_i"
    named = tuple(f"z_{k}: {name}, standardised" for k, name in enumerate(covariates, 1))
    noise = f"ε_i ~ N(0, σ² + {error}_i²)" if error else "ε_i ~ N(0, σ²)"
    return (first, *named, *((f"u_{group} ~ N(0, τ²)",) if group else ()), noise)


def _priors(scale: float, covariates: Sequence[str], group: str | None) -> tuple[tuple[str, str, str], ...]:
    why = f"a difference of {scale:g} would be no surprise"
    rows = [("a", f"N(0, {2 * scale:g}²)", f"twice the scale: {why}")]
    rows += [(f"b_{k}", f"N(0, {scale:g}²)", f"over one SD of {name}; {why}") for k, name in enumerate(covariates, 1)]
    rows.append(("σ", f"half-normal({scale:g})", why))
    rows += [("τ", f"half-normal({scale:g})", why)] if group else []
    return tuple(rows)


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    """Outcomes with their errors over the covariate asked, which is the last, and the line's interval.

    Where there are other covariates their part, by the slopes' medians, is taken off the outcomes.
    """
    rows = fitted.table("rows")
    covariates = [name for name in rows.columns if name not in {"model_id", "heritage", "outcome", "error"}]
    *others, asked = covariates or [""]
    x = rows[asked].to_numpy(dtype=np.float64) if asked else np.arange(len(rows), dtype=np.float64)
    part = sum(float(np.median(fitted.quantities[name])) * (rows[name] - rows[name].mean()) for name in others)
    y = rows["outcome"] - part
    labs = rows.groupby("heritage")
    for lab, own in labs:
        at = x[rows.index.get_indexer(own.index)]
        color, marker = mark(str(lab))
        axes.errorbar(at, y[own.index], own["error"], fmt=marker, color=color, markersize=5, label=str(lab))
    grid = np.linspace(x.min(), x.max(), 50)
    level = fitted.quantities["mean"].reshape(-1, 1)
    slope = fitted.quantities[asked].reshape(-1, 1) if asked else 0.0
    band = level + slope * (grid - x.mean())
    lower, middle, upper = np.quantile(band, [(1 - fitted.level) / 2, 0.5, (1 + fitted.level) / 2], axis=0)
    axes.plot(grid, middle, color="0.2", linewidth=1)
    axes.fill_between(grid, lower, upper, color="0.2", alpha=0.15, linewidth=0)
    axes.axhline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xlabel(asked.replace("_", " "))
    axes.set_ylabel(fitted.estimand.replace("_", " ") + (", others held" if others else ""))
    if not asked:
        axes.set_xticks(x, rows["model_id"], rotation=45, ha="right")
    if len(labs) <= MOST_NAMED:
        axes.legend(**ABOVE)
    return axes
