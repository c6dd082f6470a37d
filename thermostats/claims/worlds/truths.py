"""Worlds of truth values: the share of rows where something holds, or the difference between two such shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import Errors, Noise, Rng, groups_of
from thermostats.claims.worlds.searches import BRIEF, COMMON, Effort, Search
from thermostats.claims.worlds.world import World
from thermostats.formatting import declared

CERTAIN = 1e-9
"""Shares of 0 and 1 are so near."""
LOGISTIC = math.pi / 3**0.5
"""Standard deviation of log odds within groups."""


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
    worlds = []
    for name, shares in (("as claimed", claimed), ("null", (null, null))):
        for words, sd in (("units independent", 0.0), (f"alike within {group}", 1.0)):
            change, holds = partial(_of_share, column, focal, shares, sd, group), name == "as claimed"
            described = f"share {' and elsewhere '.join(declared(share) for share in dict.fromkeys(shares))}, {words}"
            worlds.append(World(f"{name}, {words}", described, holds, change, Errors(), declared=holds and not sd))
    return tuple(worlds)


def searches_of_share(
    column: str, claimed: float, null: float, group: str = "heritage", *, effort: Effort = BRIEF, sided: bool = False
) -> tuple[Search, Search]:
    """Where a rule of a share is looked at hardest: at either share, with units alike within groups within bounds.

    sided: whether the rule compares with the null, as for `searches_among`; then the statement holds between the two.
    """
    between = (min(null, claimed), max(null, claimed))
    held, bounds = (None, {"share": between}) if sided else ((claimed, claimed), {})
    return _searches(column, "", {False: (null, null), True: held}, group, effort, bounds)


def searches_of_contrast(
    column: str,
    focal: str,
    claimed: tuple[float, float],
    share: tuple[float, float],
    group: str = "heritage",
    *,
    effort: Effort = BRIEF,
) -> tuple[Search, Search]:
    """Searches for a contrast of shares; share: bounds of the share in both, where there is none."""
    return _searches(column, focal, {False: None, True: claimed}, group, effort, {"share": share})


def _searches(
    column: str,
    focal: str,
    sides: Mapping[bool, tuple[float, float] | None],
    group: str,
    effort: Effort,
    bounds: Mapping[str, tuple[float, float]],
) -> tuple[Search, Search]:
    false, true = (
        Search(
            f"worst, {'held' if holds else 'not held'}",
            holds,
            partial(_alike, column, focal, shares, group, holds),
            {"alike": COMMON} if shares else {"alike": COMMON, **bounds},
            ("normal",),
            effort,
        )
        for holds, shares in sorted(sides.items())
    )
    return false, true


def _alike(
    column: str,
    focal: str,
    shares: tuple[float, float] | None,
    group: str,
    holds: bool,
    *,
    alike: float,
    kind: str,
    share: float = math.nan,
) -> World:
    both = shares or (share, share)
    in_both = " and elsewhere ".join(declared(each) for each in dict.fromkeys(both))
    change = partial(_of_share, column, focal, both, (alike / (1 - alike)) ** 0.5 * LOGISTIC, group)
    words = f"share {in_both}, {alike:.0%} of the variance of log odds between {groups_of(group)}"
    return World("", words, holds, change, Errors(kind))


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
