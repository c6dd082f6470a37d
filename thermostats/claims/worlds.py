"""Worlds in which the truth is known: a signal and errors, to judge rules by.

A world puts outcomes in the place of the measured ones, on the rows that a finding reads; nothing
that models fit is used. Its signal says what is true, its errors (`claims/noise.py`) what hides it.
A claim names one family of worlds:

| the rule compares | worlds |
|---|---|
| a correlation or slope over models | `build_line_worlds` |
| slopes inside models, over prompts | `build_slope_worlds` |
| an exponent with a margin | `build_exponent_worlds` |
| shares of variance of several causes | `build_cause_worlds` |
| a share along the tree of descent | `build_descent_worlds` |
| a mean with a number | `build_mean_worlds` |
| a difference with 0, of all rows or of some | `build_shift_worlds` |
| every model with a bound | `build_bound_worlds` |
| values by prompt with a number for each unit | `build_level_worlds` |
| variance between models with that between prompts | `build_part_worlds` |
| the share of models where something holds | `build_share_worlds` |
| that share among some models with the rest | `build_contrast_worlds` |
| the same of gains measured with errors | `build_side_worlds` |

A rule that none fits has a family of its own: `Worlds` with a function that makes the world of a
size and of nuisances (for example `studies/delia2026/hierarchy.py`). `claims/levels.py` tries a
rule in all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from thermostats.claims.bounds import make_box, read_bounds
from thermostats.claims.noise import (
    BY_PROMPT,
    ERRORS,
    Errors,
    Limits,
    Noise,
    PromptErrors,
    Random,
    describe_column,
    describe_groups,
)
from thermostats.claims.result import Estimate, Result
from thermostats.errors import DataError
from thermostats.formatting import format_declared, join_words
from thermostats.modelling.nuisances import AR as ALONG_CHAIN
from thermostats.modelling.nuisances import DECLARED, SHARE, SKEW, SPREAD, TAILS, Bounds
from thermostats.modelling.nuisances import RATIO as OF_SDS

Array = NDArray[Any]
Rng = np.random.Generator

Outcomes = dict[str, Array]
"""Columns that a world puts in the place of the measured ones, study × row."""
Signal = Callable[[pd.DataFrame, Noise, Random], Outcomes]
Point = Mapping[str, Any]
"""Size by name (`size`), kind of errors (`kind`) and nuisances."""
TOTAL = 0.2
"""Standard deviation of log gain between models: models differ by a factor e^0.2 = 1.2."""
NULL = "null"
CLAIMED = "claimed"
BETWEEN = (0.0, DECLARED.share)
RATIO = (1.0, DECLARED.ratio, 1 / DECLARED.ratio)
HALF = 0.5
MEAN = (0.0, 1.0, -1.0)
"""Nuisances: the value at rest and the bounds. Share of the errors' variance between labs; ratio of
SDs at the ends of a column; the mean, see `Off`.
"""
CHANGED, DILUTED = 2, 3
"""Versions of families whose errors may be a chain, or whose truth is not that of the simulated
rows multiplied; and of those where errors of some labs are larger and dilute a share."""


NUISANCES = {
    "ar": "neighbours in {column} err alike ({value})",
    "ratio": "SDs differ {value} times along {column}",
    "between": "{value} of the errors' variance lies between {groups}",
    "alike": "{value} of the variance of log odds lies between groups",
    "shared": "{value} of the errors' variance is a prompt's in all models",
    "families": "{value} of the errors' variance lies between families",
    "unlike": "levels of {groups} differ {value} times as much along {column}",
    "mean": "the mean lies {value} half-widths of its interval off",
}
"""Nuisances in words; a family may name others (`Worlds.nuisances`), else they go by their name and
value."""
MEASURED = {
    "ar": ALONG_CHAIN,
    "ratio": OF_SDS,
    "between": SHARE,
    "families": SHARE,
    "shared": SHARE,
}
"""Nuisances of a box by the names that estimates of them have."""
WIDE = "wide"
"""Part of a point beyond the bounds that were estimated."""
FACTORS = ("ratio", "unlike")
"""Nuisances that multiply, of which bounds below 1 are inverse."""
SAID = {
    ALONG_CHAIN: "correlation of neighbours up to",
    OF_SDS: "ratio of SDs up to",
    SHARE: "share between groups up to",
    SKEW: "σ of log-normal errors from",
    TAILS: "1/ν of errors with the tails of t up to",
    SPREAD: "SD of the logarithm of {}' SDs up to",
}
"""Nuisances that were estimated, in words."""
PERCENT = ("between", "alike", "shared", "families")


@dataclass(frozen=True)
class World:
    """One kind of study: its signal and its errors."""

    words: str
    signal: Signal
    errors: Errors | PromptErrors
    large: Result | None = None
    """The rule's numbers in a sample without end, where they are known in closed form."""
    units: bool = False
    """Whether statements are about the units at hand, so that each study has a truth of its own:
    the rule's numbers of `draw_levels`."""

    def draw(self, rows: pd.DataFrame, random: Random) -> Outcomes:
        """Outcomes of many studies on rows as measured."""
        return self.signal(rows, partial(self.errors.draw, random=random), random)

    def draw_levels(self, rows: pd.DataFrame, random: Random) -> Outcomes:
        """Outcomes without errors of single rows, of the studies that the same random numbers give
        with `draw`."""
        assert isinstance(self.errors, Errors)  # noqa: S101
        return self.signal(rows, partial(self.errors.draw_levels, random=random), random)

    def fix_design(self, rows: pd.DataFrame) -> World:
        """The same world on any rows; what it takes from the measured ones is that of these."""
        if not isinstance(self.signal, Off) or self.signal.design is not None:
            return self
        return replace(self, signal=replace(self.signal, design=rows))

    def change(self, rows: pd.DataFrame, rng: Rng) -> pd.DataFrame:
        """Rows as measured with the outcomes of one study."""
        outcomes = self.draw(rows, Random(rng))
        return rows.assign(**{name: values[0] for name, values in outcomes.items()})


@dataclass(frozen=True)
class Worlds:
    """A family of worlds, in which a rule is tried."""

    make: Callable[..., World]
    """The world of a size, a kind of errors (`kind=`) and every nuisance by the name that `box`
    has."""
    claimed: Any
    """The size that the claim states, or the smallest of interest: its power is the rule's."""
    null: Any = 0.0
    box: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Nuisances by name: value at rest, then its bounds in either direction."""
    kinds: tuple[str, ...] = tuple(ERRORS)
    others: Mapping[str, Any] = field(default_factory=dict)
    """Further sizes by name, such as another cause that is strong."""
    nuisances: Mapping[str, str] = field(default_factory=dict)
    """Nuisances of this family alone in words, as in `NUISANCES`."""
    version: int = 1
    """Raised by whoever changes what a world draws or what is true in it, so that what was
    simulated before counts for nothing."""

    def size(self, name: str) -> Any:
        """A size by its name; a number as name is the part of the way from the null to what is
        claimed."""
        named = {NULL: self.null, CLAIMED: self.claimed, **self.others}
        return (
            named[name] if name in named else _combine_sizes(self.null, self.claimed, float(name))
        )

    @property
    def graded(self) -> bool:
        """Whether there are sizes between the null and what is claimed."""
        return isinstance(self.null, float | int | tuple | Mapping)

    def build_world(self, size: str = CLAIMED, kind: str = "normal", **nuisances: float) -> World:
        """The world of a size by name; nuisances that are not named are at rest."""
        rest = {}
        for name, values in self.box.items():
            rest[name] = values[0]
        return self.make(self.size(size), kind=kind, **(rest | nuisances))

    def describe_nuisances(self, **nuisances: float) -> str:
        """Nuisances that are not at rest, in words."""
        errors = self.build_world().errors
        parts = []
        column = describe_column(getattr(errors, "along", ""))
        groups = describe_groups(getattr(errors, "group", ""))
        for name, value in nuisances.items():
            if name not in self.box:
                continue
            up = 1 / value if name in FACTORS and value < 1 else value
            at = f"{value:.0%}" if name in PERCENT else format_declared(float(f"{up:.2g}"))
            template = {**NUISANCES, **self.nuisances}.get(name, f"{name} is {{value}}")
            words = template.format(value=at, column=column, groups=groups)
            parts += [words] * (value != self.box[name][0])
        return join_words(parts)

    def plausible(self) -> list[Point]:
        """At most one nuisance at its bound, the others at half of theirs or at rest; where bounds
        were estimated, correlation of neighbours and ratio of SDs at theirs together, too."""
        points = []
        for ends in self._list_directions(self.box):
            levels = {}
            for name, end in ends.items():
                rest = self.box[name][0]
                levels[name] = (rest, take_half(name, rest, end), end)
            for others in (0, 1):
                middle = {name: values[others] for name, values in levels.items()}
                points.append(middle)
                for name, values in levels.items():
                    points += [{**middle, name: value} for value in values]
                if self.limits.outcome and {"ar", "ratio"} <= set(ends):
                    points.append({**middle, "ar": ends["ar"], "ratio": ends["ratio"]})
        return list({tuple(point.items()): point for point in points}.values())

    def hostile(self) -> list[Point]:
        """All nuisances at their bounds; where these were estimated, beyond them as `Bounds.widen`
        has it, shapes of errors among them."""
        if not self.limits.outcome:
            return list(self._list_directions(self.box))
        return [{**ends, WIDE: 1.0} for ends in self._list_directions(self._widen_box())]

    @property
    def limits(self) -> Limits:
        """How far errors may go."""
        return self.build_world().errors.limits

    def _widen_box(self) -> dict[str, tuple[float, ...]]:
        """The box with bounds beyond those that were estimated, or declared in their stead."""
        known = {}
        for name, nuisance in MEASURED.items():
            if name in self.box:
                known[name] = nuisance
        ends = {}
        for name, nuisance in known.items():
            ends[nuisance] = self.box[name][1]
        ar = ends.get(ALONG_CHAIN, DECLARED.ar)
        ratio = ends.get(OF_SDS, DECLARED.ratio)
        bounds = Bounds(ar=ar, ratio=ratio, share=ends.get(SHARE, DECLARED.share))
        wider = make_box(bounds.widen(), known)
        box = {}
        for name, values in self.box.items():
            if name in wider:
                box[name] = (values[0], *wider[name][1:])
        if getattr(self.build_world().errors, "unlike", 0.0):
            box["unlike"] = tuple(value**2 for value in self.box["unlike"])
        return {**self.box, **box}

    def describe_bounds(self) -> str:
        """How far each nuisance may go and what that rests on, in words."""
        errors = self.build_world().errors
        outcome = errors.limits.outcome
        if not outcome:
            return "All bounds of nuisances are declared."
        of_prompts = isinstance(errors, PromptErrors)
        alike = "prompt"
        unlike = "model_id"
        if isinstance(errors, Errors):
            alike = errors.group
            unlike = "heritage"
        found = read_bounds(outcome, errors.along, alike)
        units = read_bounds(outcome, errors.along, unlike)
        names = []
        for name, nuisance in MEASURED.items():
            if name in self.box:
                names.append(nuisance)
        parts = []
        for name in (*names, SKEW, TAILS):
            parts.append(f"{SAID[name]} {found.describe(name)}")
        spread = SAID[SPREAD].format("models" if of_prompts else "labs")
        parts.append(f"{spread} {units.describe(SPREAD)}")
        if of_prompts:
            cells = read_bounds(outcome, group="cell")
            parts.append(f"share between a model's categories of {cells.describe(SHARE)}")
        return f"Bounds: {join_words(parts)}."

    def _list_directions(self, box: Mapping[str, tuple[float, ...]]) -> Iterator[dict[str, float]]:
        """A bound of every nuisance of a box, in each direction."""
        for ends in itertools.product(*(values[1:] for values in box.values())):
            yield dict(zip(box, ends, strict=True))


def take_half(name: str, rest: float, end: float) -> float:
    """Half of the way to a bound; of a ratio below 1 that of its inverse, 1/3 and 1/2 as 3 and
    2."""
    if name in FACTORS and end < rest:
        return 1 / take_half(name, 1 / rest, 1 / end)
    return (rest + end) / 2


def _combine_sizes(null: Any, claimed: Any, part: float) -> Any:
    """A size between two, of numbers, tuples or mappings of numbers."""
    if isinstance(null, Mapping):
        return {name: _combine_sizes(null[name], claimed[name], part) for name in null}
    if isinstance(null, tuple):
        return tuple(
            _combine_sizes(low, high, part) for low, high in zip(null, claimed, strict=True)
        )
    if isinstance(null, str):
        raise DataError(
            "a family of worlds without sizes between its two",
            got=null,
            allowed=f"{NULL}, {CLAIMED}",
        )
    return null + part * (claimed - null)


def build_family(
    signal: Callable[..., Outcomes],
    words: str,
    outcome: str,
    at_rest: tuple[Any, Mapping[str, tuple[float, ...]]],
    claimed: Any,
    null: Any = 0.0,
    kinds: Sequence[str] = tuple(ERRORS),
    others: Mapping[str, Any] = MappingProxyType({}),
    large: Callable[[Any], Result] | None = None,
    units: bool = False,
) -> Worlds:
    """Worlds of a signal that takes its size first, with errors whose nuisances are numbers of
    their own.

    words: with `{}` for the size. outcome: the column that a nuisance `mean` moves. at_rest: errors
    and box. large: the rule's numbers in an endless sample of a size, where they are known. units:
    see `World`.
    """

    limits = getattr(at_rest[0], "limits", Limits())

    def make(
        size: Any, *, kind: str, mean: float | None = None, wide: float = 0.0, **nuisances: float
    ) -> World:
        further: dict[str, Any] = {"limits": limits.widen()} if wide else {}
        errors = replace(at_rest[0], kind=kind, **nuisances, **further)
        made = partial(signal, size)
        named = words.format(describe_size(size))
        if mean is None:
            known = large(size) if large is not None else None
            return World(f"{named}, {errors.words}", made, errors, known, units)
        named = f"{named}, {Off.place(mean)}, {errors.words}"
        return World(named, Off(made, outcome, mean), errors)

    version = CHANGED if units or "ar" in at_rest[1] or large is not None else 1
    chosen = limits.choose_kinds(tuple(kinds), getattr(at_rest[0], "group", ""))
    return Worlds(make, claimed, null, at_rest[1], chosen, others, version=version)


def name_size(quantity: str, size: float) -> Result:
    """The rule's numbers in an endless sample where its estimate is the size itself."""
    return Result(quantities={quantity: Estimate(size)})


def describe_size(size: Any) -> str:
    """A size in words."""
    if isinstance(size, str):
        return size
    if isinstance(size, Mapping):
        return ", ".join(f"{name} {format_declared(value)}" for name, value in size.items())
    return ", ".join(map(format_declared, size if isinstance(size, tuple) else (size,)))


def build_errors(
    column: str = "",
    *,
    ordered: bool = True,
    group: str = "heritage",
    mean: bool = False,
    measured: str = "",
) -> tuple[Errors, dict[str, tuple[float, ...]]]:
    """Errors at rest along a column and in groups, with their nuisances.

    ordered: whether neighbours along the column may err alike. group: empty for none. mean: see
    `Off`. measured: name of the outcome in `data/nuisances.csv`, whose residuals say how far
    nuisances go; without one all is declared.
    """
    groups = group or "heritage"
    found = read_bounds(measured, column, groups).plausible
    labs = read_bounds(measured, column, "heritage").plausible
    sources = read_bounds(measured, column, "source").plausible
    limits = Limits(measured, replace(found, spread=labs.spread), sources.spread)
    names = {"ar"} if column and ordered else set()
    names |= {"ratio"} if column else set()
    names |= {"between"} if group else set()
    varied = {name: kind for name, kind in MEASURED.items() if name in names}
    box = make_box(found, varied)
    box |= {"mean": MEAN} if mean else {}
    return Errors(along=column, group=groups, limits=limits), box


def build_prompt_errors(
    column: str = "", measured: str = ""
) -> tuple[PromptErrors, dict[str, tuple[float, ...]]]:
    """Errors of values by prompt at rest along a column, with their nuisances; measured: as
    `build_errors` has it."""
    found = read_bounds(measured, column, "prompt").plausible
    cells = read_bounds(measured, group="cell").plausible
    models = read_bounds(measured, group="model_id").plausible
    limits = Limits(measured, replace(found, share=cells.share, spread=models.spread))
    names = {"shared": SHARE} | ({"ratio": OF_SDS} if column else {})
    return PromptErrors(along=column, limits=limits), make_box(found, names)


def make_unlike(
    errors: Errors, box: Mapping[str, tuple[float, ...]]
) -> tuple[Errors, dict[str, tuple[float, ...]]]:
    """Errors of which half lies between groups at rest, whose levels differ more or less along the
    column than they do elsewhere."""
    least, most = box["between"]
    between = (HALF, max(HALF, most), least)
    return replace(errors, unlike=1.0), {**box, "between": between, "unlike": RATIO}


@dataclass(frozen=True)
class Off:
    """A signal about the measured outcomes' own mean, in their standard deviations, or off it.

    off: in half-widths of the 95% interval of that mean, so that from −1 to 1 it is where the data
    may have it. design: the measured rows, whatever rows are simulated (a larger study has the mean
    of the one at hand); None: those that are simulated.
    """

    signal: Signal
    outcome: str
    off: float
    design: pd.DataFrame | None = None

    def __call__(self, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
        """Outcomes of the signal, moved by that mean."""
        design = rows if self.design is None else self.design
        measured = design[self.outcome].to_numpy(np.float64)
        half_width = stats.t.ppf(0.975, len(design) - 1) / len(design) ** 0.5
        mean = measured.mean() / (measured.std(ddof=1) or 1.0) + self.off * half_width
        made = self.signal(rows, noise, random)
        return {**made, self.outcome: made[self.outcome] + TOTAL * mean}

    @staticmethod
    def place(off: float) -> str:
        """Where the mean is."""
        return (
            f"mean {off:+.2g} half-widths of its 95% interval off the data's own"
            if off
            else "the data's own mean"
        )


def standardise_values(values: Array) -> Array:
    """Off their mean, with variance 1, along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    spread = centred.std(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(spread, spread, 1.0))


EVERY = tuple(ERRORS)
Shares = Mapping[str, float]


def build_cause_worlds(
    outcome: str,
    columns: Mapping[str, Sequence[str]],
    claimed: Shares,
    others: Mapping[str, Shares],
    *,
    column: str = "",
    kinds: Sequence[str] = EVERY,
    **errors: Any,
) -> Worlds:
    """Log gains of models of which causes have shares of the variance, or nothing but errors.

    columns: of causes that are columns; others are levels of the column of their name. others:
    further shares by name.
    """
    signal = partial(_simulate_causes, outcome, columns)
    at_rest = build_errors(column, **errors)
    return build_family(
        signal,
        "shares of {}",
        outcome,
        at_rest,
        claimed,
        dict.fromkeys(claimed, 0.0),
        kinds,
        others,
    )


def build_descent_worlds(
    outcome: str, lam: float, column: str, quantity: str = "", **errors: Any
) -> Worlds:
    """Log gains of which a share λ drifts along labs and families, or nothing.

    quantity: what the rule calls λ; its estimate, which cannot be negative, is above 0 in many
    samples without descent. A lab that lies off as a whole is descent, so errors of that kind are
    no world without it.
    """
    kinds = [kind for kind in EVERY if kind != "one outlying lab"]
    signal = partial(_simulate_descent, outcome)
    at_rest = build_errors(column, **errors)
    family = build_family(signal, "λ = {}", outcome, at_rest, lam, kinds=kinds)
    if not quantity:
        return family
    make = partial(_build_diluted_world, family.make, quantity)
    return replace(family, make=make, version=DILUTED)


def _build_diluted_world(
    make: Callable[..., World], quantity: str, lam: float, **point: Any
) -> World:
    """A world whose λ is the share of what is simulated: errors that are larger in some labs or
    sources leave less of the variance to descent."""
    world = make(lam, **point)
    assert isinstance(world.errors, Errors)  # noqa: S101
    share = lam / (lam + (1 - lam) * world.errors.mean_square)
    return replace(world, large=name_size(quantity, share))


def _simulate_causes(
    outcome: str,
    columns: Mapping[str, Sequence[str]],
    shares: Shares,
    rows: pd.DataFrame,
    noise: Noise,
    random: Random,
) -> Outcomes:
    made = (1 - sum(shares.values())) ** 0.5 * noise(rows)
    for name, share in shares.items():
        made = made + share**0.5 * standardise_values(_draw_cause(rows, name, columns, random))
    return {outcome: TOTAL * made}


def _draw_cause(
    rows: pd.DataFrame, name: str, columns: Mapping[str, Sequence[str]], random: Random
) -> Array:
    if name not in columns:
        return random.levels(rows, "heritage" if name == "lab" else name)
    values = []
    for column in columns[name]:
        values.append(standardise_values(rows[column].to_numpy(np.float64)))
    x = np.column_stack(values)
    weights = random.normal(x.shape[1])
    return np.asarray(weights @ (np.square(x) if name == "curve" else x).T)


def _simulate_descent(
    outcome: str, lam: float, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    lab = rows["heritage"].astype(str)
    family = rows["family"].astype(str)
    line = lab + " / " + family.where(family != "", rows["model_id"])
    named = rows.assign(lab=lab, line=line)
    steps = random.levels(named, "lab") + random.levels(named, "line")
    steps = steps + random.normal(len(rows))
    inherited = lam**0.5 * steps / 3**0.5
    return {outcome: TOTAL * (inherited + (1 - lam) ** 0.5 * noise(rows))}


CERTAIN = 1e-9
"""Shares of 0 and 1 are so near."""
LOGISTIC = math.pi / 3**0.5
"""Standard deviation of log odds within groups."""
Levels = Mapping[Any, float] | float
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class SideColumns:
    """Columns of models on either side of 1."""

    below: str
    """Whether the measured gain lies below 1."""
    clear: str
    """Whether its interval leaves 1 out."""
    focal: str
    """Which models are set apart from the others."""
    error: str
    """Standard error of the log gain; of a model without one 0 is taken."""
    half: str
    """Half-width of its interval; a model without one is on no side clearly."""


def build_mean_worlds(
    outcome: str,
    claimed: float,
    null: float,
    sd: float,
    group: str = "heritage",
    others: Mapping[str, float] = NONE,
    measured: str = "",
) -> Worlds:
    """An outcome about a mean as claimed or as in the null, with standard deviation `sd`."""
    signal = partial(_simulate_shift, outcome, sd, "")
    at_rest = build_errors(group=group, measured=measured)
    return build_family(signal, "mean {}", outcome, at_rest, claimed, null, others=others)


def build_shift_worlds(
    outcome: str,
    shift: float,
    sd: float,
    by: str = "",
    column: str = "",
    units: bool = False,
    families: bool = False,
    large: Callable[[float], Result] | None = None,
    **errors: Any,
) -> Worlds:
    """Errors of standard deviation `sd`, and a shift of all rows, or of those where the column `by`
    is true, or none.

    column: along which errors differ, by default `by`; units: whether the rule names units at hand,
    such as one group; families: whether levels of groups have half of the variance at rest, and
    differ more or less where `by` is true; large: the rule's numbers in an endless sample; errors:
    `ordered`, `group` and `measured`, as `build_errors` has them.
    """
    at_rest = build_errors(column or by, **{"ordered": bool(column), **errors})
    if families:
        at_rest = make_unlike(*at_rest)
    signal = partial(_simulate_shift, outcome, sd, by)
    return build_family(
        signal, "a difference of {}", outcome, at_rest, shift, large=large, units=units
    )


def build_bound_worlds(
    outcome: str,
    bound: str,
    error: str,
    above: float,
    column: str = "",
    quantity: str = "",
    **errors: Any,
) -> Worlds:
    """Outcomes below the column `bound`, or above it in a share of models.

    They lie off it by |e| times 20%, e of every kind, and are measured with the relative error in
    the column `error`. quantity: what the rule calls the share above, which without errors of
    measurement is the world's.
    """
    signal = partial(_simulate_bound, outcome, bound, error)
    words = "a share of {} of the models above the bound"
    others = {"half above": 0.5}
    at_rest = build_errors(column, **errors)
    large = partial(name_size, quantity) if quantity else None
    return build_family(signal, words, outcome, at_rest, 0.0, above, others=others, large=large)


def build_level_worlds(
    outcome: str,
    claimed: Levels,
    null: Levels,
    sd: float = TOTAL,
    kinds: Sequence[str] = tuple(BY_PROMPT),
    unit: str = "model_id",
    column: str = "",
    others: Mapping[str, Levels] = NONE,
    large: Callable[[Any], Result] | None = None,
    measured: str = "",
) -> Worlds:
    """Values by prompt about the levels of their units, as claimed or not, with prompts in common
    to all models.

    claimed, null: level by value of the column `unit`, or of all. sd: of the errors. large: the
    rule's numbers over endless prompts. measured: as `build_errors` has it. Rows have model_id,
    prompt_id and category.
    """
    at_rest = build_prompt_errors(column, measured)
    return build_family(
        partial(_simulate_levels, outcome, sd, unit),
        "levels {}",
        outcome,
        at_rest,
        claimed,
        null,
        kinds,
        others,
        large,
    )


def build_part_worlds(
    outcome: str,
    claimed: float,
    null: float,
    large: Callable[[float], Result] | None = None,
    measured: str = "",
) -> Worlds:
    """Values by prompt of which a share of the variance lies between models, as claimed or as in
    the null.

    Levels of models have errors of every kind of `ERRORS`, alike within labs to a share; those of
    prompts are normal. The share is that of the models at hand. large: the rule's numbers over
    endless prompts, of a share. measured: the outcome that levels of models are, as `build_errors`
    has it.
    """
    words = "a share of {} of the variance between models"
    return build_family(
        partial(_simulate_parts, outcome),
        words,
        outcome,
        build_errors(measured=measured),
        claimed,
        null,
        large=large,
    )


def build_share_worlds(column: str, claimed: float, null: float, group: str = "heritage") -> Worlds:
    """Truth values that hold at a share as claimed, or at another, alike within groups to a share
    of their log odds."""
    return build_contrast_worlds(column, "", (claimed, claimed), (null,), group)


def build_contrast_worlds(
    column: str,
    focal: str,
    claimed: tuple[float, float],
    null: Sequence[float],
    group: str = "heritage",
) -> Worlds:
    """Truth values whose share where the column `focal` is true and elsewhere is as claimed, or the
    same in both.

    null: shares in both, of which the first is the null.
    """
    first, *more = ((share, share) for share in null)
    others = {}
    for share, _ in more:
        others[f"a share of {format_declared(share)} in both"] = (share, share)
    return Worlds(
        partial(_build_alike_world, column, focal, group),
        claimed,
        first,
        {"alike": BETWEEN},
        ("normal",),
        others,
    )


def build_side_worlds(
    columns: SideColumns,
    claimed: tuple[float, float],
    null: Sequence[float],
    large: Callable[[tuple[float, float]], Result],
    group: str = "heritage",
) -> Worlds:
    """Gains below or above 1, measured with errors: true shares below 1 as claimed where the column
    `focal` is true and elsewhere, or the same in both.

    True log gains lie |e|·20% off 0 with e normal. null: shares in both, of which the first is the
    null. large: the rule's numbers over endless models, of the shares.
    """

    def make(shares: tuple[float, float], *, kind: str, alike: float) -> World:
        true = _build_alike_world(
            columns.below, columns.focal, group, shares, kind=kind, alike=alike
        )
        signal = partial(_simulate_sides, columns, true.signal)
        return World(f"{true.words}, measured with errors", signal, true.errors, large(shares))

    plain = build_contrast_worlds(columns.below, columns.focal, claimed, null, group)
    return replace(plain, make=make, version=CHANGED)


def _simulate_shift(
    outcome: str, sd: float, by: str, shift: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    lifted = shift * (rows[by].to_numpy(np.float64) if by else 1.0)
    return {outcome: lifted + sd * noise(rows)}


def _simulate_sides(
    columns: SideColumns, true: Signal, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    below = true(rows, noise, random)[columns.below]
    size = TOTAL * np.abs(random.normal(len(rows)))
    sd = np.nan_to_num(rows[columns.error].to_numpy(np.float64))
    error = sd * random.normal(len(rows))
    measured = np.where(below, -size, size) + error
    clear = np.abs(measured) > rows[columns.half].to_numpy(np.float64)
    return {columns.below: measured < 0, columns.clear: clear}


def _simulate_bound(
    outcome: str,
    bound: str,
    error: str,
    above: float,
    rows: pd.DataFrame,
    noise: Noise,
    random: Random,
) -> Outcomes:
    side = np.where(random.uniform(len(rows)) < above, 1, -1)
    size = side * TOTAL * np.abs(noise(rows))
    off = size + rows[error].to_numpy() * random.normal(len(rows))
    return {outcome: rows[bound].to_numpy() * np.exp(off)}


def _simulate_levels(
    outcome: str, sd: float, unit: str, levels: Levels, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    level: Any = levels
    if isinstance(levels, Mapping):
        level = rows[unit].map(levels).to_numpy(np.float64)
    return {outcome: level + sd * noise(rows)}


def _simulate_parts(
    outcome: str, share: float, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    models = rows.drop_duplicates("model_id")
    code = pd.Index(models["model_id"]).get_indexer(rows["model_id"])
    levels = standardise_values(noise(models))[:, code]
    inside = PromptErrors().draw(rows, random)
    values = share**0.5 * levels + (1 - share) ** 0.5 * inside
    return {outcome: TOTAL * values}


def _build_alike_world(
    column: str, focal: str, group: str, shares: tuple[float, float], *, kind: str, alike: float
) -> World:
    words = (
        f"share {' and elsewhere '.join(format_declared(share) for share in dict.fromkeys(shares))}"
    )
    words += f", {alike:.0%} of the variance of log odds between {describe_groups(group)}" * bool(
        alike
    )
    return World(words, partial(_simulate_share, column, focal, group, shares, alike), Errors(kind))


def _simulate_share(
    column: str,
    focal: str,
    group: str,
    shares: tuple[float, float],
    alike: float,
    rows: pd.DataFrame,
    _: Noise,
    random: Random,
) -> Outcomes:
    sd = (alike / (1 - alike)) ** 0.5 * LOGISTIC
    inside = rows[focal].to_numpy(bool) if focal else np.ones(len(rows), dtype=bool)
    share = np.clip(np.where(inside, *shares), CERTAIN, 1 - CERTAIN)
    # the probability averaged over groups is the share: that of a normal log odds, scaled as a
    # probit
    widened = np.sqrt(1 + sd**2 * 0.346)
    centre = np.log(share / (1 - share)) * widened
    odds = centre + sd * random.levels(rows, group)
    probability = 1 / (1 + np.exp(-odds))
    return {column: random.uniform(len(rows)) < probability}


def build_line_worlds(
    outcome: str,
    predictor: str,
    r: float,
    *,
    kinds: Sequence[str] = EVERY,
    mean: bool = False,
    others: Mapping[str, float] = NONE,
    large: Callable[[float], Result] | None = None,
    **errors: Any,
) -> Worlds:
    """An outcome that goes with a column at correlation `r` over the rows, or not at all.

    others: further correlations by name. large: the rule's numbers over endless rows. errors:
    `ordered`, `group` and `measured`, and with `mean` the outcome's mean, as `build_errors` has
    them.
    """
    at_rest = build_errors(predictor, mean=mean, **errors)
    return build_family(
        partial(_simulate_line, outcome, predictor),
        "correlation {}",
        outcome,
        at_rest,
        r,
        kinds=kinds,
        others=others,
        large=large,
    )


def build_slope_worlds(
    outcome: str,
    predictor: str,
    r: float,
    kinds: Sequence[str] = tuple(BY_PROMPT),
    measured: str = "",
) -> Worlds:
    """Values by prompt that go with a column at correlation `r` inside every model, or not at all;
    measured: as `build_errors` has it."""
    at_rest = build_prompt_errors(predictor, measured)
    signal = partial(_simulate_slopes, outcome, predictor)
    return build_family(signal, "correlation {} inside models", outcome, at_rest, r, kinds=kinds)


def build_exponent_worlds(
    outcome: str, predictor: str, claimed: float, margin: float, scatter: float, measured: str = ""
) -> Worlds:
    """A log outcome that rises with a log column at a slope as claimed, or off by a margin; errors
    of SD `scatter`."""
    signal = partial(_simulate_exponent, outcome, predictor, scatter)
    others = {"steeper": claimed + margin}
    return build_family(
        signal,
        "slope {}",
        outcome,
        build_errors(predictor, measured=measured),
        claimed,
        claimed - margin,
        others=others,
    )


def _simulate_line(
    outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    x = standardise_values(rows[predictor].to_numpy(np.float64))
    return {outcome: _combine_line(x, r, noise(rows))}


def _combine_line(x: Array, r: float, noise: Array) -> Array:
    """Values that correlate with x by r."""
    values: Array = TOTAL * (r * x + (1 - r**2) ** 0.5 * noise)
    return values


def _simulate_slopes(
    outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Random
) -> Outcomes:
    by_model = rows.groupby("model_id")[predictor]
    within = by_model.transform(lambda own: standardise_values(own.to_numpy(np.float64)))
    return {outcome: _combine_line(within.to_numpy(), r, noise(rows))}


def _simulate_exponent(
    outcome: str,
    predictor: str,
    scatter: float,
    slope: float,
    rows: pd.DataFrame,
    noise: Noise,
    _: Random,
) -> Outcomes:
    x = rows[predictor].to_numpy(np.float64)
    return {outcome: slope * (x - x.mean()) + scatter * noise(rows)}
