"""Words that readers of pages never meet: what they say has a standard term or a plainer word."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED = ("told", "foretold", "begun", "beside", "said of", "what there is", "last block but one")
BANNED += ("gives again", "give again")
TEMPLATES = ROOT / "thermostats" / "reporting" / "templates"
FILES = [*TEMPLATES.glob("*.md"), *TEMPLATES.glob("*.html"), *(ROOT / "analyses").glob("*.md")]
FILES += [ROOT / "thermostats" / "studies" / "delia2026" / "figures" / "captions.md", ROOT / "README.md"]
FILES += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "thermostats" / "templates").glob("*.txt")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pages_are_in_plain_words(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split()).lower()
    assert [word for word in BANNED if re.search(rf"\b{word}\b", text)] == []


SPACED = re.compile(r"[0-9})][ \u00a0\u202f]%(?![}a-zA-Z(\[])")
CODE = [*(ROOT / "thermostats").rglob("*.py"), *(ROOT / "analyses").glob("*.py")]


def test_percentages_are_spelled_one_way() -> None:
    """`95%`, without a space."""
    strings = {path: tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline) for path in CODE}
    said = {path: [t.string for t in tokens if t.type == tokenize.STRING] for path, tokens in strings.items()}
    said |= {path: [path.read_text("utf-8")] for path in FILES}
    assert [
        (path.name, SPACED.findall(text)) for path, texts in said.items() for text in texts if SPACED.search(text)
    ] == []
