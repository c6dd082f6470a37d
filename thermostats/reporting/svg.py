"""Figures as SVG: drawn in the house style, the same bytes from the same numbers, and set into a page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from thermostats.plots.general import house_style

HEAD = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", re.S
)
PLACES = re.compile(r' (?:d|x|y)="[^"]*"|translate\([^)]*\)')
LONG = re.compile(r"\d+\.\d{3,}")
ROOT = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
NAMED = re.compile(r'( id="|href="#|url\(#)(?!DejaVu)')
PLACED = re.compile(r'<use xlink:(href="#DejaVu[^"]*")(?: transform="translate\((\S+) 0\)")?/>')
"""A letter in its line of text."""
PLAIN = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
SCALE = 1.8
"""Pixels of a page to a point of a figure, at most."""
JOINS = 'stroke-linejoin="round" stroke-linecap="butt"'
"""What matplotlib's style sheet says of all elements; in a page it would say it of the whole page."""


def drawn(draw: Callable[..., object]) -> bytes:
    """Figure as a file: what `draw` does to the axes it is given."""
    stream = io.BytesIO()
    with house_style():
        figure = Figure()
        draw(figure.add_subplot())
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return compact(stream.getvalue())


def compact(svg: bytes) -> bytes:
    """A figure without comments and metadata, coordinates rounded to a hundredth of a point."""
    text = HEAD.sub("", svg.decode())
    text = PLACES.sub(lambda place: LONG.sub(lambda found: f"{float(found[0]):.2f}", place[0]), text)
    text = re.sub(r"<svg ", f"<svg {JOINS} ", text, count=1)
    lines = (line.strip() for line in text.splitlines())
    return ("\n".join(line for line in lines if line) + "\n").encode()


def inline(svg: bytes, prefix: str, label: str) -> Markup:
    """Compact figure as an element of a page: its ids begin with `prefix`, `label` is what a screen reader says.

    Letters alone keep their ids, so that a page defines each once (`rendering.html`).
    """
    text = NAMED.sub(rf"\g<1>{prefix}-", svg.decode())
    text = PLACED.sub(lambda use: f'<use {use[1]} x="{use[2] or 0}"/>', text)

    def opening(found: re.Match[str]) -> str:
        width = round(SCALE * float(found[1].split()[2]))
        return (
            f'<svg {PLAIN} {JOINS} viewBox="{found[1]}" role="img" style="max-width:{width}px" '
            f'aria-label="{escape(label)}">'
        )

    return Markup(ROOT.sub(opening, text, count=1).strip())  # noqa: S704
