"""The register of proofs: which classes were proved under which version of transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

import pandas as pd

from thermostats.tables import store
from thermostats.tables.folders import find_shipped
from thermostats.tables.frames import select_rows

LIBRARY = "transformers"
FITS = {"pymc": ("5.28.5",), "arviz": ("0.23.4",), "pandas": ("3.1.1",)}
"""Libraries → versions under which the tests of all fits passed; a release adds its own."""


def load_proofs() -> pd.DataFrame:
    """Rows of the table `proofs` that ship."""
    return store.load("proofs", find_shipped("data"))


def list_proved(number: str) -> set[str]:
    """Classes of which every identity held under a version of transformers."""
    proofs = load_proofs()
    held = select_rows(proofs, **{LIBRARY: number, "failed": ""})
    return set(held["architecture"])


def find_version() -> str:
    """The version of transformers that is installed; empty: none."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return ""


def list_versions() -> dict[str, tuple[str, ...]]:
    """Libraries → versions with which classes and fits were proven, the oldest first."""
    proofs = load_proofs()
    held = select_rows(proofs, failed="")
    classes = sorted(set(held[LIBRARY]), key=_parts)
    return {LIBRARY: tuple(classes), **FITS}


def find_newer(installed: Mapping[str, str]) -> list[str]:
    """Libraries that are newer here than every version with which anything was proven."""
    proven = list_versions()
    newer: list[str] = []
    for name, number in installed.items():
        if _parts(number) > max(map(_parts, proven[name])):
            newer.append(f"{name} {number}")
    return newer


def _parts(number: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison."""
    parts: list[int] = []
    for part in re.findall(r"[0-9]+", number)[:3]:
        parts.append(int(part))
    return tuple(parts)


def describe_unproven(architecture: str) -> str:
    """What `runs.proof` says of a class that was not proved under the installed version; empty: it
    was."""
    number = find_version()
    return "" if architecture in list_proved(number) else f"unproven={LIBRARY}-{number}"
