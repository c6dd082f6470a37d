"""Imports what an analysis might, for the test of `imports`; it is never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thermostats.plots import general as plots

if TYPE_CHECKING:
    from thermostats.tables import join


def analyse() -> object:
    import thermostats

    return thermostats.load, plots.forest


def never(frames: join.Joined) -> None: ...
