"""What a fit is of: a law, of ours or a PyMC model of your own, rows as its model, and the call
that made it.

A `Law` says how rows become a `Design` and what is reported of its draws; `fit.Fit` is one fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from thermostats.errors import SHOWN_OF, UsageError, build_unknown_error, make_list
from thermostats.modelling.columns import check_columns, read_labels, read_numbers
from thermostats.modelling.draws import LOCATION, Array, Statement, Statistic, find_equal_tailed
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.regressors import Regressors
from thermostats.modelling.sampling import Declare, Sampled

OWN = "outcome"
"""The scale of the table's outcome, for `predict(scale=…)`."""


@dataclass(frozen=True, kw_only=True)
class OutcomeScale:
    """The scale that a law has its outcomes on, and the way back to the outcome's own."""

    word: str = ""
    """Such as log; empty: the outcome's own."""
    back: Callable[[Array], Array] = np.asarray
    bound: float | None = None
    """Of a gain 1: the probability to lie below it is given."""
    outcome: str = ""
    """Name of the outcome on its own scale; that of the estimand by default."""


AS_GIVEN = OutcomeScale()
BASES = {"log": 1.0, "log10": math.log(10), "log2": math.log(2)}
"""By what a log of each word is multiplied to be a natural one."""
LOG = OutcomeScale(word="log", back=np.exp, bound=1.0)
LOG10 = OutcomeScale(word="log10", back=lambda drawn: np.power(10.0, drawn), bound=1.0)


def resolve_scale(
    scale: OutcomeScale, requested: str, estimand: str
) -> tuple[str, Callable[[Array], Array], str]:
    """Name of the columns, what is done to draws, and the column of the probability below the bound
    ("" for none).

    Raises UsageError for a scale that the law does not have.
    """
    allowed = [OWN, *filter(None, [scale.word])]
    if requested not in allowed:
        raise build_unknown_error(
            "no such scale of predictions", requested, allowed, line='fit.predict(new, scale="{}")'
        )
    name = (scale.outcome or estimand or "y").replace(" ", "_")
    below = "" if scale.bound is None else f"P({name} < {scale.bound:g})"
    if requested == OWN:
        return name, scale.back, below
    return f"{requested}_{name}", np.asarray, below


def summarise_predictions(
    drawn: Array, scale: OutcomeScale, requested: str, estimand: str, level: float
) -> pd.DataFrame:
    """A row an outcome of draws × outcomes: <name>_mean, _sd, _median, _lower, _upper; P(<name> <
    1) of a gain."""
    name, back, below = resolve_scale(scale, requested, estimand)
    values = back(drawn)
    lower, upper = find_equal_tailed(values, level)
    table = pd.DataFrame(
        {
            f"{name}_mean": values.mean(axis=0),
            f"{name}_sd": values.std(axis=0, ddof=1),
            f"{name}_median": np.median(values, axis=0),
            f"{name}_lower": lower,
            f"{name}_upper": upper,
        }
    )
    if below and scale.bound is not None:
        table[below] = (scale.back(drawn) < scale.bound).mean(axis=0)
    return table


def mark_extrapolation(
    new: pd.DataFrame, rows: pd.DataFrame, groups: Sequence[str], covariates: Sequence[str]
) -> pd.DataFrame:
    """Per new row in words: levels that the fit has not seen (`new`), and numbers beyond those of
    its rows (`outside`).

    Only what the law has: levels of `groups`, numbers of `covariates`.
    """
    strange = {}
    for name in groups:
        if name in new and name in rows:
            strange[name] = _mark_unseen(new[name], rows[name])
    far = {}
    for name in covariates:
        if name in new and name in rows:
            far[name] = _mark_outside(new[name], rows[name])
    joined = {}
    for name, every in (("new", strange), ("outside", far)):
        if every:
            marks = zip(*every.values(), strict=True)
            joined[name] = [_join_words(words) for words in marks]
    return pd.DataFrame(joined, index=range(len(new)))


def _join_words(words: Iterable[str]) -> str:
    return "; ".join(filter(None, words))


def _mark_unseen(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every value the words where no row of the fit has it."""
    seen = set(fitted.astype(str))
    what = "lab" if values.name == "heritage" else values.name
    marks = []
    for value in values.astype(str):
        marks.append("" if value in seen else f"{what} {value}")
    return marks


def _mark_outside(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every number the words where it is beyond those of the fit."""
    low = float(fitted.min())
    high = float(fitted.max())
    far = f"{values.name} {{:.4g}} outside {low:.4g} to {high:.4g}"
    marks = []
    for value in values.astype(float):
        marks.append("" if low <= value <= high else far.format(value))
    return marks


Prior = tuple[str, str, str]
"""A quantity, its distribution in words or symbols, and the reason for it."""
WIDER = {"half the prior scales": 0.5, "twice the prior scales": 2.0}
"""Alternatives to a law: factors of all its prior scales."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function that fits and its arguments, the table among them."""

    module: str
    function: str
    arguments: Mapping[str, Any]
    standard: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that it does not name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Rows as the model of a law, and what quantities, tables and predictions read besides the
    draws.

    A law whose levels and units are those of its rows has a record of its own, which keeps them.
    """

    model: Gaussian | Mixture | Sampled
    outcomes: tuple[object, ...] = ()
    """Names of the outcomes."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the elements of quantities that are arrays."""
    by_row: bool = True
    """Whether every row is one outcome."""
    scale: OutcomeScale = AS_GIVEN
    """That of the outcomes."""
    groups: tuple[str, ...] = ()
    """Columns of the rows whose values have levels of their own."""
    covariates: tuple[str, ...] = ()
    """Columns of numbers that the law reads."""
    regressors: Regressors | None = None
    """What residuals are looked at against."""

    @property
    def declared(self) -> Mapping[str, Any]:
        """What a file must say for the law to be made again, where no call of ours says it."""
        return {}

    def build_new(self, rows: pd.DataFrame) -> Design:
        """Other rows in the units of these, levels that these do not have last."""
        raise NotImplementedError


D = TypeVar("D", bound=Design)

UNITS = ("heritage", "model_id")
"""Columns of units that are left out where a table has them."""


@dataclass(frozen=True, kw_only=True)
class Law:
    """A family of models: all that its fits, their checks and their pages are made of."""

    name: str
    of: Callable[[pd.DataFrame], Design]
    """The design of rows."""
    quantities: Callable[[Mapping[str, Array], Any], dict[str, Array]]
    """Draws (chain × draw × …) to what is reported, or statements may read."""
    reported: tuple[str, ...] = ()
    """Quantities that the summary shows; all by default."""
    statements: Mapping[str, Statement] = field(default_factory=dict)
    statistics: Callable[[Any], Mapping[str, Statistic]] = lambda design: LOCATION
    """Test quantities of the outcomes, which bear on the claim; the gate closes on them."""
    equations: tuple[str, ...] = ()
    priors: tuple[Prior, ...] = ()
    tables: Mapping[str, Callable[[Any], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Any, Axes], object]] = field(default_factory=dict)
    """The first is what `plot()` draws."""
    alternatives: Mapping[str, Law] = field(default_factory=dict)
    """Other priors, and models without what a reader may doubt."""
    units: tuple[str, ...] = UNITS
    """Columns of the rows whose values are left out one by one."""


def build_own_law(
    model: Declare,
    *,
    per_row: Sequence[str],
    outcome: str = "y",
    constants: Mapping[str, Any] | None = None,
    statements: Mapping[str, Statement] | None = None,
    units: Sequence[str] = UNITS,
) -> Law:
    """The law of a PyMC model of your own; arguments as in `fit`."""
    if not callable(model):
        raise UsageError(
            "a model is a function",
            where="model",
            got=repr(model)[:SHOWN_OF],
            allowed="def model(data): …",
        )
    columns = tuple(make_list(per_row, "per_row") or ())
    if taken := {*columns, outcome, f"{outcome}_observed"} & set(constants or {}):
        raise UsageError(
            "a constant has the name of a column",
            got=", ".join(sorted(taken)),
            next_step="rename it",
        )
    converted = {}
    for name, value in (constants or {}).items():
        converted[name] = _convert_constant(value)
    design_rows = partial(_build_own_design, model, columns, outcome, converted)
    return Law(
        name=getattr(model, "__name__", "model"),
        of=design_rows,
        quantities=lambda values, design: dict(values),
        statements=statements or {},
        units=tuple(make_list(units, "units") or ()),
    )


def _convert_constant(value: Any) -> Any:
    """A constant as a model takes it: lists as arrays, numbers of numpy as Python's."""
    if isinstance(value, (list, tuple, pd.Series)):
        value = np.asarray(value)
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnDesign(Design):
    """The data of a PyMC model of your own."""

    declare: Declare
    per_row: tuple[str, ...]
    outcome: str
    constants: Mapping[str, Any]
    """Further entries of the data."""
    levels: Mapping[str, tuple[str, ...]]
    """Of every column of text its values."""

    @property
    def declared(self) -> Mapping[str, Any]:
        """The arguments of `build_own_law` but for the model and its statements."""
        return {"per_row": self.per_row, "outcome": self.outcome, "constants": dict(self.constants)}

    def build_new(self, rows: pd.DataFrame) -> OwnDesign:
        """Other rows; unseen values of text come after those of the fit."""
        values = np.zeros(len(rows))
        return _build_numbered_design(
            self.declare, self.per_row, self.outcome, self.constants, rows, values, self.levels
        )


def _build_own_design(
    declare: Declare,
    per_row: tuple[str, ...],
    outcome: str,
    constants: Mapping[str, Any],
    rows: pd.DataFrame,
) -> OwnDesign:
    """Columns as arrays, text numbered."""
    check_columns(rows, *per_row)
    if not pd.api.types.is_numeric_dtype(rows[outcome]):
        raise UsageError(
            "an outcome that is no numbers",
            where=outcome,
            got=rows[outcome].iloc[0],
            allowed="a column of numbers",
        )
    texts = []
    for name in per_row:
        if not pd.api.types.is_numeric_dtype(rows[name]):
            texts.append(name)
    values = _convert_array(rows[outcome])
    before: dict[str, tuple[str, ...]] = dict.fromkeys(texts, ())
    return _build_numbered_design(declare, per_row, outcome, constants, rows, values, before)


def _build_numbered_design(
    declare: Declare,
    per_row: tuple[str, ...],
    outcome: str,
    constants: Mapping[str, Any],
    rows: pd.DataFrame,
    values: NDArray[Any],
    before: Mapping[str, tuple[str, ...]],
) -> OwnDesign:
    """Columns as arrays, text numbered after these values."""
    check_columns(rows, *per_row)
    data = dict(constants)
    levels = {}
    for name in per_row:
        if name not in before:
            data[name] = _convert_array(rows[name])
            continue
        texts = read_labels(rows[name], name)
        unseen = sorted(set(texts) - set(before[name]))
        levels[name] = (*before[name], *unseen)
        places = [levels[name].index(text) for text in texts]
        data[name] = np.array(places, dtype=np.int64)
        data[f"n_{name}"] = len(levels[name])
    observed = f"{outcome}_observed"
    data[observed] = values
    model = Sampled(declare=declare, data=data, outcome=outcome, per_row=(*per_row, observed))
    return OwnDesign(
        model=model,
        declare=declare,
        per_row=per_row,
        outcome=outcome,
        constants=constants,
        levels=levels,
    )


def _convert_array(values: pd.Series) -> NDArray[Any]:
    """Numbers of any dtype of pandas as floats, whole numbers or truth values; whole ones with gaps
    as floats."""
    if not pd.api.types.is_numeric_dtype(values):
        return read_numbers(values, str(values.name), least=1)
    kinds = {"i": np.int64, "u": np.int64, "b": np.bool_}
    kind = kinds.get(str(values.dtype.kind))
    if kind is None or values.isna().any():
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values.to_numpy(dtype=kind))
