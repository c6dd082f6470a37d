"""The specification curve of a finding on its page: figure, verdicts by universe, which choice moves the answer."""

from __future__ import annotations

from typing import Any

from thermostats.claims.finding import Finding
from thermostats.formatting import listed, plural
from thermostats.modelling.specification import SpecificationCurve
from thermostats.plots.svg import drawn
from thermostats.reporting.render import Files

MOVES = {
    "choice": "choice",
    "alone": "explains alone",
    "together": "with its interplay",
    "lowest": "lowest with",
    "lowest_mean": "mean there",
    "highest": "highest with",
    "highest_mean": "mean of those",
}
"""Columns of the table of choices, with their headings."""


def universes_of(finding: Finding, number: int, suffix: str, files: Files) -> dict[str, Any] | None:
    """What the template shows of the curve of a finding, whose files end in `suffix`; None for one without."""
    if (curve := finding.curve) is None:
        return None
    size = plural(len(curve.table), "universe")
    caption = (
        f"Estimate of {finding.estimand} in {size}, in order. Rows below: how common each option is at that place of "
        "the curve; in brackets, the share of the variance between universes that each choice explains alone."
    )
    figure = files.figure(drawn(curve.plot), f"universes{suffix}.svg", caption, f"universes{suffix}.csv")
    moves = files.table(
        curve.moves, "Which choice moves the estimate how much", f"choices{suffix}.csv", excerpt=_shown(curve)
    )
    name = f"universes{suffix}.csv"
    files.add(name, curve.table.to_csv(index=False, lineterminator="\n").encode())
    return {
        "curve": curve,
        "figure": figure,
        "moves": moves,
        "file": name,
        "number": number,
        "choices": listed([f"{name} ({len(options)})" for name, options in curve.labels.items()]),
        "first": curve.moves.iloc[0].to_dict(),
        "still": listed([str(row["choice"]) for row in curve.moves.to_dict("records") if row["together"] < STILL]),
        "why": listed([f"{why} ({n})" for why, n in curve.failed["why"].value_counts().items()]),
    }


STILL = 0.01
"""Share of the variance, interplay included, below which a choice does not matter."""


def _shown(curve: SpecificationCurve) -> Any:
    shares = {name: curve.moves[name].map("{:.0%}".format) for name in ("alone", "together")}
    means = {name: curve.moves[name].map("{:.3g}".format) for name in ("lowest_mean", "highest_mean")}
    return curve.moves.assign(**shares, **means)[list(MOVES)].rename(columns=MOVES)
