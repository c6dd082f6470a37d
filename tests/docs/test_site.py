"""The site builds without a warning, every link in it leads somewhere, and it asks nothing of the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from page_blocks import MADE, ROOT

pytest.importorskip("mkdocs")


class Page(HTMLParser):
    """Links, targets and fetched addresses of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.targets: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, is a target for, or loads."""
        found = {name: value or "" for name, value in attrs}
        self.targets |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif tag == "link" and found.get("rel") not in {"canonical", "prev", "next"}:
            self.fetched.add(found.get("href", ""))
        elif "src" in found:
            self.fetched.add(found["src"])


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, from a copy, so that nothing is left in the project."""
    work = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", work / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", work)
    for name in ("thermostats", "reports"):
        (work / name).symlink_to(ROOT / name, target_is_directory=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    for command in (["docs/generate.py"], ["-m", "mkdocs", "build", "--strict"]):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, cwd=work, env=environment
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARNING" not in done.stderr
    return work / "site"


def test_no_link_is_dead(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if "://" in link or link.startswith("mailto:") or path.name == "404.html":
                continue
            file, anchor = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].targets):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not [address for address in Page(path).fetched if "://" in address or address.startswith("//")]


def test_reference_pages_are_whole(site: Path) -> None:
    from surface import commands

    from thermostats.tables.schemas import TABLES

    text = {name: (site / "reference" / name.replace(".md", ".html")).read_text(encoding="utf-8") for name in MADE}
    assert not [name for name in commands() if f"thermostats {name}" not in text["cli.md"]]
    assert not [name for name in TABLES if f'id="{name}"' not in text["tables.md"]]
    assert text["models.md"].count("<table>") > 10
