"""Worlds with numbers left open: nuisances within bounds, among which the point of most errors is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass

from thermostats.claims.noise import ERRORS
from thermostats.claims.worlds.world import World


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
