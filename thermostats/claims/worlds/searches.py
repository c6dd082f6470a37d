"""Worlds with numbers left open: nuisances within bounds, among which the point of most errors is looked for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, cast

from thermostats.claims.noise import ERRORS, LARGEST_AR, LARGEST_RATIO, LEVELS, Errors, PromptErrors
from thermostats.claims.worlds.world import Off, Signal, World


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
BRIEF = Effort(few=10, more=30, fresh=400, best=1, between=8)
"""For one that leaves units out, each with a fit, or resamples."""
SPARE = Effort(few=8, more=20, fresh=400, best=1, between=4)
"""For one that takes a tenth of a second or more."""
COMMON = (0.0, 0.6)
"""Bounds of what is common to a lab, or to a prompt in all models, of the errors' variance."""
UNEVEN = (1 / LARGEST_RATIO, LARGEST_RATIO)
"""Bounds of the ratio of standard deviations at the two ends of a column."""


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
    signals: tuple[str, ...] = ()
    """Names of signals that are tried at every point (`like=`); empty: the world has one."""

    @property
    def words(self) -> str:
        """Where it is looked for, and how hard."""
        parts = [f"{name} {low:g} to {high:g}" for name, (low, high) in self.bounds.items()]
        parts += [" or ".join(self.signals)] if self.signals else []
        return ", ".join(filter(None, [*parts, f"errors {' or '.join(self.kinds)}", self.effort.words]))


def searches_among(
    worlds: Sequence[World],
    *,
    along: str = "",
    ordered: bool = True,
    group: str = "heritage",
    outcome: str = "",
    names: tuple[str, str] = ("not held", "held"),
    kinds: Sequence[str] = (),
    effort: Effort = BRIEF,
    sided: bool = False,
    **bounds: tuple[float, float],
) -> tuple[Search, ...]:
    """Where a rule is looked at hardest: the signals of some worlds, with errors whose nuisances lie within bounds.

    One search among the worlds in which the statement holds, one among those in which it does not; of each signal that
    with plain errors stands for it. Kinds of errors are those of the worlds, and bounds as follows, unless said
    otherwise: of models, `between` (the share of the errors' variance between values of `group`, empty for none), and
    along a column `ar` (correlation of neighbours' errors, unless it has no order) and `ratio` (of their standard
    deviations at its two ends); of values by prompt, `shared` and `ratio`. On request `mean`: of the outcome, as `Off`
    has it.

    sided: whether the rule compares with the null itself. Next to it the statement may hold, so that either verdict
    may be the false one, and the null's signals are tried on both sides. With a margin it does not hold there.
    """
    plain = {world.id: world for world in worlds if world.errors in (Errors(), PromptErrors())}
    by_prompt = any(isinstance(world.errors, PromptErrors) for world in plain.values())
    usual: dict[str, tuple[float, float]] = {} if by_prompt or not (along and ordered) else {"ar": (0.0, LARGEST_AR)}
    usual |= {"ratio": UNEVEN} if along else {}
    limits = {**usual, **bounds}
    for name in ("shared",) if by_prompt else ("between",) if group else ():
        limits.setdefault(name, COMMON)
    fixed = {"along": along} | ({"group": group} if group and not by_prompt else {})
    of_worlds = dict.fromkeys(world.errors.kind for world in worlds if not world.errors.kind.startswith(LEVELS))
    tried = tuple(kinds or of_worlds)
    made: list[Search] = []
    for name, holds in zip(names, (False, True), strict=True):
        signals = {key: world for key, world in plain.items() if world.holds == holds}
        if holds and sided:
            next_to = {key: replace(world, holds=True, words=f"next to {world.words}") for key, world in plain.items()}
            signals |= {f"next to {key}": world for key, world in next_to.items() if key not in signals}
        if signals:
            world = partial(_opened, signals, fixed, outcome)
            several = tuple(signals) if len(signals) > 1 else ()
            made.append(Search(f"worst, {name}", holds, world, limits, tried, effort, several))
    return tuple(made)


def _opened(
    signals: Mapping[str, World],
    fixed: Mapping[str, Any],
    outcome: str,
    *,
    kind: str,
    like: str = "",
    mean: float = math.nan,
    **nuisances: float,
) -> World:
    world = signals[like or next(iter(signals))]
    errors: Any = replace(cast("Any", world.errors), kind=kind, **fixed, **nuisances)
    words = re.sub(r",? ?\bnormal( errors)?\b", "", world.words, count=1)
    change: Signal = world.signal
    if not math.isnan(mean):
        change, words = Off(change, outcome, mean), f"{words}, {Off.place(mean)}"
    return replace(world, id="", words=f"{words}, {errors.words}", signal=change, errors=errors, declared=False)
