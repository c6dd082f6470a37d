"""Predictions of folds from all others by exact refits, and rival explanations compared by them and by evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling.inference.draws import Array, equal_tailed
from thermostats.modelling.inference.quadrature import Lines, log_evidence, posterior, predict
from thermostats.modelling.inference.sums import logsumexp

MOST_FOLDS, FEWER = 100, 20


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Every row predicted from the folds it is not in."""

    draws: Array
    """Predictive draws, draws × rows, in the order of the rows."""
    pit: Array
    """Share of the predictive draws below each observation: uniform where the model is right."""

    def interval(self, level: float | None = None) -> tuple[Array, Array]:
        """Equal-tailed predictive interval of every row."""
        return equal_tailed(self.draws, level)


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A Gaussian model, or several of them (one for each value of a constant that is not linear) with prior weights."""

    nodes: tuple[Lines, ...]
    log_weights: Array


def model_folds(n: int, said: list[str]) -> list[str]:
    """Every model a fold of its own; of more than `MOST_FOLDS` models every `FEWER`-th together, which is said."""
    return few_folds([str(i) for i in range(n)], "models", said)


def few_folds(names: Sequence[str], what: str, said: list[str] | None = None) -> list[str]:
    """A fold for every name; of more than `MOST_FOLDS` names every `FEWER`-th together, which is said."""
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    if len(number) <= MOST_FOLDS:
        return list(names)
    if said is not None:
        said.append(f"{len(number)} {what}: left out in {FEWER} groups, not one by one")
    return [f"group {number[name] % FEWER + 1} of {FEWER}" for name in names]


def held_out(lines: Lines, folds: Sequence[str], *, seed: int, draws: int = 4000, exact: bool = False) -> HeldOut:
    """Predict every fold from all others by exact refits; a fold that holds a whole group is predicted as a new group.

    `exact`: what is predicted is without errors of measurement.
    Raises UsageError for fewer than 2 folds.
    """
    names = tuple(dict.fromkeys(folds))
    if len(names) < 2:
        raise UsageError("nothing to leave out", got=f"{len(names)} fold", allowed="at least 2")
    fold_of = np.array([names.index(fold) for fold in folds])
    predicted = np.empty((draws, lines.y.size))
    for k in range(len(names)):
        out = fold_of == k
        found = posterior(lines.rows(~out), seed=seed + k, draws=draws)
        seen = np.isin(lines.groups, lines.groups[~out])
        asked = replace(lines, groups=np.where(seen, lines.groups, -1)).rows(out)
        if exact:
            asked = replace(asked, error=np.zeros(asked.y.size))
        predicted[:, out] = predict(found, asked, seed=seed + 1000 + k)
    pit = (predicted < lines.y).mean(axis=0)
    return HeldOut(draws=predicted, pit=pit)


def rival(lines: Lines) -> Rival:
    """A rival that is one linear model."""
    return Rival(nodes=(lines,), log_weights=np.zeros(1))


def mixture(nodes: Sequence[Lines], weights: Array) -> Rival:
    """A rival with a constant on a grid, `weights` its prior."""
    return Rival(nodes=tuple(nodes), log_weights=np.log(weights / weights.sum()))


def node_evidence(candidate: Rival, rows: np.ndarray | None = None) -> Array:
    """log p(y | node) of every node, of some rows or of all."""
    return np.array([log_evidence(n if rows is None else n.rows(rows)) for n in candidate.nodes])


def compare(rivals: Mapping[str, Rival], folds: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """One row per rival, best evidence first.

    `log_evidence` and `probability` (equal prior odds); for every way f to fold the rows: `elpd_<f>`, the sum over
    folds of the log density of the fold given all others, by exact refits; `difference_<f>` to the rival best by f and
    `se_<f>`, the standard error of that difference over folds, √(K var_k).

    Raises UsageError where a way to fold has fewer than 2 folds.
    """

    def evidence(candidate: Rival, rows: np.ndarray | None = None) -> float:
        return float(logsumexp(candidate.log_weights + node_evidence(candidate, rows)))

    whole = {name: evidence(candidate) for name, candidate in rivals.items()}
    table = pd.DataFrame({"rival": list(whole), "log_evidence": list(whole.values())})
    table["probability"] = np.exp(table["log_evidence"] - logsumexp(table["log_evidence"]))
    for way, labels in folds.items():
        fold_of, names = np.asarray(labels), list(dict.fromkeys(labels))
        if len(names) < 2:
            raise UsageError("nothing to leave out", where=way, got=f"{len(names)} fold", allowed="at least 2")
        by_fold = np.array(
            [[whole[name] - evidence(r, fold_of != fold) for fold in names] for name, r in rivals.items()]
        )
        gaps = by_fold - by_fold[by_fold.sum(axis=1).argmax()]
        table[f"elpd_{way}"] = by_fold.sum(axis=1)
        table[f"difference_{way}"] = gaps.sum(axis=1)
        table[f"se_{way}"] = np.sqrt(len(names) * gaps.var(axis=1, ddof=1))
    return table.sort_values("log_evidence", ascending=False, ignore_index=True)
