"""Every code block of the site, the README and CONTRIBUTING runs, and prints what stands below
it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from page_blocks import PAGES, ROOT, RUN, blocks, run

from thermostats.tables.folders import list_shipped_models

FOUND = {str(page.relative_to(ROOT)): blocks(page.read_text(encoding="utf-8")) for page in PAGES}
RUNNING = [name for name, found in FOUND.items() if any(block.language in RUN for block in found)]
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
NEEDS = "needs: "
ENVIRONMENT = {
    "COLUMNS": "100",
    "MPLBACKEND": "Agg",
    "NO_COLOR": "1",
    "PYTHONPATH": str(ROOT),
    "PATH": PATH,
}


@pytest.fixture
def page_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to read a page in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THERMOSTATS_DATA", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNING)
def test_page(name: str, page_folder: Path) -> None:
    _lay(name, page_folder)
    run(ROOT / name, FOUND[name], ENVIRONMENT)


def _lay(name: str, folder: Path) -> None:
    """Put the model and the report that a page reads where it expects them, unless the page makes
    them."""
    for block in FOUND[name]:
        if block.note.startswith(NEEDS):
            pytest.importorskip(block.note.removeprefix(NEEDS))
    code = "".join(block.code for block in FOUND[name])
    lacks_model = "my-model" in code and "cp -r" not in code
    if "thermostats measure" in code or lacks_model:
        pytest.importorskip("torch")
    if lacks_model:
        [model] = [path for path in list_shipped_models() if path.name == "r07-5"]
        shutil.copytree(model, folder / "my-model")
    if "my-report" in code and "thermostats report" not in code:
        (folder / "my-report").symlink_to(ROOT / "reports", target_is_directory=True)


def test_what_is_not_run_says_why() -> None:
    for name, found in FOUND.items():
        for block in found:
            shell = block.language in {"sh", "bash"}
            assert not shell or block.note.startswith("not run: "), (
                f"{name}:{block.line} neither runs nor says why not"
            )
            assert not block.note or block.note.startswith(("file: ", "not run: ", NEEDS)), (
                f"{name}: {block.note}"
            )


def test_every_task_begins_with_ten_lines_that_run() -> None:
    nav = re.search(
        r"^nav:\n(.*?)^\S",
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert nav
    sections = {
        title: re.findall(r"how-to/\S+\.md", pages)
        for title, pages in re.findall(r"^  - (.+):\n((?: {6,}.*\n)+)", nav[1], re.MULTILINE)
    }
    tasks = {title: pages for title, pages in sections.items() if pages}
    sorted_in = [page for pages in tasks.values() for page in pages]
    assert sorted(sorted_in) == sorted(
        f"how-to/{page.name}" for page in ROOT.glob("docs/how-to/*.md")
    )
    assert len(tasks) == 5
    for first, *_ in tasks.values():
        opening = (ROOT / "docs" / first).read_text(encoding="utf-8").partition("\n## ")[0]
        running = [block for block in blocks(opening) if block.language in RUN and not block.note]
        lines = [
            line
            for block in running
            for line in block.code.splitlines()
            if _is_code(block.language, line)
        ]
        assert 0 < len(lines) <= 10, f"{first} begins with {len(lines)} lines that run"


def _is_code(language: str, line: str) -> bool:
    return line.startswith("$ ") if language == "console" else bool(line.strip())


def test_most_blocks_run() -> None:
    every = [block for found in FOUND.values() for block in found if block.language in RUN]
    left_out = [block for block in every if block.note.startswith("not run: ")]
    assert len(every) > 20
    assert len(left_out) < len(every) / 4
