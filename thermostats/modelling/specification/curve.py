"""The curve of all universes, which choice moves it, and whether it lies where chance would put it.

Simonsohn, Simmons and Nelson 2020, doi:10.1038/s41562-020-0912-z.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thermostats.errors import UsageError
from thermostats.formatting import listed, number, plural
from thermostats.modelling.specification.estimators import Estimator
from thermostats.modelling.specification.null import Array, Null, Rearranged
from thermostats.modelling.specification.universes import OUTCOME, Choices, universes
from thermostats.plots.general import house_style
from thermostats.plots.specification import specification

RESAMPLES = 999
Judge = Callable[[pd.DataFrame], Mapping[str, Any]]
"""Further columns of a universe, such as its interval and its verdict."""


@dataclass(frozen=True, kw_only=True)
class SpecificationCurve:
    """Estimates of all universes; `p` and `smallest_p` are None where nothing was rearranged."""

    table: pd.DataFrame
    """A row per universe by its estimate: a column for each choice, estimate, n_rows, what the judge adds.

    Of rearrangements: p (one-sided), null_lower and null_upper (central 95% of the estimates at this place)."""
    choices: tuple[str, ...]
    moves: pd.DataFrame
    """See `moved_by`."""
    failed: pd.DataFrame
    """Universes without an estimate: columns of choices, and why."""
    median: float
    above: bool
    """Whether the statement is that the estimate is large."""
    null: str = ""
    """What was rearranged, in words."""
    p: float | None = None
    """One-sided: share of rearrangements whose median over universes is at least as far on the statement's side."""
    smallest_p: float | None = None
    """That of the most extreme rearrangement: no data could have given less."""
    resamples: int = 0
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options by choice, in the order in which they were declared."""

    @property
    def verdicts(self) -> str:
        """Share of universes by verdict, in words; empty where nothing judged them."""
        if "verdict" not in self.table:
            return ""
        shares = self.table["verdict"].value_counts(normalize=True)
        return listed([f"“{verdict}” in {share:.0%}" for verdict, share in shares.items()])

    @property
    def summary(self) -> str:
        """Verdicts, the choice that moves the estimate most, and the joint p, in one line."""
        first = self.moves.iloc[0]
        words = [f"{plural(len(self.table), 'universe')}: {self.verdicts}" if self.verdicts else ""]
        words.append(f"most is moved by {first['choice']} ({first['alone']:.0%} of the variance)")
        words.append(f"joint p {number(self.p, 2)}" if self.p is not None else "")
        return "; ".join(filter(None, words))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the curve with its choices below, onto the axes or onto those of a new figure, and return them."""
        with house_style():
            axes = axes if axes is not None else Figure().add_subplot()
            moves = dict(zip(self.moves["choice"], self.moves["alone"], strict=True))
            return specification(self.table, axes, labels=self.labels, moves=moves)


def specification_curve(
    rows: pd.DataFrame,
    choices: Choices,
    estimate: Estimator,
    *,
    null: Null | None = None,
    above: bool = True,
    judge: Judge | None = None,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> SpecificationCurve:
    """The estimate in every universe, and the median of all against `resamples` rearrangements under the null.

    choices: see `universes`. estimate: a closed form of `estimators`, or `of_each` of any function. above: the
    statement is that the estimate is large, else that it is small. p = (b + 1)/(resamples + 1), the same rearrangement
    of models in every universe. Raises UsageError as `universes` does, and where no universe has an estimate.
    """
    rearranged = Rearranged(rows, null, resamples, seed) if null is not None else None
    names, records, failed, draws = list(choices), [], [], []
    for labels, universe in universes(rows, choices):
        at = dict(zip(names, labels, strict=True))
        try:
            statistic = estimate(universe)
            value = float(statistic(universe[OUTCOME].to_numpy(np.float64)[None])[0])
            if not np.isfinite(value):
                raise UsageError("no finite estimate", got=value, allowed="a number")
            judged = judge(universe) if judge else {}
        except UsageError as error:
            failed.append({**at, "why": error.what})
            continue
        records.append({**at, "estimate": value, "n_rows": len(universe), **judged})
        if rearranged is not None:
            draws.append(statistic(rearranged.outcomes(universe)))
    if not records:
        why = failed[0]["why"] if failed else "no choices"
        raise UsageError("no universe has an estimate", got=why, allowed="rows that carry the estimate")
    table = pd.DataFrame(records)
    joint = _joint(table["estimate"].to_numpy(), np.array(draws), above) if draws else {}
    table = table.assign(**joint.pop("columns", {})).sort_values("estimate", kind="stable", ignore_index=True)
    table = table.assign(**joint.pop("places", {}))
    return SpecificationCurve(
        table=table,
        choices=tuple(names),
        moves=moved_by(table, names),
        failed=pd.DataFrame(failed, columns=[*names, "why"]),
        median=float(table["estimate"].median()),
        above=above,
        null=null.words if null is not None else "",
        labels={name: tuple(options) for name, options in choices.items()},
        **joint,
    )


def _joint(estimates: Array, draws: Array, above: bool) -> dict[str, Any]:
    """p of every universe and of the median of all, and where rearrangements put the curve; draws: universes × m."""
    m, side = draws.shape[1], 1.0 if above else -1.0
    medians, median = side * np.nanmedian(draws, axis=0), side * float(np.median(estimates))
    beyond = (side * draws >= side * estimates[:, None] - 1e-12).sum(axis=1)
    lower, upper = np.nanquantile(np.sort(draws, axis=0), [0.025, 0.975], axis=1)
    highest = max(float(medians.max()), median)
    ties = (medians >= highest - 1e-12).sum() + (median >= highest - 1e-12)
    return {
        "columns": {"p": (beyond + 1) / (m + 1)},
        "places": {"null_lower": lower, "null_upper": upper},
        "p": float((medians >= median - 1e-12).sum() + 1) / (m + 1),
        "smallest_p": float(ties / (m + 1)),
        "resamples": m,
    }


def moved_by(table: pd.DataFrame, choices: Sequence[str], value: str = "estimate") -> pd.DataFrame:
    """Which choice moves a value how much: choice, alone, together, lowest, lowest_mean, highest, highest_mean.

    alone: V(E[value | choice])/V(value), what the choice explains by itself; together: 1 − V(E[value | all other
    choices])/V(value), with its interplay with others (Sobol indices; Saltelli and others 2010,
    doi:10.1016/j.cpc.2009.09.018). lowest and highest: the options with the smallest and largest mean.
    """
    total, records = float(table[value].var(ddof=0)), []
    for choice in choices:
        means = table.groupby(choice, sort=False)[value].mean()
        others = [name for name in choices if name != choice]
        rest = table.groupby(others)[value].transform("mean") if others else pd.Series(0.0, index=table.index)
        alone = float(table[choice].map(means).var(ddof=0)) / total if total > 0 else 0.0
        together = 1 - float(rest.var(ddof=0)) / total if total > 0 else 0.0
        ends = {"lowest": means.idxmin(), "lowest_mean": means.min(), "highest": means.idxmax()}
        records.append({"choice": choice, "alone": alone, "together": together, **ends, "highest_mean": means.max()})
    return pd.DataFrame(records).sort_values("alone", ascending=False, kind="stable", ignore_index=True)
