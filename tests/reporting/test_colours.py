"""Colours of figures: told apart by people who see red or green poorly, and seen on a light and on
a dark page."""

from __future__ import annotations

import re
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest

from thermostats.plots.general import HERITAGES, set_house_style
from thermostats.plots.svg import DARK_PAPER, PAPER, find_dark_colour, measure_contrast, render_svg

SEES = {
    "all colours": np.eye(3),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}
"""Machado, Oliveira and Fernandes 2009 (doi:10.1109/TVCG.2009.113), severity 1, on linear RGB."""
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
LABS = [known.color.lower() for known in HERITAGES.values()]


def lines() -> list[str]:
    with set_house_style():
        return [
            f"#{color.lower().lstrip('#')}"
            for color in mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        ]


def cie_lab(color: str, sees: np.ndarray) -> np.ndarray:
    rgb = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x = TO_XYZ @ np.clip(sees @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colors: list[str], sees: np.ndarray) -> float:
    return min(
        float(np.linalg.norm(cie_lab(a, sees) - cie_lab(b, sees)))
        for a, b in combinations(colors, 2)
    )


@pytest.mark.parametrize("sees", SEES.values(), ids=SEES)
@pytest.mark.parametrize("change", [str, find_dark_colour], ids=["light", "dark"])
def test_colours_differ_whatever_colours_one_sees(sees: np.ndarray, change: type[str]) -> None:
    """CIE distances; 2.3 is a just noticeable difference. Labs differ by their markers as well."""
    assert nearest([change(color) for color in lines()], sees) > 15
    assert nearest([change(color) for color in LABS], sees) > 8


@pytest.mark.parametrize("color", [*LABS, "#5f6368", "#333333"])
def test_colours_are_seen_on_either_page(color: str) -> None:
    assert (
        measure_contrast(color, PAPER) > 2
        and measure_contrast(find_dark_colour(color), DARK_PAPER) >= 3
    )


def test_a_figure_says_how_it_looks_on_a_dark_page() -> None:
    svg = render_svg(lambda axes: axes.plot([0, 1], [0, 1])).decode()
    used = set(re.findall(r"var\(--c-([0-9a-f]{6}), #\1\)", svg))
    assert {"fffefb", "0072b2"} <= used == set(re.findall(r"--c-([0-9a-f]{6}):", svg))
    assert f"--c-fffefb: {DARK_PAPER};" in svg and "prefers-color-scheme: dark" in svg
    assert not re.search(r'style="[^"]*: #', svg)
