"""Figures as SVG: drawn in the house style, the same bytes from the same numbers."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable

from matplotlib.backends.backend_svg import FigureCanvasSVG
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
LETTER = 0.55
"""Width of a letter of a label in sizes of its text, on average."""
BELOW = re.compile(r"\b([A-Za-z])_([A-Za-z0-9]+)\b")
"""A symbol with a subscript in a label: W_V, d_h."""
JOINS = 'stroke-linejoin="round" stroke-linecap="butt"'
"""What matplotlib's style sheet says of all elements; in a page it would say it of the whole page."""


def drawn(draw: Callable[..., object]) -> bytes:
    """Figure as a file: what `draw` does to the axes it is given."""
    stream = io.BytesIO()
    with house_style():
        figure = Figure()
        canvas, dpi = FigureCanvasSVG(figure), figure.dpi
        draw(figure.add_subplot())
        layout = figure.get_layout_engine()
        assert layout is not None  # noqa: S101 (the house style has one)
        layout.execute(figure)  # so that the axes are as wide as they will be
        for axes in figure.axes:
            box = axes.get_window_extent()
            for label, pixels in ((axes.xaxis.label, box.width), (axes.yaxis.label, box.height)):
                points = 72 * pixels / figure.dpi
                words = _even(label.get_text(), points / float(label.get_fontsize()))
                label.set_text(BELOW.sub(r"$\\mathregular{\1_{\2}}$", words))
        figure.dpi = dpi  # the layout leaves that of the renderer
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call] # `savefig` would draw twice
    return compact(stream.getvalue())


def _even(label: str, room: float) -> str:
    """A label on as few lines as hold it, of lengths that are alike; `room`: length of its axis in sizes of text."""
    if not label:
        return ""
    letters = max(1, int(room / LETTER))
    lines = len(textwrap.wrap(label, letters))
    width = next(w for w in range(-(-len(label) // lines), letters + 1) if len(textwrap.wrap(label, w)) <= lines)
    return textwrap.fill(label, width)


def compact(svg: bytes) -> bytes:
    """A figure without comments and metadata, coordinates rounded to a hundredth of a point, and with dark colours too.

    Colours are custom properties, so that a page that is dark, or a browser that prefers dark, sets them.
    """
    text = HEAD.sub("", svg.decode())
    colors = sorted(set(COLOR.findall(text)))
    text = COLOR.sub(r"var(--c-\1, #\1)", text)
    text = PLACES.sub(lambda place: LONG.sub(lambda number: f"{float(number[0]):.2f}", place[0]), text)
    text = re.sub(r"<svg ", f"<svg {JOINS} ", text, count=1)
    properties = " ".join(f"--c-{color}: {dark(f'#{color}')};" for color in colors)
    style = f"<style>@media screen and (prefers-color-scheme: dark) {{ svg {{ {properties} }} }}</style>"
    text = re.sub(r"(<svg [^>]*>)", rf"\1\n{style}", text, count=1)
    lines = (line.strip() for line in text.splitlines())
    return ("\n".join(line for line in lines if line) + "\n").encode()
