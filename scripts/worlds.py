"""Try every rule in simulated worlds: `data/worlds.csv`. `worlds.py C04 N01.recipe` for some claims
or rules.

Resumable: it is written after every rule and design. Rows of another version of a rule, its test or
its worlds are made anew; `--anew` makes those of the claims and rules that are named whatever they
are. `--jobs`: processes at a time. `--seconds`: the most that one world of a search takes, with
fewer studies where that is short; a worst world takes up to ten times as long.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from thermostats.claims import calibration
from thermostats.claims.evidence import POOLED, Evidence
from thermostats.claims.levels import SIDES, calibrate_rule, measure_levels
from thermostats.claims.question import Question
from thermostats.claims.result import TooFew, Verdict
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.errors import UsageError
from thermostats.settings import count_cores, stop_with_parent

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "worlds.csv"
SECONDS = 2.0
"""The most that one world of a search takes."""
Key = tuple[str, int, str]
"""A rule, the number of its rows, and the digest of rule, test and worlds, of which a rule that is
asked of several gains has several."""


@cache
def evidence() -> Evidence:
    return Evidence(ROOT / "data")


@cache
def designs(claim: str) -> dict[Key, tuple[Any, pd.DataFrame]]:
    """Question and rows of every rule that has worlds."""
    by_design: dict[Key, tuple[Any, pd.DataFrame]] = {}
    for question in load_claim(list_scripts(ROOT / "analyses")[claim]).questions:
        if question.trial is None or question.trial.worlds is None:
            continue
        for name in name_sets(question):
            with suppress(TooFew, UsageError):
                rows = question.trial.read_rows(evidence().named(name), question.over)
                if question.views is not None and name != question.scope.evidence:
                    rows = question.views.check_rows(rows)
                design = question.key, len(rows), question.digest()
                by_design.setdefault(design, (question, rows))
    return by_design


def name_sets(question: Question) -> list[str]:
    """The sets of evidence whose designs are simulated: the first, and all evidence where bounds
    of nuisances belong to the outcome."""
    assert question.trial is not None and question.trial.worlds is not None  # noqa: S101
    own = question.trial.worlds.limits.outcome
    pooled = own and question.views is not None and POOLED in question.views.sets
    return list(dict.fromkeys([question.scope.evidence, *([POOLED] if pooled else [])]))


def asked(claim: str, design: Key) -> dict[Verdict, list[float]]:
    """Levels of both sides in every finding of a rule, on every set of evidence, whose limits are
    those of a design."""
    key, n, digest = design
    levels = {side: set[float]() for side in SIDES}
    sizes = [size for rule, size, own in designs(claim) if (rule, own) == (key, digest)]
    for question in load_claim(list_scripts(ROOT / "analyses")[claim]).questions:
        if question.key != key or question.trial is None or question.digest() != digest:
            continue
        for name in (question.scope.evidence, *(question.views.sets if question.views else ())):
            with suppress(TooFew, UsageError):
                rows = question.trial.read_rows(evidence().named(name), question.over)
                if question.views is not None and name != question.scope.evidence:
                    rows = question.views.check_rows(rows)
                if calibration.find_nearest_size(sizes, len(rows)) == n:
                    for side, level in measure_levels(question, rows).items():
                        levels[side].add(level)
    return {side: sorted(of_side) for side, of_side in levels.items()}


def tried(claim: str, design: Key, seconds: float) -> tuple[list[dict[str, Any]], float]:
    """Rows of the table for one rule and design, and the CPU-seconds that they took."""
    question, rows = designs(claim)[design]
    started = time.process_time()
    rows_made = list(calibrate_rule(question, rows, seconds=seconds, tipping=asked(claim, design)))
    return rows_made, time.process_time() - started


def todo(claims: list[str], chosen: list[str], anew: bool = False) -> Iterator[tuple[str, Key]]:
    """Claim and design of every rule that is chosen and whose rows are missing, or all."""
    for claim in claims:
        for design, (question, rows) in designs(claim).items():
            if chosen and not {claim, question.key} & set(chosen):
                continue
            if anew or calibration.select_design(question, len(rows)).empty:
                yield claim, design


def current(claims: list[str]) -> pd.DataFrame:
    """The table as it is on the disk, without rows of rules of these claims that no longer
    stand."""
    table = calibration.load_levels.__wrapped__()
    stands = {design for claim in claims for design in designs(claim)}
    rows = zip(table["rule"], table["n_models"], table["digest"], strict=True)
    kept = [row in stands or row[0].partition(".")[0] not in claims for row in rows]
    return table[np.array(kept, dtype=bool)]


def write(table: pd.DataFrame, made: pd.DataFrame) -> None:
    """Write the table with the rows of a rule and design in the place of those that it had."""
    key = ["rule", "n_models", "digest"]
    design = set(made[key].itertuples(index=False, name=None))
    others = [row not in design for row in table[key].itertuples(index=False, name=None)]
    parts = [part for part in (table[np.array(others, dtype=bool)], made) if len(part)]
    every = pd.concat(parts, ignore_index=True).reindex(columns=list(calibration.ORDER))
    order = ["rule", "n_models", "digest", "side", "box", "point"]
    every = every.sort_values(order, ignore_index=True)
    every.to_csv(TABLE, index=False, float_format="%.4g", lineterminator="\n")


def main(chosen: list[str], jobs: int, seconds: float, anew: bool = False) -> None:
    """Fill the table, the rows of a rule and design as soon as they are known.

    Raises RuntimeError that names the rules that failed, once the others are written.
    """
    named = {name.partition(".")[0] for name in chosen}
    claims = [claim for claim in list_scripts(ROOT / "analyses") if not chosen or claim in named]
    waiting = list(todo(claims, chosen, anew))
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    failed = dict[str, BaseException]()
    with (
        Progress(*columns) as bar,
        ProcessPoolExecutor(jobs, get_context("spawn"), stop_with_parent) as pool,
    ):
        task = bar.add_task("rules", total=len(waiting))
        running = {pool.submit(tried, *job, seconds): job for job in waiting}
        for future in as_completed(running):
            name = "{} on {} rows ({})".format(*running[future][1])
            if error := future.exception():
                failed[name] = error
                bar.console.print(f"{name} failed: {error}", markup=False)
            else:
                made, seconds_taken = future.result()
                write(current(claims), pd.DataFrame(made))
                bar.console.print(f"{name}: {seconds_taken:.0f} CPU-seconds", markup=False)
            bar.update(task, advance=1, description=name)
    if failed:
        raise RuntimeError(f"failed: {'; '.join(failed)}") from next(iter(failed.values()))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="*")
    parser.add_argument("--jobs", type=int, default=count_cores())
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--anew", action="store_true")
    arguments = parser.parse_args()
    main(arguments.claims, arguments.jobs, arguments.seconds, arguments.anew)
