"""A world: a signal that says what is true and errors that hide it, in the place of the measured outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.claims.noise import ERRORS, LEVELS, Array, Drawn, Errors, Noise, Rng

Said = tuple[Any, str]
Signal = Callable[[pd.DataFrame, Noise, Rng], pd.DataFrame]
"""Rows as measured to the same rows with outcomes, noise added."""
TOTAL = 0.2
"""Standard deviation of log gain between models: models differ by a factor e^0.2 = 1.2."""


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
    def place(off: float) -> str:
        """Where the mean is."""
        return f"mean {off:+.2g} half-widths of its 95% interval off the data's own" if off else "the data's own mean"


def claimed_or_not(
    change: Callable[..., pd.DataFrame],
    true: Said,
    false: Said,
    kinds: Mapping[str, str] = ERRORS,
    errors: Callable[[str], Drawn] = Errors,
) -> tuple[World, ...]:
    """What is claimed, with normal errors, and what is not, with errors of every kind: each a value and its words."""
    (claimed, yes), (null, no) = true, false
    first = World("as claimed", f"{yes}, {kinds['normal']}", True, partial(change, claimed), errors("normal"), True)
    return first, *(World(k, f"{no}, {words}", False, partial(change, null), errors(k)) for k, words in kinds.items())


def kinds_with(levels: str) -> dict[str, str]:
    """Errors by name, those of levels of their own among them where a column has some."""
    return {**ERRORS, **({f"{LEVELS}{levels}": f"half of the variance between values of {levels}"} if levels else {})}


def standard(values: Array) -> Array:
    centred = values - values.mean()
    return np.asarray(centred / (centred.std() or 1.0))
