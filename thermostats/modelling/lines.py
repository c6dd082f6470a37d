"""y_i = X_i β + u_g(i) + ε_i, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²): a line with levels of
groups and known errors.

Every straight law is this line with its own columns and prior scales: β normal, σ and τ
half-normal; the exact engine draws it. `fit_line` is the plain case, a mean or a slope over models,
the counterpart of a t test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.formatting import join_words, strip_owner
from thermostats.modelling import regressors
from thermostats.modelling.columns import (
    Columns,
    check_prior_scale,
    convert_log_errors,
    free_name,
    read_errors,
    read_labels,
    read_numbers,
    read_unit_rows,
    warn_unread_errors,
)
from thermostats.modelling.draws import SEED, Array, Statistic
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.labelled import read_formula
from thermostats.modelling.laws import AS_GIVEN, BASES, Law, OutcomeScale
from thermostats.modelling.leave_out import leave_mixture_folds_out
from thermostats.modelling.mixed_model import (
    LEVEL,
    Fixed,
    Levels,
    Mixed,
    MixedDesign,
    Rest,
    declare_law,
    look_along_line,
    name_draws,
)
from thermostats.modelling.populations import number_groups, weigh_group_means
from thermostats.next_steps import LEFT_OUT, Code, repeat_call
from thermostats.plots.general import mark, place_legend

LAB = "heritage"
MODEL = "model_id"
LEAST = 4
"""Rows beyond the number of coefficients that a residual needs."""
ERROR = "standard error of the outcome"
"""Column of the errors that a line has, whatever they were called."""
LOG_OF = re.compile(r"^(?:np\.)?(log|log10|log2)\(([^()]+)\)$")
"""The log of one column, as a formula has it."""
MOST_NAMED = 10
"""Groups that a legend can still tell apart."""


def vary_line(line: Mixed, groups: str = "labs") -> dict[str, Mixed]:
    """The same rows with exact outcomes, without effects of groups, and without further levels."""
    blocks = [each.block for each in line.kinds]
    further = [name for name in blocks if name != LEVEL]
    others = {}
    if line.rest.error:
        others["outcomes taken as exact"] = line.drop_errors()
    if LEVEL in blocks:
        others[f"no effects of {groups}"] = line.drop_kinds(LEVEL)
    if further:
        others[f"no levels of {join_words(further)}"] = line.drop_kinds(*further)
    return others


@record_call
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
    """Fit a straight line to a table, with a level of every group and known errors.

        y_i = a + Σ_k b_k z_ik + u_g(i) + ε_i,
        z standardised, u_g ~ N(0, τ²), ε_i ~ N(0, σ² + error_i²)

    Alternatives are exact refits. Models whose gains are near 1 by construction (`comparable`
    false) are left out with a warning.

    Parameters
    ----------
    table : DataFrame
        One row per unit.
    outcome : str
        A column of numbers, or a formula such as "gain ~ layers + np.log(params)".
    covariates : str or sequence of str
        Columns of numbers.
    scale : float
        A difference of the outcome that would be no surprise: a ~ N(0, (2 scale)²), b_k ~ N(0,
        scale²), σ and every τ half-normal of that scale. By default it is the outcome's standard
        deviation, and of a its root mean square.
    model : str or sequence of str
        The column, or columns together, that name a row (None: rows are units; with `levels` a
        model has a row of each).
    group : str
        A column whose values have a level of their own (None: no levels, and none where a table has
        no column `heritage` and no other is named).
    levels : sequence of str
        Further columns, such as source, prompt_set and dtype where rows of several sources meet; of
        each v ~ N(0, τ_k²) is added.
    se : str or float
        Known standard errors of the outcome as given, a column or one number; of the log of a
        column, by the delta method, those of the column.
    sources : sequence of str
        Where the rows come from.
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: mean (a), `slope on <covariate>` for each in units of the covariate,
        residual_sd, with levels group_sd, and `<column>_sd` of every further one. Statements:
        `mean > 0` and `slope on <covariate> > 0` for each. Table: `rows`.

    Raises
    ------
    UsageError
        For missing columns or groups, a unit in two rows, values that are no finite numbers, a
        constant outcome or covariate, errors that are missing, below 0 or, without a scale, larger
        than the outcomes, a scale that is not above 0, or fewer rows than four more than
        covariates.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> fit = thermostats.fit_line(rows, "log_gain", "n_layers", scale=0.5)
    >>> fit.params.round(2)
    quantity
    mean                 0.06
    slope on n_layers   -0.01
    residual_sd          0.11
    group_sd             0.08
    Name: mean, dtype: float64
    """
    named = dict.fromkeys([covariates] if isinstance(covariates, str) else covariates)
    formula = read_formula(outcome, table) if "~" in outcome else None
    if formula:
        outcome = formula.outcome
        named = dict.fromkeys(formula.covariates)
    if outcome in named:
        others = [name for name in named if name != outcome]
        step = repeat_call(outcome=outcome, covariates=others)
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
            next_step=repeat_call(levels=once or LEFT_OUT),
        )
    names = Columns(call="fit_line", named={**columns, "levels": levels})
    names = replace(names, computed=formula.build_rows) if formula else names
    by = [MODEL, *levels] if model == MODEL and levels else model
    units = read_unit_rows(table, names, by, group)
    rows = units.rows
    group = units.group
    warnings = units.warnings
    y = read_numbers(rows[outcome], outcome, least=LEAST + len(named), varied=True)
    for name in named:
        read_numbers(rows[name], name, varied=True, truths=True)
    if se is not None:
        computed = formula is not None
        scaled = scale is not None
        errors, words = _read_errors(rows, se, outcome, y, scaled=scaled, computed=computed)
        rows = rows.assign(**{ERROR: errors})
        warnings += words
    warnings += warn_unread_errors(rows, outcome, se)
    group, of_levels = _choose_levels(rows, group)
    warnings += [*of_levels, *_warn_further_levels(rows, group, levels)]
    error = ERROR if se is not None else ""
    line = declare_line(
        rows, y, outcome, list(named), group=group, levels=levels, scale=scale, error=error
    )
    columns_of_line = line.design_rows(rows).gaussian.X
    rank = int(np.linalg.matrix_rank(columns_of_line))
    if rank <= len(named):
        warnings.append(
            f"columns of rank {rank - 1} of {len(named)}: priors decide between their slopes"
        )
    alternatives = vary_line(line, "labs" if group == LAB else f"{group}s")
    law = declare_law(state_line(line), line, alternatives)
    return build_fit(
        law,
        rows,
        seed=seed,
        estimand=outcome,
        sources=sources,
        warnings=warnings,
        reads=units.columns.read_new,
    )


def declare_line(
    rows: pd.DataFrame,
    y: Array,
    outcome: str,
    covariates: Sequence[str],
    *,
    group: str | None,
    levels: Sequence[str],
    scale: float | None,
    error: str,
) -> Mixed:
    """A line on standardised covariates with levels of groups; one prior scale, that of the
    outcomes by default."""
    if scale is None:
        spread = float(y.std())
        centre = float(np.sqrt(np.square(y).mean()))
        why = f"the spread of {outcome} in these rows"
        first = "twice the outcome's root mean square"
    else:
        spread = centre = check_prior_scale(scale, outcome)
        why = f"a difference of {scale:g} would be no surprise"
        first = f"twice the scale: {why}"
    slopes = []
    for k, name in enumerate(covariates, 1):
        slope = Fixed(
            column=name,
            sd=spread,
            symbol=f"b_{k}",
            why=f"over one SD of {name}; {why}",
            term=f"z_{k}i",
            quantity=name_slope(name),
            standardised=True,
            unscaled=True,
        )
        slopes.append(slope)
    kinds = []
    if group:
        of_groups = Levels(
            column=group,
            scale=spread,
            symbol="τ",
            why=why,
            effect=f"u_{group}(i)",
            quantity="group_sd",
            name=LEVEL,
        )
        kinds.append(of_groups)
    for name in levels:
        if rows[name].nunique() > 1:
            of_values = Levels(
                column=name,
                scale=spread,
                symbol=f"τ_{name}",
                why=why,
                effect=f"v_{name}(i)",
                quantity=f"{name}_sd",
            )
            kinds.append(of_values)
    mean = Fixed(sd=2 * centre, symbol="a", why=first, quantity="mean")
    rest = Rest(scale=spread, why=why, quantity="residual_sd", error=error)
    return Mixed(
        outcome=outcome,
        left=f"{outcome}_i",
        fixed=(mean, *slopes),
        kinds=tuple(kinds),
        rest=rest,
        scale=_choose_scale(outcome),
        regress=look_along_line,
    )


def _read_errors(
    rows: pd.DataFrame, se: str | float, outcome: str, y: Array, *, scaled: bool, computed: bool
) -> tuple[Array, list[str]]:
    """Known standard errors of outcomes, and what was done to them; UsageError where they may be of
    another unit.

    computed: by a formula; a column may be called as one, and is what it is.
    """
    if computed and (log := LOG_OF.match(outcome)):
        column = log[2].strip()
        values = read_numbers(rows[column], column, positive=True)
        errors, words = convert_log_errors(rows, se, column, values)
        return errors / BASES[log[1]], [words]
    if computed and (outcome not in rows or "(" in outcome):
        line = repeat_call(
            Code("df.assign(y=VALUES, y_se=ERRORS)"), outcome=Code("FORMULA"), se="y_se"
        )
        step = f"put both into columns: {line}"
        allowed = "a column, or the log of one"
        raise UsageError(
            "errors of such an outcome are not known",
            where=outcome,
            allowed=allowed,
            next_step=step,
        )
    errors = read_errors(rows, se, outcome)
    typical = float(np.sqrt(np.square(y).mean()))
    median = np.median(errors)
    if not scaled and median > typical:
        rounded = float(f"{typical:.2g}")
        raise UsageError(
            f"is this the standard error of {outcome}, in its unit? Most errors are larger than "
            f"the outcomes",
            where=se,
            got=f"a median of {median:.4g}, where outcomes have a root mean square of "
            f"{typical:.4g}",
            allowed="errors in the outcome's unit; where they are, scale= says what difference "
            "would be no surprise",
            next_step=repeat_call(scale=rounded),
        )
    return errors, []


def _choose_scale(outcome: str) -> OutcomeScale:
    """That of the log of a column, as a formula has it, or as it is given."""
    log = LOG_OF.match(outcome)
    if not log:
        return AS_GIVEN
    word = log[1]
    unit = BASES[word]
    column = log[2].strip()
    return OutcomeScale(
        word=word, back=lambda drawn: np.exp(unit * drawn), bound=1.0, outcome=column
    )


def name_slope(covariate: str) -> str:
    """Name of a slope among a line's quantities."""
    return f"slope on {covariate}"


def state_line(line: Mixed) -> Law:
    """What is asked of a line."""
    groups = []
    for kind in line.kinds:
        if kind.block == LEVEL:
            groups.append(kind.groups[0])
    statements = {}
    for each in line.fixed:
        statements[f"{each.quantity} > 0"] = partial(_is_positive, each.quantity)
    symbols = []
    for k, name in enumerate(line.covariates, 1):
        symbols.append(f"z_{k}: {name}, standardised")
    return Law(
        name="line",
        of=line.design_rows,
        quantities=name_draws,
        statements=statements,
        statistics=build_line_statistics,
        equations=tuple(symbols),
        tables={"rows": _list_rows},
        figures={"fit": _draw_figure},
        units=(*groups, "model_id"),
    )


def _is_positive(name: str, quantities: Mapping[str, Array]) -> NDArray[np.bool_]:
    return quantities[name] > 0


def build_line_statistics(design: MixedDesign) -> Mapping[str, Statistic]:
    """What of the residuals may close the gate."""
    return regressors.build_statistics(design.regressors, regressors.CLOSING)


def measure_covariance(z: Array) -> Statistic:
    """Mean product of outcomes and a column."""
    return lambda y: (y * z).mean(axis=-1)


def _choose_levels(table: pd.DataFrame, group: str | None) -> tuple[str | None, list[str]]:
    """The column of levels that can be fitted, and what cannot be separated."""
    if group is None:
        return None, []
    names = read_labels(table[group], group).tolist()
    if len(set(names)) < 2:
        return None, [
            f"one {group}: its level cannot be separated from the mean, so none is fitted"
        ]
    if len(set(names)) == len(names):
        lacks = "its level cannot be separated from the residual, so their priors decide"
        return group, [f"one row of every {group}: {lacks}"]
    return group, []


def _warn_further_levels(
    table: pd.DataFrame, group: str | None, levels: Sequence[str]
) -> list[str]:
    """Which of the further levels cannot be separated from one another, or are not there."""
    messages = []
    codes = {}
    grouped = [group] if group else []
    for name in (*grouped, *levels):
        codes[name] = read_labels(table[name], name)
    for name in levels:
        others = list(codes)[: list(codes).index(name)]
        sets = len(set(codes[name]))
        if sets == 1:
            messages.append(f"one {name}: no level of it is fitted")
        for other in others if sets > 1 else ():
            pairs = set(zip(codes[name], codes[other], strict=True))
            if len(pairs) in {sets, len(set(codes[other]))}:
                messages.append(
                    f"{name} and {other} coincide or lie in one another: their priors decide "
                    f"between their levels"
                )
    return messages


def _list_rows(fit: Fit) -> pd.DataFrame:
    """What was fitted: names, covariates, outcome and error."""
    design = fit.designed(MixedDesign)
    columns = dict.fromkeys(["model_id", "heritage", *design.mixed.covariates])
    table = fit.rows[list(columns)]
    gaussian = design.gaussian
    outcome = free_name("outcome", table)
    error = free_name("error", table)
    return table.assign(**{outcome: gaussian.y, error: gaussian.error})


def _draw_figure(fit: Fit, axes: Axes) -> Axes:
    """Outcomes with their errors over the last covariate, and the line's interval.

    Where there are other covariates their part, by the slopes' medians, is taken off the outcomes.
    """
    rows = fit.table("rows")
    design = fit.designed(MixedDesign)
    *others, last = design.mixed.covariates or [""]
    x = rows[last].to_numpy(dtype=np.float64) if last else np.arange(len(rows), dtype=np.float64)
    part = 0.0
    for name in others:
        slope = float(np.median(fit.quantities[name_slope(name)]))
        part = part + slope * (rows[name] - rows[name].mean())
    y = design.gaussian.y - part
    points = rows[["heritage"]].assign(x=x, y=y, error=design.gaussian.error)
    draw_points(axes, points, "x", "y")
    grid = np.linspace(x.min(), x.max(), 50)
    slopes = fit.quantities[name_slope(last)].reshape(-1, 1) if last else 0.0
    means = fit.quantities["mean"].reshape(-1, 1)
    band = means + slopes * (grid - x.mean())
    tail = (1 - fit.level) / 2
    quantiles = [tail, 0.5, (1 + fit.level) / 2]
    lower, middle, upper = np.quantile(band, quantiles, axis=0)
    axes.plot(grid, middle, color="0.2", linewidth=1)
    axes.fill_between(grid, lower, upper, color="0.2", alpha=0.15, linewidth=0)
    axes.axhline(0, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_xlabel(last.replace("_", " "))
    held = ", others held" if others else ""
    axes.set_ylabel(fit.estimand.replace("_", " ") + held)
    if not last:
        names = [strip_owner(str(name)) for name in rows["model_id"]]
        axes.set_xticks(x, names, rotation=45, ha="right")
    if rows["heritage"].nunique() <= MOST_NAMED:
        place_legend(axes)
    return axes


def draw_points(axes: Axes, rows: pd.DataFrame, x: str, y: str) -> None:
    """Two columns and the errors of the second, with the mark of every lab."""
    for lab, part in rows.groupby("heritage"):
        name = str(lab)
        color, marker = mark(name)
        axes.errorbar(
            part[x], part[y], part["error"], fmt=marker, color=color, markersize=5, label=name
        )


def build_lab_statistics(labs: pd.Series, x: Array, name: str) -> dict[str, Statistic]:
    """Test quantities of log gains: who dampens, how labs differ, and whether gains go with x."""
    member = weigh_group_means(number_groups(labs, len(labs)))
    return {
        "share of dampeners": lambda y: (y < 0).mean(axis=-1),
        "spread of labs' shares of dampeners": lambda y: ((y < 0) @ member).std(axis=-1),
        "spread of lab means": lambda y: (y @ member).std(axis=-1),
        f"covariance with {name}": measure_covariance(x - x.mean()),
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
    mixtures = {}
    for name, rival in rivals.items():
        if isinstance(rival, Mixture):
            mixtures[name] = rival
        else:
            mixtures[name] = Mixture(nodes=(rival,), weights=np.ones(1), seed=seed)
    evidence = [mixture.log_evidence for mixture in mixtures.values()]
    table = pd.DataFrame({"rival": list(mixtures), "log_evidence": evidence})
    table["probability"] = np.exp(table["log_evidence"] - logsumexp(table["log_evidence"]))
    for way, names in folds.items():
        if len(set(names)) < 2:
            raise UsageError(
                "nothing to leave out",
                where=way,
                got=f"{len(set(names))} fold",
                allowed="at least 2",
            )
        densities = []
        for mixture in mixtures.values():
            left_out = leave_mixture_folds_out(mixture, names, seed=seed)
            densities.append(list(left_out.log_density.values()))
        by_fold = np.array(densities)
        elpd = by_fold.sum(axis=1)
        gaps = by_fold - by_fold[elpd.argmax()]
        variance = gaps.var(axis=1, ddof=1)
        table[f"elpd_{way}"] = elpd
        table[f"difference_{way}"] = gaps.sum(axis=1)
        table[f"se_{way}"] = np.sqrt(by_fold.shape[1] * variance)
    return table.sort_values("log_evidence", ascending=False, ignore_index=True)
