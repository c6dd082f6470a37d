"""Facts that go with a group: how nearly a property of models is the group's own, so that the two cannot be separated.

φ = (ad − bc) / √((a + b)(c + d)(a + c)(b + d)) of group and property, a of a + b models of the group and c of the c + d
others having it: 1 where the property is the group, 0 where the two do not go together.

J = |A ∩ B| / |A ∪ B| of the pairs of models A that share one fact and B that share another: 1 where no pair tells them
apart (Jaccard 1912, doi:10.1111/j.1469-8137.1912.tb05611.x).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pandas as pd

from thermostats.modelling.draws import Array

LARGE = 0.5
"""φ from which on a property is named: Cohen's large effect."""


def confounded(rows: pd.DataFrame, focal: pd.Series[bool], facts: Iterable[str], least: float = LARGE) -> pd.DataFrame:
    """Values of facts whose φ with the focal group is at least `least`, largest first.

    Columns: fact, value, inside, n_inside, outside, n_outside, phi. Models whose fact is not stated are left out of it.
    """
    messages = []
    for fact in facts:
        stated = rows[fact].notna() & (rows[fact].astype(str) != "")
        values, group = rows.loc[stated, fact].astype(str), focal[stated].to_numpy(bool)
        for value in sorted(set(values)):
            has = (values == value).to_numpy()
            if has.all() or group.all() or not group.any():
                continue
            phi = float(np.corrcoef(has, group)[0, 1])
            counts = (int(has[group].sum()), int(group.sum()), int(has[~group].sum()), int((~group).sum()))
            messages.append((fact, value, *counts, phi))
    columns = ["fact", "value", "inside", "n_inside", "outside", "n_outside", "phi"]
    table = pd.DataFrame(messages, columns=columns)
    table = table[table["phi"] >= least]
    return table.sort_values("phi", ascending=False, kind="stable", ignore_index=True)


def shared_pairs(facts: pd.DataFrame) -> pd.DataFrame:
    """J = |A ∩ B| / |A ∪ B| of every two facts (columns; models are rows), largest first, by the pairs that share them.

    Columns: fact, other, both, fact_alone, other_alone, jaccard (NaN where no pair shares either). A pair that shares
    one fact alone is what tells it from the other. Facts that are empty or missing are shared by nobody.
    """
    upper = np.triu_indices(len(facts), 1)
    shares = {}
    for name, column in facts.items():
        values = column.astype("str").where(column.notna(), "").to_numpy(str)
        shares[name] = ((values[:, None] == values) & (values != ""))[upper]
    rows = []
    for fact, other in combinations(shares, 2):
        a, b = shares[fact], shares[other]
        both, either = int((a & b).sum()), int((a | b).sum())
        rows.append((fact, other, both, int((a & ~b).sum()), int((b & ~a).sum()), both / either if either else np.nan))
    table = pd.DataFrame(rows, columns=["fact", "other", "both", "fact_alone", "other_alone", "jaccard"])
    return table.sort_values("jaccard", ascending=False, kind="stable", ignore_index=True)


def variance_left(columns: pd.DataFrame, fixed: pd.DataFrame) -> tuple[float, int]:
    """Share of the variance of columns that fixed ones leave, and of how many models: 0 where they determine it.

    1 − R², adjusted: (RSS/(n − p))/(TSS/(n − 1)) by least squares with a mean, summed over columns of variance 1; of
    texts over their values as columns of 0 and 1, where without the adjustment 1 less it is the τ of Goodman and
    Kruskal 1954, doi:10.1080/01621459.1954.10501231. Models that lack a value are left out; NaN where n ≤ p or nothing
    varies.
    """
    stated = columns.notna().all(axis=1) & fixed.notna().all(axis=1)
    if (n := int(stated.sum())) < 2:
        return float("nan"), n
    y, x = _dummies(columns[stated]), _dummies(fixed[stated])
    y = y[:, y.std(axis=0) > 0]
    if not y.size:
        return float("nan"), n
    x = np.column_stack([np.ones(n), x])
    free = n - int(np.linalg.matrix_rank(x))
    if free < 1:
        return float("nan"), n
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    y = y - y.mean(axis=0)
    share = float(np.square(residual).sum() / free / (np.square(y).sum() / (n - 1)))
    return (0.0 if share < 1e-12 else min(share, 1.0)), n


def _dummies(columns: pd.DataFrame) -> Array:
    """Numbers scaled to variance 1, and a column for every value of a text."""
    parts = [np.zeros((len(columns), 0))]
    for _, values in columns.items():
        if pd.api.types.is_numeric_dtype(values):
            numbers = values.to_numpy(np.float64)[:, None]
            parts.append((numbers - numbers.mean()) / (numbers.std() or 1.0))
        else:
            parts.append(pd.get_dummies(values.astype(str)).to_numpy(np.float64))
    return np.column_stack(parts)


def varies(rows: pd.DataFrame, columns: Iterable[str], group: str) -> tuple[int, int]:
    """Groups within which columns take two values or more, and how many rows these have."""
    distinct = rows.groupby(group)[list(columns)].nunique().max(axis=1)
    several = distinct.index[distinct > 1]
    return len(several), int(rows[group].isin(several).sum())
