"""The site builds without a warning, every link in it leads somewhere, and it asks nothing of the
network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_blocks import MADE, ROOT

import thermostats

pytest.importorskip("mkdocs")


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with a warning as an error, dead links and anchors among them, from a
    copy."""
    work = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", work / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", work)
    for name in ("thermostats", "reports"):
        (work / name).symlink_to(ROOT / name, target_is_directory=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    for command in (["docs/generate.py"], ["-m", "mkdocs", "build", "--strict"]):
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            check=False,
            cwd=work,
            env=environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "WARNING" not in done.stderr
    return work / "site"


class Loaded(HTMLParser):
    """Addresses that a page loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads."""
        found = {name: value or "" for name, value in attrs}
        if tag == "link" and found.get("rel") not in {"canonical", "prev", "next"}:
            self.addresses.add(found.get("href", ""))
        self.addresses.add(found.get("src", ""))


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for path in pages:
        assert not [
            address
            for address in Loaded(path).addresses
            if "://" in address or address.startswith("//")
        ]


def test_reference_pages_are_whole(site: Path) -> None:
    from surface import commands

    from thermostats.tables.schemas import TABLES

    text = {
        name: (site / "reference" / name.replace(".md", ".html")).read_text(encoding="utf-8")
        for name in MADE
    }
    assert not [name for name in commands() if f"thermostats {name}" not in text["cli.md"]]
    assert not [name for name in TABLES if f'id="{name}"' not in text["tables.md"]]
    laws = [name for name in dir(thermostats) if name.startswith("fit_")]
    assert not [name for name in laws if f"<code>{name}</code>" not in text["models.md"]]
