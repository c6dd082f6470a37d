"""What is there, and what is missing: `thermostats doctor`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import thermostats
from thermostats.errors import ThermostatsError, install
from thermostats.measurement.settings import count_gpus
from thermostats.reporting.digest import versions
from thermostats.tables import folders

OK, MISSING, BROKEN = "ok", "missing", "broken"
NEEDED = ("numpy", "pandas", "pyarrow", "scipy", "statsmodels", "matplotlib", "pymc", "nutpie", "arviz")
EXTRAS = {"measure": ("torch", "transformers", "accelerate"), "ray": ("ray",)}
PYTHONS = ((3, 11), (3, 13))


def checks(data: str | Path | None = None) -> list[dict[str, str]]:
    """Rows of name, state, found, advice; `broken`: the package cannot work, `missing`: a part of it cannot."""
    python, room = sys.version.split()[0], shutil.disk_usage(Path.cwd()).free / 1e9
    good = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    rows = [("thermostats", OK, f"{thermostats.__version__} in {Path(thermostats.__file__).parent}", "")]
    rows.append(("Python", OK if good else BROKEN, python, "" if good else "use Python 3.11, 3.12 or 3.13"))
    for name, libraries in {"libraries": NEEDED, **{f"extra {name}": each for name, each in EXTRAS.items()}}.items():
        there = versions(*libraries)
        lacking = [library for library in libraries if library not in there]
        advice = install(name.partition(" ")[2]) if name != "libraries" else f"pip install {' '.join(lacking)}"
        state = OK if not lacking else BROKEN if name == "libraries" else MISSING
        listed = ", ".join(f"{library} {number}" for library, number in there.items())
        rows.append((name, state, listed or "not installed", advice if lacking else ""))
    compiler = shutil.which("g++") or shutil.which("clang++")
    rows.append(("C++ compiler", OK if compiler else MISSING, compiler or "none", "" if compiler else "install g++"))
    rows.append(("GPUs", OK, {None: "of another maker", 0: "none"}.get(gpus := count_gpus(), str(gpus)), ""))
    rows.append(("free disk", OK, f"{room:.0f} GB", ""))
    try:
        from thermostats.tables.store import check  # noqa: PLC0415 - so that a broken library is named, not met

        counts = check(place := folders.begun_or_shipped(data))
        tables = f"{place}: {counts['models']} models, {counts['runs']} runs"
        rows.append(("tables", OK, tables, ""))
    except (ThermostatsError, ImportError) as error:
        rows.append(("tables", BROKEN, str(error), "thermostats check"))
    return [dict(zip(("name", "state", "found", "advice"), row, strict=True)) for row in rows]
