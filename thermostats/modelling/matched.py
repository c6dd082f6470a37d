"""log y_i = a + δ·[lab_i is focal] + v_cell(i) + u_family(i) + ε_i: one lab against others at
exactly equal shape.

Cells are models of one shape, of which some are of the focal lab and some are not, so that no
coding of the shape is needed. The exact engine draws δ; next to it are the ratio of geometric means
within cells and its exact permutation, families moved whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import linalg, stats

from thermostats.errors import UsageError, build_unknown_error, make_list
from thermostats.formatting import format_count, format_number
from thermostats.modelling.classical.interval_laws import StudentLaw
from thermostats.modelling.classical.many import Many, measure_margin
from thermostats.modelling.columns import (
    ClassicalEstimate,
    Columns,
    check_prior_scale,
    convert_log_errors,
    list_names,
    read_labels,
    read_numbers,
    read_unit_rows,
    warn_unread_errors,
)
from thermostats.modelling.draws import SEED, Array, Statement
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.laws import LOG as LOG_SCALE
from thermostats.modelling.laws import Law
from thermostats.modelling.lines import ERROR, build_line_statistics, vary_line
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
from thermostats.next_steps import repeat_call
from thermostats.plots.general import draw_reference, mark, place_legend
from thermostats.settings import check_coverage
from thermostats.tables.labels import convert_label

Sides = NDArray[np.bool_]
MOST = 20_000
"""Arrangements that are all tried; of more so many are drawn, the one at hand among them."""
TIE = 1e-12
"""Of the largest statistic: rounding, within which two are the same."""
LEAST_CELLS = 2
LEAST_GROUPS = 3
"""Families, for a degree of freedom of their spread."""
FAMILY_RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 33)])
"""Variances of families over that within them between which the likelihood is compared."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Units of cells that hold both sides."""

    cell: NDArray[np.int64]
    side: Sides
    """Whether a unit is on the first side."""
    group: NDArray[np.int64]
    """Groups lie on one side each."""

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        crossed = []
        for group in np.unique(self.group):
            if len(set(self.side[self.group == group])) > 1:
                crossed.append(int(group))
        if crossed:
            allowed = "groups on one side each"
            raise UsageError("a group lies on both sides", got=crossed[0], allowed=allowed)

    def weigh_units(self, sides: Sides) -> Array:
        """Weights of the units in T for arrangements of sides (a row each); NaN where no cell holds
        both."""
        cells = int(self.cell.max()) + 1
        member = np.eye(cells)[self.cell]
        first = sides @ member
        size = member.sum(axis=0)
        both = (first > 0) & (first < size)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = 1 / both.sum(axis=1, keepdims=True)
            up = np.where(both, each / first, 0.0)
            down = np.where(both, each / (size - first), 0.0)
        weights = np.where(sides, up @ member.T, -down @ member.T)
        return np.where(both.any(axis=1, keepdims=True), weights, np.nan)

    @property
    def observed_weights(self) -> Array:
        """Weights of the arrangement at hand."""
        return np.asarray(self.weigh_units(self.side[None])[0])

    def permute_groups(self, seed: int = 1) -> Array:
        """Weights of arrangements in which whole groups change sides, as many on each as at
        hand."""
        groups = np.unique(self.group)
        inside = self.group[self.side]
        first = np.unique(inside)
        return self._permute_parts([(groups, first.size)], self.group, seed)

    def permute_units(self, seed: int = 1) -> Array:
        """Weights of arrangements in which units change sides within their cell."""
        units = np.arange(self.cell.size)
        parts = []
        for cell in np.unique(self.cell):
            at = self.cell == cell
            first = int(self.side[at].sum())
            parts.append((units[at], first))
        return self._permute_parts(parts, units, seed)

    def _permute_parts(
        self, parts: list[tuple[NDArray[np.int64], int]], of: NDArray[np.int64], seed: int
    ) -> Array:
        """All choices of so many of every part, or `MOST` of them; `of`: what every unit is moved
        with."""
        arrangements = math.prod(math.comb(part.size, k) for part, k in parts)
        if arrangements <= MOST:
            choices = []
            for part, k in parts:
                choices.append(itertools.combinations(part.tolist(), k))
            moved_rows = []
            for choice in itertools.product(*choices):
                chosen = list(itertools.chain.from_iterable(choice))
                is_moved = np.isin(of, chosen)
                moved_rows.append(is_moved)
            sides = np.array(moved_rows)
        else:
            rng = np.random.default_rng(seed)
            moved = np.zeros((MOST, int(of.max()) + 1), dtype=bool)
            rows = np.arange(MOST)[:, None]
            for part, k in parts:
                order = rng.random((MOST, part.size)).argsort(axis=1)
                moved[rows, part[order[:, :k]]] = True
            sides = moved[:, of]
            sides[0] = self.side
        weights = self.weigh_units(sides)
        finite = np.isfinite(weights)
        return weights[finite.all(axis=1)]

    def weigh_cells(self) -> Array:
        """Weights of the units in the log ratio of geometric means of every cell that holds both
        sides, one a row."""
        inside = self.cell == np.unique(self.cell)[:, None]
        up = inside & self.side
        down = inside & ~self.side
        both = up.any(axis=1) & down.any(axis=1)
        ours = up[both] / up[both].sum(axis=1, keepdims=True)
        others = down[both] / down[both].sum(axis=1, keepdims=True)
        return np.asarray(ours - others)


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """Share of arrangements with a statistic at least as far from 0, or as low, as the one at
    hand."""

    arrangements: int
    p_value: float
    """Two-sided."""
    p_below: float
    """One-sided, that the first side is lower."""
    least: float
    """The smallest one-sided p that these arrangements could give."""


@dataclass(frozen=True, kw_only=True)
class RatioOfCells(ClassicalEstimate):
    """T with its t interval over cells and p of whole groups; exponentials; p of units moved within
    cells."""

    ratio: float
    ratio_lower: float
    ratio_upper: float
    groups: Permutation
    units: Permutation


def estimate_ratio(y: Array, cells: Cells, *, level: float = 0.95, seed: int = 1) -> RatioOfCells:
    """T = mean over cells of the log ratio of geometric means, y the logs; n counts cells.

    Raises UsageError for fewer than two cells: nothing says how ratios differ from cell to cell.
    """
    each = cells.weigh_cells() @ y
    if each.size < LEAST_CELLS:
        raise UsageError(
            "too few cells that hold both sides",
            got=each.size,
            allowed=f"{LEAST_CELLS} cells or more, for an interval",
        )
    estimate = float(each.mean())
    error = float(each.std(ddof=1) / math.sqrt(each.size))
    half = float(measure_margin(error, each.size - 1, check_coverage(level)))
    lower = estimate - half
    upper = estimate + half
    whole_groups = cells.permute_groups(seed)
    groups = run_permutations(y, cells, whole_groups)
    within_cells = cells.permute_units(seed)
    units = run_permutations(y, cells, within_cells)
    return RatioOfCells(
        test="permutation of whole groups, mean log ratio within cells against 0",
        estimate=estimate,
        lower=lower,
        upper=upper,
        level=level,
        interval="t interval over cells",
        p_value=groups.p_value,
        n=each.size,
        ratio=math.exp(estimate),
        ratio_lower=math.exp(lower),
        ratio_upper=math.exp(upper),
        groups=groups,
        units=units,
    )


def run_permutations(y: Array, cells: Cells, weights: Array) -> Permutation:
    """p-values of T among arrangements."""
    null = weights @ y
    size = len(null)
    at_hand = float(cells.observed_weights @ y)
    near = TIE * float(np.abs(null).max(initial=0.0))
    as_far = np.abs(null) >= abs(at_hand) - near
    as_low = null <= at_hand + near
    two_sided = float(as_far.mean())
    below = float(as_low.mean())
    return Permutation(arrangements=size, p_value=two_sided, p_below=below, least=1 / size)


def simulate_false_rate(
    cells: Cells,
    weights: Array,
    *,
    group_sd: float,
    unit_sd: float,
    level: float = 0.05,
    size: int = 2000,
    seed: int = 1,
) -> float:
    """How often a two-sided test at `level` over arrangements says that the sides differ, where
    only groups do.

    y of simulated studies of this design: N(0, group_sd²) of every group plus N(0, unit_sd²) of
    every unit; what cells have in common cancels.
    """
    rng = np.random.default_rng(seed)
    _, group = np.unique(cells.group, return_inverse=True)
    of_groups = rng.normal(0, group_sd, (size, group.max() + 1))
    of_units = rng.normal(0, unit_sd, (size, group.size))
    y = of_groups[:, group] + of_units
    differences = y @ weights.T
    null = np.abs(differences)
    difference = y @ cells.observed_weights
    at_hand = np.abs(difference)
    as_far = null >= at_hand[:, None] * (1 - TIE)
    p = as_far.mean(axis=1)
    return float((p <= level).mean())


def estimate_random_ratios(outcomes: Array, cells: Cells, *, level: float = 0.95) -> Many:
    """Ratio e^δ of many studies (study × unit, logs) given levels of cells, families random.

    y = Σ v_cell + δ [first side] + u_group + ε, levels of cells fixed, u ~ N(0, r σ²),
    ε ~ N(0, σ²): δ by generalised least squares at the r of `FAMILY_RATIOS` whose restricted
    likelihood is largest. Interval and p by t with two degrees of freedom less than groups, of
    which only those in the rows count; p is one-sided, to the side of the estimate. Raises
    UsageError for fewer than two cells, for fewer than three groups, and where cells and sides
    leave nothing over.
    """
    design = build_side_design(cells)
    n, columns = design.shape
    groups = np.unique(cells.group)
    both_sides = columns - 1
    if both_sides < LEAST_CELLS:
        allowed = f"{LEAST_CELLS} cells or more"
        raise UsageError("too few cells that hold both sides", got=both_sides, allowed=allowed)
    if groups.size < LEAST_GROUPS or n <= columns:
        raise UsageError(
            "too few families for a spread of families",
            got=f"{format_count(n, 'unit')} of {groups.size} families in {both_sides} cells",
            allowed=f"{LEAST_GROUPS} families or more, and units beyond the cells",
        )
    estimate, error = _fit_sides(outcomes, cells)
    df = groups.size - 2
    coverage = check_coverage(level)
    half = measure_margin(error, df, coverage)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stats.t.sf(np.abs(estimate) / error, df)
    law = StudentLaw(df, scale="log")
    lower = np.exp(estimate - half)
    upper = np.exp(estimate + half)
    return Many(np.exp(estimate), lower, upper, p, law)


def build_side_design(cells: Cells) -> Array:
    """Levels of cells, and last whether a unit is on the first side, unit × column."""
    levels = cells.cell[:, None] == np.unique(cells.cell)
    return np.column_stack([levels, cells.side]).astype(np.float64)


def _fit_sides(outcomes: Array, cells: Cells) -> tuple[Array, Array]:
    """δ and its standard error at the largest restricted likelihood of every study.

    In contrasts that levels of cells do not move, turned so that families are independent, the
    variance is σ² (1 + r λ).
    """
    levels = build_side_design(cells)[:, :-1]
    contrasts = linalg.null_space(levels.T)
    member = cells.group[:, None] == np.unique(cells.group)
    indicators = contrasts.T @ member
    roots, turn = np.linalg.eigh(indicators @ indicators.T)
    y = outcomes @ contrasts @ turn
    x = cells.side @ contrasts @ turn
    spread = 1 + np.maximum(roots, 0.0)[:, None] * FAMILY_RATIOS
    precision = 1 / spread
    information = np.square(x) @ precision
    slopes = (y * x) @ precision / information
    squares = np.square(y) @ precision - np.square(slopes) * information
    df = x.size - 1
    variance = np.maximum(squares, 0.0) / df
    log_determinant = np.log(spread).sum(axis=0)
    with np.errstate(divide="ignore"):
        likelihood = -df * np.log(variance) - log_determinant - np.log(information)
    nodes = likelihood.argmax(axis=1)
    best = np.arange(len(y)), nodes
    errors = np.sqrt(variance[best] / information[nodes])
    return slopes[best], errors


SHAPE = ("n_layers", "n_heads", "d_model")
SCALE = 0.25
"""Prior scale: labs, cells, families and models that differ by a factor e^0.25 = 1.3 are no
surprise."""
CELL, FAMILY, FOCAL, LOG = (
    "cell of equal shape",
    "family of models",
    "of the focal lab",
    "log of the outcome",
)
"""Columns that the rows get."""
BELOW = "ratio < 1"


@record_call
def fit_matched(
    table: pd.DataFrame,
    outcome: str = "penultimate_gain",
    *,
    focal: str,
    model: str = "model_id",
    lab: str = "heritage",
    family: str | None = "family",
    shape: Sequence[str] = SHAPE,
    se: str | float | None = None,
    scale: float = SCALE,
    sources: Sequence[str] = (),
    seed: int = SEED,
) -> Fit:
    """Compare one lab with others at exactly equal shape: the ratio of their gains within cells.

        log y_i = a + δ[lab_i = focal] + v_cell + u_family + ε_i,
        v ~ N(0, τ_c²), u ~ N(0, τ_f²), ε_i ~ N(0, σ² + error_i²)

    A cell is all models of the same values in the columns `shape`; those that hold models of the
    lab `focal` and of other labs count, the others are left out and said.

    Parameters
    ----------
    table : DataFrame
        One row per model.
    outcome : str
        A column of numbers above 0.
    focal : str
        The lab that is compared with all others.
    model, lab : str
        Columns of the model's name and its lab.
    family : str
        A column of models that are alike (None, or where the table has none: every model is one of
        its own).
    shape : sequence of str
        Columns that are equal within a cell.
    se : str or float
        Known errors of the outcome as given, a column or a number, by the delta method on the log
        scale.
    scale : float
        A log ratio that would be no surprise: a ~ N(0, (2 scale)²), δ ~ N(0, scale²), all standard
        deviations half-normal of that scale.
    sources : sequence of str
        Where the rows come from.
    seed : int
        Of the draws.

    Returns
    -------
    Fit
        Quantities: ratio (e^δ), log_ratio (δ), cell_sd, family_sd, residual_sd. Statement: "ratio <
        1". Tables: `estimate` (the mean over cells of the log ratio of geometric means as a ratio,
        with its t interval over cells), `cells` (a row each), `permutation` (exact: families moved
        whole, which is primary, and models within cells, with the number of arrangements, p
        two-sided and that the focal lab is lower, the least p that there could be, and how often
        such a test at 5% would err with families as unlike as the fit has them).

    Raises
    ------
    UsageError
        For missing columns, a model in several rows, outcomes that are not finite and above 0,
        labels or shapes that are missing, a focal lab that is absent, a family of the focal lab and
        another, fewer than two cells.

    Examples
    --------
    >>> import thermostats
    >>> rows = thermostats.model_rows("published", "penultimate_gain")
    >>> fit = thermostats.fit_matched(rows, focal="EleutherAI")
    >>> fit.table("estimate")[["ratio", "lower", "upper", "cells"]].round(2)
       ratio  lower  upper  cells
    0   0.84   0.78   0.91      5
    """
    columns = tuple(dict.fromkeys(make_list(shape, "shape") or ()))
    focal = convert_label(focal)
    of_table: dict[str, Any] = {"se": se} if isinstance(se, str) else {}
    family = None if family == "family" and family not in table else family
    named = {"outcome": outcome, "lab": lab, "family": family, "shape": list(columns), **of_table}
    computed = partial(_add_cells, columns, lab, family, model, focal)
    roles = Columns(call="fit_matched", named=named, computed=computed)
    outcomes, without = _keep_outcomes(table, outcome, model)
    units = read_unit_rows(outcomes, roles, model, lab)
    rows, left = _match_rows(units.rows, columns, lab, focal)
    y = read_numbers(rows[outcome], outcome, least=4, positive=True, varied=True)
    errors = np.zeros(y.size)
    words = []
    if se is not None:
        errors, said = convert_log_errors(rows, se, outcome, y)
        words.append(said)
    rows = rows.assign(**{LOG: np.log(y), ERROR: errors})
    build_cells(rows)
    line = declare_cells(check_prior_scale(scale, "scale"), ERROR if se is not None else "")
    law = state_cells(line, focal, len(columns))
    warnings = [*units.warnings, *without, *left, *words]
    warnings += _warn_inseparable(rows, family)
    warnings += warn_unread_errors(table, outcome, se)
    return build_fit(
        declare_law(law, line, vary_line(line, "families")),
        rows,
        seed=seed,
        estimand=outcome,
        sources=sources,
        warnings=warnings,
        reads=units.columns.read_new,
    )


def declare_cells(scale: float, error: str) -> Mixed:
    """A side and levels of cells and families, with one prior scale; `error`: column of known
    errors."""
    alike = "cells, families and models that differ as much are none either"
    sides = f"labs that differ by a factor {np.exp(scale):.2g} are no surprise"
    focal = Fixed(
        column=FOCAL, sd=scale, symbol="δ", why=sides, term="[lab_i is focal]", quantity="log_ratio"
    )
    families = Levels(
        column=FAMILY,
        scale=scale,
        symbol="τ_f",
        why=alike,
        effect="u_family(i)",
        quantity="family_sd",
        name=LEVEL,
    )
    cells = Levels(
        column=CELL, scale=scale, symbol="τ_c", why=alike, effect="v_cell(i)", quantity="cell_sd"
    )
    return Mixed(
        outcome=LOG,
        left="log y_i",
        fixed=(Fixed(sd=2 * scale, symbol="a", why="twice the scale of δ"), focal),
        kinds=(families, cells),
        rest=Rest(scale=scale, why=alike, quantity="residual_sd", error=error),
        scale=LOG_SCALE,
        regress=look_along_line,
    )


def build_cells(rows: pd.DataFrame) -> Cells:
    """Cells, sides and families of rows that were matched; UsageError for a family on both
    sides."""
    families = rows.groupby(FAMILY)
    sides = families[FOCAL].nunique()
    if (sides > 1).any():
        what = "a family of the focal lab and of another"
        got = list_names(sides.index[sides > 1], 5)
        raise UsageError(what, where="family", got=got, allowed="families of one lab each")
    codes = {}
    for name in (CELL, FAMILY):
        codes[name] = pd.factorize(rows[name], sort=True)[0]
    side = rows[FOCAL].to_numpy(dtype=bool)
    return Cells(cell=codes[CELL], side=side, group=codes[FAMILY])


def _keep_outcomes(table: pd.DataFrame, outcome: str, model: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows that have an outcome, and who has none."""
    if outcome not in table or table[outcome].notna().all():
        return table, []
    there = table[outcome].notna()
    without = table[~there]
    names = f" ({list_names(set(without[model].astype(str)))})" if model in table else ""
    words = f"no {outcome}, left out: {len(without)} of {len(table)} models{names}"
    return table[there], [words]


def _add_cells(
    shape: Sequence[str], lab: str, family: str | None, model: str, focal: str, rows: pd.DataFrame
) -> pd.DataFrame:
    """Rows with their cell, family and side."""
    if not set(shape) <= set(rows):
        return rows
    labels = [map(convert_label, rows[name]) for name in shape]
    names = pd.Series([" × ".join(row) for row in zip(*labels, strict=True)])
    alone = rows[model] if model in rows else rows.index.to_series()
    families = alone.astype(str)
    if family in rows:
        stated = rows[family].astype(str)
        is_stated = rows[family].notna() & (stated != "")
        families = stated.where(is_stated, families)
    side = (rows[lab].astype(str) == focal).astype(float) if lab in rows else 0.0
    return rows.assign(**{CELL: names.to_numpy(), FAMILY: families, FOCAL: side})


def _count_shared(rows: pd.DataFrame, shape: Sequence[str]) -> int:
    """Shapes of the focal lab that another lab has too."""
    cells = rows.groupby(list(shape))
    sides = cells[FOCAL].nunique()
    return int((sides == 2).sum())


def _match_rows(
    rows: pd.DataFrame, shape: Sequence[str], lab: str, focal: str
) -> tuple[pd.DataFrame, list[str]]:
    """Rows of cells that hold the focal lab and others, and what was left out; UsageError where
    there are too few."""
    for name in (lab, *shape):
        read_labels(rows[name], name)
    if not (rows[FOCAL] > 0).any():
        labs = sorted(set(rows[lab].astype(str)))
        raise build_unknown_error("no such lab", focal, labs, where=lab, line='focal="{}"')
    both = rows.groupby(CELL)[FOCAL].transform("nunique") == 2
    matched = rows[both].sort_values([*shape, FOCAL], kind="stable", ignore_index=True)
    cells = matched[CELL].nunique()
    if cells < LEAST_CELLS:
        words = " has wider cells, which are then of less equal models"
        shorter = [shape[:k] for k in range(len(shape) - 1, 0, -1)]
        wider = [columns for columns in shorter if _count_shared(rows, columns) >= LEAST_CELLS]
        shared = f", {matched[CELL].iloc[0]}" if cells else ""
        step = f"another focal lab{words}"
        if wider:
            step = f"{repeat_call(shape=list(wider[0]))}\n#{words}"
        raise UsageError(
            "too few shapes that the focal lab shares with another",
            where=", ".join(shape),
            got=f"{format_count(cells, 'shape')}{shared}",
            allowed=f"{LEAST_CELLS} or more, for an interval over them",
            next_step=step,
        )
    left = (
        f"{len(rows) - len(matched)} of {len(rows)} models are left out: their shape is not one of "
        f"both sides"
    )
    return matched, [left] * (len(matched) < len(rows))


def _warn_inseparable(rows: pd.DataFrame, family: str | None) -> list[str]:
    """What these rows cannot tell apart."""
    single = []
    for name, cell in rows.groupby(CELL):
        if len(cell) == 2:
            single.append(str(name))
    groups = build_cells(rows).permute_groups()
    messages = []
    if not family:
        messages.append(
            "no families: every model is taken as one of its own, which may change sides alone"
        )
    if single:
        cells = ", ".join(single)
        messages.append(f"one model of each side, so that model and lab are one: {cells}")
    if 1 / len(groups) > 0.05:
        messages.append(
            f"families moved whole have {len(groups)} arrangements, so that no p is below "
            f"1/{len(groups)}"
        )
    return messages


def state_cells(line: Mixed, focal: str, columns: int) -> Law:
    """What is asked of matched models; `columns`: those that cells are equal in."""
    below: Statement = lambda q: q["ratio"] < 1  # noqa: E731
    tables = {"estimate": _estimate, "cells": _list_cells, "permutation": _list_permutations}
    return Law(
        name="matched",
        of=line.design_rows,
        quantities=_compute_quantities,
        reported=("ratio", "log_ratio", "family_sd", "cell_sd", "residual_sd"),
        statements={BELOW: below},
        statistics=build_line_statistics,
        equations=(f"focal: {focal};  cells: equal in {columns} columns;  ratio = e^δ",),
        tables=tables,
        figures={"cells": partial(_draw_figure, focal)},
        units=(CELL, FAMILY, "model_id"),
    )


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    drawn = name_draws(values, design)
    return {"ratio": np.exp(drawn["log_ratio"]), **drawn}


def _estimate_fit_ratio(fit: Fit) -> RatioOfCells:
    logs = fit.rows[LOG].to_numpy()
    return estimate_ratio(logs, build_cells(fit.rows), level=fit.level, seed=fit.seed)


def _estimate(fit: Fit) -> pd.DataFrame:
    """One row: ratio, lower, upper, level, cells."""
    r = _estimate_fit_ratio(fit)
    row = {
        "ratio": r.ratio,
        "lower": r.ratio_lower,
        "upper": r.ratio_upper,
        "level": r.level,
        "cells": r.n,
        "interval": r.interval,
    }
    return pd.DataFrame([row])


def _list_cells(fit: Fit) -> pd.DataFrame:
    """Per cell: models, labs and geometric means of both sides, their ratio with its known error,
    and who is lower."""
    rows = []
    for cell, part in fit.rows.groupby(CELL, sort=False):
        focal = part[part[FOCAL] == 1]
        others = part[part[FOCAL] == 0]
        labs = sorted(set(others["heritage"].astype(str)))
        mean = float(np.exp(focal[LOG].mean()))
        mean_of_others = float(np.exp(others[LOG].mean()))
        squares = [np.square(side[ERROR]).sum() / len(side) ** 2 for side in (focal, others)]
        row = {
            "cell": cell,
            "focal_models": len(focal),
            "others_models": len(others),
            "other_labs": ", ".join(labs),
            "focal": mean,
            "others": mean_of_others,
            "ratio": mean / mean_of_others,
            "log_error": float(np.sqrt(sum(squares))),
            "focal_lowest": bool(focal[LOG].max() < others[LOG].min()),
            "opposite_sides": (mean < 1) != (mean_of_others < 1),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _list_permutations(fit: Fit) -> pd.DataFrame:
    """Per way of moving: arrangements, p, p_below, least_p, and false_rate, of a 5% test with the
    fit's spreads."""
    r = _estimate_fit_ratio(fit)
    cells = build_cells(fit.rows)
    group_sds = fit.quantities.get("family_sd", 0.0)
    group_sd = float(np.median(group_sds))
    unit_sds = fit.quantities["residual_sd"]
    unit_sd = float(np.median(unit_sds))
    rows = []
    for moved, of, weights in (
        ("families moved whole", r.groups, cells.permute_groups(fit.seed)),
        ("models within cells", r.units, cells.permute_units(fit.seed)),
    ):
        row = {
            "moved": moved,
            "arrangements": of.arrangements,
            "p": of.p_value,
            "p_below": of.p_below,
        }
        rate = simulate_false_rate(cells, weights, group_sd=group_sd, unit_sd=unit_sd)
        rows.append(row | {"least_p": of.least, "false_rate": rate})
    return pd.DataFrame(rows)


def _draw_figure(focal: str, fit: Fit, axes: Axes) -> Axes:
    """Outcomes by cell, each lab with its mark, and the ratio above."""
    cells = {}
    for place, cell in enumerate(dict.fromkeys(fit.rows[CELL])):
        cells[cell] = place
    draw_reference(axes, 1.0, vertical=True)
    for lab, part in fit.rows.groupby("heritage"):
        color, marker = mark(str(lab))
        raised = part[CELL].map(cells) - 0.12
        height = raised + 0.24 * part[FOCAL]
        outcomes = np.exp(part[LOG])
        axes.scatter(outcomes, height, color=color, marker=marker, label=str(lab), zorder=3)
    row = fit.table("estimate").iloc[0]
    heights = list(cells.values())
    axes.set_yticks(heights, list(cells))
    top = len(cells) - 0.4
    axes.set_ylim(-0.6, top)
    ratio, lower, upper = map(format_number, row[["ratio", "lower", "upper"]])
    interval = f"{ratio} [{lower}, {upper}] ({row['level']:.0%})"
    estimand = fit.estimand.replace("_", " ")
    axes.set_xlabel(f"{estimand}; {focal} over others of equal shape: {interval}")
    place_legend(axes)
    return axes
