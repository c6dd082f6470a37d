"""log y_i = a + δ·[lab_i is focal] + v_cell(i) + u_family(i) + ε_i: one lab against others at exactly equal shape.

Cells are models of one shape, of which some are of the focal lab and some are not, so that no coding of the shape is
needed. The exact engine draws δ; next to it are the ratio of geometric means within cells and its exact permutation,
families moved whole (`classical.within_cells`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError, listed, unknown
from thermostats.formatting import number, plural
from thermostats.modelling.classical.within_cells import LEAST_CELLS, Cells, RatioOfCells, false_rate, ratio_of_cells
from thermostats.modelling.columns import Columns, labels, named, numbers, prior_scale, unit_rows
from thermostats.modelling.draws import SEED, Array, Statement
from thermostats.modelling.fit import Fit, fits, law_fitted
from thermostats.modelling.gaussian import not_read, of_logs
from thermostats.modelling.laws import Law
from thermostats.modelling.lines import ERROR, Line, LineDesign, line_law, line_statistics
from thermostats.modelling.predictions import LOG as LOG_SCALE
from thermostats.plots.general import legend_above, mark, reference
from thermostats.tables.labels import label

SHAPE = ("n_layers", "n_heads", "d_model")
SCALE = 0.25
"""Prior scale: labs, cells, families and models that differ by a factor e^0.25 = 1.3 are no surprise."""
CELL, FAMILY, FOCAL, LOG = "cell of equal shape", "family of models", "of the focal lab", "log_outcome"
"""Columns that the rows get."""
BELOW = "ratio < 1"


@fits
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
    """log y_i = a + δ[lab_i = focal] + v_cell + u_family + ε_i.

    v ~ N(0, τ_c²), u ~ N(0, τ_f²), ε_i ~ N(0, σ² + error_i²).
    `table`: one row per model; `outcome` above 0. A cell is all models of the same values in the columns `shape`; those
    that hold models of the lab `focal` and of other labs count, the others are left out and said. `family`: a column of
    models that are alike (None, or where the table has none: every model is one of its own). `se`: known errors of the
    outcome as given, a column or a number, by the delta method on the log scale. `scale`: a log ratio that would be no
    surprise; a ~ N(0, (2 scale)²), δ ~ N(0, scale²), all standard deviations half-normal of that scale.

    Quantities: ratio (e^δ), log_ratio (δ), cell_sd, family_sd, residual_sd. Statement: "ratio < 1". Tables: `estimate`
    (the mean over cells of the log ratio of geometric means as a ratio, with its t interval over cells), `cells` (a row
    each), `permutation` (exact: families moved whole, which is primary, and models within cells, with the number of
    arrangements, p two-sided and that the focal lab is lower, the least p that there could be, and how often such a
    test at 5% would err with families as unlike as the fit has them).

    Raises UsageError for missing columns, a model in several rows, outcomes that are not finite and above 0, labels or
    shapes that are missing, a focal lab that is absent, a family of the focal lab and another, fewer than two cells.
    """
    columns = tuple(listed(shape, "shape") or ())
    of_table: dict[str, Any] = {"se": se} if isinstance(se, str) else {}
    family = None if family == "family" and family not in table else family
    roles = Columns(
        call="fit_matched",
        named={"outcome": outcome, "lab": lab, "family": family, "shape": list(columns), **of_table},
        computed=partial(_with_cells, columns, lab, family, model, focal),
    )
    known, without = _with_outcomes(table, outcome, model)
    units = unit_rows(known, roles, model, lab)
    rows, left = _matched(units.rows, columns, lab, focal)
    y = numbers(rows[outcome], outcome, least=4, positive=True, varied=True)
    errors, *words = of_logs(rows, se, outcome, y) if se is not None else (np.zeros(y.size),)
    rows = rows.assign(**{LOG: np.log(y), ERROR: errors})
    cells_of(rows)
    line = Line(
        outcome=LOG,
        covariates=(FOCAL,),
        sd=(2 * prior_scale(scale, "scale"), scale),
        sigma=scale,
        tau=scale,
        group=FAMILY,
        levels=(CELL,),
        error=ERROR if se is not None else None,
        scale=LOG_SCALE,
        standardised=False,
    )
    return law_fitted(
        line_law(_law(line, focal, len(columns)), line, "families"),
        rows,
        seed=seed,
        estimand=outcome,
        sources=sources,
        warnings=[*units.warnings, *without, *left, *words, *_odd(rows, family), *not_read(table, outcome, se)],
        reads=units.columns.of_new,
    )


def cells_of(rows: pd.DataFrame) -> Cells:
    """Cells, sides and families of rows that were matched; UsageError for a family on both sides."""
    sides = rows.groupby(FAMILY)[FOCAL].nunique()
    if (sides > 1).any():
        what, got = "a family of the focal lab and of another", named(sides.index[sides > 1], 5)
        raise UsageError(what, where="family", got=got, allowed="families of one lab each")
    codes = {name: pd.factorize(rows[name], sort=True)[0] for name in (CELL, FAMILY)}
    return Cells(cell=codes[CELL], side=rows[FOCAL].to_numpy(dtype=bool), group=codes[FAMILY])


def _with_outcomes(table: pd.DataFrame, outcome: str, model: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows that have an outcome, and who has none."""
    if outcome not in table or table[outcome].notna().all():
        return table, []
    there = table[outcome].notna()
    names = f" ({named(set(table.loc[~there, model].astype(str)))})" if model in table else ""
    return table[there], [f"no {outcome}, left out: {int((~there).sum())} of {len(table)} models{names}"]


def _with_cells(
    shape: Sequence[str], lab: str, family: str | None, model: str, focal: str, rows: pd.DataFrame
) -> pd.DataFrame:
    """Rows with their cell, family and side."""
    if not set(shape) <= set(rows):
        return rows
    names = pd.Series(" × ".join(row) for row in zip(*(map(label, rows[name]) for name in shape), strict=True))
    alone = rows[model] if model in rows else pd.Series(rows.index, index=rows.index)
    families = alone.astype(str)
    if family in rows:
        stated = rows[family].notna() & (rows[family].astype(str) != "")
        families = rows[family].astype(str).where(stated, families)
    side = (rows[lab].astype(str) == focal).astype(float) if lab in rows else 0.0
    return rows.assign(**{CELL: names.to_numpy(), FAMILY: families, FOCAL: side})


def _matched(rows: pd.DataFrame, shape: Sequence[str], lab: str, focal: str) -> tuple[pd.DataFrame, list[str]]:
    """Rows of cells that hold the focal lab and others, and what was left out; UsageError where there are too few."""
    for name in (lab, *shape):
        labels(rows[name], name)
    if not (rows[FOCAL] > 0).any():
        raise unknown("no such lab", focal, sorted(set(rows[lab].astype(str))), where=lab, line='focal="{}"')
    both = rows.groupby(CELL)[FOCAL].transform("nunique") == 2
    kept = rows[both].sort_values([*shape, FOCAL], kind="stable", ignore_index=True)
    cells = kept[CELL].nunique()
    if cells < LEAST_CELLS:
        step = f"shape={list(shape[:-1])!r}" if len(shape) > 1 else "another focal lab"
        raise UsageError(
            "too few shapes that the focal lab shares with another",
            where=", ".join(shape),
            got=f"{plural(cells, 'shape')}" + (f", {kept[CELL].iloc[0]}" if cells else ""),
            allowed=f"{LEAST_CELLS} or more, for an interval over them",
            next_step=f"{step} has wider cells, which are then of less equal models" if len(shape) > 1 else step,
        )
    left = f"{len(rows) - len(kept)} of {len(rows)} models are left out: their shape is not one of both sides"
    return kept, [left] * (len(kept) < len(rows))


def _odd(rows: pd.DataFrame, family: str | None) -> list[str]:
    """What these rows cannot tell apart."""
    single = [str(name) for name, cell in rows.groupby(CELL) if len(cell) == 2]
    groups = cells_of(rows).of_groups()
    messages = [] if family else ["no families: every model is taken as one of its own, which may change sides alone"]
    if single:
        messages.append(f"one model of each side, so that model and lab are one: {', '.join(single)}")
    if 1 / len(groups) > 0.05:
        messages.append(f"families moved whole have {len(groups)} arrangements, so that no p is below 1/{len(groups)}")
    return messages


def _law(line: Line, focal: str, columns: int) -> Law:
    below: Statement = lambda q: q["ratio"] < 1  # noqa: E731
    scale = f"{line.sigma:g}"
    return Law(
        name="matched",
        of=line.of,
        quantities=_quantities,
        reported=("ratio", "log_ratio", "family_sd", "cell_sd", "residual_sd"),
        statements={BELOW: below},
        statistics=line_statistics,
        equations=(
            f"log y_i = a + δ [lab_i = {focal}] + v_cell(i) + u_family(i) + ε_i   (cells: equal in {columns} columns)",
            "v_cell ~ N(0, τ_c²),  u_family ~ N(0, τ_f²)",
            f"ε_i ~ N(0, σ²{' + se_i²' if line.error else ''}),  ratio = e^δ",
        ),
        priors=(
            ("a", f"N(0, {line.sd[0]:g}²)", "twice the scale of δ"),
            ("δ", f"N(0, {scale}²)", f"labs that differ by a factor {np.exp(line.sigma):.2g} are no surprise"),
            ("τ_c, τ_f, σ", f"half-normal({scale})", "cells, families and models that differ as much are none either"),
        ),
        tables={"estimate": _estimate, "cells": _cells, "permutation": _permutation},
        figures={"cells": partial(_figure, focal)},
        units=(CELL, FAMILY, "model_id"),
    )


def _quantities(values: Mapping[str, Array], design: LineDesign) -> dict[str, Array]:
    delta, scale = values["beta"][..., 1], values["scale"]
    spreads = dict(zip(("family_sd", "cell_sd"), np.moveaxis(scale, -1, 0), strict=False))
    return {"ratio": np.exp(delta), "log_ratio": delta, **spreads, "residual_sd": scale[..., -1]}


def _ratio(fit: Fit) -> RatioOfCells:
    return ratio_of_cells(fit.rows[LOG].to_numpy(), cells_of(fit.rows), level=fit.level, seed=fit.seed)


def _estimate(fit: Fit) -> pd.DataFrame:
    """One row: ratio, lower, upper, level, cells."""
    r = _ratio(fit)
    row = {"ratio": r.ratio, "lower": r.ratio_lower, "upper": r.ratio_upper, "level": r.level, "cells": r.n}
    return pd.DataFrame([row | {"interval": r.interval}])


def _cells(fit: Fit) -> pd.DataFrame:
    """Per cell: models, labs and geometric means of both sides, their ratio with its known error, and who is lower."""
    rows = []
    for cell, part in fit.rows.groupby(CELL, sort=False):
        sides = {name: part[part[FOCAL] == value] for name, value in (("focal", 1), ("others", 0))}
        means = {name: float(np.exp(side[LOG].mean())) for name, side in sides.items()}
        square = sum(np.square(side[ERROR]).sum() / len(side) ** 2 for side in sides.values())
        row = {"cell": cell, **{f"{name}_models": len(side) for name, side in sides.items()}}
        row |= {"other_labs": ", ".join(sorted(set(sides["others"]["heritage"].astype(str))))}
        row |= {**means, "ratio": means["focal"] / means["others"], "log_error": float(np.sqrt(square))}
        lowest = bool(sides["focal"][LOG].max() < sides["others"][LOG].min())
        rows.append(row | {"focal_lowest": lowest, "opposite_sides": (means["focal"] < 1) != (means["others"] < 1)})
    return pd.DataFrame(rows)


def _permutation(fit: Fit) -> pd.DataFrame:
    """Per way of moving: arrangements, p, p_below, least_p, and false_rate, of a 5% test with the fit's spreads."""
    r, cells = _ratio(fit), cells_of(fit.rows)
    group_sd, unit_sd = (float(np.median(fit.quantities[f"{name}_sd"])) for name in ("family", "residual"))
    rows = []
    for moved, of, weights in (
        ("families moved whole", r.groups, cells.of_groups(fit.seed)),
        ("models within cells", r.units, cells.of_units(fit.seed)),
    ):
        row = {"moved": moved, "arrangements": of.arrangements, "p": of.p_value, "p_below": of.p_below}
        rate = false_rate(cells, weights, group_sd=group_sd, unit_sd=unit_sd)
        rows.append(row | {"least_p": of.least, "false_rate": rate})
    return pd.DataFrame(rows)


def _figure(focal: str, fit: Fit, axes: Axes) -> Axes:
    """Outcomes by cell, each lab with its mark, and the ratio above."""
    cells = {cell: place for place, cell in enumerate(dict.fromkeys(fit.rows[CELL]))}
    reference(axes, 1.0, vertical=True)
    for lab, part in fit.rows.groupby("heritage"):
        color, marker = mark(str(lab))
        raised = part[CELL].map(cells) - 0.12 + 0.24 * part[FOCAL]
        axes.scatter(np.exp(part[LOG]), raised, color=color, marker=marker, label=str(lab), zorder=3)
    row = fit.table("estimate").iloc[0]
    axes.set_yticks(list(cells.values()), list(cells))
    axes.set_ylim(-0.6, len(cells) - 0.4)
    ratio, lower, upper = (number(row[name]) for name in ("ratio", "lower", "upper"))
    over = f"{focal} over others of equal shape: {ratio} [{lower}, {upper}] ({row['level']:.0%})"
    axes.set_xlabel(f"{fit.estimand.replace('_', ' ')}; {over}")
    legend_above(axes)
    return axes
