"""Digests of what results depend on: content, values, the versions in use, the package."""

from __future__ import annotations

import hashlib
import json
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import thermostats

LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2", "markdown-it-py")
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz")
PACKAGE = "thermostats"
HERE = Path(__file__).resolve().parents[1]


def sha(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha_of(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


@cache
def machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    versions_of = {PACKAGE: thermostats.__version__, "python": platform.python_version()}
    return versions_of | versions(*LIBRARIES, *SAMPLERS)


def versions(*names: str) -> dict[str, str]:
    """Versions of those distributions that are installed."""
    by_name = {}
    for name in names:
        with suppress(PackageNotFoundError):
            by_name[name] = version(name)
    return by_name


@cache
def package_sha() -> str:
    """SHA-256 over the versions of package, interpreter and libraries; in a checkout also over the package's files."""
    checkout = (HERE.parent / "pyproject.toml").is_file()
    files = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc") if checkout else []
    return sha_of([machine(), [(path.relative_to(HERE).as_posix(), sha(path.read_bytes())) for path in files]])
