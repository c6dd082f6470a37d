"""Words that readers of pages never meet: what they say has a standard term or a plainer word."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED = ("told", "foretold", "begun", "beside", "said of", "what there is", "last block but one")
BANNED += (
    "gives again",
    "give again",
    "come to the same",
    "less that of",
    "for want of",
    "stands twice",
)
OF_PAGES = (
    *BANNED,
    "commoner",
    "goes on",
    "speaks of",
    "in the place of",
    "held against",
    "of whoever",
    "tell apart",
)
"""Pages have more of them: in code some of these are parts of names that rules read."""
TEMPLATES = ROOT / "thermostats" / "reporting" / "templates"
FILES = [*TEMPLATES.glob("*.md"), *TEMPLATES.glob("*.html"), *(ROOT / "analyses").glob("*.md")]
FILES += [ROOT / "thermostats" / "studies" / "delia2026" / "captions.md", ROOT / "README.md"]
FILES += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "thermostats" / "starting_points").glob("*.txt")]


def in_text(words: tuple[str, ...], text: str) -> list[str]:
    """Those of the words that stand in a text, however its lines are broken."""
    return re.findall(rf"\b(?:{'|'.join(words)})\b", " ".join(text.split()).lower())


def test_pages_are_in_plain_words() -> None:
    banned = {
        path.relative_to(ROOT).as_posix(): in_text(OF_PAGES, path.read_text(encoding="utf-8"))
        for path in FILES
    }
    assert {name: words for name, words in banned.items() if words} == {}


SPACED = re.compile(r"[0-9})][ \u00a0\u202f]%(?![}a-zA-Z(\[])")
CODE = [*(ROOT / "thermostats").rglob("*.py"), *(ROOT / "analyses").glob("*.py")]


def test_messages_and_docstrings_are_in_plain_words() -> None:
    banned = [
        (f"{path.relative_to(ROOT).as_posix()}:{node.lineno}", words)
        for path in CODE
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (words := in_text(BANNED, re.sub(r"`[^`]*`", "", node.value)))
    ]
    assert banned == []


def test_percentages_are_spelled_one_way() -> None:
    """`95%`, without a space."""
    strings = {
        path: tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        for path in CODE
    }
    said = {
        path: [t.string for t in tokens if t.type == tokenize.STRING]
        for path, tokens in strings.items()
    }
    said |= {path: [path.read_text("utf-8")] for path in FILES}
    assert [
        (path.name, SPACED.findall(text))
        for path, texts in said.items()
        for text in texts
        if SPACED.search(text)
    ] == []
