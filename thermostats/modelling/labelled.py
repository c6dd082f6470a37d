"""Labels in the tables of a fit and of its predictions: which columns hold them, as one text each, asked about once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from thermostats.errors import UsageError
from thermostats.next_steps import Code, again
from thermostats.tables.cells import NUMBER
from thermostats.tables.labels import as_labels, check_spelling, label, repeated_texts

ROLES = ("model", "lab", "family", "prompt", "group", "levels", "instrument")
"""Arguments that name columns of labels, whatever these hold."""
EITHER = ("blocks", "per_row", "units")
"""Arguments that name columns of labels or of numbers, by what these hold; so does a formula."""
OURS = ("model_id", "heritage", "family", "prompt_id", "category", "source", "prompt_set", "dtype")
"""Columns of labels by our names."""


def labelled(arguments: Mapping[str, Any], standard: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a fit whose tables have the labels of their columns as texts.

    standard: arguments that are not given. Raises UsageError where labels of a column differ in spelling alone, and
    where prompts under several names are one text.
    """
    frames = {name: value for name, value in arguments.items() if isinstance(value, pd.DataFrame)}
    every = {name: label_columns({**standard, **arguments}, frame) for name, frame in frames.items()}
    for name, columns in every.items():
        check_spelling({column: (frames[name][column], ()) for column in columns})
        _check_texts(frames[name])
    return {**arguments, **{name: with_labels(frame, every[name]) for name, frame in frames.items()}}


def labelled_new(new: pd.DataFrame, arguments: Mapping[str, Any], standard: Mapping[str, Any]) -> pd.DataFrame:
    """Rows to predict, as `labelled`, of a fit that had these arguments; their labels are held against its own."""
    table = next(value for value in arguments.values() if isinstance(value, pd.DataFrame))
    columns = [name for name in label_columns({**standard, **arguments}, table) if name in new]
    held = {name: dict.fromkeys(table[name].dropna()) for name in columns}
    check_spelling({name: (new[name], held[name]) for name in columns}, "df", "fit.predict({})")
    return with_labels(new, columns)


def with_labels(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """A table whose columns of labels are texts; those that are texts stay as they are."""
    other = [name for name in columns if not all(isinstance(value, str) for value in frame[name].dropna().unique())]
    return frame.assign(**{name: as_labels(frame[name]) for name in other}) if other else frame


def label_columns(arguments: Mapping[str, Any], frame: pd.DataFrame) -> list[str]:
    """Columns of labels among those of a table: by the arguments that name them, by our names, and in formulas."""
    named = [name for role in ROLES for name in _texts(arguments.get(role))]
    either = [name for role in EITHER for name in _texts(arguments.get(role))]
    formulas = [text for value in arguments.values() if isinstance(value, str) and "~" in value for text in [value]]
    either += [
        name for text in formulas for name in map(str, frame) if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    ]
    chosen = [*named, *OURS, *(name for name in either if name in frame and _holds_words(frame[name]))]
    return [name for name in dict.fromkeys(chosen) if name in frame and isinstance(frame[name], pd.Series)]


def _texts(value: Any) -> Iterator[str]:
    """Texts in an argument, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


def _holds_words(values: pd.Series | pd.DataFrame) -> bool:
    """Whether a column holds texts that are no numbers."""
    if not isinstance(values, pd.Series) or pd.api.types.is_numeric_dtype(values):
        return False
    return any(isinstance(value, str) and not NUMBER.fullmatch(value) for value in values.dropna().unique())


def _check_texts(frame: pd.DataFrame) -> None:
    """UsageError where a table has the texts of its prompts, and one text stands under several names."""
    if not {"prompt_id", "text"} <= set(frame):
        return
    prompts = frame[["prompt_id", "text"]].dropna().drop_duplicates()
    if repeated := repeated_texts(prompts["prompt_id"].map(label), prompts["text"].map(label)):
        text, names = next(iter(repeated.items()))
        raise UsageError(
            "one prompt under several names would count as several",
            where="prompt_id",
            got=f"{', '.join(names[:5])}: {text[:40]!r}",
            allowed="one name for each text",
            next_step=again(Code('df.drop_duplicates(["model_id", "text"])')),
        )
