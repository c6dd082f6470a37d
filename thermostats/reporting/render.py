"""A page's HTML from its Markdown: figures inlined, tables in frames that scroll, links led to the pages' HTML.

HTML in the Markdown is text, scripts are the page's own by their hash, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from thermostats import words
from thermostats.reporting.text import SIGNS, slug

CARRIED = 60_000
"""Bytes up to which a table is carried along in the page of all pages."""
SCALE = 1.8
"""Pixels of a page to a point of a figure, at most."""
SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
SVG += 'stroke-linejoin="round" stroke-linecap="butt"'
ROOT = re.compile(r"<svg[^>]*?viewBox=\"([^\"]*)\"[^>]*>")
NAMED = re.compile(r'( id="|href="#|url\(#)(?!DejaVu)')
PLACED = re.compile(r'<use xlink:(href="#DejaVu[^"]*")(?: transform="translate\((\S+) 0\)")?/>')
"""A letter in its line of text."""
LETTER = re.compile(r'<path id="(DejaVu[^"]*)"(?: d="[^"]*")? transform="[^"]*"/>\n?')
NO_LETTERS = re.compile(r"<defs>\s*</defs>\n?")
SET = ((re.compile(r"(?<=\w)'(?=\w)"), "’"), (re.compile(r"(?<![\w.)\]])-(?=\d)"), words.MINUS))
"""How plain text is set: apostrophes and minus signs."""
MARKED = (
    (re.compile(r"\b([A-Za-z])_(?:\(([^()]{1,5})\)|(max|min|ij|[A-Za-z0-9])\b)"), r"\1<sub>\2\3</sub>"),
    (re.compile(r"‖_([A-Z])(?![A-Za-z])"), r"‖<sub>\1</sub>"),
    (re.compile(r"\^(?:\(([^()]{1,9})\)|(\d+(?:\.\d+)?))"), r"<sup>\1\2</sup>"),
)
"""How escaped text is marked up: W_V, n_(L-1) and 10^(1/L)."""
WORD = r"[A-Za-zα-ω0-9]+(?:\([A-Za-z]{1,4}\))?"
SUBSCRIPT = re.compile(rf"(?<![A-Za-zα-ω])([A-Za-zα-ωΑ-Ω]\u0304?)_(?:\(([^()]{{1,12}})\)|({WORD}(?:,{WORD})*))")
"""A subscript of an equation: μ_m, x̄_lab(i), f_i,heritage, t_(n − 1)."""
VERDICT = re.compile(rf"^(?:\*\*)?(?:[{''.join(SIGNS.values())}]) ({'|'.join(SIGNS)})\b")
"""A paragraph or cell that states a verdict."""
FOLDING = "h4"
"""Headings under which a page in a browser is folded."""


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
        heading = next((t for t in _parser().parseInline(self.text.split("\n", 1)[0].removeprefix("# "))), None)
        return "".join(t.content for t in (heading.children or []) if t.type == "text") if heading else self.name

    def path(self, href: str) -> str:
        """A link of it relative to the report."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.name), href))


class Links:
    """Links of a page by itself: Markdown pages become HTML, anchors the page's own."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def attributes(self, href: str) -> dict[str, str]:
        """Attributes of a link's tag; without any it is plain text."""
        path, _, fragment = href.partition("#")
        if not path:
            return {"href": f"#{self.page.anchor}-{fragment}"}
        return {"href": re.sub(r"^((?:\.\./)?[\w-]+(?:/index)?)\.md$", r"\1.html", path)}


class Within(Links):
    """Links of a page among all pages in one file: other pages are anchors, small tables are carried along."""

    def __init__(self, page: Page, anchors: Mapping[str, str], read: Callable[[str], bytes]) -> None:
        super().__init__(page)
        self.anchors, self.read = anchors, read

    def attributes(self, href: str) -> dict[str, str]:
        """Attributes of a link's tag; without any it is plain text."""
        if href.startswith("#"):
            return super().attributes(href)
        target = self.page.path(super().attributes(href)["href"])
        if target in self.anchors:
            return {"href": f"#{self.anchors[target]}"}
        if target.endswith(".csv") and not target.startswith("..") and len(content := self.read(target)) <= CARRIED:
            address = "data:text/csv;charset=utf-8," + quote(content)
            return {"href": address, "download": target.replace("/", "-")}
        return {}


def html(page: Page, read: Callable[[str], bytes], scripts: Sequence[str] = (), **values: Any) -> bytes:
    """A page of its own. read: content of a file of the report. scripts: names of those it inlines, none else run."""
    content = body(page, read, Links(page))
    up = "../" if "/" in page.name else ""
    return shell(Markup(content), page.anchor, page.title, scripts, up=up, name=page.name, **values)  # noqa: S704


def shell(
    content: Markup, anchor: str, title: str, scripts: Sequence[str], template: str = "page.html", **values: Any
) -> bytes:
    """Content within the frame that all pages have."""
    texts = [script(name) for name in scripts]
    policy = " ".join(f"'sha256-{_digest(text)}'" for text in texts) or "'none'"
    shared = {"content": content, "page": anchor, "title": title, "policy": policy, "scripts": map(Markup, texts)}
    return _letters_once(environment().get_template(template).render(values | shared)).encode()


def body(page: Page, read: Callable[[str], bytes], links: Links, level: int = 0) -> str:
    """A page's Markdown as HTML. level: by how much its headings are lower."""
    parser = _parser()
    tokens = parser.parse(page.text)
    state = {"page": page, "links": links, "read": read, "equation": False, "folded": False}
    out: str = parser.renderer.render(_Preparation(tokens, page, level).run(), parser.options, state)
    return out + ("</details>\n" if state["folded"] else "")


@cache
def script(name: str) -> str:
    """Text of a script as it stands between its tags."""
    return "\n" + files("thermostats.reporting").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """Templates of HTML, in which every value is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("thermostats.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["symbols"] = symbols
    return made


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


def inline(svg: bytes, prefix: str, label: str) -> Markup:
    """Compact figure as an element of a page: its ids begin with `prefix`, `label` is what a screen reader says.

    Letters alone keep their ids, so that a page defines each once.
    """
    text = NAMED.sub(rf"\g<1>{prefix}-", svg.decode())
    text = PLACED.sub(lambda use: f'<use {use[1]} x="{use[2] or 0}"/>', text)

    def opening(found: re.Match[str]) -> str:
        width = round(SCALE * float(found[1].split()[2]))
        said = escape(label)
        return f'<svg {SVG} viewBox="{found[1]}" role="img" style="max-width:{width}px" aria-label="{said}">'

    return Markup(ROOT.sub(opening, text, count=1).strip())  # noqa: S704


class _Renderer(RendererHTML):
    """Tokens to HTML where a page needs more than Markdown says."""

    def text(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        return str((equation if env["equation"] else symbols)(tokens[i].content))

    def blockquote_open(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        env["equation"] = True
        return '<div class="equations">\n'

    def blockquote_close(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        env["equation"] = False
        return "</div>\n"

    def heading_open(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        ended = "</details>\n" if env["folded"] else ""
        env["folded"] = bool(tokens[i].meta.get("folds"))
        return ended + ("<details><summary>" if env["folded"] else self.renderToken(tokens, i, options, env))

    def heading_close(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        return "</summary>\n" if env["folded"] else self.renderToken(tokens, i, options, env)

    def link_open(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        attributes = env["links"].attributes(str(tokens[i].attrs["href"]))
        return "<a" + "".join(f' {k}="{escape(v)}"' for k, v in attributes.items()) + ">" if attributes else "<span>"

    def link_close(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        opened = next(t for t in reversed(tokens[:i]) if t.type == "link_open")
        return "</a>" if env["links"].attributes(str(opened.attrs["href"])) else "</span>"

    def image(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        page, source = env["page"], str(tokens[i].attrs["src"])
        label = self.renderInlineAsText(tokens[i].children, options, env)
        drawn = inline(env["read"](page.path(source)), slug(f"{page.anchor}-{source}"), label)
        return f'<figure><div class="scroll drawn" tabindex="0" role="group" aria-label="Figure">{drawn}</div></figure>'

    def table_open(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        label = escape(tokens[i].meta["label"])
        caption = f"<caption>{symbols(tokens[i].meta['caption'])}</caption>\n" if tokens[i].meta["caption"] else ""
        scrolls = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n'
        return scrolls + self.renderToken(tokens, i, options, env) + caption

    def table_close(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        return "</table>\n</div>\n"

    def code_block(self, tokens: Sequence[Token], i: int, options: Any, env: MutableMapping[str, Any]) -> str:
        label = escape(tokens[i].meta["label"])
        return f'<pre tabindex="0" role="region" aria-label="{label}">{escape(tokens[i].content)}</pre>\n'


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")


class _Preparation:
    """Gives the tokens of a page ids, labels and classes, and hides what HTML says in another way."""

    def __init__(self, tokens: Sequence[Token], page: Page, level: int) -> None:
        self.tokens, self.page, self.level = tokens, page, level
        self.used: dict[str, int] = {}
        self.heading, self.caption = page.title, ""
        self.heads: list[str] = []
        self.cell = 0
        self.claims = False

    def run(self) -> Sequence[Token]:
        """The tokens, changed in place."""
        for i, token in enumerate(self.tokens):
            change = getattr(self, f"_{token.type}", None)
            if change is not None:
                change(i, token)
        return self.tokens

    def _content(self, i: int) -> str:
        """Source of the text that an opening token is followed by."""
        return self.tokens[i + 1].content

    def _unique(self, text: str, numbered: str) -> str:
        self.used[text] = self.used.get(text, 0) + 1
        return text if self.used[text] == 1 else f"{text}{numbered}{self.used[text]}"

    def _label(self, *parts: str) -> str:
        """What a screen reader calls a part of the page."""
        return self._unique(", ".join([self.page.anchor.upper(), *filter(None, parts)]), ", ")

    def _heading_open(self, i: int, token: Token) -> None:
        self.heading = self._content(i)
        token.attrSet("id", self._unique(f"{self.page.anchor}-{slug(self.heading)}", "-"))
        token.meta = {"folds": token.tag == FOLDING}
        token.tag = self.tokens[i + 2].tag = f"h{int(token.tag[1]) + self.level}"

    def _paragraph_open(self, i: int, token: Token) -> None:
        inline, close = self.tokens[i + 1], self.tokens[i + 2]
        children = [child for child in inline.children or [] if child.content or child.nesting]
        followed = self.tokens[i + 3].type if i + 3 < len(self.tokens) else ""
        if followed == "table_open" and children[0].type == "strong_open" and children[-1].type == "strong_close":
            self.caption = "".join(child.content for child in children)
            inline.children = []
            token.hidden = close.hidden = True
        elif [child.type for child in inline.children or []] == ["image"]:
            token.hidden = close.hidden = True
        elif found := VERDICT.match(inline.content):
            token.attrSet("class", f"verdict {slug(found[1])}")

    def _table_open(self, i: int, token: Token) -> None:
        self.claims = self.tokens[i + 4].content == "claim"
        token.meta = {"label": self._label(self.heading, self.caption), "caption": self.caption}
        token.attrSet("class", "claims" if self.claims else "figures")
        self.caption, self.heads = "", []

    def _th_open(self, i: int, token: Token) -> None:
        self.heads.append(self._content(i))
        token.attrSet("scope", "col")

    def _tr_open(self, i: int, token: Token) -> None:
        self.cell = 0
        if self.claims and self.heads:
            token.attrSet("id", self.tokens[i + 2].content.lstrip("[").split(" ")[0])

    def _td_open(self, i: int, token: Token) -> None:
        content = self._content(i)
        if self.claims:
            token.attrSet("data-label", self.heads[self.cell])
            self.cell += 1
        if found := VERDICT.match(content):
            token.attrSet("class", f"chip {slug(found[1])}")
        elif not content:
            token.attrSet("class", "empty")

    def _code_block(self, i: int, token: Token) -> None:
        token.meta = {"label": self._label(self.heading, "commands")}


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
