"""The versions that `make` installs: one file a Python, with all that pyproject.toml asks for, and
no address."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
LINE = re.compile(r"[a-z0-9-]+==[0-9][0-9a-z.]*")


def read_lock(python: str) -> dict[str, str]:
    """Versions by name, of a file whose every line after the first says one."""
    head, *lines = (ROOT / "constraints" / f"python{python}.txt").read_text().splitlines()
    assert head.startswith("# ") and python in head
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    versions = dict(line.split("==") for line in lines)
    assert list(versions) == sorted(versions)
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_has_a_version_that_is_allowed_of_all_that_is_asked_for(python: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["dev"], *extras["docs"], *extras["ray"]]
    if python == PYTHONS[0]:
        asked += extras["measure"]
    lock = read_lock(python)
    for need in map(Requirement, asked):
        name = canonicalize_name(need.name)
        here = need.marker is None or need.marker.evaluate({"python_version": python})
        if here and name != project["name"]:
            assert need.specifier.contains(lock[name]), f"{need} and {lock[name]}"


def test_torch_is_that_which_the_tests_know() -> None:
    exact = (ROOT / "constraints.txt").read_text().strip()
    assert exact == f"torch=={read_lock(PYTHONS[0])['torch']}"


def test_every_python_that_is_allowed_has_a_lock() -> None:
    made = {path.name for path in (ROOT / "constraints").iterdir()}
    assert made == {f"python{python}.txt" for python in PYTHONS}
