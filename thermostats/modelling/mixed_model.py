"""y = Xβ + Σ_k Z_k u_k + ε, u_k ~ N(0, s_k²), ε_i ~ N(0, σ² + error_i²), declared as columns of rows.

A law names its coefficients (`Fixed`), its effects of levels (`Levels`) and what is left (`Rest`). The design of rows,
rows to predict, alternatives and the priors in words are made from these, so no page can state another prior than was
drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import Gaussian, HalfNormals
from thermostats.modelling.laws import AS_GIVEN, WIDER, Design, Law, OutcomeScale, Prior, Regressors
from thermostats.modelling.populations import contrasts, numbered

LEVEL = "level"
"""Name among the draws of the levels that residuals are looked at against, mostly those of labs."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A coefficient with its normal prior about 0."""

    column: str = ""
    """Empty: the intercept."""
    sd: float
    symbol: str
    why: str
    standardised: bool = False
    """By mean and SD of the rows of the fit."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Effects of the values of a column, or slopes by value; their standard deviation has a half-normal prior."""

    column: str
    scale: float
    symbol: str
    why: str
    name: str = ""
    """Among the draws; that of the column by default."""
    covariate: str = ""
    """Column of which they are slopes; empty: they are levels."""
    sum_zero: bool = False
    """Over the values of the fit."""

    @property
    def block(self) -> str:
        """Name among the draws."""
        return self.name or self.column


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What is left, with a half-normal prior of its standard deviation, and what is known of errors beside it."""

    scale: float
    symbol: str = "σ"
    why: str
    error: str = ""
    """Column of standard errors of the outcomes; empty: exact outcomes."""
    freedom: str = ""
    """Column of their degrees of freedom, where they are estimates."""


def keep_rows(rows: pd.DataFrame, _: pd.DataFrame | None) -> pd.DataFrame:
    """Every row is an outcome."""
    return rows


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """A law's columns and priors."""

    outcome: str
    fixed: tuple[Fixed, ...]
    levels: tuple[Levels, ...] = ()
    rest: Rest
    scale: OutcomeScale = AS_GIVEN
    """That of the outcomes."""
    tabulate: Callable[[pd.DataFrame, pd.DataFrame | None], pd.DataFrame] = keep_rows
    """Outcomes of rows, a row each, its name the index; of rows to predict, given the rows of the fit."""
    rowwise: bool = True
    """Whether every row is an outcome; else those to predict are one for each combination of levels."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Quantities that are arrays, and the block whose levels their elements are of."""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further quantities that are arrays, and the names of their elements."""
    regression: bool = False
    """Whether residuals are looked at against covariates and the groups of `LEVEL`."""

    def design_rows(self, rows: pd.DataFrame) -> MixedDesign:
        """The model of these rows."""
        table = self.tabulate(rows, None)
        units = {each.column: measure_unit(table, each) for each in self.fixed if each.column}
        return self.arrange(table, rows, units, {})

    def arrange(
        self,
        table: pd.DataFrame,
        rows: pd.DataFrame,
        units: Mapping[str, tuple[float, float]],
        before: Mapping[str, Effects],
    ) -> MixedDesign:
        """The model of outcomes in the units of a fit to `rows`, whose levels, `before`, come first."""
        effects = {each.block: arrange_levels(each, table, before.get(each.block)) for each in self.levels}
        freedom = read_numbers(table, self.rest.freedom) if self.rest.freedom in table else np.full(len(table), np.inf)
        model = Gaussian(
            y=read_numbers(table, self.outcome),
            X=np.column_stack([read_column(table, each, units) for each in self.fixed]),
            sd=np.array([each.sd for each in self.fixed]),
            blocks={name: each.columns for name, each in effects.items()},
            prior=HalfNormals((*(each.scale for each in self.levels), self.rest.scale)),
            error=read_numbers(table, self.rest.error),
            freedom=freedom if np.isfinite(freedom).any() else None,
        )
        labels = {name: effects[block].names for name, block in self.labels.items() if block in effects}
        return MixedDesign(
            model=model,
            outcomes=tuple(table.index),
            labels={**labels, **self.parts},
            by_row=self.rowwise,
            scale=self.scale,
            groups=tuple(each.column for each in self.levels),
            covariates=tuple(each.column for each in self.fixed if each.column),
            regressors=self.list_regressors(model, effects),
            mixed=self,
            units=units,
            effects=effects,
            table=table,
            rows=rows,
        )

    def list_regressors(self, model: Gaussian, effects: Mapping[str, Effects]) -> Regressors | None:
        """Covariates, the last first, and groups that residuals are looked at against."""
        if not self.regression:
            return None
        groups = effects[LEVEL].codes if LEVEL in effects else None
        return Regressors(x=model.X[:, :0:-1], groups=groups)

    def scale_priors(self, factor: float) -> Mixed:
        """All prior scales times a factor."""
        fixed = tuple(replace(each, sd=factor * each.sd) for each in self.fixed)
        levels = tuple(replace(each, scale=factor * each.scale) for each in self.levels)
        return replace(self, fixed=fixed, levels=levels, rest=replace(self.rest, scale=factor * self.rest.scale))

    def drop_levels(self, *blocks: str) -> Mixed:
        """No effects of some blocks."""
        return replace(self, levels=tuple(each for each in self.levels if each.block not in blocks))

    def drop_errors(self) -> Mixed:
        """Outcomes taken as exact."""
        return replace(self, rest=replace(self.rest, error=""))

    @property
    def covariates(self) -> list[str]:
        """Columns that have a coefficient."""
        return [each.column for each in self.fixed if each.column]

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Of every coefficient and spread, as drawn, with its reason; those that are alike in one line."""
        coefficients = [(each.symbol, f"N(0, {each.sd:.3g}²)", each.why) for each in self.fixed]
        parts: tuple[Levels | Rest, ...] = (*self.levels, self.rest)
        spreads = [(each.symbol, f"half-normal({each.scale:.3g})", each.why) for each in parts]
        symbols: dict[tuple[str, str], list[str]] = {}
        for symbol, text, why in (*coefficients, *spreads):
            symbols.setdefault((text, why), []).append(symbol)
        return tuple((", ".join(alike), text, why) for (text, why), alike in symbols.items())


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects:
    """Levels of outcomes and their part of the model."""

    names: tuple[str, ...]
    """Those of the fit first."""
    codes: NDArray[np.int64]
    """Level of every outcome."""
    columns: Array
    """Outcomes × effects."""


def arrange_levels(levels: Levels, table: pd.DataFrame, before: Effects | None) -> Effects:
    """Effects of levels on outcomes; levels that a fit has, `before`, come first."""
    names, codes = numbered(table[levels.column], before.names if before else ())
    seen = len(before.names) if before else len(names)
    columns = contrasts(codes, seen) if levels.sum_zero else np.eye(len(names))[codes]
    if levels.covariate:
        columns = columns * read_numbers(table, levels.covariate)[:, None]
    return Effects(names=names, codes=codes, columns=columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedDesign(Design):
    """Outcomes laid out, with what rows to predict need of the fit."""

    model: Gaussian
    mixed: Mixed
    units: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of every covariate; 0 and 1 where it is taken as it is."""
    effects: Mapping[str, Effects]
    """Every kind of effects by its name among the draws."""
    table: pd.DataFrame
    """A row an outcome."""
    rows: pd.DataFrame
    """Rows of the fit."""

    def of_new(self, rows: pd.DataFrame) -> MixedDesign:
        """Other rows in the same units, levels that the fit has not seen last."""
        if not self.mixed.rowwise:
            rows = self.sort_combinations(rows)
        table = self.mixed.tabulate(rows, self.rows)
        return self.mixed.arrange(table, self.rows, self.units, self.effects)

    def sort_combinations(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The first row of every combination of levels, those of the fit first."""
        columns = {each.column: self.effects[each.block].names for each in self.mixed.levels}
        codes = [numbered(rows[column], names)[1] for column, names in columns.items()]
        return rows.iloc[np.lexsort(codes[::-1])].drop_duplicates(list(columns))


def read_numbers(table: pd.DataFrame, column: str) -> Array:
    """A column as numbers; zeros where the table has none."""
    return table[column].to_numpy(dtype=np.float64) if column in table else np.zeros(len(table))


def measure_unit(table: pd.DataFrame, fixed: Fixed) -> tuple[float, float]:
    """Mean and standard deviation of a covariate; 0 and 1 of one that is taken as it is."""
    if not fixed.standardised:
        return 0.0, 1.0
    x = read_numbers(table, fixed.column)
    return float(x.mean()), float(x.std())


def read_column(table: pd.DataFrame, fixed: Fixed, units: Mapping[str, tuple[float, float]]) -> Array:
    """What a coefficient multiplies: a covariate in its unit, or ones."""
    if not fixed.column:
        return np.ones(len(table))
    mean, sd = units[fixed.column]
    return (read_numbers(table, fixed.column) - mean) / sd


def declare_law(law: Law, mixed: Mixed, others: Mapping[str, Mixed] = {}) -> Law:
    """A law with the design and priors of a declaration; alternatives are other declarations and prior scales."""
    alternatives = {name: mixed.scale_priors(factor) for name, factor in WIDER.items()} | dict(others)
    declared = {
        name: replace(law, of=each.design_rows, priors=each.priors)
        for name, each in ({"": mixed} | alternatives).items()
    }
    return replace(declared.pop(""), alternatives=declared)


def name_spreads(values: Mapping[str, Array], design: MixedDesign, names: Mapping[str, str]) -> dict[str, Array]:
    """Standard deviation of the residuals, and by name those of the blocks that the model has."""
    scales = dict(zip([*design.effects, "rest"], np.moveaxis(values["scale"], -1, 0), strict=True))
    drawn = {name: scales[block] for block, name in names.items() if block in scales}
    return {"residual_sd": scales["rest"], **drawn}
