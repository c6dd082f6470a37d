"""Figures as SVG: drawn in the house style, the same bytes from the same numbers."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from thermostats.plots.general import set_house_style

INK = "#1d1f21"
PAPER = "#fffefb"
DARK_INK = "#e6e4de"
DARK_PAPER = "#1b1d20"
SEEN = 3.0
"""Contrast with the page that a mark needs (Web Content Accessibility Guidelines 2.2, 1.4.11)."""
GREY = 24
"""Largest difference of channels of what counts as grey."""


def find_dark_colour(color: str) -> str:
    """The colour that stands for another on a dark page; both as `#rrggbb`."""
    channels = _split_channels(color)
    if max(channels) - min(channels) < GREY:
        ink = sum(_split_channels(INK))
        paper = sum(_split_channels(PAPER))
        grey = sum(channels) - ink
        way = grey / (paper - ink)
        part = min(1.0, max(0.0, way))
        return _combine_colours(_split_channels(DARK_INK), _split_channels(DARK_PAPER), part)
    steps = (_combine_colours(channels, (255, 255, 255), step / 20) for step in range(21))
    return next(lighter for lighter in steps if measure_contrast(lighter, DARK_PAPER) >= SEEN)


def measure_contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1 to 21."""
    low, high = sorted(map(_measure_luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def _measure_luminance(color: str) -> float:
    shares = [channel / 255 for channel in _split_channels(color)]
    linear = []
    for c in shares:
        curved = ((c + 0.055) / 1.055) ** 2.4
        linear.append(c / 12.92 if c <= 0.04045 else curved)
    weights = (0.2126, 0.7152, 0.0722)
    return sum(weight * channel for weight, channel in zip(weights, linear, strict=True))


def _split_channels(color: str) -> tuple[int, ...]:
    channels = []
    for at in (1, 3, 5):
        pair = color[at : at + 2]
        channels.append(int(pair, 16))
    return tuple(channels)


def _combine_colours(start: tuple[int, ...], end: tuple[int, ...], part: float) -> str:
    combined = "#"
    for a, b in zip(start, end, strict=True):
        mixed = round(a + (b - a) * part)
        combined += f"{mixed:02x}"
    return combined


HEAD = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>",
    re.S,
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
"""What matplotlib's style sheet says of all elements; in a page it would say it of the whole
page."""


def render_svg(draw: Callable[..., object]) -> bytes:
    """Figure as a file: what `draw` does to the axes it is given."""
    stream = io.BytesIO()
    with set_house_style():
        figure = Figure()
        canvas = FigureCanvasSVG(figure)
        dpi = figure.dpi
        draw(figure.add_subplot())
        layout = figure.get_layout_engine()
        assert layout is not None  # noqa: S101
        layout.execute(figure)  # so that the axes are as wide as they will be
        for axes in figure.axes:
            box = axes.get_window_extent()
            for label, pixels in ((axes.xaxis.label, box.width), (axes.yaxis.label, box.height)):
                points = 72 * pixels / figure.dpi
                room = points / float(label.get_fontsize())
                words = _wrap_label(label.get_text(), room)
                label.set_text(BELOW.sub(r"$\\mathregular{\1_{\2}}$", words))
        figure.dpi = dpi  # the layout leaves that of the renderer
        canvas.print_svg(stream, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call] # `savefig` would draw twice
    return reduce_svg(stream.getvalue())


def _wrap_label(label: str, room: float) -> str:
    """A label on as few lines as hold it, of lengths that are alike; `room`: length of its axis in
    sizes of text."""
    if not label:
        return ""
    letters = max(1, int(room / LETTER))
    lines = len(textwrap.wrap(label, letters))
    least = -(-len(label) // lines)
    widths = range(least, letters + 1)
    width = next(w for w in widths if len(textwrap.wrap(label, w)) <= lines)
    return textwrap.fill(label, width)


def reduce_svg(svg: bytes) -> bytes:
    """A figure without comments and metadata, coordinates rounded to a hundredth of a point, and
    with dark colours too.

    Colours are custom properties, so that a page that is dark, or a browser that prefers dark, sets
    them.
    """
    text = HEAD.sub("", svg.decode())
    colors = sorted(set(COLOR.findall(text)))
    text = COLOR.sub(r"var(--c-\1, #\1)", text)
    text = PLACES.sub(lambda place: LONG.sub(_round_place, place[0]), text)
    text = re.sub(r"<svg ", f"<svg {JOINS} ", text, count=1)
    properties = " ".join(f"--c-{color}: {find_dark_colour(f'#{color}')};" for color in colors)
    style = (
        f"<style>@media screen and (prefers-color-scheme: dark) {{ svg {{ {properties} }} "
        f"}}</style>"
    )
    text = re.sub(r"(<svg [^>]*>)", rf"\1\n{style}", text, count=1)
    lines = filter(None, map(str.strip, text.splitlines()))
    return ("\n".join(lines) + "\n").encode()


def _round_place(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}"
