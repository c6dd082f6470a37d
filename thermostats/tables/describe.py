"""Describe a data folder beside its tables: codebook, data package, Croissant; `python -m thermostats.tables.describe`.

Run it on the package's own `data` when its tables have changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import thermostats
from thermostats.tables import croissant, datapackage, folders
from thermostats.tables.atomic import write_atomically
from thermostats.tables.codebook import codebook
from thermostats.tables.schemas import TABLES


def descriptions(folder: Path) -> dict[str, bytes]:
    """What describes the tables of a folder, by file name; made from the schemas and the files that are there."""
    files = {name: [path.relative_to(folder).as_posix() for path in folders.own_files(name, folder)] for name in TABLES}
    return {
        "CODEBOOK.md": codebook().encode(),
        datapackage.NAME: datapackage.content(files),
        croissant.NAME: croissant.content(folder, files, thermostats.__version__),
    }


def describe(folder: Path) -> list[Path]:
    """Write what describes the tables of a folder where it is not current; the files written."""
    stale = {
        folder / name: content
        for name, content in descriptions(folder).items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    }
    for path, content in stale.items():
        write_atomically(path, content)
    return list(stale)


if __name__ == "__main__":
    for written in describe(folders.data_folder(sys.argv[1] if len(sys.argv) > 1 else None)):
        print(written)
