"""Source code of Python's standard library, as it is installed: a module a document, under the
licence of Python."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path

LICENCE = "PSF-2.0"
LEFT_OUT = {
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "site-packages",
    "dist-packages",
    "encodings",
    "pydoc_data",
    "ensurepip",
}
"""Folders that hold tests, tables, or what is not of the library."""
BYTES = (2_000, 100_000)
"""Shortest and longest module that is taken."""


def documents() -> list[str]:
    """The modules, in the order of a hash of their names, so that those held out are of every kind.

    Line ends are line feeds; form feeds, which stand between documents, are left out.
    """
    library = Path(sysconfig.get_paths()["stdlib"])
    modules = {path.relative_to(library).as_posix(): path for path in library.rglob("*.py")}
    taken = [
        name for name, path in modules.items() if not LEFT_OUT & {*Path(name).parts} and fits(path)
    ]
    texts = (
        modules[name].read_text(encoding="utf-8", errors="replace")
        for name in sorted(taken, key=scattered)
    )
    return [text.replace("\r\n", "\n").replace("\f", "") for text in texts]


def fits(path: Path) -> bool:
    """Whether a module is of a length that is taken."""
    return BYTES[0] <= path.stat().st_size <= BYTES[1]


def scattered(name: str) -> str:
    """A key that sorts names in an order that has nothing to do with their letters."""
    return hashlib.sha256(name.encode()).hexdigest()
