"""Templates filled in: HTML where every value is escaped, Markdown where every value is escaped for Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape

from thermostats import words
from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED

DOI = "10.5281/zenodo.18165365"
FAILED, MISSING = "analysis failed", "not built"
SIGNS = {SUPPORTED: "✔", AGAINST: "✘", OPEN: "◐", UNMEASURED: "○", FAILED: "!", MISSING: "…"}
"""Verdicts by shape, where there is no colour."""
INDEX, METHODS, DATA, FIGURES, ATLAS, BUNDLE = "index", "methods", "data", "figures", "atlas", "bundle"
NAMES = {
    INDEX: "index.html",
    FIGURES: "figures.html",
    ATLAS: "atlas.html",
    METHODS: "methods.html",
    DATA: "data.html",
    BUNDLE: "thermostats-report.html",
}
"""Pages about all claims, by the name of their record."""
TITLES = {
    INDEX: "All claims",
    FIGURES: "Figures",
    ATLAS: "Layer atlas",
    METHODS: "Methods",
    DATA: "Data",
    BUNDLE: "All in one file",
}
SET = ((re.compile(r"(?<=\w)'(?=\w)"), "’"), (re.compile(r"(?<![\w.)\]])-(?=\d)"), words.MINUS))
"""How plain text is set: apostrophes and minus signs."""
MARKED = (
    (re.compile(r"\b([A-Za-z])_(?:\(([^()]{1,5})\)|(max|min|ij|[A-Za-z0-9])\b)"), r"\1<sub>\2\3</sub>"),
    (re.compile(r"‖_([A-Z])(?![A-Za-z])"), r"‖<sub>\1</sub>"),
    (re.compile(r"\^(?:\(([^()]{1,9})\)|(\d+(?:\.\d+)?))"), r"<sup>\1\2</sup>"),
)
"""How escaped text is marked up: W_V, n_(L-1) and 10^(1/L)."""
LETTER = re.compile(r'<path id="(DejaVu[^"]*)"(?: d="[^"]*")? transform="[^"]*"/>\n?')
NO_LETTERS = re.compile(r"<defs>\s*</defs>\n?")
WORD = r"[A-Za-zα-ω0-9]+(?:\([A-Za-z]{1,4}\))?"
SUBSCRIPT = re.compile(rf"(?<![A-Za-zα-ω])([A-Za-zα-ωΑ-Ω]\u0304?)_(?:\(([^()]{{1,12}})\)|({WORD}(?:,{WORD})*))")
"""A subscript of an equation: μ_m, x̄_lab(i), f_i,heritage, t_(n − 1)."""


def html(template: str, **values: Any) -> bytes:
    """A page; `scripts` names the scripts it inlines, the only ones that a browser will run on it."""
    scripts = [script(name) for name in values.get("scripts", ())]
    policy = " ".join(f"'sha256-{_digest(text)}'" for text in scripts) or "'none'"
    page = _html().get_template(template).render(values | {"scripts": map(Markup, scripts), "policy": policy})
    return _letters_once(page).encode()


def markdown(template: str, **values: Any) -> bytes:
    """A Markdown twin of a page."""
    return _markdown().get_template(template).render(values).encode()


@cache
def script(name: str) -> str:
    """Text of a script as it stands between its tags."""
    return "\n" + files("thermostats.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def symbols(text: str) -> Markup:
    """Escaped text with its symbols set as symbols."""
    for pattern, replacement in SET:
        text = pattern.sub(replacement, text)
    marked = str(escape(text))
    for pattern, replacement in MARKED:
        marked = pattern.sub(replacement, marked)
    return Markup(marked)  # noqa: S704


def equation(text: str) -> Markup:
    """Escaped line of an equation with its subscripts set as such."""
    return Markup(SUBSCRIPT.sub(lambda m: f"{m[1]}<sub>{m[2] or m[3]}</sub>", str(escape(text))))  # noqa: S704


def slug(text: object) -> str:
    """Text as part of a file name, an id or a class: lower-case letters and digits joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")


def _letters_once(page: str) -> str:
    """The shape of a letter of a figure is defined once a page, where it first occurs, and used everywhere."""
    known: set[str] = set()

    def first(found: re.Match[str]) -> str:
        again = found[1] in known
        known.add(found[1])
        return "" if again else found[0]

    return NO_LETTERS.sub("", LETTER.sub(first, page))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _html() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    _equip(environment)
    environment.filters |= {"symbols": symbols, "equation": equation}
    return environment


@cache
def _markdown() -> jinja2.Environment:
    """Every value that a template prints is escaped for Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"),
        autoescape=False,  # noqa: S701 - Markdown, escaped by its own finalizer
        undefined=jinja2.StrictUndefined,
        finalize=words.markdown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    _equip(environment)
    return environment


def _equip(environment: jinja2.Environment) -> None:
    environment.globals.update(signs=SIGNS, doi=DOI, names=NAMES, titles=TITLES)
    environment.filters.update(
        number=words.number,
        estimate=words.estimate_text,
        probability=words.probability_text,
        range=words.range_text,
        first_sentences=words.first_sentences,
        figure=words.figure,
        chance=words.chance,
        slug=slug,
        count=lambda value: f"{value:,}",
    )
