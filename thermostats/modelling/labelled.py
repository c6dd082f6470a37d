"""Labels in the tables of a fit and of its predictions: which columns hold them, as one text each,
asked about once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError, join_some, take_first_line
from thermostats.modelling.columns import guess_columns
from thermostats.next_steps import Code, repeat_call
from thermostats.tables.frames import check_single_values
from thermostats.tables.labels import (
    check_spelling,
    convert_label,
    convert_labels,
    find_repeated_texts,
)
from thermostats.tables.validation import NUMBER

if TYPE_CHECKING:
    from formulaic import ModelSpec


ROLES = ("model", "lab", "family", "prompt", "group", "levels", "instrument")
"""Arguments that name columns of labels, whatever these hold."""
EITHER = ("blocks", "per_row", "units")
"""Arguments that name columns of labels or of numbers, by what these hold; so does a formula."""
OURS = ("model_id", "heritage", "family", "prompt_id", "category", "source", "prompt_set", "dtype")
"""Columns of labels by our names."""


def convert_arguments(arguments: Mapping[str, Any], standard: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a fit whose tables have the labels of their columns as texts.

    standard: arguments that are not given. Raises UsageError where labels of a column differ in
    spelling alone, and where prompts under several names are one text.
    """
    frames = {}
    for name, value in arguments.items():
        if isinstance(value, pd.DataFrame):
            frames[name] = value
    every = {}
    for name, frame in frames.items():
        every[name] = find_label_columns({**standard, **arguments}, frame)
    for name, columns in every.items():
        check_spelling({column: (frames[name][column], ()) for column in columns})
        _check_texts(frames[name])
    return {
        **arguments,
        **{name: convert_label_columns(frame, every[name]) for name, frame in frames.items()},
    }


def convert_new_labels(
    new: pd.DataFrame, arguments: Mapping[str, Any], standard: Mapping[str, Any]
) -> pd.DataFrame:
    """Rows to predict, as `convert_arguments`, of a fit that had these arguments; their labels are
    held against its own."""
    table = next(value for value in arguments.values() if isinstance(value, pd.DataFrame))
    columns = []
    for name in find_label_columns({**standard, **arguments}, table):
        if name in new:
            columns.append(name)
    held = {}
    for name in columns:
        held[name] = dict.fromkeys(table[name].dropna())
    check_spelling({name: (new[name], held[name]) for name in columns}, "df", "fit.predict({})")
    return convert_label_columns(new, columns)


def convert_label_columns(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """A table whose columns of labels are texts; those that are texts stay as they are."""
    other = []
    for name in columns:
        labels = frame[name].dropna().unique()
        if not all(isinstance(label, str) for label in labels):
            other.append(name)
    return frame.assign(**{name: convert_labels(frame[name]) for name in other}) if other else frame


def find_label_columns(arguments: Mapping[str, Any], frame: pd.DataFrame) -> list[str]:
    """Columns of labels among those of a table: by the arguments that name them, by our names, and
    in formulas."""
    named = [name for role in ROLES for name in _iterate_texts(arguments.get(role))]
    either = [name for role in EITHER for name in _iterate_texts(arguments.get(role))]
    check_single_values(frame, *named, *either, *OURS)
    columns = list(map(str, frame))
    for formula in arguments.values():
        if isinstance(formula, str) and "~" in formula:
            either += [c for c in columns if re.search(rf"(?<!\w){re.escape(c)}(?!\w)", formula)]
    chosen = [
        *named,
        *OURS,
        *(name for name in either if name in frame and _has_words(frame[name])),
    ]
    label_columns: list[str] = []
    for name in dict.fromkeys(chosen):
        if name in frame and isinstance(frame[name], pd.Series):
            label_columns.append(name)
    return label_columns


def _iterate_texts(value: Any) -> Iterator[str]:
    """Texts in an argument, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _iterate_texts(each)


def _has_words(values: pd.Series | pd.DataFrame) -> bool:
    """Whether a column holds texts that are no numbers."""
    if not isinstance(values, pd.Series) or pd.api.types.is_numeric_dtype(values):
        return False
    return any(
        isinstance(value, str) and not NUMBER.fullmatch(value) for value in values.dropna().unique()
    )


def _check_texts(frame: pd.DataFrame) -> None:
    """UsageError where a table has the texts of its prompts, and one text stands under several
    names."""
    if not {"prompt_id", "text"} <= set(frame):
        return
    prompts = frame[["prompt_id", "text"]].dropna().drop_duplicates()
    if repeated := find_repeated_texts(
        prompts["prompt_id"].map(convert_label), prompts["text"].map(convert_label)
    ):
        text, names = next(iter(repeated.items()))
        raise UsageError(
            "one prompt under several names would count as several",
            where="prompt_id",
            got=f"{', '.join(names[:5])}: {text[:40]!r}",
            allowed="one name for each text",
            next_step=repeat_call(Code('df.drop_duplicates(["model_id", "text"])')),
        )


INTERCEPT = "Intercept"
LEVELS = re.compile(r"\(\s*1\s*\|\s*(\w+)\s*\)")
"""How lme4 and bambi write levels of groups."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, kw_only=True)
class Formula:
    """An outcome and covariates that are computed from the columns of a table."""

    outcome: str
    covariates: tuple[str, ...]
    left: ModelSpec
    right: ModelSpec

    def build_rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with the columns of the formula; without the outcome where the table has
        none."""
        if lacking := sorted(map(str, self.right.required_variables - {*table.columns, "np"})):
            raise UsageError(
                "the table lacks a column of the formula",
                where=", ".join(lacking),
                got=f"a table with {join_some(table.columns, lacking[0])}",
            )
        sides = [
            self.right,
            *([self.left] if set(self.left.required_variables) - {"np"} <= set(table) else []),
        ]
        for side in sides:
            _refuse_missing(table, side)
            matrix = _build_matrix(side, table)
            computed = {}
            for name in matrix:
                if name != INTERCEPT:
                    computed[name] = matrix[name].to_numpy()
            table = table.assign(**computed)
        return table


def _build_matrix(side: ModelSpec, table: pd.DataFrame) -> pd.DataFrame:
    """Columns of one side for a table; UsageError for a category that the fit has not seen, and for
    another kind."""
    from formulaic.errors import DataMismatchWarning, FormulaicError  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        try:
            return pd.DataFrame(
                side.get_model_matrix(table, context={"np": np}, na_action="ignore")
            )
        except DataMismatchWarning as mismatch:
            raise _refuse_unseen(side, table, take_first_line(mismatch)) from None
        except FormulaicError as error:
            what = "a column of the formula is of another kind than in the fit"
            got = COLOURS.sub("", take_first_line(error))
            raise UsageError(
                what, where=side.formula, got=got, allowed="numbers where the fit has numbers"
            ) from None


def _refuse_unseen(side: ModelSpec, table: pd.DataFrame, why: str) -> UsageError:
    """The error for categories without an effect: which, of which column, and those that the fit
    has."""
    for factor, (_, state) in side.encoder_state.items():
        for name in sorted(
            set(map(str, side.factor_variables.get(factor, ()))) & set(map(str, table.columns))
        ):
            seen = list(state.get("categories", ()))
            strange = []
            for value in pd.unique(table[name]):
                if value not in seen:
                    strange.append(value)
            if seen and strange:
                return UsageError(
                    "a category that the fit has not seen has no effect in it",
                    where=name,
                    got=", ".join(map(repr, strange)),
                    allowed=", ".join(map(repr, seen)),
                    next_step=f'fit.predict(df[df["{name}"].isin([{", ".join(map(repr, seen))}])])',
                )
    return UsageError(
        "a category that the fit has not seen",
        where=side.formula,
        got=why,
        allowed="those of the fit",
    )


def _refuse_missing(table: pd.DataFrame, side: ModelSpec) -> None:
    """UsageError where a column of a formula has no value: a missing category would count as the
    first one."""
    for name in sorted(set(map(str, side.required_variables)) & set(map(str, table.columns))):
        if missing := int(table[name].isna().sum()):
            raise UsageError(
                "a column of the formula has missing values",
                where=name,
                got=f"{missing} of {len(table)} rows",
                allowed="a value in every row",
                next_step=f'df = df[df["{name}"].notna()]',
            )


def read_formula(text: str, table: pd.DataFrame) -> Formula:
    """A formula read for a table; UsageError with one that works where it cannot be."""
    from formulaic import Formula as Written  # noqa: PLC0415
    from formulaic import model_matrix  # noqa: PLC0415
    from formulaic.errors import FormulaicError  # noqa: PLC0415

    if levels := LEVELS.search(text):
        rest = re.sub(r"\+\s*$|^\s*\+", "", LEVELS.sub("", text).replace("+ +", "+")).strip()
        rest = rest if not rest.endswith("~") else f"{rest} 1"
        step = f'thermostats.fit_line(df, "{rest}", group="{levels[1]}")'
        raise UsageError(
            "levels of groups are named by group=", where=text, got=levels[0], next_step=step
        )
    try:
        written = Written(text)
        lacking = sorted(map(str, set(written.required_variables) - {*table.columns, "np"}))
        if lacking:
            raise _build_refusal(text, f"no column {', '.join(lacking)}", table)
        matrices = model_matrix(text, table, context={"np": np}, na_action="ignore")
    except FormulaicError as error:
        raise _build_refusal(text, COLOURS.sub("", take_first_line(error)), table) from None
    sides = [getattr(matrices, side, pd.DataFrame()) for side in ("lhs", "rhs")]
    for side in sides:
        if len(side.columns):
            _refuse_missing(table, side.model_spec)
    if sides[0].shape[1] != 1 or INTERCEPT not in sides[1]:
        raise _build_refusal(text, "no outcome, or no intercept", table)
    covariates = tuple(name for name in map(str, sides[1]) if name != INTERCEPT)
    outcome = str(sides[0].columns[0])
    return Formula(
        outcome=outcome, covariates=covariates, left=sides[0].model_spec, right=sides[1].model_spec
    )


def _build_refusal(text: str, why: str, table: pd.DataFrame) -> UsageError:
    outcome = guess_columns(table, "outcome") or "OUTCOME"
    depth = guess_columns(table, "depth")
    covariate = depth or next((str(c) for c in table.select_dtypes("number") if c != outcome), "1")
    return UsageError(
        "the formula cannot be read",
        where=text,
        got=f"{why}; a table with {join_some(table.columns, text)}",
        allowed="outcome ~ columns, with an intercept",
        next_step=f'thermostats.fit_line(df, "{outcome} ~ {covariate}")',
    )
