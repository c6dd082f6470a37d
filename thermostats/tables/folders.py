"""Data folders: the package's own tables, which are read-only, and the user's store, which is read
with them.

`--data`, an argument or `$THERMOSTATS_DATA` names the user's store. It holds a file `store.toml`
and the user's own rows, which take precedence over the package's. A folder of tables without that
file is read on its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path
from types import NoneType

import filelock

from thermostats.errors import DataError, UsageError, describe_file_error
from thermostats.next_steps import write_command
from thermostats.public_names import VERSION
from thermostats.tables.schemas import EXTERNAL, NURSERY, TABLES

LOCK = ".lock"
STAGING = ".staging"


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """While open, no other process writes to the folder; what one that was killed left half-written
    is removed.

    Raises DataError where the folder cannot be locked.
    """
    lock = filelock.FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise DataError(
            "cannot lock the folder for writing; nothing was written",
            where=folder,
            got=describe_file_error(error),
            next_step="choose a writable folder on a drive that supports locks",
        ) from error
    try:
        _clear(folder / STAGING)
        yield
        _clear(folder / STAGING)
    finally:
        with suppress(
            OSError
        ):  # a drive that is gone: what was done is done, or was said to have failed
            lock.release()


class Staged:
    """Files of a folder that wait in it, whole and synced, to be renamed to their places."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: dict[Path, Path] = {}

    def add(self, contents: Mapping[Path, bytes]) -> None:
        """Write files that are to stand in their places, over those that waited for the same;
        raises DataError where one cannot be written or lies outside the folder."""
        for place in contents:
            _check_inside(place, self.folder)
        for place, content in contents.items():
            with _refuse_unwritten(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                if place in self.paths:
                    self.paths[place].unlink()
                descriptor, waiting = _create(self.folder / STAGING, place.name)
                self.paths[place] = waiting
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                waiting.chmod(0o644)

    def put(self) -> None:
        """Rename all to their places."""
        for place in list(self.paths):
            with _refuse_unwritten(place):
                self.paths[place].replace(place)
            del self.paths[place]


@contextmanager
def stage_files(folder: Path) -> Iterator[Staged]:
    """Files that are written bit by bit and put in their places together; what was not put there by
    then is removed."""
    staged = Staged(folder)
    try:
        yield staged
    finally:
        for leftover in staged.paths.values():
            with suppress(OSError):  # the next writer removes it
                leftover.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or another writer's file is in it
            (folder / STAGING).rmdir()


@contextmanager
def _refuse_unwritten(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            "cannot write; the file is as it was",
            where=place,
            got=describe_file_error(error),
            next_step="free space or choose a folder that can be written",
        ) from error


def write_all(folder: Path, contents: Mapping[Path, bytes]) -> None:
    """Replace files of a folder: all are staged in it and synced before the first is renamed to its
    place.

    Raises DataError where one cannot be written or lies outside the folder; every file is as it was
    then, unless renaming itself failed midway.
    """
    with stage_files(folder) as staged:
        staged.add(contents)
        staged.put()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace one file as `write_all` does."""
    write_all(path.parent, {path: content})


def _create(staging: Path, name: str) -> tuple[int, Path]:
    """A new file in the staging folder, which a writer that is through may have removed in
    between."""
    for _ in range(9):
        staging.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            descriptor, path = tempfile.mkstemp(dir=staging, prefix=f"{name}.")
            return descriptor, Path(path)
    raise FileNotFoundError(ENOENT, "the staging folder vanishes", str(staging))


def _clear(staging: Path) -> None:
    with suppress(OSError):  # there is none, or it stays: nothing reads what is in it
        for leftover in staging.iterdir():
            leftover.unlink()
        staging.rmdir()


def _check_inside(path: Path, folder: Path) -> None:
    """Raise DataError where a path leads out of its folder, by `..` or over a symbolic link."""
    there = path.parent.resolve()
    if not there.is_relative_to(folder.resolve()):
        raise DataError(
            "a file to be written lies outside its folder; nothing was written",
            where=path,
            got=there,
            allowed=f"places in {folder.resolve()}",
            next_step="remove the symbolic link or the name with ..",
        )


DATA_VARIABLE = "THERMOSTATS_DATA"
MARK = "store.toml"
"""File that makes a folder a store: the package's tables are read beneath its own."""
MOVES = "gauge.csv"
"""Table of what changes of weights move; words are made of it when they are read, before any row
is."""
BOUNDS = "nuisances.csv"
"""Table of how far nuisances may go; rules of claims are made of it, before any row is read."""
ADVICE = "next.csv"
"""Table of which models would settle claims; words are made of it, before any row is read."""
CANDIDATES = "candidates.csv"
"""Public models that could be measured; so are words of advice."""
PROVENANCE = "source.toml"
"""File next to the tables of a source that says where they come from."""
SCHEMA = 1
"""Number of the form of the tables: it rises when a column is renamed or comes to mean something
else, or when one is added of which `ADDED` (schemas.py) cannot say what it was in files without
it."""
INSTALLED = Path(__file__).resolve().parents[1] / "_shipped"
"""What a wheel carries: read, never written."""
ARCHIVE = ".parquet"
ARCHIVES = ("measured", NURSERY)
"""Folders that hold archives: `<table>.parquet`, and `<table>-<release>.parquet` of later
releases."""
HELD = ("models.csv", "prompts.csv", "published", EXTERNAL, "measured")
"""What a folder of tables has at least one of."""


def find_data_folder(data: str | Path | None = None) -> Path:
    """Data folder in use: the argument, `$THERMOSTATS_DATA`, or the tables that ship with the
    package.

    Raises UsageError where the one that is named is not there, or has no tables yet.
    """
    chosen = _choose_folder(data)
    if chosen is None:
        return find_shipped("data")
    if not has_tables(chosen):
        is_there = chosen.is_dir()
        what = "the data folder has no tables yet" if is_there else "no such data folder"
        line = write_command("measure", "MODEL", data=chosen)
        raise UsageError(
            what,
            where=chosen,
            allowed=f"a folder of tables, by --data or ${DATA_VARIABLE}",
            next_step=f"measuring or joining begins it: {line}",
        )
    return chosen


def has_tables(folder: Path) -> bool:
    """Whether a folder is a store or has tables of its own; one that is not there or is empty holds
    none."""
    return _has_begun(folder) or any(list_own_files(name, folder) for name in TABLES)


def _has_begun(folder: Path) -> bool:
    """Whether a folder is a store, or has a file or a folder of tables."""
    return any((folder / name).exists() for name in (MARK, *HELD))


def find_lookup_folder(data: str | Path | None = None) -> Path:
    """Data folder to look things up in: the one that is named, or the package's tables if it has
    none yet."""
    chosen = _choose_folder(data)
    return chosen if chosen is not None and has_tables(chosen) else find_shipped("data")


def find_own_folder(data: str | Path | None = None) -> Path:
    """Folder of the user's own rows: the argument, or `$THERMOSTATS_DATA`; it need not be there
    yet.

    Raises UsageError where neither says where, or says where the package is installed: its tables
    are read-only.
    """
    chosen = _choose_folder(data)
    if chosen is None or chosen.resolve().is_relative_to(INSTALLED):
        unsaid = "no folder for your rows was named: " if chosen is None else ""
        named = f"add --data mine for a folder of your own, or set ${DATA_VARIABLE}"
        raise UsageError(
            f"{unsaid}the tables that ship with the package are read-only",
            where=chosen or "",
            next_step=f"{named}; analyses read both",
            options=("--data", "mine"),
        )
    return chosen


def find_shipped(name: str) -> Path:
    """Folder that ships with the package (`data` or `analyses`): in a checkout next to it, in a
    wheel inside it."""
    inside = INSTALLED / name
    return inside if inside.is_dir() else INSTALLED.parents[1] / name


def list_layers(folder: Path) -> tuple[Path, ...]:
    """Folders whose rows make up the tables of a data folder, the lowest first."""
    mark = folder / MARK
    if not mark.is_file():
        return (folder,)
    try:
        text = mark.read_text(encoding="utf-8")
        schema = tomllib.loads(text).get("schema", 1)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{MARK} cannot be read: it says what the store is",
            where=mark,
            got=str(error),
            next_step=f"restore it; a complete one says: schema = {SCHEMA}",
        ) from error
    if schema != SCHEMA:
        age = "a newer"
        step = "install a newer version of thermostats"
        if isinstance(schema, int) and schema < SCHEMA:
            age = "an older"
            step = (
                "export it with the version that created it, then join the files into a new store"
            )
        what = f"the store was created with {age} schema of the tables"
        raise DataError(
            what, where=mark, got=f"schema = {schema!r}", allowed=str(SCHEMA), next_step=step
        )
    return (find_shipped("data"), folder)


def list_own_files(name: str, folder: Path) -> list[Path]:
    """Files of table `name` in a folder itself, archives first, in the order they are read.

    Where a run has a Parquet file, that stands in the place of its CSV file: a writer that was
    killed may have left both.

    Raises DataError where a folder cannot be listed.
    """
    table = f"{name}.csv"
    external = folder / EXTERNAL
    places = [folder, folder / "published", external]
    fixed = [place / table for place in places if table in _list_names(place)]
    sources = map(external.joinpath, sorted(_list_names(external)))
    fixed += [source / table for source in sources if table in _list_names(source)]
    archives = []
    for place in map(folder.joinpath, ARCHIVES):
        for file in sorted(_list_names(place)):
            if file.endswith(ARCHIVE) and file.removesuffix(ARCHIVE).split("-")[0] == name:
                archives.append(place / file)
    measured = folder / "measured" / name
    held = _list_names(measured)
    runs = []
    for file in sorted(held):
        is_replaced = file.removesuffix(".csv") + ARCHIVE in held
        is_csv = file.endswith(".csv") and not is_replaced
        if not file.startswith(".") and (is_csv or file.endswith(ARCHIVE)):
            runs.append(measured / file)
    return [*archives, *fixed, *runs]


def _list_names(folder: Path) -> set[str]:
    """Names in a folder; none where there is none. A folder that cannot be listed is not an empty
    one."""
    try:
        return {path.name for path in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise DataError(
            "a folder of tables cannot be read", where=folder, got=describe_file_error(error)
        ) from error


def has_own_runs(data: str | Path | None = None) -> bool:
    """Whether a user's store has measurements in addition to those of the package."""
    folder = find_data_folder(data)
    return len(list_layers(folder)) > 1 and bool(list_own_files("runs", folder))


def _choose_folder(data: str | Path | None) -> Path | None:
    chosen = data if data is not None else os.environ.get(DATA_VARIABLE) or None
    if not isinstance(chosen, (str, Path, NoneType)):
        raise UsageError(
            "give the path of the data folder", got=repr(chosen)[:60], allowed="text or a path"
        )
    return None if chosen is None else Path(chosen)


BEGINNING = """\
# A data folder of thermostats: it holds your own rows. The tables that ship with the package are read beneath them;
# a row of yours stands in the place of one with the same key there. Without this file the folder stands for itself.
begun_with = "{version}"
schema = {schema}
"""  # noqa: E501


@contextmanager
def start_folder(data: str | Path | None = None) -> Iterator[Path]:
    """Data folder to write to; if what follows is refused, a folder newly created for it is
    silently removed.

    Raises UsageError if none is named, DataError if it cannot be created.
    """
    folder = find_own_folder(data)
    there = folder.exists()
    new = not _has_begun(folder)
    if new:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(
                "cannot create a data folder",
                where=folder,
                got=describe_file_error(error),
                next_step="free space or choose a folder that can be written",
            ) from error
        mark = BEGINNING.format(version=VERSION, schema=SCHEMA)
        write_atomically(folder / MARK, mark.encode())
    try:
        yield folder
    except BaseException:
        if new and all(path.name == MARK or path.name.startswith(".") for path in folder.iterdir()):
            (folder / MARK).unlink(missing_ok=True)
            if not there:
                shutil.rmtree(folder, ignore_errors=True)
        raise
    if new:
        print(
            f"{folder}: new data folder for your own rows, read with the package's tables",
            file=sys.stderr,
        )


def prepare_folder(data: str | Path | None = None) -> Path:
    """Data folder to write to; one that has no tables yet is created completely or not at all;
    raises as `start_folder`."""
    with start_folder(data) as folder:
        return folder


def list_shipped_models() -> list[Path]:
    """Folders of the trained models of a checkout, each a Hugging Face model folder named after the
    model.

    A wheel carries none of them: where the package is installed there are none.
    """
    return sorted(path.parent for path in find_shipped("data").glob("*/models/*/config.json"))


MEGABYTE = 1_000_000
CONFIG = 10 * MEGABYTE
INDEX = 30 * MEGABYTE
PROMPTS = 50 * MEGABYTE
ROWS = 200 * MEGABYTE
"""Largest files by kind; the largest that are known of are under a tenth of it."""
TABLE = 500 * MEGABYTE
"""Largest file of a store: rows of one run, or of the models."""
CELLS = 20_000_000
"""Most cells of a file of rows, so that a small file does not unpack to what fills memory."""


class TooManyError(ValueError):
    """A file holds more cells than files of its kind do."""


def read_bytes(path: Path, limit: int) -> bytes:
    """Content of a file; raises OSError where it cannot be read, DataError where it has more than
    `limit` bytes."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(size + 1) if size <= limit else b""
        if len(content) > size:  # it grows, or does not tell its size
            content += stream.read(limit + 1 - len(content))
    if max(size, len(content)) > limit:
        held = path.stat().st_size
        raise DataError(
            "the file is larger than files of its kind may be",
            where=path,
            got=f"{held} bytes",
            allowed=f"at most {limit} bytes",
            next_step="name another file, or split it",
        )
    return content


def check_cells(count: int, times: int = 1) -> None:
    """Raise TooManyError where a file has more cells than so many times `CELLS`."""
    if count > times * CELLS:
        raise TooManyError(f"about {count} cells")
