"""Priors of one positive number, of families that a factor leaves as they are: drawn, scored, in
words and in PyMC."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
LARGEST = 300.0
"""Log of the largest number whose square double precision holds; a larger one has that density."""
HALF_NORMAL = "half-normal"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of positive distributions."""

    scipy: str
    """Its name in scipy.stats."""
    words: Callable[[float, tuple[float, ...]], str]
    """In words, of scale and shapes."""
    declare: Callable[[Any, str, Any, tuple[float, ...]], Any]
    """As a variable of PyMC: module, name, scale, shapes."""


FAMILIES: Mapping[str, Family] = {
    HALF_NORMAL: Family(
        scipy="halfnorm",
        words=lambda scale, shapes: f"half-normal({scale:.3g})",
        declare=lambda pm, name, scale, shapes: pm.HalfNormal(name, scale),
    ),
    "half-Cauchy": Family(
        scipy="halfcauchy",
        words=lambda scale, shapes: f"half-Cauchy({scale:.3g})",
        declare=lambda pm, name, scale, shapes: pm.HalfCauchy(name, scale),
    ),
    "exponential": Family(
        scipy="expon",
        words=lambda scale, shapes: f"exponential(rate {1 / scale:.3g})",
        declare=lambda pm, name, scale, shapes: pm.Exponential(name, scale=scale),
    ),
    "Gamma": Family(
        scipy="gamma",
        words=lambda scale, shapes: f"Gamma({shapes[0]:.3g}, rate {1 / scale:.3g})",
        declare=lambda pm, name, scale, shapes: pm.Gamma(name, shapes[0], 1 / scale),
    ),
    "log-normal": Family(
        scipy="lognorm",
        words=lambda scale, shapes: f"log-normal(log {scale:.3g}, {shapes[0]:.3g}²)",
        declare=lambda pm, name, scale, shapes: pm.LogNormal(name, pm.math.log(scale), shapes[0]),
    ),
}
"""By their names in words."""


@dataclass(frozen=True, kw_only=True)
class PositivePrior:
    """A prior of a positive number."""

    scale: float
    family: str = HALF_NORMAL
    shapes: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        """As priors are printed."""
        return FAMILIES[self.family].words(self.scale, self.shapes)

    def rescale(self, factor: float) -> PositivePrior:
        """The prior of so many times the number."""
        return replace(self, scale=factor * self.scale)

    @property
    def frozen(self) -> Any:
        """As scipy has it."""
        return getattr(stats, FAMILIES[self.family].scipy)(*self.shapes, scale=self.scale)

    @property
    def log_constant(self) -> float:
        """What `log_kernel` lacks of the log density."""
        if self.family == HALF_NORMAL:
            return 0.5 * math.log(2 / math.pi) - math.log(self.scale)
        return 0.0

    def log_kernel(self, log_square: Array) -> Array:
        """Log density up to a constant, of the log of the number's square."""
        log_square = np.minimum(log_square, 2 * LARGEST)
        if self.family == HALF_NORMAL:
            return np.asarray(-0.5 * np.exp(log_square) / self.scale**2)
        return np.asarray(self.frozen.logpdf(np.exp(log_square / 2)))

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws."""
        if self.family == HALF_NORMAL:
            return np.abs(rng.normal(0.0, self.scale, size))
        return np.asarray(self.frozen.rvs(size, random_state=rng))

    def declare(self, pm: Any, name: str, scale: Any) -> Any:
        """A variable of PyMC whose scale is data."""
        return FAMILIES[self.family].declare(pm, name, scale, self.shapes)
