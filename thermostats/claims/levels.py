"""Attained levels of a rule's sides, in the data and in simulated worlds.

The attained level a of a side is the smallest nominal level at which the rule gives it
(`Condition.level`). It orders studies; what it is worth is simulated. Where one unit carries the
verdict, a is a quarter of the largest level without a unit, where that is more. α* of a side is the
largest x with P(a ≤ x) ≤ 5% in every world in which that side is false.

`calibrate_rule` makes the rows of `data/worlds.csv` for one rule and design. Whether a side is
false in a world is computed from the rule's own numbers in large samples of it (`count_truths`);
the size at which that changes is found by bisection.
"""

from __future__ import annotations

import itertools
import math
import time
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.claims.noise import Random
from thermostats.claims.question import Question, Test, Trial, convert_numpy
from thermostats.claims.result import AGAINST, SUPPORTED, Result, TooFew, Verdict
from thermostats.claims.rule import ALPHA, NEVER, Condition, Decide, Given, Rule
from thermostats.claims.worlds import CLAIMED, NULL, Array, Point, World, Worlds, take_half
from thermostats.errors import DataError, UsageError
from thermostats.modelling.planned import WANTED

SIDES = (SUPPORTED, AGAINST)
PLAUSIBLE = "plausible"
HOSTILE = "hostile"
TIPPING = "tipping"
POWER = "power"
WITHOUT = 4
"""Without one unit a side's level may be so many times as large."""
TOLERANCE = 0.05
"""Share of the level allowed without a unit within which a verdict is at the limit."""
MANY = 200
"""Units above which none is left out."""
SAMPLES, MOSTLY, LARGE = 20, 16, 240
"""Large samples of a world, how many of them make a statement true there, and their least rows."""
LARGEST, GROWS = 5000, 4
"""Rows up to which samples grow that leave a statement unclear, and how many times at once."""
STEPS = 6
"""Halvings by which the size is found at which a statement becomes true."""
POINTS = 48
"""Points of a box that are tried with a test that is made study by study, of many rows, or in many
points."""
TOGETHER, ALL = 100, 750
"""Rows, and points with kinds of errors, up to which a test of many studies at once is tried in all
of them."""
WORST = 3
"""Worst worlds of a box that are simulated anew."""
EVERY = 10
"""Studies after which the time is looked at."""
DECIDES = 3
"""Times as many studies of the world that decides: of 4,000 a limit may be met in 6% of others."""
LONGER = 10
"""Times that a worst world may take as long as another of its search."""
LARGER, TRIED = (2, 3, 4, 6, 8, 12, 18), 100
"""How many times as large it is tried, in so many studies."""
BOUNDS = {"bound_05": 0.05, "bound_01": 0.01, "bound_001": 0.001}
"""Columns: the level below which the share of a world's studies lies."""
NAMES = ("model_id", "heritage", "family", "recipe", "pair", "source")
"""Columns of names that make units their own where a study is multiplied."""
TIPPED = ("normal", "lognormal")
"""Kinds of errors for which tipping points are asked."""
NOTHING_RAISED, UNMOVED = "nothing raised", "not up to"
"""How a tipping point begins at which no nuisance is raised, and one that no nuisance reaches."""
DIGITS = 4
"""Figures of a bound."""
WORDS = ("size", "kind")
"""What of a point is no number."""


@dataclass(frozen=True)
class Effort:
    """Studies a world: at first, of the worst points with errors of every kind, and with fresh
    seeds."""

    few: int
    more: int
    fresh: int
    others: int
    """Of the hostile box with fresh seeds, of a tipping point, of power."""


STUDY_BY_STUDY = Effort(20, 40, 600, 200)
AT_ONCE = Effort(200, 600, 4000, 1000)
OF_MANY_ROWS = Effort(50, 100, 2000, 500)
HERE = Effort(20, 30, 400, 150)


@dataclass(frozen=True)
class Attained:
    """How far one side of a rule is met by some rows."""

    level: float
    without: float = 0.0
    """Largest level without one unit."""
    unit: str = ""
    """The unit without which it is so large."""
    value: float | None = None
    """The estimate that heads the result."""
    value_without: float | None = None
    """The same without that unit."""


def measure_attained(
    rule: Rule, trial: Trial | None, rows: pd.DataFrame | None, result: Result, side: Verdict
) -> Attained:
    """The level of a side in a result, and without each unit of its rows; a unit that no test can
    lack is passed over.

    Units are left out only where the level is one at which a side may be given.
    """
    found = Attained(float(rule.level(result, side)), value=result.headline.value)
    if trial is None or rows is None or not trial.unit or found.level > ALPHA:
        return found
    units = rows[trial.unit].drop_duplicates()
    if not 1 < len(units) <= MANY:
        return found
    if isinstance(trial.test, Test):
        rows = convert_numpy(rows)  # as the test would for every unit; of others types are theirs
    for unit in units:
        try:
            rest = trial.test(rows[rows[trial.unit] != unit].reset_index(drop=True))
            without = float(rule.level(rest, side))
        except (
            UsageError,
            TooFew,
        ):  # the rest does not carry the test: nothing is known of the unit
            continue
        if without > found.without:
            value = rest.headline.value
            found = replace(found, without=without, unit=str(unit), value_without=value)
            if without > WITHOUT * ALPHA * (1 + TOLERANCE):
                break
    return found


def simulate_levels(
    question: Question,
    rows: pd.DataFrame,
    world: World,
    n: int,
    seed: str,
    seconds: float = math.inf,
) -> Array:
    """Attained levels of n studies of a world, study × side, units left out; 1 where rows do not
    carry the test.

    Studies of one seed have random numbers in common whatever the world. seconds: after which no
    further one is made.
    """
    rule, trial = question.require_trial()
    outcomes = world.draw(rows, build_random(question, rows, n, seed))
    if trial.many_studies is not None:
        return _measure_many(rule, trial, rows, outcomes)
    made: list[list[float]] = []
    started = time.process_time()
    for study in _generate_studies(rows, outcomes):
        if len(made) % EVERY == EVERY - 1 and time.process_time() - started > seconds:
            break
        made.append(_measure_study(rule, trial, study))
    return np.array(made)


def simulate_side(
    question: Question,
    rows: pd.DataFrame,
    world: World,
    side: Verdict,
    studies: tuple[int, str, float],
    *,
    true: bool,
) -> Array:
    """Attained levels of one side in studies of a world, of n, a seed and at most so many seconds.

    Where statements are about the units at hand (`World.units`), those studies count in which the
    statement is true, or those in which it is false; everywhere else all.
    """
    n, seed, seconds = studies
    made = simulate_levels(question, rows, world, n, seed, seconds)[:, SIDES.index(side)]
    if not world.units:
        return np.asarray(made)
    holds = judge_studies(question, rows, world, n, seed)[side][: len(made)]
    return np.asarray(made[holds == true])


def judge_studies(
    question: Question, rows: pd.DataFrame, world: World, n: int, seed: str
) -> dict[Verdict, NDArray[np.bool_]]:
    """Whether each side's statement is true in each of n studies of a world about units at hand.

    A statement is that of the rule about the outcomes without errors of single rows.
    """
    rule, trial = question.require_trial()
    levels = world.draw_levels(rows, build_random(question, rows, n, seed))
    with catch_warnings():  # without errors of rows a group has no variance; no interval is read
        simplefilter("ignore", RuntimeWarning)
        results = _collect_results(trial, rows, levels)
    held: dict[Verdict, NDArray[np.bool_]] = {}
    for side in SIDES:
        statement = _choose_side(rule, side).statement()
        attained = [np.atleast_1d(statement.attained(result)) for result in results]
        held[side] = np.broadcast_to(np.concatenate(attained) <= ALPHA, n)
    return held


def build_random(question: Question, rows: pd.DataFrame, n: int, seed: str) -> Random:
    """Random numbers of n studies of a rule and design."""
    words = f"{question.key} {len(rows)} {seed}"
    return Random(np.random.default_rng(zlib.crc32(words.encode())), n)


def _generate_studies(rows: pd.DataFrame, outcomes: Mapping[str, Array]) -> Iterator[pd.DataFrame]:
    for study in zip(*outcomes.values(), strict=True):
        yield rows.assign(**dict(zip(outcomes, study, strict=True)))


def _measure_study(rule: Rule, trial: Trial, rows: pd.DataFrame) -> list[float]:
    try:
        result = trial.test(rows)
    except (UsageError, TooFew):
        return [1.0] * len(SIDES)
    sides = [measure_attained(rule, trial, rows, result, side) for side in SIDES]
    return [max(side.level, side.without / WITHOUT) for side in sides]


def measure_levels(question: Question, rows: pd.DataFrame) -> dict[Verdict, float]:
    """Attained levels of both sides on rows as they were measured, units left out."""
    return dict(
        zip(SIDES, _measure_study(*question.require_trial(), convert_numpy(rows)), strict=True)
    )


def _measure_many(
    rule: Rule, trial: Trial, rows: pd.DataFrame, outcomes: Mapping[str, Array]
) -> Array:
    made = _measure_all(rule, trial, rows, outcomes)
    units = rows[trial.unit].unique() if trial.unit else ()
    low = np.flatnonzero((made <= ALPHA).any(axis=1))
    if not 1 < len(units) <= MANY or not low.size:
        return made
    for unit in units:
        kept = (rows[trial.unit] != unit).to_numpy()
        rest = {}
        for name, values in outcomes.items():
            rest[name] = values[low][:, kept]
        try:
            without = _measure_all(rule, trial, rows[kept].reset_index(drop=True), rest)
        except (UsageError, TooFew):
            continue
        made[low] = np.maximum(made[low], without / WITHOUT)
    return made


def _measure_all(
    rule: Rule, trial: Trial, rows: pd.DataFrame, outcomes: Mapping[str, Array]
) -> Array:
    n = len(next(iter(outcomes.values())))
    result = _combine_results(trial, rows, outcomes)
    levels = [np.broadcast_to(rule.level(result, side), n) for side in SIDES]
    return np.stack(levels, axis=1).astype(np.float64)


def _combine_results(trial: Trial, rows: pd.DataFrame, outcomes: Mapping[str, Array]) -> Result:
    """The rule's numbers of all studies as one result, whose parts are arrays; tables are lists of
    rows."""
    assert trial.many_studies is not None  # noqa: S101
    made = trial.many_studies(rows, outcomes)
    tables: dict[str, Any] = {}
    quantities: dict[str, Any] = {}
    for name, part in made.items():
        kept = tables if isinstance(part, list) else quantities
        kept[name] = part
    return Result(quantities=quantities, rows=tables)


def measure_rate(levels: Array, limit: float, *, ties: bool = True) -> float:
    """Share of levels up to a limit, or below it without ties; 0 of none."""
    given = levels <= limit if ties else levels < limit
    return float(given.mean()) if given.size else 0.0


def find_bound(levels: Array, share: float) -> float:
    """The largest x with (#{a < x} + 1)/(n + 1) ≤ share; 0 where even the smallest level is too
    frequent.

    It is rounded down to `DIGITS`, below a level that ties with it: tables keep no more, and a tie
    is not below it.
    """
    allowed = math.floor(share * (len(levels) + 1) + 1e-9) - 1
    x = float(np.sort(levels)[allowed]) if allowed >= 0 else 0.0
    unit = 1.0
    if x > 0:
        unit = 10.0 ** (math.floor(math.log10(x)) + 1 - DIGITS)
    steps = math.floor(x * (1 - 1e-9) / unit)
    return float(f"{steps * unit:.{DIGITS}g}")


def count_truths(question: Question, rows: pd.DataFrame, world: World) -> dict[Verdict, int]:
    """In how many of `SAMPLES` large samples of a world each side's statement holds; from `MOSTLY`
    on it is true.

    The world's own numbers are taken where it has them, and studies of the rows at hand where
    statements are about their units. Samples in which a statement holds now and then grow, up to
    `LARGEST` rows: what then holds in fewer than `MOSTLY`, such as one side of an exact tie, is
    false. Raises DataError where no large sample carries the test.
    """
    rule, trial = question.require_trial()
    if world.units:
        own = judge_studies(question, rows, world, SAMPLES, "own truth")
        return {side: int(held.sum()) for side, held in own.items()}
    statements = {side: _choose_side(rule, side).statement() for side in SIDES}
    known = {}
    for side, statement in statements.items():
        if world.large is not None and _choose_side(rule, side).states is not None:
            known[side] = SAMPLES * statement.holds(world.large)
    if len(known) == len(SIDES):
        return known
    what, *others = trial.averaged or (trial.larger,)
    times = max(4, math.ceil(LARGE / len(rows)))
    whole = rows
    for other in others:
        whole = repeat_rows(other, whole, times)
    held = _count_held(question, rows, world, repeat_rows(what, whole, times))
    unclear = []
    for side in SIDES:
        if _choose_side(rule, side).states and side not in known:
            unclear.append(side)
    while any(SAMPLES - MOSTLY < held[side] < MOSTLY for side in unclear):
        times *= GROWS
        if trial.many_studies is None or times * len(whole) > LARGEST:
            break
        held = _count_held(question, rows, world, repeat_rows(what, whole, times))
    return held | known


def _count_held(
    question: Question, rows: pd.DataFrame, world: World, many: pd.DataFrame
) -> dict[Verdict, int]:
    """In how many of `SAMPLES` studies of many rows each side's statement holds."""
    rule, trial = question.require_trial()
    trial = replace(trial, test=trial.estimand or trial.test)
    outcomes = world.fix_design(rows).draw(many, build_random(question, rows, SAMPLES, "large"))
    results = _collect_results(trial, many, outcomes)
    if not results:
        raise DataError(
            "the truth of a world cannot be computed",
            where=question.id,
            got=f"{world.words}: no sample of {len(many)} rows carries the test",
            allowed="a test that a larger study of the same kind carries, or `World.large`",
        )
    held = dict[Verdict, int]()
    for side in SIDES:
        statement = _choose_side(rule, side).statement()
        levels = np.concatenate([np.atleast_1d(statement.attained(r)) for r in results])
        held[side] = round(SAMPLES * float((levels <= ALPHA).mean()))
    return held


def _collect_results(
    trial: Trial, rows: pd.DataFrame, outcomes: Mapping[str, Array]
) -> list[Result]:
    """The rule's numbers of some studies; of those that do not carry the test none."""
    if trial.many_studies is not None:
        return [_combine_results(trial, rows, outcomes)]
    made = []
    for study in _generate_studies(rows, outcomes):
        with suppress(UsageError, TooFew):
            made.append(trial.test(study))
    return made


def find_false_sizes(question: Question, rows: pd.DataFrame) -> dict[Verdict, list[str]]:
    """Sizes of a family, by name, at which each side's statement is false, with the boundary where
    it becomes true.

    Raises DataError for a side that is false nowhere.
    """
    rule = question.require_trial()[0]
    worlds = require_worlds(question)
    at = {}
    for name in (NULL, CLAIMED, *worlds.others):
        at[name] = count_truths(question, rows, worlds.build_world(name))
    sizes: dict[Verdict, list[str]] = {}
    for side in SIDES:
        condition = _choose_side(rule, side)
        true = {}
        for name, held in at.items():
            true[name] = held[side] >= MOSTLY
        sizes[side] = [name for name, is_true in true.items() if not is_true]
        turns = _find_turn(worlds, true)
        if worlds.graded and condition.states is not None and turns:
            part = _find_boundary(question, rows, side, true[NULL], turns)
            sizes[side] += [f"{part:g}"] if part not in turns else []
        if not sizes[side] and condition is not NEVER:
            raise refuse_true_worlds(question, side)
    return sizes


def refuse_true_worlds(question: Question, side: Verdict) -> DataError:
    """What is wrong with worlds in all of which a side is true."""
    return DataError(
        "a box that leaves no false world",
        where=question.id,
        got=f"“{side}” is true in every world",
        allowed="a null, or another size, at which it is false",
    )


def _find_turn(worlds: Worlds, true: Mapping[str, bool]) -> tuple[float, float] | None:
    """Parts of the way from the null to what is claimed between which a side's truth turns: on it,
    or beyond it at another size that is a number; None where it does not."""
    if true[NULL] != true[CLAIMED]:
        return 0.0, 1.0
    for name, size in worlds.others.items():
        if true[name] != true[NULL] and isinstance(size, float):
            part = (size - worlds.null) / (worlds.claimed - worlds.null)
            if part > 1:
                return 1.0, part
    return None


def _find_boundary(
    question: Question, rows: pd.DataFrame, side: Verdict, at_null: bool, turns: tuple[float, float]
) -> float:
    """The part of the way from the null to what is claimed at which half of the large samples make
    a side true, between two at which it is and is not."""
    low, high = turns
    worlds = require_worlds(question)
    for _ in range(STEPS):
        middle = (low + high) / 2
        world = worlds.build_world(f"{middle:g}")
        true = count_truths(question, rows, world)[side] > SAMPLES / 2
        low, high = (middle, high) if true == at_null else (low, middle)
    return high if at_null else low


def _choose_side(rule: Rule, side: Verdict) -> Condition:
    if not isinstance(rule, Decide | Given):
        raise DataError(
            "a rule on a posterior is not tried in worlds",
            got=rule.words(),
            allowed="a rule on a test",
        )
    return rule.side(side)


def require_worlds(question: Question) -> Worlds:
    """The worlds of a question; raises DataError where it has none."""
    worlds = question.require_trial()[1].worlds
    if worlds is None:
        raise DataError(
            "a rule without worlds cannot be tried", where=question.id, allowed="Trial(…, worlds=…)"
        )
    return worlds


def name_point(point: Point) -> str:
    """A point as the table has it: `size=null; kind=t3; ar=0.6`."""
    words = []
    for name, value in point.items():
        shown = value if name in WORDS else f"{value:.6g}"
        words.append(f"{name}={shown}")
    return "; ".join(words)


def parse_point(text: str) -> Point:
    """The point of a row of the table."""
    parts = dict(part.split("=", 1) for part in text.split("; "))
    point = {}
    for name, value in parts.items():
        point[name] = value if name in WORDS else float(value)
    return point


@dataclass(frozen=True)
class Search:
    """The search of the worlds in which one side of a rule is falsely given most often."""

    question: Question
    rows: pd.DataFrame
    side: Verdict
    sizes: Sequence[str]
    effort: Effort
    seconds: float = math.inf

    def find_worst(self, box: str) -> list[Point]:
        """The worst points of a box, at most `WORST`, in which the side is false indeed.

        All have random numbers in common. Where a test is made study by study, or rows or points
        are many, points meet kinds of errors in turn, then the worst points meet all of them.
        """
        worlds = require_worlds(self.question)
        effort = self.effort
        places = worlds.plausible() if box == PLAUSIBLE else worlds.hostile()
        spots = list(itertools.product(self._find_worst_sizes(), places))
        is_wide = len(spots) * len(worlds.kinds) > ALL
        many = len(self.rows) > TOGETHER or is_wide
        if many or self.question.require_trial()[1].many_studies is None:
            chosen = np.random.default_rng(1).permutation(len(spots))[:POINTS]
            kinds = itertools.cycle(worlds.kinds)
            drawn = [spots[at] for at in sorted(chosen)]
            turns = []
            for size, place in drawn:
                turns.append({"size": size, "kind": next(kinds), **place})
            best = self._find_false(self._rank_points(turns, effort.few), WORST)
            points = [{**point, "kind": kind} for point in best for kind in worlds.kinds]
            n = effort.more
        else:
            every = itertools.product(spots, worlds.kinds)
            points = []
            for (size, place), kind in every:
                points.append({"size": size, "kind": kind, **place})
            n = effort.few
        return self._find_false(self._rank_points(points, n), WORST)

    def _find_worst_sizes(self) -> list[str]:
        """The two sizes at which the side is given most often, normal errors and every nuisance at
        half."""
        box = require_worlds(self.question).box.items()
        middle = {}
        for name, (rest, end, *_) in box:
            middle[name] = take_half(name, rest, end)
        spots = [
            {"size": size, "kind": "normal", **middle} for size in reversed(self.sizes)
        ]  # boundaries come last
        ranked = self._rank_points(spots, self.effort.more)
        return [
            str(point["size"]) for point in self._find_false(ranked, 2) or ranked
        ]  # nuisances may make all of them true

    def _rank_points(self, points: Sequence[Point], n: int) -> list[Point]:
        """Points by how often the side is given there, the most first."""
        made = [self._simulate_levels(point, n, "search") for point in points]
        rates = []
        for each in made:
            rates.append(measure_rate(each, ALPHA) + measure_rate(each, 2 * ALPHA) / 100)
        ranked: list[Point] = []
        for place in np.argsort(-np.array(rates), kind="stable"):
            ranked.append(points[place])
        return ranked

    def _find_false(self, points: Sequence[Point], most: int) -> list[Point]:
        """The first points in which the side is false indeed; nuisances may make a statement
        true."""
        stated = _choose_side(self.question.require_trial()[0], self.side).states is not None
        if not stated:
            return list(points[:most])
        worlds = require_worlds(self.question)
        false: list[Point] = []
        for point in points:
            if len(false) == most:
                break
            counts = count_truths(self.question, self.rows, worlds.build_world(**point))
            if counts[self.side] < MOSTLY:
                false.append(point)
        return false

    def _simulate_levels(
        self, point: Point, n: int, seed: str, longer: int = 1, *, true: bool = False
    ) -> Array:
        """Levels of the side in studies of a point in which it is false; where its power is asked,
        in which it is true."""
        world = require_worlds(self.question).build_world(**point)
        studies = n, seed, longer * self.seconds
        return simulate_side(self.question, self.rows, world, self.side, studies, true=true)

    def simulate_point(
        self, point: Point, box: str, n: int, limit: float = ALPHA
    ) -> dict[str, Any]:
        """The row of the table for a point, with fresh seeds; limit: the level below which the
        power is asked."""
        seed = f"{box} {name_point(point)}"
        made = self._simulate_levels(point, n, seed, LONGER, true=box == POWER)
        worlds = require_worlds(self.question)
        row = {**self._build_row(point, box, len(made)), "rate": measure_rate(made, ALPHA)}
        row |= {name: find_bound(made, share) for name, share in BOUNDS.items()}
        if box == POWER:
            row["power"] = row["rate"] if limit >= ALPHA else measure_rate(made, limit, ties=False)
        if box == HOSTILE:
            raised = {name: value for name, value in point.items() if name not in WORDS}
            nuisances = worlds.describe_nuisances(**raised)
            kind = worlds.build_world(**point).errors.kind_words * (point["kind"] != "normal")
            row["words"] = ", with ".join(filter(None, [nuisances, kind]))
        return row

    def simulate_worst(self, worst: Sequence[Point]) -> list[dict[str, Any]]:
        """Rows of the worst plausible points; of the one whose limit is least, which decides, with
        `DECIDES` times as many studies."""
        fresh = self.effort.fresh
        rows = [self.simulate_point(point, PLAUSIBLE, fresh) for point in worst]
        least = min(range(len(rows)), key=lambda at: rows[at]["bound_05"])
        rows[least] = self.simulate_point(worst[least], PLAUSIBLE, DECIDES * fresh)
        return rows

    def find_tipping(self, size: str, levels: Sequence[float]) -> Iterator[dict[str, Any]]:
        """Where each level is no longer below α* as one nuisance is raised, the others at rest and
        at half.

        Errors are normal, and log-normal. Between two values that were tried α* goes straight;
        `rate` is the level.
        """
        worlds = require_worlds(self.question)
        limits = dict[str, float]()
        for name, (rest, *ends) in worlds.box.items():
            for end, kind, others in itertools.product(ends, TIPPED, (0, 1)):
                path = []
                for value in (
                    (rest, take_half(name, rest, end), end) if kind in worlds.kinds else ()
                ):
                    at = {}
                    for o, (low, up, *_) in worlds.box.items():
                        at[o] = (low, take_half(o, low, up))[others]
                    point = {"size": size, "kind": kind, **at, name: value}
                    if (text := name_point(point)) not in limits:
                        limits[text] = find_bound(
                            self._simulate_levels(point, self.effort.others, "tipping", LONGER),
                            0.05,
                        )
                    path.append((value, limits[text]))
                for level in levels if path else ():
                    value, falls = find_fall(path, level)
                    words = worlds.describe_nuisances(**{name: value}) or NOTHING_RAISED
                    beside = f"the others at {('rest', 'half')[others]}, {kind} errors"
                    row = self._build_row(point, TIPPING, self.effort.others)
                    fallen = "" if falls else f"{UNMOVED} "
                    yield {**row, "words": f"{fallen}{words}, {beside}", "rate": level}

    def _build_row(self, point: Point, box: str, studies: int) -> dict[str, Any]:
        """What every row of the table has."""
        return {
            "rule": self.question.key,
            "n_models": len(self.rows),
            "side": str(self.side),
            "box": box,
            "point": name_point(point),
            "words": require_worlds(self.question).build_world(**point).words,
            "studies": studies,
            "digest": self.question.digest(),
        }


def find_fall(path: Sequence[tuple[float, float]], level: float) -> tuple[float, bool]:
    """The first value (value, α*) at which a level is not below α*, straight between two; else the
    last one."""
    before = (path[0][0], math.inf)
    for value, limit in path:
        if level >= limit:
            share = 1.0
            if math.isfinite(before[1]):
                share = (before[1] - level) / (before[1] - limit)
            return before[0] + share * (value - before[0]), True
        before = (value, limit)
    return before[0], False


def calibrate_rule(
    question: Question,
    rows: pd.DataFrame,
    effort: Effort | None = None,
    seconds: float = math.inf,
    tipping: Mapping[Verdict, Sequence[float]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of the table for one rule on one design: the worst worlds of both boxes, tipping points,
    and power.

    tipping: levels of each side for which tipping points are wanted, by default those of the rows;
    only those at which a side may be given count. seconds: the most that a world takes.
    """
    rule, trial = question.require_trial()
    try:
        trial.test(rows)
    except (UsageError, TooFew) as error:
        raise DataError(
            "a design with fewer units than the simulation needs",
            where=question.id,
            got=f"{len(rows)} rows: {error}",
            allowed="rows that carry the rule's own test",
        ) from error
    at_once = AT_ONCE if len(rows) <= TOGETHER else OF_MANY_ROWS
    effort = effort or (at_once if trial.many_studies else STUDY_BY_STUDY)
    rows = convert_numpy(rows)
    tipping = tipping or {side: [level] for side, level in measure_levels(question, rows).items()}
    sizes = find_false_sizes(question, rows)
    for side in SIDES:
        if _choose_side(rule, side) is NEVER or not sizes[side]:
            continue
        search = Search(question, rows, side, sizes[side], effort, seconds)
        worst = search.find_worst(PLAUSIBLE)
        if not worst:
            raise refuse_true_worlds(question, side)
        tried = search.simulate_worst(worst)
        yield from tried
        limits = [row["bound_05"] for row in tried]
        for point in search.find_worst(HOSTILE)[:1] if require_worlds(question).box else ():
            yield search.simulate_point(point, HOSTILE, effort.others)
        if low := [level for level in tipping[side] if level <= ALPHA]:
            yield from search.find_tipping(worst[0]["size"], low)
        yield from _measure_powers(search, sizes[side], min([ALPHA, *limits]))


def _measure_powers(search: Search, false: Sequence[str], limit: float) -> Iterator[dict[str, Any]]:
    """The row of a side's power: in the world of what is claimed, or for “not supported” in the
    null."""
    point = {"size": CLAIMED if search.side == SUPPORTED else NULL, "kind": "normal"}
    if point["size"] not in false:
        row = search.simulate_point(point, POWER, search.effort.others, limit)
        wanted = (np.nan, np.nan)
        if search.side == SUPPORTED:
            wanted = find_larger_study(search, point, row["power"], limit)
        yield {**row, "models_wanted": wanted[0], "groups_wanted": wanted[1]}


def find_larger_study(
    search: Search, point: Point, power: float, limit: float
) -> tuple[float, float]:
    """Models (or pairs, prompts) and groups that would give a power of 0.8: rows multiplied, each
    copy by itself.

    Units are not left out here: of many units none carries a verdict.
    """
    trial = search.question.require_trial()[1]
    counted = "prompt_id" if trial.larger == "prompt" else "model_id"
    if power >= WANTED:
        return search.rows[counted].nunique(), search.rows["heritage"].nunique()
    every = replace(search.question, trial=replace(trial, unit=""))

    def enough(times: int) -> bool:
        many = repeat_rows(trial.larger, search.rows, times)
        world = require_worlds(every).build_world(**point).fix_design(search.rows)
        made = simulate_side(
            every, many, world, search.side, (TRIED, "larger", math.inf), true=True
        )
        return measure_rate(made, limit, ties=False) >= WANTED

    if (place := bisect_left(LARGER, True, key=enough)) == len(LARGER):
        return np.nan, np.nan
    many = repeat_rows(trial.larger, search.rows, LARGER[place])
    return many[counted].nunique(), many["heritage"].nunique()


def repeat_rows(larger: str, rows: pd.DataFrame, times: int) -> pd.DataFrame:
    """A study so many times as large, each copy of the rows with names of its own: of prompts, or
    of models and their groups."""
    names = ("prompt_id",) if larger == "prompt" else NAMES
    many = pd.concat([rows] * times, ignore_index=True)
    numbers = np.repeat([f" {copy}" for copy in range(times)], len(rows))
    copies = pd.Series(numbers)
    renamed = {name: many[name].astype(str) + copies for name in names if name in many}
    return many.assign(**renamed)
