"""The worst world of a rule: nuisance parameters are tried within bounds, and the worst point is simulated anew.

A claim declares where to look, next to its worlds:

    Trial(rows, test, worlds=WORLDS, searches=searches_among(WORLDS, along="x"))

`make worlds` then tries every corner of the bounds and a Sobol sequence between them, each with errors of a kind in
turn, a few studies each; the worst few with errors of every kind, more studies each; and the worst of those with
fresh seeds (`Search.effort` says how many; near the bar there are as many as in a full search). That is one more row
of `data/worlds.csv`, whose column `point` has the parameters.
Where it errs in more than `error_rates.WORST` of studies, that side of the rule is withheld.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import qmc

from thermostats.claims.error_rates import WORST
from thermostats.claims.question import Question
from thermostats.claims.simulation import judged, plain, simulated
from thermostats.claims.verdict import AGAINST, SUPPORTED, Verdict
from thermostats.claims.worlds import FULL, Search, World

LONGER = 10
"""Times that the worst point may take as long as another world."""
MOST_CORNERS = 32
"""Corners that are tried."""
WORDS = ("kind", "like")
"""What of a point is no number."""
Point = Mapping[str, Any]


def points(search: Search) -> Iterator[Point]:
    """Corners of the bounds, their middle, points between them, each with every signal; kinds of errors in turn."""
    names, (low, high) = list(search.bounds), np.array(list(search.bounds.values()), dtype=np.float64).T.reshape(2, -1)
    corners = [*itertools.islice(itertools.product((0.0, 1.0), repeat=len(names)), MOST_CORNERS)]
    between = qmc.Sobol(max(len(names), 1), seed=1).random(search.effort.between)[:, : len(names)]
    places = np.vstack([np.array(corners).reshape(len(corners), -1), np.full((1, len(names)), 0.5), between])
    for place, values in enumerate(dict.fromkeys(map(tuple, low + places * (high - low)))):
        point = {name: float(f"{value:.3g}") for name, value in zip(names, values, strict=True)}
        for number, signal in enumerate(search.signals or ("",)):
            kind = search.kinds[(place + number) % len(search.kinds)]
            yield {**point, **({"like": signal} if signal else {}), "kind": kind}


def errs(question: Question, rows: pd.DataFrame, world: World, n: int, seed: str) -> float:
    """Share of n studies with the verdict that is false in a world."""
    primary, trial = question.on_trial()
    rng = np.random.default_rng(zlib.crc32(f"{question.key} {len(rows)} {seed}".encode()))
    false, rows = false_in(world), plain(rows)
    verdicts = (judged(primary, trial, world.change(rows, rng), false)[0] for _ in range(n))
    return sum(verdict == false for verdict in verdicts) / n


def false_in(named: World | Search) -> Verdict:
    """The verdict that is false there, the only one of which a search has a rate."""
    return AGAINST if named.holds else SUPPORTED


def worst(question: Question, rows: pd.DataFrame, search: Search) -> Point:
    """The point within the bounds at which the rule errs most."""

    def rated(tried: list[Point], n: int) -> list[Point]:
        rates = [errs(question, rows, search.world(**point), n, f"{search.id} {text(point)} {n}") for point in tried]
        return [tried[place] for place in np.argsort(-np.array(rates), kind="stable")]

    effort = search.effort
    best = rated(list(points(search)), effort.few)[: effort.best]
    return rated([{**point, "kind": kind} for point in best for kind in search.kinds], effort.more)[0]


def searched(question: Question, rows: pd.DataFrame, search: Search, seconds: float = math.inf) -> dict[str, Any]:
    """The row of the table for a search: the rate of the false verdict at its worst point.

    A rate within two standard errors of the bar is made of as many studies as a full search has.
    """
    point, false = worst(question, rows, search), false_in(search)
    world = replace(search.world(**point), id=f"{search.id} {text(point)}", declared=False)
    row = simulated(question, rows, world, search.effort.fresh, LONGER * seconds, false)
    rate = row["supported" if false == SUPPORTED else "not_supported"]
    if abs(rate - WORST) < 2 * (rate * (1 - rate) / row["simulations"]) ** 0.5:
        row = simulated(question, rows, world, FULL.fresh, LONGER * seconds, false)
    return {**row, "world": search.id, "point": text(point), "digest": question.digest(search)}


def text(point: Point) -> str:
    """A point as the table has it: `ar=0.6; mean=0.37; kind=t3`."""
    return "; ".join(f"{name}={value}" for name, value in point.items())


def world_at(search: Search, stated: str) -> World:
    """The world of a row of the table, by its column `point`."""
    named = dict(part.split("=", 1) for part in stated.split("; "))
    return search.world(**{name: value if name in WORDS else float(value) for name, value in named.items()})
