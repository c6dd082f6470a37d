"""Rival explanations of the same outcomes, compared by evidence and by how they predict models and labs left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array, Draws, Settings
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.leave_out import held_out

SETTINGS = Settings(draws=1000)


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A Gaussian model, or several (one for each value of a constant that is not linear) with prior weights."""

    nodes: tuple[Gaussian, ...]
    draws: tuple[Draws, ...]
    log_prior: Array
    """Log of the prior weights of the nodes."""

    @classmethod
    def of(cls, *nodes: Gaussian, weights: Sequence[float] | Array = (1.0,), seed: int) -> Rival:
        """Nodes with their prior weights, each fitted."""
        share = np.asarray(weights, dtype=np.float64)
        draws = tuple(node.sample(seed=seed + k, settings=SETTINGS) for k, node in enumerate(nodes))
        return cls(nodes=nodes, draws=draws, log_prior=np.log(share / share.sum()))

    @property
    def log_joint(self) -> Array:
        """Log of prior weight times evidence, node by node."""
        return np.asarray(self.log_prior + [draws.log_evidence for draws in self.draws])

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        return float(logsumexp(self.log_joint))

    def predictive(self, folds: Sequence[str], seed: int) -> dict[str, float]:
        """log p(y_fold | y_rest) of every fold: p(y_rest | node) = p(y | node) / p(y_fold | y_rest, node)."""
        by_node = [held_out(n, d, folds, seed=seed).log_density for n, d in zip(self.nodes, self.draws, strict=True)]
        density = {fold: np.array([node[fold] for node in by_node]) for fold in by_node[0]}
        return {fold: self.log_evidence - float(logsumexp(self.log_joint - p)) for fold, p in density.items()}


def compare(rivals: Mapping[str, Rival], folds: Mapping[str, Sequence[str]], *, seed: int) -> pd.DataFrame:
    """One row per rival, best evidence first.

    `log_evidence` and `probability` (equal prior odds); for every way f to fold the rows: `elpd_<f>`, the sum over
    folds of the log density of the fold given all others; `difference_<f>` to the rival best by f and `se_<f>`, the
    standard error of that difference over folds, √(K var_k).

    Raises UsageError where a way to fold has fewer than 2 folds.
    """
    evidence = {name: rival.log_evidence for name, rival in rivals.items()}
    table = pd.DataFrame({"rival": list(evidence), "log_evidence": list(evidence.values())})
    table["probability"] = np.exp(table["log_evidence"] - logsumexp(table["log_evidence"]))
    for way, names in folds.items():
        if len(set(names)) < 2:
            raise UsageError("nothing to leave out", where=way, got=f"{len(set(names))} fold", allowed="at least 2")
        by_fold = np.array([list(rival.predictive(names, seed).values()) for rival in rivals.values()])
        gaps = by_fold - by_fold[by_fold.sum(axis=1).argmax()]
        table[f"elpd_{way}"] = by_fold.sum(axis=1)
        table[f"difference_{way}"] = gaps.sum(axis=1)
        table[f"se_{way}"] = np.sqrt(by_fold.shape[1] * gaps.var(axis=1, ddof=1))
    return table.sort_values("log_evidence", ascending=False, ignore_index=True)
