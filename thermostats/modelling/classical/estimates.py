"""What every classical test returns, and the checks every test makes of its input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from thermostats.errors import UsageError, some_of
from thermostats.next_steps import Code, again, argument, written
from thermostats.tables.labels import as_labels, check_spelling

Array = NDArray[np.float64]

LEVEL = 0.95
"""Coverage of intervals."""
ROLES = {"heritage": ("lab", "group"), "model_id": ("model",), "prompt_id": ("prompt",)}
"""Arguments by which a user names one of our columns of labels."""
NO_INTERVAL = "none"
RESAMPLES = 9999
TRUTHS = "true and false"
KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "dates": ("M", (date, np.datetime64)),
    "durations": ("m", (timedelta, np.timedelta64)),
    "complex numbers": ("c", (complex, np.complexfloating)),
    TRUTHS: ("b", (bool, np.bool_)),
}
"""What has numbers inside, and is none: NumPy's kind of such columns, and types of such values."""
MAGNITUDES = (1e-60, 1e60)
"""Of a column's largest value: fourth powers of it, and of differences that are small next to it, are doubles."""
NAMED = 20
"""Names that a warning holds; of more it gives the number."""


@dataclass(frozen=True, kw_only=True)
class ClassicalEstimate:
    """One estimate with its interval and test; NaN where a number does not exist, and the words say why."""

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


def numbers(
    values: ArrayLike, name: str, *, least: int = 2, positive: bool = False, varied: bool = False, truths: bool = False
) -> Array:
    """Return one finite numeric column, or raise UsageError naming the first thing wrong with it.

    `truths`: true and false count as 1 and 0. Dates, durations and complex numbers are no numbers, and the largest must
    lie in `MAGNITUDES`.
    """
    if kind := _no_numbers(values, truths=truths):
        step = f'df.assign(**{{"{name}": df["{name}"].astype(float)}})' if kind == TRUTHS else ""
        raise UsageError("a column is not numeric", where=name, got=kind, allowed="finite numbers", next_step=step)
    try:
        series = values.to_numpy(dtype=np.float64, na_value=np.nan) if isinstance(values, pd.Series) else values
        array = np.asarray(series, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError("a column is not numeric", where=name, got=error, allowed="finite numbers") from error
    if array.ndim != 1:
        raise UsageError("a column has the wrong shape", where=name, got=array.shape, allowed="one dimension")
    if array.size < least:
        raise UsageError("too few points", where=name, got=array.size, allowed=f"at least {least}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise UsageError(
            "missing or infinite values",
            where=name,
            got=f"{bad.size} of {array.size}, the first at row {bad[0]}",
            allowed="finite numbers",
            next_step="drop these rows by name and report how many",
        )
    largest = float(np.abs(array).max(initial=0.0))
    if largest and not MAGNITUDES[0] <= largest <= MAGNITUDES[1]:
        raise UsageError(
            "powers of this column are beyond double precision",
            where=name,
            got=f"a largest value of {largest:.3g}",
            allowed=f"between {MAGNITUDES[0]:g} and {MAGNITUDES[1]:g}",
            next_step=f'df.assign(**{{"{name}": df["{name}"] / {largest:.0e}}}), and see the result in that unit',
        )
    if positive and array.min() <= 0:
        raise UsageError(
            "a logarithm is taken of this column", where=name, got=f"{array.min():g}", allowed="values above 0"
        )
    if varied and is_constant(array):
        raise UsageError(
            "a constant column decides nothing",
            where=name,
            got=f"{array[0]:g} {array.size} times",
            allowed="two values or more",
        )
    return array


def _no_numbers(values: ArrayLike, *, truths: bool) -> str:
    """In words what a column holds that no arithmetic makes a number; empty where it may be one."""
    series = values if isinstance(values, pd.Series) else pd.Series(np.ravel(np.asarray(values)))
    kind, values = getattr(series.dtype, "kind", "O"), series if series.dtype == object else ()
    for word, (of_column, types) in KINDS.items():
        if (kind == of_column or any(isinstance(value, types) for value in values)) and not (truths and word == TRUTHS):
            return word
    return ""


def is_constant(array: Array) -> bool:
    """Tell whether values differ by no more than rounding."""
    return float(np.ptp(array)) <= 1e-13 * float(np.max(np.abs(array)))


def at_position(estimand: str, table: pd.DataFrame) -> str:
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


def same_length(**columns: Sequence[object] | Array | pd.Series) -> None:
    """Raise UsageError where paired columns differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise UsageError("paired columns differ in length", got=lengths, allowed="equal lengths")


def labels(
    values: Sequence[object] | pd.Series, name: str, held: Sequence[object] | pd.Series = ()
) -> NDArray[np.str_]:
    """Return a column of labels as text, or raise UsageError where one is missing or empty.

    And where two of them, or one and one that is `held`, differ in spelling alone (`tables/labels.py`).
    """
    column = as_labels(pd.Series(list(values), dtype=object))
    missing = column.isna() | (column == "")
    if len(column) == 0 or missing.any():
        raise UsageError(
            "labels are missing",
            where=name,
            got=f"{int(missing.sum())} of {len(column)}",
            allowed="a label for every row",
            next_step=_without(name),
        )
    check_spelling({name: (values, held)})
    return np.asarray(column.tolist())


def _without(name: str) -> str:
    """The call that is being made without the rows that lack a label, under the user's name of their column."""
    theirs = next((column for role in ROLES.get(name, ()) if isinstance(column := argument(role), str)), name)
    rows = f"df.dropna(subset=[{written(theirs)}])"
    return again(Code(rows)) or f"df = {rows}"


def named(names: Iterable[str], most: int = NAMED) -> str:
    """The names in order, of many the first and how many more: `a, b and 7 more`."""
    ordered = sorted(map(str, names))
    more = len(ordered) - most
    return ", ".join(ordered[:most]) + (f" and {more} more" if more > 0 else "")


def models_missing(before: Iterable[str], after: Iterable[str], why: str) -> list[str]:
    """A warning that says which models are left out and why; none where all are there."""
    all_units, remaining = set(before), set(after)
    gone = all_units - remaining
    return [f"{why}, left out: {len(gone)} of {len(all_units)} models ({named(gone)})"] if gone else []


def columns_of(frame: pd.DataFrame, *names: str) -> None:
    """Raise UsageError where a frame is empty or lacks a column."""
    absent = [name for name in names if name not in frame]
    if absent:
        raise UsageError("no such column", got=", ".join(absent), allowed=some_of(frame.columns, absent[0]))
    if frame.empty:
        raise UsageError("an empty table", got="0 rows", allowed="at least one row")


def probability(value: float, name: str = "level") -> float:
    """Return a probability strictly between 0 and 1, or raise UsageError."""
    if not 0 < value < 1:
        raise UsageError("not a probability", where=name, got=value, allowed="above 0 and below 1")
    return value


def prior_scale(value: float, where: str) -> float:
    """Return a prior scale that is above 0 and in `MAGNITUDES`, or raise UsageError."""
    if not MAGNITUDES[0] <= value <= MAGNITUDES[1]:
        allowed = f"a number above 0, from {MAGNITUDES[0]:g} to {MAGNITUDES[1]:g}"
        raise UsageError("a prior scale must be above 0", where=where, got=value, allowed=allowed)
    return value


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm-adjusted p-values of a family of tests, p_(i) → max_{j ≤ i} min(1, (m − j + 1) p_(j)).

    Raises UsageError for an empty family or a p-value that is missing or outside [0, 1]: a test that could not be made
    must be left out by name, since it changes the family.
    """
    wrong = {name: p for name, p in p_values.items() if not (math.isfinite(p) and 0 <= p <= 1)}
    if wrong or not p_values:
        raise UsageError(
            "not a family of p-values", where="holm", got=wrong or "no p-values", allowed="p-values in [0, 1]"
        )
    # statsmodels' multipletests collects garbage at every call, 0.1 s: too slow inside simulations
    order = sorted(p_values, key=lambda name: p_values[name])
    steps = np.array([(len(order) - i) * p_values[name] for i, name in enumerate(order)])
    adjusted = dict(zip(order, map(float, np.maximum.accumulate(np.minimum(steps, 1))), strict=True))
    return {name: adjusted[name] for name in p_values}
