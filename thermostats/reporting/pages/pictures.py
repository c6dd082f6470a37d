"""A small picture of what a claim's findings estimate, against what it says: a line for each set of evidence.

All claims share one scale: how far an estimate lies from the number that its rule compares it with, in half-widths of
its interval; what the claim says is shaded, and to the right of that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from thermostats.claims.evidence import EXTERNAL, MEASURED, POOLED, PUBLISHED
from thermostats.claims.finding import Finding
from thermostats.formatting import declared, estimate_range
from thermostats.reporting.render import environment
from thermostats.tables.vocabulary import NURSERY

FARTHEST = 4.0
"""Half-widths from the number compared with that a picture shows; what lies beyond is an arrow at its edge."""
LEFT, RIGHT, ROW = 38.0, 116.0, 9.0
"""Ends of the scale and height of a line, in points."""
SHAPES = {
    PUBLISHED: "M-2.2,0A2.2,2.2 0 1 0 2.2,0A2.2,2.2 0 1 0 -2.2,0Z",
    MEASURED: "M-2,-2H2V2H-2Z",
    EXTERNAL: "M-2.2,-1H-1V-2.2H1V-1H2.2V1H1V2.2H-1V1H-2.2Z",
    POOLED: "M0,-2.8L2.8,0L0,2.8L-2.8,0Z",
    NURSERY: "M0,-2.6L2.6,2H-2.6Z",
}


class Seen(NamedTuple):
    """An estimate on the scale of pictures; 0 is the number that it is compared with, above 0 is as claimed."""

    evidence: str
    estimate: float
    lower: float
    upper: float
    end: float
    """Where what is claimed ends on its right."""
    words: str


def seen(finding: Finding) -> Seen | None:
    """A finding on the scale; None without an interval, or without a number to compare it with."""
    x, lower, upper = finding.headline.value, finding.headline.lower, finding.headline.upper
    rule, evidence = finding.criterion, finding.sample.evidence
    bars = [bar for bar in (rule.above, rule.below) if bar is not None]
    if x is None or lower is None or upper is None or not lower < upper or not bars:
        return None
    bar = min(bars, key=lambda value: abs(x - value))
    side = 1 if bar == rule.above else -1
    towards, away = (x - lower, upper - x) if x > bar else (upper - x, x - lower)
    unit = towards or away
    first, last = sorted(side * (end - bar) / unit for end in (lower, upper))
    other = next((side * (value - bar) / unit for value in bars if value != bar), FARTHEST)
    bounds = " and ".join(
        f"{which} {declared(value)}"
        for which, value in (("above", rule.above), ("below", rule.below))
        if value is not None
    )
    words = f"{evidence}: {estimate_range(finding.headline)}, claimed: {bounds}"
    return Seen(evidence, side * (x - bar) / unit, first, last, other, words)


def on_scale(findings: Sequence[Finding]) -> list[Seen]:
    """Of every set of evidence its first finding, in their order, as far as it can be shown."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.sample.evidence, finding)
    return [estimate for finding in first.values() if (estimate := seen(finding))]


def picture(estimates: Sequence[Seen]) -> bytes:
    """The picture as SVG, a line for each estimate."""
    rows = [
        {
            "name": estimate.evidence,
            "shape": SHAPES.get(estimate.evidence, SHAPES[PUBLISHED]),
            "y": ROW * (place + 0.5),
            "end": _place(estimate.end),
            "from": _place(estimate.lower),
            "to": _place(estimate.upper),
            "at": _place(estimate.estimate),
            "beyond": (estimate.lower < -FARTHEST) - (estimate.upper > FARTHEST),
        }
        for place, estimate in enumerate(estimates)
    ]
    values: dict[str, Any] = {"rows": rows, "row": ROW, "bar": _place(0), "left": LEFT, "right": RIGHT}
    return environment().get_template("evidence.svg").render(values).encode()


def _place(value: float) -> float:
    clipped = max(-FARTHEST, min(FARTHEST, value))
    return round(LEFT + (RIGHT - LEFT) * (clipped + FARTHEST) / (2 * FARTHEST), 2)
