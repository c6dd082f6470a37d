"""All pages in one file for sending: links between pages become anchors, small tables are carried along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

from thermostats.reporting.render import Page, Within, body, shell, symbols

TITLE = "The whole report"
AWAY = '<a href="index.html">Report</a>'
"""The atlas's way back to the index; in the bundle it is in a frame of its own."""


def bundle(pages: Sequence[Page], framed: Mapping[str, str], read: Callable[[str], bytes]) -> bytes:
    """The file's HTML. framed: titles of pages that are no Markdown, by name. read: content of a file of the report."""
    anchors = {page.name: page.anchor for page in pages}
    anchors |= {name: name.removesuffix(".html") for name in framed}
    titles = {page.anchor: page.title for page in pages} | {anchors[name]: title for name, title in framed.items()}
    articles = {page.anchor: body(page, read, Within(page, anchors, read), level=1) for page in pages}
    for name, title in framed.items():
        document = escape(read(name).decode().replace(AWAY, "<span>Report</span>"))
        frame = f'<iframe class="atlas" title="{escape(title)}" srcdoc="{document}"></iframe>'
        articles[anchors[name]] = f"<h2>{escape(title)}</h2>\n{frame}"
    listed = "\n".join(f'<li><a href="#{anchor}">{symbols(title)}</a></li>' for anchor, title in titles.items())
    top = f'<nav class="contents-all" aria-label="Contents">\n<h1>{TITLE}</h1>\n<ol>\n{listed}\n</ol>\n</nav>\n'
    content = top + "\n".join(
        f'<article id="{anchor}" aria-label="{escape(titles[anchor])}">\n{article}\n'
        '<p class="back"><a href="#main-bundle">To the top</a></p>\n</article>'
        for anchor, article in articles.items()
    )
    return shell(Markup(content), "bundle", TITLE, ["claims.js"], whole=True)  # noqa: S704
