"""Worlds in which two causes are alike: mixtures on the boundary of a comparison of their shares of the variance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import Errors, Noise, Random
from thermostats.claims.result import Result
from thermostats.claims.worlds import BETWEEN, EVERY, RATIO, TOTAL, Array, Outcomes, World, Worlds, standard
from thermostats.formatting import declared
from thermostats.modelling.heritage.variance_shares import Blocks, shares_of_signals

ANGLES = 91
"""Angles between 0 and 90° at which shares are computed; between them they are taken as straight."""
AT_THE_BAR = "at the bar"
BOX: Mapping[str, tuple[float, ...]] = {
    "signal": (0.8, 0.95, 0.3),
    "tilt": (0.5, 0.0, 1.0),
    "families": BETWEEN,
    "ratio": RATIO,
}
"""At rest and at their bounds: the signal's share, the direction of columns, errors between families, and their SD
along the last column."""


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
    large: Result
    """The rule's numbers at the boundary, in a sample without end."""
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
        self, signal: float, tilt: float, beside: float, rows: pd.DataFrame, noise: Noise, random: Random
    ) -> Outcomes:
        """Outcomes with a signal on the boundary, and noise."""
        a, b = (self._cause(rows, cause, tilt, random)[:, None] for cause in (self.first, self.second))
        lab, errors = standard(random.levels(rows, "heritage"))[:, None], noise(rows)
        angles = np.linspace(0, np.pi / 2, ANGLES)[:, None]
        mixed = (1 - beside) ** 0.5 * (np.cos(angles) * a + np.sin(angles) * b) + beside**0.5 * lab
        compared = self.compared(rows, mixed.reshape(-1, len(rows)), signal).reshape(mixed.shape[:2])
        made = standard(_at_zero(mixed, compared))
        return {self.outcome: TOTAL * (signal**0.5 * made + (1 - signal) ** 0.5 * errors)}

    def _cause(self, rows: pd.DataFrame, columns: Sequence[str], tilt: float, random: Random) -> Array:
        if not pd.api.types.is_numeric_dtype(rows[columns[0]]):
            return standard(np.sum([random.levels(rows, column) for column in columns], axis=0))
        x = np.column_stack([standard(rows[column].to_numpy(np.float64)) for column in columns])
        weights = np.cos(np.pi / 2 * (tilt * (x.shape[1] - 1) - np.arange(x.shape[1])).clip(-1, 1))
        return standard((weights * random.signs(x.shape[1])) @ x.T)


def _at_zero(signals: Array, compared: Array) -> Array:
    """Of every study (study × angle) the signal between two neighbours where what is compared crosses 0.

    Where it never is above 0, the one where it is most; where it never falls to 0, the last.
    """
    falls = (compared[:, :-1] > 0) & (compared[:, 1:] <= 0)
    study, place = np.arange(len(signals)), falls.argmax(axis=1)
    before, after = compared[study, place], compared[study, place + 1]
    part = np.divide(before, before - after, out=np.zeros_like(before), where=before > after)[:, None]
    between = signals[study, place] + part * (signals[study, place + 1] - signals[study, place])
    most, above = signals[study, compared.argmax(axis=1)], (compared > 0).any(axis=1, keepdims=True)
    crossed = falls.any(axis=1, keepdims=True)
    return np.asarray(np.where(crossed, between, np.where(above, signals[:, -1], most)))


def worlds_at(
    boundary: Boundary, shares: Worlds, along: str, kinds: Sequence[str] = EVERY, **box: tuple[float, ...]
) -> Worlds:
    """A family of shares of causes with the boundary of their comparison among its sizes, and the boundary's nuisances.

    along: a column along which errors are uneven. box: nuisances that lie elsewhere, such as `beside`, the share of lab
    effects in the signal.
    """
    make = partial(_made, boundary, shares, along)
    others = {**shares.others, AT_THE_BAR: AT_THE_BAR}
    return replace(shares, make=make, box={**BOX, **box}, kinds=tuple(kinds), others=others)


def _made(
    boundary: Boundary,
    shares: Worlds,
    along: str,
    size: Any,
    *,
    kind: str,
    signal: float,
    tilt: float,
    families: float,
    ratio: float,
    beside: float | None = None,
) -> World:
    if size != AT_THE_BAR:
        return shares.make(size, kind=kind, between=families, ratio=ratio)
    beside = boundary.beside if beside is None else beside
    errors = Errors(kind, between=families, group="family", along=along, ratio=ratio)
    of_labs = f", lab effects of {beside:.0%} of it too" if beside else ""
    words = f"{boundary.words}, a signal of {signal:.0%} of the variance{of_labs}, direction {declared(tilt)}"
    outcomes = partial(boundary.outcomes, signal, tilt, beside)
    return World(f"{words}, {errors.words}", outcomes, errors, boundary.large)
