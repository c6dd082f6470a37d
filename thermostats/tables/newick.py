"""Trees read from Newick's notation: (A:1,(B:1,C:1)inner:2)root;"""

from __future__ import annotations

import re

import pandas as pd

from thermostats.errors import DataError
from thermostats.tables.tree import Tree

PART = re.compile(r"\s*(?:\[[^\]]*\]\s*)*('(?:[^']|'')*'|[(),:;]|[^\s(),:;'\[\]]+(?: +[^\s(),:;'\[\]]+)*)")
AS_GIVEN = "as given"


def read(text: str, where: object = "") -> Tree:
    """The tree of a text in Newick's notation; nodes without a name are called node 1, node 2, …

    Branches without a length, all or none, are equal. Raises DataError for brackets that do not match, names that occur
    twice, several trees, lengths that are no numbers.
    """
    names, parents, lengths = [""], [-1], [float("nan")]
    at, place, ended, before = 0, 0, False, ""
    while place < len(text.rstrip()):
        match = PART.match(text, place)
        if match is None:
            raise _wrong("cannot be read", text, place, where)
        part, place = match.group(1), match.end()
        if ended:
            raise DataError("more than one tree", where=where, got=text[place - 10 : place + 20], allowed="one tree")
        if part in {"(", ","}:
            at = at if part == "(" else parents[at]
            if at < 0 or (part == "(" and before not in {"", "(", ","}):
                raise _wrong("brackets do not match", text, place, where)
            names.append("")
            parents.append(at)
            lengths.append(float("nan"))
            at = len(names) - 1
        elif part == ")":
            at = parents[at]
            if at < 0:
                raise _wrong("brackets do not match", text, place, where)
        elif part == ";":
            ended = True
            if at != 0:
                raise _wrong("brackets do not match", text, place, where)
        elif part != ":":
            _label(names, lengths, at, part, before, text, place, where)
        before = part
    if not ended:
        raise DataError("a tree ends with a semicolon", where=where, got=text.strip()[-20:], next_step="add a ;")
    return _tree(names, parents, lengths, where)


def _label(
    names: list[str], lengths: list[float], at: int, part: str, before: str, text: str, place: int, where: object
) -> None:
    if before == ":":
        try:
            lengths[at] = float(part)
        except ValueError:
            raise _wrong("a branch length is no number", text, place, where) from None
    elif names[at]:
        raise _wrong("two names of one node", text, place, where)
    else:
        names[at] = part[1:-1].replace("''", "'") if part.startswith("'") else part


def _tree(names: list[str], parents: list[int], lengths: list[float], where: object) -> Tree:
    stated = [name for name in names if name]
    if len(set(stated)) < len(stated):
        twice = pd.Series(stated)[pd.Series(stated).duplicated()].iloc[0]
        raise DataError("a name twice in one tree", where=where, got=twice, allowed="every node by its own name")
    number, taken = 0, set(stated)
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
            "a branch without a length", where=where, got=lacking, allowed="a length on every branch, or none"
        )
    edges = pd.DataFrame(
        {
            "name": names,
            "parent": ["", *(names[parent] for parent in parents[1:])],
            "length": [0.0, *(length.fillna(1.0))],
        }
    )
    return Tree.of(edges, unit="equal" if equal else AS_GIVEN)


def _wrong(what: str, text: str, place: int, where: object) -> DataError:
    near = text[max(0, place - 20) : place + 10]
    return DataError(f"no tree in Newick's notation: {what}", where=where, got=f"… {near} …", allowed="(A:1,B:1)root;")
