"""Worlds of `components` on the rows of a study: log gains whose components over the reference are known."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from thermostats.claims import worlds
from thermostats.studies.nursery.components import REFERENCE, WORLDS, World, means

CLAIMED, ALIKE, *OTHERS = WORLDS
LINES = ["log_L", "log_rho", "log_d"]


def worlds_of_components() -> tuple[worlds.World, ...]:
    """The order as claimed, and worlds without it; of those in which all are alike one with every kind of error."""
    kinds = [(ALIKE, f"{ALIKE.name}, {kind}", kind, words) for kind, words in worlds.ERRORS.items() if kind != "normal"]
    plain = [(world, world.name, "normal", worlds.ERRORS["normal"]) for world in (CLAIMED, ALIKE, *OTHERS)]
    return tuple(
        worlds.World(name, f"{_said(own)}, {words}", own is CLAIMED, partial(_changed, own, kind), own is CLAIMED)
        for own, name, kind, words in plain + kinds
    )


def _changed(own: World, kind: str, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    made = means(own, pd.factorize(rows["recipe"])[0], rows[LINES].to_numpy(np.float64), rng, REFERENCE)
    return rows.assign(log_gain=made + own.left_over * worlds.errors(rows, kind, rng))


def _said(own: World) -> str:
    """Its components, in plain words."""
    tails = "" if np.isinf(own.t) else f", recipes with the tails of t with {own.t:g} degrees of freedom"
    return f"SDs of recipe, geometry and scale of {own.recipe:g}, {own.geometry:g} and {own.scale:g}{tails}"
