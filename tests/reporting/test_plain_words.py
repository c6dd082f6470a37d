"""Words that readers of pages never meet: what they say has a standard term or a plainer word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED = ("told", "foretold", "begun", "beside", "said of", "what there is", "last block but one", "gives again")
TEMPLATES = ROOT / "thermostats" / "reporting" / "templates"
FILES = [*TEMPLATES.glob("*.md"), *TEMPLATES.glob("*.html"), *(ROOT / "analyses").glob("*.md")]
FILES += [ROOT / "thermostats" / "studies" / "delia2026" / "figures" / "captions.md"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pages_are_in_plain_words(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split()).lower()
    assert [word for word in BANNED if re.search(rf"\b{word}\b", text)] == []
