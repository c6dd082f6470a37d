"""y = Xβ + Σ_k Z_k u_k + ε, u_k ~ N(0, s_k²), ε_i ~ N(0, σ² + error_i²), declared as columns of
rows.

A law names its coefficients (`Fixed`), its kinds of effects (`Levels`, and those of `heritage` and
descent) and what is left (`Rest`). The design of rows, rows to predict, alternatives, equations and
priors in words are made from these, so no page can state another model than was drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.columns import COMPUTED, drop_computed
from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import Gaussian, HalfNormals, Mixture, Shares
from thermostats.modelling.laws import AS_GIVEN, WIDER, Design, Law, OutcomeScale, Prior
from thermostats.modelling.populations import build_contrasts, index_levels
from thermostats.modelling.positive import PositivePrior
from thermostats.modelling.regressors import Regressors
from thermostats.modelling.sampling import Sampled

Model = Gaussian | Mixture | Sampled
SHARED = "f_b = τ √φ_b X_b u_b, scaled so that E Σ_i f_b,i²/M = τ² φ_b"
"""Of effects that have a share of the whole variance."""
LEFT = ""
"""What is left, among the concentrations of shares."""
LEVEL = "level"
"""Name among the draws of the levels that residuals of a line are looked at against, mostly those
of labs."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A coefficient with its normal prior."""

    column: str = ""
    """Empty: the intercept."""
    sd: float
    mean: float = 0.0
    symbol: str
    why: str
    term: str = ""
    """What it multiplies, in symbols."""
    quantity: str = ""
    """Its name among the quantities; empty: it is none."""
    standardised: bool = False
    """By mean and SD of the rows of the fit."""
    unscaled: bool = False
    """Whether its quantity is that of the column as it is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects:
    """Effects of one kind laid out for some outcomes."""

    columns: Array
    """Outcomes × effects."""
    names: tuple[str, ...] = ()
    """Their levels, those of the fit first."""
    codes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Level of every outcome."""
    basis: Any = None
    """What the rows of a fit fix for others."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Effects of one kind, with a prior of their standard deviation."""

    name: str = ""
    """Among the draws."""
    scale: float = 0.0
    """Of the half-normal prior; 0: they have a share of the whole variance."""
    symbol: str = ""
    """Of the standard deviation, or of effects in its units."""
    why: str = ""
    effect: str = ""
    """An outcome's effect, in symbols, and what it multiplies."""
    quantity: str = ""
    """Name of the standard deviation among the quantities; empty: it is none."""

    @property
    def block(self) -> str:
        """Name among the draws."""
        return self.name

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns whose values have effects of their own."""
        return ()

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of numbers that are read."""
        return ()

    @property
    def prior(self) -> str:
        """In words."""
        return f"half-normal({self.scale:.3g})" if self.scale else "N(0, 1)"

    def arrange(self, table: pd.DataFrame, fit: Effects | None) -> Effects | None:
        """Effects on outcomes in the units of a fit; None where these rows do not tell them from
        what is left."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Levels(Kind):
    """Effects of the values of a column, or slopes by value."""

    column: str
    covariate: str = ""
    """Column of which they are slopes; empty: they are levels."""
    sum_zero: bool = False
    """Over the values of the fit."""
    met: bool = False
    """In the order in which they are met; else in that of their names."""

    @property
    def block(self) -> str:
        """Name among the draws, that of the column by default."""
        return self.name or self.column

    @property
    def groups(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def arrange(self, table: pd.DataFrame, fit: Effects | None) -> Effects:
        """An effect a level."""
        before = fit.names if fit else ()
        if self.met:
            stated = table[self.column].astype(str)
            met = [*before, *stated]
            before = tuple(dict.fromkeys(met))
        names, codes = index_levels(table[self.column], before)
        if self.sum_zero:
            columns = build_contrasts(codes, len(fit.names) if fit else len(names))
        else:
            columns = np.eye(len(names))[codes]
        if self.covariate:
            columns = columns * read_numbers_or_zeros(table, self.covariate)[:, None]
        return Effects(columns=columns, names=names, codes=codes)


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What is left, with a half-normal prior of its standard deviation, and what is known of errors
    too."""

    scale: float = 0.0
    """0: it has a share of the whole variance."""
    symbol: str = "σ"
    why: str = ""
    effect: str = "ε_i"
    quantity: str = ""
    error: str = ""
    """Column of standard errors of the outcomes; empty: exact outcomes."""
    error_symbol: str = "se_i"
    freedom: str = ""
    """Column of their degrees of freedom, where they are estimates."""
    shape: str = "normal"
    """Law of what is left, where the engine knows others."""


@dataclass(frozen=True, kw_only=True)
class SharedVariance:
    """τ² in shares φ, one of every kind and one of what is left: no kind has a head start."""

    total: PositivePrior
    """Of τ."""
    concentration: float = 1.0
    """Of the Dirichlet prior of φ, of every kind."""
    concentrations: Mapping[str, float] = field(default_factory=dict)
    """Those of some kinds, by block, and under `LEFT` that of what is left."""
    whys: tuple[str, str] = (
        "models that differ by that many e-folds are no surprise",
        "no block has a head start",
    )
    """Of τ and φ."""

    def list_concentrations(self, blocks: Iterable[str]) -> tuple[float, ...]:
        """Of these blocks and of what is left."""
        concentrations: list[float] = []
        for name in (*blocks, LEFT):
            concentrations.append(self.concentrations.get(name, self.concentration))
        return tuple(concentrations)

    def share(self, blocks: Iterable[str]) -> Shares:
        """The prior of the scales of these blocks and of what is left."""
        return Shares(total=self.total, concentrations=self.list_concentrations(blocks))

    def state_priors(self, blocks: Iterable[str]) -> list[Prior]:
        """The same in words."""
        shares = ", ".join(f"{each:g}" for each in self.list_concentrations(blocks))
        of_total, of_shares = self.whys
        return [("τ", self.total.words, of_total), ("φ", f"Dirichlet({shares})", of_shares)]

    def rescale_shares(self, factor: float) -> SharedVariance:
        """All concentrations times a factor."""
        several = {name: factor * each for name, each in self.concentrations.items()}
        return replace(self, concentration=factor * self.concentration, concentrations=several)


def keep_rows(rows: pd.DataFrame, _: pd.DataFrame | None) -> pd.DataFrame:
    """Every row is an outcome."""
    return rows


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """A law's columns and priors."""

    outcome: str
    left: str
    """The outcome in symbols."""
    fixed: tuple[Fixed, ...]
    kinds: tuple[Kind, ...] = ()
    rest: Rest
    variance: SharedVariance | None = None
    scale: OutcomeScale = AS_GIVEN
    """That of the outcomes."""
    tabulate: Callable[[pd.DataFrame, pd.DataFrame | None], pd.DataFrame] = keep_rows
    """Outcomes of rows, a row each, its name the index; of rows to predict, given the rows of the
    fit."""
    rowwise: bool = True
    """Whether every row is an outcome; else those to predict are one for each combination of
    levels."""
    labels: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Quantities that are arrays: the kind whose levels their elements are of, or the names of
    these."""
    regress: Callable[[MixedDesign], Regressors | None] = lambda design: None
    """What residuals are looked at against."""
    engine: Callable[[MixedDesign], Gaussian | Sampled] = lambda design: design.gaussian
    """The model of a design, where another than the Gaussian one draws it."""

    def design_rows(self, rows: pd.DataFrame) -> MixedDesign:
        """The model of these rows."""
        table = self.tabulate(rows, None)
        return self.arrange(table, rows, None)

    def arrange(
        self, table: pd.DataFrame, rows: pd.DataFrame, fit: MixedDesign | None
    ) -> MixedDesign:
        """The model of outcomes; with a fit, which has other rows, in its units and after its
        levels."""
        units = fit.units if fit else self._measure_units(table)
        effects = {}
        for kind in self.kinds:
            if fit is None or kind.block in fit.effects:
                fitted = fit.effects[kind.block] if fit else None
                arranged = kind.arrange(table, fitted)
                if arranged is not None:
                    effects[kind.block] = arranged
        gaussian = self.assemble(table, units, effects)
        groups: list[str] = []
        covariates = list(self.covariates)
        for kind in self.kinds:
            groups += kind.groups
            covariates += kind.covariates
        design = MixedDesign(
            model=gaussian,
            outcomes=tuple(table.index),
            labels=self._list_labels(effects),
            by_row=self.rowwise,
            scale=self.scale,
            groups=tuple(dict.fromkeys(groups)),
            covariates=tuple(dict.fromkeys(covariates)),
            mixed=self,
            gaussian=gaussian,
            units=units,
            effects=effects,
            table=table,
            fitted=fit.fitted if fit else rows,
            before=fit.before + len(fit.table) if fit else 0,
        )
        return replace(design, model=self.engine(design), regressors=self.regress(design))

    def _measure_units(self, table: pd.DataFrame) -> dict[str, tuple[float, float]]:
        units = {}
        for each in self.fixed:
            if each.column:
                units[each.column] = measure_unit(table, each)
        return units

    def _list_labels(self, effects: Mapping[str, Effects]) -> dict[str, tuple[str, ...]]:
        """Names of the elements of every quantity that is an array, those of levels first."""
        labels: dict[str, tuple[str, ...]] = {}
        stated: dict[str, tuple[str, ...]] = {}
        for name, each in self.labels.items():
            if isinstance(each, tuple):
                stated[name] = each
            elif each in effects:
                labels[name] = effects[each].names
        return labels | stated

    def assemble(
        self,
        table: pd.DataFrame,
        units: Mapping[str, tuple[float, float]],
        effects: Mapping[str, Effects],
    ) -> Gaussian:
        """The Gaussian model of outcomes with these effects."""
        columns = [read_column(table, each, units) for each in self.fixed]
        sds = [each.sd for each in self.fixed]
        means = [each.mean for each in self.fixed]
        scale_by_block = {kind.block: kind.scale for kind in self.kinds}
        blocks = {}
        scales = []
        for name, each in effects.items():
            blocks[name] = each.columns
            scales.append(scale_by_block[name])
        prior: HalfNormals | Shares = HalfNormals((*scales, self.rest.scale))
        if self.variance:
            prior = self.variance.share(effects)
        freedom = None
        if self.rest.freedom in table:
            stated = read_numbers_or_zeros(table, self.rest.freedom)
            freedom = stated if np.isfinite(stated).any() else None
        return Gaussian(
            y=read_numbers_or_zeros(table, self.outcome),
            X=np.column_stack(columns),
            sd=np.array(sds),
            blocks=blocks,
            prior=prior,
            place=np.array(means),
            error=read_numbers_or_zeros(table, self.rest.error),
            freedom=freedom,
        )

    def scale_priors(self, factor: float) -> Mixed:
        """All prior scales times a factor."""
        fixed = tuple(replace(each, sd=factor * each.sd) for each in self.fixed)
        kinds = tuple(replace(each, scale=factor * each.scale) for each in self.kinds)
        variance = self.variance
        if variance:
            variance = replace(variance, total=variance.total.rescale(factor))
        rest = replace(self.rest, scale=factor * self.rest.scale)
        return replace(self, fixed=fixed, kinds=kinds, rest=rest, variance=variance)

    def drop_kinds(self, *blocks: str) -> Mixed:
        """No effects of some kinds."""
        kept = tuple(each for each in self.kinds if each.block not in blocks)
        return replace(self, kinds=kept)

    def replace_kind(self, kind: Kind) -> Mixed:
        """Another kind in the place of that of its name."""
        kinds = []
        for each in self.kinds:
            kinds.append(kind if each.block == kind.block else each)
        return replace(self, kinds=tuple(kinds))

    def drop_errors(self) -> Mixed:
        """Outcomes taken as exact."""
        rest = replace(self.rest, error="")
        return replace(self, rest=rest)

    @property
    def covariates(self) -> list[str]:
        """Columns that have a coefficient."""
        return [each.column for each in self.fixed if each.column]

    @property
    def equations(self) -> tuple[str, ...]:
        """The sum of the outcome's parts, and what these are drawn from."""
        parts = []
        for each in self.fixed:
            parts.append(f"{each.symbol} {each.term}".strip())
        parts += [each.effect for each in self.kinds]
        total = f"{self.left} = {' + '.join([*parts, self.rest.effect])}"
        if self.variance:
            return total, SHARED
        laws = []
        for kind in self.kinds:
            effect = re.split("[ (]", kind.effect)[0]
            laws.append(f"{effect} ~ N(0, {kind.symbol}²)")
        rest = self.rest
        error = f" + {rest.error_symbol}²" if rest.error else ""
        laws.append(f"{rest.effect} ~ N(0, {rest.symbol}²{error})")
        return total, ",  ".join(laws)

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Of every coefficient and spread, as drawn, with its reason; those that are alike in one
        line."""
        lines = []
        for x in self.fixed:
            lines.append((x.symbol, f"N({x.mean:.3g}, {x.sd:.3g}²)", x.why))
        if self.variance:
            lines += self.variance.state_priors(kind.block for kind in self.kinds)
        for kind in self.kinds:
            if kind.symbol:
                lines.append((kind.symbol, kind.prior, kind.why))
        if not self.variance:
            rest = self.rest
            lines.append((rest.symbol, f"half-normal({rest.scale:.3g})", rest.why))
        symbols: dict[tuple[str, str], list[str]] = {}
        for symbol, text, why in lines:
            symbols.setdefault((text, why), []).append(symbol)
        priors: list[Prior] = []
        for (text, why), alike in symbols.items():
            priors.append((", ".join(alike), text, why))
        return tuple(priors)


@dataclass(frozen=True, kw_only=True, eq=False)
class MixedDesign(Design):
    """Outcomes laid out, with what rows to predict need of the fit."""

    mixed: Mixed
    gaussian: Gaussian
    """The model, or what another engine's model is made of."""
    units: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of every covariate; 0 and 1 where it is taken as it is."""
    effects: Mapping[str, Effects]
    """Every kind of effects by its name among the draws."""
    table: pd.DataFrame
    """A row an outcome."""
    fitted: pd.DataFrame
    """Rows of the fit."""
    before: int
    """Outcomes of the fit that these are new to."""

    def build_new(self, rows: pd.DataFrame) -> MixedDesign:
        """Other rows in the same units, levels that the fit has not seen last."""
        if self.mixed.rest.error in COMPUTED:
            rows = drop_computed(rows)
        if not self.mixed.rowwise:
            rows = self.sort_combinations(rows)
        table = self.mixed.tabulate(rows, self.fitted)
        return self.mixed.arrange(table, self.fitted, self)

    def sort_combinations(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The first row of every combination of levels, those of the fit first."""
        names: dict[str, tuple[str, ...]] = {}
        for kind in self.mixed.kinds:
            names |= dict.fromkeys(kind.groups, self.effects[kind.block].names)
        codes = []
        for column, levels in names.items():
            codes.append(index_levels(rows[column], levels)[1])
        ordered = rows.iloc[np.lexsort(codes[::-1])]
        return ordered.drop_duplicates(list(names))


@dataclass(frozen=True, kw_only=True, eq=False)
class MixtureDesign(Design):
    """The same outcomes laid out by several declarations, one of which is right."""

    designs: tuple[MixedDesign, ...]

    @classmethod
    def mix(cls, designs: Sequence[MixedDesign], model: Model, **more: Any) -> Self:
        """Designs and the model that is made of them."""
        first = {}
        for each in fields(Design):
            first[each.name] = getattr(designs[0], each.name)
        own = {"model": model, "designs": tuple(designs)}
        return cls(**{**first, **own, **more})

    def build_new(self, rows: pd.DataFrame) -> Self:
        """Other rows by every declaration."""
        designs = tuple(design.build_new(rows) for design in self.designs)
        model = designs[0].model
        if isinstance(self.model, Mixture):
            model = replace(self.model, nodes=tuple(design.gaussian for design in designs))
        return replace(self, designs=designs, model=model, outcomes=designs[0].outcomes)


def look_along_line(design: MixedDesign) -> Regressors:
    """Covariates of a line, the last first, and the groups of `LEVEL`."""
    groups = design.effects[LEVEL].codes if LEVEL in design.effects else None
    return Regressors(x=design.gaussian.X[:, :0:-1], groups=groups)


def read_numbers_or_zeros(table: pd.DataFrame, column: str) -> Array:
    """A column as numbers; zeros where the table has none."""
    if column not in table:
        return np.zeros(len(table))
    values: Array = table[column].to_numpy(dtype=np.float64)
    return values


def measure_unit(table: pd.DataFrame, fixed: Fixed) -> tuple[float, float]:
    """Mean and standard deviation of a covariate; 0 and 1 of one that is taken as it is."""
    if not fixed.standardised:
        return 0.0, 1.0
    x = read_numbers_or_zeros(table, fixed.column)
    return float(x.mean()), float(x.std())


def read_column(
    table: pd.DataFrame, fixed: Fixed, units: Mapping[str, tuple[float, float]]
) -> Array:
    """What a coefficient multiplies: a covariate in its unit, or ones."""
    if not fixed.column:
        return np.ones(len(table))
    mean, sd = units[fixed.column]
    return (read_numbers_or_zeros(table, fixed.column) - mean) / sd


class Declaration(Protocol):
    """What a law is made from."""

    @property
    def equations(self) -> tuple[str, ...]: ...
    @property
    def priors(self) -> tuple[Prior, ...]: ...
    def design_rows(self, rows: pd.DataFrame) -> Design: ...


def declare_law(law: Law, mixed: Mixed, others: Mapping[str, Mixed] = {}) -> Law:
    """A law as `state_law` makes it; alternatives are other prior scales too."""
    wider = {name: mixed.scale_priors(factor) for name, factor in WIDER.items()}
    return state_law(law, mixed, {**wider, **others})


def state_law(law: Law, declared: Declaration, others: Mapping[str, Declaration]) -> Law:
    """A law with design, equations and priors of a declaration, before its own; others are its
    alternatives."""
    stated: dict[str, Law] = {}
    for name, each in {"": declared, **others}.items():
        equations = (*each.equations, *law.equations)
        priors = (*each.priors, *law.priors)
        stated[name] = replace(law, of=each.design_rows, equations=equations, priors=priors)
    return replace(stated.pop(""), alternatives=stated)


def apply_effects(drawn: Array, columns: Array) -> Array:
    """What effects, the first of those drawn, add to outcomes by their columns, … × outcome."""
    effects = drawn[..., : columns.shape[1]]
    return np.asarray(effects @ columns.T)


def name_draws(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    """Coefficients and standard deviations that are quantities, by their names; that of what is
    left first of these."""
    mixed = design.mixed
    scales = [*design.effects, ""]
    names = {"": mixed.rest.quantity}
    for kind in mixed.kinds:
        names[kind.block] = kind.quantity
    drawn = {}
    for k, each in enumerate(mixed.fixed):
        unit = design.units[each.column][1] if each.unscaled else 1.0
        drawn[each.quantity] = values["beta"][..., k] / unit
    for block, name in names.items():
        if block in scales:
            drawn[name] = values["scale"][..., scales.index(block)]
    return {name: each for name, each in drawn.items() if name}
