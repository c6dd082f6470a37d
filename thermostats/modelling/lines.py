"""y_i = X_i β + u_g(i) + ε_i, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²): a line with levels of
groups and known errors.

Every straight law is this line with its own columns and prior scales: β normal, σ and τ
half-normal; the exact engine draws it. `fit_line` is the plain case, a mean or a slope over models,
the counterpart of a t test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.formatting import listed, short_name
from thermostats.modelling import laws
from thermostats.modelling.columns import (
    Columns,
    errors_not_read,
    errors_of_logs,
    free_name,
    labels,
    numbers,
    prior_scale,
    stated,
    unit_rows,
)
from thermostats.modelling.draws import SEED, Array, Statement, Statistic
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian, HalfNormals, Mixture
from thermostats.modelling.labelled import formula_of
from thermostats.modelling.laws import (
    AS_GIVEN,
    WIDER,
    Design,
    Law,
    OutcomeScale,
    Prior,
    Regressors,
    fits,
)
from thermostats.modelling.leave_out import held_out_of
from thermostats.modelling.populations import numbered
from thermostats.next_steps import LEFT_OUT, Code, again
from thermostats.plots.general import legend_above, mark

LAB = "heritage"
MODEL = "model_id"
LEAST = 4
"""Rows beyond the number of coefficients that a residual needs."""
ERROR = "standard error of the outcome"
"""Column of the errors that a line has, whatever they were called."""
LOG_OF = re.compile(r"^(?:np\.)?(log|log10|log2)\(([^()]+)\)$")
"""The log of one column, as a formula has it."""
BASES = {"log": 1.0, "log10": math.log(10), "log2": math.log(2)}
LEVEL = "level"
"""Name of the levels of `group` among the draws."""
MOST_NAMED = 10
"""Groups that a legend can still tell apart."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Columns of rows, and prior scales."""

    outcome: str
    covariates: tuple[str, ...] = ()
    sd: tuple[float, ...]
    """Standard deviations of the normal priors of the intercept and of every slope."""
    sigma: float
    """Scale of the half-normal prior of σ."""
    tau: float
    """Scale of the half-normal prior of τ."""
    group: str | None = "heritage"
    """Column whose values have a level of their own; None: no levels."""
    levels: tuple[str, ...] = ()
    """Further columns whose values have."""
    error: str | None = None
    """Column of known standard errors of the outcome."""
    scale: OutcomeScale = AS_GIVEN
    """That of the outcome."""
    standardised: bool = True
    """Covariates are standardised; their means and SDs are constants of the fit."""

    def of(self, rows: pd.DataFrame) -> LineDesign:
        """The line of these rows."""
        units = dict.fromkeys(self.covariates, (0.0, 1.0))
        if self.standardised:
            columns = {name: rows[name].to_numpy(dtype=np.float64) for name in self.covariates}
            units = {name: (float(x.mean()), float(x.std())) for name, x in columns.items()}
        return self.in_units(rows, units, dict.fromkeys(self.blocks, ()))

    def in_units(
        self,
        rows: pd.DataFrame,
        units: Mapping[str, tuple[float, float]],
        levels: Mapping[str, tuple[str, ...]],
    ) -> LineDesign:
        """The line of rows whose covariates have these means and SDs; these levels come first."""
        columns = [np.ones(len(rows))]
        for name in self.covariates:
            columns.append(
                (rows[name].to_numpy(dtype=np.float64) - units[name][0]) / units[name][1]
            )
        names = dict[str, tuple[str, ...]]()
        blocks = dict[str, Array]()
        codes: dict[str, NDArray[np.int64]] = {}
        for block, column in self.blocks.items():
            names[block], codes[block] = numbered(rows[column].astype(str), levels[block])
            blocks[block] = np.eye(len(names[block]))[codes[block]]
        missing = np.zeros(len(rows))
        model = Gaussian(
            y=rows[self.outcome].to_numpy(dtype=np.float64) if self.outcome in rows else missing,
            X=np.column_stack(columns),
            sd=np.asarray(self.sd),
            blocks=blocks,
            prior=HalfNormals((*[self.tau] * len(blocks), self.sigma)),
            error=rows[self.error].to_numpy(dtype=np.float64) if self.error in rows else missing,
        )
        return LineDesign(
            model=model,
            outcomes=tuple(rows.index),
            scale=self.scale,
            groups=tuple(self.blocks.values()),
            covariates=self.covariates,
            regressors=Regressors(x=model.X[:, :0:-1], groups=codes.get(LEVEL)),
            line=self,
            units=units,
            names=names,
        )

    @property
    def blocks(self) -> dict[str, str]:
        """Kinds of levels, name to column."""
        return ({} if self.group is None else {LEVEL: self.group}) | {
            name: name for name in self.levels
        }

    def wider(self, factor: float) -> Line:
        """The line with all prior scales times a factor."""
        sd = tuple(factor * scale for scale in self.sd)
        return replace(self, sd=sd, sigma=factor * self.sigma, tau=factor * self.tau)

    def others(self, groups: str = "labs") -> dict[str, Line]:
        """The same rows under other priors, with exact outcomes, without levels."""
        lines = {name: self.wider(factor) for name, factor in WIDER.items()}
        if self.error:
            lines["outcomes taken as exact"] = replace(self, error=None)
        if self.group:
            lines[f"no effects of {groups}"] = replace(self, group=None)
        if self.levels:
            lines[f"no levels of {listed(self.levels)}"] = replace(self, levels=())
        return lines


@dataclass(frozen=True, kw_only=True, eq=False)
class LineDesign(Design):
    """A line of rows, with the units of its covariates and the names of its levels."""

    line: Line
    units: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of every covariate."""
    names: Mapping[str, tuple[str, ...]]
    """Levels of every block."""

    def of_new(self, rows: pd.DataFrame) -> LineDesign:
        """Other rows in the same units."""
        return self.line.in_units(rows, self.units, self.names)


def line_law(law: Law, line: Line, groups: str = "labs") -> Law:
    """A law whose model is a line, with its alternatives."""
    others = {name: replace(law, of=other.of) for name, other in line.others(groups).items()}
    return replace(law, of=line.of, alternatives=others)


def gaussian_of(line: Line, rows: pd.DataFrame) -> Gaussian:
    """The model of a line."""
    model = line.of(rows).model
    if not isinstance(model, Gaussian):
        raise TypeError("a line is Gaussian")
    return model


@fits
def fit_line(
    table: pd.DataFrame,
    outcome: str,
    covariates: str | Sequence[str] = (),
    *,
    scale: float | None = None,
    model: str | Sequence[str] | None = "model_id",
    group: str | None = LAB,
    levels: Sequence[str] = (),
    se: str | float | None = None,
    sources: Sequence[str] = (),
    seed: int = SEED,
) -> Fit:
    """y_i = a + Σ_k b_k z_ik + u_g(i) + ε_i, z standardised, u_g ~ N(0, τ²), ε_i ~ N(0, σ² +
    error_i²).

    `table`: one row per unit. `outcome` and `covariates` name columns of numbers, or `outcome` is a
    formula such as "gain ~ layers + np.log(params)". `se`: known standard errors of the outcome as
    given, a column or one number; of the log of a column, by the delta method, those of the column.
    `model`: the column, or columns together, that name a row (None: rows are units; with `levels` a
    model has a row of each). `group`: a column whose values have a level of their own (None: no
    levels, and none where a table has no column `heritage` and no other is named). `levels`:
    further ones, such as source, prompt_set and dtype where rows of several sources meet; of each v
    ~ N(0, τ_k²) is added. `scale`: a difference of the outcome that would be no surprise; a ~ N(0,
    (2 scale)²), b_k ~ N(0, scale²), σ and every τ half-normal of that scale. By default it is the
    outcome's standard deviation, and of a its root mean square. Quantities: mean (a), "slope on
    <covariate>" for each in units of the covariate, residual_sd, with levels group_sd, and
    <column>_sd of every further one. Statements: "mean > 0" and "slope on <covariate> > 0" for
    each. Table: `rows`. Alternatives are exact refits. Models whose gains are near 1 by
    construction (`comparable` false) are left out with a warning.

    Raises UsageError for missing columns or groups, a unit in two rows, values that are no finite
    numbers, a constant outcome or covariate, errors that are missing, below 0 or, without a scale,
    larger than the outcomes, a scale that is not above 0, or fewer rows than four more than
    covariates.
    """
    named = dict.fromkeys([covariates] if isinstance(covariates, str) else covariates)
    formula = formula_of(outcome, table) if "~" in outcome else None
    if formula:
        outcome = formula.outcome
        named = dict.fromkeys(formula.covariates)
    if outcome in named:
        step = again(outcome=outcome, covariates=[name for name in named if name != outcome])
        raise UsageError(
            "the outcome is among its covariates",
            where=outcome,
            allowed="other columns",
            next_step=step,
        )
    of_table = {"se": se} if isinstance(se, str) else {}
    columns = of_table if formula else {"outcome": outcome, "covariates": [*named], **of_table}
    levels = list(dict.fromkeys(levels))
    if group in levels:
        once = [name for name in levels if name != group]
        raise UsageError(
            "a column is named as group and among levels",
            where=group,
            got="two levels of one column",
            allowed="each column once",
            next_step=again(levels=once or LEFT_OUT),
        )
    names = Columns(call="fit_line", named={**columns, "levels": levels})
    names = replace(names, computed=formula.rows) if formula else names
    units = unit_rows(table, names, [MODEL, *levels] if model == MODEL and levels else model, group)
    rows = units.rows
    group = units.group
    warnings = units.warnings
    y = numbers(rows[outcome], outcome, least=LEAST + len(named), varied=True)
    for name in named:
        numbers(rows[name], name, varied=True, truths=True)
    if se is not None:
        errors, words = _errors(rows, se, outcome, y, scaled=scale is not None)
        rows = rows.assign(**{ERROR: errors})
        warnings += words
    warnings += errors_not_read(rows, outcome, se)
    group, of_levels = _levels(rows, group)
    warnings += [*of_levels, *_further(rows, group, levels)]
    spread = float(y.std()) if scale is None else prior_scale(scale, outcome)
    centre = float(np.sqrt(np.square(y).mean())) if scale is None else scale
    line = Line(
        outcome=outcome,
        covariates=tuple(named),
        sd=(2 * centre, *[spread] * len(named)),
        sigma=spread,
        tau=spread,
        group=group,
        levels=tuple(name for name in levels if rows[name].nunique() > 1),
        error=ERROR if se is not None else None,
        scale=_scale_of(outcome),
    )
    if (rank := int(np.linalg.matrix_rank(gaussian_of(line, rows).X))) <= len(named):
        warnings.append(
            f"columns of rank {rank - 1} of {len(named)}: priors decide between their slopes"
        )
    law = line_law(_law(line, scale), line, "labs" if group == LAB else f"{group}s")
    return law_fitted(
        law,
        rows,
        seed=seed,
        estimand=outcome,
        sources=sources,
        warnings=warnings,
        reads=units.columns.of_new,
    )


def _errors(
    rows: pd.DataFrame, se: str | float, outcome: str, y: Array, *, scaled: bool
) -> tuple[Array, list[str]]:
    """Known standard errors of outcomes, and what was done to them; UsageError where they may be of
    another unit."""
    if log := LOG_OF.match(outcome):
        column = log[2].strip()
        values = numbers(rows[column], column, positive=True)
        errors, words = errors_of_logs(rows, se, column, values)
        return errors / BASES[log[1]], [words]
    if outcome not in rows or "(" in outcome:
        line = again(Code("df.assign(y=VALUES, y_se=ERRORS)"), outcome=Code("FORMULA"), se="y_se")
        step = f"put both into columns: {line}"
        allowed = "a column, or the log of one"
        raise UsageError(
            "errors of such an outcome are not known",
            where=outcome,
            allowed=allowed,
            next_step=step,
        )
    errors = stated(rows, se, outcome)
    typical = float(np.sqrt(np.square(y).mean()))
    if not scaled and np.median(errors) > typical:
        raise UsageError(
            f"is this the standard error of {outcome}, in its unit? Most errors are larger than "
            f"the outcomes",
            where=se,
            got=f"a median of {np.median(errors):.4g}, where outcomes have a root mean square of "
            f"{typical:.4g}",
            allowed="errors in the outcome's unit; where they are, scale= says what difference "
            "would be no surprise",
            next_step=again(scale=float(f"{typical:.2g}")),
        )
    return errors, []


def _scale_of(outcome: str) -> OutcomeScale:
    """That of the log of a column, as a formula has it, or as it is given."""
    if log := LOG_OF.match(outcome):
        unit = BASES[log[1]]
        return OutcomeScale(
            word=log[1], back=lambda drawn: np.exp(unit * drawn), bound=1.0, outcome=log[2].strip()
        )
    return AS_GIVEN


def slope_on(covariate: str) -> str:
    """Name of a slope among a line's quantities."""
    return f"slope on {covariate}"


def _law(line: Line, scale: float | None) -> Law:
    scaled = scale is not None
    why = (
        f"a difference of {scale:g} would be no surprise"
        if scaled
        else f"the spread of {line.outcome} in these rows"
    )
    names = ["mean", *(slope_on(name) for name in line.covariates)]
    statements: dict[str, Statement] = {f"{name} > 0": partial(_above_0, name) for name in names}
    slopes = "".join(f" + b_{k} z_{k}i" for k in range(1, len(line.covariates) + 1))
    first = f"twice the scale: {why}" if scaled else "twice the outcome's root mean square"
    further = "".join(f" + v_{name}(i)" for name in line.levels)
    priors: list[Prior] = [("a", f"N(0, {line.sd[0]:.4g}²)", first)]
    priors += [
        (f"b_{k}", f"N(0, {line.sigma:.4g}²)", f"over one SD of {name}; {why}")
        for k, name in enumerate(line.covariates, 1)
    ]
    scales = ["σ", *(["τ"] if line.group else []), *(f"τ_{name}" for name in line.levels)]
    priors += [(name, f"half-normal({line.sigma:.4g})", why) for name in scales]
    return Law(
        name="line",
        of=line.of,
        quantities=partial(_quantities, line),
        statements=statements,
        statistics=line_statistics,
        equations=(
            f"{line.outcome}_i = a{slopes}{f' + u_{line.group}(i)' if line.group else ''}{further} "
            f"+ ε_i",
            *(f"z_{k}: {name}, standardised" for k, name in enumerate(line.covariates, 1)),
            *([f"u_{line.group} ~ N(0, τ²)"] if line.group else []),
            *(f"v_{name} ~ N(0, τ_{name}²)" for name in line.levels),
            f"ε_i ~ N(0, σ²{' + se_i²' if line.error else ''})",
        ),
        priors=tuple(priors),
        tables={"rows": partial(_rows, line)},
        figures={"fit": partial(_figure, line)},
        units=((line.group,) if line.group else ()) + ("model_id",),
    )


def _above_0(name: str, quantities: Mapping[str, Array]) -> NDArray[np.bool_]:
    return quantities[name] > 0


def _quantities(line: Line, values: Mapping[str, Array], design: LineDesign) -> dict[str, Array]:
    slopes = {
        slope_on(name): values["beta"][..., k] / design.units[name][1]
        for k, name in enumerate(line.covariates, 1)
    }
    scales = values["scale"]
    names = ["group" if block == LEVEL else block for block in design.names]
    spreads = {"residual_sd": scales[..., -1]} | {
        f"{name}_sd": scales[..., k] for k, name in enumerate(names)
    }
    return {"mean": values["beta"][..., 0], **slopes, **spreads}


def line_statistics(design: LineDesign) -> Mapping[str, Statistic]:
    """What of the residuals may close the gate."""
    return laws.statistics(design.regressors, laws.CLOSING)


def covariance(z: Array) -> Statistic:
    """Mean product of outcomes and a column."""
    return lambda y: (y * z).mean(axis=-1)


def _levels(table: pd.DataFrame, group: str | None) -> tuple[str | None, list[str]]:
    """The column of levels that can be fitted, and what cannot be separated."""
    if group is None:
        return None, []
    names = labels(table[group], group).tolist()
    if len(set(names)) < 2:
        return None, [
            f"one {group}: its level cannot be separated from the mean, so none is fitted"
        ]
    if len(set(names)) == len(names):
        lacks = "its level cannot be separated from the residual, so their priors decide"
        return group, [f"one row of every {group}: {lacks}"]
    return group, []


def _further(table: pd.DataFrame, group: str | None, levels: Sequence[str]) -> list[str]:
    """Which of the further levels cannot be separated from one another, or are not there."""
    messages = []
    codes = {name: labels(table[name], name) for name in (*([group] if group else []), *levels)}
    for name in levels:
        others = list(codes)[: list(codes).index(name)]
        sets = len(set(codes[name]))
        if sets == 1:
            messages.append(f"one {name}: no level of it is fitted")
        for other in others if sets > 1 else ():
            if len(set(zip(codes[name], codes[other], strict=True))) in {
                sets,
                len(set(codes[other])),
            }:
                messages.append(
                    f"{name} and {other} coincide or lie in one another: their priors decide "
                    f"between their levels"
                )
    return messages


def _rows(line: Line, fit: Fit) -> pd.DataFrame:
    """What was fitted: names, covariates, outcome and error."""
    table = fit.rows[list(dict.fromkeys(["model_id", "heritage", *line.covariates]))]
    error = fit.rows[line.error] if line.error else 0.0
    values = {"outcome": fit.model.observed, "error": error}
    return table.assign(**{free_name(name, table): value for name, value in values.items()})


def _figure(line: Line, fit: Fit, axes: Axes) -> Axes:
    """Outcomes with their errors over the last covariate, and the line's interval.

    Where there are other covariates their part, by the slopes' medians, is taken off the outcomes.
    """
    rows = fit.table("rows")
    *others, last = line.covariates or ("",)
    x = rows[last].to_numpy(dtype=np.float64) if last else np.arange(len(rows), dtype=np.float64)
    slopes = {name: float(np.median(fit.quantities[slope_on(name)])) for name in others}
    part = sum(slope * (rows[name] - rows[name].mean()) for name, slope in slopes.items())
    error = fit.rows[line.error] if line.error else 0.0
    shown = {"x": x, "y": fit.model.observed - part, "error": error}
    points(axes, rows[["heritage"]].assign(**shown), "x", "y")
    grid = np.linspace(x.min(), x.max(), 50)
    slope = fit.quantities[slope_on(last)].reshape(-1, 1) if last else 0.0
    band = fit.quantities["mean"].reshape(-1, 1) + slope * (grid - x.mean())
    lower, middle, upper = np.quantile(
        band, [(1 - fit.level) / 2, 0.5, (1 + fit.level) / 2], axis=0
    )
    axes.plot(grid, middle, color="0.2", linewidth=1)
    axes.fill_between(grid, lower, upper, color="0.2", alpha=0.15, linewidth=0)
    axes.axhline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xlabel(last.replace("_", " "))
    axes.set_ylabel(fit.estimand.replace("_", " ") + (", others held" if others else ""))
    if not last:
        axes.set_xticks(
            x, [short_name(str(name)) for name in rows["model_id"]], rotation=45, ha="right"
        )
    if rows["heritage"].nunique() <= MOST_NAMED:
        legend_above(axes)
    return axes


def points(axes: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Two columns and the errors of the second, with the mark of every lab."""
    for lab, part in rows.groupby("heritage"):
        color, marker = mark(str(lab))
        axes.errorbar(
            part[x], part[y], part["error"], fmt=marker, color=color, markersize=5, label=str(lab)
        )


def lab_statistics(labs: pd.Series, x: Array, name: str) -> dict[str, Statistic]:
    """Test quantities of log gains: who dampens, how labs differ, and whether gains go with x."""
    codes = pd.factorize(labs)[0]
    member = np.eye(codes.max() + 1)[codes] / np.bincount(codes)[codes][:, None]
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of labs' shares of dampeners": lambda y: ((y < 0) @ member).std(axis=-1),
        "spread of lab means": lambda y: (y @ member).std(axis=-1),
        f"covariance with {name}": covariance(x - x.mean()),
    }


def compare(
    rivals: Mapping[str, Gaussian | Mixture], folds: Mapping[str, Sequence[str]], *, seed: int
) -> pd.DataFrame:
    """One row per rival, best evidence first.

    `log_evidence` and `probability` (equal prior odds); for every way f to fold the rows:
    `elpd_<f>`, the sum over folds of the log density of the fold given all others; `difference_<f>`
    to the rival best by f and `se_<f>`, the standard error of that difference over folds, √(K
    var_k).

    Raises UsageError where a way to fold has fewer than 2 folds.
    """
    mixtures = {
        name: rival
        if isinstance(rival, Mixture)
        else Mixture(nodes=(rival,), weights=np.ones(1), seed=seed)
        for name, rival in rivals.items()
    }
    evidence = {name: mixture.log_evidence for name, mixture in mixtures.items()}
    table = pd.DataFrame({"rival": list(evidence), "log_evidence": list(evidence.values())})
    table["probability"] = np.exp(table["log_evidence"] - logsumexp(table["log_evidence"]))
    for way, names in folds.items():
        if len(set(names)) < 2:
            raise UsageError(
                "nothing to leave out",
                where=way,
                got=f"{len(set(names))} fold",
                allowed="at least 2",
            )
        by_fold = np.array(
            [
                list(held_out_of(mixture, names, seed=seed).log_density.values())
                for mixture in mixtures.values()
            ]
        )
        gaps = by_fold - by_fold[by_fold.sum(axis=1).argmax()]
        table[f"elpd_{way}"] = by_fold.sum(axis=1)
        table[f"difference_{way}"] = gaps.sum(axis=1)
        table[f"se_{way}"] = np.sqrt(by_fold.shape[1] * gaps.var(axis=1, ddof=1))
    return table.sort_values("log_evidence", ascending=False, ignore_index=True)
