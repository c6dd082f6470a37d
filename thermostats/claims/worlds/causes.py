"""Worlds of causes: labs, families, columns or descent have shares of the variance of an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.noise import ERRORS, Array, Noise, Random
from thermostats.claims.worlds.world import TOTAL, Outcomes, Worlds, along, family, standard

EVERY = tuple(ERRORS)
Shares = Mapping[str, float]


def worlds_of_shares(
    outcome: str,
    columns: Mapping[str, Sequence[str]],
    claimed: Shares,
    others: Mapping[str, Shares],
    *,
    column: str = "",
    kinds: Sequence[str] = EVERY,
    **errors: Any,
) -> Worlds:
    """Log gains of models of which causes have shares of the variance, or nothing but errors.

    columns: of causes that are columns; others are levels of the column of their name. others: further shares by name.
    """
    signal, at_rest = partial(_of_causes, outcome, columns), along(column, **errors)
    return family(signal, "shares of {}", outcome, at_rest, claimed, dict.fromkeys(claimed, 0.0), kinds, others)


def worlds_of_descent(outcome: str, lam: float, column: str, quantity: str = "", **errors: Any) -> Worlds:
    """Log gains of which a share λ drifts along labs and families, or nothing.

    quantity: what the rule calls λ; its estimate, which cannot be negative, is above 0 in many samples without descent.
    A lab that lies off as a whole is descent, so errors of that kind are no world without it.
    """
    kinds = [kind for kind in EVERY if kind != "one outlying lab"]
    signal, at_rest = partial(_of_descent, outcome), along(column, **errors)
    return family(signal, "λ = {}", outcome, at_rest, lam, kinds=kinds, quantity=quantity)


def _of_causes(
    outcome: str, columns: Mapping[str, Sequence[str]], shares: Shares, rows: pd.DataFrame, noise: Noise, random: Random
) -> Outcomes:
    made = (1 - sum(shares.values())) ** 0.5 * noise(rows)
    for name, share in shares.items():
        made = made + share**0.5 * standard(_cause(rows, name, columns, random))
    return {outcome: TOTAL * made}


def _cause(rows: pd.DataFrame, name: str, columns: Mapping[str, Sequence[str]], random: Random) -> Array:
    if name not in columns:
        return random.levels(rows, "heritage" if name == "lab" else name)
    x = np.column_stack([standard(rows[column].to_numpy(np.float64)) for column in columns[name]])
    return np.asarray(random.normal(x.shape[1]) @ (np.square(x) if name == "curve" else x).T)


def _of_descent(outcome: str, lam: float, rows: pd.DataFrame, noise: Noise, random: Random) -> Outcomes:
    lab = rows["heritage"].astype(str)
    family = lab + " / " + rows["family"].astype(str).where(rows["family"].astype(str) != "", rows["model_id"])
    named = rows.assign(lab=lab, line=family)
    steps = random.levels(named, "lab") + random.levels(named, "line") + random.normal(len(rows))
    return {outcome: TOTAL * (lam**0.5 * steps / 3**0.5 + (1 - lam) ** 0.5 * noise(rows))}
