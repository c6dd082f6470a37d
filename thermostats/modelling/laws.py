"""What a fit is of: a law, rows as its model, and the call that made it.

A `Law` says how rows become a `Design` and what is reported of its draws; `fit.Fit` is one fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
from matplotlib.axes import Axes

from thermostats.modelling.draws import Array
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.mixture import Mixture
from thermostats.modelling.predictions import AS_GIVEN, OutcomeScale
from thermostats.modelling.residuals import Regressors
from thermostats.modelling.sampling import Sampled
from thermostats.modelling.statements import LOCATION, Statement, Statistic

if TYPE_CHECKING:
    from thermostats.modelling.fit import Fit

Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""
WIDER = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
"""Alternatives to a law: factors of all its prior scales."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function that fits and its arguments, the table among them."""

    module: str
    function: str
    arguments: Mapping[str, Any]
    standard: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that it does not name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Rows as the model of a law, and what quantities, tables and predictions read besides the draws.

    A law whose levels and units are those of its rows has a record of its own, which keeps them.
    """

    model: Gaussian | Mixture | Sampled
    outcomes: tuple[object, ...] = ()
    """Names of the outcomes."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""
    by_row: bool = True
    """Whether every row is one outcome."""
    scale: OutcomeScale = AS_GIVEN
    """That of the outcomes."""
    groups: tuple[str, ...] = ()
    """Columns of the rows whose values have levels of their own."""
    covariates: tuple[str, ...] = ()
    """Columns of numbers that the law reads."""
    regressors: Regressors | None = None
    """What residuals are looked at against."""

    @property
    def declared(self) -> Mapping[str, Any]:
        """What a file must say for the law to be made again, where no call of ours says it."""
        return {}

    def of_new(self, rows: pd.DataFrame) -> Design:
        """Other rows in the units of these, levels that these do not have last."""
        raise NotImplementedError


D = TypeVar("D", bound=Design)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A family of models: all that its fits, their checks and their pages are made of."""

    name: str
    of: Callable[[pd.DataFrame], Design]
    """The design of rows."""
    quantities: Callable[[Mapping[str, Array], Any], dict[str, Array]]
    """Draws (chain × draw × …) to what is reported, or statements may read."""
    reported: tuple[str, ...] = ()
    """Quantities that the summary shows; all by default."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    statistics: Callable[[Any], Mapping[str, Statistic]] = lambda design: LOCATION
    """Test quantities of the outcomes, which bear on the claim; the gate closes on them."""
    equations: tuple[str, ...] = ()
    priors: tuple[Prior, ...] = ()
    tables: Mapping[str, Callable[[Fit], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Fit, Axes], object]] = field(default_factory=dict)
    """The first is what `plot()` draws."""
    alternatives: Mapping[str, Law] = field(default_factory=dict)
    """Other priors, and models without what a reader may doubt."""
    units: tuple[str, ...] = ("heritage", "model_id")
    """Columns of the rows whose values are left out one by one."""
