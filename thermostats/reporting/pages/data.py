"""The data page: the tables with their files, sizes and checksums, how to verify them, and the codebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from thermostats import words
from thermostats.claims.evidence import Evidence
from thermostats.reporting.stale import MANIFEST, Record, machine, sha
from thermostats.reporting.text import Text, link, table, text
from thermostats.tables import folders
from thermostats.tables.describe import KINDS
from thermostats.tables.schemas import TABLES, key

CHECKSUMS = "MANIFEST.sha256"
COPIED = 64_000_000
"""Bytes of tables up to which a report outside the tables' folder takes a copy of them."""
MEASURED = "thermostats"
"""Source of the runs that this package measured."""
MEASURED_GAINS = {
    "last_gain": "last gain",
    "penultimate_gain": "penultimate gain",
    "normed_gain": "last gain, normed",
    "geometric_gain": "mean gain a block",
    "total_amplification": "total amplification",
}


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
        own = f"{self.name}/"
        return {f.name.removeprefix(own): f.content for f in (*self.tables, *self.analyses) if f.copied}

    def href(self, listed: Listed) -> str:
        """How a page in the report's folder refers to a file; empty where it cannot."""
        own = f"{self.name}/"
        return listed.name.removeprefix(own) if listed.copied else f"../{listed.name}" if listed.name else ""

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


def with_words(script: Path) -> list[Path]:
    """An analysis and the file of its words, where it has one."""
    return [path for path in (script, script.with_suffix(".md")) if path.is_file()]


def data_text(layout: Layout, tables: Evidence) -> str:
    """The page's Markdown."""
    found, fates, sources = (
        tables.table(name) if name in TABLES else pd.DataFrame()  # no study may bring them
        for name in ("inconsistencies", "reconciliation", "sources")
    )
    return text(
        "data.md",
        tables=_tables(layout, tables),
        measured=measured_table(tables.table("features", source=MEASURED)),
        sources=len(sources),
        fates=fates.groupby("fate")["numbers"].sum().sort_values(ascending=False).items() if len(fates) else (),
        kinds=sorted(Counter(found["kind"]).items()) if len(found) else [],
        found=len(found),
        inconsistencies=_inconsistencies(found) if len(found) else "",
        copied=all(listed.name for listed in layout.tables),
        files=_files(layout),
        out=layout.name,
        checksums=CHECKSUMS,
        codebook=[_codebook(name) for name in TABLES],
        machine=machine(),
    )


def size(count: int) -> str:
    """Bytes in words: 812 B, 38.5 kB, 1.2 MB."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f}\u00a0{unit}"
    return f"{count}\u00a0B"


def measured_table(features: pd.DataFrame) -> Text:
    """Gains that this package measured itself, one row a model, prompt set and precision; empty without any."""
    rows = features.dropna(subset=list(MEASURED_GAINS), how="all") if len(features) else features
    if rows.empty:
        return Text()
    rows = rows.assign(prompts=rows["prompt_set"] + " (" + rows["n_prompts"].astype(str) + ")")
    heads = {"model_id": "model", "heritage": "lab", "n_layers": "L", "prompts": "prompts", "dtype": "dtype"}
    heads |= MEASURED_GAINS
    return table(rows[list(heads)].rename(columns=heads), "Gains measured here", most=None)


def _tables(layout: Layout, tables: Evidence) -> Text:
    rows = [
        {
            "table": link(name, f"#codebook-{name}"),
            "rows": len(tables.table(name)),
            "columns": len(schema.columns),
            "files": len(files),
            "size": size(sum(len(listed.content) for listed in files)),
            "holds": schema.description,
        }
        for name, schema in TABLES.items()
        if (files := [listed for listed in layout.tables if listed.table == name])
    ]
    columns = ["table", "rows", "columns", "files", "size", "holds"]
    return table(pd.DataFrame(rows, columns=columns, dtype=object), "Tables", most=None)


def _files(layout: Layout) -> Text:
    rows = [
        {
            "file": link(listed.name or listed.path.name, quote(layout.href(listed))),
            "size": size(len(listed.content)),
            "SHA-256": listed.sha,
        }
        for listed in (*layout.tables, *layout.analyses)
    ]
    return table(pd.DataFrame(rows, columns=["file", "size", "SHA-256"], dtype=object), "Files", most=None)


def _codebook(name: str) -> dict[str, object]:
    schema = TABLES[name]
    rows = [
        {
            "column": label,
            "key": "key" if label in key(name) else "",
            "type": KINDS[column.metadata["dtype"]],
            "unit": column.metadata["unit"],
            "may be empty": "yes" if column.nullable else "",
            "meaning": column.description,
        }
        for label, column in schema.columns.items()
    ]
    return {
        "title": f"Codebook: {name}",
        "text": f"{schema.description[0].upper()}{schema.description[1:]}. Key: {', '.join(key(name))}.",
        "columns": table(pd.DataFrame(rows), f"Columns of {name}", most=None),
    }


def _inconsistencies(found: pd.DataFrame) -> Text:
    """Disagreements of a study's files, in words."""
    files = found["file"] + found["other_file"].where(found["other_file"] == "", " / " + found["other_file"])
    figures = {name: [words.figure(value, 5) for value in found[name]] for name in ("value", "other_value")}
    heads = {"kind": "kind", "file": "file", "model_id": "model", "what": "what disagrees", "value": "value"}
    heads |= {"other_value": "other value", "handling": "what was done"}
    shown = found.assign(file=files, **figures)[list(heads)].rename(columns=heads)
    return table(shown, "Inconsistencies", most=None)
