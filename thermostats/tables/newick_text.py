"""The text of a tree in Newick's notation: (A:1,(B:1,C:1)inner:2)root;"""

from __future__ import annotations

import re
from collections.abc import Sequence

PLAIN = re.compile(r"[^\s(),:;'\[\]]+")


def newick_text(names: Sequence[str], parents: Sequence[int], lengths: Sequence[float]) -> str:
    """Nodes in an order in which parents come before their children, the root first; its length is not written."""
    parts: list[list[str]] = [[] for _ in names]
    for i in range(len(names) - 1, 0, -1):
        parts[parents[i]].append(f"{_inner(parts[i])}{_quoted(names[i])}:{float(lengths[i])!r}")
        parts[i] = []
    return f"{_inner(parts[0])}{_quoted(names[0])};"


def _inner(parts: Sequence[str]) -> str:
    return f"({','.join(reversed(parts))})" if parts else ""


def _quoted(name: str) -> str:
    return name if PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"
