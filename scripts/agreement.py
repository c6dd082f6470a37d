"""Hold two reports on the same tables against one another: the same up to Monte-Carlo error, and the same verdicts?

    thermostats report --all --out OTHER        # with another interpreter, and so another generation of PyMC
    python scripts/agreement.py reports OTHER   # exit 1 where they differ by more than chance

Numbers that no draws enter must agree to the digits that rounding leaves; means of draws are compared in units of the
Monte-Carlo error of their difference. Of a thousand such differences, the largest is about 3.3 by chance alone.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST = 5.0
"""Monte-Carlo errors of the difference; that many arise by chance once in two million comparisons."""
ROUNDING = 1e-6
"""Relative difference of numbers that no draws enter: libraries sum in another order."""
PLAIN = ("estimate", "lower", "upper", "probability")


@dataclass(frozen=True)
class Difference:
    """One number of a finding in both reports, and how far apart they are in units of what may be."""

    finding: str
    what: str
    one: float
    other: float
    size: float


def findings(report: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Findings of a report by claim and estimand."""
    files = sorted(report.glob("*/findings.json"))
    return {
        (found["claim"], found["estimand"]): found
        for file in files
        for found in json.loads(file.read_text())["findings"]
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[Difference]:
    """All numbers of a finding that both have."""
    name = f"{one['claim']}: {one['estimand']}"
    for what in PLAIN:
        a, b = one[what], other[what]
        if a is not None and b is not None:
            yield Difference(name, what, a, b, abs(a - b) / (ROUNDING * max(abs(a), abs(b), 1e-3)))
    if one["posterior"] and other["posterior"]:
        pairs = [(one["posterior"], other["posterior"], "probability", "probability_error", "probability")]
        rows = {row["quantity"]: row for row in other["posterior"]["summary"]}
        pairs += [
            (row, rows[row["quantity"]], "mean", "mcse", row["quantity"])
            for row in one["posterior"]["summary"]
            if row["quantity"] in rows
        ]
        for a, b, value, error, what in pairs:
            allowed = math.hypot(a[error] or 0.0, b[error] or 0.0)
            apart = abs(a[value] - b[value])
            if allowed:
                yield Difference(name, f"posterior {what}", a[value], b[value], apart / allowed)


def main(one: Path, other: Path) -> int:
    """Print what differs and how much was compared."""
    ours, theirs = findings(one), findings(other)
    both = sorted(ours.keys() & theirs.keys())
    found = [difference for key in both for difference in differences(ours[key], theirs[key])]
    drawn = [d for d in found if d.what.startswith("posterior")]
    plain = [d for d in found if not d.what.startswith("posterior")]
    failed = [d for d in drawn if d.size > MOST] + [d for d in plain if d.size > 1]
    turned = [key for key in both if ours[key]["verdict"] != theirs[key]["verdict"]]
    for d in sorted(failed, key=lambda d: -d.size):
        print(f"{d.finding}, {d.what}: {d.one:.6g} and {d.other:.6g}, {d.size:.1f} times what may be")
    for claim, estimand in turned:
        print(f"{claim}: {estimand}: {ours[claim, estimand]['verdict']} and {theirs[claim, estimand]['verdict']}")
    alone = len(ours.keys() ^ theirs.keys())
    print(f"{len(both)} findings in both reports, {alone} in one alone; {len(turned)} verdicts differ")
    for words, part in (("means of draws, in Monte-Carlo errors", drawn), ("other numbers, in rounding", plain)):
        print(f"{len(part)} {words}: largest {max((d.size for d in part), default=0.0):.2f}")
    return 1 if failed or turned else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
