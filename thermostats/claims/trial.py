"""What a rule is tried on: rows, the test that it reads, and the worlds in which it is put to the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Result
from thermostats.claims.worlds.world import Worlds
from thermostats.modelling.classical.many import AtOnce


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
    many: AtOnce | None = None
    """The numbers that `test` gives the rule, of many studies at once."""
    version: int = 1
    """Raised by whoever changes what `test` computes, so that what was simulated before counts for nothing."""

    def of(self, evidence: Evidence, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)
