"""What becomes of a statement about a fit under other priors and without each unit: its own probability, every time.

A statement is a function of the fit's quantities by name, draw by draw, so that a refit answers the same question as
the fit; or truth values of the fit's own draws, which other priors can weigh and no refit can answer.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.modelling.inference import sampling
from thermostats.modelling.inference.draws import PARETO_LIMIT, Array

Quantities = Mapping[str, Array]
Statement = Callable[[Quantities], Any] | NDArray[Any]
AS_FITTED = "as fitted"


class _Read(UserDict[str, Array]):
    """Quantities that keep which of them were asked for."""

    def __init__(self, quantities: Quantities) -> None:
        self.data, self.names = quantities, dict[str, None]()  # type: ignore[assignment] # read alone

    def __getitem__(self, name: str) -> Array:
        self.names[name] = None
        return self.data[name]


def truth_of(statement: Statement, quantities: Quantities) -> NDArray[np.bool_]:
    """Whether it holds, chain × draw."""
    return np.asarray(statement if isinstance(statement, np.ndarray) else statement(quantities), dtype=bool)


def read_by(statements: Mapping[str, Statement], quantities: Quantities) -> dict[str, Array]:
    """Quantities that statements read; of one that is truth values these."""
    found: dict[str, Array] = {}
    for name, statement in statements.items():
        if isinstance(statement, np.ndarray):
            found[name] = statement.astype(np.float64)
        else:
            read = _Read(quantities)
            statement(read)
            found |= {own: quantities[own] for own in read.names}
    return found


def sensitivity(
    statements: Mapping[str, Statement],
    quantities: Quantities,
    refits: Iterable[tuple[str, Quantities]],
    log_ratios: Mapping[str, Array],
) -> pd.DataFrame:
    """One row per statement and alternative, the fit itself first: statement, alternative, probability, pareto_k.

    refits: quantities under other priors, by what was changed. log_ratios: log(other/this joint density) of every draw,
    of alternatives by importance weights: no probability where Pareto k is above 0.7.
    """
    weights = {name: sampling.pareto_smooth(ratio.ravel()) for name, ratio in log_ratios.items()}
    rows: list[tuple[str, str, float, float]] = []
    for name, statement in statements.items():
        truth = truth_of(statement, quantities)
        rows.append((name, AS_FITTED, float(truth.mean()), np.nan))
        rows += [(name, other, p, np.nan) for other, p in _again(statement, refits)]
        for other, (log_weight, k) in weights.items():
            if log_weight.size == truth.size:
                p = float(np.exp(log_weight) @ truth.ravel()) if k <= PARETO_LIMIT else np.nan
                rows.append((name, other, p, float(k)))
    return pd.DataFrame(rows, columns=["statement", "alternative", "probability", "pareto_k"])


def influence(
    statements: Mapping[str, Statement], quantities: Quantities, refits: Iterable[tuple[str, Quantities]]
) -> pd.DataFrame:
    """One row per statement and unit left out, none of them first: statement, left_out, probability.

    A unit without which the statement cannot be asked is passed over.
    """
    rows: list[tuple[str, str, float]] = []
    for name, statement in statements.items():
        rows.append((name, "nothing", float(truth_of(statement, quantities).mean())))
        rows += [(name, unit, p) for unit, p in _again(statement, refits)]
    return pd.DataFrame(rows, columns=["statement", "left_out", "probability"])


def _again(statement: Statement, refits: Iterable[tuple[str, Quantities]]) -> Iterator[tuple[str, float]]:
    """The probability of a statement in every refit that can be asked it."""
    if isinstance(statement, np.ndarray):
        return
    for name, quantities in refits:
        try:
            yield name, float(np.mean(statement(quantities)))
        except KeyError:
            continue
