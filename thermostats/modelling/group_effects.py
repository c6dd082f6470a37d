"""Effects of the groups of a fit, partially pooled, and contrasts of two of them, from its draws.

An effect is what a group adds to the mean of its outcomes, on the scale of the law: of gains the
log. Where labs and shape go together, effects are the labs' beyond shape.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError, build_unknown_error, find_nearest
from thermostats.formatting import format_number
from thermostats.modelling.columns import guess_columns
from thermostats.modelling.draws import Array, find_equal_tailed, summarise_quantities
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.laws import BASES
from thermostats.modelling.mixed_model import Effects, Kind, Levels, MixedDesign, apply_effects
from thermostats.next_steps import CallMade, write_value

LAB, OURS = "lab", "heritage"
"""What labs are called in a fit, and their column."""
FAMILY = "family"
SEVERAL = 2
"""Models of a group that tell its effect from those of its models."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupEffects:
    """The effect of every group of one kind; at a prompt it is its table."""

    group: str
    """Of what: lab, family, or a column."""
    names: tuple[str, ...]
    draws: Array
    """Chain × draw × group."""
    counts: tuple[int, ...]
    """Models of every group; outcomes where rows name no models."""
    scale: str
    """Of the outcomes, such as log; empty: their own."""
    level: float
    """Of the intervals, which are equal-tailed."""

    @property
    def table(self) -> pd.DataFrame:
        """By group: n_models, mean, sd, median, lower, upper, and `p_above`, P(effect > 0)."""
        draws = {self.group: self.draws}
        summary = summarise_quantities(draws, level=self.level, exact=[self.group])
        table = summary[["mean", "sd", "median", "lower", "upper"]]
        table = table.set_axis(pd.Index(self.names, name=self.group))
        table.insert(0, "n_models", self.counts)
        above = (self.draws > 0).mean(axis=(0, 1))
        return table.assign(p_above=above)

    def __repr__(self) -> str:
        unit = f"{self.scale} scale, " if self.scale else ""
        head = f"effects of {self.group}: {unit}{self.level:.0%} equal-tailed intervals"
        return f"{head}\n{self.table.to_string(float_format=format_number)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupContrast:
    """The effect of one group minus that of another."""

    first: str
    second: str
    draws: Array
    """Chain × draw."""
    scale: str
    level: float

    @property
    def estimate(self) -> float:
        """The median of the draws."""
        return float(np.median(self.draws))

    @property
    def interval(self) -> tuple[float, float]:
        """Equal-tailed, at `level`."""
        lower, upper = find_equal_tailed(self.draws.ravel(), self.level)
        return float(lower), float(upper)

    @property
    def probability(self) -> float:
        """P(difference > 0)."""
        return float((self.draws > 0).mean())

    @property
    def ratio(self) -> tuple[float, float, float] | None:
        """By what the outcomes differ as a factor, the estimate and the ends of the interval, where
        the scale is a log; else None."""
        if self.scale not in BASES:
            return None
        unit = BASES[self.scale]
        lower, upper = self.interval
        return math.exp(unit * self.estimate), math.exp(unit * lower), math.exp(unit * upper)

    def __repr__(self) -> str:
        estimate = format_number(self.estimate)
        lower, upper = map(format_number, self.interval)
        above = format_number(self.probability)
        unit = f" on the {self.scale} scale" if self.scale else ""
        if self.ratio is not None:
            times, least, most = map(format_number, self.ratio)
            unit += f", a ratio of {times} [{least}, {most}]"
        return (
            f"{self.first} − {self.second}: {estimate} [{lower}, {upper}]{unit}, "
            f"median and {self.level:.0%} equal-tailed interval; P > 0 = {above}"
        )


def measure_group_effects(fit: FittedLaw, group: str) -> GroupEffects:
    """Effects of the groups of one kind, by its name; UsageError where a fit has no such kind."""
    kinds = list_group_kinds(fit)
    if not kinds:
        raise UsageError(
            "this fit has no groups whose effects could be given",
            where=fit.law.name,
            got=repr(group),
            allowed="a fit with labs or other groups",
            next_step=_suggest_groups(fit),
        )
    names = _list_names(fit, kinds)
    if not isinstance(group, str) or group not in names:
        raise build_unknown_error(
            "no such groups in this fit", group, kinds, where=fit.law.name, line='fit.effects("{}")'
        )
    chosen = names[group]
    kind = kinds[chosen]
    design = fit.designed(MixedDesign)
    effects = design.effects[kind.block]
    draws = compute_effects(fit.draws.values, design, kind)
    counts = _count_models(design, effects)
    return GroupEffects(
        group=chosen,
        names=effects.names,
        draws=draws,
        counts=counts,
        scale=design.scale.word,
        level=fit.level,
    )


def contrast_groups(fit: FittedLaw, first: str, second: str, group: str) -> GroupContrast:
    """One effect minus another; UsageError for a group that is not there, or is of one model."""
    kinds = list_group_kinds(fit)
    effects = measure_group_effects(fit, group or next(iter(kinds), LAB))
    _check_contrast(effects, first, second, named=bool(group))
    one = effects.names.index(first)
    other = effects.names.index(second)
    draws = effects.draws[..., one] - effects.draws[..., other]
    return GroupContrast(
        first=first, second=second, draws=draws, scale=effects.scale, level=effects.level
    )


def list_group_kinds(fit: FittedLaw) -> dict[str, Kind]:
    """Kinds of effects that are of groups, not of slopes, by what they are called in a fit."""
    if not isinstance(fit.design, MixedDesign):
        return {}
    kinds = {}
    for kind in fit.design.mixed.kinds:
        effects = fit.design.effects.get(kind.block)
        slopes = isinstance(kind, Levels) and kind.covariate
        if effects is not None and effects.names and not slopes:
            kinds[_name_kind(kind)] = kind
    return kinds


def _name_kind(kind: Kind) -> str:
    column = kind.groups[-1] if kind.groups else kind.name
    return LAB if column == OURS else column


def _list_names(fit: FittedLaw, kinds: dict[str, Kind]) -> dict[str, str]:
    """By every name that a user may know a kind by, what it is called in a fit."""
    names = {name: name for name in kinds}
    for name, kind in kinds.items():
        names.setdefault(kind.name or kind.block, name)
        names.setdefault(OURS if name == LAB else name, name)
    arguments = fit.call.arguments if fit.call else {}
    for role in (LAB, FAMILY):
        column = arguments.get(role)
        if role in kinds and isinstance(column, str):
            names.setdefault(column, role)
    return names


def compute_effects(values: Mapping[str, Array], design: MixedDesign, kind: Kind) -> Array:
    """Draws of the effect of every group, … × group: what its first outcome has of them."""
    effects = design.effects[kind.block]
    first = []
    for code in range(len(effects.names)):
        rows = np.flatnonzero(effects.codes == code)
        first.append(int(rows[0]))
    return apply_effects(values[kind.block], effects.columns[first])


def _count_models(design: MixedDesign, effects: Effects) -> tuple[int, ...]:
    table = design.table
    models = np.arange(len(table))
    if "model_id" in table:
        models = table["model_id"].to_numpy()
    counts = pd.Series(models).groupby(effects.codes).nunique()
    of_groups = [int(counts[code]) for code in range(len(effects.names))]
    return tuple(of_groups)


def _check_contrast(effects: GroupEffects, first: Any, second: Any, *, named: bool) -> None:
    """Refuse names that are none, twice the same, or of groups whose effect cannot be distinguished
    from their only model's."""
    pairs = zip(effects.names, effects.counts, strict=True)
    known = [name for name, count in pairs if count >= SEVERAL]
    step = _suggest_contrast(effects, known, first, second, named=named)
    several = ", ".join(known)
    for name in (first, second):
        if name not in effects.names:
            raise UsageError(
                f"no such {effects.group} in this fit",
                got=repr(name),
                allowed=several,
                next_step=step,
            )
        if name not in known:
            raise UsageError(
                f"a {effects.group} of one model: its effect cannot be separated from its model's",
                got=name,
                allowed=f"of {SEVERAL} models or more: {several or 'none here'}",
                next_step=step,
            )
    if first == second:
        raise UsageError(
            f"a contrast of a {effects.group} with itself",
            got=first,
            allowed=several,
            next_step=step,
        )


def _suggest_contrast(
    effects: GroupEffects, known: list[str], first: Any, second: Any, *, named: bool
) -> str:
    """The contrast of the two groups of several models that were most likely meant; the table where
    there are no two."""
    if len(known) < SEVERAL:
        return f"fit.effects({write_value(effects.group)})"
    pair = []
    for name in (first, second if second != first else ""):
        pair.append(name if name in known else "")
    for place, wanted in enumerate((first, second)):
        left = [name for name in known if name not in pair]
        if not pair[place]:
            pair[place] = find_nearest(str(wanted), left) or left[0]
    group = f", group={write_value(effects.group)}" if named else ""
    return f"fit.contrast({write_value(pair[0])}, {write_value(pair[1])}{group})"


def _suggest_groups(fit: FittedLaw) -> str:
    """The same fit with groups where its table has a column of labs; else what it has."""
    if fit.call is None:
        return "fit.summary()"
    roles = [role for role in (LAB, "group") if role in fit.call.standard]
    arguments = fit.call.arguments
    tables = [value for value in arguments.values() if isinstance(value, pd.DataFrame)]
    column = guess_columns(tables[0], LAB) if tables else None
    if not roles or not isinstance(column, str):
        return "fit.summary()"
    function = getattr(import_module(fit.call.module), fit.call.function)
    made = CallMade(
        function=fit.call.function,
        arguments={**arguments, roles[0]: column},
        signature=inspect.signature(function),
    )
    return f'{made.line()}.effects("{LAB}")'
