"""Write constraints/pythonX.Y.txt: the version of everything that `make report` and `make test`
install, as the environment has it in which this runs.

`make test-newest lock VENV=build/newest` tries the newest versions and then locks them, for the
Python of that environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT, EXTRAS = "thermostats", ("dev", "measure")
HEAD = (
    "# What `make report` and `make test` install with Python {}; scripts/lock.py writes it, "
    "`make test-newest` tries newer ones.\n"
)


def list_needs(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What an installed package needs with some of its extras, as names with extras."""
    for line in distribution(name).requires or ():
        need = Requirement(line)
        marker = need.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield canonicalize_name(need.name), frozenset(need.extras)


def collect_versions() -> dict[str, str]:
    """Versions by name of all that the project needs and that is installed, without the part that
    names a build."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(PROJECT, frozenset({"", *EXTRAS}))]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            needs = list(list_needs(name, extras))
        except PackageNotFoundError:  # an extra that this environment lacks
            continue
        versions[name] = Version(distribution(name).version).public
        waiting += needs
    del versions[PROJECT]
    return versions


def main() -> None:
    """Write the file of this Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    lines = [f"{name}=={version}\n" for name, version in sorted(collect_versions().items())]
    path = ROOT / "constraints" / f"python{python}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD.format(python) + "".join(lines), encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(lines)} packages")


if __name__ == "__main__":
    main()
