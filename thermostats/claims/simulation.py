"""What a rule could have shown: how often it says what in simulated worlds, and what a larger study would find.

What a finding is asked over does not matter: outcomes are simulated. `make worlds` writes the rates that
`error_rates.py` reads.
"""

from __future__ import annotations

import math
import time
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype

from thermostats.claims.error_rates import COLUMNS, LARGER, WANTED
from thermostats.claims.left_out import hangs_on
from thermostats.claims.question import Question
from thermostats.claims.result import Estimate, TooFew
from thermostats.claims.rule import Rule
from thermostats.claims.trial import Trial
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, Verdict
from thermostats.claims.worlds import World
from thermostats.errors import UsageError

SIMULATIONS, LEAST = 400, 60
"""Studies a world, and the least where a test takes long."""
TRIED = 200
"""Studies a size, of a larger one."""
NAMES = ("model_id", "heritage", "family", "recipe", "pair")
"""Columns of names that make units their own where a study is multiplied."""


def judged(rule: Rule, trial: Trial, rows: pd.DataFrame, only: Verdict | None = None) -> tuple[Verdict, Estimate]:
    """Verdict and headline of some rows; open where they do not carry the test, or where it hangs on one unit.

    only: the verdict of which that is asked, where the other is not counted.
    """
    try:
        result = trial.test(rows)
    except (UsageError, TooFew):
        return OPEN, Estimate(None)
    verdict = rule.verdict(result)
    hangs = only in (None, verdict) and hangs_on(rule, trial, rows, verdict)
    return OPEN if hangs else verdict, result.headline


def _covered(headlines: Sequence[Estimate], truth: float) -> float:
    """Share of the intervals that hold a value, of those that there are."""
    ends = [
        (estimate.lower, estimate.upper)
        for estimate in headlines
        if estimate.lower is not None and estimate.upper is not None
    ]
    return float(np.mean([low <= truth <= high for low, high in ends])) if ends else np.nan


def simulated(
    question: Question,
    rows: pd.DataFrame,
    world: World,
    n: int = SIMULATIONS,
    seconds: float = math.inf,
    only: Verdict | None = None,
) -> dict[str, Any]:
    """One row of the table: rates of verdicts over n simulated studies, and by how much support exaggerates.

    only: the verdict whose rate is asked, which takes less time; that of the other is then NaN.

    seconds: time after which no further study is made, of `LEAST` or more; the row says how many there were.
    exaggeration: mean estimate of the studies that support the statement over that of all, where it holds (type M;
    Gelman and Carlin 2014, doi:10.1177/1745691614551642).
    """
    primary, trial = question.on_trial()
    seed = zlib.crc32(f"{question.key} {len(rows)} {world.id}".encode())
    rng, rows = np.random.default_rng(seed), plain(rows)
    outcomes: list[tuple[Verdict, Estimate]] = []
    start = time.process_time()
    while len(outcomes) < n and (len(outcomes) < LEAST or time.process_time() - start < seconds):
        outcomes.append(judged(primary, trial, world.change(rows, rng), only))
    verdicts = pd.Series([verdict for verdict, _ in outcomes])
    estimates = pd.Series([headline.value for _, headline in outcomes], dtype=float)
    covered = np.nan if world.truth is None else _covered([headline for _, headline in outcomes], world.truth)
    yes = verdicts == SUPPORTED
    power = float(yes.mean()) if only != AGAINST else np.nan
    wanted = larger(question, rows, world, power) if world.declared else (np.nan, np.nan)
    values = (
        question.key,
        world.id,
        world.words,
        world.holds,
        world.declared,
        len(rows),
        len(outcomes),
        power,
        float((verdicts == AGAINST).mean()) if only != SUPPORTED else np.nan,
        float(estimates[yes].mean() / estimates.mean()) if world.holds and not only and yes.any() else np.nan,
        *wanted,
        seed,
        question.digest(world),
        "",
        covered,
    )
    return dict(zip(COLUMNS, values, strict=True))


def larger(question: Question, rows: pd.DataFrame, world: World, power: float) -> tuple[float, float]:
    """Models (or pairs, prompts) and groups that would give a power of 0.8: rows multiplied, each copy by itself.

    Units are not left out here: of many units none carries a verdict.
    """
    primary, trial = question.on_trial()
    counted = "prompt_id" if trial.larger == "prompt" else "model_id"
    if power >= WANTED:
        return rows[counted].nunique(), rows["heritage"].nunique()
    every = replace(trial, unit="")

    def enough(times: int) -> bool:
        many, rng = multiplied(trial, rows, times), np.random.default_rng(times)
        missed = 0
        for _ in range(TRIED):
            missed += judged(primary, every, world.change(many, rng))[0] != SUPPORTED
            if missed > TRIED * (1 - WANTED):
                return False
        return True

    if (place := bisect_left(LARGER, True, key=enough)) == len(LARGER):
        return np.nan, np.nan
    many = multiplied(trial, rows, LARGER[place])
    return many[counted].nunique(), many["heritage"].nunique()


def plain(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows in numpy's types, parts of which are taken in no time."""
    kinds: dict[Any, Any] = {}
    for name, kind in rows.dtypes.items():
        if isinstance(kind, ExtensionDtype):
            lacks = np.float64 if pd.api.types.is_float_dtype(kind) or pd.api.types.is_integer_dtype(kind) else object
            kinds[name] = getattr(kind, "numpy_dtype", object) if not rows[name].hasnans else lacks
    return rows.astype(kinds).copy()


def multiplied(trial: Trial, rows: pd.DataFrame, times: int) -> pd.DataFrame:
    """A study so many times as large, each copy of the rows with names of its own."""
    names = ("prompt_id",) if trial.larger == "prompt" else NAMES
    copies = [
        rows.assign(**{name: rows[name].astype(str) + f" {copy}" for name in names if name in rows})
        for copy in range(times)
    ]
    return pd.concat(copies, ignore_index=True)
