"""The folder in which what can be made again is kept from run to run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from thermostats.settings import CACHE_VARIABLE as CACHE_VARIABLE  # noqa: PLC0414 (said here too)
from thermostats.settings import OFF as OFF  # noqa: PLC0414 (said here too)


def cache_folder() -> Path | None:
    """`$THERMOSTATS_CACHE`, else the platform's cache folder; None where the variable says `off`."""
    chosen = os.environ.get(CACHE_VARIABLE, "")
    if chosen == OFF:
        return None
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "thermostats"
    home = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "thermostats"
