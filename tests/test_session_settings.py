"""What a session chooses once holds for what follows, and never for a report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thermostats
from thermostats import options
from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.draws import Settings
from thermostats.settings import set_level
from thermostats.tables.store import CACHE_VARIABLE, cache_folder


@pytest.fixture(autouse=True)
def choices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(CACHE_VARIABLE, os.environ.get(CACHE_VARIABLE, ""))
    yield
    options.reset()


def line() -> Any:
    y = np.random.default_rng(1).normal(size=20)
    rows = pd.DataFrame({"model_id": [f"m{i}" for i in range(20)], "heritage": "A", "y": y})
    return thermostats.fit_line(rows, "y", scale=1.0, group=None)


def test_a_level_holds_for_the_fits_that_follow_and_not_for_a_report() -> None:
    before = line()
    options.level = 0.5
    after = line()
    assert (before.level, after.level) == (0.94, 0.5)
    width = [fit.summary().eval("upper - lower").iloc[0] for fit in (before, after)]
    assert width[1] < 0.5 * width[0]
    with set_level():
        assert line().level == 0.94
    assert options.level == 0.5


def test_cores_are_at_most_so_many() -> None:
    options.cores = 1
    assert sampling._build_options(Settings())["cores"] == 1


def test_the_cache_is_a_folder_or_off(tmp_path: Path) -> None:
    options.cache = tmp_path
    assert cache_folder() == tmp_path
    options.cache = "off"
    assert cache_folder() is None
    assert "cache: off" in repr(options)
    options.cache = None
    assert cache_folder() is not None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("levle", 0.9, "did you mean level?"),
        ("level", 95, "thermostats.options.level = 0.95"),
        ("level", 0.05, "thermostats.options.level = 0.95"),
        ("level", 0.06, "thermostats.options.level = 0.94"),
        ("level", "0.9", "from 0.5 to below 1"),
        ("cores", 0, "a whole number from 1"),
        ("cache", 3, "a folder"),
    ],
)
def test_what_is_no_choice_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        setattr(options, name, value)
    assert said in str(refused.value)
    assert options.level == 0.94
