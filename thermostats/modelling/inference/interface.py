"""What every fit of every family offers: enough to report it without knowing which family it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from thermostats.modelling.inference.calibration import Calibration
from thermostats.modelling.inference.checks import Gate, Statistic, diagnostics
from thermostats.modelling.inference.draws import Array, Draws, element_names

NO_SOURCE = "the table names no source: what it rests on is not told"
Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""


@dataclass(frozen=True, kw_only=True)
class Replicates:
    """Outcomes as observed and as the fitted model gives them again."""

    observed: Array
    replicated: Array
    """draws × outcomes."""
    statistics: Mapping[str, Statistic]
    """Test quantities of the outcome, chosen for the claim."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One quantity before and after the data."""

    prior: Array
    posterior: Array
    """Both one draw an entry."""


class Fit(Protocol):
    """A fit of a model family to one table; intervals are equal-tailed at `level`."""

    @property
    def family(self) -> str:
        """Name of the model family."""

    @property
    def estimand(self) -> str:
        """Which gain, or which definition of a layer, at which position."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Files or measurements that the rows come from."""

    @property
    def n_models(self) -> int:
        """Models the fit rests on."""

    @property
    def n_heritages(self) -> int:
        """Labs the fit rests on."""

    @property
    def seed(self) -> int:
        """Seed of the draws."""

    @property
    def level(self) -> float:
        """Probability of the intervals."""

    @property
    def equations(self) -> tuple[str, ...]:
        """The model, a line an equation."""

    @property
    def priors(self) -> tuple[Prior, ...]:
        """Every prior with its reason."""

    @property
    def status(self) -> str:
        """`passed`, or why nothing may be concluded."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out or cannot be told apart, in words."""

    @property
    def quantities(self) -> Mapping[str, Array]:
        """Draws of what is reported, chain × draw × …"""

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Posterior probabilities by what they are of."""

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Further results by name."""

    @property
    def sampled(self) -> Mapping[str, Draws]:
        """Draws of every part, with how they were made."""

    def to_arviz(self) -> Mapping[str, Any]:
        """Draws of every part as the installed ArviZ has them: InferenceData before 1.0, DataTree since."""

    def summary(self) -> pd.DataFrame:
        """One row a quantity: mean, sd, median, interval, R-hat, effective sample sizes, estimand, sources."""

    def diagnostics(self) -> pd.DataFrame:
        """One row a part and diagnostic of the sampler: part, diagnostic, worst, limit, quantity, passes."""

    def updates(self, *, seed: int | None = None) -> Mapping[str, Update]:
        """Main quantities before and after the data, by name."""

    def replicates(self, *, seed: int | None = None) -> Mapping[str, Replicates]:
        """Observed and replicated outcomes of every part."""

    def check(self, *, seed: int | None = None) -> Gate:
        """All checks."""

    def calibrate(
        self,
        simulations: int = 200,
        *,
        seed: int | None = None,
        cache: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Calibration:
        """Simulation-based calibration: one refit a simulation."""

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the fit's figure onto the axes, or onto those of a new figure, and return them."""

    def table(self, name: str) -> pd.DataFrame:
        """One of `tables`."""

    def to_dict(self) -> dict[str, Any]:
        """Everything but the draws, as JSON takes it."""


Updates = Callable[[int], Mapping[str, Update]]


def sampler_table(parts: Mapping[str, Draws]) -> pd.DataFrame:
    """The sampler's diagnostics of every part: part, diagnostic, worst, limit, quantity, passes."""
    tables = []
    for name, draws in parts.items():
        table = diagnostics(draws).table
        at_most = table["diagnostic"].isin(["R-hat", "divergences"])
        passes = np.where(at_most, table["worst"] <= table["limit"], table["worst"] >= table["limit"])
        tables.append(table.assign(part=name, passes=passes))
    columns = ["part", "diagnostic", "worst", "limit", "quantity", "passes"]
    return pd.concat(tables, ignore_index=True)[columns]


def updates_of(prior: Mapping[str, Array], posterior: Mapping[str, NDArray[Any]]) -> dict[str, Update]:
    """Element by element: `prior` draws × …, `posterior` chain × draw × …, the quantities that both have."""
    found = {}
    for name, before in prior.items():
        if name not in posterior:
            continue
        columns = posterior[name].reshape(-1, *posterior[name].shape[2:])
        shape = columns.shape[1:]
        flat_before, flat_after = before.reshape(len(before), -1), columns.reshape(len(columns), -1)
        for i, element in enumerate(element_names(name, shape)):
            found[element] = Update(prior=flat_before[:, i], posterior=flat_after[:, i])
    return found


def new_axes() -> Axes:
    """Axes of a figure that no window shows."""
    return Figure(layout="constrained").subplots()


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """Rows of a table as JSON takes them."""
    return [{str(k): plain(v) for k, v in row.items()} for row in table.to_dict("records")]


def plain(value: Any) -> Any:
    """A number as JSON takes it: missing and infinite become null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA else value
