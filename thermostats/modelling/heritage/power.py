"""What a planned study could show, for the command line: progress, a table and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from scipy import stats

from thermostats.modelling.heritage import simulate

LEVEL = 0.95
"""Of the intervals for the rates."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Power of a planned study with the uncertainty of its simulation."""

    power: simulate.Power
    geometry: str
    seed: int

    def rows(self) -> list[dict[str, Any]]:
        """One row per statement: percent of simulated studies with P above the threshold.

        `error`: its standard error over drawn geometries; lower, upper: Clopper–Pearson limits.
        """
        return [
            {"statement": statement, "P above": self.power.threshold, "percent": 100 * rate}
            | {"error": 100 * self.power.errors[statement]}
            | dict(zip(("lower", "upper"), _limits(rate, self.power.simulations), strict=True))
            | {"simulations": self.power.simulations}
            for statement, rate in self.power.rates.items()
        ]

    def sentence(self) -> str:
        """The rates in plain words."""
        done, shares = self.power, ", ".join(f"{name} {share:g}" for name, share in self.power.shares.items())
        order = done.rates["heritage > geometry > scale"]
        first = done.rates["heritage > geometry"]
        return (
            f"If the shares of variance were {shares}, a study of {done.n_models} models in {done.n_labs} labs "
            f"would show heritage above geometry in {100 * first:.0f} % of cases and the whole order in "
            f"{100 * order:.0f} % (posterior probability above {done.threshold:g}; {done.simulations} simulations)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers and words."""
        done = self.power
        return {
            "n_models": done.n_models,
            "n_labs": done.n_labs,
            "shares": dict(done.shares),
            "geometry": self.geometry,
            "simulations": done.simulations,
            "seed": self.seed,
            "threshold": done.threshold,
            "level": LEVEL,
            "rates": self.rows(),
            "sentence": self.sentence(),
        }


def planned(
    n_models: int, n_labs: int, shares: Mapping[str, float], *, geometry: str, simulations: int, seed: int
) -> Plan:
    """Simulate; a bar on standard error where that is a terminal.

    Raises UsageError as `simulate.power` does.
    """
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("simulating studies")
        found = simulate.power(
            n_models,
            n_labs,
            shares,
            geometry=geometry,
            simulations=simulations,
            seed=seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    return Plan(power=found, geometry=geometry, seed=seed)


def _limits(rate: float, size: int) -> tuple[float, float]:
    """Limits of a rate in percent, Clopper and Pearson 1934."""
    interval = stats.binomtest(round(rate * size), size).proportion_ci(LEVEL)
    return 100 * float(interval.low), 100 * float(interval.high)
