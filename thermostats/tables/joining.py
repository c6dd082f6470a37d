"""A tree from distances between models: neighbour joining, and how much of a declared tree it has.

Joined are the two whose Q_ij = (n − 2) d_ij − S_i − S_j is least, S_i = Σ_k d_ik; the new node u is d_ij/2 +
(S_i − S_j)/(2(n − 2)) above i, and (d_ik + d_jk − d_ij)/2 from the others. Distances that add along a tree give that
tree. Saitou and Nei 1987, doi:10.1093/oxfordjournals.molbev.a040454, in the form of Studier and Keppler 1988,
doi:10.1093/oxfordjournals.molbev.a040527.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.tables.tree import Array, Tree

LEAST = 3
ROOT, JOINT = "root", "joint"
Branch = tuple[str, str, float]
"""Two nodes and the length between them."""


def neighbour_joining(distances: pd.DataFrame, *, root: str | None = None) -> Tree:
    """The tree of models whose distances are given, every model a tip.

    distances: models × models, symmetric, 0 on the diagonal, names as index and columns; `weight_distances` and
    `spectral_angles` make them. root: the model that the others come from, such as the base; by default the middle of
    the longest path. A negative branch becomes 0 and its neighbour shorter by as much (Kuhner and Felsenstein 1994,
    doi:10.1093/oxfordjournals.molbev.a040126).

    Raises UsageError for fewer than 3 models, distances that are not symmetric, missing, below 0 or all 0, and a root
    that is none of the models.
    """
    names, d = _checked(distances)
    if root is not None and root not in names:
        raise UsageError("no such root", got=root, allowed=", ".join(names))
    branches = _joined(names, d)
    if root is None:
        root, branches = _middle(branches, names)
    return Tree.of(_hung(branches, root), unit="distance", notes=distances.attrs.get("notes", ()))


def recovered(declared: Tree, joined: Tree, models: Collection[str]) -> pd.DataFrame:
    """Which groups of models of a declared tree a joined one has: models, the names of the group; size; recovered.

    A group is those at or below a node, or all others: of unrooted trees only the split counts (Robinson and Foulds
    1981, doi:10.1016/0025-5564(81)90043-2). Groups of one, and of all but one, are in every tree and left out.
    """
    names = sorted(models)
    have = set(_groups(joined, names))
    rows = [(", ".join(sorted(group)), len(group), group in have) for group in _groups(declared, names)]
    return pd.DataFrame(rows, columns=["models", "size", "recovered"])


def _checked(distances: pd.DataFrame) -> tuple[list[str], Array]:
    names, d = [str(name) for name in distances.columns], distances.to_numpy(dtype=np.float64)
    if [str(name) for name in distances.index] != names or len(set(names)) < len(names):
        raise UsageError("rows and columns of distances differ", allowed="the same models in one order, each once")
    if len(names) < LEAST:
        raise UsageError("too few models for a tree", got=len(names), allowed=f"{LEAST} or more")
    if not np.isfinite(d).all() or (d < 0).any() or np.diagonal(d).any() or not np.allclose(d, d.T):
        allowed = "finite numbers of at least 0, the same both ways, 0 from a model to itself"
        raise UsageError("these are no distances", allowed=allowed)
    if not d.any():
        raise UsageError("no tree", got="models none of which differs from another", allowed="a distance above 0")
    return names, d.copy()


def _joined(names: Sequence[str], d: Array) -> list[Branch]:
    """Branches of the unrooted tree."""
    left, branches = list(names), list[Branch]()
    while (n := len(left)) > LEAST:
        total = d.sum(axis=1)
        q = (n - 2) * d - total[:, None] - total
        np.fill_diagonal(q, np.inf)
        i, j = divmod(int(q.argmin()), n)
        above = d[i, j] / 2 + (total[i] - total[j]) / (2 * (n - 2))
        branches += _pair(left[i], left[j], joint := _new(len(branches) // 2 + 1, names), above, d[i, j])
        rest = [k for k in range(n) if k not in {i, j}]
        new = (d[i, rest] + d[j, rest] - d[i, j]) / 2
        d = np.block([[d[np.ix_(rest, rest)], new[:, None]], [new, np.zeros(1)]])
        left = [*(left[k] for k in rest), joint]
    last = _new(len(branches) // 2 + 1, names)
    a, b, c = d[0, 1], d[0, 2], d[1, 2]
    ends = zip(left, ((a + b - c) / 2, (a + c - b) / 2, (b + c - a) / 2), strict=True)
    return [*branches, *((name, last, max(float(length), 0.0)) for name, length in ends)]


def _new(number: int, names: Sequence[str]) -> str:
    name = f"{JOINT} {number}"
    while name in names:
        name += "′"
    return name


def _pair(first: str, second: str, joint: str, above: float, apart: float) -> list[Branch]:
    """Branches of two neighbours, together as long as they are apart, neither negative."""
    apart = max(apart, 0.0)
    above = min(max(above, 0.0), apart)
    return [(first, joint, float(above)), (second, joint, float(apart - above))]


def _neighbours(branches: Sequence[Branch]) -> dict[str, dict[str, float]]:
    neighbours: dict[str, dict[str, float]] = {}
    for a, b, length in branches:
        neighbours.setdefault(a, {})[b] = neighbours.setdefault(b, {})[a] = length
    return neighbours


def _hung(branches: Sequence[Branch], root: str) -> pd.DataFrame:
    """Edges of the tree that hangs on one of its nodes."""
    beside, rows, seen = _neighbours(branches), [(root, "", 0.0)], {root}
    for name, _, _ in rows:
        new = {other: length for other, length in beside[name].items() if other not in seen}
        seen.update(new)
        rows += [(other, name, length) for other, length in new.items()]
    return pd.DataFrame(rows, columns=["name", "parent", "length"])


def _middle(branches: Sequence[Branch], names: Sequence[str]) -> tuple[str, list[Branch]]:
    """A node of its own amid the longest path between models, and the branches with it."""
    first, _ = _farthest(branches, names[0], names)
    _, path = _farthest(branches, first, names)
    half = path[-1][1] / 2
    (near, at), (far, end) = next((before, after) for before, after in pairwise(path) if after[1] >= half)
    root = ROOT if ROOT not in names else _new(0, names)
    rest = [branch for branch in branches if {branch[0], branch[1]} != {near, far}]
    return root, [*rest, (near, root, half - at), (far, root, end - half)]


def _farthest(branches: Sequence[Branch], start: str, names: Sequence[str]) -> tuple[str, list[tuple[str, float]]]:
    """The model farthest from one, and the nodes on the way with their distances from it."""
    edges = _hung(branches, start)
    above = dict(zip(edges["name"], edges["parent"], strict=True))
    far: dict[str, float] = {"": 0.0}
    for name, parent, length in edges.itertuples(index=False):
        far[name] = far[parent] + length
    end = max(names, key=lambda name: far[name])
    path = [end]
    while path[-1] != start:
        path.append(above[path[-1]])
    return end, [(name, far[name]) for name in reversed(path)]


def _groups(tree: Tree, names: Sequence[str]) -> list[frozenset[str]]:
    """Groups of the models at or below every node, each once, as the side of the split without the first model."""
    below: list[set[str]] = [{name} & set(names) for name in tree.names]
    for i in range(len(tree) - 1, 0, -1):
        for parent in tree.parents[i]:
            below[parent] |= below[i]
    sides = [frozenset(set(names) - group if names[0] in group else group) for group in below]
    return list(dict.fromkeys(side for side in sides if 2 <= len(side) <= len(names) - 2))
