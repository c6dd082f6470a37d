"""The register of proofs: which classes were proved under which version of transformers."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pandas as pd

from thermostats.tables import store
from thermostats.tables.folders import shipped

LIBRARY = "transformers"


def load_proofs() -> pd.DataFrame:
    """Rows of the table `proofs` that ship."""
    return store.load("proofs", shipped("data"))


def list_proved(number: str) -> set[str]:
    """Classes of which every identity held under a version of transformers."""
    proofs = load_proofs()
    held = proofs[(proofs[LIBRARY] == number) & (proofs["failed"] == "")]
    return set(held["architecture"])


def find_version() -> str:
    """The version of transformers that is installed; empty: none."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return ""


def describe_unproven(architecture: str) -> str:
    """What `runs.proof` says of a class that was not proved under the installed version; empty: it
    was."""
    number = find_version()
    return "" if architecture in list_proved(number) else f"unproven={LIBRARY}-{number}"
