"""Prompt sets: those of the data folder by name, and a user's own from a text, CSV or JSONL file."""

from __future__ import annotations

import hashlib
import io
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from thermostats.errors import DataError, UsageError
from thermostats.measurement.images import made_images, read_images
from thermostats.measurement.spec import (
    MADE,
    Records,
    csv_records,
    is_shipped_set,
    jsonl_records,
    no_such_set,
    read_text,
)
from thermostats.tables import store
from thermostats.tables.labels import repeated_texts, spelt_apart
from thermostats.tables.runs import prompt_sha

Row = dict[str, Any]
LARGEST_RANK = 10**9
FIELDS = ("prompt_id", "text", "category", "complexity")


def load_prompts(name: str, data: str | Path | None = None) -> pd.DataFrame:
    """Rows of the table `prompts`, sorted by prompt_id, of the set called `name`, else of the file at that path.

    A folder is one of images; the set ``images`` is made by code.

    A file is `.txt` (one prompt per line), `.csv` (a column text, and where wanted prompt_id, category, complexity) or
    `.jsonl` (one object a line with the same names); its set is called as the file is, without the suffix.

    Raises UsageError where there is neither set nor file, DataError where a prompt is empty, a prompt_id occurs twice,
    a text is not UTF-8, or the texts of a set are not shipped and were not imported.
    """
    prompts = store.load("prompts", data)
    path = Path(name)
    rows = prompts[prompts["prompt_set"] == name].reset_index(drop=True)
    if len(rows) and (is_shipped_set(name) or not path.is_dir()):
        return rows if (rows["modality"] == "image").all() else _with_texts(rows, name)
    if name == MADE:
        return store.validate(made_images(), "prompts")
    if not path.exists():
        raise no_such_set(name, prompts["prompt_set"])
    rows = store.validate(read_images(path), "prompts", path) if path.is_dir() else read_prompts(path)
    taken = prompts[prompts["prompt_set"] == path.stem]
    if len(taken) and prompt_sha(taken) != prompt_sha(rows):
        what = "the tables hold a prompt set of this name with other prompts, on which models were measured"
        raise UsageError(what, where=path, got=path.stem, next_step="give the changed file another name")
    return rows


def read_prompts(path: Path) -> pd.DataFrame:
    """Prompts of a user's file as rows of the table `prompts`; see `load_prompts`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        allowed = ", ".join(READERS)
        raise UsageError("prompts are read from text, CSV or JSONL", where=path, got=path.suffix, allowed=allowed)
    rows: dict[str, Row] = {}
    for where, fields in reader(read_text(path, "prompts"), path):
        row = _checked(fields, where, len(rows) + 1)
        if row["prompt_id"] in rows:
            raise DataError("a prompt_id occurs twice", where=where, got=repr(row["prompt_id"]))
        rows[row["prompt_id"]] = row
    if not rows:
        raise DataError("no prompts in this file", where=path, next_step="write one prompt per line")
    frame = pd.DataFrame(rows.values(), columns=FIELDS).assign(prompt_set=path.stem)
    _check_each_once(frame, path)
    frame["text_sha256"] = [text_sha256(text) for text in frame["text"]]
    frame["complexity"] = pd.array(frame["complexity"].tolist(), dtype="Int64")
    return store.validate(frame, "prompts", path)


def _check_each_once(prompts: pd.DataFrame, path: Path) -> None:
    """DataError where one text stands under several names, or two names differ in spelling alone."""
    if apart := spelt_apart(prompts["prompt_id"]):
        name, other = next(iter(apart.items()))
        what = "names of prompts that differ in spelling alone"
        raise DataError(what, where=path, got=f"{name!r} and {other!r}", next_step="call them by other names")
    if repeated := repeated_texts(prompts["prompt_id"], prompts["text"]):
        text, names = next(iter(repeated.items()))
        once = path.with_stem(f"{path.stem}-once")
        alone = f"awk '!there[$0]++' {shlex.quote(str(path))} > {shlex.quote(str(once))}"
        raise DataError(
            f"one text {len(names)} times is not {len(names)} prompts",
            where=path,
            got=f"{', '.join(names[:5])}: {text[:40]!r}",
            next_step=alone if path.suffix == ".txt" else "keep one of them",
        )


def text_sha256(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _with_texts(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    if (rows["text"] == "").any():
        step = "thermostats join FILE --data mine fills them in, from a file with prompt_set, prompt_id and text"
        what = f"the texts of prompt set {name} are not shipped, since we may not ship them"
        raise DataError(what, got=f"{len(rows)} hashes", next_step=step)
    wrong = [row.prompt_id for row in rows.itertuples() if text_sha256(str(row.text)) != row.text_sha256]
    if wrong:
        raise DataError(f"a text of prompt set {name} does not match its hash", where=f"prompt {wrong[0]}")
    return rows


def _text_lines(text: str, path: Path) -> Records:
    lines = enumerate(io.StringIO(text, newline=None), 1)
    return [(f"{path}, line {number}", {"text": line.rstrip("\n")}) for number, line in lines]


READERS: dict[str, Callable[[str, Path], Records]] = {".txt": _text_lines, ".csv": csv_records, ".jsonl": jsonl_records}


def _checked(fields: dict[Any, Any], where: str, number: int) -> Row:
    """One prompt with all its fields; prompts without a prompt_id are numbered p001, p002, …."""
    names = [str(name) for name in fields if name is not None]
    unknown = [name for name in names if name not in FIELDS]
    if unknown or "text" not in fields:
        what = "unknown field" if unknown else "the field text is missing"
        raise DataError(what, where=where, got=", ".join(unknown or names), allowed=", ".join(FIELDS))
    text, name, category = fields.get("text"), fields.get("prompt_id"), fields.get("category")
    for label, value in {"text": text, "prompt_id": name, "category": category}.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"{label} is not text", where=where, got=repr(value)[:60])
        if value is not None and not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise DataError(f"{label} holds half a character", where=where, got=ascii(value)[:60])
    if None in fields or not text or not text.strip():
        what = "more cells than columns" if None in fields else "empty prompt"
        raise DataError(what, where=where, next_step="remove the line or fill it")
    rank = _rank(fields.get("complexity"), where)
    return {"prompt_id": name or f"p{number:03d}", "text": text, "category": category or "", "complexity": rank}


def _rank(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool | float) or abs(int(value)) > LARGEST_RANK:
            raise ValueError
        return int(value)
    except (TypeError, ValueError) as error:
        raise DataError("complexity is not a whole number", where=where, got=repr(value)[:60]) from error
