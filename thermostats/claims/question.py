"""A finding's question as an analysis declares it: what answers it, how it is judged, on what it is tried."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from thermostats.claims.curve import Curve
from thermostats.claims.evidence import SETS
from thermostats.claims.result import Result, TooFew
from thermostats.claims.rule import AtLeast, Posterior, Rule
from thermostats.claims.trial import Trial
from thermostats.errors import DataError
from thermostats.formatting import listed


@dataclass(frozen=True)
class Views(AtLeast):
    """The other sets of evidence that a question is put to, and what each must have."""

    including: tuple[str, ...] = ()
    """Labs that must be among them."""
    sets: tuple[str, ...] = ()
    """Names of `SETS`; empty: all but the set that the finding asks first."""
    reads: tuple[str, ...] = ()
    """Columns, as `table.column`, without which it cannot be put; empty: those of what the claim measures."""

    def beside(self, first: str | None, where: str) -> Views:
        """The same with the sets named, for a finding that is asked of `first`; raises DataError where that is one."""
        if first in self.sets:
            allowed = ", ".join(name for name in SETS if name != first)
            raise DataError(
                "a finding's own set is no other set", where=where, got=f"views of {first}", allowed=allowed
            )
        return replace(self, sets=self.sets or tuple(name for name in SETS if name != first))

    def of(self, rows: pd.DataFrame, group: str = "heritage", **words: Any) -> pd.DataFrame:
        """Rows handed on where they are enough; raises TooFew where not."""
        if not set(self.including) <= set(rows["heritage"]):
            raise TooFew(Result(n_models=rows["model_id"].nunique(), n_groups=rows[group].nunique(), words=words))
        return super().of(rows, group, **words)

    def words(self) -> str:
        """How many are needed."""
        among = f", {listed(self.including)} among them" if self.including else ""
        return f"{super().words()}{among}"


@dataclass(frozen=True)
class Question:
    """One finding as an analysis declares it."""

    id: str
    name: str
    """Section of the words."""
    over: Any
    answer: Callable[..., Result]
    primary: Rule | None = None
    robustness: Rule | None = None
    evidence: str = ""
    needs: AtLeast | None = None
    group: str = "lab"
    trial: Trial | None = None
    """The test that `primary` reads as a function of rows, to be put to other rows."""
    parts: tuple[str, ...] = ()
    """Ids of the findings that a verdict over findings rests on."""
    views: Views | None = None
    statement: str = ""
    """Name of what it asks, where other findings ask the same."""
    curve: Curve | None = None
    """The same question under every defensible choice."""

    @property
    def key(self) -> str:
        """The finding's id without what it is asked over."""
        return self.id if self.over is None else self.id.rpartition(".")[0]

    def on_trial(self) -> tuple[Rule, Trial]:
        """The rule that decides, and what it is tried on; raises DataError where it has neither."""
        if self.primary is None or self.trial is None:
            raise DataError("a question without a trial can have only one set of evidence", where=self.id)
        return self.primary, self.trial

    def digest(self) -> str:
        """Of rule, version of the test and worlds: what was simulated of another version of them counts for nothing.

        Whoever changes what a test computes raises its `Trial.version`.
        """
        primary, trial = self.on_trial()
        parts = [str(trial.version), trial.unit, primary.words()]
        if (worlds := trial.worlds) is not None:
            sizes = (worlds.claimed, worlds.null, dict(worlds.others), dict(worlds.box), worlds.kinds)
            parts += [*map(str, sizes), worlds.at().words]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def rule(self) -> str:
        """How it is decided, in words."""
        if self.primary is None:
            parts = ", ".join(self.parts)
            return f"supported if all of {parts} are supported, not supported if any of them is not supported"
        text = self.primary.words()
        if self.robustness is not None:
            by = "posterior" if isinstance(self.robustness, Posterior) else "test"
            text += f"; and by the {by}: {self.robustness.words()}"
            text += "; it is shown and decides nothing"
        return text + (f"; {self.needs.words()}" if self.needs else "")

    def brief(self) -> str:
        """How it is decided, in a few short sentences."""
        if self.primary is None:
            return "Supported where all of its parts are supported. Not supported where any of them is not supported."
        return " ".join(self.primary.brief())
