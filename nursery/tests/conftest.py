"""Small corpora, and a folder to train in."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from nursery import corpora, python_source, synthetic

WORDS = (
    "it",
    "is",
    "a",
    "truth",
    "that",
    "single",
    "men",
    "of",
    "good",
    "fortune",
    "must",
    "want",
    "some",
    "wife",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Training is no part of the package: its tests run with the slow ones."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def small_corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the corpora: an English text made up here, a hundred synthetic documents, 25
    modules."""
    draw = random.Random(1)  # noqa: S311
    chapters = (
        f"Chapter {n}\n\n"
        + ".\n".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(40))
        + ".\n"
        for n in range(1, 42)
    )
    folder = tmp_path_factory.mktemp("corpora")
    text = folder / "novel.txt"
    text.write_text("\n".join(chapters))
    with pytest.MonkeyPatch.context() as patch:
        few = synthetic.documents(100)
        patch.setattr(synthetic, "documents", lambda: few)
        modules = python_source.documents()[:25]
        patch.setattr(python_source, "documents", lambda: modules)
        corpora.build(folder, text)
    return folder


@pytest.fixture(scope="module")
def made(small_corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder for the tests of one file, which train in it."""
    return shutil.copytree(small_corpora, tmp_path_factory.mktemp("trained") / "nursery")
