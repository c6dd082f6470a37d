"""A user's table as a fit reads it: columns by what they are, each unit once, models that may be
compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from thermostats.errors import UsageError, join_some
from thermostats.formatting import join_words
from thermostats.next_steps import (
    LEFT_OUT,
    Code,
    call,
    get_argument,
    get_rows,
    has_argument,
    is_none_allowed,
    list_named,
    list_named_columns,
    list_texts,
    repeat_call,
    write_value,
)
from thermostats.tables.column_map import is_gain
from thermostats.tables.entries import drop_names
from thermostats.tables.labels import (
    OF_BLOCKS,
    SYNONYMS,
    check_spelling,
    convert_labels,
    guess_column,
    is_called_gain,
    is_per_cent,
    list_column_names,
    spell_name,
)
from thermostats.tables.written_numbers import describe_no_numbers, read_written

Array = NDArray[np.float64]

LEVEL = 0.95
"""Coverage of intervals."""
ROLES = {"heritage": ("lab", "group"), "model_id": ("model",), "prompt_id": ("prompt",)}
"""Arguments by which a user names one of our columns of labels."""
NO_INTERVAL = "none"
RESAMPLES = 9999
MAGNITUDES = (1e-60, 1e60)
"""Of a column's largest value: fourth powers of it, and of differences that are small next to it,
are doubles."""
NAMED = 20
"""Names that a warning holds; of more it gives the number."""


@dataclass(frozen=True, kw_only=True)
class ClassicalEstimate:
    """One estimate with its interval and test; NaN where a number does not exist, and the words say
    why."""

    test: str
    """The test's name, with its null hypothesis."""
    estimate: float
    lower: float
    upper: float
    level: float = LEVEL
    """Coverage of the interval."""
    interval: str
    """Kind of interval in words; starts with `none` where there is none."""
    p_value: float
    n: int
    """Observations the test rests on."""


def read_numbers(
    values: ArrayLike,
    name: str,
    *,
    least: int = 2,
    positive: bool = False,
    varied: bool = False,
    truths: bool = False,
) -> Array:
    """Return one finite numeric column, or raise UsageError naming the first thing wrong with it.

    `truths`: true and false count as 1 and 0. Dates, durations and complex numbers are no numbers,
    and the largest must lie in `MAGNITUDES`.
    """
    if kind := describe_no_numbers(values, truths=truths):
        raise UsageError(
            "a column is not numeric",
            where=name,
            got=kind,
            allowed="finite numbers",
            next_step=suggest_numbers(name, values),
        )
    try:
        if isinstance(values, pd.Series):
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "a column is not numeric",
            where=name,
            got=error,
            allowed="finite numbers",
            next_step=suggest_numbers(name, values),
        ) from error
    if array.ndim != 1:
        raise UsageError(
            "a column has the wrong shape", where=name, got=array.shape, allowed="one dimension"
        )
    if array.size < least:
        raise UsageError("too few points", where=name, got=array.size, allowed=f"at least {least}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        step = "drop these rows by name and report how many"
        raise UsageError(
            "missing or infinite values",
            where=name,
            got=f"{bad.size} of {array.size}, the first at row {bad[0]}",
            allowed="finite numbers",
            next_step=suggest_complete_rows(name) or step,
        )
    largest = float(np.abs(array).max(initial=0.0))
    least_size, most_size = MAGNITUDES
    if largest and not least_size <= largest <= most_size:
        scaled = f'df.assign(**{{"{name}": df["{name}"] / {largest:.0e}}})'
        raise UsageError(
            "powers of this column are beyond double precision",
            where=name,
            got=f"a largest value of {largest:.3g}",
            allowed=f"between {least_size:g} and {most_size:g}",
            next_step=f"{scaled}, and see the result in that unit",
        )
    if positive and array.min() <= 0:
        raise UsageError(
            "a logarithm is taken of this column",
            where=name,
            got=f"{array.min():g}",
            allowed="values above 0",
        )
    if varied and is_constant(array):
        raise UsageError(
            "a constant column decides nothing",
            where=name,
            got=f"{array[0]:g} {array.size} times",
            allowed="two values or more",
        )
    return array


def is_constant(array: Array) -> bool:
    """Tell whether values differ by no more than rounding."""
    largest = float(np.max(np.abs(array)))
    return float(np.ptp(array)) <= 1e-13 * largest


def name_estimand(estimand: str, table: pd.DataFrame) -> str:
    """A gain's name with its token position, where the rows state one and it is not the last.

    Raises UsageError for gains at several positions.
    """
    held = sorted(set(table["token_position"].dropna())) if "token_position" in table else []
    if len(held) > 1:
        raise UsageError(
            "gains at several token positions",
            where=estimand,
            got=", ".join(held),
            allowed="one",
            next_step="choose rows of one position",
        )
    return estimand if held in ([], ["last"]) else f"{estimand} at {held[0]}"


def check_same_length(**columns: Sequence[object] | Array | pd.Series) -> None:
    """Raise UsageError where paired columns differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError("paired columns differ in length", got=lengths, allowed="equal lengths")


def read_labels(
    values: Sequence[object] | pd.Series, name: str, held: Sequence[object] | pd.Series = ()
) -> NDArray[np.str_]:
    """Return a column of labels as text, or raise UsageError where one is missing or empty.

    And where two of them, or one and one that is `held`, differ in spelling alone
    (`tables/labels.py`).
    """
    column = convert_labels(pd.Series(list(values), dtype=object))
    if len(column) == 0:
        raise UsageError("no row is left", where=name, got="0 rows", allowed="at least one row")
    missing = column.isna() | (column == "")
    if missing.any():
        step = "leave out what has no label"
        if missing.all():
            step = f"df.assign(**{{{write_value(name)}: LABELS}}), a label for every row"
        elif isinstance(values, pd.Series):
            step = _suggest_dropping_rows(name)
        lacking = f"{int(missing.sum())} of {len(column)}"
        raise UsageError(
            "labels are missing",
            where=name,
            got=lacking,
            allowed="a label for every row",
            next_step=step,
        )
    check_spelling({name: (values, held)})
    return np.asarray(column.tolist())


def suggest_numbers(name: str, values: Any, otherwise: str = "") -> str:
    """The call that is being made with the numbers that the cells of a column stand for, and what
    they are taken for; with `otherwise` for these, or nothing, where the cells do not say it."""
    column = values
    if not isinstance(values, pd.Series):
        column = pd.Series(np.ravel(np.asarray(values)))
    theirs = f"df[{write_value(name)}]"
    words, made = read_written(column, theirs)
    if not (made or otherwise):
        return ""
    rows = f"df.assign(**{{{write_value(name)}: {made or otherwise}}})"
    line = repeat_call(Code(rows)) or rows
    return f"{line}\n# {name} holds {words}" if made else line


def suggest_complete_rows(*columns: str) -> str:
    """The call that is being made without the rows that lack a value in a column that it names, and
    which these are; empty where there is no such call, or no row would be left.

    columns: such columns besides.
    """
    table = get_rows()
    if not isinstance(table, pd.DataFrame):
        return ""
    besides = [column for column in columns if column in table]
    named = dict.fromkeys([*list_named_columns(list(table)), *besides])
    lacking, gone = _find_blank(table, [*named])
    if not lacking or gone.all():
        return ""
    line = repeat_call(Code(f"df{_write_dropping(table, lacking)}"))
    model = get_argument("model")
    names = model if isinstance(model, str) else OURS["model"]
    return f"{line}\n# {_describe_gone(table, gone, names)}" if line else ""


def _find_blank(table: pd.DataFrame, names: Sequence[str]) -> tuple[list[str], pd.Series]:
    """Columns of these with cells that are missing, empty or infinite, and the rows of such
    cells."""
    blank = {name: _mark_blank(table[name]) for name in names}
    lacking = [name for name, blanks in blank.items() if blanks.any()]
    none = pd.Series(False, index=table.index)
    marks = [none, *(blank[name] for name in lacking)]
    gone = pd.concat(marks, axis=1).any(axis=1)
    return lacking, gone


def _write_dropping(table: pd.DataFrame, lacking: Sequence[str]) -> str:
    """What is written behind a table to leave out rows without these columns' values."""
    infinite = any(_has_infinite(table[name]) for name in lacking)
    blank = any(_mark_blank_texts(table[name]).any() for name in lacking)
    replaced = ".replace([np.inf, -np.inf], np.nan)" if infinite else ""
    if blank:
        replaced += '.replace(r"^\\s*$", np.nan, regex=True)'
    return f"{replaced}.dropna(subset={write_value([*lacking])})"


def _has_infinite(column: pd.Series | pd.DataFrame) -> bool:
    return _has_numbers(column) and bool(np.isinf(column.astype("float64")).any())


def _mark_blank(column: pd.Series | pd.DataFrame) -> pd.Series:
    """Cells that are missing, empty or infinite."""
    if not isinstance(column, pd.Series):
        return pd.Series(False, index=column.index)
    if _has_numbers(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return pd.Series(~np.isfinite(values), index=column.index)
    return column.isna() | _mark_blank_texts(column)


def _mark_blank_texts(column: pd.Series) -> pd.Series:
    """Cells that are texts without a character."""

    def is_blank(cell: Any) -> bool:
        return isinstance(cell, str) and not cell.strip()

    return column.map(is_blank).astype(bool)


def _describe_gone(table: pd.DataFrame, gone: pd.Series, names: str) -> str:
    """How many rows are left out, and of which models, whose column is named."""
    leaves_out = f"leaves out {int(gone.sum())} of {len(table)} rows"
    if names not in table:
        return leaves_out
    models = set(table.loc[gone, names].astype(str))
    return f"{leaves_out}: {list_names(models, 5)}"


def _suggest_dropping_rows(name: str) -> str:
    """The call that is being made without the rows that lack a label, under the user's name of
    their column."""
    theirs = name
    for role in ROLES.get(name, ()):
        column = get_argument(role)
        if isinstance(column, str):
            theirs = column
            break
    return suggest_complete_rows(theirs) or f"df = df.dropna(subset=[{write_value(theirs)}])"


def list_names(names: Iterable[str], most: int = NAMED) -> str:
    """The names in order, of many the first and how many more: `a, b and 7 more`."""
    ordered = sorted(map(str, names))
    more = len(ordered) - most
    first = ", ".join(ordered[:most])
    return f"{first} and {more} more" if more > 0 else first


def warn_missing_models(before: Iterable[str], after: Iterable[str], why: str) -> list[str]:
    """A warning that says which models are left out and why; none where all are there."""
    all_units = set(before)
    gone = all_units - set(after)
    if not gone:
        return []
    return [f"{why}, left out: {len(gone)} of {len(all_units)} models ({list_names(gone)})"]


def check_columns(frame: pd.DataFrame, *names: str) -> None:
    """Raise UsageError where a frame is empty or lacks a column."""
    absent = [name for name in names if name not in frame]
    if absent:
        lacking = ", ".join(absent)
        raise UsageError(
            "no such column",
            got=lacking,
            allowed=join_some(frame.columns, absent[0]),
            next_step=_suggest_names(frame, absent),
        )
    if frame.empty:
        raise UsageError("an empty table", got="0 rows", allowed="at least one row")


def _suggest_names(frame: pd.DataFrame, absent: Sequence[str]) -> str:
    """The call that is being made with the user's columns under our names, and what only the user
    knows in capitals; empty where there is no such call."""
    renamed = dict[str, str]()
    named = {}
    roles = {name: role for role, name in OURS.items()}
    for ours in absent:
        role = roles.get(ours, "")
        free = frame.drop(columns=[*renamed])
        theirs = guess_columns(free, role) if role else guess_column(ours, [*map(str, free)])
        if is_gain(ours) and (gain := guess_columns(free, "outcome", standard=ours)):
            named["gain"] = gain
        elif isinstance(theirs, str) and theirs:
            renamed[theirs] = ours
    known = set(renamed.values())
    if "gain" in named:
        known |= set(filter(is_gain, absent))
    unknown = [name for name in absent if name not in known]
    if not renamed:
        return ""
    rows = f"df.rename(columns={write_value(renamed)})"
    more = ", ".join(f"{name}={name.upper()}" for name in unknown)
    return repeat_call(Code(f"{rows}.assign({more})" if more else rows), **named)


def check_probability(value: float, name: str = "level") -> float:
    """Return a probability strictly between 0 and 1, or raise UsageError."""
    if not 0 < value < 1:
        raise UsageError("not a probability", where=name, got=value, allowed="above 0 and below 1")
    return value


def check_prior_scale(value: float, where: str) -> float:
    """Return a prior scale that is above 0 and in `MAGNITUDES`, or raise UsageError."""
    if not MAGNITUDES[0] <= value <= MAGNITUDES[1]:
        allowed = f"a number above 0, from {MAGNITUDES[0]:g} to {MAGNITUDES[1]:g}"
        raise UsageError("a prior scale must be above 0", where=where, got=value, allowed=allowed)
    return value


def apply_holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm-adjusted p-values of a family of tests, p_(i) → max_{j ≤ i} min(1, (m − j + 1) p_(j)).

    Raises UsageError for an empty family or a p-value that is missing or outside [0, 1]: a test
    that could not be made must be left out by name, since it changes the family.
    """
    wrong = {}
    for name, p in p_values.items():
        if not (math.isfinite(p) and 0 <= p <= 1):
            wrong[name] = p
    if wrong or not p_values:
        raise UsageError(
            "not a family of p-values",
            where="holm",
            got=wrong or "no p-values",
            allowed="p-values in [0, 1]",
        )
    # statsmodels' multipletests collects garbage at every call, 0.1 s: too slow inside simulations
    order = sorted(p_values, key=lambda name: p_values[name])
    steps = [(len(order) - i) * p_values[name] for i, name in enumerate(order)]
    largest = np.maximum.accumulate(np.minimum(steps, 1))
    adjusted = dict(zip(order, map(float, largest), strict=True))
    return {name: adjusted[name] for name in p_values}


def read_errors(rows: pd.DataFrame, se: str | float, outcome: str) -> Array:
    """Standard errors of the outcome as given, of every row: a column's, or one for all.

    Raises UsageError for a column that is not there, and for errors that are missing or below 0.
    """
    if isinstance(se, str):
        check_columns(rows, se)
    elif isinstance(se, bool) or not isinstance(se, Real):
        name = f"{outcome}_se"
        with_errors = Code(f"df.assign(**{{{write_value(name)}: ERRORS}})")
        step = f"put them into a column: {repeat_call(with_errors, se=name)}"
        what = "a standard error is a column or a number"
        allowed = "the name of a column, or a number from 0"
        raise UsageError(what, where="se", got=type(se).__name__, allowed=allowed, next_step=step)
    column = rows[se] if isinstance(se, str) else pd.Series(float(se), index=rows.index)
    lacking = column.isna()
    if lacking.any():
        got = f"{int(lacking.sum())} of {len(rows)} rows have none"
        if "model_id" in rows:
            models = set(rows.loc[lacking, "model_id"].astype(str))
            got = f"none of {list_names(models, 5)}"
        dropped = f'df = df.dropna(subset=["{se}"])'
        raise UsageError(
            "a standard error is missing",
            where=se,
            got=got,
            allowed="a standard error of every row; 0 is an outcome without error",
            next_step=suggest_complete_rows() or dropped,
        )
    errors = read_numbers(column, str(se), least=1)
    if (errors < 0).any():
        raise UsageError(
            "a standard error below 0", where=se, got=f"{errors.min():g}", allowed="0 or above"
        )
    return errors


def convert_log_errors(
    rows: pd.DataFrame, se: str | float, outcome: str, values: Array
) -> tuple[Array, str]:
    """Standard errors of log outcomes by the delta method, se/outcome, and the sentence that says
    so.

    Raises UsageError as `read_errors`, and for an error that is not below its outcome: its
    logarithm has no such error.
    """
    errors = read_errors(rows, se, outcome)
    large = errors >= values
    if large.any():
        first = int(np.flatnonzero(large)[0])
        divided = f'{se}=df["{se}"] / 100' if isinstance(se, str) else f"{outcome}_se={se} / 100"
        share = f"{int(large.sum())} of {values.size} such rows"
        step = f"of per cent df = df.assign({divided}); rows known so badly are better left out"
        raise UsageError(
            f"is this the standard error of {outcome}? It is not smaller than {outcome} itself",
            where=se,
            got=f"{errors[first]:.4g} of {values[first]:.4g}, and {share}",
            allowed=f"errors in the unit of {outcome}, one standard deviation, smaller than "
            f"{outcome}",
            next_step=step,
        )
    return errors / values, f"errors of logs by the delta method: {se} / {outcome}"


def warn_unread_errors(
    table: pd.DataFrame, outcome: str, se: str | float | None, *others: str
) -> list[str]:
    """What a table says of errors and the fit does not read."""
    if se is None:
        free = [name for name in map(str, table) if name not in list_texts()]
        column = f"{outcome}_se" if f"{outcome}_se" in free else guess_column("se", free)
        return [f'{column} is not read: se="{column}" takes it as known'] if column else []
    if left := [name for name in others if name in table]:
        return [f"not read with se: {', '.join(left)}"]
    return []


OURS = {
    "model": "model_id",
    "lab": "heritage",
    "prompt": "prompt_id",
    "depth": "n_layers",
    "heads": "n_heads",
    "density": "rho",
}
"""Arguments that name a column, and the column's name in the tables of the package."""
USUAL = {
    "model": ("model_id",),
    "lab": ("heritage",),
    "prompt": ("prompt_id",),
    "depth": ("n_layers",),
    "heads": ("n_heads",),
    "density": ("rho",),
    "geometry": ("n_layers", "n_heads", "d_head", "d_model"),
    "shape": ("n_layers", "n_heads", "d_model"),
    "family": ("family",),
    "covariates": ("n_layers", "n_params"),
    "group": ("heritage",),
    "scale": ("n_params",),
    "holds": ("holds",),
    "outcome": ("gain",),
    "se": ("se",),
}
"""Columns of ours that arguments mean, which others call otherwise (`tables/labels.py`)."""
ASKED = {"se": "ERRORS"}
"""What stands for an argument that only the user knows, where it is not its own name."""


def name_asked(argument: str) -> str:
    """The word in capitals that stands for a column which only the user knows."""
    return ASKED.get(argument, argument.upper())


SEVERAL = ("geometry", "scale", "covariates", "levels", "shape")
"""Arguments that name one column or more."""
OF_THE_FITTED = ("outcome", "holds", "model", "prompt", "se")
"""Arguments whose column rows to predict need not have."""
NONE_SAYS = ("lab", "group")
"""Arguments that are written out where they are None, since this is not their default."""
MAY_LACK = ("family", "prompt")
"""Arguments whose column may have empty cells."""
TEXT = ("model", "lab", "family", "prompt", "group")
"""Arguments whose column holds names; that of the others holds numbers."""
LOGS = ("geometry", "scale", "depth", "heads", "density")
"""Arguments whose numbers enter by their logarithms."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What a call says of the columns of its table."""

    call: str
    """Name of the function."""
    named: Mapping[str, str | Sequence[str] | None]
    """Argument to the user's column or columns; None where there is none."""
    further: tuple[str, ...] = ()
    """Columns that rows to predict need besides."""
    computed: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda rows: rows)
    """What else the rows get from the user's columns."""

    def read(self, table: pd.DataFrame, optional: Sequence[str] = ()) -> pd.DataFrame:
        """The table with the package's names next to the user's; UsageError with the call filled in
        where one lacks."""
        absent = self._find_absent(table)
        further = {name: c for name, c in absent.items() if name not in optional}
        if further:
            raise self.build_refusal(table, further)
        return self._rename_columns(table)

    def read_new(self, new: pd.DataFrame) -> pd.DataFrame:
        """Rows to predict, as `read`, without what predictions do not need; UsageError that names
        what they lack.

        And for numbers that are not finite, or of which no logarithm can be taken.
        """
        needed = {}
        for name, names in self.named.items():
            if name not in OF_THE_FITTED:
                needed[name] = _list_columns(names)
        absent = {}
        for name, columns in self._find_absent(new).items():
            if name in needed:
                absent[name] = columns
        if further := [column for column in self.further if column not in new]:
            absent["blocks"] = further
        if absent:
            filled = {column: Code("VALUES") for columns in absent.values() for column in columns}
            step = f"fit.predict(df.assign(**{write_value(filled)}))"
            there = join_some(new.columns, next(iter(absent.values()))[0])
            raise UsageError(
                "rows to predict lack columns",
                where=_describe_absent(absent),
                got=there,
                next_step=step,
            )
        for name, columns in needed.items():
            for column in columns if name not in (*TEXT, "levels", "shape") else ():
                read_numbers(new[column], column, least=1, positive=name in LOGS)
        rows = self._rename_columns(new)
        model = OURS["model"]
        if model in rows:
            return rows
        return rows.assign(**{model: rows.index.astype(str)})

    def _find_absent(self, table: pd.DataFrame) -> dict[str, list[str]]:
        absent = {}
        for name, names in self.named.items():
            if columns := [c for c in _list_columns(names) if c not in table]:
                absent[name] = columns
        return absent

    def _rename_columns(self, table: pd.DataFrame) -> pd.DataFrame:
        new = {}
        for name, column in self.named.items():
            ours = OURS.get(name)
            if ours and isinstance(column, str) and column in table and column != ours:
                new[ours] = table[column]
        return self.computed(table.assign(**new))

    def build_refusal(self, table: pd.DataFrame, absent: Mapping[str, Sequence[str]]) -> UsageError:
        """The error for columns that are not there: what lacks, what is there, and the call that
        would work."""
        columns = [column for names in absent.values() for column in names]
        plural = "s" if len(columns) > 1 else ""
        there = join_some(table.columns, columns[0])
        return UsageError(
            f"the table has no such column{plural}",
            where=_describe_absent(absent),
            got=f"a table with {there}",
            next_step=self.fill_call(table, absent),
        )

    def fill_call(self, table: pd.DataFrame, absent: Mapping[str, Sequence[str]]) -> str:
        """The call with columns that are there; for rows of `features`, a row a measurement, one
        with a row a model."""
        of_features = {"run_id", "penultimate_gain"} <= set(table) and "gain" not in table
        if self.call == "fit_heritage" and of_features:
            return (
                'thermostats.fit_heritage(thermostats.gain_rows("penultimate_gain"), '
                'estimand="penultimate_gain")'
            )
        chosen: dict[str, Any] = {}
        left = []
        made = {}
        for name, names in self.named.items():
            if absent.get(name):
                standard = names if isinstance(names, str) else ""
                likely = guess_columns(table, name, [*chosen.values()], standard)
                if not likely and (numbers := _guess_numbers(table, name)):
                    column, made[numbers[0]] = numbers
                    likely = [column] if name in SEVERAL else column
                may_be_none = name in NONE_SAYS and is_none_allowed(name)
                spared = may_be_none or (name in SEVERAL and name != "shape")
                asked = Code(name_asked(name))
                chosen[name] = likely if likely or spared else asked
                left += [name] * (not likely and spared)
            elif name not in OURS or names != OURS[name]:
                none: list[str] | None = [] if name in SEVERAL else None
                is_one = names is None or isinstance(names, str)
                chosen[name] = names if is_one else _list_columns(names) or none
        outcome = chosen.get("outcome")
        guessed = "outcome" in absent and isinstance(outcome, str)
        if guessed and outcome not in made and is_per_cent(str(outcome)):
            made[str(outcome)] = f"df[{write_value(outcome)}] / 100"
        unset = {name for name, value in chosen.items() if value is None}
        unsaid = unset - {*NONE_SAYS}
        plain = drop_names(chosen, unsaid)
        said = [f"without {join_words(left)}: no column is called so"] if left else []
        chain = "df"
        if made:
            entries = [f"{write_value(name)}: {cells}" for name, cells in made.items()]
            chain += f".assign(**{{{', '.join(entries)}}})"
        read = [value for name, value in chosen.items() if name not in MAY_LACK]
        used = dict.fromkeys(column for value in read for column in list_named(value))
        there = [column for column in used if column in table]
        lacking, gone = _find_blank(table, there)
        if lacking and not gone.all():
            chain += _write_dropping(table, lacking)
            model = chosen.get("model", OURS["model"])
            models = model if isinstance(model, str) else ""
            said.append(_describe_gone(table, gone, models))
        may_take = guessed and outcome not in made
        taken, remarks = _take_errors(table[~gone], used, may_take=may_take)
        said += remarks
        rows = Code(chain)
        stated = {**chosen, **dict.fromkeys(unsaid, LEFT_OUT), **taken}
        line = repeat_call(rows, **stated) or call(self.call, rows, **plain, **taken)
        return "\n# ".join([line, *said])


WITH_ERRORS = "with the standard errors of the outcome"
TAKEN_AS_ERRORS = "check whether se holds the standard errors of the outcome, in its unit"


def _take_errors(
    table: pd.DataFrame, used: Collection[str], *, may_take: bool
) -> tuple[dict[str, str], list[str]]:
    """The argument of standard errors that the call that is being made leaves out, and a remark on
    it; both empty where the table has none, and where the call takes none.

    used: columns that the call names. may_take: else they are only named, as they are where a cell
    is no number.
    """
    if get_argument("se") is not None or not has_argument("se"):
        return {}, []
    unused = [column for column in map(str, table) if column not in used]
    name = guess_column("se", unused)
    if not name:
        return {}, []
    if may_take and pd.api.types.is_numeric_dtype(table[name]) and (table[name] > 0).all():
        return {"se": name}, [TAKEN_AS_ERRORS]
    return {}, [f"{WITH_ERRORS}: se={write_value(name)}"]


def build_gain_columns(
    function: str, outcome: str, *, se: str | float | None = None, **named: str | None
) -> Columns:
    """The columns of a law of gains, one row per model: what `read_model_gains` reads under the
    package's names; of its errors where they are a column."""
    if isinstance(se, str):
        named["se"] = se
    constants = {"source": ""}
    if not named.get("lab"):
        constants[OURS["lab"]] = "one"
    computed = partial(_add_constants, **constants)
    return Columns(call=function, named={"outcome": outcome, **named}, computed=computed)


def _add_constants(rows: pd.DataFrame, **values: str) -> pd.DataFrame:
    """Rows with columns of one value where they lack them."""
    lacking = {}
    for name, value in values.items():
        if name not in rows:
            lacking[name] = value
    return rows.assign(**lacking)


def guess_columns(
    table: pd.DataFrame, name: str, taken: Sequence[Any] = (), standard: str = ""
) -> str | list[str] | None:
    """The column or columns that an argument most likely means, of those not taken; None where none
    is likely.

    standard: the argument's default, by which it is known what an outcome is.
    """
    used = {column for value in taken for column in list_named(value)}
    fitting = {}
    for column in reversed(table.columns):
        if isinstance(column, str) and column not in used:
            of_kind = _has_numbers(table[column]) != (name in TEXT)
            if of_kind:
                fitting[spell_name(column)] = column
    if name in ("outcome", "gain"):
        return _guess_outcome(fitting, standard)
    found = [_find_nearest_column(ours, fitting) for ours in USUAL.get(name, ())]
    columns = list(dict.fromkeys(filter(None, found)))
    if name in SEVERAL:
        return columns or None
    return columns[0] if columns else None


def _guess_numbers(table: pd.DataFrame, name: str) -> tuple[str, str] | None:
    """A column that an argument of numbers may mean and whose texts stand for numbers, or one that
    can be computed, with the expression of its numbers; None where there is none."""
    if name == "density":
        heads = guess_columns(table, "heads")
        width = guess_column("d_head", [*map(str, table)])
        whole = guess_column("d_model", [*map(str, table)])
        if heads and (width or whole):
            over = f"df[{write_value(width)}]" if width else f"(df[{write_value(whole)}] / {{}})"
            column = f"df[{write_value(heads)}]"
            return OURS[name], f"{column} / {over.format(column)}"
        return None
    if name in TEXT:
        return None
    texts = {}
    for c in table:
        if not _has_numbers(table[c]):
            texts[spell_name(str(c))] = str(c)
    for ours in USUAL.get(name, ()):
        called = [texts[low] for low in list_column_names(ours) if low in texts]
        if not called:
            continue
        column = called[0]
        _, made = read_written(table[column], f"df[{write_value(column)}]")
        if made:
            return column, made
    return None


def guess_argument(name: str, table: Any, taken: Sequence[Any], standard: Any) -> Any:
    """What an argument of a fit most likely is of a table: a column, columns, or a comparison; None
    where nothing is likely or its default will do.

    standard: the default of the argument; None where it has none.
    """
    if not isinstance(table, pd.DataFrame):
        return None
    if name == "holds":
        outcome = guess_columns(table, "outcome", taken)
        one = 100 if outcome and is_per_cent(str(outcome)) else 1
        return f"{write_column(str(outcome))} > {one}" if outcome else None
    if (standard is not None and not isinstance(standard, str)) or standard in table:
        return None
    if name not in USUAL or (standard is None and name not in ("outcome",)):
        return None
    return guess_columns(table, name, taken, standard or "")


def write_column(name: str) -> str:
    """A column's name in an expression of pandas: in backquotes where it is no name of Python."""
    return name if name.isidentifier() else f"`{name}`"


def _find_nearest_column(ours: str, fitting: Mapping[str, str]) -> str:
    """The column that is called as one of ours, or nearly so; empty where none is."""
    names = list_column_names(ours)
    exact = [low for low in names if low in fitting]
    others = set[str]()
    for other in SYNONYMS:
        if other != ours:
            others |= {*list_column_names(other)}
    unnamed = [low for low in fitting if low not in others]
    near = []
    for name in names:
        near += get_close_matches(name, unnamed, 1, 0.75)
    return next((fitting[low] for low in [*exact, *near]), "")


def _guess_outcome(fitting: Mapping[str, str], standard: str) -> str | None:
    """The column that is called a gain, or where the default is something else, as the default."""
    if standard and not (is_gain(standard) or standard in list_column_names("gain")):
        names = list_column_names(standard)
        return next((fitting[name] for name in names if name in fitting), None)
    called = [column for column in fitting.values() if is_called_gain(column, *OF_BLOCKS)]
    usual = []
    for name in list_column_names("gain"):
        if fitting.get(name) in called:
            usual.append(fitting[name])
    return next(iter([*usual, *reversed(called)]), None)


COMPUTED = ("log_gain", "error", "freedom")
"""Columns that laws of gains compute for the rows that they are fitted to."""


def drop_computed(new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict without columns that are called as what a law computes: they are the user's
    own, of something else."""
    return new.drop(columns=list(COMPUTED), errors="ignore")


def free_name(name: str, taken: Iterable[object]) -> str:
    """A name for a column that is computed, with a word in front where the user's has it."""
    return f"fitted_{name}" if name in set(map(str, taken)) else name


def require_columns(*names: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """What reads rows to predict as they are; UsageError where they lack one of these columns."""

    def read(new: pd.DataFrame) -> pd.DataFrame:
        check_columns(new, *names)
        return new

    return read


def check_distinct_units(rows: pd.DataFrame, unit: Sequence[str], step: str = "") -> None:
    """UsageError where two rows are of one unit: repeated rows make every error too small. No
    `unit`: equal rows."""
    by = list(unit)
    twice = rows.duplicated(by) if by else rows.astype(str).duplicated()
    if not twice.any():
        return
    repeat = "equal others"
    if by:
        units = rows.loc[twice, by].to_numpy()
        names = {", ".join(map(str, unit)) for unit in units}
        repeat = f"in addition to the first of {list_names(names, 5)}"
    what = "a model stands in several rows" if len(by) == 1 else "rows are repeated"
    repeated = f"{int(twice.sum())} of {len(rows)} rows {repeat}"
    raise UsageError(
        what,
        where=", ".join(by),
        got=repeated,
        allowed="one row each; a merge on a key that is not unique repeats rows",
        next_step=step or _suggest_single_rows(rows, by),
    )


def _suggest_single_rows(rows: pd.DataFrame, by: Sequence[str]) -> str:
    """The call that is being made with each row once, where those of a unit are equal, or with the
    means of its rows, which is said."""
    if not by or rows[~rows.astype(str).duplicated()].duplicated(list(by)).sum() == 0:
        once = "df.drop_duplicates()"
        return repeat_call(Code(once)) or once
    means = f"df.groupby({write_value(list(by))}, as_index=False, sort=False).agg({MEANS})"
    line = repeat_call(Code(means)) or means
    return f"{line}\n# means over the rows of each {', '.join(by)}; of names the first"


MEANS = 'lambda x: x.mean() if x.dtype.kind in "fiu" else x.iloc[0]'
"""What is made of several rows of a unit, in lines."""


@dataclass(frozen=True, kw_only=True)
class Units:
    """A table of one row per unit, with `model_id` and `heritage`, for a fit that may have levels
    of groups."""

    rows: pd.DataFrame
    group: str | None
    columns: Columns
    warnings: list[str]


def read_unit_rows(
    table: pd.DataFrame, roles: Columns, model: str | Sequence[str] | None, group: str | None
) -> Units:
    """The rows that a call asks for, by `roles`, its `model` (None: rows are units) and its
    `group`.

    A table without our columns of models or labs is one whose rows are units or have no levels,
    which is said.
    """
    warnings = []
    if group == OURS["lab"] and group not in table:
        group = None
        warnings.append(
            'the table has no column heritage, so rows have no levels: group="lab" names another '
            "column"
        )
    if model == OURS["model"] and model not in table:
        model = ()
    columns = replace(roles, named={**roles.named, "model": model, "group": group})
    rows, left = keep_comparable(columns.read(table))
    first = _list_columns(model)
    if model is not None:
        check_distinct_units(rows, first)
    ours = {}
    if OURS["model"] not in rows:
        ours[OURS["model"]] = rows[first[0]] if first else rows.index.astype(str)
    if OURS["lab"] not in rows:
        ours[OURS["lab"]] = rows[group] if group else ""
    rows = rows.assign(**ours)
    return Units(
        rows=rows.reset_index(drop=True), group=group, columns=columns, warnings=warnings + left
    )


def keep_comparable(rows: pd.DataFrame, unit: str = "model_id") -> tuple[pd.DataFrame, list[str]]:
    """Rows without models whose gains are near 1 by construction (`comparable` false), and the
    warning about them."""
    if "comparable" not in rows:
        return rows, []
    try:
        known = rows["comparable"].astype("boolean")
    except (TypeError, ValueError) as error:
        cells = map(str, rows["comparable"].dropna().unique())
        raise UsageError(
            "neither true nor false",
            where="comparable",
            got=list_names(cells, 5),
            allowed="true, false or missing",
            next_step='df.drop(columns="comparable") takes every row as comparable',
        ) from error
    pinned = ~known.fillna(value=True).astype(bool)
    if not pinned.any():
        return rows, []
    names = f"{int(pinned.sum())} rows"
    if unit in rows:
        names = list_names(set(rows.loc[pinned, unit].astype(str)))
    words = (
        f"left out, since normalised after the sum: {names} (df.assign(comparable=True) keeps them)"
    )
    return rows[~pinned], [words]


def _list_columns(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _describe_absent(absent: Mapping[str, Sequence[str]]) -> str:
    lines = [f"{name}: {', '.join(columns)}" for name, columns in absent.items()]
    return "; ".join(lines)


def _has_numbers(column: pd.Series | pd.DataFrame) -> bool:
    return isinstance(column, pd.Series) and pd.api.types.is_numeric_dtype(column)
