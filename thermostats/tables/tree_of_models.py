"""The table `lineage` and the tree that it makes with the table models: root, lab, family, model,
models tuned from it.

A model with parents hangs on them; one without hangs on its family, a family on its lab, a lab on
the root. So base and tuned models stand in one tree, and labs of a single family or families of a
single model are known by where they hang.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.errors import (
    DataError,
    UsageError,
    build_unknown_error,
    join_some,
    take_first_line,
)
from thermostats.next_steps import Code, call, write_value
from thermostats.tables import store
from thermostats.tables.entries import drop_names
from thermostats.tables.frames import (
    check_frame,
    check_single_values,
    read_frame,
    read_known_numbers,
    select_rows,
)
from thermostats.tables.labels import guess_column
from thermostats.tables.store import check_lineage, join_lineage
from thermostats.tables.tree import EQUAL, Array, Tree

PART = re.compile(
    r"\s*(?:\[[^\]]*\]\s*)*('(?:[^']|'')*'|[(),:;]|[^\s(),:;'\[\]]+(?: +[^\s(),:;'\[\]]+)*)"
)
AS_GIVEN = "as given"


def read(text: str, where: object = "") -> Tree:
    """The tree of a text in Newick's notation; nodes without a name are called node 1, node 2, …

    Branches without a length, all or none, are equal. Raises DataError for brackets that do not
    match, names that occur twice, several trees, lengths that are no numbers.
    """
    names = [""]
    parents = [-1]
    lengths = [float("nan")]
    at = 0
    place = 0
    ended = False
    before = ""
    while place < len(text.rstrip()):
        match = PART.match(text, place)
        if match is None:
            raise _refuse_newick("cannot be read", text, place, where)
        part = match.group(1)
        place = match.end()
        if ended:
            raise DataError(
                "more than one tree",
                where=where,
                got=text[place - 10 : place + 20],
                allowed="one tree",
            )
        if part in {"(", ","}:
            at = at if part == "(" else parents[at]
            if at < 0 or (part == "(" and before not in {"", "(", ","}):
                raise _refuse_newick("brackets do not match", text, place, where)
            names.append("")
            parents.append(at)
            lengths.append(float("nan"))
            at = len(names) - 1
        elif part == ")":
            at = parents[at]
            if at < 0:
                raise _refuse_newick("brackets do not match", text, place, where)
        elif part == ";":
            ended = True
            if at != 0:
                raise _refuse_newick("brackets do not match", text, place, where)
        elif part != ":":
            _read_label(names, lengths, at, part, before, text, place, where)
        before = part
    if not ended:
        raise DataError(
            "a tree ends with a semicolon", where=where, got=text.strip()[-20:], next_step="add a ;"
        )
    return _build_tree(names, parents, lengths, where)


def _read_label(
    names: list[str],
    lengths: list[float],
    at: int,
    part: str,
    before: str,
    text: str,
    place: int,
    where: object,
) -> None:
    if before == ":":
        try:
            lengths[at] = float(part)
        except ValueError:
            raise _refuse_newick("a branch length is no number", text, place, where) from None
    elif names[at]:
        raise _refuse_newick("two names of one node", text, place, where)
    else:
        is_quoted = part.startswith("'")
        names[at] = part[1:-1].replace("''", "'") if is_quoted else part


def _build_tree(names: list[str], parents: list[int], lengths: list[float], where: object) -> Tree:
    stated = pd.Series(list(filter(None, names)), dtype=object)
    twice = stated[stated.duplicated()]
    if len(twice):
        what = "a name twice in one tree"
        allowed = "every node by its own name"
        raise DataError(what, where=where, got=twice.iloc[0], allowed=allowed)
    number = 0
    taken = set(stated)
    for i, name in enumerate(names):
        if not name:
            number += 1
            while f"node {number}" in taken:
                number += 1
            names[i] = f"node {number}"
    length = pd.Series(lengths[1:], dtype="float64")
    equal = bool(length.isna().all())
    if not equal and length.isna().any():
        lacking = names[1 + int(length.isna().to_numpy().argmax())]
        raise DataError(
            "a branch without a length",
            where=where,
            got=lacking,
            allowed="a length on every branch, or none",
        )
    above = [names[parent] for parent in parents[1:]]
    edges = pd.DataFrame({"name": names, "parent": ["", *above]})
    edges["length"] = [0.0, *length.fillna(1.0)]
    return Tree.build(edges, unit="equal" if equal else AS_GIVEN)


def _refuse_newick(what: str, text: str, place: int, where: object) -> DataError:
    near = text[max(0, place - 20) : place + 10]
    return DataError(
        f"no tree in Newick's notation: {what}",
        where=where,
        got=f"… {near} …",
        allowed="(A:1,B:1)root;",
    )


ROOT = "root"
LAB, FAMILY = "lab", "family"
"""Kinds of the branches above labs and families."""
LENGTHS = {
    EQUAL: "every branch counts 1",
    "tokens": "10^9 tokens trained since the parent",
    "distance": "distance of its weights from the parent's",
}
NEWICK = (".nwk", ".newick", ".tree")
NOWHERE = "not stated"


def tree(
    source: pd.DataFrame | str | Path | None = None,
    *,
    lengths: str = EQUAL,
    models: Collection[str] | None = None,
    data: str | Path | None = None,
) -> Tree:
    """Build the tree of descent of models, from tables or from Newick's notation.

    Parameters
    ----------
    source : DataFrame, str or Path
        None for the tables `models` and `lineage`. A table or CSV file has `model_id` and, where
        known, `heritage` (lab), `family`, `parent` (model_id; several rows for a merge, with
        `share`), `kind` and `year`; models that are named as parents and stand in no row of it are
        looked up in the package's. Or text or a file (.nwk) in Newick's notation.
    lengths : str
        `equal`, `tokens`, `distance`, or a column of the table. A branch without a length takes the
        median of the others and is named in `notes`.
    models : collection of str
        Those that are kept, with their ancestors.
    data : str or Path
        A user's folder, read together with the package's own tables.

    Returns
    -------
    Tree
        Labs stand below the root, families below their labs, models below their parents.

    Raises
    ------
    DataError
        For a circle, a model that is its own parent, an orphan, two roots, a child older than its
        parent, shares that do not add up to 1, lengths below 0.
    UsageError
        For a file or column that does not exist.

    Examples
    --------
    >>> import thermostats
    >>> tree = thermostats.tree("((base,tuned)family,other)lab;")
    >>> tree
    Tree of 5 nodes, 3 tips; branches: equal
    >>> tree.ancestors("tuned")
    ('lab', 'family', 'tuned')
    """
    if isinstance(source, (str, Path)):
        source = _read(source)
    if isinstance(source, Tree):
        complete = source
    else:
        rows = read_descent(data) if source is None else _read_user_rows(source, data)
        complete = build_descent_tree(rows, lengths)
    return complete if models is None else complete.keep(models)


def read_descent(data: str | Path | None = None) -> pd.DataFrame:
    """One row per model and parent of the tables: lineage, with lab, family and year of the table
    models."""
    models = store.load("models", data)
    lineage = store.load("lineage", data)
    check_lineage(models, lineage)
    return join_lineage(models, lineage)


def build_descent_tree(rows: pd.DataFrame, lengths: str = EQUAL) -> Tree:
    """The tree of rows with model_id, parent, heritage, family, and share, kind, year and lengths
    where they are."""
    held, notes = _fill_lengths(rows, lengths)
    scratch = rows["parent"] == ""
    places = rows[scratch].drop_duplicates("model_id")
    lab = places["heritage"].where(places["heritage"] != "", NOWHERE)
    family = _place_families(places, lab)
    tops = {(name, ROOT, LAB) for name in lab}
    for inner, outer in zip(family, lab, strict=True):
        if inner != outer:
            tops.add((inner, outer, FAMILY))
    clash = sorted({ROOT, *family, *lab}.intersection(rows["model_id"]))
    if clash:
        raise DataError(
            "a model is called as a lab or a family is",
            got=", ".join(clash[:5]),
            next_step="rename the lab or the family",
        )
    place_of = dict(zip(places["model_id"], family, strict=True))
    parent = rows["parent"].mask(scratch, rows["model_id"].map(place_of))
    columns = ["name", "parent", "kind", "share", "length"]
    below = rows.assign(name=rows["model_id"], parent=parent, length=held)[columns]
    above = pd.DataFrame([(ROOT, "", ""), *sorted(tops)], columns=columns[:3])
    above["length"] = 1.0 if lengths == EQUAL else float(held.median())
    above["share"] = np.nan
    edges = pd.concat([above, below], ignore_index=True)
    made = Tree.build(edges, unit=lengths, notes=notes)
    _check_years(rows)
    return made


def _read_user_rows(table: pd.DataFrame, data: str | Path | None) -> pd.DataFrame:
    """Rows of a user's table, one a model and parent, and of the package's for parents that it
    lacks."""
    table = read_frame(table)
    if "model_id" not in table:
        allowed = "model_id and, where known, heritage, family, parent, share, kind, year"
        got = join_some(table.columns, "model_id")
        step = call("tree", Code(_suggest_names(table)))
        raise UsageError("no column model_id", got=got, allowed=allowed, next_step=step)
    texts = ("parent", "kind", "heritage", "family")
    numbers = ("share", "year")
    check_single_values(table, "model_id", *texts)
    keys = ["model_id", "parent"] if "parent" in table else ["model_id"]
    rows = table.drop_duplicates(keys).reset_index(drop=True)
    for label in texts:
        rows[label] = rows[label].fillna("").astype(str) if label in rows else ""
    for label in numbers:
        rows[label] = read_known_numbers(rows, label) if label in rows else np.nan
    there = {"", *rows["model_id"]}
    lacking = set(rows["parent"]) - there
    if lacking:
        held = read_descent(data)
        of_lacking = select_rows(held, model_id=lacking)
        while new := set(of_lacking["parent"]) - lacking - there:
            lacking |= new
            of_lacking = select_rows(held, model_id=lacking)
        rows = pd.concat([rows, of_lacking], ignore_index=True)
    return rows


def _suggest_names(table: pd.DataFrame) -> str:
    """The table with the user's columns under our names, as far as they are known."""
    names = list(map(str, table))
    guessed = {guess_column(ours, names): ours for ours in ("model_id", "heritage", "family")}
    renamed = drop_names(guessed, ("",))
    if "model_id" not in renamed.values():
        return f"df.rename(columns={{MODELS: {write_value('model_id')}}})"
    return f"df.rename(columns={write_value(renamed)})"


def _read(source: str | Path) -> Tree | pd.DataFrame:
    text = str(source)
    if isinstance(source, str) and ";" in text and "(" in text:
        return read(text)
    path = Path(source)
    try:
        if path.suffix.lower() in NEWICK:
            return read(path.read_text(), path)
        return pd.read_csv(path)
    except OSError as error:
        raise UsageError(
            "no such tree",
            got=text[-100:],
            allowed="a table, a CSV file, a file .nwk, or text such as (A:1,B:1)root;",
        ) from error


def _fill_lengths(rows: pd.DataFrame, lengths: str) -> tuple[pd.Series, list[str]]:
    """Length of every row's branch, and what was filled in."""
    if lengths == EQUAL:
        return pd.Series(1.0, index=rows.index), []
    if lengths not in rows or not pd.api.types.is_numeric_dtype(rows[lengths]):
        known = [*LENGTHS]
        for label in rows:
            is_number = pd.api.types.is_numeric_dtype(rows[label])
            if is_number and label not in {"share", "year", *known}:
                known.append(str(label))
        raise build_unknown_error("no such branch lengths", lengths, known)
    held = rows[lengths].astype("float64")
    lacking = held.isna()
    if lacking.all():
        raise UsageError(
            "no branch has such a length", got=lengths, next_step="take lengths='equal'"
        )
    if not lacking.any():
        return held, []
    share = f"{int(lacking.sum())} of {len(rows)} branches"
    note = f"{lengths} of {share} are not stated: the median of the others"
    return held.fillna(held.median()), [note]


def _place_families(places: pd.DataFrame, lab: pd.Series) -> list[str]:
    """Node that each model without parents hangs on; a family called as its lab, or none, is the
    lab itself."""
    placed: list[str] = []
    for inner, outer in zip(places["family"], lab, strict=True):
        placed.append(outer if inner in {"", outer} else f"{outer}: {inner}")
    return placed


def _check_years(rows: pd.DataFrame) -> None:
    """DataError where a child is older than its parent, by year of release."""
    if "year" not in rows:
        return
    year = rows.dropna(subset="year").drop_duplicates("model_id").set_index("model_id")["year"]
    of_parent = rows["parent"].map(year).astype("float64")
    late = of_parent > rows["model_id"].map(year).astype("float64")
    if late.any():
        model, parent = rows.loc[late, ["model_id", "parent"]].iloc[0]
        years = f"{model} of {year[model]:.0f}, its parent {parent} of {year[parent]:.0f}"
        raise DataError(
            "a child is older than its parent",
            where=model,
            got=years,
            next_step="correct the year or the parent of one of them",
        )


LEAST = 3
ROOT_NODE = "root"
JOINT = "joint"
Branch = tuple[str, str, float]
"""Two nodes and the length between them."""


def neighbour_joining(distances: pd.DataFrame, *, root: str | None = None) -> Tree:
    """Build the tree of models whose distances are given, every model a tip.

    A negative branch becomes 0 and its neighbour shorter by as much.

    Parameters
    ----------
    distances : DataFrame
        Models × models, symmetric, 0 on the diagonal, names as index and columns;
        `weight_distances` and `spectral_angles` make them.
    root : str
        The model that the others come from, such as the base; by default the middle of the longest
        path.

    Returns
    -------
    Tree
        Branches have the unit of the distances.

    Raises
    ------
    UsageError
        For fewer than 3 models, distances that are not symmetric, missing, below 0 or all 0, and a
        root that is none of the models.

    References
    ----------
    Kuhner and Felsenstein 1994, doi:10.1093/oxfordjournals.molbev.a040126.

    Examples
    --------
    >>> import pandas as pd
    >>> import thermostats
    >>> names = ["base", "chat", "code"]
    >>> apart = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    >>> distances = pd.DataFrame(apart, index=names, columns=names)
    >>> thermostats.neighbour_joining(distances, root="base").newick()
    "((chat:1.0,code:2.0)'joint 1':0.0)base;"
    """
    distances = _read_distances(distances)
    names, d = _check_distances(distances)
    if root is not None and root not in names:
        raise UsageError("no such root", got=root, allowed=", ".join(names))
    branches = _join_neighbours(names, d)
    if root is None:
        root, branches = _find_middle(branches, names)
    edges = _build_edges(branches, root)
    return Tree.build(edges, unit="distance", notes=distances.attrs.get("notes", ()))


def compare_groups(declared: Tree, joined: Tree, models: Collection[str]) -> pd.DataFrame:
    """Which groups of models of a declared tree a joined one has: models, the names of the group;
    size; recovered.

    A group is those at or below a node, or all others: of unrooted trees only the split counts
    (Robinson and Foulds 1981, doi:10.1016/0025-5564(81)90043-2). Groups of one, and of all but one,
    are in every tree and left out.
    """
    names = sorted(models)
    have = set(_collect_groups(joined, names))
    rows = []
    for group in _collect_groups(declared, names):
        rows.append((", ".join(sorted(group)), len(group), group in have))
    return pd.DataFrame(rows, columns=["models", "size", "recovered"])


def _read_distances(distances: pd.DataFrame) -> pd.DataFrame:
    """Distances as pandas has them; rows of other libraries have no names, and are in the order of
    the columns."""
    if isinstance(distances, pd.DataFrame):
        return check_frame(distances)
    frame = read_frame(distances)
    is_square = len(frame) == len(frame.columns)
    return frame.set_axis(frame.columns) if is_square else frame


def _check_distances(distances: pd.DataFrame) -> tuple[list[str], Array]:
    names = list(map(str, distances.columns))
    try:
        d = distances.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "distances are numbers, a row and a column each model",
            got=take_first_line(error),
            allowed="a square table, as weight_distances gives it",
            next_step=call("neighbour_joining", Code("thermostats.weight_distances(FOLDERS)")),
        ) from error
    if list(map(str, distances.index)) != names or len(set(names)) < len(names):
        raise UsageError(
            "rows and columns of distances differ",
            allowed="the same models in one order, each once",
        )
    if len(names) < LEAST:
        raise UsageError("too few models for a tree", got=len(names), allowed=f"{LEAST} or more")
    if not np.isfinite(d).all() or (d < 0).any() or np.diagonal(d).any() or not np.allclose(d, d.T):
        allowed = "finite numbers of at least 0, the same both ways, 0 from a model to itself"
        raise UsageError("these are no distances", allowed=allowed)
    if not d.any():
        raise UsageError(
            "no tree", got="models none of which differs from another", allowed="a distance above 0"
        )
    return names, d.copy()


def _join_neighbours(names: Sequence[str], d: Array) -> list[Branch]:
    """Branches of the unrooted tree."""
    left = list(names)
    branches = list[Branch]()
    while (n := len(left)) > LEAST:
        total = d.sum(axis=1)
        q = (n - 2) * d - total[:, None] - total
        np.fill_diagonal(q, np.inf)
        i, j = divmod(int(q.argmin()), n)
        apart = d[i, j]
        imbalance = (total[i] - total[j]) / (2 * (n - 2))
        joint = _name_node(len(branches) // 2 + 1, names)
        branches += _build_pair(left[i], left[j], joint, apart / 2 + imbalance, apart)
        rest = [k for k in range(n) if k not in {i, j}]
        new = (d[i, rest] + d[j, rest] - apart) / 2
        kept = d[np.ix_(rest, rest)]
        d = np.block([[kept, new[:, None]], [new, np.zeros(1)]])
        left = [*(left[k] for k in rest), joint]
    last = _name_node(len(branches) // 2 + 1, names)
    a = d[0, 1]
    b = d[0, 2]
    c = d[1, 2]
    doubled = (a + b - c, a + c - b, b + c - a)
    for name, twice in zip(left, doubled, strict=True):
        branches.append((name, last, max(float(twice / 2), 0.0)))
    return branches


def _name_node(number: int, names: Sequence[str]) -> str:
    name = f"{JOINT} {number}"
    while name in names:
        name += "′"
    return name


def _build_pair(first: str, second: str, joint: str, above: float, apart: float) -> list[Branch]:
    """Branches of two neighbours, together as long as they are apart, neither negative."""
    apart = max(apart, 0.0)
    of_first = min(max(above, 0.0), apart)
    of_second = apart - of_first
    return [(first, joint, float(of_first)), (second, joint, float(of_second))]


def _list_neighbours(branches: Sequence[Branch]) -> dict[str, dict[str, float]]:
    neighbours: dict[str, dict[str, float]] = {}
    for a, b, length in branches:
        neighbours.setdefault(a, {})[b] = length
        neighbours.setdefault(b, {})[a] = length
    return neighbours


def _build_edges(branches: Sequence[Branch], root: str) -> pd.DataFrame:
    """Edges of the tree that hangs on one of its nodes."""
    neighbours = _list_neighbours(branches)
    rows = [(root, "", 0.0)]
    seen = {root}
    for name, _, _ in rows:
        new = drop_names(neighbours[name], seen)
        seen.update(new)
        rows += [(other, name, length) for other, length in new.items()]
    return pd.DataFrame(rows, columns=["name", "parent", "length"])


def _find_middle(branches: Sequence[Branch], names: Sequence[str]) -> tuple[str, list[Branch]]:
    """A node of its own amid the longest path between models, and the branches with it."""
    first, _ = _find_farthest(branches, names[0], names)
    _, path = _find_farthest(branches, first, names)
    half = path[-1][1] / 2
    (near, at), (far, end) = next(
        (before, after) for before, after in pairwise(path) if after[1] >= half
    )
    root = ROOT_NODE if ROOT_NODE not in names else _name_node(0, names)
    rest = [branch for branch in branches if {branch[0], branch[1]} != {near, far}]
    rest += [(near, root, half - at), (far, root, end - half)]
    return root, rest


def _find_farthest(
    branches: Sequence[Branch], start: str, names: Sequence[str]
) -> tuple[str, list[tuple[str, float]]]:
    """The model farthest from one, and the nodes on the way with their distances from it."""
    edges = _build_edges(branches, start)
    above = dict(zip(edges["name"], edges["parent"], strict=True))
    far: dict[str, float] = {"": 0.0}
    for name, parent, length in edges.itertuples(index=False):
        far[name] = far[parent] + length
    end = max(names, key=lambda name: far[name])
    path = [end]
    while path[-1] != start:
        path.append(above[path[-1]])
    return end, [(name, far[name]) for name in reversed(path)]


def _collect_groups(tree: Tree, names: Sequence[str]) -> list[frozenset[str]]:
    """Groups of the models at or below every node, each once, as the side of the split without the
    first model."""
    below: list[set[str]] = []
    for name in tree.names:
        below.append({name} & set(names))
    for i in range(len(tree) - 1, 0, -1):
        for parent in tree.parents[i]:
            below[parent] |= below[i]
    sides: dict[frozenset[str], None] = {}
    for group in below:
        side = set(names) - group if names[0] in group else group
        if 2 <= len(side) <= len(names) - 2:
            sides[frozenset(side)] = None
    return list(sides)
