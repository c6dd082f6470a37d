"""The folder tree in CONTRIBUTING is that of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePosixPath

import pytest
from page_blocks import ROOT

DEEP = ("thermostats", "data")
"""Folders whose own folders the tree shows too."""


def tree() -> set[str]:
    """Paths that the tree of CONTRIBUTING shows, folders with a slash at the end."""
    block = re.search(
        r"^```text\n(thermostats/ .*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert block, "CONTRIBUTING.md has no tree"
    parents: list[str] = []
    paths = set()
    for line in block[1].splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        parents = [*parents[:depth], name]
        paths.add("".join(parents))
    return paths


def test_everything_shown_exists() -> None:
    assert len(tree()) > 15
    for path in tree():
        there = ROOT / path
        assert there.is_dir() if path.endswith("/") else there.is_file(), path


def test_every_folder_is_shown() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git knows which folders belong to the project")
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT).stdout  # noqa: S607
    folders = set()
    for path in map(PurePosixPath, listed.split("\0")[:-1]):
        parts = path.parent.parts
        for depth in range(1, 3 if parts[:1] and parts[0] in DEEP else 2):
            if len(parts) >= depth and not parts[0].startswith("."):
                folders.add("/".join(parts[:depth]) + "/")
    assert folders <= tree()
