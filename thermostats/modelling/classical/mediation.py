"""How much of an effect goes through a mediator: c − c' = a·b by least squares within groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import LEVEL, Array, ClassicalEstimate, columns_of, labels, numbers


@dataclass(frozen=True, kw_only=True)
class Mediation(ClassicalEstimate):
    """The indirect effect a·b as the estimate, with total and direct effect."""

    total: float
    direct: float
    n_groups: int


def mediation(
    frame: pd.DataFrame, outcome: str, cause: str, mediator: str, others: Sequence[str], *, group: str
) -> Mediation:
    """Indirect effect c − c' = a·b (MacKinnon, Warsi and Dwyer 1995, doi:10.1207/s15327906mbr3001_3).

    c is the slope of the outcome on the cause given `others`, c' the same given the mediator too; every column is
    centred within its group, so that groups have levels of their own. The interval is that of the jackknife over k
    groups, (c − c') ± t_{k−1} se, se² = (k − 1)/k Σ (value without a group − their mean)². It is the effect through the
    mediator only where nothing that was left out moves mediator and outcome both: the cause may be randomised, the
    mediator never is.

    Raises UsageError for missing columns or values, a cause or mediator that is constant within groups or follows from
    the others, fewer than 3 groups, or no residual degree of freedom.
    """
    columns_of(frame, outcome, cause, mediator, group, *others)
    group_of = labels(frame[group], group)
    names = [mediator, cause, *others, outcome]
    values = pd.DataFrame({name: numbers(frame[name], name, least=3) for name in names})
    centred = (values - values.groupby(group_of).transform("mean")).to_numpy()
    groups = np.unique(group_of)
    k = groups.size
    if k < 3:
        raise UsageError("too few groups to leave one out", where=group, got=k, allowed="3 or more")
    rank = np.linalg.matrix_rank(centred[:, :-1])
    if rank - np.linalg.matrix_rank(centred[:, 2:-1]) < 2 or len(frame) - k - rank < 1:
        raise UsageError(
            "the slopes on cause and mediator are not determined",
            where=f"{cause}, {mediator}",
            got=f"{len(frame)} rows, {k} groups, rank {rank}",
            allowed="both vary within groups apart from the other columns, and rows are left over",
        )
    total, direct = _slopes(centred)
    without = np.array([np.subtract(*_slopes(centred[group_of != unit])) for unit in groups])
    estimate, error = total - direct, np.sqrt((k - 1) / k * np.square(without - without.mean()).sum())
    half = float(stats.t.ppf((1 + LEVEL) / 2, k - 1) * error)
    return Mediation(
        test=f"indirect effect of {cause} on {outcome} through {mediator}",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        interval=f"jackknife t interval over {k} groups",
        p_value=float("nan"),
        n=len(frame),
        total=total,
        direct=direct,
        n_groups=k,
    )


def _slopes(centred: Array) -> tuple[float, float]:
    """Total and direct slope on the cause; columns: mediator, cause, others, outcome."""
    total = np.linalg.lstsq(centred[:, 1:-1], centred[:, -1])[0][0]
    return float(total), float(np.linalg.lstsq(centred[:, :-1], centred[:, -1])[0][1])
