"""How a log gain drifts along a tree: rows of sources, nodes × sources, whose products are the covariance of nodes.

Brownian motion: u_child = u_parent + √t e, K_ij the length of the path that i and j share. Free: pulled back with
strength α and stationary (Hansen 1997, doi:10.2307/2411186), u_child = r u_parent + √(1 − r²) e, r = exp(−αt); of e a
share η is common to the children of one parent, so that siblings correlate by r² + (1 − r²) η, whatever parent and
child do. Levels: branches of labs, of families and of models drift by scales of their own, which is the nested model of
groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thermostats.errors import UsageError
from thermostats.modelling.draws import Array
from thermostats.tables.tree import Tree

BROWNIAN, FREE, LEVELS = "brownian", "free", "levels"
PROCESSES = (BROWNIAN, FREE, LEVELS)
DESCENT, LAB, FAMILY, PARENT = "descent", "lab", "family", "parent"
RATES = tuple(float(x) for x in np.geomspace(0.25, 16.0, 5))
"""α on a tree of height 1, evenly on the log scale: over the tree's height what is inherited falls to 78% … 0."""
COMMON = (0.0, 0.25, 0.5, 0.75, 0.95)
"""η, where it is free."""


@dataclass(frozen=True)
class Process:
    """A process with its constants."""

    kind: str
    alpha: float = 0.0
    """Pull per height of the tree; of free."""
    common: float = 0.0
    """η; of free."""

    def remains(self, length: float) -> float:
        """What of its parent a node keeps over a branch."""
        return 1.0 if self.kind in {BROWNIAN, LEVELS} else float(np.exp(-self.alpha * length))


@dataclass(frozen=True, eq=False)
class Sources:
    """Rows of sources of every node of a tree of unit height; the columns are branches, then what siblings share."""

    tree: Tree
    process: Process
    rows: Array

    def child(self, parent: str, length: float) -> tuple[Array, float]:
        """Row of a new child's sources among those of the tree, and the scale of the one that is its own."""
        place, share, n = self.tree.place(parent), self.process.remains(length), len(self.tree)
        row = share * self.rows[place]
        if self.process.kind in {BROWNIAN, LEVELS}:
            return row, length**0.5
        rest = 1 - share**2
        row[n + place] += (rest * self.process.common) ** 0.5
        return row, (rest * (1 - self.process.common)) ** 0.5


def nodes_of(kind: str) -> list[Process]:
    """The processes of a kind, one for every value of its constants."""
    if kind == FREE:
        return [Process(FREE, alpha, common) for alpha in RATES for common in COMMON]
    return [Process(kind)]


def sources(tree: Tree, process: Process) -> Sources:
    """Rows of all nodes; a merge is the mean of its parents by their shares."""
    n = len(tree)
    if process.kind in {BROWNIAN, LEVELS}:
        return Sources(tree, process, np.column_stack([tree.roots(), np.zeros((n, n))]))
    rows = np.zeros((n, 2 * n))
    for i, (parents, shares) in enumerate(zip(tree.parents, tree.shares, strict=True)):
        if not parents:
            rows[i, i] = 1.0
            continue
        remaining = process.remains(float(tree.lengths[i]))
        mean = sum((share * rows[p] for p, share in zip(parents, shares, strict=True)), np.zeros(2 * n))
        rows[i] = remaining * mean
        rest = max(1 - float(np.square(rows[i]).sum()), 0.0)  # of one parent 1 − r²
        rows[i, i] = (rest * (1 - process.common)) ** 0.5
        for p, share in zip(parents, shares, strict=True):
            rows[i, n + p] += share * (rest * process.common) ** 0.5
    return Sources(tree, process, rows)


def columns_by_level(tree: Tree, rows: Array) -> dict[str, Array]:
    """Whether a source is a branch of a lab, a family or a parent that two models or more (rows) descend from.

    Raises UsageError where no branch is shared.
    """
    n, kinds = len(tree), np.array(tree.kinds)
    shared = np.concatenate([(rows[:, :n] != 0).sum(axis=0) > 1, np.zeros(n, dtype=bool)])
    of_branch = np.concatenate([np.isin(kinds, [LAB, FAMILY]), np.zeros(n, dtype=bool)])
    kinds = np.concatenate([kinds, np.full(n, "")])
    masks = {LAB: kinds == LAB, FAMILY: kinds == FAMILY, PARENT: shared & ~of_branch}
    masks = {name: mask for name, mask in masks.items() if (mask & shared).any()}
    if not masks:
        raise UsageError(
            "no branch of the tree leads to two models",
            got=f"{len(rows)} models",
            allowed="labs, families or parents of two models or more",
        )
    return masks


def unit_height(tree: Tree, names: list[str]) -> Tree:
    """The tree with its highest model at 1."""
    heights = tree.heights[[tree.place(name) for name in names]]
    return replace(tree, lengths=tree.lengths / heights.max())
