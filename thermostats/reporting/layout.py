"""Where a report, its tables and its analyses lie, which of their files it lists, and which it takes a copy of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from thermostats.claims.scripts import with_words
from thermostats.reporting.digest import sha
from thermostats.reporting.names import MANIFEST
from thermostats.reporting.stale import Record
from thermostats.tables import folders
from thermostats.tables.schemas import TABLES

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
        return sha(self.content)


@dataclass(frozen=True)
class Layout:
    """Folders of a report; its root is the folder that it lies in.

    Tables and analyses within the root are where they are; others are copied into the report where they are not large.
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
        """Files of all tables in the order of the codebook, then the codebook; those beneath a user's store last."""
        listed: list[Listed] = []
        for layer in reversed(folders.layers(self.data)):
            paths = [(path, name) for name in TABLES for path in folders.own_files(name, layer)]
            book = layer / "CODEBOOK.md"
            paths += [(book, "")] if book.is_file() else []
            listed += self._listed(paths, layer, "data" if layer == self.data else "package")
        return tuple(listed)

    @cached_property
    def analyses(self) -> tuple[Listed, ...]:
        """The scripts of the analyses, with their words."""
        if not self.scripts:
            return ()
        paths = [(file, "") for script in self.scripts for file in with_words(script)]
        return tuple(self._listed(paths, self.scripts[0].parent, "analyses"))

    def copies(self) -> dict[str, bytes]:
        """Files that the report takes a copy of, by name relative to it."""
        return {name: listed.content for name, listed in self.copied.items()}

    @property
    def copied(self) -> dict[str, Listed]:
        """The same files, unread: none where tables and analyses lie within the root."""
        folder = f"{self.name}/"
        return {f.name.removeprefix(folder): f for f in (*self.tables, *self.analyses) if f.copied}

    def href(self, listed: Listed) -> str:
        """How a page in the report's folder refers to a file; empty where it cannot."""
        folder = f"{self.name}/"
        return listed.name.removeprefix(folder) if listed.copied else f"../{listed.name}" if listed.name else ""

    def checksums(self, records: Mapping[str, Record]) -> bytes:
        """Lines for `sha256sum --check` in the root: tables, analyses, pages, what the pages were made of."""
        out = self.name
        lines = {listed.name: listed.sha for listed in (*self.tables, *self.analyses) if listed.name}
        lines |= {f"{out}/{name}": digest for record in records.values() for name, digest in record.files.items()}
        manifest = self.out / MANIFEST
        lines |= {f"{out}/{MANIFEST}": sha(manifest.read_bytes())} if manifest.is_file() else {}
        return "".join(f"{digest}  {name}\n" for name, digest in sorted(lines.items())).encode()

    def _listed(self, paths: Iterable[tuple[Path, str]], folder: Path, called: str) -> Iterable[Listed]:
        within = folder.resolve().is_relative_to(self.root)
        chosen = list(paths)
        small = sum(path.stat().st_size for path, _ in chosen) <= COPIED
        for path, name in chosen:
            inner = path.relative_to(folder).as_posix()
            if within:
                yield Listed(path, name, (folder.resolve() / inner).relative_to(self.root).as_posix(), copied=False)
            else:
                yield Listed(path, name, f"{self.name}/{called}/{inner}" if small else "", copied=small)
