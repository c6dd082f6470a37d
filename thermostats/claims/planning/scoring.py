"""What a design would show by the claim's own rule: how often each verdict is given, and from which
limit on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.calibration import RETRIED, find_nearest
from thermostats.claims.levels import (
    HERE,
    PLAUSIBLE,
    SIDES,
    find_bound,
    parse_point,
    simulate_levels,
)
from thermostats.claims.planning.contrast import DesignContrast
from thermostats.claims.planning.prediction import predictive
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, Verdict
from thermostats.claims.rule import ALPHA
from thermostats.claims.worlds import CLAIMED, NULL, World
from thermostats.errors import UsageError

STUDIES = 400
SECONDS = 4.0
"""Simulated studies of a design and world, and CPU-seconds after which no further is made."""
ENOUGH = 3.0
"""Simulated false verdicts that a limit rests on at least, where all studies were made."""
MOST_LOOKS = 5
"""Looks that may be declared."""


@dataclass(frozen=True)
class Looks:
    """How often the verdict is asked for, and how often it was: each look has an equal share of
    5%."""

    declared: int = 2
    taken: int = 1

    def __post_init__(self) -> None:
        """Refuse more looks than may be declared, and a look that is not there."""
        if not 1 <= self.declared <= MOST_LOOKS:
            raise UsageError(
                "not a number of looks",
                where="--looks",
                got=self.declared,
                allowed=f"1 to {MOST_LOOKS}",
                next_step="--looks 2",
            )
        if not 0 <= self.taken < self.declared:
            raise UsageError(
                "no declared look is left",
                where="--taken",
                got=f"{self.taken} of {self.declared} taken",
                allowed=f"0 to {self.declared - 1}",
                next_step="a new claim on rows of its own, as looks cannot be added afterwards",
            )

    @property
    def share(self) -> float:
        """Level of one look, .05/L."""
        return ALPHA / self.declared


@dataclass(frozen=True)
class Verdicts:
    """How often each verdict would be given on a design."""

    limits: Mapping[str, float]
    """min(.05/L, α*(.05/L)) by side."""
    least: Mapping[str, float]
    """The smallest level of any simulated study by side."""
    predicted: Mapping[str, float]
    """By verdict, the rows at hand staying and the effect drawn from its posterior; empty where
    that is not known."""
    declared: float
    """“supported” where the claim is true at the size that it states."""
    null: float
    """“not supported” where there is no effect."""
    studies: int

    @property
    def out_of_reach(self) -> list[str]:
        """Sides that no simulated study attains below their limit."""
        sides: list[str] = []
        for side, limit in self.limits.items():
            if self.least[side] >= limit:
                sides.append(side)
        return sides

    @property
    def decided(self) -> float:
        """Probability of a verdict; NaN where it is not known."""
        if not self.predicted:
            return math.nan
        return self.predicted[SUPPORTED] + self.predicted[AGAINST]


def verdicts_on(
    question: Question,
    rows: pd.DataFrame,
    new: NDArray[np.bool_],
    contrast: DesignContrast,
    looks: Looks,
    seed: int = 1,
) -> Verdicts:
    """Verdicts on a design, in the claim's own worlds and by prediction from the rows at hand.

    rows: of the design, of which `new` are to come. contrast: of these rows.
    """
    limits = limits_on(question, rows, looks.share)
    worlds = question.require_trial()[1].worlds
    assert worlds is not None  # noqa: S101
    made = {}
    ahead = predictive(question, rows, new, contrast)
    for name, world in {
        "claimed": worlds.build_world(CLAIMED),
        "null": worlds.build_world(NULL),
    }.items():
        made[name] = _attained(question, rows, world, seed)
    if ahead is not None:
        made["ahead"] = _attained(question, rows, ahead, seed)
    least = np.min([each.min(axis=0) for each in made.values()], axis=0)
    shares = {}
    for name, each in made.items():
        shares[name] = shares_of(each, limits)
    named_limits = {str(side): limits[side] for side in SIDES}
    named_least = {str(side): float(least[place]) for place, side in enumerate(SIDES)}
    return Verdicts(
        limits=named_limits,
        least=named_least,
        predicted=shares.get("ahead", {}),
        declared=shares["claimed"][SUPPORTED],
        null=shares["null"][AGAINST],
        studies=min(map(len, made.values())),
    )


def _attained(
    question: Question, rows: pd.DataFrame, world: World, seed: int
) -> NDArray[np.float64]:
    # few rows leave an effect's size open by powers of 10, and gains of e to that power are 0 or ∞
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return simulate_levels(question, rows, world, STUDIES, f"next {seed}", SECONDS)


def limits_on(question: Question, rows: pd.DataFrame, share: float) -> dict[Verdict, float]:
    """The limit of each side at one look: min(share, α*(share)).

    α* is simulated on these rows in the worst worlds of the nearest design that was tried; of a
    rule that was not tried it is the share itself. Where too few studies fit into the time it is
    the nearest design's own.
    """
    known = find_nearest(question, len(rows))
    worlds = question.require_trial()[1].worlds
    limits = dict.fromkeys(SIDES, share)
    for side in SIDES if known.tried and worlds is not None else ():
        of_box = known.side(side).rows
        worst = of_box[of_box["box"] == PLAUSIBLE].sort_values("bound_05").head(RETRIED)
        column = "bound_05" if share >= ALPHA else "bound_01"
        found = [0.0] if worst.empty else []
        for row in worst.to_dict("records"):
            world = (
                worlds.build_world(**parse_point(str(row["point"]))) if worlds is not None else None
            )
            assert world is not None  # noqa: S101
            made = simulate_levels(
                question, convert_numpy(rows), world, HERE.fresh, "next α*", SECONDS
            )
            enough = len(made) * share >= ENOUGH
            own = made[:, SIDES.index(side)]
            found.append(find_bound(own, share) if enough else float(row[column]))
        limits[side] = min(share, *found)
    return limits


def shares_of(attained: NDArray[np.float64], limits: Mapping[Verdict, float]) -> dict[str, float]:
    """How often each verdict is given: of two sides below their limits the one further below."""
    limit = np.array([limits[side] for side in SIDES])
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(attained < limit, attained / limit, np.inf)
    given = np.isfinite(part).any(axis=1)
    first = part.argmin(axis=1)
    made = {}
    for place, side in enumerate(SIDES):
        made[str(side)] = float((given & (first == place)).mean())
    return {**made, str(OPEN): float((~given).mean())}
