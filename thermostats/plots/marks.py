"""How heritages look: one colour and one marker each, the same in every figure."""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """How one heritage looks in every figure."""

    color: str
    marker: str


def _declared() -> dict[str, Mark]:
    lines = files("thermostats.plots").joinpath("labs.csv").read_text(encoding="utf-8").splitlines()
    return {row["lab"]: Mark(row["color"], row["marker"]) for row in csv.DictReader(lines)}


HERITAGES: Mapping[str, Mark] = _declared()
"""Labs that figures keep apart, never by colour alone; Okabe and Ito's colours (jfly.uni-koeln.de/color) come first."""

ABOVE: Mapping[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 4}
"""Where a legend of heritages stands that would hide what is drawn."""
OTHER_COLORS = ("#44546A", "#9C4A4A", "#3B7A78", "#A0682C", "#6B6B6B")
OTHER_MARKERS = ("h", "d", "*", "H", "8")


def mark(heritage: str) -> Mark:
    """Colour and marker of a heritage: the same in every figure, whatever other heritages are shown.

    Heritages that end in a number, such as recipes r01 to r16, differ from one another up to 25 of them.
    """
    for name, declared in HERITAGES.items():
        if name.replace(" ", "") == heritage.replace(" ", ""):
            return declared
    counted = re.search(r"\d+$", heritage)
    number = int(counted[0]) if counted else zlib.crc32(heritage.encode())
    colors, markers = len(OTHER_COLORS), len(OTHER_MARKERS)
    return Mark(OTHER_COLORS[number % colors], OTHER_MARKERS[number // colors % markers])
