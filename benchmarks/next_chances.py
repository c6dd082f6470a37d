"""Whether verdicts come as often as `thermostats next` says: `python benchmarks/next_chances.py
[CLAIM…] [--studies N]`.

A size of the effect is drawn, uniform from none to one and a half times the one that the claim
states, then outcomes of the rows at hand and of the best set's models in the claim's own world of
normal errors. `next` is told those at hand alone and gives the probability of a verdict; then the
others are told, and the rule decides. Of studies with a probability near .8 about 80% must get a
verdict. Results are added to `benchmarks/results/next-chances.csv`, a row for each study; seeds
that stand there are passed over, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from thermostats.claims.evidence import Evidence
from thermostats.claims.levels import build_random, require_worlds, simulate_levels
from thermostats.claims.noise import Errors
from thermostats.claims.planning.candidates import planned_evidence, planned_tables, read_candidates
from thermostats.claims.planning.contrast import complete_rows, contrast_of
from thermostats.claims.planning.next_models import Terms, asked_question, find_advice, read_rows
from thermostats.claims.planning.prediction import predictive
from thermostats.claims.planning.scoring import Looks, limits_on, shares_of
from thermostats.claims.planning.shipped_advice import digest_rule
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import OPEN, Verdict
from thermostats.claims.run import load_claim
from thermostats.claims.study import list_scripts
from thermostats.claims.worlds import Outcomes, World
from thermostats.tables.folders import find_shipped

CLAIMS = ("C15", "C18", "H01", "X02")
AHEAD = 200
"""Simulated studies by which a probability is known, to .03."""
CHUNK = 20
"""Studies of a seed."""
LARGEST = 1.5
"""Size of an effect at most, in the one that the claim states."""
BINS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 1.0)
FILE = Path(__file__).parent / "results" / "next-chances.csv"


@dataclass(frozen=True)
class Design:
    """Rows of a claim with its best set, of which `new` are to come."""

    question: Question
    rows: pd.DataFrame
    new: np.ndarray
    limits: dict[Verdict, float]
    made_of: str


def build_design(name: str) -> Design:
    """The rows at hand with those of the best set that `next` gives."""
    claim = load_claim(list_scripts(find_shipped("analyses"))[name])
    asked = asked_question(claim)
    if asked is None:
        raise SystemExit(f"{name}: no question of it is put to public models")
    question, where = asked
    evidence, candidates = Evidence(None), read_candidates()
    advice = find_advice(claim, evidence, candidates, Terms())
    if not advice.sets:
        raise SystemExit(f"{name}: {advice.first_line}")
    names = {model.model_id for model in advice.sets[0].models}
    chosen = candidates[candidates["model_id"].isin(names)].reset_index(drop=True)
    tables = planned_tables(chosen, evidence, claim.basis.measures)
    rows, why = read_rows(question, planned_evidence(evidence.named(where), tables, names))
    if rows.empty:
        raise SystemExit(f"{name}: {why}")
    rows = complete_rows(question, convert_numpy(rows))
    new = rows["model_id"].isin(names).to_numpy()
    return Design(
        question, rows, new, limits_on(question, rows, Looks().share), digest_rule(question)
    )


def run_studies(name: str, design: Design, seed: int) -> pd.DataFrame:
    """Some studies: the probability of a verdict given the rows at hand, and the verdict."""
    question, rows = design.question, design.rows
    sizes = np.random.default_rng(seed).uniform(0.0, LARGEST, CHUNK).round(3)
    made = []
    for study, size in enumerate(sizes):
        world = require_worlds(question).build_world(f"{size:.3f}")
        random = build_random(question, rows, 1, f"chances {seed} {study}")
        drawn = {label: of[0] for label, of in world.draw(rows, random).items()}
        measured = rows.assign(**drawn)
        ahead = predictive(question, measured, design.new, contrast_of(question, measured))
        if ahead is None:
            raise SystemExit(f"{name}: the rows at hand do not say how large the effect is")
        with np.errstate(over="ignore"):
            levels = simulate_levels(question, measured, ahead, AHEAD, f"ahead {seed} {study}")
        own: Outcomes = {label: values[None] for label, values in drawn.items()}
        told = World("as drawn", lambda rows, noise, random, own=own: own, Errors())
        shown = shares_of(simulate_levels(question, rows, told, 1, "told"), design.limits)
        chance = 1 - shares_of(levels, design.limits)[OPEN]
        verdict = max(shown, key=lambda side: shown[side])
        made.append(
            (name, seed, study, round(float(size), 3), chance, verdict, design.made_of[:12])
        )
    columns = ["claim", "seed", "study", "size", "chance", "verdict", "made_of"]
    return pd.DataFrame(made, columns=columns)


def summarise_results(results: pd.DataFrame) -> pd.DataFrame:
    """By bins of the probability that was given: how many studies, its mean, and the share that got
    a verdict."""
    reached = results["verdict"] != OPEN
    bins = pd.cut(results["chance"], list(BINS), include_lowest=True)
    table = results.assign(reached=reached).groupby(bins, observed=True)
    return table.agg(
        studies=("chance", "size"), said=("chance", "mean"), reached=("reached", "mean")
    ).reset_index()


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
        design = build_design(name) if left else None
        for seed in left if design is not None else ():
            made = run_studies(name, design, seed)
            made.to_csv(FILE, mode="a", header=not FILE.is_file(), index=False)
            print(name, seed, flush=True)
    results = pd.read_csv(FILE)
    for name, own in results.groupby("claim"):
        print(name, summarise_results(own).to_string(index=False), sep="\n")
    print("all", summarise_results(results).to_string(index=False), sep="\n")


if __name__ == "__main__":
    main()
