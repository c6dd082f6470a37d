"""Where what can be made again is kept: as the variable says, else where the platform keeps such things."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thermostats.tables.caching import cache_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any of the variables."""
    for name in ("THERMOSTATS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_variable_comes_first(platform: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for other in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(other, str(home / "other"))
    monkeypatch.setenv("THERMOSTATS_CACHE", str(home / "mine"))
    assert cache_folder() == home / "mine"
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    assert cache_folder() is None


@pytest.mark.parametrize(
    ("platform", "variable", "standard"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache/thermostats"),
        ("win32", "LOCALAPPDATA", ".cache/thermostats"),
        ("darwin", None, "Library/Caches/thermostats"),
    ],
)
def test_each_platform_has_its_place(
    platform: str, variable: str | None, standard: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == home / standard
    monkeypatch.setenv("THERMOSTATS_CACHE", "")
    assert cache_folder() == home / standard
    for other in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(other, str(home / other))
    assert cache_folder() == (home / standard if variable is None else home / variable / "thermostats")
