"""All pages in one file for sending: links between pages become anchors, small tables are carried along."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from markupsafe import Markup

from thermostats.reporting import rendering
from thermostats.reporting.freshness import machine
from thermostats.reporting.rendering import ATLAS, NAMES, TITLES

BEGIN, END = "<!-- page begins -->", "<!-- page ends -->"
"""What stands around a page's content in its file; no value can hold them, since `<` is escaped."""
CARRIED = 60_000
"""Bytes up to which a table is carried along."""
AWAY = re.compile(r'<a href="index\.html">(.*?)</a>')
"""The atlas's way back to the index; in the bundle it is in a frame of its own."""
ANCHOR = re.compile(r'<a( [^>]*?)?href="([^"]*)"([^>]*)>(.*?)</a>', re.S)


def bundle_files(
    pages: Mapping[str, bytes], claims: Mapping[str, str], read: Callable[[str], bytes]
) -> dict[str, bytes]:
    """`thermostats-report.html` of the pages' HTML by name within the report, in order.

    claims: titles of the claims by the name of their page. read: content of a file of the report by its name.
    """
    anchors = {name: _anchor(name) for name in pages}
    articles = []
    for name, content in pages.items():
        if name == NAMES[ATLAS]:
            articles.append((anchors[name], TITLES[ATLAS], "", AWAY.sub(r"<span>\1</span>", content.decode())))
        else:
            articles.append((anchors[name], _title(name, claims), _article(name, content.decode(), anchors, read), ""))
    values = {
        "articles": [(anchor, title, Markup(text), document) for anchor, title, text, document in articles],  # noqa: S704
        "machine": machine(),
        "page": "bundle",
        "up": "",
        "scripts": ("claims.js",),
    }
    return {NAMES[rendering.BUNDLE]: rendering.html("bundle.html", **values)}


def _anchor(name: str) -> str:
    """Id of a page's place in the bundle: `index`, `c04`."""
    return posixpath.dirname(name) or name.removesuffix(".html")


def _title(name: str, claims: Mapping[str, str]) -> str:
    return claims.get(name) or next(TITLES[page] for page, file in NAMES.items() if file == name)


def _article(name: str, text: str, anchors: Mapping[str, str], read: Callable[[str], bytes]) -> str:
    """A page's content with its links led to where they now are."""
    folder = posixpath.dirname(name)
    content = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]

    def led(found: re.Match[str]) -> str:
        before, href, after, inner = found[1] or "", found[2], found[3], found[4]
        if href.startswith("#"):
            return found[0]
        path, _, fragment = href.partition("#")
        target = posixpath.normpath(posixpath.join(folder, path))
        if target in anchors:
            return f'<a{before or " "}href="#{fragment or anchors[target]}"{after}>{inner}</a>'
        if target.endswith(".csv") and not target.startswith(".."):
            table = read(target)
            if len(table) <= CARRIED:
                address = "data:text/csv;charset=utf-8," + quote(table)
                return f'<a href="{address}" download="{target.replace("/", "-")}">{inner}</a>'
        return f"<span>{inner}</span>"

    content = ANCHOR.sub(led, content)
    content = re.sub(r"<(/?)main\b", r"<\1div", content)
    return re.sub(r"<(/?)h([1-4])\b", lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}", content).strip()
