"""A report as it stands in its folder, and what of it is stale; nothing is run or made here."""

from __future__ import annotations

import csv
import hashlib
import json
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.claims.study import (
    find_account,
    list_script_files,
    list_study_models,
    load_named,
    load_studies,
)
from thermostats.errors import DataError
from thermostats.formatting import format_count, join_words
from thermostats.public_names import VERSION
from thermostats.reporting.pages import (
    CHECKSUMS,
    MADE_OF,
    MANIFEST,
    PAGES,
    SNAPSHOT,
    TABLE,
    name_findings_file,
    name_folder,
    name_worlds_file,
)
from thermostats.settings import SAMPLERS
from thermostats.tables import folders
from thermostats.tables.folders import (
    ADVICE,
    BOUNDS,
    CANDIDATES,
    MOVES,
    PROVENANCE,
    find_shipped,
    write_all,
)
from thermostats.tables.schemas import EXTERNAL, TABLES

if TYPE_CHECKING:
    from thermostats.claims.evidence import Evidence


LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2", "markdown-it-py")
PACKAGE = "thermostats"
HERE = Path(__file__).resolve().parents[1]


def hash_content(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def hash_value(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hash_content(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


@cache
def describe_machine() -> dict[str, str]:
    """Versions of the package, the interpreter and the libraries that results can depend on."""
    versions_of = {PACKAGE: VERSION, "python": platform.python_version()}
    return versions_of | versions(*LIBRARIES, *SAMPLERS)


def versions(*names: str) -> dict[str, str]:
    """Versions of those distributions that are installed."""
    by_name = {}
    for name in names:
        with suppress(PackageNotFoundError):
            by_name[name] = version(name)
    return by_name


@cache
def hash_package() -> str:
    """SHA-256 over the versions of package, interpreter and libraries; in a checkout also over the
    package's files.

    The tables that words, bounds of nuisances and advice are made of are among these.
    """
    if not (HERE.parent / "pyproject.toml").is_file():
        return hash_value([describe_machine(), []])
    files = []
    for path in HERE.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            files.append(path)
    tables = []
    for name in (MOVES, BOUNDS, CANDIDATES, ADVICE):
        path = find_shipped("data") / name
        if path.is_file():
            tables.append(hash_content(path.read_bytes()))
    return hash_value([describe_machine(), _hash_files(HERE, sorted(files)), tables])


FIGURES = ("posterior", "mc_error", "rhat_max", "ess_min", "divergences")
"""Columns of the table that are numbers."""
COLUMNS = {"finding", "evidence", "claim", "drawn", "inputs_sha", *FIGURES}


@dataclass(frozen=True)
class Posteriors:
    """Rows of a snapshot whose posterior PyMC drew, by finding and set of evidence."""

    rows: Mapping[tuple[str, str], Mapping[str, str]]
    damaged: str = ""
    """Why there are none, where the table cannot be read."""

    def hash_claim(self, claim: str) -> str:
        """SHA-256 of those of one claim."""
        rows = []
        for row in self.rows.values():
            if row["claim"] == claim:
                rows.append(list(row.values()))
        return hash_value([self.damaged, rows])

    def find_row(self, finding: str, evidence: str, inputs: str) -> Mapping[str, str] | str:
        """The row that stands for a finding made of such inputs (`hash_inputs`), or why none
        does."""
        row = self.rows.get((finding, evidence))
        if self.damaged or row is None:
            return self.damaged or "the snapshot has none of it"
        if row["inputs_sha"] != inputs:
            return "the snapshot is of other rows, or of another script"
        version = row["drawn"].removeprefix(f"{PACKAGE} ").partition(",")[0]
        return row if version == VERSION else f"the snapshot was drawn by {PACKAGE} {version}"


def hash_inputs(script: str, selections: Mapping[str, str]) -> str:
    """SHA-256 of what a finding is made of: the script with its words and error rates, and rows by
    selection."""
    return hash_value([script, sorted(selections.items())])


def locate_shipped_snapshot() -> Path:
    """The snapshot's table of findings that ships with the package."""
    return find_shipped(f"reports/{SNAPSHOT}") / TABLE


def load_posteriors(path: Path | None = None) -> Posteriors:
    """Those of the snapshot that ships with the package, or of another table of findings."""
    try:
        with (path or locate_shipped_snapshot()).open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file, strict=True) if row["drawn"]]
        for row in rows:
            _check_row(row)
    except FileNotFoundError:
        return Posteriors({}, "no snapshot ships with this version")
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return Posteriors({}, "the snapshot is damaged or of another version")
    return Posteriors({(row["finding"], row["evidence"]): row for row in rows})


def _check_row(row: Mapping[str, str]) -> None:
    """Raise ValueError for a row of the snapshot that is not whole."""
    if None in row or not row.keys() >= COLUMNS:
        raise ValueError("a row has not the columns of the table")
    if not (row["posterior"] or "").strip() or not row["drawn"].strip():
        raise ValueError("a row lacks its posterior, or by what it was drawn")
    for name in FIGURES:
        if row[name]:
            float(row[name])


def write_files(out: Path, files: Mapping[str, bytes]) -> list[str]:
    """Write those files that are not there with the same bytes; their names."""
    names = []
    changed = {}
    for name, content in files.items():
        path = out / name
        if not path.is_file() or path.read_bytes() != content:
            changed[path] = content
            names.append(name)
    write_all(out, changed)
    return names


def remove_files(out: Path, names: Iterable[str]) -> list[str]:
    """Remove files of a report, and folders left empty; the names of those that were there."""
    removed = [name for name in names if (out / name).is_file()]
    for name in removed:
        path = out / name
        path.unlink()
        if path.parent != out and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return removed


def dump_json(value: object) -> bytes:
    """A value as JSON that is the same bytes for equal values."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


NEW = "not built yet"
LINKS, ROWS = "what the page links to changed", "rows that it reads changed"
"""Why pages are stale whose text is not."""
FOLDER = "the data folder that it names is another"
"""Why pages are stale that tell the user a command with the folder in it."""
POSTERIORS = "posteriors that it does not draw"
"""Why pages are stale that show what the snapshot has of these: that changed, or they are to be
drawn."""


@dataclass(frozen=True)
class Record:
    """What a claim's page, or a page about all claims, was made of, and the SHA-256 of its files by
    name."""

    digest: str
    """SHA-256 of all that it depends on but rows: script, words, error rates or what it shows;
    package, libraries."""
    links: str = ""
    """SHA-256 of the pages that it leads to."""
    tables: str = ""
    """SHA-256 over the files that rows are read from; empty: those are not all known."""
    rows: str = ""
    """SHA-256 of the rows that it was made of, as `claims.stored.Stored.rows` has it."""
    files: dict[str, str] = field(default_factory=dict)
    posteriors: str = ""
    """SHA-256 of the snapshot's posteriors of the claim, of a page on which one is not drawn; else
    empty."""
    folder: str = ""
    """SHA-256 of the data folder's path, of a page whose sentences name it; else empty."""

    @classmethod
    def build(
        cls, made_of: bytes, links: Mapping[str, str], tables: str, posteriors: str = ""
    ) -> Record:
        """The record of a page that is made of these bytes by this package, before its rows and
        files are known."""
        digest = hash_value([hash_content(made_of), hash_package()])
        return cls(digest, hash_value(links), tables, posteriors=posteriors)

    def add_made(self, rows: str, files: Mapping[str, bytes]) -> Record:
        """The record of what is made of this, and from these rows."""
        digests = {name: hash_content(content) for name, content in files.items()}
        return replace(self, rows=rows, files=digests)


def find_stale_cause(record: Record | None, now: Record, rows: Callable[[], str], out: Path) -> str:
    """Why a page is not what it would be if made now; empty where it is.

    now: what it would be made of. rows: SHA-256 of the rows of its findings; asked where files of
    tables changed.
    """
    if record is None:
        return NEW
    if record.posteriors and record.posteriors != now.posteriors:
        return POSTERIORS
    if record.digest != now.digest:
        return (
            "its script, its words, the error rates of its rules, the package or a library changed"
        )
    if not (record.tables and record.tables == now.tables) and record.rows != rows():
        return ROWS
    return _find_changed_file(record, out) or (LINKS if record.links != now.links else "")


def read_manifest(out: Path) -> dict[str, Record]:
    """Records of a report by claim or page; without those of another version, and empty where there
    is no report.

    Raises DataError where the manifest is damaged.
    """
    path = out / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        names = {each.name for each in fields(Record)}
        of_this_version = {}
        for n, record in content.items():
            if record.keys() <= names:
                of_this_version[n] = record
        return {name: Record(**record) for name, record in of_this_version.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(
            "the manifest of the report cannot be read", where=path, got=error.strerror or ""
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        step = "delete it, then thermostats report --all"
        raise DataError(
            "the manifest of the report is damaged", where=path, got=str(error), next_step=step
        ) from error


def write_manifest(out: Path, records: Mapping[str, Record]) -> None:
    """Write the records; nothing where they are as they were."""
    content = {name: asdict(record) for name, record in records.items()}
    write_files(out, {MANIFEST: dump_json(content)})


def _find_changed_file(record: Record, out: Path) -> str:
    """What happened to the first file of a record that is not as it was written; empty where all
    are."""
    for name, digest in record.files.items():
        if not (out / name).is_file():
            return f"{name} is missing"
        if hash_content((out / name).read_bytes()) != digest:
            return f"{name} was edited"
    return ""


COPIED = 64_000_000
"""Bytes of tables up to which a report outside the tables' folder takes a copy of them."""


@dataclass(frozen=True)
class Listed:
    """A file that a report rests on."""

    path: Path
    table: str
    """Which table it holds rows of; empty: it is an analysis or the codebook."""
    name: str
    """Relative to the root; empty: not within it, and too large to be copied."""
    copied: bool

    @cached_property
    def content(self) -> bytes:
        """Its bytes."""
        return self.path.read_bytes()

    @cached_property
    def sha(self) -> str:
        """SHA-256 of its bytes."""
        return hash_content(self.content)


@dataclass(frozen=True)
class Layout:
    """Folders of a report; its root is the folder that it lies in.

    Tables and analyses within the root are where they are; others are copied into the report where
    they are not large.
    """

    out: Path
    data: Path
    scripts: tuple[Path, ...]

    @cached_property
    def root(self) -> Path:
        """Folder from which the checksums are verified."""
        return self.out.resolve().parent

    @cached_property
    def name(self) -> str:
        """Name of the report's folder."""
        return self.out.resolve().name

    @cached_property
    def tables(self) -> tuple[Listed, ...]:
        """Files of all tables in the order of the codebook, then the codebook; those beneath a
        user's store last."""
        listed: list[Listed] = []
        for layer in reversed(folders.list_layers(self.data)):
            paths: list[tuple[Path, str]] = []
            for name in TABLES:
                paths += [(path, name) for path in folders.list_own_files(name, layer)]
            book = layer / "CODEBOOK.md"
            paths += [(book, "")] if book.is_file() else []
            listed += self._list_files(paths, layer, "data" if layer == self.data else "package")
        return tuple(listed)

    @cached_property
    def analyses(self) -> tuple[Listed, ...]:
        """The scripts of the analyses, with their words."""
        if not self.scripts:
            return ()
        files = chain.from_iterable(map(list_script_files, self.scripts))
        paths = [(file, "") for file in files]
        return tuple(self._list_files(paths, self.scripts[0].parent, "analyses"))

    def collect_copies(self) -> dict[str, bytes]:
        """Files that the report takes a copy of, by name relative to it."""
        return {name: listed.content for name, listed in self.copied.items()}

    @property
    def copied(self) -> dict[str, Listed]:
        """The same files, unread: none where tables and analyses lie within the root."""
        folder = f"{self.name}/"
        copied: dict[str, Listed] = {}
        for f in (*self.tables, *self.analyses):
            if f.copied:
                copied[f.name.removeprefix(folder)] = f
        return copied

    def make_href(self, listed: Listed) -> str:
        """How a page in the report's folder refers to a file; empty where it cannot."""
        if listed.copied:
            return listed.name.removeprefix(f"{self.name}/")
        return f"../{listed.name}" if listed.name else ""

    def list_checksums(self, records: Mapping[str, Record]) -> bytes:
        """Lines for `sha256sum --check` in the root: tables, analyses, pages, what the pages were
        made of."""
        out = self.name
        files = (*self.tables, *self.analyses)
        digests = {listed.name: listed.sha for listed in files if listed.name}
        for record in records.values():
            for name, digest in record.files.items():
                digests[f"{out}/{name}"] = digest
        manifest = self.out / MANIFEST
        if manifest.is_file():
            digests[f"{out}/{MANIFEST}"] = hash_content(manifest.read_bytes())
        lines = [f"{digest}  {name}\n" for name, digest in sorted(digests.items())]
        return "".join(lines).encode()

    def _list_files(
        self, paths: Iterable[tuple[Path, str]], folder: Path, called: str
    ) -> Iterable[Listed]:
        within = folder.resolve().is_relative_to(self.root)
        chosen = list(paths)
        sizes = (path.stat().st_size for path, _ in chosen)
        small = sum(sizes) <= COPIED
        for path, table in chosen:
            inner = path.relative_to(folder).as_posix()
            if within:
                place = (folder.resolve() / inner).relative_to(self.root).as_posix()
            else:
                place = f"{self.name}/{called}/{inner}" if small else ""
            yield Listed(path, table, place, copied=small and not within)


INDEX = "index"
GROWTH = "growth"
WORLDS = "worlds"
METHODS = "methods"
DATA = "data"
BUNDLE = "bundle"
ABOUT = tuple(name for name, page in PAGES.items() if page.at_once)
"""Pages about all claims that are made at once, in this order."""
ALWAYS = (INDEX, WORLDS, METHODS)
"""Those of a report of some claims alone: every claim's page leads to them."""
FILES = {BUNDLE: "thermostats-report.html"}
ROWS_STATE = ("*.csv", "*.parquet", PROVENANCE)
"""Files of the package that rows are read from, or where they come from."""
PRIVATE = "private"
"""Folder of texts that no analysis reads."""


def _list_package_files(folder: Path) -> list[Path]:
    """Files of the package's tables, those of studies among them; texts of prompts are read by no
    analysis."""
    paths = set(chain.from_iterable(folder.rglob(kind) for kind in ROWS_STATE))
    return sorted(path for path in paths if path.relative_to(folder).parts[0] != PRIVATE)


def _list_store_files(folder: Path) -> list[Path]:
    """Files of the tables of a folder itself, wherever its parts lie, and of what they come
    from."""
    tables = chain.from_iterable(folders.list_own_files(name, folder) for name in TABLES)
    return [*tables, *sorted((folder / EXTERNAL).glob(f"*/{PROVENANCE}"))]


def _hash_files(folder: Path, paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Names of files within a folder, with the SHA-256 of their bytes."""
    digests = []
    for path in paths:
        digests.append((path.relative_to(folder).as_posix(), hash_content(path.read_bytes())))
    return digests


def build_navigation(there: Collection[str] = tuple(PAGES)) -> dict[str, str]:
    """Titles by file of the pages that every page leads to, of those that are there."""
    navigation: dict[str, str] = {}
    for name, page in PAGES.items():
        if page.in_navigation and name in there:
            navigation[f"{name}.html"] = page.title
    return navigation


def list_table_pages() -> dict[str, str]:
    """Pages that take time to make, by name: modules with a function `files(tables)`, the studies'
    first."""
    modules: dict[str, str] = {}
    for study in load_studies().values():
        modules |= study.pages
    for name, page in PAGES.items():
        if not page.at_once:
            modules[name] = f"{PACKAGE}.reporting.pages.{name}"
    return modules


@dataclass
class State:
    """A report: where it lies, what it is of, what it was made of."""

    out: Path
    data: Path
    scripts: Mapping[str, Path]
    records: dict[str, Record]
    all_claims: bool
    """Of all claims; else of pages about all of them the index, and those that are there
    already."""
    draw: bool = False
    """Posteriors that PyMC alone can draw are drawn."""
    command: str = "thermostats report --all"
    """What is run, as one would type it."""
    errors: dict[str, str] = field(default_factory=dict)
    """Why an analysis that was run now gave nothing, by claim."""

    @cached_property
    def pages(self) -> dict[str, str]:
        """Pages that take time to make, by name, with their modules."""
        return list_table_pages()

    @cached_property
    def about(self) -> tuple[str, ...]:
        """Pages about all claims that this report has, of those that are made at once, in their
        order."""
        page_names = {*ABOUT} if self.all_claims else {*ALWAYS, *self.records}
        if GROWTH in page_names and not self.account:
            page_names.discard(GROWTH)
        return tuple(name for name in ABOUT if name in page_names)

    @cached_property
    def account(self) -> str:
        """Module of the page that weighs claims; empty where the report has none of them."""
        return find_account(self.claims)

    @cached_property
    def navigation(self) -> dict[str, str]:
        """Titles of the pages that every page leads to, by file."""
        there = {*self.about, *(self.pages if self.all_claims else self.list_made_pages())}
        return build_navigation(there)

    @property
    def claims(self) -> list[str]:
        """Claims that the report shows: of the analyses at hand, and in a report of some of them
        what else is there."""
        if self.all_claims:
            return list(self.scripts)
        there = []
        for name, record in self.records.items():
            if _shows_claim(name, record):
                there.append(name)
        return list(dict.fromkeys([*self.scripts, *there]))

    @property
    def names(self) -> set[str]:
        """Claims and pages that the report can have."""
        return {*self.scripts, *self.pages, *ABOUT}

    @cached_property
    def layout(self) -> Layout:
        """Where tables and analyses are, seen from the pages."""
        return Layout(self.out, self.data, tuple(self.scripts.values()))

    @cached_property
    def evidence(self) -> Evidence:
        """The tables as analyses see them."""
        from thermostats.claims.evidence import Evidence  # noqa: PLC0415

        return Evidence(self.data)

    @cached_property
    def tables(self) -> str:
        """`read_files`; empty where a study from elsewhere reads its own files."""
        for study in load_studies().values():
            if study.tables and not study.read_table.startswith(f"{PACKAGE}."):
                return ""
        return self.read_files

    @cached_property
    def read_files(self) -> str:
        """SHA-256 over all files that rows may be read from: those of the package, then those of
        the user's folder."""
        package = folders.find_shipped("data")
        digests = [_hash_files(package, _list_package_files(package))]
        for layer in folders.list_layers(self.data):
            if layer != package:
                digests.append(_hash_files(layer, _list_store_files(layer)))
        return hash_value(digests)

    @cached_property
    def folder(self) -> str:
        """SHA-256 of the path of the data folder."""
        return hash_content(str(self.data).encode())

    @cached_property
    def posteriors(self) -> Posteriors:
        """What the shipped snapshot has of posteriors that are not drawn."""
        return load_posteriors()

    def find_origin(self) -> dict[str, str]:
        """Folders of rows and analyses, empty for those that ship, and the digest of the rows."""
        scripts = {path.parent.resolve() for path in self.scripts.values()}
        folder = {"data": self.data, "analyses": next(iter(scripts), find_shipped("analyses"))}
        origin = {}
        for name, path in folder.items():
            ships = path.resolve() == find_shipped(name).resolve()
            origin[name] = "" if ships else str(path.resolve())
        return {**origin, "rows": self.read_files}

    def note_origin(self) -> None:
        """Write down what the report is of, for whoever makes it again."""
        write_files(self.out, {MADE_OF: dump_json(self.find_origin())})

    def collect_inputs(self, name: str) -> bytes:
        """What a claim's page, or a page about all claims, is made of, but for rows and the
        package."""
        if path := self.scripts.get(name):
            contents = [file.read_bytes() for file in list_script_files(path)]
            return b"\0".join([*contents, self._collect_rates(name)])
        if module := self.pages.get(name):
            if module.startswith(f"{PACKAGE}."):
                return "\n".join(list_study_models()).encode()
            return Path(str(load_named(module).__file__)).read_bytes()
        return hash_value(self._collect_shown(name)).encode()

    def build_record(self, name: str) -> Record:
        """The record of a page if it were made now; without rows and files."""
        is_whole = self.draw or name not in self.scripts
        drawn = "" if is_whole else self.posteriors.hash_claim(name)
        return Record.build(self.collect_inputs(name), self.navigation, self.tables, drawn)

    def find_stale_reason(self, name: str) -> str:
        """Why a claim's page, or a page about all claims, is stale; empty where it is fresh."""
        record = self.records.get(name)
        if record is not None and record.folder not in ("", self.folder):
            return FOLDER
        return find_stale_cause(
            record, self.build_record(name), lambda: self._hash_rows(name), self.out
        )

    def check_checksums(self) -> str:
        """Why the list of checksums is stale; empty where it is fresh, or where no page says how to
        verify it."""
        path = self.out / CHECKSUMS
        if DATA not in self.about:
            return ""
        if not path.is_file():
            return NEW
        is_same = path.read_bytes() == self.layout.list_checksums(self.records)
        return "" if is_same else "files that it lists changed"

    def name_file(self, name: str) -> str:
        """HTML file of a claim or page."""
        if name in self.claims:
            return f"{name_folder(name)}/index.html"
        return FILES.get(name, f"{name}.html")

    def list_made_pages(self) -> list[str]:
        """Pages that take time to make and that the report has."""
        return [name for name in self.pages if name in self.records]

    def hash_bundled(self) -> dict[str, str]:
        """SHA-256 of the pages that the bundle holds, in their order in it."""
        digests = {}
        for name in (INDEX, GROWTH, *self.claims, *self.pages, WORLDS, METHODS, DATA):
            file = self.name_file(name)
            if name in self.records and (self.out / file).is_file():
                digests[file] = self.records[name].files.get(file, "")
        return digests

    def _collect_rates(self, claim: str) -> bytes:
        """Lines of the table of simulated worlds that are of the claim's rules; all without one."""
        path = folders.find_shipped("data") / "worlds.csv"
        lines = path.read_bytes().splitlines() if path.is_file() else []
        begin = f"{claim}.".encode() if claim else b""
        return b"\n".join(line for line in lines if line.startswith(begin))

    def _hash_rows(self, name: str) -> str:
        """SHA-256 of the rows that a claim's findings, or a page, would be made of; loads the
        tables.

        Empty where some of them have to be made anew; of pages that show findings alone no rows are
        read.
        """
        if name in ABOUT:
            return ""
        from thermostats.claims.stored import Stored  # noqa: PLC0415

        store = Stored(self.pages.get(name, name), self.build_record(name).digest)
        return store.rows(self.evidence)

    def _collect_shown(self, name: str) -> object:
        """Everything that a page about all claims shows, as far as its code does not say it."""
        if name == DATA:
            shown = []
            for file in (*self.layout.tables, *self.layout.analyses):
                shown.append([file.name, file.sha])
            return shown
        if name == BUNDLE:
            return self.hash_bundled()
        if name == METHODS:
            return [hash_content(self._collect_rates(""))]
        findings = {}
        with_worlds = {}
        for claim in self.claims:
            if claim in self.records:
                files = self.records[claim].files
                findings[claim] = files.get(name_findings_file(claim))
                with_worlds[claim] = [findings[claim], files.get(name_worlds_file(claim))]
        if name == WORLDS:
            return with_worlds
        # in the command, which the index shows
        folder = self.data.name if self.data.is_absolute() else str(self.data)
        pages = [self.list_made_pages(), self.about]
        return [folder, self.claims, findings, self.errors, *pages, self.read_files]


def _shows_claim(name: str, record: Record) -> bool:
    """Whether a record of a report is of a claim."""
    return name_findings_file(name) in record.files


def describe_pages(names: Iterable[str]) -> str:
    """Claims and pages about all of them, in words."""
    there = list(names)
    claims = sum(map(_is_claim, there))
    pages = len(there) - claims - (CHECKSUMS in there)
    counts = []
    if claims:
        counts.append(format_count(claims, "claim"))
    if pages:
        counts.append(f"{format_count(pages, 'page')} about all claims")
    if CHECKSUMS in there:
        counts.append("the list of checksums")
    return join_words(counts)


def _is_claim(name: str) -> bool:
    return len(name) == 3 and name[1:].isdigit()  # C04
