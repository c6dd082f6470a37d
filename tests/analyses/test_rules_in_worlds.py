"""Every rule with a test: what it is worth is known and holds again, and another rule says
something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered import ROOT, analysis, shipped

from thermostats.claims import calibration, levels
from thermostats.claims.calibration import Side
from thermostats.claims.condition import Condition, Inequality, V
from thermostats.claims.question import convert_numpy
from thermostats.claims.result import Result, TooFew
from thermostats.claims.rule import ALPHA, NEVER, Decide, Given, Posterior
from thermostats.claims.study import list_scripts
from thermostats.claims.worlds import CLAIMED, NULL
from thermostats.errors import UsageError

CLAIMS = [claim.lower() for claim in list_scripts(ROOT / "analyses")]
LONG = {"c18", "n01", "n02", "n03", "n04", "n05"}
IN_TURN = [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in CLAIMS]
"""Claims by how long their worlds take."""
OWN_SIDE = ("penultimate_gain", "last_gain", "measured")
DRAWN = {
    "C05.ratio.trained",
    "C05.ratio.trained_published_slicing",
    "C10.density.others",
    "C15.phases.trained",
}
DRAWN |= {f"C14.own_side.{name}" for name in OWN_SIDE}
"""Rules whose levels rest on permutations or resamples that are drawn at random."""


@cache
def tried(claim: str) -> dict[str, tuple[Any, pd.DataFrame]]:
    """Questions of a claim that have a trial, one a rule and number of rows, with the rows that
    were measured."""
    asked = [question for question in analysis(claim).CLAIM.questions if question.trial is not None]
    found = {}
    for question in asked:
        with suppress(TooFew):
            rows = question.trial.read_rows(shipped().named(question.scope.evidence), question.over)
            found.setdefault(f"{question.key} {len(rows)}", (question, rows))
    return found


def results(question: Any, rows: pd.DataFrame) -> Iterator[Result]:
    """Of the rows and of three studies of each of a question's worlds, then of studies 4 and 16
    times as large."""
    for times in (1, 4, 16):
        rng, many = (
            np.random.default_rng(1),
            rows if times == 1 else levels.repeat_rows(question.trial.larger, rows, times),
        )
        family = question.trial.worlds
        worlds = [
            family.build_world(size, kind)
            for size in (NULL, CLAIMED, *family.others)
            for kind in family.kinds
        ]
        for study in (many, *(world.change(many, rng) for world in worlds for _ in range(3))):
            with suppress(UsageError, TooFew):
                yield question.trial.test(study)


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_every_rule_is_worth_is_known_as_it_stands(claim: str) -> None:
    """A verdict of a rule that the table lacks is provisional, and says so; `make worlds` tries
    it."""
    for name, (question, rows) in tried(claim).items():
        known = calibration.select_design(question, len(rows))
        assert len(known), f"{name}: run make worlds CLAIMS={claim.upper()}"
        for side in levels.SIDES:
            of_side = known[known["side"] == side]
            assert (
                question.primary.side(side) is NEVER or (of_side["box"] == levels.PLAUSIBLE).any()
            ), (name, side)


@pytest.mark.parametrize("claim", CLAIMS)
def test_every_rule_with_a_trial_has_worlds(claim: str) -> None:
    for question in analysis(claim).CLAIM.questions:
        assert question.trial is None or question.trial.worlds is not None, question.id


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_primary_rule_reads_a_posterior(claim: str) -> None:
    assert not [q.id for q in analysis(claim).CLAIM.questions if isinstance(q.primary, Posterior)]


def alter_rule(rule: Any, change: Callable[[Inequality], Inequality]) -> Any:
    """A rule with every comparison changed, wherever it was declared."""
    if isinstance(rule, Inequality):
        return change(rule)
    if not isinstance(rule, (Condition, Decide, Given)):
        return rule
    parts = {field.name: getattr(rule, field.name) for field in fields(rule) if field.init}
    return replace(rule, **{name: alter_rule(part, change) for name, part in parts.items()})


TURNED = dict(zip("<>≤≥", "><≥≤", strict=True))


def turn(compared: Inequality) -> Inequality:
    """The comparison the other way round."""
    return replace(compared, sign=TURNED[compared.sign])


def move(compared: Inequality, step: float) -> Inequality:
    """The comparison with its bar moved by a step and so many times its size."""
    if isinstance(compared.bar, V):
        return compared
    moved = compared.bar + math.copysign(abs(step) + abs(compared.bar), step)
    return replace(compared, bar=moved)


@pytest.mark.slow
@pytest.mark.parametrize("claim", IN_TURN)
def test_a_rule_turned_round_or_with_its_bar_moved_says_something_else(claim: str) -> None:
    step = 1.0 if claim == "c09" else 0.1  # points of depth, of which models differ by ten
    changes = (turn, partial(move, step=step), partial(move, step=-step))
    for name, (question, rows) in tried(claim).items():
        if len(rows) == 1:
            continue  # nothing to relate: the rule is asked of the claim's other rows
        mutants = [alter_rule(question.primary, change) for change in changes]
        assert question.primary not in mutants, name
        alike = dict(enumerate(mutants))
        for result in results(question, rows):
            said = question.primary.verdict(result)
            alike = {way: m for way, m in alike.items() if m.verdict(result) == said}
            if 0 not in alike and len(alike) < 2:
                break
        assert 0 not in alike and len(alike) < 2, name


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("claim", IN_TURN)
def test_a_side_comes_falsely_in_five_per_cent_of_fresh_studies_at_the_worst_point(
    claim: str, request: pytest.FixtureRequest
) -> None:
    """In at most 7% of 1,000; a side above that in at most 6% of 4,000. A rate that was found is
    not made again."""
    cache = request.config.cache
    for name, (question, rows) in tried(claim).items():
        known = calibration.select_design(question, len(rows))
        for side in levels.SIDES:
            worst = Side(known[known["side"] == side]).worst
            if worst is None:
                continue
            key = f"worlds/{name} {side} {question.digest()} {worst['point']}".replace(" ", "_")
            rate = cache.get(key, None) if cache else None
            if rate is None:
                first = often(question, rows, side, worst, 1000)
                rate = [first, often(question, rows, side, worst, 4000) if first > 0.07 else 0.0]
                if cache:
                    cache.set(key, rate)
            assert rate[0] <= 0.07 or rate[1] <= 0.06, (name, side, worst["point"], rate)


def often(question: Any, rows: pd.DataFrame, side: str, worst: pd.Series, n: int) -> float:
    """How often a side is given in fresh studies of a world."""
    world = levels.require_worlds(question).build_world(**levels.parse_point(worst["point"]))
    made = levels.simulate_levels(question, convert_numpy(rows), world, n, f"fresh {n}")[
        :, levels.SIDES.index(side)
    ]
    return float(((made <= ALPHA) & (made < worst["bound_05"])).mean())


@pytest.mark.parametrize("claim", CLAIMS)
def test_many_studies_at_once_have_the_levels_that_they_have_one_by_one(claim: str) -> None:
    """But for what is drawn at random, permutations and resamples: within four Monte-Carlo errors
    of 999 of them."""
    for name, (question, rows) in tried(claim).items():
        rule, trial = question.require_trial()
        if trial.many_studies is None:
            continue
        own, worlds = convert_numpy(rows), trial.worlds
        for world in (worlds.build_world(NULL), worlds.build_world(CLAIMED)):
            outcomes = world.draw(own, levels.build_random(question, own, 4, "at once"))
            at_once = levels._measure_all(rule, trial, own, outcomes)
            single = [
                levels._measure_study(rule, replace(trial, unit=""), study)
                for study in levels._generate_studies(own, outcomes)
            ]
            error = (
                4 * np.sqrt(np.array(single) * (1 - np.array(single)) / 999)
                if name.split()[0] in DRAWN
                else 0.0
            )
            assert (np.abs(at_once - single) <= error + 1e-6).all(), (
                name,
                world.words,
                at_once,
                single,
            )
