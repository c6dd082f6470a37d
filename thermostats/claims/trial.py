"""What a rule is tried on: rows, the test that it reads, and the worlds in which it is put to the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.claims.worlds import Search, World


@dataclass(frozen=True)
class Trial:
    """What a primary rule reads, as a function of rows alone, so that other rows can be put in their place."""

    rows: Callable[..., pd.DataFrame]
    """Rows of models, of the evidence and, where the finding is asked over records, of one of these."""
    test: Callable[[pd.DataFrame], Result]
    unit: str = "heritage"
    """Column of the units that are left out one by one; empty: one counterexample decides, or the unit is the claim."""
    worlds: tuple[World, ...] = ()
    larger: str = "model"
    """What a larger study would have more of: `model`, each of a group of its own, `pair`, `prompt` or `recipe`."""
    searches: tuple[Search, ...] = ()
    """Where worlds are looked for in which the rule errs most."""
    unsearched: str = ""
    """Why none are looked for, a sentence; only where `searches` is empty."""
    version: int = 1
    """Raised by whoever changes what `test` computes or a world makes, so that rates of before count for nothing."""

    @property
    def places(self) -> tuple[World | Search, ...]:
        """Worlds, and searches for worlds, in which the rule is tried."""
        return (*self.worlds, *self.searches)

    def of(self, evidence: Evidence, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)
