"""How often measuring until decided ends in a false verdict, with `thermostats next` choosing in
the loop.

`python benchmarks/next_looks.py [CLAIM…] [--studies N]`. Studies are drawn in a world in which
“supported” is false: the one in which it comes falsely most often. Look 1 is at the rows at hand,
looks 2 and 3 add a set of models each, of two that `next` proposes the one of more probable
verdict given the outcomes so far. A look has the level .05/3. Results are added to
`benchmarks/results/next-looks.csv`, a row for each claim and seed; seeds that stand there are
passed over, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.claims.calibration import find_nearest
from thermostats.claims.evidence import Evidence
from thermostats.claims.levels import (
    PLAUSIBLE,
    build_random,
    parse_point,
    require_worlds,
    simulate_levels,
)
from thermostats.claims.noise import Errors
from thermostats.claims.planning.candidates import planned_evidence, planned_tables, read_candidates
from thermostats.claims.planning.contrast import contrast_of
from thermostats.claims.planning.next_models import (
    Terms,
    asked_question,
    leave_held_out,
    plan_claim,
    read_rows,
)
from thermostats.claims.planning.prediction import predictive
from thermostats.claims.planning.scoring import Looks, limits_on, shares_of
from thermostats.claims.planning.search import Budget
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, Verdict
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.claims.worlds import Array, Outcomes, World
from thermostats.tables.folders import find_shipped

CLAIMS = ("C21", "H01", "C01")
LOOKS = Looks(3, 1)
BUDGET = Budget(20.0, 4)
PROPOSED = 2
AHEAD = 40
"""Simulated studies by which a set is chosen in the loop."""
CHUNK = 20
"""Studies of a seed."""
FILE = Path(__file__).parent / "results" / "next-looks.csv"


@dataclass(frozen=True)
class Design:
    """Rows that the claim reads after some models were measured, and what may follow."""

    rows: pd.DataFrame
    limits: Mapping[Verdict, float]
    following: tuple[Design, ...] = ()


def designs_of(name: str) -> tuple[Question, Design]:
    """The design at hand and those that `next` proposes, two looks deep."""
    claim = load_claim(list_scripts(find_shipped("analyses"))[name])
    asked = asked_question(claim)
    if asked is None:
        raise SystemExit(f"{name}: no question of it is put to measured models")
    evidence = Evidence(None)
    candidates = leave_held_out(read_candidates(), evidence)
    fits = candidates["download_gb"] <= BUDGET.gigabytes
    candidates = candidates[fits].reset_index(drop=True)
    tables = planned_tables(candidates, evidence, claim.basis.measures)

    def design(names: frozenset[str], looks: int) -> Design:
        here = planned_evidence(evidence, tables, names)
        rows = read_rows(asked[0], here.named(asked[1]))[0]
        following = []
        if looks:
            rest = candidates[~candidates["model_id"].isin(names)].reset_index(drop=True)
            for proposed in plan_claim(claim, here, rest, Terms(BUDGET, LOOKS)).sets[:PROPOSED]:
                more = {model.model_id for model in proposed.models}
                following.append(design(names | more, looks - 1))
        limits = limits_on(asked[0], rows, LOOKS.share)
        return Design(rows, limits, tuple(following))

    return asked[0], design(frozenset(), LOOKS.declared - 1)


def rows_of_all(design: Design) -> pd.DataFrame:
    """Rows of every design that may be reached."""
    parts = [design.rows, *(rows_of_all(each) for each in design.following)]
    return pd.concat(parts, ignore_index=True).drop_duplicates("model_id", ignore_index=True)


def as_measured(rows: pd.DataFrame, outcomes: Mapping[str, Array], every: pd.DataFrame) -> World:
    """The world of one study in which rows have the outcomes that were drawn for them."""
    places = pd.Index(every["model_id"]).get_indexer(rows["model_id"])
    own: Outcomes = {name: values[None, places] for name, values in outcomes.items()}
    return World("as drawn", lambda rows, noise, random: own, Errors())


def verdict_of(question: Question, design: Design, world: World) -> str:
    """The verdict of one study at one look."""
    attained = simulate_levels(question, design.rows, world, 1, "look")
    shares = shares_of(attained, design.limits)
    return max(shares, key=lambda side: shares[side])


def choose(
    question: Question, design: Design, outcomes: Mapping[str, Array], every: pd.DataFrame
) -> Design:
    """Of the designs that may follow the one of more probable verdict given the outcomes so far."""
    chances = []
    for each in design.following:
        new = ~each.rows["model_id"].isin(design.rows["model_id"]).to_numpy()
        places = pd.Index(every["model_id"]).get_indexer(each.rows["model_id"])
        measured = each.rows.assign(**{name: of[places] for name, of in outcomes.items()})
        world = predictive(question, measured, new, contrast_of(question, measured))
        if world is None:
            chances.append(0.0)
            continue
        attained = simulate_levels(question, measured, world, AHEAD, "ahead")
        chances.append(1 - shares_of(attained, each.limits)[OPEN])
    return design.following[int(np.argmax(chances))]


def run_studies(name: str, question: Question, start: Design, seed: int) -> pd.DataFrame:
    """Some studies of one claim, each measured until decided."""
    every = convert_numpy(rows_of_all(start))
    known = find_nearest(question, len(start.rows)).side(SUPPORTED).rows
    worst = known[known["box"] == PLAUSIBLE].sort_values("bound_05").iloc[0]
    world = require_worlds(question).build_world(**parse_point(str(worst["point"])))
    drawn = world.draw(every, build_random(question, every, CHUNK, f"looks {seed}"))
    rows = []
    for study in range(CHUNK):
        outcomes = {column: values[study] for column, values in drawn.items()}
        design = start
        look = 1
        verdict = verdict_of(question, design, as_measured(design.rows, outcomes, every))
        while verdict == OPEN and design.following:
            design = choose(question, design, outcomes, every)
            look += 1
            verdict = verdict_of(question, design, as_measured(design.rows, outcomes, every))
        rows.append((name, seed, study, look, verdict))
    return pd.DataFrame(rows, columns=["claim", "seed", "study", "look", "verdict"])


def main() -> None:
    """Add studies to the file until there are as many of each claim as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="*", default=list(CLAIMS))
    parser.add_argument("--studies", type=int, default=400)
    asked = parser.parse_args()
    for name in asked.claims:
        done = pd.read_csv(FILE) if FILE.is_file() else pd.DataFrame(columns=["claim", "seed"])
        seeds = set(done.loc[done["claim"] == name, "seed"])
        left = [seed for seed in range(asked.studies // CHUNK) if seed not in seeds]
        if left:
            question, start = designs_of(name)
        for seed in left:
            made = run_studies(name, question, start, seed)
            made.to_csv(FILE, mode="a", header=not FILE.is_file(), index=False)
            print(name, seed, made["verdict"].value_counts().to_dict(), flush=True)
    results = pd.read_csv(FILE)
    for name, own in results.groupby("claim"):
        false = (own["verdict"] == str(SUPPORTED)).mean()
        against = (own["verdict"] == str(AGAINST)).mean()
        print(f"{name}: {len(own)} studies, false “supported” {false:.3f}, against {against:.3f}")


if __name__ == "__main__":
    main()
