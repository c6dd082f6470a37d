"""Words that readers of pages never meet: what they say has a standard term or a plainer word."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED = ("told", "foretold", "begun", "beside", "said of", "what there is", "last block but one")
BANNED += ("gives again", "give again", "come to the same", "less that of", "for want of", "stands twice")
OF_PAGES = (*BANNED, "commoner", "goes on", "speaks of", "in the place of", "held against", "of whoever", "tell apart")
"""Pages have more of them: in code some of these are parts of names that rules read."""
TEMPLATES = ROOT / "thermostats" / "reporting" / "templates"
FILES = [*TEMPLATES.glob("*.md"), *TEMPLATES.glob("*.html"), *(ROOT / "analyses").glob("*.md")]
FILES += [ROOT / "thermostats" / "studies" / "delia2026" / "figures" / "captions.md", ROOT / "README.md"]
FILES += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "thermostats" / "starting_points").glob("*.txt")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pages_are_in_plain_words(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split()).lower()
    assert [word for word in OF_PAGES if re.search(rf"\b{word}\b", text)] == []


SPACED = re.compile(r"[0-9})][ \u00a0\u202f]%(?![}a-zA-Z(\[])")
CODE = [*(ROOT / "thermostats").rglob("*.py"), *(ROOT / "analyses").glob("*.py")]


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_messages_and_docstrings_are_in_plain_words(path: Path) -> None:
    found = (node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant))
    texts = [re.sub(r"`[^`]*`", "", " ".join(text.split())).lower() for text in found if isinstance(text, str)]
    said = [(word, text) for text in texts for word in BANNED if re.search(rf"\b{word}\b", text)]
    assert said == []


def test_percentages_are_spelled_one_way() -> None:
    """`95%`, without a space."""
    strings = {path: tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline) for path in CODE}
    said = {path: [t.string for t in tokens if t.type == tokenize.STRING] for path, tokens in strings.items()}
    said |= {path: [path.read_text("utf-8")] for path in FILES}
    assert [
        (path.name, SPACED.findall(text)) for path, texts in said.items() for text in texts if SPACED.search(text)
    ] == []
