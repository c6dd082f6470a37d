"""Worlds of causes: labs, families and columns have shares of the variance of an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims.noise import ERRORS, Array, Errors, Noise, Rng, levels_of
from thermostats.claims.worlds.world import TOTAL, World, claimed_or_not, standard

SHAPE, SIZE = ("log_L", "log_H", "log_d_h"), "log_n"
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


def worlds_of_groups(outcome: str, group: str, claimed: float, null: float) -> tuple[World, ...]:
    """An outcome with a share of its variance between values of a column, as claimed, or another with every error."""
    true, false = (({group: share}, f"{share:.0%} of the variance between {group}s") for share in (claimed, null))
    return claimed_or_not(partial(_of_causes, outcome, {}), true, false)


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
        made = made + share**0.5 * standard(_cause(rows, name, columns, rng))
    return rows.assign(**{outcome: TOTAL * made})


def _cause(rows: pd.DataFrame, name: str, columns: Mapping[str, Sequence[str]], rng: Rng) -> Array:
    if name not in columns:
        return levels_of(rows, "heritage" if name == "lab" else name, rng)
    x = np.column_stack([standard(rows[column].to_numpy(np.float64)) for column in columns[name]])
    return np.asarray((np.square(x) if name == "curve" else x) @ rng.normal(size=x.shape[1]))
