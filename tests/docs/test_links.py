"""Every link of a Markdown page leads somewhere where the repository is read, without the built
site or report."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from page_blocks import ROOT

LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
KEPT = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
FILES = {ROOT / name for name in KEPT.stdout.splitlines()}
FOLDERS = {folder for file in FILES for folder in file.parents}
PAGES = sorted(path for path in FILES if path.suffix == ".md" and "templates" not in path.parts)
pytestmark = pytest.mark.skipif(not PAGES, reason="needs git, which knows what is kept")


def text_of(page: Path) -> str:
    """A page without its code, in which brackets are no links."""
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def anchors(page: Path) -> set[str]:
    """Targets of a page as GitHub makes them of its headings, and those it names."""
    text = page.read_text(encoding="utf-8")
    headings = (
        re.sub(r"[`*_]|\]\([^)]*\)|\[", "", heading).strip().lower()
        for heading in HEADING.findall(text)
    )
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings} | set(
        re.findall(r'(?:id|name)="([^"]+)"', text)
    )


def dead(page: Path) -> list[str]:
    """Links of a page to files that are not kept, or to headings that are not there."""
    found = []
    for link in LINK.findall(text_of(page)):
        file, _, anchor = unquote(link).partition("#")
        target = (page.parent / file).resolve() if file else page
        if "://" in link or link.startswith("mailto:"):
            continue
        held = target in FILES or target in FOLDERS
        if not held or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


def test_no_link_is_dead_in_the_repository() -> None:
    links = {str(page.relative_to(ROOT)): dead(page) for page in PAGES}
    assert {page: lost for page, lost in links.items() if lost} == {}
