"""Worlds in which two causes are alike, in which heritage, geometry and scale are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import ERRORS, Noise, Random
from thermostats.claims.result import Estimate, Result
from thermostats.claims.worlds import (
    TOTAL,
    Array,
    Outcomes,
    World,
    Worlds,
    build_cause_worlds,
    build_errors,
    standardise_values,
)
from thermostats.formatting import format_declared
from thermostats.modelling.heritage.variance_shares import Blocks, measure_signal_shares
from thermostats.studies.delia2026.hierarchy import (
    AGAINST_ARCHITECTURE,
    BLOCKS,
    CODINGS,
    GEOMETRY_MINUS_SCALE,
    HERITAGE,
    HERITAGE_MINUS_ARCHITECTURE,
    LINEAGE,
    LINEAGE_AGAINST_ARCHITECTURE,
    LINEAGE_MINUS_ARCHITECTURE,
    MARGIN,
    SHARE_OF_SCALE,
    SPAN,
    TABLE_OF_CODINGS,
    TABLE_OF_COUNTS,
)

ANGLES = 91
"""Angles between 0 and 90° at which shares are computed; between them they are taken as
straight."""
AT_THE_BAR = "at the bar"
ALONG = "log_n"
MEASURED = "penultimate_gain_in_labs"
"""The outcome whose residuals say how far nuisances go: those of labs and shape taken off, which
the claim asks about."""
AT_REST, OF_ERRORS = build_errors(ALONG, ordered=False, group="family", measured=MEASURED)
BOX: Mapping[str, tuple[float, ...]] = {
    "signal": (0.8, 0.95, 0.3),
    "tilt": (0.5, 0.0, 1.0),
    "families": OF_ERRORS["between"],
    "ratio": OF_ERRORS["ratio"],
}
"""At rest and at their bounds: the signal's share, the direction of columns, errors between
families, and their SD along the last column."""
NUISANCES = dict(  # noqa: C408 - names of parameters, no words
    signal="a share of {value} of the variance is signal",
    tilt="columns point in direction {value}",
    beside="lab effects make a share of {value} of the signal",
)
"""Those of this family alone in words."""


@dataclass(frozen=True)
class Boundary:
    """A comparison of blocks, and the causes whose mixture lies on its boundary.

    codings: ways to put columns into blocks, in each of which the first of `pair` must exceed the
    second by more than `margin`, a share of the whole variance; without a second it is a share
    alone. first, second: the causes that are mixed, groups whose levels add up, or columns: at tilt
    0 along the first, at tilt 1 the last, between them both, of random signs. `beside`: a share of
    lab effects in the signal, whatever the mixture.
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

    def compare_signals(self, rows: pd.DataFrame, signals: Array, signal: float) -> Array:
        """What is compared for every signal (one a row), of the whole variance, in the coding where
        it is least."""
        differences = []
        for blocks in self.codings:
            shares = signal * measure_signal_shares(rows, signals, blocks)
            names = list(blocks)
            first, *rest = (shares[:, names.index(name)] for name in self.pair)
            differences.append(first - rest[0] if rest else self.margin - first)
        least = np.min(differences, axis=0)
        return np.asarray(least - self.margin if len(self.pair) > 1 else least)

    def draw_outcomes(
        self,
        signal: float,
        tilt: float,
        beside: float,
        rows: pd.DataFrame,
        noise: Noise,
        random: Random,
    ) -> Outcomes:
        """Outcomes with a signal on the boundary, and noise."""
        a = self._build_cause(rows, self.first, tilt, random)
        b = self._build_cause(rows, self.second, tilt, random)
        levels = random.levels(rows, "heritage")
        lab = standardise_values(levels)[:, None]
        errors = noise(rows)
        angles = np.linspace(0, np.pi / 2, ANGLES)[:, None]
        part = np.cos(angles) * a[:, None]
        mixture = part + np.sin(angles) * b[:, None]
        beside_it = beside**0.5 * lab
        mixed = (1 - beside) ** 0.5 * mixture + beside_it
        signals = mixed.reshape(-1, len(rows))
        compared = self.compare_signals(rows, signals, signal)
        compared = compared.reshape(mixed.shape[:2])
        made = standardise_values(_find_zero(mixed, compared))
        left = (1 - signal) ** 0.5 * errors
        outcome = signal**0.5 * made + left
        return {self.outcome: TOTAL * outcome}

    def _build_cause(
        self, rows: pd.DataFrame, columns: Sequence[str], tilt: float, random: Random
    ) -> Array:
        if not pd.api.types.is_numeric_dtype(rows[columns[0]]):
            levels = [random.levels(rows, column) for column in columns]
            return standardise_values(np.sum(levels, axis=0))
        numbers = [standardise_values(rows[name].to_numpy(float)) for name in columns]
        x = np.column_stack(numbers)
        n = x.shape[1]
        away = tilt * (n - 1) - np.arange(n)
        angles = np.pi / 2 * away.clip(-1, 1)
        weights = np.cos(angles)
        signed = weights * random.signs(n)
        return standardise_values(signed @ x.T)


def _find_zero(signals: Array, compared: Array) -> Array:
    """Of every study (study × angle) the signal between two neighbours where what is compared
    crosses 0.

    Where it never is above 0, the one where it is most; where it never falls to 0, the last.
    """
    above_0 = compared > 0
    not_above = compared[:, 1:] <= 0
    falls = above_0[:, :-1] & not_above
    study = np.arange(len(signals))
    place = falls.argmax(axis=1)
    before = compared[study, place]
    after = compared[study, place + 1]
    falling = before > after
    no_part = np.zeros_like(before)
    part = np.divide(before, before - after, out=no_part, where=falling)
    first = signals[study, place]
    step = signals[study, place + 1] - first
    between = first + part[:, None] * step
    most = signals[study, compared.argmax(axis=1)]
    above = above_0.any(axis=1, keepdims=True)
    crossed = falls.any(axis=1, keepdims=True)
    last = signals[:, -1]
    elsewhere = np.where(above, last, most)
    return np.asarray(np.where(crossed, between, elsewhere))


def build_worlds(boundary: Boundary, shares: Worlds, **box: tuple[float, ...]) -> Worlds:
    """A family of shares of causes with the boundary of their comparison among its sizes, and the
    boundary's nuisances.

    box: nuisances that lie elsewhere, such as `beside`, the share of lab effects in the signal.
    """
    make = partial(_make_world, boundary, shares)
    others = {**shares.others, AT_THE_BAR: AT_THE_BAR}
    return replace(shares, make=make, box={**BOX, **box}, others=others, nuisances=NUISANCES)


def _make_world(
    boundary: Boundary,
    shares: Worlds,
    size: Any,
    *,
    kind: str,
    signal: float,
    tilt: float,
    families: float,
    ratio: float,
    beside: float | None = None,
    wide: float = 0.0,
) -> World:
    if size != AT_THE_BAR:
        return shares.make(size, kind=kind, between=families, ratio=ratio, wide=wide)
    beside = boundary.beside if beside is None else beside
    limits = AT_REST.limits.widen() if wide else AT_REST.limits
    errors = replace(AT_REST, kind=kind, between=families, ratio=ratio, limits=limits)
    of_labs = f", lab effects of {beside:.0%} of it too" if beside else ""
    words = f"{boundary.words}, a signal of {signal:.0%} of the variance{of_labs}"
    words += f", direction {format_declared(tilt)}"
    outcomes = partial(boundary.draw_outcomes, signal, tilt, beside)
    return World(f"{words}, {errors.words}", outcomes, errors, boundary.large)


KINDS = tuple(kind for kind in ERRORS if kind != "one outlying lab")
"""Errors that rules are tried with. Labs have two models or more here, and one that lies off is a
lab's effect."""
COLUMNS = {
    "geometry": BLOCKS["geometry"],
    "density": ("log_rho",),
    "scale": BLOCKS["scale"],
    "architecture": SPAN,
    "curve": ("log_L",),
}


def build_zero_result(name: str, value: float = 0.0) -> Result:
    """The numbers of a rule in a sample without end where a quantity lies at its bar."""
    return Result(quantities={name: Estimate(value)})


LAB_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (AGAINST_ARCHITECTURE,),
    ("heritage", "architecture"),
    HERITAGE,
    SPAN,
    "lab and architecture alike",
    build_zero_result(HERITAGE_MINUS_ARCHITECTURE),
)
LINEAGE_EQUALS_ARCHITECTURE = Boundary(
    "outcome",
    (LINEAGE_AGAINST_ARCHITECTURE,),
    ("lineage", "architecture"),
    LINEAGE,
    SPAN,
    "lineage and architecture alike",
    build_zero_result(LINEAGE_MINUS_ARCHITECTURE),
)
GEOMETRY_EQUALS_SCALE = Boundary(
    "outcome",
    tuple(coding.blocks for coding in CODINGS),
    ("geometry", "scale"),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    "geometry and scale alike in the coding where geometry is least",
    Result(rows={TABLE_OF_CODINGS: pd.DataFrame({GEOMETRY_MINUS_SCALE: [0.0]})}),
    beside=0.4,
)
SCALE_AT_MARGIN = Boundary(
    "outcome",
    (BLOCKS,),
    ("scale",),
    BLOCKS["geometry"],
    BLOCKS["scale"],
    f"scale has a share of {MARGIN:.0%}",
    Result(rows={TABLE_OF_COUNTS: pd.DataFrame({SHARE_OF_SCALE: [MARGIN]})}),
    MARGIN,
    0.5,
)
OTHERS = {
    "strong heritage": {"heritage": 0.85, "architecture": 0.1},
    "lab alone": {"heritage": 0.9},
    "families only": {"family": 0.6},
    "geometry only": {"geometry": 0.6},
    "curved depth": {"curve": 0.6},
    "scale only": {"scale": 0.6},
    "architecture above heritage": {"heritage": 0.25, "architecture": 0.6},
}
"""One cause alone, and the claimed shares turned round."""
SHARES = partial(
    build_cause_worlds,
    "outcome",
    COLUMNS,
    column=ALONG,
    ordered=False,
    kinds=KINDS,
    group="family",
    measured=MEASURED,
)
HERITAGE_WORLDS = SHARES({"heritage": 0.6, "architecture": 0.25}, OTHERS)
GEOMETRY_SHARES = SHARES(
    {"heritage": 0.6, "density": 0.2, "scale": 0.05},
    {
        "density alone": {"density": 0.6},
        "lab alone": {"heritage": 0.9},
        "scale only": {"scale": 0.6},
        "strong lab, scale above geometry": {"heritage": 0.7, "geometry": 0.05, "scale": 0.2},
        "scale above geometry": {"heritage": 0.5, "scale": 0.3},
    },
)
SIZE_SHARES = SHARES(
    {"heritage": 0.6, "density": 0.2},
    {
        "size matters": {"heritage": 0.5, "geometry": 0.1, "scale": 0.3},
        "scale only": {"scale": 0.6},
    },
)
ONE_WAY, ANY_LAB = (1.0, 1.0), (0.4, 0.8, 0.0)
"""Nuisances at rest and at their bounds: columns go one way; a share of lab effects in the
signal."""

ARCHITECTURE_WORLDS = build_worlds(LAB_EQUALS_ARCHITECTURE, HERITAGE_WORLDS)
LINEAGE_WORLDS = build_worlds(LINEAGE_EQUALS_ARCHITECTURE, HERITAGE_WORLDS, families=(0.0, 0.0))
GEOMETRY_WORLDS = build_worlds(GEOMETRY_EQUALS_SCALE, GEOMETRY_SHARES, tilt=ONE_WAY, beside=ANY_LAB)
SIZE_WORLDS = build_worlds(SCALE_AT_MARGIN, SIZE_SHARES, tilt=ONE_WAY, beside=ANY_LAB)
"""Of each comparison: the worlds in which its rule is tried, the boundary among them."""
