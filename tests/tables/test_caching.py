"""Where what can be made again is kept: as the variable says, else where the platform keeps such
things."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from thermostats.tables.store import cache_folder

PLATFORMS = ("linux", "darwin", "win32")


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {}, ".cache/thermostats"),
        ("linux", {"THERMOSTATS_CACHE": ""}, ".cache/thermostats"),
        ("linux", {"XDG_CACHE_HOME": "xdg", "LOCALAPPDATA": "local"}, "xdg/thermostats"),
        ("win32", {}, ".cache/thermostats"),
        ("win32", {"XDG_CACHE_HOME": "xdg", "LOCALAPPDATA": "local"}, "local/thermostats"),
        (
            "darwin",
            {"XDG_CACHE_HOME": "xdg", "LOCALAPPDATA": "local"},
            "Library/Caches/thermostats",
        ),
        *(
            (platform, {"THERMOSTATS_CACHE": "mine", "XDG_CACHE_HOME": "xdg"}, "mine")
            for platform in PLATFORMS
        ),
        *(
            (platform, {"THERMOSTATS_CACHE": "off", "XDG_CACHE_HOME": "xdg"}, None)
            for platform in PLATFORMS
        ),
    ],
)
def test_the_variable_comes_first_then_the_place_of_the_platform(
    platform: str, variables: dict[str, str], place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", Path)
    for name in ("THERMOSTATS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, variables.get(name, ""))
    assert cache_folder() == (None if place is None else Path(place))
