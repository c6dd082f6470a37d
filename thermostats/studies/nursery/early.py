"""Gains early in training against those at its end, among models of one shape: tests, rule and worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Decide, EveryRow, Given, V
from thermostats.claims.worlds import Worlds, worlds_of_line
from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.studies.delia2026.gains import LEVEL
from thermostats.studies.nursery.rows import half_width

R, RARE = V("within-cell rank correlation"), V("models on the rarer side")
KAPPA, BY_RECIPE = "agreement beyond chance (κ)", "95% jackknife t interval over recipes"
HALF, RARER = 0.71, 10
"""Least correlation of interest, half of the variance of the ranks. With fewer models on the rarer side signs say
nothing."""
NEARLY_ONE, LEAST_GROUPS = 1 - 1e-12, 2
"""The largest correlation that has a finite z, and the fewest groups that say how it varies."""
FIXED = 0.9
"""Correlation with the end that is called fixed; the null is 0, what chance keeps."""
CORPORA = "corpora"
SETTLES = Given(RARE >= RARER, EveryRow(Decide(R.lower > HALF, R.upper < HALF), CORPORA))
"""In every corpus by itself: correlations of corpora that differ have no mean that is anyone's."""


def at_end(cells: int, models: int) -> Worlds:
    """Gains at the end that go with the early ones at r = 0.9 inside cells, or not at all, alike in recipes.

    Over all rows less is needed than inside cells, in which 1 − cells/models of the errors' variance lies. Errors are
    normal: others have another rank correlation.
    """
    free = 1 - cells / models
    over_all = (FIXED**2 * free / (1 - FIXED**2 * (1 - free))) ** 0.5
    return worlds_of_line("end", "ranked", over_all, kinds=("normal",), ordered=False, group="recipe", mean=True)


def within_cells(x: pd.Series, y: pd.Series, cells: pd.Series, groups: pd.Series) -> Estimate:
    """Spearman correlation of two columns inside cells, ranks over all rows off their cell's mean; rows of one group
    are not independent: a 95% jackknife t interval over groups, of Fisher's z, and the two-sided p of the same t.

    Raises UsageError where nothing varies inside cells.
    """
    cell, group = pd.factorize(cells)[0], pd.factorize(groups)[0]
    a, b = (ranked_in(values, cells) for values in (x, y))
    size = np.maximum(_without(np.ones(len(a)), group, cell), 1)
    a1, b1 = _without(a, group, cell), _without(b, group, cell)
    pairs = ((a, a, a1, a1), (b, b, b1, b1), (a, b, a1, b1))
    aa, bb, ab = ((_without(u * v, group, cell) - u1 * v1 / size).sum(axis=1) for u, v, u1, v1 in pairs)
    if len(size) <= LEAST_GROUPS or not (aa[0] > 0 and bb[0] > 0):
        raise UsageError("nothing to correlate inside cells", got=f"{len(a)} rows, {len(size) - 1} groups")
    z = np.arctanh(np.clip(ab / np.sqrt(aa * bb), -NEARLY_ONE, NEARLY_ONE))
    half, df = float(half_width(z[1:])), len(z) - 2
    p = float(2 * stats.t.sf(abs(z[0]) / max(half / stats.t.ppf((1 + LEVEL) / 2, df), 1e-300), df))
    r, lower, upper = np.tanh(z[0] + half * np.array([0, -1, 1])).tolist()
    return Estimate(r, lower, upper, BY_RECIPE, p)


def _without(values: Array, group: npt.NDArray[np.int64], cell: npt.NDArray[np.int64]) -> Array:
    """Sums by cell (columns) of all rows, then of all without each group in turn."""
    size = (int(group.max()) + 1, int(cell.max()) + 1)
    sums = np.bincount(group * size[1] + cell, values, size[0] * size[1]).reshape(size)
    return np.concatenate([sums.sum(axis=0, keepdims=True), sums.sum(axis=0) - sums])


def ranked_in(values: pd.Series, cells: pd.Series) -> Array:
    """Ranks over all rows, off the mean rank of their cell."""
    ranks = pd.Series(stats.rankdata(values), index=cells.index)
    return np.asarray(ranks - ranks.groupby(cells).transform("mean"))


def kappa(first: pd.Series, second: pd.Series, groups: pd.Series) -> Estimate:
    """Cohen's κ of two columns of truth values, with its 95% jackknife t interval over groups; None where undefined."""
    a, b, group = first.to_numpy(bool), second.to_numpy(bool), pd.factorize(groups)[0]
    columns = (np.ones(len(a)), a, b, a == b)
    n, p, q, same = (_without(np.asarray(column, float), group, np.zeros_like(group))[:, 0] for column in columns)
    p, q, same = p / n, q / n, same / n
    chance = p * q + (1 - p) * (1 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(chance < 1, (same - chance) / (1 - chance), np.nan)
    ends = (values[0] + half_width(values[1:]) * np.array([0, -1, 1])).tolist()
    value, lower, upper = (None if math.isnan(end) else end for end in ends)
    return Estimate(value, lower, upper, BY_RECIPE)


def by_ranks(rows: pd.DataFrame) -> Result:
    """Correlation of `early` with `end` inside cells, agreement of their signs, and how many end on the rarer side."""
    up = rows["end"] > 0
    quantities = {
        R.name: within_cells(rows["early"], rows["end"], rows["cell"], rows["recipe"]),
        KAPPA: kappa(rows["early"] > 0, up, rows["recipe"]),
        RARE.name: Estimate(float(min(up.sum(), (~up).sum()))),
    }
    return Result.of(rows, quantities)


def by_corpora(rows: pd.DataFrame) -> Result:
    """The same with one correlation a corpus; the largest of them heads it."""
    whole = by_ranks(rows)
    each = {str(name): by_ranks(part).quantities[R.name] for name, part in rows.groupby("trained_on", sort=True)}
    table = [
        {"corpus": name, R.name: r.value, f"{R.name}_lower": r.lower, f"{R.name}_upper": r.upper, f"{R.name}_p": r.p}
        for name, r in each.items()
    ]
    largest = max(each.values(), key=lambda r: r.value if r.value is not None else -math.inf)
    return replace(
        whole, quantities={**whole.quantities, R.name: largest}, rows={**whole.rows, CORPORA: pd.DataFrame(table)}
    )


def of_corpus(rows: pd.DataFrame) -> dict[str, float | None]:
    """Models on either side at the end, those that kept their side, and the correlation; of one corpus."""
    r = by_ranks(rows).quantities[R.name]
    ends = {"r": r.value, "lower": r.lower, "upper": r.upper}
    same_side = int(((rows["early"] > 0) == (rows["end"] > 0)).sum())
    return {**ends, "models": len(rows), "dampen": int((rows["end"] < 0).sum()), "kept": same_side}


def along_training(at_share: Callable[[float], pd.DataFrame], shares: Sequence[float]) -> pd.DataFrame:
    """By share of training: models that dampen, correlation with the end inside cells and κ, with their intervals."""
    rows = []
    for share in shares:
        if (at_step := at_share(share)).empty:
            continue
        quantities = by_ranks(at_step).quantities
        row: dict[str, float | None] = {
            "share": share,
            "models": len(at_step),
            "dampen": int((at_step["early"] < 0).sum()),
        }
        for name, q in (("r", quantities[R.name]), ("kappa", quantities[KAPPA])):
            row |= {name: q.value, f"{name}_lower": q.lower, f"{name}_upper": q.upper}
        rows.append(row)
    return pd.DataFrame(rows)
