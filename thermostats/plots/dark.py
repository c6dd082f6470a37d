"""The colours of figures on a dark page: greys swap ends, other colours are lightened until they can be seen."""

from __future__ import annotations

INK, PAPER = "#1d1f21", "#fffefb"
DARK_INK, DARK_PAPER = "#e6e4de", "#1b1d20"
SEEN = 3.0
"""Contrast with the page that a mark needs (Web Content Accessibility Guidelines 2.2, 1.4.11)."""
GREY = 24
"""Largest difference of channels of what counts as grey."""


def dark(color: str) -> str:
    """The colour that stands for another on a dark page; both as `#rrggbb`."""
    channels = _channels(color)
    if max(channels) - min(channels) < GREY:
        ink, paper = (sum(_channels(end)) for end in (INK, PAPER))
        part = min(1.0, max(0.0, (sum(channels) - ink) / (paper - ink)))
        return _mixed(_channels(DARK_INK), _channels(DARK_PAPER), part)
    steps = (_mixed(channels, (255, 255, 255), step / 20) for step in range(21))
    return next(lighter for lighter in steps if contrast(lighter, DARK_PAPER) >= SEEN)


def contrast(first: str, second: str) -> float:
    """Contrast of two colours, 1 to 21."""
    low, high = sorted(_luminance(color) for color in (first, second))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _channels(color))]
    return sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def _mixed(start: tuple[int, ...], end: tuple[int, ...], part: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(start, end, strict=True))
