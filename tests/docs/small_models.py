"""What the tests of the pages share: a small model, made as the tutorial makes it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from page_blocks import ROOT, blocks


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the tutorial, in a folder called `my-model`."""
    pytest.importorskip("torch")
    code = "\n".join(
        block.code for block in blocks((ROOT / "docs/tutorial.md").read_text()) if "save_pretrained" in block.code
    )
    folder = tmp_path_factory.mktemp("model")
    with contextlib.chdir(folder):
        exec(compile("import thermostats\n" + code, "docs/tutorial.md", "exec"), {})  # noqa: S102
    return folder / "my-model"
