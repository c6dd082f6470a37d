"""What the tests of the pages share: a small model that ships, as the tutorial takes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from thermostats.studies.nursery.plan import shipped_models


def lay_model(folder: Path) -> None:
    """Put the model of the tutorial into a folder, as `my-model`; skips the test where torch is not installed."""
    pytest.importorskip("torch")
    [model] = [path for path in shipped_models() if path.name == "r07-5"]
    shutil.copytree(model, folder / "my-model")
