"""y_i = X_i β + u_g(i) + ε_i, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²): a line with levels of groups and known errors.

Every straight law is this line with its own columns and prior scales: β normal, σ and τ half-normal. It is fitted and
refitted exactly by `quadrature`. `fit_line` is the plain case: a mean or a slope over
models, the counterpart of a t test; `between` takes outcomes that are known only to lie between bounds.
"""

from __future__ import annotations

import math
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from thermostats.modelling.inference.calibration import SHORT, Refit, Simulator, exactly
from thermostats.modelling.inference.checks import Check, Statistic, exact_pit
from thermostats.modelling.inference.draws import SEED, Array, Draws, Settings
from thermostats.modelling.inference.fitted import NO_SOURCE, Fitted, chances
from thermostats.modelling.inference.held_out import few_folds, held_out, model_folds
from thermostats.modelling.inference.parts import Part, direct_part, names_of, spaced
from thermostats.modelling.inference.quadrature import Lines, Posterior, posterior
from thermostats.modelling.inference.sensitivity import HEAVY, alternatives, heavy_errors
from thermostats.modelling.inference.statements import Quantities, Statement
from thermostats.plots.marks import ABOVE, mark

LEAST = 4
"""Rows beyond the number of coefficients' own that a residual needs."""
MOST_NAMED = 10
"""Groups that a legend can still tell apart."""
LEFT_OUT = 1000
"""Predictive draws of a row that is left out."""
SETTINGS = Settings()
"""Of the draws, which are independent."""
ROUNDS, DRAWS = 4, 600
"""Of expectation propagation, and predictive draws in each."""
BEYOND = 1.0
"""Where an open outcome is put at first: this far beyond its one bound."""
LEAST_KNOWN = 30.0
"""Standard error of an outcome of which its bounds say nothing."""
STATISTICS: dict[str, Statistic] = {"mean": lambda y: y.mean(axis=-1), "spread": lambda y: y.std(axis=-1)}
Change = Callable[[Lines], Lines]
"""The same lines under other priors, or some of their rows."""


def fit_line(
    table: pd.DataFrame,
    outcome: str,
    covariates: Sequence[str] = (),
    *,
    scale: float,
    group: str | None = "heritage",
    error: str | None = None,
    sources: Sequence[str] = (),
    seed: int = SEED,
) -> Fitted:
    """y_i = a + Σ_k b_k z_ik + u_g(i) + ε_i, z standardised, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²).

    `table`: one row per unit with `model_id`, `heritage`; `outcome` and `covariates` name columns of numbers, `error` a
    column of known standard errors of the outcome, `group` a column whose values have a level of their own (None: no
    levels). `scale`: a difference of the outcome that would be no surprise; a ~ N(0, (2 scale)²), b_k ~ N(0, scale²),
    σ and τ half-normal of that scale. Quantities: mean (a), "slope on <covariate>" for each in units of the covariate,
    residual_sd and, with levels, group_sd. Probabilities: "mean > 0" and "slope on <covariate> > 0" for each.
    Table: `rows`. Alternatives are exact refits, and t errors by importance weights.

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
    sizes = {"mean": 1.0} | {slope_on(name): spread[name][2] for name in covariates}
    asked: dict[str, Statement] = {f"{name} > 0": lambda drawn, name=name: drawn[name] > 0 for name in sizes}  # type: ignore[misc]

    def quantities(found: Posterior) -> Quantities:
        slopes = {name: found.beta[..., k] / size for k, (name, size) in enumerate(sizes.items())}
        return slopes | {"residual_sd": found.sigma} | ({"group_sd": found.tau} if grouped else {})

    few_folds([str(i) for i in range(y.size)], "rows", said)
    return fitted_line(
        model,
        table,
        quantities,
        ways=_ways(levels, table["model_id"].astype(str).tolist()),
        part="line",
        statistics=STATISTICS | {f"covariance with {n}": _covariance(spread[n][0]) for n in covariates[-1:]},
        statements=asked,
        group="lab" if grouped == "heritage" else str(grouped),
        seed=seed,
        family="line",
        estimand=outcome,
        sources=tuple(sources),
        numbers={f"one_sd_of_{name}": spread[name][2] for name in covariates},
        tables={
            "rows": table[list(dict.fromkeys(["model_id", "heritage", *covariates]))].assign(outcome=y, error=known)
        },
        warnings=tuple(said),
        figure=_figure,
        labels={"beta": ("intercept", *covariates)},
        equations=_equations(outcome, covariates, grouped, error),
        priors=_priors(scale, covariates, grouped),
    )


def slope_on(covariate: str) -> str:
    """Name of a slope among a line's quantities."""
    return f"slope on {covariate}"


def _covariance(z: Array) -> Statistic:
    return lambda y: (y * z).mean(axis=-1)


def _levels(table: pd.DataFrame, group: str | None) -> tuple[list[str], list[str]]:
    """The group of every row, none if there are no levels to fit; and what cannot be separated."""
    if not group:
        return [], []
    found = labels(table[group], group).tolist()
    if len(set(found)) < 2:
        return [], [f"one {group}: its level cannot be separated from the mean, so none is fitted"]
    if len(set(found)) == len(found):
        return found, [
            f"one row of every {group}: its level cannot be separated from the residual, so their priors decide"
        ]
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
    slopes = {name: float(np.median(fitted.quantities[slope_on(name)])) for name in others}
    part = sum(slope * (rows[name] - rows[name].mean()) for name, slope in slopes.items())
    points(axes, rows.assign(_x=x, _y=rows["outcome"] - part), "_x", "_y")
    grid = np.linspace(x.min(), x.max(), 50)
    slope = fitted.quantities[slope_on(asked)].reshape(-1, 1) if asked else 0.0
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


def lab_statistics(labs: NDArray[np.int64], x: Array, name: str) -> dict[str, Statistic]:
    """Test quantities of log gains: who dampens, how labs differ, and whether gains go with x; `labs` from 0."""

    def by_lab(y: Array | NDArray[np.bool_]) -> Array:
        return np.stack([y[..., labs == g].mean(axis=-1) for g in range(labs.max() + 1)])

    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of labs' shares of dampeners": lambda y: by_lab(y < 0).std(axis=0),
        "spread of lab means": lambda y: by_lab(y).std(axis=0),
        f"covariance with {name}": _covariance(x - x.mean()),
    }


def fitted_line(
    lines: Lines,
    rows: pd.DataFrame,
    quantities: Callable[[Posterior], Quantities],
    *,
    ways: Sequence[Sequence[str]],
    part: str,
    statistics: Mapping[str, Statistic],
    statements: Mapping[str, Statement],
    seed: int,
    group: str = "lab",
    more: Callable[[Change], Quantities] = lambda change: {},
    probabilities: Mapping[str, float] | None = None,
    **law: Any,
) -> Fitted:
    """The record of a law that is a line.

    `quantities`: of its draws, chain × draw × …, and of those of a refit; `more`: further draws that statements may ask
    about, of other lines under the same change; `ways`: a name for every row, one way to leave rows out or several;
    `part`: the line's name in the checks; `law`: the record's other fields.
    """
    fit = sample(lines, seed=seed)
    found = quantities(_in_chains(fit.posterior, SETTINGS.chains))

    def again(change: Change) -> Quantities:
        refit = _in_chains(posterior(change(lines), seed=seed), 1)
        return ChainMap(dict(quantities(refit)), more(change))  # type: ignore[arg-type]

    def others(seed: int) -> Iterator[tuple[str, Quantities]]:
        for name in alternatives(lines, group):
            yield name, again(lambda own, name=name: alternatives(own, group)[name])  # type: ignore[misc]

    def left_out(seed: int) -> Iterator[tuple[str, Quantities]]:
        for way in ways:
            for fold, kept in each_left_out(way):
                yield fold, again(lambda own, kept=kept: own.rows(kept))  # type: ignore[misc]

    return Fitted(
        n_models=rows["model_id"].nunique(),
        n_heritages=rows["heritage"].nunique(),
        parts={part: fit.part(statistics=statistics, of=names_of(rows))},
        quantities=found,
        more=more(lambda own: own),
        statements=statements,
        probabilities=chances(statements, found) | dict(probabilities or {}),
        alternatives=others,
        left_out=left_out if ways else None,
        seed=seed,
        **law,
    )


def each_left_out(names: Sequence[str]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Every name, of many every twentieth together, and which rows are left without it."""
    folds = np.asarray(few_folds(names, "units"))
    for fold in dict.fromkeys(folds.tolist()):
        yield fold, folds != fold


def _in_chains(found: Posterior, chains: int) -> Posterior:
    """The same draws of β, σ and τ, chain × draw × …"""
    own = {name: getattr(found, name) for name in ("beta", "sigma", "tau")}
    return replace(found, **{name: drawn.reshape(chains, -1, *drawn.shape[1:]) for name, drawn in own.items()})


@dataclass(frozen=True, kw_only=True)
class LinesFit:
    """Draws of a line and what they are of."""

    draws: Draws
    lines: Lines
    posterior: Posterior
    """The same draws, chains joined, with the effects of groups."""

    def part(self, **asked: Any) -> Part:
        """What the checks need of this fit; replicates keep the groups' effects.

        `asked`: statistics, as `direct_part` takes them.
        """
        model, found, chosen = self.lines, self.posterior, spaced(self.draws)
        mean = found.beta[chosen] @ model.X.T
        if model.n_groups:
            mean = mean + found.effects[chosen][:, model.groups]
        spread = np.sqrt(np.square(found.sigma[chosen])[:, None] + np.square(model.error))
        priors = {"beta": (model.mean, model.sd), "sigma": (0.0, model.sigma_scale)}

        def pit(seed: int) -> Check:
            """Rows predicted from all others by exact refits; of many rows every twentieth together."""
            return exact_pit(held_out(model, model_folds(model.y.size, []), seed=seed, draws=LEFT_OUT).pit)

        return direct_part(
            self.draws,
            observed=model.y,
            **asked,
            priors=priors | ({"tau": (0.0, model.tau_scale)} if model.n_groups else {}),
            simulator=simulator(model),
            replicate=lambda seed: np.asarray(np.random.default_rng(seed).normal(mean, spread)),
            density=lambda: np.asarray(stats.norm.logpdf(model.y, mean, spread)),
            alternatives=lambda: {HEAVY: heavy_errors(model, found).reshape(self.draws["sigma"].shape)},
            loo=pit,
        )


def sample(lines: Lines, *, seed: int) -> LinesFit:
    """Independent posterior draws by quadrature."""
    start = time.perf_counter()
    found = posterior(lines, seed=seed, draws=SETTINGS.chains * SETTINGS.draws)
    draws = sampling.exact_draws(_drawn(lines, found), seed=seed, settings=SETTINGS, start=start)
    return LinesFit(draws=draws, lines=lines, posterior=found)


def _drawn(lines: Lines, found: Posterior) -> dict[str, Array]:
    return {"beta": found.beta, "sigma": found.sigma} | ({"tau": found.tau} if lines.n_groups else {})


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

    def again(outcome: Array, seed: int) -> Refit:
        found = posterior(replace(lines, y=outcome), seed=seed, draws=SHORT.chains * SHORT.draws)
        return exactly(_drawn(lines, found))

    return Simulator(joint=joint, posterior=again)


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
    folds = model_folds(lines.y.size, [])
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
