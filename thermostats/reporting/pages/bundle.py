"""Pages in one file for sending, all of them or a claim's: links become anchors, small tables are carried along."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from markupsafe import Markup, escape

from thermostats.errors import DataError
from thermostats.reporting.render import Page, body, shell, symbols

TITLE = "The whole report"
CARRIED = 60_000
"""Bytes up to which a table is carried along."""
MOST = 3_000_000
"""Bytes of a claim's page that is sent as one file."""
AWAY = re.compile(r"<nav\b.*?</nav>\n", re.DOTALL)
"""The atlas's way to other pages; in the bundle it is in a frame of its own."""


def bundle(pages: Sequence[Page], framed: Sequence[str], read: Callable[[str], bytes]) -> bytes:
    """The file's HTML. framed: names of pages with scripts of their own. read: content of a file of the report."""
    anchors = {page.name: page.anchor for page in pages}
    titles = {page.anchor: page.title for page in pages}
    articles = {page.anchor: body(page, read, partial(_links, page, anchors, read), level=1) for page in pages}
    for page in pages:
        if page.name in framed:
            document = escape(AWAY.sub("", read(page.name).decode()))
            frame = f'<iframe class="atlas" title="{escape(page.title)}" srcdoc="{document}"></iframe>'
            articles[page.anchor] = f"<h2>{escape(page.title)}</h2>\n{frame}"
    listed = "\n".join(f'<li><a href="#{anchor}">{symbols(title)}</a></li>' for anchor, title in titles.items())
    top = f'<nav class="contents-all" aria-label="Contents">\n<h1>{TITLE}</h1>\n<ol>\n{listed}\n</ol>\n</nav>\n'
    content = top + "\n".join(
        f'<article id="{anchor}" aria-label="{escape(titles[anchor])}">\n{article}\n'
        '<p class="back"><a href="#main-bundle">To the top</a></p>\n</article>'
        for anchor, article in articles.items()
    )
    return shell(Markup(content), "bundle", TITLE, ["claims.js"], ["atlas.js"], bundled=True)  # noqa: S704


def single(page: Page, read: Callable[[str], bytes]) -> bytes:
    """A claim's page with its figures and small tables as one file; other pages are named and not linked.

    Raises DataError above `MOST` bytes.
    """
    content = body(page, read, partial(_links, page, {page.name: page.anchor}, read))
    made = shell(Markup(content), page.anchor, page.title, [], bundled=True)  # noqa: S704
    if len(made) > MOST:
        raise DataError(
            "a page too large for one file",
            where=page.title,
            got=f"{len(made) / 1e6:.1f} MB",
            allowed=f"{MOST / 1e6:g} MB",
            next_step=f"send the folder {page.name.partition('/')[0]} of the report, or one of the figures in it",
        )
    return made


def _links(page: Page, anchors: Mapping[str, str], read: Callable[[str], bytes], href: str) -> dict[str, str]:
    """Links among all pages in one file: other pages are anchors, small tables are carried along."""
    links = page.links(href)
    if href.startswith("#"):
        return links
    target = page.path(links["href"])
    if target in anchors:
        return {"href": f"#{anchors[target]}"}
    if target.endswith(".csv") and not target.startswith("..") and len(content := read(target)) <= CARRIED:
        return {"href": "data:text/csv;charset=utf-8," + quote(content), "download": target.replace("/", "-")}
    return {}
