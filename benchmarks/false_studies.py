"""How often a side comes falsely in fresh studies of the worst plausible world of every rule, by
claim: `false_studies.py C01 H01`, resumable; results in `results/false-studies.csv`.

A side should come in at most 7% of 1,000 studies, and where it comes in more than 6%, in at most 6%
of 4,000 further ones. Seeds are none that the table of worlds was made with. Beside it stands the
power of the side in as many studies, which the table has too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scripts.worlds import designs
from thermostats.claims import levels
from thermostats.claims.calibration import Side, select_design
from thermostats.claims.levels import POWER, SIDES
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import Verdict
from thermostats.claims.rule import ALPHA

RESULTS = Path(__file__).parent / "results" / "false-studies.csv"
FIRST, FURTHER = 1000, 4000
MOST, CLOSE = 0.07, 0.06
KEY = ["rule", "rows", "digest", "side"]


def measure_rate(
    question: Question,
    rows: pd.DataFrame,
    side: Verdict,
    world: tuple[str, bool],
    limit: float,
    n: int,
) -> float:
    """How often a side is given in n fresh studies of a world, of a point and whether the side is
    true there."""
    point, true = world
    made_world = levels.require_worlds(question).build_world(**levels.parse_point(point))
    studies = n, f"audit {n} {point}", np.inf
    made = levels.simulate_side(question, rows, made_world, side, studies, true=true)
    return float(((made <= ALPHA) & (made < limit)).mean())


def audit_rule(question: Question, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """One line for each side of a rule on one design."""
    known = select_design(question, len(rows))
    rows = convert_numpy(rows)
    for side in SIDES:
        of_side = Side(known[known["side"] == side])
        if of_side.worst is None:
            continue
        limit = of_side.limit()
        worst = str(of_side.worst["point"]), False
        first = measure_rate(question, rows, side, worst, limit, FIRST)
        more = np.nan
        if first > CLOSE:
            more = measure_rate(question, rows, side, worst, limit, FURTHER)
        power = known[(known["side"] == side) & (known["box"] == POWER)]
        again = np.nan
        if len(power):
            claimed = str(power["point"].iloc[0]), True
            again = measure_rate(question, rows, side, claimed, limit, FIRST)
        yield {
            **dict(zip(KEY, (question.key, len(rows), question.digest(), str(side)), strict=True)),
            "world": of_side.worst["words"],
            "limit": limit,
            "false_of_1000": first,
            "false_of_4000": more,
            "holds": first <= CLOSE or (first <= MOST and not more > CLOSE),
            "power_of_table": float(power["power"].iloc[0]) if len(power) else np.nan,
            "power_of_1000": again,
        }


def main(claims: list[str]) -> None:
    """Fill the results, the lines of a rule and design as soon as they are known."""
    for claim in claims:
        for (rule, n, digest), (question, rows) in designs(claim).items():
            table = pd.read_csv(RESULTS) if RESULTS.is_file() else pd.DataFrame(columns=KEY)
            own = (table["rule"] == rule) & (table["rows"] == n)
            if (own & (table["digest"] == digest)).any():
                continue
            made = pd.DataFrame(audit_rule(question, rows))
            parts = [part for part in (table, made) if len(part)]
            every = pd.concat(parts, ignore_index=True).sort_values(KEY, ignore_index=True)
            every.to_csv(RESULTS, index=False, float_format="%.4g", lineterminator="\n")
            print(made.to_string(index=False), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("claims", nargs="+")
    main(parser.parse_args().claims)
