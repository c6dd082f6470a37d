"""What a rule is tried on: rows, the test that it reads, and the worlds in which it is put to the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.claims.worlds.world import Worlds
from thermostats.errors import UsageError
from thermostats.modelling.classical.many import correlations, counted, shares

Many = Callable[[pd.DataFrame, Mapping[str, Any]], Mapping[str, Any]]
"""Rows and outcomes (study × row) to estimates whose parts are arrays, by the names that a rule reads."""


def correlations_of(quantity: str, predictor: str, outcome: str, groups: str = "", least: int = 4, **how: Any) -> Many:
    """The correlation of two columns in many studies at once, within groups; how: see `many.correlations`."""

    def at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(rows) < least:
            raise UsageError("too few points", got=len(rows), allowed=f"{least} or more")
        x, within = rows[predictor].to_numpy(np.float64), rows[groups] if groups else None
        return {quantity: correlations(x, outcomes[outcome], groups=within, **how)}

    return at_once


def shares_of(quantity: str, column: str, true: str = "", false: str = "", n: str = "") -> Many:
    """The share of rows where a column is true in many studies at once, with the counts that are named."""

    def at_once(rows: pd.DataFrame, outcomes: Mapping[str, Any]) -> Mapping[str, Any]:
        if rows.empty:
            raise UsageError("no rows")
        found, size = shares(outcomes[column]), np.full(len(outcomes[column]), len(rows))
        counts = {true: outcomes[column].sum(axis=1), false: (~outcomes[column]).sum(axis=1), n: size}
        return {quantity: found, **{name: counted(each) for name, each in counts.items() if name}}

    return at_once


@dataclass(frozen=True)
class Trial:
    """What a primary rule reads, as a function of rows alone, so that other rows can be put in their place."""

    rows: Callable[..., pd.DataFrame]
    """Rows of models, of the evidence and, where the finding is asked over records, of one of these."""
    test: Callable[[pd.DataFrame], Result]
    unit: str = "heritage"
    """Column of the units that are left out one by one; empty: one counterexample decides, or the unit is the claim."""
    worlds: Worlds | None = None
    """Worlds in which the rule is tried; None: its levels are taken as they are, and the page says so."""
    larger: str = "model"
    """What a larger study would have more of: `model`, each of a group of its own, `pair`, `prompt` or `recipe`."""
    many: Many | None = None
    """The numbers that `test` gives the rule, of many studies at once."""
    version: int = 1
    """Raised by whoever changes what `test` computes, so that what was simulated before counts for nothing."""

    def of(self, evidence: Evidence, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)
