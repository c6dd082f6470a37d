"""y = Xβ + b_g + ε, b_g ~ N(0, λσ²), ε ~ N(0, σ²): the likelihood of one random intercept, profiled down to λ.

Given λ, β is least squares of (I − (1 − w_g) 11ᵀ/n_g) y on the same of X, w_g = (1 + λ n_g)^(−1/2), and σ² the sum of
squares S over its degrees of freedom ν (n − p, or n for maximum likelihood). With A the cross-products of those
columns, −2 log L = Σ_g log(1 + λ n_g) + ν (log(2πS/ν) + 1) [+ log|A| for REML]. Its derivative has a closed form, so a
root gives λ to all digits, where a minimum gives half of them. Searle, Casella and McCulloch 1992, Variance Components,
chapter 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from thermostats.modelling.classical.estimates import Array

LEAST, MOST, NODES = 1e-9, 1e9, 181
"""Ratios λ n̄ between which stationary points are looked for, ten in a decade; 0 is tried as well."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The likelihood's highest point."""

    ratio: float
    """Variance of groups over that of the residual; exactly 0 where nothing above 0 is likelier."""
    effects: list[float]
    errors: list[float]
    residual_sd: float
    log_likelihood: float
    beyond: bool
    """The likelihood still grows at the end of the search: groups explain everything, the residual nothing."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The likelihood as a function of λ; n outcomes, p columns, G groups."""

    y: Array
    X: Array
    member: Array
    """1 where an outcome is of a group, n × G."""
    reml: bool

    @classmethod
    def of(cls, y: Array, X: Array, group: NDArray[Any], *, reml: bool) -> Profile:
        """The profile of outcomes, columns and the groups' names."""
        return cls(y=y, X=X, member=(group[:, None] == np.unique(group)).astype(np.float64), reml=reml)

    def maximum(self) -> Best:
        """The likeliest λ of all stationary points, of 0 and of the far end."""
        nodes = np.concatenate([[0.0], np.geomspace(LEAST, MOST, NODES) * self.member.shape[1] / self.y.size])
        slopes = [self.slope(ratio) for ratio in nodes]
        minima = [
            brentq(self.slope, a, b, xtol=1e-300, rtol=1e-15)
            for a, b, left, right in zip(nodes[:-1], nodes[1:], slopes[:-1], slopes[1:], strict=True)
            if left < 0 <= right
        ]
        ratio = min([0.0, *minima, nodes[-1]], key=lambda ratio: self._at(ratio)[0])
        deviance, beta, root, square = self._at(ratio)
        inverse = np.linalg.inv(root)
        return Best(
            ratio=float(ratio),
            effects=beta.tolist(),
            errors=np.sqrt(square * np.square(inverse).sum(axis=1)).tolist(),
            residual_sd=math.sqrt(square),
            log_likelihood=-deviance / 2,
            beyond=bool(ratio == nodes[-1]),
        )

    def slope(self, ratio: float) -> float:
        """Derivative of −2 log L by λ.

        Σ_g n_g v_g − ν Σ_g (v_g Σ_{i∈g} r_i)²/S [− Σ_g |R^{-T} v_g Σ_{i∈g} X_i|²], v_g = 1/(1 + λ n_g), r = y − Xβ,
        RᵀR = A.
        """
        _, beta, root, square = self._at(ratio)
        size = self.member.sum(axis=0)
        shrunk = 1 / (1 + ratio * size)
        of_residuals = np.square(shrunk * (self.member.T @ (self.y - self.X @ beta))).sum() / square
        grown = size @ shrunk - of_residuals
        if self.reml:
            grown -= np.square(np.linalg.solve(root.T, (shrunk[:, None] * (self.member.T @ self.X)).T)).sum()
        return float(grown)

    def _at(self, ratio: float) -> tuple[float, Array, Array, float]:
        """−2 log L, β, the root R of the cross-products, and σ²."""
        size = self.member.sum(axis=0)
        away = (1 - 1 / np.sqrt(1 + ratio * size)) / size
        both = np.column_stack([self.X, self.y])
        both = both - self.member @ (away[:, None] * (self.member.T @ both))
        n, p = self.X.shape
        root = np.asarray(np.linalg.qr(both, mode="r"))
        freedom = n - p if self.reml else n
        square = max(float(root[p, p] ** 2) / freedom, np.finfo(np.float64).tiny)
        deviance = np.log1p(ratio * size).sum() + freedom * (math.log(2 * math.pi * square) + 1)
        if self.reml:
            deviance += 2 * np.log(np.abs(np.diag(root)[:p])).sum()
        return float(deviance), np.linalg.solve(root[:p, :p], root[:p, p]), root[:p, :p], square
