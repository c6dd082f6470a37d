"""What every fit of every family offers: enough to report it without knowing which family it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.inference.calibration import Calibration
from thermostats.modelling.inference.checks import Gate
from thermostats.modelling.inference.draws import Array, Draws
from thermostats.modelling.inference.fitted import Prior, Replicates, Update


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
    def titles(self) -> Mapping[str, str]:
        """Titles of tables whose names say too little on a page."""

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
