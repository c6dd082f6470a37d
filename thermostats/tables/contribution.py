"""A user's rows in the form that `data/external` takes: tables, provenance, licence, and what was checked."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

import thermostats
from thermostats.errors import DataError, UsageError, reason
from thermostats.next_steps import command
from thermostats.tables import store
from thermostats.tables.arguments import check_export
from thermostats.tables.export import Exported
from thermostats.tables.folders import BEGINNING, MARK, SCHEMA, own_files, own_folder, shipped, write_all
from thermostats.tables.model_rows import gain_pairs
from thermostats.tables.provenance import FILE, LICENCE, Source, read_source
from thermostats.tables.reading import features
from thermostats.tables.runs import run_id
from thermostats.tables.schemas import EXTERNAL, OURS, RUN_TABLES, dtypes, with_added

CHECKS = "CHECKS.md"
"""What was checked, for the reader who reviews a contribution."""
SOURCE_FORM = """\
# Whose rows a contribution holds, and on what terms. Fill in what is empty, then run the same command again.
# name: the source of the rows, as `thermostats ls runs --own` lists it; for measurements of this package a new name.
# licence: one that lets figures be passed on: {permitted}.
# licence_by: who gives it, such as your name; or licence_file, a file next to this one that holds its text.
# address and commit: where the figures are published, and in which state.
# left_out: what of them is not among the rows, and why.
"""
NEEDED = ("name", "title", "address", "licence")
"""Entries that may not be empty."""


def contribute(out: str | Path, *, data: str | Path | None = None) -> list[Exported]:
    """Write the rows of one source of a user's folder to `out`/<name>/, as `data/external` holds others' rows.

    `source.toml` in the user's folder says whose they are; where it is missing a first one is written, to be filled in.
    The tables come with `source.toml`, LICENSE and CHECKS.md. Runs become external ones with ids that follow; texts of
    prompts are left out, their hashes stay. Models that the package lacks come with their rows. What is written was
    read back as a part of `data/external` and checked as `thermostats check` does.

    Raises UsageError for a folder that is not empty, provenance that is not stated, a licence that does not let figures
    be passed on and a source without own rows; DataError for rows under another licence, and as `check` does.
    """
    folder, place = own_folder(data), Path(out)
    check_export(place, None, "csv", None)
    source = _stated(folder)
    tables = _tables(folder, source)
    contents = {f"{name}.csv": store.to_csv(rows, name) for name, rows in tables.items()}
    contents[LICENCE] = _licence(source, folder)
    contents[FILE] = replace(source, licence_file=LICENCE if source.licence_file else "").toml()
    contents[CHECKS] = _checked(source, tables, contents)
    write_all(place, {place / source.name / name: content for name, content in contents.items()})
    return [Exported(name, len(rows), place / source.name / f"{name}.csv") for name, rows in tables.items()]


def _stated(folder: Path) -> Source:
    """What the user says of the rows; where nothing is said a file to be filled in is written."""
    path, again = folder / FILE, command("export", "contribution", data=folder)
    runs = _own("runs", folder)
    if not path.is_file():
        names, licences = (sorted(set(runs[label]) - {OURS, ""}) for label in ("source", "licence"))
        known = {"name": names[0] if len(names) == 1 else "", "licence": licences[0] if len(licences) == 1 else ""}
        begun = Source(**known, title="", address="", commit="", licence_file="")
        form = SOURCE_FORM.format(permitted=", ".join(store.PERMITTED)).encode()
        write_all(folder, {path: form + begun.toml()})
        step = f"fill it in, then {again}"
        raise UsageError("nothing says whose rows these are; a file that asks was written", where=path, next_step=step)
    source = read_source(path)
    if empty := [name for name in NEEDED if name != "licence" and not getattr(source, name)]:
        raise UsageError("a contribution says whose it is", where=path, got=f"no {', '.join(empty)}", next_step=again)
    if source.name != Path(source.name).name:
        raise UsageError("the name is that of a folder", where=path, got=repr(source.name), next_step=again)
    try:
        store.check_licence(source.licence, path)
    except UsageError as error:
        raise error.ending_in(f"state in {path} the licence that you give, then {again}") from None
    return source


def _own(name: str, folder: Path) -> pd.DataFrame:
    """The user's own rows of a table."""
    held = [with_added(store.read_typed(path, name), name) for path in own_files(name, folder)]
    return pd.concat(held, ignore_index=True) if held else pd.DataFrame(columns=list(dtypes(name)))


def _tables(folder: Path, source: Source) -> dict[str, pd.DataFrame]:
    """Rows of the source by table, under the ids of external runs; those of prompts and models that are not shipped."""
    runs = _runs(folder, source)
    ids = dict(zip(runs.pop("was"), runs["run_id"], strict=True))
    tables = {"runs": runs}
    for name in RUN_TABLES:
        rows = _own(name, folder)
        rows = rows[rows["run_id"].isin(ids)]
        tables[name] = rows.assign(run_id=rows["run_id"].map(ids))
    prompts, models = _own("prompts", folder), _own("models", folder)
    tables["prompts"] = prompts[prompts["prompt_set"].isin(runs["prompt_set"])].assign(text="")
    there = set(store.load("models", shipped("data"))["model_id"])
    tables["models"] = models[models["model_id"].isin(set(runs["model_id"]) - there)]
    return {name: store.validate(rows, name) for name, rows in tables.items() if len(rows)}


def _runs(folder: Path, source: Source) -> pd.DataFrame:
    """Runs of the source as external ones; `was`: their ids among the user's rows."""
    runs = _own("runs", folder)
    held = sorted(set(runs["source"]))
    chosen = runs[runs["source"] == (source.name if source.name in held else OURS)]
    if chosen.empty:
        step = command("ls", "runs", own=True, data=folder)
        what = "no own rows of this source"
        raise UsageError(what, where=folder / FILE, got=source.name, allowed=", ".join(held), next_step=step)
    if other := sorted(set(chosen["licence"]) - {"", source.licence}):
        raise DataError("rows are under another licence", where=folder / FILE, got=other[0], allowed=source.licence)
    versions = chosen["measure_version"].where(chosen["source"] == OURS)
    usual = ("thermostats, measurement " + versions).fillna("unstated")
    instrument = chosen["instrument"].where(chosen["instrument"] != "", usual)
    chosen = chosen.assign(was=chosen["run_id"], source=source.name, measure_version=EXTERNAL)
    chosen = chosen.assign(licence=source.licence, instrument=instrument)
    return chosen.assign(run_id=[run_id(row) for row in chosen.to_dict("records")])


def _licence(source: Source, folder: Path) -> bytes:
    """The text of the licence, or who gives it; UsageError where neither is stated."""
    if not source.licence_file and source.licence_by:
        return source.statement()
    try:
        return (folder / source.licence_file).read_bytes()
    except OSError as error:
        allowed = "licence_file, a file next to it with the text, or licence_by, who gives the licence"
        got = f"licence_file = {source.licence_file!r}, {reason(error)}"
        what = "nobody is named who gives the licence"
        raise UsageError(what, where=folder / FILE, got=got, allowed=allowed) from error


def _checked(source: Source, tables: Mapping[str, pd.DataFrame], contents: Mapping[str, bytes]) -> bytes:
    """What a reviewer is to know: the rows, read back as a part of `data/external`, next to others' of these models."""
    with tempfile.TemporaryDirectory() as temporary:
        store_of_it = Path(temporary)
        mark = BEGINNING.format(version=thermostats.__version__, schema=SCHEMA).encode()
        place = store_of_it / EXTERNAL / source.name
        write_all(store_of_it, {store_of_it / MARK: mark, **{place / name: text for name, text in contents.items()}})
        store.check(store_of_it)
        rows, files = features(store_of_it, every=True), set(store.load("sources", store_of_it)["file"])
    measured = rows[rows["model_id"].isin(tables["runs"]["model_id"])]
    pairs = gain_pairs(measured, files)
    pairs = pairs[pairs[["first", "second"]].eq(source.name).any(axis=1)]
    return "\n".join(_lines(source, tables, pairs)).encode()


def _lines(source: Source, tables: Mapping[str, pd.DataFrame], pairs: pd.DataFrame) -> list[str]:
    counts = [f"- {len(rows)} rows of {name}" for name, rows in tables.items()]
    new = [f"- {model}" for model in tables["models"]["model_id"]] if "models" in tables else []
    lines = [f"# {source.name}", "", f"{source.title}. {source.address}; licence {source.licence}.", ""]
    lines += [
        f"Read back and checked by thermostats {thermostats.__version__} as a part of data/external:",
        "",
        *counts,
    ]
    lines += ["", "Models that the package lacks, to be held against their configurations:", "", *new] if new else []
    lines += ["", "Gains at the last token that others measured of the same models:", ""]
    for pair in pairs.to_dict("records"):
        both = f"{pair['first_gain']:.4g} by {pair['first']}, {pair['second_gain']:.4g} by {pair['second']}"
        lines.append(f"- {pair['model_id']}, {pair['gain']}: {both}")
    return [*lines, *["- none"] * pairs.empty, ""]
