"""What the model families return: named quantities, probabilities, numbers, tables, and the checks of their draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.draws import (
    BFMI_LIMIT,
    ESS_LIMIT,
    LEVEL,
    PASSED,
    RHAT_LIMIT,
    SAMPLER,
    Array,
    Draws,
)

Statistic = Callable[[Array], Array]
"""Replicated or observed outcomes, … × rows, to one number each."""
EXTREME = 0.01
"""A posterior predictive p below this or above 1 less this is a failed check."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sampled model of a fit and how to replicate its data."""

    draws: Draws
    observed: Array
    replicate: Callable[[int], Array]
    """Seed to replicated outcomes, draws × rows."""
    statistics: Mapping[str, Statistic]
    """Test quantities of the outcome, chosen for the claim."""


def replicates(model: sampling.Model, data: Mapping[str, Any], draws: Draws, outcome: str) -> Callable[[int], Array]:
    """What `Part.replicate` takes for a model whose outcome is an observed variable of that name."""
    return lambda seed: sampling.posterior_predictive(model, data, draws, seed=seed)[outcome]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One fit of one model family to one table; every interval is equal-tailed at `level`."""

    family: str
    estimand: str
    """Which gain, or which definition of a layer, at which position."""
    sources: tuple[str, ...]
    """Files or measurements that the rows come from."""
    n_models: int
    n_heritages: int
    parts: Mapping[str, Part]
    quantities: Mapping[str, Array]
    """Draws of what is reported, chain × draw × …"""
    probabilities: Mapping[str, float]
    """Posterior probabilities by what they are of."""
    numbers: Mapping[str, float]
    """Other single figures by name."""
    tables: Mapping[str, pd.DataFrame]
    warnings: tuple[str, ...]
    figure: Callable[[Fitted, Axes], Axes]
    seed: int
    level: float = LEVEL
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""

    @property
    def status(self) -> str:
        """`passed`, or `inconclusive: sampler` where the draws of any part fail their gate."""
        return PASSED if all(part.draws.status == PASSED for part in self.parts.values()) else SAMPLER

    def summary(self) -> pd.DataFrame:
        """One row a quantity: mean, sd, median, interval of its kind and level, R-hat and effective sample sizes."""
        table = sampling.summary(self.quantities, level=self.level)
        named = {f"{name}[{i}]": f"{name}[{label}]" for name, own in self.labels.items() for i, label in enumerate(own)}
        return table.assign(quantity=table["quantity"].replace(named), estimand=self.estimand)

    def check(self) -> pd.DataFrame:
        """One row a check: the gate of every part, then its posterior predictive p-values, P(T(y_rep) ≥ T(y))."""
        rows: list[dict[str, object]] = []
        for name, part in self.parts.items():
            rows += [{"part": name, **row} for row in _gate(part.draws)]
            rows += [{"part": name, **row} for row in _predictive(part, self.seed)]
        return pd.DataFrame(rows)

    def plot(self, axes: Axes) -> Axes:
        """Draw the fit's figure onto the axes and return them."""
        return self.figure(self, axes)

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`."""
        if name not in self.tables:
            raise UsageError("no such table in the fit", got=name, allowed=", ".join(self.tables))
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it: missing and infinite numbers are null."""
        return {
            "family": self.family,
            "estimand": self.estimand,
            "sources": list(self.sources),
            "n_models": self.n_models,
            "n_heritages": self.n_heritages,
            "status": self.status,
            "level": self.level,
            "seed": self.seed,
            "versions": dict(next(iter(self.parts.values())).draws.versions),
            "gate": {name: list(part.draws.diagnostics.failures()) for name, part in self.parts.items()},
            "summary": _records(self.summary()),
            "probabilities": {name: _plain(value) for name, value in self.probabilities.items()},
            "numbers": {name: _plain(value) for name, value in self.numbers.items()},
            "tables": {name: _records(table) for name, table in self.tables.items()},
            "warnings": list(self.warnings),
        }


def _gate(draws: Draws) -> list[dict[str, object]]:
    d = draws.diagnostics
    return [
        _row(f"R-hat, {d.rhat_name}", d.rhat_max, f"≤ {RHAT_LIMIT}", d.rhat_max <= RHAT_LIMIT),
        _row(f"bulk ESS, {d.ess_bulk_name}", d.ess_bulk_min, f"≥ {ESS_LIMIT:.0f}", d.ess_bulk_min >= ESS_LIMIT),
        _row(f"tail ESS, {d.ess_tail_name}", d.ess_tail_min, f"≥ {ESS_LIMIT:.0f}", d.ess_tail_min >= ESS_LIMIT),
        _row("divergences", float(d.divergences), "0", d.divergences == 0),
        _row("energy fraction", d.bfmi_min, f"≥ {BFMI_LIMIT}", d.bfmi_min >= BFMI_LIMIT),
    ]


def _predictive(part: Part, seed: int) -> list[dict[str, object]]:
    if not part.statistics:
        return []
    replicated, rows = part.replicate(seed), []
    for name, statistic in part.statistics.items():
        drawn, seen = statistic(replicated), float(statistic(part.observed))
        p = float((drawn > seen).mean() + (drawn == seen).mean() / 2)
        rows.append(_row(f"predictive p, {name}", p, f"{EXTREME} to {1 - EXTREME}", EXTREME <= p <= 1 - EXTREME))
    return rows


def _row(check: str, value: float, limit: str, passed: bool) -> dict[str, object]:
    return {"check": check, "value": value, "limit": limit, "passed": bool(passed)}


def _records(table: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(k): _plain(v) for k, v in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA else value
