"""A tree of descent: nodes with their parents and branch lengths, and the covariance of what drifts
along it.

What starts at 0 at the root and gains an independent N(0, length) on every branch has, over nodes i
and j, covariance K_ij, the length of the path that they share: K = RRᵀ with R a row for every node
and a column for every branch. A node with several parents is their mean by their shares, plus its
own branch. Felsenstein 1985, doi:10.1086/284325.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import DataError, UsageError, build_unknown_error
from thermostats.tables.entries import drop_names

PLAIN = re.compile(r"[^\s(),:;'\[\]]+")


def write_newick(names: Sequence[str], parents: Sequence[int], lengths: Sequence[float]) -> str:
    """Nodes in an order in which parents come before their children, the root first; its length is
    not written."""
    parts: list[list[str]] = [[] for _ in names]
    for i in range(len(names) - 1, 0, -1):
        subtree = f"{_join_children(parts[i])}{_escape_name(names[i])}"
        branch = f"{subtree}:{float(lengths[i])!r}"
        parts[parents[i]].append(branch)
        parts[i] = []
    return f"{_join_children(parts[0])}{_escape_name(names[0])};"


def _join_children(parts: Sequence[str]) -> str:
    return f"({','.join(reversed(parts))})" if parts else ""


def _escape_name(name: str) -> str:
    return name if PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"


Array = NDArray[np.float64]
EQUAL = "equal"
"""Unit of branches that all count 1."""
MOST_DENSE = 1_000
"""Tips of a tree in which a model may have several parents: its covariance is held whole."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes of a tree of descent, parents before children; the first is the root.

    Any node may be a model with rows of its own. `thermostats.tree` makes one.

    Examples
    --------
    >>> import thermostats
    >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
    >>> len(tree), "tuned" in tree, tree.tips
    (5, True, ('other', 'base', 'tuned'))
    """

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    """Parents of every node, as places in `names`; none of the root."""
    shares: tuple[tuple[float, ...], ...]
    """Shares of a node's parents in it; together 1."""
    lengths: Array
    """Length of the branch above every node; 0 for the root."""
    kinds: tuple[str, ...]
    """Kind of that branch: lab, family, scratch, tuned, …; empty where not stated."""
    unit: str = EQUAL
    """What lengths are: equal, tokens, distance, or as given."""
    notes: tuple[str, ...] = ()
    """What a reader should know: branches of length 0, lengths filled in."""
    _place: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Keep the place of every name, and lengths that nobody can write into."""
        object.__setattr__(self, "_place", _number_names(self.names))
        lengths = np.array(self.lengths, dtype=np.float64)
        lengths.setflags(write=False)
        object.__setattr__(self, "lengths", lengths)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        """Whether a node has this name."""
        return name in self._place

    def __repr__(self) -> str:
        head = f"Tree of {len(self)} nodes, {len(self.tips)} tips; branches: {self.unit}"
        return "\n".join([head, *(f"  {note}" for note in self.notes)])

    @classmethod
    def build(cls, edges: pd.DataFrame, *, unit: str = EQUAL, notes: Sequence[str] = ()) -> Tree:
        """Build the tree of a table with a row each node and parent.

        Parameters
        ----------
        edges : DataFrame
            name, parent (empty: the root) and length; share and kind where there are such columns.
        unit : str
            What lengths are: equal, tokens, distance, or as given.
        notes : sequence of str
            What a reader should know of them.

        Returns
        -------
        Tree
            Parents come before their children.

        Raises
        ------
        DataError
            For a node that is its own ancestor, two roots, a parent that is no node, a branch
            twice, lengths that are missing, infinite or below 0, and shares that do not add up to
            1.

        Examples
        --------
        >>> import pandas as pd
        >>> from thermostats.tables.tree import Tree
        >>> rows = [("lab", "", 0.0), ("base", "lab", 1.0), ("tuned", "base", 0.5)]
        >>> edges = pd.DataFrame(rows, columns=["name", "parent", "length"])
        >>> Tree.build(edges).newick()
        '((tuned:0.5)base:1.0)lab;'
        """
        return _build_tree(edges, unit, tuple(notes))

    @property
    def tips(self) -> tuple[str, ...]:
        """Nodes without children."""
        inner = set(chain.from_iterable(self.parents))
        tips: list[str] = []
        for i, name in enumerate(self.names):
            if i not in inner:
                tips.append(name)
        return tuple(tips)

    @property
    def merges(self) -> tuple[str, ...]:
        """Nodes with several parents."""
        merges: list[str] = []
        for name, parents in zip(self.names, self.parents, strict=True):
            if len(parents) > 1:
                merges.append(name)
        return tuple(merges)

    @property
    def heights(self) -> Array:
        """Length of the path from the root to every node, by shares where there are several: the
        variance K_ii."""
        if self.merges:
            return np.asarray(np.square(self.roots()).sum(axis=1))
        heights = np.zeros(len(self))
        for i, parents in enumerate(self.parents):
            above = heights[parents[0]] if parents else 0.0
            heights[i] = self.lengths[i] + above
        return heights

    def place(self, name: str) -> int:
        """Say where a node stands among `names`.

        Parameters
        ----------
        name : str
            A node.

        Returns
        -------
        int
            Its place, from 0.

        Raises
        ------
        UsageError
            For a node that is not in the tree.

        Examples
        --------
        >>> import thermostats
        >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
        >>> tree.names[tree.place("tuned")]
        'tuned'
        """
        if name not in self._place:
            raise build_unknown_error("no such node in the tree", name, self.names)
        return self._place[name]

    def roots(self) -> Array:
        """Give R, nodes × nodes, with K = RRᵀ.

        Returns
        -------
        array
            Row i holds the square roots of the branches that lead to node i.

        Examples
        --------
        >>> import thermostats
        >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
        >>> tree.roots().round(1)
        array([[0., 0., 0., 0., 0.],
               [0., 1., 0., 0., 0.],
               [0., 0., 1., 0., 0.],
               [0., 1., 0., 1., 0.],
               [0., 1., 0., 0., 1.]])
        """
        shares_of = np.zeros((len(self), len(self)))
        for i, (parents, shares) in enumerate(zip(self.parents, self.shares, strict=True)):
            for parent, share in zip(parents, shares, strict=True):
                shares_of[i] += share * shares_of[parent]
            shares_of[i, i] = self.lengths[i] ** 0.5
        return shares_of

    def covariance(self, names: Sequence[str] | None = None) -> Array:
        """Compute the covariance K of what drifts along the tree.

        The highest of these nodes is 1 high.

        Parameters
        ----------
        names : sequence of str
            Some nodes; all tips by default.

        Returns
        -------
        array
            Nodes × nodes, in the order of `names`.

        Raises
        ------
        UsageError
            For a node that is not in the tree.

        Examples
        --------
        >>> import thermostats
        >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
        >>> tree.covariance(["base", "tuned", "other"])
        array([[1. , 0.5, 0. ],
               [0.5, 1. , 0. ],
               [0. , 0. , 0.5]])
        """
        chosen = self.tips if names is None else names
        rows = self.roots()[list(map(self.place, chosen))]
        k = rows @ rows.T
        return np.asarray(k / k.diagonal().max())

    def ancestors(self, name: str) -> tuple[str, ...]:
        """List a node and all that it comes from, root first.

        Parameters
        ----------
        name : str
            A node.

        Returns
        -------
        tuple of str
            Names, the node itself last.

        Raises
        ------
        UsageError
            For a node that is not in the tree.

        Examples
        --------
        >>> import thermostats
        >>> thermostats.tree("((base,tuned)family,other)lab;").ancestors("tuned")
        ('lab', 'family', 'tuned')
        """
        seen = set()
        waiting = [self.place(name)]
        while waiting:
            seen.add(at := waiting.pop())
            waiting += set(self.parents[at]) - seen
        return tuple(self.names[i] for i in sorted(seen))

    def keep(self, names: Iterable[str]) -> Tree:
        """Keep some nodes and what they come from, without the stem that all share.

        Parameters
        ----------
        names : iterable of str
            Nodes.

        Returns
        -------
        Tree
            A new tree.

        Raises
        ------
        UsageError
            For a node that is not in the tree, and for no names.

        Examples
        --------
        >>> import thermostats
        >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
        >>> tree.keep(["base", "tuned"]).newick()
        '(base:1.0,tuned:1.0)family;'
        """
        places = set(map(self.place, names))
        if not places:
            raise UsageError(
                "no node is kept of the tree", got="no names", allowed="one or more of its nodes"
            )
        wanted = set(places)
        for i in range(len(self) - 1, -1, -1):
            if i in wanted:
                wanted.update(self.parents[i])
        order = sorted(wanted)
        while len(order) > 1 and order[0] not in places:
            children = [i for i in order if order[0] in self.parents[i]]
            if len(children) > 1:
                break
            order = order[1:]
        new = {old: i for i, old in enumerate(order)}
        lengths = self.lengths[order].copy()
        lengths[0] = 0.0
        below_root = order[1:]
        parents = []
        for i in below_root:
            parents.append(tuple(new[parent] for parent in self.parents[i]))
        shares = [self.shares[i] for i in below_root]
        kinds = [self.kinds[i] for i in below_root]
        return replace(
            self,
            names=tuple(self.names[i] for i in order),
            parents=((), *parents),
            shares=((), *shares),
            lengths=lengths,
            kinds=("", *kinds),
        )

    def clades(self, names: Sequence[str]) -> list[str]:
        """Name for every node the branch from the root that it lies on.

        Parameters
        ----------
        names : sequence of str
            Nodes.

        Returns
        -------
        list of str
            A name each node; of a merge of several branches all of them, joined by +.

        Raises
        ------
        UsageError
            For a node that is not in the tree.

        Examples
        --------
        >>> import thermostats
        >>> thermostats.tree("((base,tuned)family,other)lab;").clades(["tuned", "other"])
        ['family', 'other']
        """
        of: list[frozenset[str]] = []
        for name, parents in zip(self.names, self.parents, strict=True):
            above = frozenset[str]().union(*(of[parent] for parent in parents))
            begins = parents and not above
            of.append(frozenset({name}) if begins else above)
        clades: list[str] = []
        for name in names:
            branches = sorted(of[self.place(name)])
            clades.append(" + ".join(branches) or self.names[0])
        return clades

    def edges(self) -> pd.DataFrame:
        """Write the tree as a table.

        Returns
        -------
        DataFrame
            A row each node and parent: name, parent, share, length, kind, height of the node.

        Examples
        --------
        >>> import thermostats
        >>> edges = thermostats.tree("((base,tuned)family,other)lab;").edges()
        >>> edges[["name", "parent", "length", "height"]]
             name  parent  length  height
        0  family     lab     1.0     1.0
        1   other     lab     1.0     1.0
        2    base  family     1.0     2.0
        3   tuned  family     1.0     2.0
        """
        heights = self.heights
        rows = []
        for i, name in enumerate(self.names):
            of_branch = (self.lengths[i], self.kinds[i], heights[i])
            for parent, share in zip(self.parents[i], self.shares[i], strict=True):
                rows.append((name, self.names[parent], share, *of_branch))
        return pd.DataFrame(rows, columns=["name", "parent", "share", "length", "kind", "height"])

    def newick(self) -> str:
        """Write the tree in Newick's notation, with names of inner nodes.

        Returns
        -------
        str
            `thermostats.tree` reads it.

        Raises
        ------
        UsageError
            Where a model has several parents.

        Examples
        --------
        >>> import thermostats
        >>> thermostats.tree("((base,tuned)family,other)lab;").newick()
        '((base:1.0,tuned:1.0)family:1.0,other:1.0)lab;'
        """
        if self.merges:
            raise UsageError(
                "Newick's notation has one parent a node",
                got=", ".join(self.merges[:5]),
                next_step="write tree.edges() instead",
            )
        single = [parents[0] for parents in self.parents[1:]]
        return write_newick(self.names, [-1, *single], list(self.lengths))


def _number_names(names: Sequence[str]) -> dict[str, int]:
    """The place of every name."""
    return {name: i for i, name in enumerate(names)}


def _build_tree(edges: pd.DataFrame, unit: str, notes: tuple[str, ...]) -> Tree:
    names = edges["name"].astype(str)
    if twice := list(edges.loc[edges.duplicated(["name", "parent"]), "name"]):
        raise DataError(
            "a model has the same parent twice",
            got=twice[0],
            allowed="one row per model and parent",
        )
    rows = pd.DataFrame({"name": names, "parent": edges["parent"].fillna("").astype(str)})
    rows["share"] = edges["share"].astype("float64") if "share" in edges else np.nan
    rows["length"] = edges["length"].astype("float64")
    rows["kind"] = edges["kind"].fillna("").astype(str) if "kind" in edges else ""
    above: dict[str, list[tuple[str, float]]] = {}
    length: dict[str, float] = {}
    kinds: dict[str, str] = {}
    for name, parent, share, own_length, own_kind in rows.itertuples(index=False):
        parents = above.setdefault(name, [])
        if parent:
            parents.append((parent, share))
        length[name] = own_length
        kinds[name] = own_kind
    _check_parents(above)
    order = _order_names(above)
    _check_lengths(drop_names(length, order[:1]))
    place = _number_names(order)
    merged = [name for name in order if len(above[name]) > 1]
    if merged and len(order) > 2 * MOST_DENSE:
        raise UsageError(
            "too many nodes for a tree with merged models",
            got=f"{len(order)} nodes",
            allowed=f"{2 * MOST_DENSE} where a model has several parents",
            next_step="leave the merged models out",
        )
    below_root = order[1:]
    flat = [name for name in below_root if length[name] == 0]
    messages = []
    if flat:
        what = "branches of length 0, so these cannot differ from their parents by descent"
        messages.append(f"{what}: {_list_few(flat)}")
    if merged:
        what = "models with several parents, so there is no Newick notation"
        messages.append(f"{what}: {_list_few(merged)}")
    parents_of = []
    shares = []
    lengths = [0.0]
    kinds_of = [""]
    for name in order:
        parents_of.append(tuple(place[parent] for parent, _ in above[name]))
        shares.append(_resolve_shares(name, above[name]))
    for name in below_root:
        lengths.append(length[name])
        kinds_of.append(kinds[name])
    return Tree(
        names=tuple(order),
        parents=tuple(parents_of),
        shares=tuple(shares),
        lengths=np.array(lengths),
        kinds=tuple(kinds_of),
        unit=unit,
        notes=(*notes, *messages),
    )


def _check_parents(above: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    for name, parents in above.items():
        for parent, _ in parents:
            if parent == name:
                raise DataError(
                    "a model is its own parent",
                    got=name,
                    next_step="leave its parent empty, or correct it",
                )
            if parent not in above:
                raise DataError(
                    "an orphan: its parent is not in the tree",
                    where=name,
                    got=f"parent {parent}",
                    next_step=f"add a row for {parent} (its gain may be empty), or leave the "
                    f"parent empty",
                )
    roots = [name for name, parents in above.items() if not parents]
    if len(roots) > 1:
        raise DataError(
            f"{len(roots)} roots",
            got=_list_few(roots),
            allowed="one node without a parent",
            next_step="give all but one of them a parent, such as a lab, and the labs a root",
        )


def _order_names(above: Mapping[str, Sequence[tuple[str, float]]]) -> list[str]:
    """Names, parents before children; DataError where a model is its own ancestor."""
    children: dict[str, list[str]] = {}
    for name in above:
        children[name] = []
    for name, parents in above.items():
        for parent, _ in parents:
            children[parent].append(name)
    missing = {name: len(parents) for name, parents in above.items()}
    order = [name for name, count in missing.items() if count == 0]
    for name in order:
        for child in children[name]:
            missing[child] -= 1
            if missing[child] == 0:
                order.append(child)
    if len(order) < len(above):
        cycle = _find_cycle(above, set(above) - set(order))
        raise DataError(
            "a model is its own ancestor",
            got=" ← ".join(cycle),
            allowed="descent without a circle",
            next_step="correct the parent of one of them",
        )
    return order


def _find_cycle(
    above: Mapping[str, Sequence[tuple[str, float]]], left: Collection[str]
) -> list[str]:
    path = [sorted(left)[0]]
    while True:
        parents = above[path[-1]]
        nearest = next(parent for parent, _ in parents if parent in left)
        if nearest in path:
            return [*path[path.index(nearest) :], nearest]
        path.append(nearest)


def _check_lengths(lengths: Mapping[str, float]) -> None:
    bad = [name for name, value in lengths.items() if not 0 <= value < np.inf]
    if bad:
        share = f"{len(bad)} of {len(lengths)} branches"
        raise DataError(
            "a branch length is no finite number of at least 0",
            where=bad[0],
            got=f"{lengths[bad[0]]:g} in {share}",
            allowed="0 or above",
            next_step="correct it, or take equal branches (lengths='equal')",
        )
    if lengths and max(lengths.values()) == 0:
        raise DataError(
            "all branches have length 0", got=f"{len(lengths)} branches", allowed="one above 0"
        )


def _resolve_shares(name: str, parents: Sequence[tuple[str, float]]) -> tuple[float, ...]:
    stated = np.array([share for _, share in parents], dtype=np.float64)
    if np.isnan(stated).all():
        return tuple(np.full(stated.size, 1 / max(stated.size, 1)))
    if not (stated > 0).all() or abs(stated.sum() - 1) > 1e-6:
        listed_shares = ", ".join(f"{parent} {share:g}" for parent, share in parents)
        raise DataError(
            "shares of parents do not add up to 1",
            where=name,
            got=listed_shares,
            allowed="above 0, together 1",
        )
    return tuple(stated)


def _list_few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"
