"""Start states for the fault tests: rows to join; and the bytes of a folder."""

from __future__ import annotations

from pathlib import Path

from conftest import layer, model, run, table

from thermostats.tables import store

MACHINES_OWN = {".lock", ".seconds.json", "cache"}
"""Files and folders that say something about this machine or this moment, not about the data."""


def files_of(folder: Path, *, leftovers: bool = False) -> dict[str, bytes]:
    """Every file under a folder with its bytes; with `leftovers` also what a writer stages."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and MACHINES_OWN.isdisjoint(path.relative_to(folder).parts)
        and (leftovers or path.parent.name != ".staging")
    }


def make_news(folder: Path, sources: int = 3) -> list[Path]:
    """CSV files to join: new models, new runs with their layers, and rows that are there already
    with other values."""
    measured = [run("lab/new", source=f"source {number}") for number in range(sources)]
    replaced = [layer(run(), 2, 1.75, name) for name in "ab"]
    layers = [layer(row, number, 1.0 + number / 8) for row in measured for number in (1, 2, 3)]
    news = {"models": [model("lab/new")], "runs": measured, "layers": [*layers, *replaced]}
    for name, rows in news.items():
        store.save(table(name, *rows), name, folder / f"{name}.csv")
    return [folder / f"{name}.csv" for name in news]
