"""Figures as SVG: drawn in the house style, the same bytes from the same numbers."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable

from matplotlib.figure import Figure

from thermostats.plots.dark import dark
from thermostats.plots.general import house_style

HEAD = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", re.S
)
PLACES = re.compile(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)')
LONG = re.compile(r"\d+\.\d{3,}")
COLOR = re.compile(r"(?<=: )#([0-9a-f]{6})\b")
"""A colour in a style."""
LABEL = 56
"""Characters of a line of a label below an axis."""
JOINS = 'stroke-linejoin="round" stroke-linecap="butt"'
"""What matplotlib's style sheet says of all elements; in a page it would say it of the whole page."""


def drawn(draw: Callable[..., object]) -> bytes:
    """Figure as a file: what `draw` does to the axes it is given."""
    stream = io.BytesIO()
    with house_style():
        figure = Figure()
        draw(figure.add_subplot())
        for axes in figure.axes:
            axes.set_xlabel(textwrap.fill(axes.get_xlabel(), LABEL))
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return compact(stream.getvalue())


def compact(svg: bytes) -> bytes:
    """A figure without comments and metadata, coordinates rounded to a hundredth of a point, and with dark colours too.

    Colours are custom properties, so that a page that is dark, or a browser that prefers dark, sets them.
    """
    text = HEAD.sub("", svg.decode())
    known = sorted(set(COLOR.findall(text)))
    text = COLOR.sub(r"var(--c-\1, #\1)", text)
    text = PLACES.sub(lambda place: LONG.sub(lambda found: f"{float(found[0]):.2f}", place[0]), text)
    text = re.sub(r"<svg ", f"<svg {JOINS} ", text, count=1)
    properties = " ".join(f"--c-{color}: {dark(f'#{color}')};" for color in known)
    style = f"<style>@media screen and (prefers-color-scheme: dark) {{ svg {{ {properties} }} }}</style>"
    text = re.sub(r"(<svg [^>]*>)", rf"\1\n{style}", text, count=1)
    lines = (line.strip() for line in text.splitlines())
    return ("\n".join(line for line in lines if line) + "\n").encode()
