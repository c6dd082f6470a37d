"""Files of a folder replaced whole, all of a set or none, by one writer at a time and nowhere but in that folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ENOENT
from pathlib import Path

import filelock

from thermostats.errors import DataError, reason

LOCK, STAGING = ".lock", ".staging"


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """While open, no other process writes to the folder; what one that was killed left half-written is removed.

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
            got=reason(error),
            next_step="choose a writable folder on a drive that supports locks",
        ) from error
    try:
        _clear(folder / STAGING)
        yield
        _clear(folder / STAGING)
    finally:
        with suppress(OSError):  # a drive that is gone: what was done is done, or was said to have failed
            lock.release()


def write_all(folder: Path, contents: Mapping[Path, bytes]) -> None:
    """Replace files of a folder: all are staged in it and synced before the first is renamed to its place.

    Raises DataError where one cannot be written or lies outside the folder; every file is as it was then, unless
    renaming itself failed midway.
    """
    staged: dict[Path, Path] = {}
    place = folder
    try:
        for place in contents:
            _check_inside(place, folder)
        for place, content in contents.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, staged[place] = _create(folder / STAGING, place.name)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            staged[place].chmod(0o644)
        for place in contents:
            staged[place].replace(place)
            del staged[place]
    except OSError as error:
        raise DataError(
            "cannot write; the file is as it was",
            where=place,
            got=reason(error),
            next_step="free space or choose a folder that can be written",
        ) from error
    finally:
        for leftover in staged.values():
            with suppress(OSError):  # the next writer removes it
                leftover.unlink(missing_ok=True)
        with suppress(OSError):  # there is none, or another writer's file is in it
            (folder / STAGING).rmdir()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace one file as `write_all` does."""
    write_all(path.parent, {path: content})


def _create(staging: Path, name: str) -> tuple[int, Path]:
    """A new file in the staging folder, which a writer that is through may have removed in between."""
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
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            "a file to be written lies outside its folder; nothing was written",
            where=path,
            got=path.parent.resolve(),
            allowed=f"places in {folder.resolve()}",
            next_step="remove the symbolic link or the name with ..",
        )
