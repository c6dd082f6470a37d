"""CPU-seconds of a specification curve of about 2,000 universes: estimate, interval, verdict, and
999 rearrangements.

Rows, test and rule are those of C04, with its universes for all labs and without each of three,
1,728 in all. The goal is 60 CPU-seconds for 2,000. Ratios carry over to other machines, seconds do
not.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

from dataclasses import replace

from thermostats.claims.evidence import PUBLISHED, Evidence
from thermostats.claims.question import build_curve
from thermostats.claims.run import load_claim

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
LABS = ("EleutherAI", "Meta", "BigScience", "StabilityAI", "TII")
GOAL = 60.0


def main() -> None:
    """Measure, and write a line into results/curve.md."""
    claim = load_claim(ROOT / "analyses" / "c04_hierarchy_of_causes.py")
    question = next(question for question in claim.questions if question.curve)
    if not (question.curve and question.primary and question.trial):
        raise RuntimeError(f"{question.id} has no curve")
    left_out = {"all labs": "", **{f"without {lab}": f"lab != '{lab}'" for lab in LABS[2:]}}
    curve = replace(question.curve, choices={**question.curve.choices, "labs": left_out})
    rows = curve.rows(Evidence().named(PUBLISHED))
    start = time.process_time()
    made = build_curve(curve, question.primary, question.trial.test, rows)
    seconds = time.process_time() - start
    n = len(made.table) + len(made.failed)
    line = (
        f"{len(made.table):,} universes with an estimate of {n:,}: {seconds:.1f} CPU-s, "
        f"{2000 * seconds / n:.1f} for 2,000 (goal {GOAL:g})"
    )
    (RESULTS / "curve.md").write_text(f"{(__doc__ or '').strip()}\n\n{line}\n", encoding="utf-8")
    print(line)


if __name__ == "__main__":
    main()
