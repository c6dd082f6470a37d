"""Declared causal graphs: what is independent of what, and which sets of causes have to be held fixed.

x and y are d-separated by Z where Z separates them in the moral graph of the ancestors of x, y and Z (Lauritzen et al.
1990, doi:10.1002/net.3230200503). Z is a back-door set of x for y if no member descends from x and Z separates x from y
once the arrows out of x are taken away (Pearl 2009, Causality, definition 3.3.1, doi:10.1017/CBO9780511803161). Where
there is one, all ancestors of x and y that may be held fixed are one (van der Zander, Liśkiewicz and Textor 2014).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from thermostats.errors import DataError, unknown


@dataclass(frozen=True)
class CausalGraph:
    """Nodes with their direct causes; no node causes itself."""

    causes: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, arrows: Iterable[tuple[str, str]]) -> CausalGraph:
        """The graph of arrows, cause and effect. Raises DataError where a node is its own cause."""
        pairs = list(arrows)
        nodes = dict.fromkeys(name for pair in pairs for name in pair)
        graph = cls({name: frozenset(cause for cause, effect in pairs if effect == name) for name in nodes})
        circular = [name for name in nodes if name in graph.above(graph.causes[name])]
        if circular:
            raise DataError("a cause is its own effect", got=", ".join(circular), allowed="arrows without a circle")
        return graph

    def above(self, names: Iterable[str]) -> frozenset[str]:
        """Some nodes and all that causes them, directly or not."""
        seen, waiting = set[str](), list(names)
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += self.causes[name]
        return frozenset(seen)

    def effects(self, name: str) -> frozenset[str]:
        """All that a node causes, directly or not."""
        return frozenset(other for other in self.causes if other != name and name in self.above([other]))

    def separated(self, x: str, y: str, fixed: Collection[str] = ()) -> bool:
        """Whether x and y are independent with some nodes held fixed in every distribution that the graph allows."""
        self._check(x, y, *fixed)
        beside = self._moral(self.above([x, y, *fixed]))
        reached, waiting = set(fixed), [x]
        while waiting:
            if (name := waiting.pop()) not in reached:
                reached.add(name)
                waiting += beside[name]
        return y in fixed or y not in reached

    def back_door(self, x: str, y: str, measured: Collection[str] | None = None) -> list[frozenset[str]]:
        """The smallest back-door sets of x for y; empty where there is none.

        measured: nodes that may be held fixed, all by default.
        """
        self._check(x, y)
        cut = CausalGraph({name: parents - {x} for name, parents in self.causes.items()})
        may = [name for name in self.causes if name in cut.above([x, y]) - {x, y} - self.effects(x)]
        may = [name for name in may if measured is None or name in measured]
        if not cut.separated(x, y, may):
            return []
        for size in range(len(may) + 1):
            if sets := [frozenset(z) for z in combinations(may, size) if cut.separated(x, y, z)]:
                return sets
        raise AssertionError("all that may be held fixed is a set too")

    def _moral(self, names: Collection[str]) -> dict[str, set[str]]:
        """Neighbours among nodes once arrows lose their heads and causes of one effect are joined."""
        beside: dict[str, set[str]] = {name: set() for name in names}
        for name in names:
            for a, b in combinations([name, *self.causes[name]], 2):
                beside[a].add(b)
                beside[b].add(a)
        return beside

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self.causes:
                raise unknown("no such node", name, self.causes)
