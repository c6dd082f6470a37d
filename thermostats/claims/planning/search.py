"""Which candidates, together, tell most about an effect within a budget: greedy choice, then
exchanges, also from what a smaller budget gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from thermostats.claims.planning.contrast import DesignContrast

Chosen = frozenset[int]
NONE: Chosen = frozenset()
ROUNDS = 8
"""Rounds of exchanges at most."""
LONG = 25
"""Candidates of most gain that are tried in an exchange."""
SMALLER = 0.4
"""Share of a budget within which is searched first, and within that share of it, and so on."""
SMALL = 1e-3
"""Relative gain of information below which less to download is preferred."""


@dataclass(frozen=True)
class Budget:
    """What a study to come may take."""

    gigabytes: float
    models: int


@dataclass(frozen=True)
class Pool:
    """Candidates, the rows that each would add, and what has to be downloaded for it."""

    contrast: DesignContrast
    """Of the rows at hand, which come first, and of those that candidates add."""
    at_hand: int
    files: tuple[frozenset[str], ...]
    """Models to download for each candidate's row: itself, and its base where rows are pairs."""
    gigabytes: dict[str, float]
    together: tuple[Chosen, ...] = ()
    """Candidates that tell something only together, such as models of one family."""
    least: int = 0
    """Rows without which there is no test."""
    groups: tuple[tuple[Chosen, Chosen], ...] = ()
    """Of each group that the rows at hand lack its candidates, and those without which none of it
    is read."""

    def shortfall(self, chosen: Chosen) -> int:
        """Rows that a choice still lacks for a test."""
        return max(0, self.least - self.at_hand - len(chosen))

    def list_models(self, chosen: Chosen) -> frozenset[str]:
        """What a choice downloads."""
        return frozenset[str]().union(*(self.files[place] for place in chosen))

    def narrow(self, chosen: Chosen) -> float:
        """Share by which a choice makes the effect's interval narrower; NaN where there is none."""
        before = self.information(NONE)
        after = self.information(chosen)
        if not (before > 0 and after > 0):
            return math.nan
        return 1 - math.sqrt(before / after)

    def cost(self, chosen: Chosen) -> tuple[float, int]:
        """Gigabytes and models that a choice downloads."""
        models = self.list_models(chosen)
        return sum(self.gigabytes[model] for model in sorted(models)), len(models)

    def fits(self, chosen: Chosen, budget: Budget) -> bool:
        """Whether a choice lies within a budget, and all of it is read."""
        return self.affords(chosen, budget) and self.reads(chosen)

    def affords(self, chosen: Chosen, budget: Budget) -> bool:
        """Whether a choice lies within a budget."""
        gigabytes, models = self.cost(chosen)
        return gigabytes <= budget.gigabytes and models <= budget.models

    def reads(self, chosen: Chosen) -> bool:
        """Whether a choice has of every group that it touches those without which none is read."""
        return all(least <= chosen for own, least in self.groups if chosen & own)

    def information(self, chosen: Chosen) -> float:
        """Precision of the effect with the rows at hand and those of a choice."""
        places = [*range(self.at_hand), *(self.at_hand + place for place in sorted(chosen))]
        if not places:
            return 0.0
        return self.contrast.part(np.array(places, dtype=np.int64)).precision()


class SetSearch:
    """The best choices that were met, each computed once."""

    def __init__(
        self, pool: Pool, budget: Budget, known: dict[Chosen, float] | None = None
    ) -> None:
        self.pool, self.budget = pool, budget
        self._known: dict[Chosen, float] = {} if known is None else known

    def value(self, chosen: Chosen) -> float:
        """Information of a choice."""
        if chosen not in self._known:
            self._known[chosen] = self.pool.information(chosen)
        return self._known[chosen]

    def best_sets(self, count: int = 3) -> list[Chosen]:
        """The best choices from several starts, the best first; none where no candidate fits.

        A start is greedy by information, or by information for each gigabyte, or by gigabytes alone
        where rows are too few for a test, or the best within a smaller budget, or leaves out the
        best candidate of a choice before, so that the sets differ. So more to spend never tells
        less, and what a smaller budget gives is among the choices where it tells as much.
        """
        every = frozenset(range(len(self.pool.files)))
        found = self._search_starts()
        found.sort(key=self._rank)
        for _ in range(count):
            best = found[0]
            out = frozenset(sorted(best, key=lambda place: self.value(best - {place}))[:1])
            rest = every - out - frozenset().union(*(x - best for x in found))
            found.append(self.exchange(self.greedy(rest, False), rest))
        distinct = sorted({chosen for chosen in found if chosen}, key=self._rank)
        return distinct[:count]

    def _search_starts(self) -> list[Chosen]:
        """Choices after exchanges from every start, and the best within a smaller budget as it
        is."""
        every = frozenset(range(len(self.pool.files)))
        starts = [self.greedy(every, per_gigabyte) for per_gigabyte in (False, True)]
        if self.pool.shortfall(NONE):
            starts.append(self.smallest())
        smaller = self._search_smaller()
        made = []
        for start in (*starts, *smaller):
            made.append(self.exchange(start, every))
        return [*made, *smaller]

    def _search_smaller(self) -> list[Chosen]:
        """The best choice within `SMALLER` of the budget; none where no candidate fits."""
        gigabytes = self.budget.gigabytes * SMALLER
        budget = replace(self.budget, gigabytes=gigabytes)
        every = frozenset(range(len(self.pool.files)))
        if not any(self.pool.fits(step, budget) for step in self._list_steps(NONE, every)):
            return []
        search = SetSearch(self.pool, budget, self._known)
        return [min(search._search_starts(), key=search._rank)]

    def greedy(self, among: Chosen, per_gigabyte: bool) -> Chosen:
        """Candidates added one by one, or a few that belong together, as long as they fit and
        add."""
        chosen = NONE
        while True:
            steps = list(self._additions(chosen, among))
            gains = [self._gain(chosen, step, per_gigabyte) for step in steps]
            if not gains or max(gains) <= 0:
                return chosen
            chosen = chosen | steps[int(np.argmax(gains))]

    def smallest(self) -> Chosen:
        """The candidates that download least, as many as a test needs, as far as they fit."""
        chosen = NONE
        every = frozenset(range(len(self.pool.files)))
        while self.pool.shortfall(chosen):
            more = (chosen | step for step in self._list_steps(chosen, every))
            fitting = [each for each in more if self._fits(each)]
            if not fitting:
                break
            chosen = min(fitting, key=lambda each: self.pool.cost(each)[0])
        return chosen

    def _fits(self, chosen: Chosen) -> bool:
        return self.pool.fits(chosen, self.budget)

    def exchange(self, chosen: Chosen, among: Chosen) -> Chosen:
        """A choice after exchanges, one or two out and some in, until none is better."""
        for _ in range(ROUNDS):
            better = min(self._exchanges(chosen, among), key=self._rank, default=chosen)
            if self._rank(better) >= self._rank(chosen):
                return chosen
            chosen = better
        return chosen

    def _list_steps(self, chosen: Chosen, among: Chosen) -> list[Chosen]:
        """Candidates, and those that belong together, of which a choice lacks some."""
        singles = (frozenset({place}) for place in sorted(among - chosen))
        groups = (group for group in self.pool.together if group <= among and group - chosen)
        return [*singles, *groups]

    def _additions(self, chosen: Chosen, among: Chosen) -> Iterator[Chosen]:
        steps = self._list_steps(chosen, among)
        return (step for step in steps if self._fits(chosen | step))

    def _gain(self, chosen: Chosen, step: Chosen, per_gigabyte: bool) -> float:
        before = self.value(chosen)
        gain = self.value(chosen | step) - before
        if gain <= SMALL * before * 1e-3:
            return 0.0
        before_gigabytes = self.pool.cost(chosen)[0]
        gigabytes = self.pool.cost(chosen | step)[0] - before_gigabytes
        models = max(len(step - chosen), 1)
        return gain / max(gigabytes, 0.1) if per_gigabyte else gain / models

    def _exchanges(self, chosen: Chosen, among: Chosen) -> Iterator[Chosen]:
        steps = list(self._additions_alone(chosen, among))
        pairs = [a | b for a, b in combinations(steps[: LONG // 2], 2)]
        outs = [frozenset(out) for size in (0, 1, 2) for out in combinations(sorted(chosen), size)]
        shared = (chosen & own for own, _ in self.pool.groups)
        outs += [out for out in shared if len(out) > 2]
        for out in outs:
            kept = chosen - out
            more = (*steps, *pairs) if out else steps
            changed = (kept | step for step in more)
            yield from (made for made in changed if self._fits(made))
            if out and self._fits(kept):
                yield kept

    def _additions_alone(self, chosen: Chosen, among: Chosen) -> list[Chosen]:
        """What could be added, the most telling first; of equal ones those that download least."""
        budget = self.budget
        fitting = []
        for step in self._list_steps(chosen, among):
            if self.pool.affords(step, budget) and self.pool.reads(chosen | step):
                fitting.append(step)
        return sorted(fitting, key=lambda step: self._rank(chosen | step))[:LONG]

    def _rank(self, chosen: Chosen) -> tuple[float, float, float]:
        """Less is better: rows that a test lacks, information in steps of a thousandth, then what
        is downloaded."""
        value = self.value(chosen)
        steps = round(np.log(value) / SMALL) if value > 0 else -np.inf
        return (self.pool.shortfall(chosen), -steps, self.pool.cost(chosen)[0])
