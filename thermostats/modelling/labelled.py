"""Labels in the tables of a fit and of its predictions: which columns hold them, as one text each,
asked about once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from thermostats.errors import UsageError, join_some, take_first_line
from thermostats.modelling.columns import guess_columns, name_asked
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
    named = {**standard, **arguments}
    columns = {}
    for name, value in arguments.items():
        if isinstance(value, pd.DataFrame):
            columns[name] = find_label_columns(named, value)
    converted = dict(arguments)
    for name, labels in columns.items():
        frame = arguments[name]
        check_spelling({label: (frame[label], ()) for label in labels})
        _check_texts(frame)
        converted[name] = convert_label_columns(frame, labels)
    return converted


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
        held[name] = (new[name], dict.fromkeys(table[name].dropna()))
    check_spelling(held, "df", "fit.predict({})")
    return convert_label_columns(new, columns)


def convert_label_columns(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """A table whose columns of labels are texts; those that are texts stay as they are."""
    texts = {}
    for name in columns:
        labels = frame[name].dropna().unique()
        if not all(isinstance(label, str) for label in labels):
            texts[name] = convert_labels(frame[name])
    return frame.assign(**texts) if texts else frame


def find_label_columns(arguments: Mapping[str, Any], frame: pd.DataFrame) -> list[str]:
    """Columns of labels among those of a table: by the arguments that name them, by our names, and
    in formulas."""
    named = _list_texts(arguments, ROLES)
    either = _list_texts(arguments, EITHER)
    check_single_values(frame, *named, *either, *OURS)
    columns = list(map(str, frame))
    for formula in arguments.values():
        if not isinstance(formula, str) or "~" not in formula:
            continue
        for column in columns:
            if re.search(rf"(?<!\w){re.escape(column)}(?!\w)", formula):
                either.append(column)
    chosen = [*named, *OURS]
    for name in either:
        if name in frame and _has_words(frame[name]):
            chosen.append(name)
    label_columns = []
    for name in dict.fromkeys(chosen):
        if name in frame and isinstance(frame[name], pd.Series):
            label_columns.append(name)
    return label_columns


def _list_texts(arguments: Mapping[str, Any], roles: Sequence[str]) -> list[str]:
    """Texts in the arguments of these names."""
    texts: list[str] = []
    for role in roles:
        texts += _iterate_texts(arguments.get(role))
    return texts


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
    for value in values.dropna().unique():
        if isinstance(value, str) and not NUMBER.fullmatch(value):
            return True
    return False


def _check_texts(frame: pd.DataFrame) -> None:
    """UsageError where a table has the texts of its prompts, and one text stands under several
    names."""
    if not {"prompt_id", "text"} <= set(frame):
        return
    prompts = frame[["prompt_id", "text"]].dropna().drop_duplicates()
    names_of_prompts = prompts["prompt_id"].map(convert_label)
    texts = prompts["text"].map(convert_label)
    if repeated := find_repeated_texts(names_of_prompts, texts):
        text, names = next(iter(repeated.items()))
        once = Code('df.drop_duplicates(["model_id", "text"])')
        raise UsageError(
            "one prompt under several names would count as several",
            where="prompt_id",
            got=f"{', '.join(names[:5])}: {text[:40]!r}",
            allowed="one name for each text",
            next_step=repeat_call(once),
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
        if lacking := _list_lacking(self.right, table):
            raise UsageError(
                "the table lacks a column of the formula",
                where=", ".join(lacking),
                got=f"a table with {join_some(table.columns, lacking[0])}",
            )
        has_outcome = set(self.left.required_variables) - {"np"} <= set(table)
        sides = [self.right, self.left] if has_outcome else [self.right]
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
            matrix = side.get_model_matrix(table, context={"np": np}, na_action="ignore")
            return pd.DataFrame(matrix)
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
        variables = side.factor_variables.get(factor, ())
        for name in sorted(set(map(str, variables)) & set(map(str, table.columns))):
            seen = list(state.get("categories", ()))
            strange = []
            for value in pd.unique(table[name]):
                if value not in seen:
                    strange.append(value)
            if seen and strange:
                categories = ", ".join(map(repr, seen))
                return UsageError(
                    "a category that the fit has not seen has no effect in it",
                    where=name,
                    got=", ".join(map(repr, strange)),
                    allowed=categories,
                    next_step=f'fit.predict(df[df["{name}"].isin([{categories}])])',
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
    variables = set(map(str, side.required_variables))
    for name in sorted(variables & set(map(str, table.columns))):
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
        without = LEVELS.sub("", text).replace("+ +", "+")
        rest = re.sub(r"\+\s*$|^\s*\+", "", without).strip()
        rest = rest if not rest.endswith("~") else f"{rest} 1"
        step = f'thermostats.fit_line(df, "{rest}", group="{levels[1]}")'
        raise UsageError(
            "levels of groups are named by group=", where=text, got=levels[0], next_step=step
        )
    try:
        written = Written(text)
        if lacking := _list_lacking(written, table):
            raise _build_refusal(text, f"no column {', '.join(lacking)}", table)
        matrices = model_matrix(text, table, context={"np": np}, na_action="ignore")
    except FormulaicError as error:
        why = COLOURS.sub("", take_first_line(error))
        raise _build_refusal(text, why, table) from None
    left = getattr(matrices, "lhs", pd.DataFrame())
    right = getattr(matrices, "rhs", pd.DataFrame())
    for side in (left, right):
        if len(side.columns):
            _refuse_missing(table, side.model_spec)
    if left.shape[1] != 1 or INTERCEPT not in right:
        raise _build_refusal(text, "no outcome, or no intercept", table)
    covariates = tuple(name for name in map(str, right) if name != INTERCEPT)
    return Formula(
        outcome=str(left.columns[0]),
        covariates=covariates,
        left=left.model_spec,
        right=right.model_spec,
    )


def _list_lacking(written: Any, table: pd.DataFrame) -> list[str]:
    """Columns of a formula, or of a side of one, that a table lacks."""
    there = {*table.columns, "np"}
    return sorted(map(str, set(written.required_variables) - there))


def _build_refusal(text: str, why: str, table: pd.DataFrame) -> UsageError:
    outcome = guess_columns(table, "outcome") or name_asked("outcome")
    covariate = guess_columns(table, "depth")
    if not covariate:
        others = [str(name) for name in table.select_dtypes("number") if name != outcome]
        covariate = next(iter(others), "1")
    there = join_some(table.columns, text)
    return UsageError(
        "the formula cannot be read",
        where=text,
        got=f"{why}; a table with {there}",
        allowed="outcome ~ columns, with an intercept",
        next_step=f'thermostats.fit_line(df, "{outcome} ~ {covariate}")',
    )
