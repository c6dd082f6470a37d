"""Statements about the quantities of a fit, and statistics of its outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.modelling.draws import Array

Statistic = Callable[[Array], Array]
"""One number from every data set, … × n to …"""
Quantities = Mapping[str, Array]
Statement = Callable[[Quantities], Any] | NDArray[np.bool_]
"""Truth of a statement draw by draw, from the quantities of a fit by name; or truth values of a fit's own draws, which
powers of the prior can weigh and no refit can answer."""
LOCATION: Mapping[str, Statistic] = {"mean": lambda y: y.mean(axis=-1), "spread": lambda y: y.std(axis=-1)}


def truth_of(statement: Statement, quantities: Quantities) -> NDArray[np.bool_]:
    """Whether it holds, chain × draw."""
    return np.asarray(statement if isinstance(statement, np.ndarray) else statement(quantities), dtype=bool)
