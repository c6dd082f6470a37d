"""Worlds at the boundary of a comparison of shares of variance: where a rule about them is most easily wrong.

A signal is a mixture of two causes, cos θ·a + sin θ·b, with θ such that what is compared is exactly 0 in every study,
as its estimand has it: the LMG shares of the signal (`shares_of_signals`), which corrected shares estimate. On the
boundary a verdict either way is wrong, and the true value of a difference, 0, is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import ERRORS, LARGEST_RATIO, Array, Errors, Noise, Rng, levels_of
from thermostats.claims.worlds.searches import FULL, Effort, Search
from thermostats.claims.worlds.world import TOTAL, World
from thermostats.formatting import declared
from thermostats.modelling.heritage.designs import Blocks
from thermostats.modelling.heritage.variance_shares import shares_of_signals

ANGLES = 91
"""Angles between 0 and 90° at which shares are computed; between them they are taken as straight."""
SIGNAL = 0.8
"""Share of the variance that is signal, unless a search says otherwise."""
NUISANCES: Mapping[str, tuple[float, float]] = {
    "signal": (0.3, 0.95),
    "tilt": (0.0, 1.0),
    "families": (0.0, 0.6),
    "ratio": (1 / LARGEST_RATIO, LARGEST_RATIO),
}
"""Bounds: the signal's share, the direction of columns, errors between families, and their SD along the last column."""


@dataclass(frozen=True)
class Boundary:
    """A comparison of blocks, and the causes whose mixture lies on its boundary.

    codings: ways to put columns into blocks, in each of which the first of `pair` must exceed the second by more than
    `margin`, a share of the whole variance; without a second it is a share alone. first, second: the causes that are
    mixed, groups whose levels add up, or columns: at tilt 0 along the first, at tilt 1 the last, between them both, of
    random signs. `beside`: a share of lab effects in the signal, whatever the mixture.
    """

    outcome: str
    codings: tuple[Blocks, ...]
    pair: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    words: str
    margin: float = 0.0
    beside: float = 0.0

    def compared(self, rows: pd.DataFrame, signals: Array, signal: float) -> Array:
        """What is compared for every signal (one a row), of the whole variance, in the coding where it is least."""
        differences = []
        for blocks in self.codings:
            shares = signal * shares_of_signals(rows, signals, blocks)
            named = [shares[:, list(blocks).index(name)] for name in self.pair]
            differences.append(named[0] - named[1] if len(named) > 1 else self.margin - named[0])
        return np.asarray(np.min(differences, axis=0) - (self.margin if len(self.pair) > 1 else 0.0))

    def outcomes(
        self, signal: float, tilt: float, rows: pd.DataFrame, noise: Noise, rng: Rng, beside: float | None = None
    ) -> pd.DataFrame:
        """Rows with a signal on the boundary, and noise."""
        a, b = (self._cause(rows, cause, tilt, rng) for cause in (self.first, self.second))
        beside = self.beside if beside is None else beside
        lab = _unit(levels_of(rows, "heritage", rng))
        angles = np.linspace(0, np.pi / 2, ANGLES)[:, None]
        mixed = (1 - beside) ** 0.5 * (np.cos(angles) * a + np.sin(angles) * b) + beside**0.5 * lab
        made = _unit(_at_zero(mixed, self.compared(rows, mixed, signal)))
        return rows.assign(**{self.outcome: TOTAL * (signal**0.5 * made + (1 - signal) ** 0.5 * noise(rows))})

    def _cause(self, rows: pd.DataFrame, columns: Sequence[str], tilt: float, rng: Rng) -> Array:
        if not pd.api.types.is_numeric_dtype(rows[columns[0]]):
            return _unit(np.sum([levels_of(rows, column, rng) for column in columns], axis=0))
        x = np.column_stack([_unit(rows[column].to_numpy(np.float64)) for column in columns])
        weights = np.cos(np.pi / 2 * (tilt * (x.shape[1] - 1) - np.arange(x.shape[1])).clip(-1, 1))
        return _unit(x @ (weights * rng.choice([-1.0, 1.0], size=x.shape[1])))


def _unit(values: Array) -> Array:
    """Off their mean, with variance 1."""
    centred = values - values.mean()
    return np.asarray(centred / (centred.std() or 1.0))


def _at_zero(signals: Array, compared: Array) -> Array:
    """The signal between two neighbours where what is compared crosses 0; where it never is above, where it is most."""
    falls = np.flatnonzero((compared[:-1] > 0) & (compared[1:] <= 0))
    if not falls.size:
        return np.asarray(signals[compared.argmax()] if compared.max() <= 0 else signals[-1])
    place = falls[0]
    part = compared[place] / (compared[place] - compared[place + 1])
    return np.asarray(signals[place] + part * (signals[place + 1] - signals[place]))


def worlds_at(boundary: Boundary, kinds: Sequence[str], tilt: float = 0.5) -> tuple[World, ...]:
    """The boundary with errors of every kind, where the statement does not hold."""
    change = partial(boundary.outcomes, SIGNAL, tilt)
    truth = boundary.margin if len(boundary.pair) == 1 or len(boundary.codings) == 1 else None
    return tuple(
        World(f"boundary, {kind}", f"{boundary.words}, {ERRORS[kind]}", False, change, Errors(kind), truth=truth)
        for kind in kinds
    )


def searches_at(
    boundary: Boundary, kinds: Sequence[str], along: str, *, effort: Effort = FULL, **bounds: tuple[float, float]
) -> tuple[Search, Search]:
    """The boundary with nuisances within bounds, on its two sides; `along`: a column along which errors are uneven."""
    made: Callable[..., World] = partial(_with_nuisances, boundary, along)
    limits = {**NUISANCES, **bounds}
    return (
        Search("worst, not held at the boundary", False, partial(made, False), limits, tuple(kinds), effort),
        Search("worst, held at the boundary", True, partial(made, True), limits, tuple(kinds), effort),
    )


def _with_nuisances(
    boundary: Boundary,
    along: str,
    holds: bool,
    *,
    kind: str,
    signal: float,
    tilt: float,
    families: float,
    ratio: float,
    beside: float | None = None,
) -> World:
    errors = Errors(kind, between=families, group="family", along=along, ratio=ratio)
    change = partial(boundary.outcomes, signal, tilt, beside=beside)
    of_labs = "" if beside is None else f", lab effects of {beside:.0%} of it too"
    words = f"{boundary.words}, a signal of {signal:.0%} of the variance{of_labs}, direction {declared(tilt)}"
    return World("", f"{words}, {errors.words}", holds, change, errors)
