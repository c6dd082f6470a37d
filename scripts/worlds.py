"""Try every rule in simulated worlds: `data/worlds.csv`, a row a rule, design and world. `worlds.py C04 N01` for some.

Resumable: it is written after every world. Rows of another version of a rule, its test or the worlds are made anew.
A search (`thermostats/claims/search.py`) is one more world: the worst that is found within its bounds.
`--seconds N`: of a test that takes long fewer studies, as many as N seconds a world allow, but 60 or more.
"""

from __future__ import annotations

import math
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from thermostats.claims import error_rates, simulation
from thermostats.claims.evidence import Evidence
from thermostats.claims.result import TooFew
from thermostats.claims.run import claim_of
from thermostats.claims.scripts import scripts
from thermostats.claims.search import searched
from thermostats.claims.worlds import Search, World
from thermostats.settings import cores_there_are

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "data" / "worlds.csv"
Key = tuple[str, int]


@cache
def evidence() -> Evidence:
    return Evidence(ROOT / "data")


@cache
def designs(claim: str) -> dict[Key, tuple[Any, pd.DataFrame]]:
    """Question and rows of every rule and number of rows of a claim."""
    by_design: dict[Key, tuple[Any, pd.DataFrame]] = {}
    for question in claim_of(scripts(ROOT / "analyses")[claim]).questions:
        if question.trial is None:
            continue
        with suppress(TooFew):
            rows = question.trial.of(evidence().named(question.evidence), question.over)
            by_design.setdefault((question.key, len(rows)), (question, rows))
    return by_design


def worlds_of(question: Any) -> tuple[World | Search, ...]:
    """Worlds of a question, then its searches."""
    return (*question.trial.worlds, *question.trial.searches)


def tried(claim: str, design: Key, number: int, seconds: float) -> dict[str, Any]:
    """One world or search of a design."""
    question, rows = designs(claim)[design]
    chosen = worlds_of(question)[number]
    if isinstance(chosen, Search):
        return searched(question, rows, chosen, seconds)
    return simulation.simulated(question, rows, chosen, seconds=seconds)


def named(claim: str, design: Key, number: int) -> str:
    """Rule of a claim, number of rows and world of a job, in words."""
    rule, rows = design
    return f"{rule} on {rows} rows, world {worlds_of(designs(claim)[design][0])[number].id}"


def todo(claims: list[str], seconds: float) -> Iterator[tuple[str, Key, int]]:
    """Claim, design and number of every world that is missing, or was cut short and is not to be now."""
    for claim in claims:
        for design, (question, rows) in designs(claim).items():
            rates = error_rates.rates(question, len(rows))
            least = simulation.SIMULATIONS if math.isinf(seconds) else simulation.LEAST
            done = set(rates.loc[rates["simulations"] >= least, "world"])
            yield from ((claim, design, i) for i, w in enumerate(worlds_of(question)) if w.id not in done)


def current(table: pd.DataFrame, claims: list[str]) -> pd.DataFrame:
    """Rows of rules as they stand; those of other claims stay."""
    stands = {
        (*design, world.id, question.digest(world))
        for claim in claims
        for design, (question, _) in designs(claim).items()
        for world in worlds_of(question)
    }
    rows = zip(table["rule"], table["n_models"], table["world"], table["digest"], strict=True)
    return table[[row in stands or row[0].partition(".")[0] not in claims for row in rows]]


def main(chosen: list[str], seconds: float) -> None:
    """Fill the table, a row as soon as it is known.

    Raises RuntimeError that names the worlds that failed, once the others are written.
    """
    claims = [claim for claim in scripts(ROOT / "analyses") if not chosen or claim in chosen]
    jobs, table = list(todo(claims, seconds)), current(error_rates.table(), claims)
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bar, ProcessPoolExecutor(cores_there_are(), get_context("spawn")) as pool:
        task = bar.add_task("worlds", total=len(jobs))
        running = {pool.submit(tried, *job, seconds): job for job in jobs}
        failed: dict[str, BaseException] = {}
        for future in as_completed(running):
            if error := future.exception():
                failed[named(*running[future])] = error
                bar.console.print(f"{[*failed][-1]} failed: {error}", markup=False)
                bar.update(task, advance=1)
                continue
            made = pd.DataFrame([future.result()])
            table = pd.concat([made, table], ignore_index=True).drop_duplicates(["rule", "n_models", "world"])
            table.sort_values(["rule", "n_models", "world"]).to_csv(
                TABLE, index=False, float_format="%.4g", lineterminator="\n"
            )
            bar.update(task, advance=1, description=f"{made['rule'].iloc[0]}: {made['world'].iloc[0]}")
    if failed:
        raise RuntimeError(f"failed: {'; '.join(failed)}") from next(iter(failed.values()))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="*")
    parser.add_argument("--seconds", type=float, default=math.inf)
    arguments = parser.parse_args()
    main(arguments.claims, arguments.seconds)
