"""Gaussian models with a constant that is not linear, one for each of its values: exact draws of both.

p(value | y) ∝ p(value) p(y | value), the evidence of the exact engine; the rest is drawn given the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from thermostats.modelling.draws import EXACT, Array, Draws, Settings, in_chains, of_weights
from thermostats.modelling.gaussian import Gaussian

OF_NODE = Settings(draws=500)
MATTERS = 0.01
"""Posterior probability of a value from which on its weights are judged."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Models of the same outcomes with equal columns, one a value."""

    nodes: tuple[Gaussian, ...]
    weights: Array
    """Prior probabilities of the values; less than 1 in all where values without posterior mass have no node."""
    seed: int = 0

    @property
    def observed(self) -> Array:
        """The outcomes."""
        return self.nodes[0].y

    @cached_property
    def fits(self) -> tuple[Draws, ...]:
        """Draws of every node."""
        return tuple(node.sample(seed=self.seed + k, settings=OF_NODE) for k, node in enumerate(self.nodes))

    @cached_property
    def log_joint(self) -> Array:
        """Log of prior probability times evidence, value by value."""
        evidence = np.array([fit.log_evidence for fit in self.fits])
        return np.asarray(np.log(self.weights) + evidence)

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return float(logsumexp(self.log_joint))

    @property
    def probability(self) -> Array:
        """Posterior probability of every value."""
        return np.asarray(np.exp(self.log_joint - self.log_evidence))

    def sample(self, *, seed: int, settings: Settings = Settings()) -> Draws:  # noqa: B008 (frozen)
        """Draws of node (the number of the value) and of everything that a node has."""
        rng, size = np.random.default_rng(seed), settings.chains * settings.draws
        node = rng.choice(len(self.nodes), size, p=self.probability)
        flat = [fit.few(fit.size) for fit in self.fits]
        rows = rng.integers(0, self.fits[0].size, size)
        values = {n: np.stack([flat[k][n][row] for k, row in zip(node, rows, strict=True)]) for n in flat[0]}
        judged = [fit for fit, p in zip(self.fits, self.probability, strict=True) if p >= MATTERS]
        effective = min(fit.effective for fit in judged)
        k = max(float(fit.diagnostics.set_index("diagnostic")["worst"]["Pareto k"]) for fit in judged)
        return Draws(
            values=in_chains({**values, "node": node.astype(np.float64)}, settings),
            diagnostics=of_weights(effective, k),
            engine=EXACT,
            settings=settings,
            effective=min(effective, float(size)),
            log_evidence=self.log_evidence,
        )

    def log_likelihood(self, values: Mapping[str, Array]) -> Array:
        """log p(y_i | everything), size × n."""
        return self._by_node(values, lambda node, some: node.log_likelihood(some))

    def log_prior(self, values: Mapping[str, Array]) -> Array:
        """Log prior of draws up to a constant."""
        log_weight = np.log(self.weights / self.weights.sum())[values["node"].astype(np.int64)]
        return np.asarray(log_weight + self._by_node(values, lambda node, some: node.log_prior(some)))

    def replicate(self, values: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """Outcomes of every draw, size × n."""
        return self._by_node(values, lambda node, some: node.replicate(some, rng))

    def from_prior(self, size: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draws of node and everything else but outcomes, which `replicate` draws, from the prior."""
        node = rng.choice(len(self.nodes), size, p=self.weights / self.weights.sum())
        values = self.nodes[0].from_prior(size, rng)
        del values["y"]
        return {**values, "node": node.astype(np.float64)}

    def rows(self, which: NDArray[np.bool_]) -> Mixture:
        """The mixture of some of the outcomes."""
        return replace(self, nodes=tuple(node.rows(which) for node in self.nodes))

    def _by_node(self, values: Mapping[str, Array], compute: Callable[[Gaussian, dict[str, Array]], Array]) -> Array:
        """What the draws of each node give, in the order of the draws."""
        chosen = values["node"].astype(np.int64)
        parts = {
            k: compute(self.nodes[k], {name: v[chosen == k] for name, v in values.items() if name != "node"})
            for k in np.unique(chosen)
        }
        first = next(iter(parts.values()))
        result = np.empty((len(chosen), *first.shape[1:]))
        for k, part in parts.items():
            result[chosen == k] = part
        return result
