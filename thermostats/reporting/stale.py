"""What a report was made of: digests of scripts, code, rows and files, and why a page is not what it would be now."""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import thermostats
from thermostats.errors import DataError
from thermostats.reporting.names import MANIFEST, SECONDS
from thermostats.tables import folders
from thermostats.tables.atomic import write_all

PAGE_CODE = "the code of its page, or what the page links to, changed"
"""Why pages are stale whose text is not."""
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2", "markdown-it-py")
SAMPLERS = ("pymc", "pytensor", "nutpie", "arviz")
PACKAGE = "thermostats"
FOR_TYPES = re.compile(r"^([ \t]*)if TYPE_CHECKING:[ \t]*\n(?:\1[ \t]+[^\n]*\n|[ \t]*\n)*", re.MULTILINE)
"""Statements for the type checker alone."""
IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n]+)", re.MULTILINE)
FROM = re.compile(rf"^[ \t]*from[ \t]+({PACKAGE}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
NAMED = re.compile(rf"\b{PACKAGE}\.\w+")
"""Imports of files that ship with the package, by their text: reading the syntax of all takes ten times as long."""
HERE = Path(__file__).resolve().parents[1]
OWN = HERE / "reporting"


@dataclass(frozen=True)
class Record:
    """What a claim's page, or a page about all claims, was made of, and the SHA-256 of its files by name."""

    script: str
    """SHA-256 of the analysis; of pages about all claims, of what they show."""
    code: str
    """SHA-256 of the package's modules that made its text."""
    machine: str = ""
    """SHA-256 of the versions of interpreter and libraries."""
    page: str = ""
    """SHA-256 of what makes HTML of Markdown, and of the pages that it leads to."""
    tables: str = ""
    """SHA-256 over the files that rows are read from; empty: those are not all known."""
    selections: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the rows read, by selection."""
    files: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """SHA-256 over the rows an analysis read and its script."""
        return sha_of([self.script, sorted(self.selections.items())])

    @property
    def but_rows(self) -> str:
        """SHA-256 over all that findings depend on but rows."""
        return sha_of([self.script, self.code, self.machine])

    def made(self, selections: Mapping[str, str], files: Mapping[str, bytes]) -> Record:
        """The record of what is made of this, and from these rows."""
        digests = {name: sha(content) for name, content in files.items()}
        return replace(self, selections=dict(sorted(selections.items())), files=digests)


def record_now(made_of: bytes, navigation: Mapping[str, str], tables: str, *modules: Path) -> Record:
    """A record of an analysis or of what a page shows, of pages that it leads to, of modules that make its text."""
    return Record(sha(made_of), code_sha(*modules), sha_of(machine()), sha_of([page_sha(), navigation]), tables)


def stale_because(record: Record | None, now: Record, changed: Callable[[Mapping[str, str]], bool], out: Path) -> str:
    """Why pages are not what they would be if made now; empty where they are.

    now: what they would be made of. changed: whether any of some selections has other rows; asked where files changed.
    """
    if record is None:
        return "not built yet"
    if record.script != now.script:
        return (
            "its script, its words or the error rates of its rules changed"
            if record.selections
            else "what it shows changed"
        )
    if record.code != now.code:
        return "code that it imports changed"
    if record.machine != now.machine:
        return "built with other versions of libraries"
    if not (record.tables and record.tables == now.tables) and changed(record.selections):
        return "rows that it reads changed"
    return _changed_file(record, out) or (PAGE_CODE if record.page != now.page else "")


def _changed_file(record: Record, out: Path) -> str:
    """What happened to the first file of a record that is not as it was written; empty where all are."""
    for name, digest in record.files.items():
        if not (out / name).is_file():
            return f"{name} is missing"
        if sha((out / name).read_bytes()) != digest:
            return f"{name} was edited"
    return ""


def sha(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha_of(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


@cache
def machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    own = {PACKAGE: thermostats.__version__, "python": platform.python_version()}
    return own | versions(*LIBRARIES, *SAMPLERS)


def versions(*names: str) -> dict[str, str]:
    """Versions of those distributions that are installed."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def code_sha(*paths: Path) -> str:
    """SHA-256 over the package's files that files import, and over those themselves and their templates within it.

    Tables, styles and texts in the folder of a module count as part of it.
    """
    own = {path for path in paths if path.resolve().is_relative_to(HERE)}
    modules = {*own, *(module for path in paths for module in closure(path))}
    texts = {path for path in _templates() if path.suffix == ".md" and own}
    texts |= {path for folder in {module.parent for module in modules} for path in _data(folder)}
    digest = hashlib.sha256()
    for module in sorted({*modules, *texts}):
        digest.update(module.relative_to(HERE).as_posix().encode() + b"\0" + _own(module))
    return digest.hexdigest()


@cache
def page_sha() -> str:
    """SHA-256 over what makes HTML of Markdown: the renderer, its frame, style and scripts."""
    frame = [path for path in _templates() if path.suffix != ".md"]
    return sha_of([sha(path.read_bytes()) for path in (OWN / "render.py", *frame)])


def closure(path: Path) -> tuple[Path, ...]:
    """Files of the package that a file imports, at its head or inside its functions, and so on from there; sorted.

    Imports for the type checker alone do not count. The package's own `__init__` loads nothing before it is asked.
    """
    found: set[Path] = set()
    ours = any(path.is_relative_to(folder) for folder in (HERE, folders.shipped("analyses")))
    waiting = list((_imported if ours else _imported_by)(path.read_bytes()))
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(_own(module))
    return tuple(sorted(found))


def read_manifest(out: Path) -> dict[str, Record]:
    """Records of a report by claim or page; empty where there is no report.

    Raises DataError where the manifest is damaged.
    """
    path = out / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return {name: Record(**record) for name, record in content.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError("the manifest of the report cannot be read", where=path, got=error.strerror or "") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        step = "delete it, then thermostats report --all"
        raise DataError("the manifest of the report is damaged", where=path, got=str(error), next_step=step) from error


def write_manifest(out: Path, records: Mapping[str, Record]) -> None:
    """Write the records; nothing where they are as they were."""
    write_files(out, {MANIFEST: _json({name: asdict(record) for name, record in records.items()})})


def read_seconds(out: Path) -> dict[str, float]:
    """How long each analysis took when it last ran; empty where that is not known."""
    try:
        return {str(name): float(took) for name, took in json.loads((out / SECONDS).read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_seconds(out: Path, seconds: Mapping[str, float]) -> None:
    """Note how long each analysis took."""
    write_files(out, {SECONDS: _json(seconds)})


def write_files(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write those files that are not there with the same bytes; their names."""
    there = {name: out / name for name in files if (out / name).is_file()}
    written = [name for name, content in files.items() if name not in there or there[name].read_bytes() != content]
    write_all(out, {out / name: files[name] for name in written})
    return written


def remove_files(out: Path, names: Iterable[str]) -> list[str]:
    """Remove files of a report, and folders left empty; the names of those that were there."""
    removed = [name for name in names if (out / name).is_file()]
    for name in removed:
        path = out / name
        path.unlink()
        if path.parent != out and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return removed


def module_file(name: str) -> Path | None:
    """File of a module of the package; None where there is none."""
    base = HERE.joinpath(*name.split(".")[1:])
    return next((path for path in (base.with_name(f"{base.name}.py"), base / "__init__.py") if path.is_file()), None)


@cache
def _own(module: Path) -> bytes:
    """A file of the package as it was when it was first read, which is as it runs."""
    return module.read_bytes()


@cache
def _imported(source: bytes) -> frozenset[Path]:
    """Files of the package that a source imports by name, and the packages that they are in; as ruff formats it."""
    text = FOR_TYPES.sub("", re.sub(r"#[^\n]*", "", source.decode(errors="replace")))
    names = {name for line in IMPORT.findall(text) for name in re.split(r"[\s,]+", line)}
    for module, imported in FROM.findall(text):
        names |= {module, *(_public(f"{module}.{name}") for name in re.findall(r"\w+", imported))}
    if PACKAGE in names:
        names |= {_public(name) for name in NAMED.findall(text)}
    return _files(names)


@cache
def _imported_by(source: bytes) -> frozenset[Path]:
    """The same of a source of any style."""
    names: set[str] = set()
    called: dict[str, str] = {}
    attributes: set[tuple[str, str]] = set()
    waiting: list[ast.AST] = []
    with suppress(SyntaxError, ValueError):  # running it says so
        waiting.append(ast.parse(source))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            called |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(_public(f"{node.module}.{alias.name}") for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.add((node.value.id, node.attr))
    names |= {_public(f"{called.get(of, of)}.{name}") for of, name in attributes}
    return _files(names)


def _files(names: Iterable[str]) -> frozenset[Path]:
    """Files of the modules of the package among some names, and of the packages that they are in."""
    parts = (name.split(".") for name in names)
    whole = {".".join(part[:depth]) for part in parts if part[0] == PACKAGE for depth in range(2, len(part) + 1)}
    return frozenset(file for name in whole if (file := module_file(name)) is not None)


def _public(name: str) -> str:
    """Module of a name that the package itself offers: `thermostats.load` is of `thermostats.tables.store`."""
    package, _, rest = name.partition(".")
    return thermostats._HOME.get(rest, name) if package == PACKAGE else name


@cache
def _data(folder: Path) -> tuple[Path, ...]:
    """What the modules of a folder may read that lies in it."""
    return tuple(path for path in folder.iterdir() if path.suffix in {".csv", ".md", ".mplstyle"})


def _templates() -> list[Path]:
    return sorted(path for path in (OWN / "templates").iterdir() if path.is_file())


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
