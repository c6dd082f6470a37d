"""A page's HTML from its Markdown: figures inlined, tables in frames that scroll, links to the
pages' HTML.

And pages in one file for sending, all of them or a claim's: links become anchors, small tables are
carried along.

HTML in the Markdown is text, scripts are the page's own by their hash, and nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import jinja2
import pandas as pd
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from thermostats import formatting
from thermostats.claims.modality import MODALITIES
from thermostats.claims.result import AGAINST, OPEN, SUPPORTED, UNMEASURED
from thermostats.claims.template import FILTERS
from thermostats.errors import DataError
from thermostats.formatting import format_bytes

ROWS_SHOWN = 40
"""Rows of a table on a page; the accompanying file has all."""
FAILED = "analysis failed"
MISSING = "not built"
SIGNS = {SUPPORTED: "✔", AGAINST: "✘", OPEN: "◐", UNMEASURED: "○", FAILED: "!", MISSING: "…"}
"""Verdicts by shape, where there is no colour."""


class Text(str):
    """Markdown that is not escaped again."""

    __slots__ = ()


@dataclass
class Files:
    """Files of a page by name relative to the report, collected while its text is made."""

    folder: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)

    def add_table(
        self,
        frame: pd.DataFrame,
        label: str,
        name: str,
        *,
        excerpt: pd.DataFrame | None = None,
        most: int = ROWS_SHOWN,
    ) -> Text:
        """A table as text, with at most so many rows; all of them in full precision go to the file
        `name`."""
        self.add_rows(name, frame)
        return render_table(frame if excerpt is None else excerpt, label, name, most)

    def add_figure(self, svg: bytes, name: str, caption: str, data: str = "") -> Text:
        """A figure with its caption, which is its alternative text; `data`: the file of its
        numbers."""
        self.add(name, svg)
        alt = formatting.escape_markdown(caption)
        file = f'{name} "{data}"' if data else name
        return Text(f"![{alt}]({file})\n\n{alt}")

    def add_rows(self, name: str, frame: pd.DataFrame) -> None:
        """Keep a table's rows as CSV."""
        self.add(name, frame.to_csv(index=False, lineterminator="\n").encode())

    def add_page(self, name: str, **values: Any) -> None:
        """Keep a page whose template is called as its file is; `values`: what it prints."""
        self.add(name, render_text(name, **values).encode())

    def add(self, name: str, content: bytes) -> None:
        """Keep a file; `name` is relative to the page."""
        self.contents[f"{self.folder}/{name}" if self.folder else name] = content


def render_text(template: str, **values: Any) -> str:
    """A page's Markdown; every value that the template prints is escaped, but for `Text`."""
    return build_environment().get_template(template).render(values)


def render_table(
    frame: pd.DataFrame, label: str, name: str = "", most: int | None = ROWS_SHOWN
) -> Text:
    """A table under its label: as many rows as a page shows, numbers set to the right; `name`: file
    with all rows."""
    heads = []
    borders = []
    columns = []
    for head, column in frame.items():
        is_bool = pd.api.types.is_bool_dtype(column)
        is_number = pd.api.types.is_numeric_dtype(column) and not is_bool
        heads.append(_escape_value(str(head).replace("_", " ")))
        borders.append("---:" if is_number else "---")
        columns.append(list(map(_escape_value, _format_cells(column.iloc[:most]))))
    rows = list(zip(*columns, strict=True))
    lines = [f"**{_escape_value(label)}**", ""]
    lines += map(_join_cells, [heads, borders, *rows])
    cut = ""
    if len(frame) > len(rows):
        cut = f"The first {len(rows)} of {len(frame)} rows. "
    precise = f"Full precision: [{name}]({name})" if name else ""
    if below := f"{cut}{precise}".strip():
        lines += ["", below]
    return Text("\n".join(lines))


def render_link(label: str, href: str) -> Text:
    """A link; an empty `href` leads nowhere."""
    words = formatting.escape_markdown(label)
    return Text(f"[{words}]({href})" if href else words)


@cache
def build_environment() -> jinja2.Environment:
    """Templates of Markdown."""
    made = jinja2.Environment(
        autoescape=False,  # noqa: S701
        finalize=_escape_value,
        **_list_options(),
    )
    made.globals.update(signs=SIGNS, modalities=MODALITIES, newline=Text("  "))
    made.filters |= FILTERS
    made.filters.update(
        chance_of=formatting.format_statement_chance,
        estimate=formatting.estimate_text,
        probability=formatting.format_probability,
        first_sentences=formatting.take_sentences,
        slug=make_slug,
        share=lambda share: f"{formatting.format_declared(round(100 * share, 1))}%",
        versions=lambda machine: ", ".join(map(" ".join, machine.items())),
    )
    return made


def _list_options() -> dict[str, Any]:
    """What both kinds of templates have."""
    return {
        "loader": jinja2.PackageLoader("thermostats.reporting"),
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }


def make_slug(text: object) -> str:
    """Text as part of a file name, an id or a class: lower-case letters and digits joined by
    hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-")


def _join_cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_value(value: object) -> str:
    return value if isinstance(value, Text) else formatting.escape_markdown(value)


def _format_cells(column: pd.Series) -> list[str]:
    """Cells of a column as text; numbers that are all whole have no decimals."""
    is_float = pd.api.types.is_float_dtype(column)
    if is_float and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return list(map(_format_cell, column))


def _format_cell(value: Any) -> str:
    if isinstance(value, Text):
        return value
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if pd.api.types.is_integer(value):
        return f"{int(value):,}".replace("-", formatting.MINUS)
    if pd.api.types.is_float(value):
        return formatting.format_number(float(value), 4)
    is_nothing = value is None or value is pd.NA or value is pd.NaT
    return "" if is_nothing else str(value)


SCALE = 1.7
"""Pixels of a page to a point of a figure, at most."""
SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
SVG += 'stroke-linejoin="round" stroke-linecap="butt"'
ROOT = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
NAMED = re.compile(r'( id="|href="#|url\(#)(?!DejaVu)')
PLACED = re.compile(r'<use xlink:(href="#DejaVu[^"]*")(?: transform="translate\((\S+) 0\)")?/>')
"""A letter in its line of text."""
LETTER = re.compile(r'<path id="(DejaVu[^"]*)"(?: d="[^"]*")? transform="[^"]*"/>\n?')
NO_LETTERS = re.compile(r"<defs>\s*</defs>\n?")
SET = (
    (re.compile(r"(?<=\w)'(?=\w)|(?<=s)'(?=\s)"), "’"),
    (re.compile(r"(?<![\w.)\]])-(?=\d)"), formatting.MINUS),
    (re.compile(r" (×|[=<>≤≥]) (?=[−\d])"), "\u00a0\\1\u00a0"),
)
"""How plain text is set: apostrophes, minus signs, and `p = 0.03` and `9 × 10⁻¹⁶` on one line."""
MARKED = (
    (
        re.compile(r"\b([A-Za-z])_(?:\(([^()]{1,5})\)|(max|min|ij|[A-Za-z0-9])\b)"),
        r"\1<sub>\2\3</sub>",
    ),
    (re.compile(r"‖_([A-Z])(?![A-Za-z])"), r"‖<sub>\1</sub>"),
    (re.compile(r"\^(?:\(([^()]{1,9})\)|(\d+(?:\.\d+)?))"), r"<sup>\1\2</sup>"),
)
"""How escaped text is marked up: W_V, n_(L-1) and 10^(1/L)."""
WORD = r"[A-Za-zα-ω0-9]+(?:\([A-Za-z]{1,4}\))?"
LETTER_OF = "[A-Za-zα-ωΑ-Ω]\u0304?"
SYMBOL = re.compile(
    rf"(?<![A-Za-zα-ω&])({LETTER_OF}|gain|logit)_(?:\(([^()]{{1,12}})\)|({WORD}(?:,{WORD})*))"
    rf"|(?<![A-Za-zα-ω&])({LETTER_OF})(?![A-Za-zα-ω_\u0304])"
)
"""A symbol of an equation, most with a subscript: μ_m, x̄_lab(i), f_i,heritage, t_(n − 1)."""
NAME = re.compile(r"[a-z]{3,}")
"""A subscript, or part of one, that is a word and set upright."""
VERDICT = re.compile(rf"^(?:\*\*)?(?:[{''.join(SIGNS.values())}]) ({'|'.join(SIGNS)})\b")
"""A paragraph or cell that states a verdict."""
VERDICT_OF = {sign: verdict for verdict, sign in SIGNS.items()}
"""Verdicts of signs that stand alone."""
MARKDOWN_PAGE = re.compile(r"^((?:\.\./)?[\w-]+(?:/index)?)\.md$")
FOLDING, DETAILS = 4, "Details"
"""Level of headings under which a page in a browser is folded, and the part in which all of them
are."""
Env = MutableMapping[str, Any]
Links = Callable[[str], dict[str, str]]
"""Attributes of a link's tag by where it leads; without any it is plain text."""


@dataclass(frozen=True)
class Page:
    """A page of the report: its Markdown, and where it lies."""

    name: str
    """HTML file relative to the report."""
    text: str

    @property
    def anchor(self) -> str:
        """Beginning of its ids, and its place in the page of all pages: `index`, `c04`."""
        return posixpath.dirname(self.name) or self.name.removesuffix(".html")

    @property
    def title(self) -> str:
        """Its first heading, as plain text."""
        heading = self.text.partition("\n")[0].removeprefix("# ")
        tokens = _build_parser().parseInline(heading)[0].children or []
        return "".join(token.content for token in tokens if token.type == "text")

    def resolve_path(self, href: str) -> str:
        """A link of it relative to the report."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.name), href))

    def resolve_links(self, href: str) -> dict[str, str]:
        """Links of the page by itself: Markdown pages become HTML, anchors the page's own."""
        if href.startswith("#"):
            return {"href": f"#{self.anchor}-{href[1:]}"}
        return {"href": MARKDOWN_PAGE.sub(r"\1.html", href.partition("#")[0])}


def render_page(
    page: Page, read: Callable[[str], bytes], scripts: Sequence[str] = (), **values: Any
) -> bytes:
    """A page of its own. read: content of a file of the report. scripts: names of those it inlines,
    none else run."""
    content = Markup(render_body(page, read, page.resolve_links))  # noqa: S704
    up = "../" if "/" in page.name else ""
    return wrap_content(content, page.anchor, page.title, scripts, up=up, name=page.name, **values)


def wrap_content(
    content: Markup,
    anchor: str,
    title: str,
    scripts: Sequence[str],
    framed: Sequence[str] = (),
    **values: Any,
) -> bytes:
    """Content within the frame that all pages have. framed: scripts of pages that it holds in
    frames."""
    texts = [load_script(name) for name in scripts]
    policy = hash_scripts([*texts, *map(load_script, framed)])
    shared = {
        "content": content,
        "page": anchor,
        "title": title,
        "policy": policy,
        "scripts": map(Markup, texts),
    }
    html = build_page_environment().get_template("page.html").render(values | shared)
    return _deduplicate_letters(html).encode()


def load_script(name: str) -> str:
    """A script as it stands in a page."""
    return "\n" + (files("thermostats.reporting") / "templates" / name).read_text("utf-8")


def hash_scripts(scripts: Sequence[str]) -> str:
    """Sources of a content security policy that allow these scripts and no others."""
    sources = []
    for text in scripts:
        digest = hashlib.sha256(text.encode()).digest()
        sources.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    return " ".join(sources) or "'none'"


def render_body(page: Page, read: Callable[[str], bytes], links: Links, level: int = 0) -> str:
    """A page's Markdown as HTML. level: by how much its headings are lower."""
    parser = _build_parser()
    renderer = _Renderer(page, read, links, level)
    out: str = renderer.render(parser.parse(page.text), parser.options, {})
    return out + "</details>\n" * len(renderer.folded)


@cache
def build_page_environment() -> jinja2.Environment:
    """Templates of HTML, in which every value is escaped."""
    made = jinja2.Environment(autoescape=True, **_list_options())
    made.filters["symbols"] = set_symbols
    return made


def set_symbols(text: str) -> Markup:
    """Escaped text with its symbols set as symbols."""
    for pattern, replacement in SET:
        text = pattern.sub(replacement, text)
    marked = str(escape(text))
    for pattern, replacement in MARKED:
        marked = pattern.sub(replacement, marked)
    return Markup(marked)  # noqa: S704


def set_equation(text: str) -> Markup:
    """Escaped line of an equation: symbols slanted, their subscripts set as such, words upright."""
    decomposed = normalize("NFD", str(escape(text))).replace("log_", "log ")
    return Markup(SYMBOL.sub(_set_symbol, decomposed))  # noqa: S704


def _set_symbol(match: re.Match[str]) -> str:
    said = match[2] or match[3] or ""
    below = NAME.sub(r"<span>\g<0></span>", said.replace(",", ", "))
    base = match[1] or match[4]
    base = base if len(base) > 2 else f"<i>{base}</i>"
    return f"{base}<sub>{below}</sub>" if below else base


def insert_figure(svg: bytes, prefix: str, label: str) -> Markup:
    """Compact figure as an element of a page: its ids begin with `prefix`, `label` is what a screen
    reader says.

    Letters alone keep their ids, so that a page defines each once.
    """
    text = NAMED.sub(rf"\g<1>{prefix}-", svg.decode())

    def place(use: re.Match[str]) -> str:
        return f'<use {use[1]} x="{use[2] or 0}"/>'

    text = PLACED.sub(place, text)

    def opening(match: re.Match[str]) -> str:
        width = round(SCALE * float(match[1].split()[2]))
        label_text = escape(label)
        return (
            f'<svg {SVG} viewBox="{match[1]}" role="img" style="max-width:{width}px" '
            f'aria-label="{label_text}">'
        )

    return Markup(ROOT.sub(opening, text, count=1).strip())  # noqa: S704


class _Renderer(RendererHTML):
    """Tokens of one page to HTML where a page needs more than Markdown says: ids, labels, captions,
    classes."""

    def __init__(self, page: Page, read: Callable[[str], bytes], links: Links, level: int) -> None:
        super().__init__()
        self.page = page
        self.read = read
        self.links = links
        self.level = level
        self.used: dict[str, int] = {}
        self.heading = page.title
        self.caption = ""
        self.heads: list[str] = []
        self.cell = 0
        self.is_claims = self.is_stacked = self.in_equation = self.is_linked = False
        self.folded: list[int] = []
        self.least = FOLDING

    def text(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        if verdict := VERDICT_OF.get(tokens[i].content):
            return (
                f'<span class="sign {make_slug(verdict)}" role="img" '
                f'aria-label="{verdict}">{tokens[i].content}</span>'
            )
        return str((set_equation if self.in_equation else set_symbols)(tokens[i].content))

    def blockquote_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.in_equation = True
        return '<div class="equations">\n'

    def blockquote_close(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.in_equation = False
        return "</div>\n"

    def heading_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.heading = tokens[i + 1].content
        level = int(tokens[i].tag[1])
        ended = []
        for at in tuple(self.folded):
            if at >= level:
                ended.append(self.folded.pop())
        if level <= 2:
            self.least = level + 1 if self.heading == DETAILS else FOLDING
        anchor = self._make_unique(f"{self.page.anchor}-{make_slug(self.heading)}", "-")
        tag = f"h{level + self.level}"
        tokens[i].tag = tokens[i + 2].tag = tag
        tokens[i].attrSet("id", anchor)
        if level >= self.least:
            self.folded.append(level)
            return "</details>\n" * len(ended) + f'<details id="{anchor}"><summary>'
        return "</details>\n" * len(ended) + self.renderToken(tokens, i, options, env)

    def heading_close(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        level = int(tokens[i].tag[1]) - self.level
        is_folded = self.folded and self.folded[-1] == level
        return "</summary>\n" if is_folded else self.renderToken(tokens, i, options, env)

    def paragraph_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        inline = tokens[i + 1]
        children = []
        for child in inline.children or []:
            if child.content or child.nesting:
                children.append(child)
        before_table = i + 3 < len(tokens) and tokens[i + 3].type == "table_open"
        kinds = [child.type for child in children]
        if before_table and kinds[0] == "strong_open" and kinds[-1] == "strong_close":
            self.caption = "".join(child.content for child in children)
            inline.children = []
            _hide_paragraph(tokens, i)
        elif kinds == ["image"]:
            _hide_paragraph(tokens, i)
        elif i >= 3 and inline.content == _find_caption(tokens[i - 2]):
            inline.children = []
            _hide_paragraph(tokens, i)
        elif match := VERDICT.match(inline.content):
            tokens[i].attrSet("class", f"verdict {make_slug(match[1])}")
        return self.renderToken(tokens, i, options, env)

    def link_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        attributes = self.links(str(tokens[i].attrs["href"]))
        self.is_linked = bool(attributes)
        if not attributes:
            return "<span>"
        words = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
        return f"<a{words}>"

    def link_close(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        return "</a>" if self.is_linked else "</span>"

    def image(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        source = str(tokens[i].attrs["src"])
        label = self.renderInlineAsText(tokens[i].children, options, env)
        svg = self.read(self.page.resolve_path(source))
        drawn = insert_figure(svg, make_slug(f"{self.page.anchor}-{source}"), label)
        if self.is_claims:
            return str(drawn)
        scrolls = (
            f'<div class="scroll drawn" tabindex="0" role="group" aria-label="Figure">{drawn}</div>'
        )
        title = formatting.take_sentences(label, 1)
        data = str(tokens[i].attrs.get("title", ""))
        downloads = self._render_downloads({"Figure": source, "Data": data})
        rest = set_symbols(label[len(title) :].strip())
        below = " ".join(filter(None, [rest, downloads]))
        head = f'<p class="title">{set_symbols(title)}</p>'
        return f"<figure>{head}{scrolls}<figcaption>{below}</figcaption></figure>"

    def _render_downloads(self, files: dict[str, str]) -> str:
        """Links to files of the page; none where it is sent alone."""
        links = []
        for words, file in files.items():
            if file and (to := self.links(file)):
                name = escape(to.get("download", file))
                links.append(f'<a href="{escape(to["href"])}" download="{name}">{words}</a>')
        return " · ".join(links)

    def table_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.heads = []
        for token in tokens[i:]:
            if token.type == "thead_close":
                break
            if token.type == "inline":
                self.heads.append(token.content)
        self.is_claims = self.heads[:2] == ["claim", "answer"]
        is_listing = self.is_claims or "verdict" in self.heads
        self.is_stacked = is_listing and not self.caption
        is_matrix = self.heads[0] == "evidence" and not self.caption
        kind = "claims" if self.is_claims else "matrix" if is_matrix else "figures"
        tokens[i].attrSet("class", f"{kind} stacked" if self.is_stacked else kind)
        label = escape(self._name_part(self.heading, self.caption))
        caption = f"<caption>{set_symbols(self.caption)}</caption>\n" if self.caption else ""
        self.caption = ""
        scrolls = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n'
        return scrolls + self.renderToken(tokens, i, options, env) + caption

    def table_close(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.is_claims = False
        return "</table>\n</div>\n"

    def tr_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        self.cell = 0
        if self.is_claims and tokens[i + 1].type == "td_open":
            name = tokens[i + 2].content.lstrip("[").split(" ")[0]
            tokens[i].attrSet("id", name)
        return self.renderToken(tokens, i, options, env)

    def th_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        tokens[i].attrSet("scope", "col")
        return self.renderToken(tokens, i, options, env)

    def td_open(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        content = tokens[i + 1].content
        if self.is_stacked:
            tokens[i].attrSet("data-label", self.heads[self.cell])
        self.cell += 1
        if match := VERDICT.match(content):
            tokens[i].attrSet("class", f"chip {make_slug(match[1])}")
        elif not content:
            tokens[i].attrSet("class", "empty")
        return self.renderToken(tokens, i, options, env)

    def code_block(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        label = escape(self._name_part(self.heading, "commands"))
        return (
            f'<pre tabindex="0" role="region" '
            f'aria-label="{label}">{escape(tokens[i].content)}</pre>\n'
        )

    def fence(self, tokens: Sequence[Token], i: int, options: Any, env: Env) -> str:
        return self.code_block(tokens, i, options, env)

    def _name_part(self, *parts: str) -> str:
        """What a screen reader calls a part of the page."""
        words = [self.page.anchor.upper(), *filter(None, parts)]
        return self._make_unique(", ".join(words), ", ")

    def _make_unique(self, text: str, numbered: str) -> str:
        times = self.used.get(text, 0) + 1
        self.used[text] = times
        return text if times == 1 else f"{text}{numbered}{times}"


def _find_caption(token: Token) -> str:
    """The alternative text of a paragraph that is a figure, as its Markdown has it."""
    match = re.fullmatch(r"!\[(.*)\]\([^)]*\)", token.content)
    return match[1] if match else ""


@cache
def _build_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _deduplicate_letters(page: str) -> str:
    """The shape of a letter of a figure is defined once a page, where it first occurs, and used
    everywhere."""
    seen: set[str] = set()

    def first(match: re.Match[str]) -> str:
        again = match[1] in seen
        seen.add(match[1])
        return "" if again else match[0]

    return NO_LETTERS.sub("", LETTER.sub(first, page))


TITLE = "The whole report"
CARRIED = 60_000
"""Bytes up to which a table is carried along."""
MOST = 3_000_000
"""Bytes of a claim's page that is sent as one file."""
AWAY = re.compile(r"<nav\b.*?</nav>\n", re.DOTALL)
"""The atlas's way to other pages; in the bundle it is in a frame of its own."""


def _hide_paragraph(tokens: Sequence[Token], i: int) -> None:
    tokens[i].hidden = True
    tokens[i + 2].hidden = True


def build_bundle(
    pages: Sequence[Page],
    framed: Sequence[str],
    read: Callable[[str], bytes],
    keep: Callable[[Page, Callable[[Callable[[str], bytes]], str]], str],
) -> bytes:
    """The file's HTML. framed: names of pages with scripts of their own. read: content of a file of
    the report. keep: a page's article as it was kept, or as a function of how files are read makes
    it."""
    anchors = {page.name: page.anchor for page in pages}
    entries = []
    articles = []
    for page in pages:
        if page.name in framed:
            article = _frame_page(page, read)
        else:
            article = keep(page, partial(_render_article, page, anchors))
        entries.append(f'<li><a href="#{page.anchor}">{set_symbols(page.title)}</a></li>')
        label = escape(page.title)
        articles.append(
            f'<article id="{page.anchor}" aria-label="{label}">\n{article}\n'
            '<p class="back"><a href="#main-bundle">To the top</a></p>\n</article>'
        )
    contents = "\n".join([f"<h1>{TITLE}</h1>", "<ol>", *entries, "</ol>"])
    top = f'<nav class="contents-all" aria-label="Contents">\n{contents}\n</nav>\n'
    content = top + "\n".join(articles)
    return wrap_content(Markup(content), "bundle", TITLE, ["claims.js"], ["atlas.js"], bundled=True)  # noqa: S704


def _frame_page(page: Page, read: Callable[[str], bytes]) -> str:
    """A page with scripts of its own as an article: a frame that holds it."""
    document = escape(AWAY.sub("", read(page.name).decode()))
    frame = f'<iframe class="atlas" title="{escape(page.title)}" srcdoc="{document}"></iframe>'
    return f"<h2>{escape(page.title)}</h2>\n{frame}"


def _render_article(page: Page, anchors: Mapping[str, str], read: Callable[[str], bytes]) -> str:
    """A page as an article among others, which its links lead to."""
    return render_body(page, read, partial(_map_links, page, anchors, read), level=1)


def build_single(page: Page, read: Callable[[str], bytes]) -> bytes:
    """A claim's page with its figures and small tables as one file; other pages are named and not
    linked.

    Raises DataError above `MOST` bytes.
    """
    links = partial(_map_links, page, {page.name: page.anchor}, read)
    content = render_body(page, read, links)
    made = wrap_content(Markup(content), page.anchor, page.title, [], bundled=True)  # noqa: S704
    if len(made) > MOST:
        folder = page.name.partition("/")[0]
        step = f"send the folder {folder} of the report, or one of the figures in it"
        raise DataError(
            "a page too large for one file",
            where=page.title,
            got=format_bytes(len(made)),
            allowed=format_bytes(MOST),
            next_step=step,
        )
    return made


def _map_links(
    page: Page, anchors: Mapping[str, str], read: Callable[[str], bytes], href: str
) -> dict[str, str]:
    """Links among all pages in one file: other pages are anchors, small tables are carried
    along."""
    links = page.resolve_links(href)
    if href.startswith("#"):
        return links
    target = page.resolve_path(links["href"])
    if target in anchors:
        return {"href": f"#{anchors[target]}"}
    if not target.endswith(".csv") or target.startswith(".."):
        return {}
    content = read(target)
    if len(content) > CARRIED:
        return {}
    href = "data:text/csv;charset=utf-8," + quote(content)
    return {"href": href, "download": target.replace("/", "-")}
