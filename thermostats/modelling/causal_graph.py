"""Declared causal graphs: what is independent of what, and which sets of causes have to be held
fixed.

x and y are d-separated by Z where Z separates them in the moral graph of the ancestors of x, y and
Z (Lauritzen et al. 1990, doi:10.1002/net.3230200503). Z is a back-door set of x for y if no member
descends from x and Z separates x from y once the arrows out of x are taken away (Pearl 2009,
Causality, definition 3.3.1, doi:10.1017/CBO9780511803161). Where there is one, all ancestors of x
and y that may be held fixed are one (van der Zander, Liśkiewicz and Textor 2014).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from thermostats.errors import DataError, build_unknown_error
from thermostats.modelling.draws import Array


@dataclass(frozen=True)
class CausalGraph:
    """Nodes with their direct causes; no node causes itself."""

    causes: Mapping[str, frozenset[str]]

    @classmethod
    def build(cls, arrows: Iterable[tuple[str, str]]) -> CausalGraph:
        """The graph of arrows, cause and effect. Raises DataError where a node is its own cause."""
        causes: dict[str, frozenset[str]] = {}
        for cause, effect in arrows:
            causes.setdefault(cause, frozenset())
            causes[effect] = causes.get(effect, frozenset()) | {cause}
        graph = cls(causes)
        circular = [name for name in causes if name in graph.find_ancestors(causes[name])]
        if circular:
            raise DataError(
                "a cause is its own effect",
                got=", ".join(circular),
                allowed="arrows without a circle",
            )
        return graph

    def find_ancestors(self, names: Iterable[str]) -> frozenset[str]:
        """Some nodes and all that causes them, directly or not."""
        seen = set[str]()
        waiting = list(names)
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += self.causes[name]
        return frozenset(seen)

    def find_effects(self, name: str) -> frozenset[str]:
        """All that a node causes, directly or not."""
        effects = set[str]()
        for other in self.causes:
            if other != name and name in self.find_ancestors([other]):
                effects.add(other)
        return frozenset(effects)

    def is_separated(self, x: str, y: str, fixed: Collection[str] = ()) -> bool:
        """Whether x and y are independent with some nodes held fixed in every distribution that the
        graph allows."""
        self._check(x, y, *fixed)
        neighbours = self._build_moral_graph(self.find_ancestors([x, y, *fixed]))
        reached = set(fixed)
        waiting = [x]
        while waiting:
            if (name := waiting.pop()) not in reached:
                reached.add(name)
                waiting += neighbours[name]
        return y in fixed or y not in reached

    def find_back_door(
        self, x: str, y: str, measured: Collection[str] | None = None
    ) -> list[frozenset[str]]:
        """The smallest back-door sets of x for y; empty where there is none.

        measured: nodes that may be held fixed, all by default.
        """
        self._check(x, y)
        without_x = {name: parents - {x} for name, parents in self.causes.items()}
        cut = CausalGraph(without_x)
        open_to_choice = cut.find_ancestors([x, y]) - {x, y} - self.find_effects(x)
        may = []
        for name in self.causes:
            if name in open_to_choice and (measured is None or name in measured):
                may.append(name)
        if not cut.is_separated(x, y, may):
            return []
        for size in range(len(may) + 1):
            if sets := [frozenset(z) for z in combinations(may, size) if cut.is_separated(x, y, z)]:
                return sets
        raise AssertionError("all that may be held fixed is a set too")

    def _build_moral_graph(self, names: Collection[str]) -> dict[str, set[str]]:
        """Neighbours among nodes once arrows lose their heads and causes of one effect are
        joined."""
        neighbours: dict[str, set[str]] = {}
        for name in names:
            neighbours[name] = set()
        for name in names:
            for a, b in combinations([name, *self.causes[name]], 2):
                neighbours[a].add(b)
                neighbours[b].add(a)
        return neighbours

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self.causes:
                raise build_unknown_error("no such node", name, self.causes)


LARGE = 0.5
"""φ from which on a property is named: Cohen's large effect."""


def find_confounded(
    rows: pd.DataFrame, focal: pd.Series[bool], facts: Iterable[str], least: float = LARGE
) -> pd.DataFrame:
    """Values of facts whose φ with the focal group is at least `least`, largest first.

    Columns: fact, value, inside, n_inside, outside, n_outside, phi. Models whose fact is not stated
    are left out of it.
    """
    messages = []
    for fact in facts:
        texts = rows[fact].astype(str)
        stated = rows[fact].notna() & (texts != "")
        values = texts[stated]
        group = focal[stated].to_numpy(bool)
        for value in sorted(set(values)):
            has = (values == value).to_numpy()
            if has.all() or group.all() or not group.any():
                continue
            phi = float(np.corrcoef(has, group)[0, 1])
            inside = has[group]
            outside = has[~group]
            counts = int(inside.sum()), inside.size, int(outside.sum()), outside.size
            messages.append((fact, value, *counts, phi))
    columns = ["fact", "value", "inside", "n_inside", "outside", "n_outside", "phi"]
    table = pd.DataFrame(messages, columns=columns)
    table = table[table["phi"] >= least]
    return table.sort_values("phi", ascending=False, kind="stable", ignore_index=True)


def count_shared_pairs(facts: pd.DataFrame) -> pd.DataFrame:
    """J = |A ∩ B| / |A ∪ B| of every two facts (columns; models are rows), largest first, by the
    pairs that share them.

    Columns: fact, other, both, fact_alone, other_alone, jaccard (NaN where no pair shares either).
    A pair that shares one fact alone is what tells it from the other. Facts that are empty or
    missing are shared by nobody.
    """
    upper = np.triu_indices(len(facts), 1)
    shares = {}
    for name, column in facts.items():
        values = column.astype("str").where(column.notna(), "").to_numpy(str)
        same = (values[:, None] == values) & (values != "")
        shares[name] = same[upper]
    rows = []
    for fact, other in combinations(shares, 2):
        a = shares[fact]
        b = shares[other]
        both = int((a & b).sum())
        either = int((a | b).sum())
        a_alone = int((a & ~b).sum())
        b_alone = int((b & ~a).sum())
        jaccard = both / either if either else np.nan
        rows.append((fact, other, both, a_alone, b_alone, jaccard))
    columns = ["fact", "other", "both", "fact_alone", "other_alone", "jaccard"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("jaccard", ascending=False, kind="stable", ignore_index=True)


def measure_variance_left(columns: pd.DataFrame, fixed: pd.DataFrame) -> tuple[float, int]:
    """Share of the variance of columns that fixed ones leave, and of how many models: 0 where they
    determine it.

    1 − R², adjusted: (RSS/(n − p))/(TSS/(n − 1)) by least squares with a mean, summed over columns
    of variance 1; of texts over their values as columns of 0 and 1, where without the adjustment 1
    less it is the τ of Goodman and Kruskal 1954, doi:10.1080/01621459.1954.10501231. Models that
    lack a value are left out; NaN where n ≤ p or nothing varies.
    """
    stated = columns.notna().all(axis=1) & fixed.notna().all(axis=1)
    if (n := int(stated.sum())) < 2:
        return float("nan"), n
    y = _encode_columns(columns[stated])
    x = _encode_columns(fixed[stated])
    y = y[:, y.std(axis=0) > 0]
    if not y.size:
        return float("nan"), n
    x = np.column_stack([np.ones(n), x])
    free = n - int(np.linalg.matrix_rank(x))
    if free < 1:
        return float("nan"), n
    slopes = np.linalg.lstsq(x, y, rcond=None)[0]
    residual = y - x @ slopes
    y = y - y.mean(axis=0)
    variance = np.square(y).sum() / (n - 1)
    share = float(np.square(residual).sum() / free / variance)
    return (0.0 if share < 1e-12 else min(share, 1.0)), n


def _encode_columns(columns: pd.DataFrame) -> Array:
    """Numbers scaled to variance 1, and a column for every value of a text."""
    parts = [np.zeros((len(columns), 0))]
    for _, values in columns.items():
        if pd.api.types.is_numeric_dtype(values):
            numbers = values.to_numpy(np.float64)[:, None]
            parts.append((numbers - numbers.mean()) / (numbers.std() or 1.0))
        else:
            parts.append(pd.get_dummies(values.astype(str)).to_numpy(np.float64))
    return np.column_stack(parts)


def count_varied_groups(rows: pd.DataFrame, columns: Iterable[str], group: str) -> tuple[int, int]:
    """Groups within which columns take two values or more, and how many rows these have."""
    distinct = rows.groupby(group)[list(columns)].nunique().max(axis=1)
    several = distinct.index[distinct > 1]
    return len(several), int(rows[group].isin(several).sum())
