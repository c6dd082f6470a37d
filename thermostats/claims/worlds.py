"""Worlds in which the truth is known: a signal and errors, to judge rules by.

A world puts outcomes in the place of the measured ones, on the rows that a finding reads; nothing that models fit is
used. Its signal says what is true, its errors what hides it, so a family of worlds is a few signals times a few errors
(`worlds_of_…`). A `Search` is a family with numbers left open: nuisance parameters within bounds, among which
`make worlds` looks for the point where a rule errs most (`claims/search.py`) and commits it as one more world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import (
    BY_PROMPT,
    ERRORS,
    LARGEST_AR,
    LARGEST_RATIO,
    LEVELS,
    Array,
    Drawn,
    Errors,
    Noise,
    PromptErrors,
    Rng,
    levels_of,
)
from thermostats.formatting import declared

Said = tuple[Any, str]
Signal = Callable[[pd.DataFrame, Noise, Rng], pd.DataFrame]
"""Rows as measured to the same rows with outcomes, noise added."""
SHAPE, SIZE = ("log_L", "log_H", "log_d_h"), "log_n"
TOTAL = 0.2
"""Standard deviation of log gain between models: models differ by a factor e^0.2 = 1.2."""
MOVED = 0.8
"""Correlation of a mediator with what moves it."""
CERTAIN = 1e-9
"""Shares of 0 and 1 are so near."""


@dataclass(frozen=True)
class World:
    """A kind of world: its signal, its errors, and whether the statement holds there."""

    id: str
    words: str
    holds: bool
    signal: Signal
    errors: Drawn
    declared: bool = False
    """The size that the claim states, or the smallest that would be of interest: its power is the rule's."""
    truth: float | None = None
    """True value of the headline estimate, where it is the same in every study."""

    def change(self, rows: pd.DataFrame, rng: Rng) -> pd.DataFrame:
        """Rows as measured, and a source of random numbers, to the same rows with outcomes of this world."""
        return self.signal(rows, partial(self.errors.draw, rng=rng), rng)


@dataclass(frozen=True)
class Effort:
    """How hard a search looks: a setting that differs makes its row another one."""

    few: int = 40
    """Studies a point at first."""
    more: int = 200
    """Studies of each of the worst points, with errors of every kind."""
    fresh: int = 2000
    """Studies of the worst point, with fresh seeds."""
    best: int = 3
    """Worst points that are tried with every kind of errors."""
    between: int = 16
    """Points between the corners of the bounds."""

    @property
    def words(self) -> str:
        """Its numbers; those of `UNSAID` go without saying."""
        return "" if astuple(self) == UNSAID else ", ".join(f"{name} {value}" for name, value in vars(self).items())


UNSAID = (40, 200, 2000, 3, 16)
"""Settings with which a search has no word on them; they stay, whatever the defaults become."""
FULL = Effort()
QUICK = Effort(few=20, more=60, fresh=1000, best=2)
"""For a slow test."""


@dataclass(frozen=True)
class Search:
    """Worlds alike but for nuisance parameters, among which the one is looked for in which a rule errs most.

    Where the statement holds that is how often a rule says "not supported", elsewhere "supported".
    """

    id: str
    holds: bool
    world: Callable[..., World]
    """Of an error kind (`kind=`) and of every nuisance by the name that `bounds` has."""
    bounds: Mapping[str, tuple[float, float]]
    kinds: tuple[str, ...] = tuple(ERRORS)
    """Error kinds that are tried."""
    effort: Effort = FULL

    @property
    def words(self) -> str:
        """Where it is looked for, and how hard."""
        said = [f"{name} {low:g} to {high:g}" for name, (low, high) in self.bounds.items()]
        return ", ".join(filter(None, [*said, f"errors {' or '.join(self.kinds)}", self.effort.words]))


ORDERS = {"strong": (0.85, 0.08, 0.02), "middle": (0.60, 0.20, 0.05), "weak": (0.40, 0.20, 0.10)}
"""Shares of lab, geometry and scale in which the order is true."""


def worlds_of_causes(
    outcome: str, shape: Sequence[str] = SHAPE, size: str = SIZE, *, levels: str = "family"
) -> tuple[World, ...]:
    """Log gains of models: nothing but errors of every kind, one cause alone, and lab > geometry > scale as claimed.

    shape, size: columns of geometry (the first is the log of depth) and of scale; levels: that of groups within labs.
    """
    columns = {"geometry": tuple(shape), "scale": (size,), "curve": (shape[0],)}
    plural = {"family": "families"}.get(levels, f"{levels}s")
    alone = {
        "lab alone": ("90% of the variance between labs, nothing from geometry or scale", {"lab": 0.9}),
        f"{plural} only": (f"60% of the variance between {plural}, nothing between labs", {levels: 0.6}),
        "geometry only": ("60% of the variance from geometry", {"geometry": 0.6}),
        "curved depth": ("60% of the variance from the square of log depth", {"curve": 0.6}),
        "scale only": ("60% of the variance from size", {"scale": 0.6}),
    }
    of = partial(partial, _of_causes, outcome, columns)
    made = [World(kind, words, False, of({}), Errors(kind)) for kind, words in ERRORS.items()]
    made += [World(name, words, False, of(shares), Errors()) for name, (words, shares) in alone.items()]
    for name, shares in ORDERS.items():
        words = "shares of lab, geometry and scale of " + ", ".join(f"{share:.0%}" for share in shares)
        causes = dict(zip(("lab", "geometry", "scale"), shares, strict=True))
        made.append(World(f"{name} order", words, True, of(causes), Errors(), declared=name == "middle"))
    return tuple(made)


def worlds_of_shares(
    outcome: str,
    columns: Mapping[str, Sequence[str]],
    causes: Mapping[str, tuple[Mapping[str, float], bool]],
    *,
    declared: str,
    nothing: bool = False,
    kinds: Sequence[str] = tuple(ERRORS),
) -> tuple[World, ...]:
    """Log gains of models of which causes have shares of the variance, and nothing but errors of every kind.

    columns: of causes that are columns; others are levels of the column of their name. causes: by the world's name,
    shares and whether the statement holds. nothing: whether it holds where there are errors alone.
    """
    change = partial(partial, _of_causes, outcome, columns)
    made = [World(kind, ERRORS[kind], nothing, change({}), Errors(kind)) for kind in kinds]
    for name, (shares, holds) in causes.items():
        words = "shares of " + ", ".join(f"{cause} {share:.0%}" for cause, share in shares.items())
        made.append(World(name, words, holds, change(shares), Errors(), declared=name == declared))
    return tuple(made)


def worlds_of_line(outcome: str, predictor: str, r: float, levels: str = "") -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r` over the rows, as claimed, or not at all; every error.

    levels: a column whose values have levels of their own in one more world without a relation.
    """
    change = partial(_of_line, outcome, predictor)
    return _claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), _kinds(levels))


def searches_of_line(
    outcome: str,
    predictor: str,
    r: float,
    *,
    name: str = "worst",
    kinds: Sequence[str] = tuple(ERRORS),
    effort: Effort = QUICK,
    **bounds: tuple[float, float],
) -> tuple[Search, Search]:
    """Where a rule of a line is looked at hardest: without a relation, and as claimed, with nuisances within bounds.

    ar: correlation of errors of neighbours along the predictor; ratio: of their standard deviation at its two ends;
    both unless said otherwise. On request, between: share of the errors' variance between labs; mean: of the outcome,
    as `Off` has it.
    """
    bounds = {"ar": (0.0, LARGEST_AR), "ratio": (1 / LARGEST_RATIO, LARGEST_RATIO), **bounds}
    made = partial(_line_with_nuisances, outcome, predictor)
    return (
        Search(f"{name}, no relation", False, partial(made, 0.0), bounds, tuple(kinds), effort),
        Search(f"{name}, as claimed", True, partial(made, r), bounds, tuple(kinds), effort),
    )


def _line_with_nuisances(
    outcome: str,
    predictor: str,
    r: float,
    *,
    kind: str,
    ar: float,
    ratio: float,
    between: float = 0.0,
    mean: float = math.nan,
) -> World:
    errors = Errors(kind, between, along=predictor, ar=ar, ratio=ratio)
    line: Signal = partial(_of_line, outcome, predictor, r)
    said = f"correlation {declared(r)}" if r else "no relation"
    if not math.isnan(mean):
        line, said = Off(line, outcome, mean), f"{said}, {Off.said(mean)}"
    return World("", f"{said}, {errors.words}", bool(r), line, errors)


@dataclass(frozen=True)
class Off:
    """A signal about the measured outcomes' own mean, in their standard deviations, or off it.

    off: in half-widths of the 95% interval of that mean, so that from −1 to 1 it is where the data may have it.
    """

    signal: Signal
    outcome: str
    off: float

    def __call__(self, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
        """Outcomes of the signal, moved by that mean."""
        measured = rows[self.outcome].to_numpy(np.float64)
        half = stats.t.ppf(0.975, len(rows) - 1) / len(rows) ** 0.5
        mean = measured.mean() / (measured.std(ddof=1) or 1.0) + self.off * half
        made = self.signal(rows, noise, rng)
        return made.assign(**{self.outcome: made[self.outcome] + TOTAL * mean})

    @staticmethod
    def said(off: float) -> str:
        """Where the mean is."""
        return f"mean {off:+.2g} half-widths of its 95% interval off the data's own" if off else "the data's own mean"


def worlds_of_shift(outcome: str, shift: float, sd: float, by: str = "", levels: str = "") -> tuple[World, ...]:
    """Errors of standard deviation `sd`, and a shift of all rows, or of those where the column `by` is true.

    The shift is as claimed, or 0; levels: as for a line.
    """
    change = partial(_of_shift, outcome, sd, by)
    true = shift, f"a difference of {declared(shift)}, SD {declared(sd)}"
    return _claimed_or_not(change, true, (0.0, "a difference of 0"), _kinds(levels))


def worlds_of_bound(outcome: str, bound: str, error: str, above: float) -> tuple[World, ...]:
    """Outcomes below the column `bound`, as claimed, or above it in a share of models.

    They lie off it by |e| times 20%, e of every kind, and are measured with the relative error in the column `error`.
    """
    change = partial(_of_bound, outcome, bound, error)
    said = {0.0: "every model below the bound", above: f"a share of {declared(above)} of the models above the bound"}
    return tuple(
        World(
            f"{'above' if share else 'as claimed'}, {kind}",
            f"{words}, {errors}",
            not share,
            partial(change, share),
            Errors(kind),
            declared=not share and kind == "normal",
        )
        for share, words in said.items()
        for kind, errors in ERRORS.items()
    )


def worlds_in_groups(outcome: str, predictor: str, r: float, between: float) -> tuple[World, ...]:
    """An outcome that goes with a column at correlation `r`, as claimed, or not at all; every error.

    between: share of the variance that lies between labs (`heritage`), whatever the column does.
    """
    kinds = {kind: f"{words}, {between:.0%} of the variance between groups" for kind, words in ERRORS.items()}
    change = partial(_in_groups, outcome, predictor, between)
    return _claimed_or_not(change, (r, f"correlation {declared(r)}"), (0.0, "no relation"), kinds)


def worlds_of_path(outcome: str, cause: str, mediator: str, r: float) -> tuple[World, ...]:
    """A cause that moves the mediator (r = 0.8) and an outcome that goes with the mediator alone, at correlation `r`.

    Where the statement does not hold the outcome goes with the cause itself, past the mediator; every error.
    """
    said, change = f"a correlation of {declared(r)} with the ", partial(_of_path, outcome, cause, mediator)
    return _claimed_or_not(change, ((r, 0.0), said + "mediator"), ((0.0, r), said + "cause itself"))


def worlds_of_curve(outcome: str, claimed: str, null: str, r: float) -> tuple[World, ...]:
    """Positive outcomes whose log is a column, with errors at which it goes with it at `r`, or another; every error."""

    def change(column: str, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        sd = rows[claimed].std() * (1 / r**2 - 1) ** 0.5
        return rows.assign(**{outcome: np.exp(rows[column].to_numpy() + sd * noise(rows))})

    return _claimed_or_not(change, (claimed, f"the curve as claimed, r = {declared(r)}"), (null, "no curve"))


def worlds_of_groups(outcome: str, group: str, claimed: float, null: float) -> tuple[World, ...]:
    """An outcome with a share of its variance between values of a column, as claimed, or another with every error."""
    true, false = (({group: share}, f"{share:.0%} of the variance between {group}s") for share in (claimed, null))
    return _claimed_or_not(partial(_of_causes, outcome, {}), true, false)


def worlds_of_share(column: str, claimed: float, null: float, group: str = "heritage") -> tuple[World, ...]:
    """Truth values that hold at a share as claimed, or at another; independently, or alike within groups.

    Alike: log odds of groups with standard deviation 1 about the same share.
    """
    return worlds_of_contrast(column, "", (claimed, claimed), null, group)


def worlds_of_contrast(
    column: str, focal: str, claimed: tuple[float, float], null: float, group: str = "heritage"
) -> tuple[World, ...]:
    """Truth values whose share where the column `focal` is true and elsewhere is as claimed, or `null` in both.

    As for `worlds_of_share`.
    """
    found = []
    for name, shares in (("as claimed", claimed), ("null", (null, null))):
        for words, sd in (("units independent", 0.0), (f"alike within {group}", 1.0)):
            change, holds = partial(_of_share, column, focal, shares, sd, group), name == "as claimed"
            said = f"share {' and elsewhere '.join(declared(share) for share in dict.fromkeys(shares))}, {words}"
            found.append(World(f"{name}, {words}", said, holds, change, Errors(), declared=holds and not sd))
    return tuple(found)


def _claimed_or_not(
    change: Callable[..., pd.DataFrame],
    true: Said,
    false: Said,
    kinds: Mapping[str, str] = ERRORS,
    errors: Callable[[str], Drawn] = Errors,
) -> tuple[World, ...]:
    """What is claimed, with normal errors, and what is not, with errors of every kind: each a value and its words."""
    (claimed, said), (null, none) = true, false
    first = World("as claimed", f"{said}, {kinds['normal']}", True, partial(change, claimed), errors("normal"), True)
    return first, *(World(k, f"{none}, {words}", False, partial(change, null), errors(k)) for k, words in kinds.items())


def _kinds(levels: str) -> dict[str, str]:
    """Errors by name, those of levels of their own among them where a column has some."""
    return {**ERRORS, **({f"{LEVELS}{levels}": f"half of the variance between values of {levels}"} if levels else {})}


def _of_causes(
    outcome: str,
    columns: Mapping[str, Sequence[str]],
    shares: Mapping[str, float],
    rows: pd.DataFrame,
    noise: Noise,
    rng: Rng,
) -> pd.DataFrame:
    made = (1 - sum(shares.values())) ** 0.5 * noise(rows)
    for name, share in shares.items():
        made = made + share**0.5 * _standard(_cause(rows, name, columns, rng))
    return rows.assign(**{outcome: TOTAL * made})


def _of_line(outcome: str, predictor: str, r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
    x = _standard(rows[predictor].to_numpy(np.float64))
    return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})


def _in_groups(
    outcome: str, predictor: str, between: float, r: float, rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    made = r * _standard(rows[predictor].to_numpy(np.float64)) + (1 - r**2 - between) ** 0.5 * noise(rows)
    return rows.assign(**{outcome: TOTAL * (made + between**0.5 * _standard(_cause(rows, "lab", {}, rng)))})


def _of_path(
    outcome: str, cause: str, mediator: str, slopes: tuple[float, float], rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    x = _standard(rows[cause].to_numpy(np.float64))
    between = MOVED * x + (1 - MOVED**2) ** 0.5 * rng.normal(size=len(rows))
    through, past = slopes
    y = through * between + past * x + (1 - through**2 - past**2) ** 0.5 * noise(rows)
    return rows.assign(**{mediator: between, outcome: TOTAL * y})


def _of_shift(outcome: str, sd: float, by: str, shift: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
    lifted = shift * (rows[by].to_numpy(np.float64) if by else 1.0)
    return rows.assign(**{outcome: lifted + sd * noise(rows)})


def _of_bound(
    outcome: str, bound: str, error: str, above: float, rows: pd.DataFrame, noise: Noise, rng: Rng
) -> pd.DataFrame:
    side = np.where(rng.random(len(rows)) < above, 1, -1)
    off = side * TOTAL * np.abs(noise(rows)) + rows[error].to_numpy() * rng.normal(size=len(rows))
    return rows.assign(**{outcome: rows[bound] * np.exp(off)})


def _of_share(
    column: str, focal: str, shares: tuple[float, float], sd: float, group: str, rows: pd.DataFrame, _: Noise, rng: Rng
) -> pd.DataFrame:
    codes = pd.factorize(rows[group])[0]
    groups = rng.normal(scale=sd, size=codes.max() + 1)[codes]
    inside = rows[focal].to_numpy(bool) if focal else np.ones(len(rows), dtype=bool)
    share = np.clip(np.where(inside, *shares), CERTAIN, 1 - CERTAIN)
    # the probability averaged over groups is the share: that of a normal log odds, scaled as a probit
    centre = np.log(share / (1 - share)) * np.sqrt(1 + sd**2 * 0.346)
    return rows.assign(**{column: rng.random(len(rows)) < 1 / (1 + np.exp(-(centre + groups)))})


def _cause(rows: pd.DataFrame, name: str, columns: Mapping[str, Sequence[str]], rng: Rng) -> Array:
    if name not in columns:
        return levels_of(rows, "heritage" if name == "lab" else name, rng)
    x = np.column_stack([_standard(rows[column].to_numpy(np.float64)) for column in columns[name]])
    return np.asarray((np.square(x) if name == "curve" else x) @ rng.normal(size=x.shape[1]))


def worlds_of_levels(
    outcome: str,
    claimed: Mapping[Any, float] | float,
    null: Mapping[Any, float] | float,
    sd: float = TOTAL,
    kinds: Sequence[str] = tuple(BY_PROMPT),
    unit: str = "model_id",
) -> tuple[World, ...]:
    """Values by prompt about the levels of their units, as claimed or not, with prompts in common to all models.

    claimed, null: level by value of the column `unit`, or of all. sd: of the errors. Rows have model_id, prompt_id and
    category.
    """

    def change(levels: Mapping[Any, float] | float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        level = rows[unit].map(levels).to_numpy(np.float64) if isinstance(levels, Mapping) else levels
        return rows.assign(**{outcome: level + sd * noise(rows)})

    said, none = (
        ", ".join(declared(x) for x in (levels.values() if isinstance(levels, Mapping) else [levels]))
        for levels in (claimed, null)
    )
    own = {kind: BY_PROMPT[kind] for kind in kinds}
    return _claimed_or_not(change, (claimed, f"levels {said}"), (null, f"levels {none}"), own, PromptErrors)


def worlds_of_slopes(
    outcome: str, predictor: str, r: float, kinds: Sequence[str] = tuple(BY_PROMPT)
) -> tuple[World, ...]:
    """Values by prompt that go with a column at correlation `r` inside every model, or not at all."""

    def change(r: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows.groupby("model_id")[predictor].transform(_standard).to_numpy(np.float64)
        return rows.assign(**{outcome: TOTAL * (r * x + (1 - r**2) ** 0.5 * noise(rows))})

    own = {kind: BY_PROMPT[kind] for kind in kinds}
    return _claimed_or_not(
        change, (r, f"correlation {declared(r)} inside models"), (0.0, "no relation"), own, PromptErrors
    )


def worlds_of_parts(outcome: str, claimed: float, null: float) -> tuple[World, ...]:
    """Values by prompt of which a share of the variance lies between models, as claimed or as in the null.

    Levels of models have errors of every kind of `ERRORS`, or are alike within labs; those of prompts are normal. The
    share is that of the models at hand.
    """

    def change(share: float, rows: pd.DataFrame, noise: Noise, rng: Rng) -> pd.DataFrame:
        models = rows.drop_duplicates("model_id")
        level = dict(zip(models["model_id"], _standard(noise(models)), strict=True))
        levels = rows["model_id"].map(level).to_numpy(np.float64)
        values = share**0.5 * levels + (1 - share) ** 0.5 * PromptErrors().draw(rows, rng)
        return rows.assign(**{outcome: TOTAL * values})

    said = "{:.0%} of the variance between models, {}".format
    kinds = {**ERRORS, "alike in labs": "half of it between labs"}
    true = World("as claimed", said(claimed, "normal"), True, partial(change, claimed), Errors(), True)
    drawn = {"alike in labs": f"{LEVELS}heritage"}
    return true, *(
        World(kind, said(null, words), False, partial(change, null), Errors(drawn.get(kind, kind)))
        for kind, words in kinds.items()
    )


def worlds_of_exponent(
    outcome: str, predictor: str, claimed: float, margin: float, scatter: float
) -> tuple[World, ...]:
    """A log outcome that rises with a log column at a slope as claimed, or off by a margin; errors of SD `scatter`."""

    def change(slope: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        x = rows[predictor].to_numpy(np.float64)
        return rows.assign(**{outcome: slope * (x - x.mean()) + scatter * noise(rows)})

    words = f"slope {declared(claimed)}, normal errors"
    true = World("as claimed", words, True, partial(change, claimed), Errors(), True)
    off = [(f"{kind}, {slope:g}", kind, slope) for kind in ERRORS for slope in (claimed - margin, claimed + margin)]
    return true, *(
        World(i, f"slope {declared(b)}, {ERRORS[kind]}", False, partial(change, b), Errors(kind)) for i, kind, b in off
    )


def worlds_of_mean(outcome: str, claimed: float, null: float, sd: float) -> tuple[World, ...]:
    """An outcome about a mean as claimed or as in the null, with errors of every kind and standard deviation `sd`."""

    def change(mean: float, rows: pd.DataFrame, noise: Noise, _: Rng) -> pd.DataFrame:
        return rows.assign(**{outcome: mean + sd * noise(rows)})

    return _claimed_or_not(change, (claimed, f"mean {declared(claimed)}"), (null, f"mean {declared(null)}"))


def _standard(values: Array) -> Array:
    centred = values - values.mean()
    return np.asarray(centred / (centred.std() or 1.0))
