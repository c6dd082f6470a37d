"""What a rule is tried on: rows, the test that it reads, and the worlds in which it is put to the test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

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

    def of(self, evidence: Any, over: Any) -> pd.DataFrame:
        """The rows that were measured."""
        return self.rows(evidence) if over is None else self.rows(evidence, over)


def key(question: Any) -> str:
    """The finding's id without what it is asked over."""
    return str(question.id if question.over is None else question.id.rpartition(".")[0])


def digest(question: Any, named: World | Search) -> str:
    """Of the rule, the version of the test and the world's words: rates of another version of them count for nothing.

    Whoever changes what a test computes raises its `Trial.version`; a test simulates some studies of every rule anew.
    """
    parts = (str(question.trial.version), question.primary.words(), str(named.holds), named.id, named.words)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
