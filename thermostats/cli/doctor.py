"""What is there, what is missing, and what would be slow: `thermostats doctor`."""

from __future__ import annotations

import importlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import thermostats
from thermostats.choices import cores_there_are
from thermostats.errors import ThermostatsError, install
from thermostats.reporting.stale import versions
from thermostats.tables import folders
from thermostats.tables.schemas import TABLES

OK, SLOW, MISSING, BROKEN = "ok", "slow", "missing", "broken"
PYTHONS = ((3, 11), (3, 13))
LIBRARIES = ("numpy", "pandas", "pyarrow", "scipy", "statsmodels", "matplotlib")
FITTING = ("pymc", "pytensor", "nutpie", "arviz")
EXTRAS = {
    "measure": (("torch", "transformers", "accelerate"), "thermostats measure"),
    "ray": (("ray",), "measuring on a Ray cluster"),
    "slurm": (("submitit",), "measuring on a Slurm cluster"),
}
PROCESSOR_ALONE = "+cpu"
"""How the version of a torch ends that was built without accelerators."""
ROOM = 5e9
"""Bytes of disk below which a model of a billion weights and its tables do not fit."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `broken`: the package cannot do its work; `missing`: a part of it cannot."""

    name: str
    state: str
    found: str
    advice: str = ""


def checks(data: str | Path | None = None) -> list[Check]:
    """Everything that was looked at, in order; reads the tables, and imports a torch that may find an accelerator."""
    return [check for look in (_python, _libraries, _machine, _tables) for check in look(data)]


def _python(_: object) -> Iterator[Check]:
    here = sys.version_info[:2]
    good = PYTHONS[0] <= here <= PYTHONS[1]
    yield Check("thermostats", OK, f"{thermostats.__version__} in {Path(thermostats.__file__).parent}")
    found = f"{platform.python_version()}, {platform.system()}"
    yield Check("Python", OK, found) if good else Check("Python", BROKEN, found, "use Python 3.11, 3.12 or 3.13")


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _required(name: str, *libraries: str) -> Check:
    found = versions(*libraries)
    lacking = [library for library in libraries if library not in found]
    advice = f"pip install {' '.join(lacking)}" if lacking else ""
    return Check(name, BROKEN if lacking else OK, _listed(found), advice)


def _libraries(_: object) -> Iterator[Check]:
    yield _required("tables and tests", *LIBRARIES)
    fitting = _required("fitted models", *FITTING)
    yield fitting
    if fitting.state == OK:
        yield Check("PyMC generation", OK, versions("pymc")["pymc"].split(".")[0])
        compiler = shutil.which("g++") or shutil.which("clang++")
        slow = "install g++: without it predictive checks of fitted models take many times longer"
        yield Check("C++ compiler", OK, compiler) if compiler else Check("C++ compiler", SLOW, "none", slow)
    for extra, (libraries, what) in EXTRAS.items():
        found = versions(*libraries)
        lacking = len(found) < len(libraries)
        advice = f"{install(extra)} for {what}" if lacking else ""
        yield Check(f"extra {extra}", MISSING if lacking else OK, _listed(found) or "not installed", advice)


def _machine(_: object) -> Iterator[Check]:
    cores = cores_there_are()
    few = cores < 4
    yield Check("cores", SLOW if few else OK, str(cores), "four chains are sampled at once on four" if few else "")
    if versions("torch"):
        yield _accelerator()
    from thermostats.tables.caching import cache_folder  # noqa: PLC0415 - kept from the verbs that do without

    cache, off = cache_folder(), "unset THERMOSTATS_CACHE, or every report samples afresh"
    yield Check("cache of draws", OK, str(cache)) if cache else Check("cache of draws", SLOW, "off", off)
    room = shutil.disk_usage(Path.cwd()).free
    yield Check("free disk", OK if room > ROOM else SLOW, f"{room / 1e9:.0f} GB", "" if room > ROOM else "make room")


def _accelerator() -> Check:
    there: list[str] = []
    if not version("torch").endswith(PROCESSOR_ALONE):
        try:
            torch = importlib.import_module("torch")
            there = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        except (ImportError, OSError, RuntimeError) as error:
            return Check("accelerator", BROKEN, str(error).splitlines()[0], "install torch again")
    advice = "" if there else "models are measured on the processor; thermostats measure --dry-run says what fits"
    return Check("accelerator", OK if there else SLOW, ", ".join(there) or "none", advice)


def _tables(data: str | Path | None) -> Iterator[Check]:
    yield _held("package's tables", folders.shipped("data"), _counts)
    analyses = folders.shipped("analyses")
    count = len(list(analyses.glob("[a-z][0-9][0-9]_*.py")))
    yield Check("analyses", OK if count else BROKEN, f"{count} in {analyses}", "" if count else "install it again")
    try:
        own = folders.own_folder(data)
    except ThermostatsError:
        yield Check("your store", OK, "none named", f"--data mine, or ${folders.DATA_VARIABLE}, when you have rows")
        return
    begun = Check("your store", OK, f"{own}: not there yet", "measuring or joining begins it")
    yield _held("your store", own, _checked) if own.is_dir() else begun


def _held(name: str, folder: Path, count: Callable[[Path], dict[str, int]]) -> Check:
    """What the tables of a folder hold, or what is wrong with them."""
    try:
        counts = count(folder)
    except ThermostatsError as error:
        return Check(name, BROKEN, str(error), "thermostats check")
    return Check(name, OK, f"{folder}: {counts['models']} models, {counts['runs']} runs, {counts['layers']} layer rows")


def _counts(folder: Path) -> dict[str, int]:
    """Rows of every table, each held against its schema: what ships is held against the rest when it is released."""
    from thermostats.tables.store import load  # noqa: PLC0415 - so that a broken library is reported, not met

    return {name: len(load(name, folder)) for name in TABLES}


def _checked(folder: Path) -> dict[str, int]:
    """Rows of every table, held against everything that there is to hold them against."""
    from thermostats.tables.store import check  # noqa: PLC0415 - as above, and pandas

    return check(folder)
