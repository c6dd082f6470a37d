"""What a fitted model adds to a finding: everything that a page of the Bayesian reporting checklist shows.

The items follow Kruschke 2021, doi:10.1038/s41562-021-01177-7: model, priors with their predictions, computation,
posterior, decision rule, predictive checks, sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pandas as pd

from thermostats.claims.by_column import ByColumn
from thermostats.claims.verdict import OPEN
from thermostats.modelling.checks import Gate


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One figure of a fit."""

    name: str
    """Short, for a file name: `prior-to-posterior`."""
    draw: Callable[..., object]
    """Draws the figure onto the matplotlib axes it is given."""
    caption: str
    """What it shows and what was estimated, with its result; the alt text."""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What the rule concludes from a posterior, and the classical test next to it."""

    rule: str
    """Which posterior probability supports the claim, which speaks against it."""
    statement: str
    """What the probability is of."""
    probability: float
    error: float | None = None
    """Monte-Carlo standard error of `probability`."""
    verdict: str
    """By the rule alone."""
    classical: str = ""
    """Verdict of the classical test alone."""
    classical_rule: str = ""
    """Rule of the classical test; empty: the claim's rule."""


@dataclass(frozen=True, kw_only=True)
class Computation:
    """How the draws came about."""

    words: str = ""
    """Sampler, chains, draws kept and discarded, attempts."""
    diagnostics: pd.DataFrame
    """diagnostic, worst, limit, quantity."""
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    drawn: str = ""
    """By which versions, and when, where PyMC drew; the exact engine gives the same at any time."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EarlierDraws:
    """A posterior that an earlier report drew."""

    probability: float
    """Of the statement that is asked."""
    error: float | None
    """Its Monte-Carlo standard error."""
    drawn: str
    """By which versions, and when."""


@dataclass(frozen=True, kw_only=True)
class Undrawn:
    """A fit that PyMC alone can draw, in a report that does not draw."""

    model: str
    """What would be fitted to what, in one sentence."""
    rule: str
    statement: str
    """What the probability is of."""
    earlier: EarlierDraws | None = None
    why: str = ""
    """Why there are no figures of it."""


@dataclass(frozen=True, kw_only=True)
class FittedModel(ByColumn):
    """A fit as a page shows it; every table is ready to print."""

    COLUMNS = MappingProxyType(
        {
            **{name: name for name in ("model", "equations", "priors")},
            **{name: f"conclusion.{name}" for name in ("rule", "statement", "probability", "verdict")},
            **{name: f"computation.{name}" for name in ("warnings", "seed", "versions", "drawn")},
            **{"classical": "conclusion.classical", "sources": "sources", "computation": "computation.words"},
            **{"probability_error": "conclusion.error", "concluded": "concluded"},
        }
    )

    model: str
    """What was fitted to what, in one sentence."""
    equations: tuple[str, ...]
    priors: tuple[tuple[str, str, str], ...]
    """Quantity, distribution, why."""
    sources: tuple[str, ...] = ()
    """Files or measurements that the rows come from."""
    conclusion: Conclusion
    gate: Gate
    computation: Computation
    summary: pd.DataFrame
    """quantity, mean, sd, median, lower, upper, kind, level, rhat, ess_bulk, ess_tail, and mcse of the mean."""
    sensitivity: pd.DataFrame | None = None
    """One row per alternative: what was changed, and what the decisive probability becomes."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Further tables by title: labs, rivals, models left out."""
    panels: tuple[Panel, ...] = ()

    @property
    def concluded(self) -> str:
        """The verdict through the gate: inconclusive where a check failed."""
        return self.conclusion.verdict if self.gate.passes else OPEN
