"""What a fit is of: a law, of ours or a PyMC model of your own, rows as its model, and the call
that made it.

A `Law` says how rows become a `Design` and what is reported of its draws; `fit.Fit` is one fitted.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import SHOWN_OF, UsageError, build_unknown_error, make_list
from thermostats.modelling.columns import (
    check_columns,
    guess_argument,
    read_frame,
    read_labels,
    read_numbers,
)
from thermostats.modelling.draws import LOCATION, Array, Statement, Statistic, find_equal_tailed
from thermostats.modelling.gaussian import Gaussian, Mixture
from thermostats.modelling.labelled import convert_arguments
from thermostats.modelling.sampling import Declare, Sampled
from thermostats.next_steps import CallMade, build_misuse_error, hold_call

if TYPE_CHECKING:
    from thermostats.modelling.fit import Fit


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
    return (
        (name, scale.back, below)
        if requested == OWN
        else (f"{requested}_{name}", np.asarray, below)
    )


def summarise_predictions(
    drawn: Array, scale: OutcomeScale, requested: str, estimand: str, level: float
) -> pd.DataFrame:
    """A row an outcome of draws × outcomes: <name>_mean, _sd, _median, _lower, _upper; P(<name> <
    1) of a gain."""
    name, back, below = resolve_scale(scale, requested, estimand)
    values = back(drawn)
    lower, upper = find_equal_tailed(values, level)
    columns = {
        "mean": values.mean(axis=0),
        "sd": values.std(axis=0, ddof=1),
        "median": np.median(values, axis=0),
    }
    columns |= {"lower": lower, "upper": upper}
    table = pd.DataFrame({f"{name}_{what}": column for what, column in columns.items()})
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
    strange = {
        name: _mark_unseen(new[name], rows[name]) for name in groups if name in new and name in rows
    }
    far = {
        name: _mark_outside(new[name], rows[name])
        for name in covariates
        if name in new and name in rows
    }
    columns = {name: every for name, every in (("new", strange), ("outside", far)) if every}
    joined = {
        name: [_join_words(words) for words in zip(*every.values(), strict=True)]
        for name, every in columns.items()
    }
    return pd.DataFrame(joined, index=range(len(new)))


def _join_words(words: Iterable[str]) -> str:
    return "; ".join(filter(None, words))


def _mark_unseen(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every value the words where no row of the fit has it."""
    seen = set(fitted.astype(str))
    what = "lab" if values.name == "heritage" else values.name
    return ["" if value in seen else f"{what} {value}" for value in values.astype(str)]


def _mark_outside(values: pd.Series, fitted: pd.Series) -> list[str]:
    """Of every number the words where it is beyond those of the fit."""
    low = float(fitted.min())
    high = float(fitted.max())
    far = f"{values.name} {{:.4g}} outside {low:.4g} to {high:.4g}"
    return ["" if low <= value <= high else far.format(value) for value in values.astype(float)]


LEAST = 3
"""Degrees of freedom that must be left."""
TINY = 1e-6
"""Share of a column, or of a residual's variance, that counts as none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Regressors:
    """Groups and covariates of n outcomes."""

    x: Array
    """n × p; slopes on the first may differ between groups."""
    groups: NDArray[np.int64] | None = None
    """Number of every outcome's group."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom that are left."""
        return int(len(self.x) - self.basis.shape[1])

    @cached_property
    def members(self) -> Array:
        """Whether an outcome is of a group, n × groups, where groups and covariates leave enough;
        else one of ones."""
        if self.groups is None:
            return np.ones((len(self.x), 1))
        members = (self.groups[:, None] == np.unique(self.groups)).astype(np.float64)
        left = len(members) - _build_basis(np.column_stack([members, self.x])).shape[1]
        return members if left >= LEAST else np.ones((len(self.x), 1))

    @cached_property
    def basis(self) -> Array:
        """Orthonormal columns of all that is taken off."""
        return _build_basis(np.column_stack([self.members, self.x]))

    @cached_property
    def left(self) -> Array:
        """Share of every outcome's variance that is left."""
        return np.asarray(1 - np.square(self.basis).sum(axis=1))

    def take_residuals(self, y: Array) -> Array:
        """Residuals of every data set, … × n."""
        return np.asarray(y - (y @ self.basis) @ self.basis.T)

    def scale_residuals(self, y: Array) -> Array:
        """Residuals of one standard deviation, in units of their root mean square; where nothing is
        left 0."""
        some = self.left > TINY
        r = self.take_residuals(y)
        unit = np.sqrt(np.square(r).sum(axis=-1, keepdims=True) / self.freedom)
        return np.asarray(
            np.where(some, r / np.sqrt(np.where(some, self.left, 1.0)), 0.0)
            / np.maximum(unit, 1e-300)
        )


def _build_basis(columns: Array) -> Array:
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(u[:, s > TINY * s[0]])


def measure_group_slopes(design: Regressors) -> Statistic | None:
    """Share of the residuals' squares that slopes of every group on the first covariate explain."""
    if design.members.shape[1] < 2 or not design.x.size:
        return None
    return _measure_explained(design, design.members * design.x[:, [0]])


def measure_curvature(design: Regressors) -> Statistic | None:
    """The largest share of the residuals' squares that the square of a covariate explains."""
    off = design.x - design.x.mean(axis=0)
    shares = [
        share
        for square in np.square(off).T
        if (share := _measure_explained(design, square[:, None]))
    ]
    return (lambda y: np.max([share(y) for share in shares], axis=0)) if shares else None


def _measure_explained(design: Regressors, columns: Array) -> Statistic | None:
    """None where the columns have nothing beyond the design, or leave nothing."""
    beyond = columns - design.basis @ (design.basis.T @ columns)
    beyond = beyond[
        :, np.linalg.norm(beyond, axis=0) > TINY * (1 + np.linalg.norm(columns, axis=0))
    ]
    q = _build_basis(beyond) if beyond.size else beyond
    if not 0 < q.shape[1] < design.freedom:
        return None
    return lambda y: np.square(y @ q).sum(axis=-1) / _measure_squares(design, y)


def measure_group_spread(design: Regressors) -> Statistic | None:
    """Variance between groups of the mean absolute scaled residual, in units of the mean of all;
    Levene's."""
    members = design.members * (design.left > TINY)[:, None]
    members = members[:, members.sum(axis=0) >= 2]
    if members.shape[1] < 2:
        return None
    sizes = members.sum(axis=0)

    def statistic(y: Array) -> Array:
        size = np.abs(design.scale_residuals(y))
        means = size @ members / sizes
        overall = (means @ sizes / sizes.sum())[..., None]
        return np.asarray(np.square(means / np.maximum(overall, 1e-300) - 1) @ sizes)

    return statistic


def measure_covariate_spread(design: Regressors) -> Statistic | None:
    """Largest rank correlation of a covariate with the size of the scaled residual, of either
    sign."""
    some = design.left > TINY
    ranks = (
        stats.rankdata(design.x[some], axis=0) if design.x.size and some.any() else np.empty((0, 0))
    )
    off = ranks - ranks.mean(axis=0) if ranks.size else ranks
    length = np.linalg.norm(off, axis=0)
    if not (length > TINY).any():
        return None
    unit = off[:, length > TINY] / length[length > TINY]

    def statistic(y: Array) -> Array:
        size = stats.rankdata(np.abs(design.scale_residuals(y))[..., some], axis=-1)
        size -= size.mean(axis=-1, keepdims=True)
        return np.asarray(
            np.abs(size @ unit).max(axis=-1) / np.maximum(np.linalg.norm(size, axis=-1), 1e-300)
        )

    return statistic


def measure_largest_residual(design: Regressors) -> Statistic | None:
    """Largest absolute scaled residual."""
    return lambda y: np.abs(design.scale_residuals(y)).max(axis=-1)


def measure_skew(design: Regressors) -> Statistic | None:
    """Absolute third standardised moment of the residuals."""
    return lambda y: (
        np.abs((design.take_residuals(y) ** 3).mean(axis=-1))
        / (_measure_squares(design, y) / len(design.x)) ** 1.5
    )


def measure_heaps(design: Regressors) -> Statistic | None:
    """Minus the fourth standardised moment, which is least for residuals in two heaps."""
    return lambda y: (
        -(design.take_residuals(y) ** 4).mean(axis=-1)
        / (_measure_squares(design, y) / len(design.x)) ** 2
    )


def measure_outlying_group(design: Regressors) -> Statistic | None:
    """Largest distance of a group's mean from the groups' mean, in their standard deviations;
    covariates taken off."""
    members = design.members
    if members.shape[1] < 4:
        return None
    off = _build_basis(np.column_stack([np.ones(len(members)), design.x]))
    means = members / members.sum(axis=0)

    def statistic(y: Array) -> Array:
        centre = (y - (y @ off) @ off.T) @ means
        away = centre - centre.mean(axis=-1, keepdims=True)
        return np.asarray(np.abs(away).max(axis=-1) / np.maximum(away.std(axis=-1), 1e-300))

    return statistic


def _measure_squares(design: Regressors, y: Array) -> Array:
    return np.asarray(np.maximum(np.square(design.take_residuals(y)).sum(axis=-1), 1e-300))


CLOSING: Mapping[str, Callable[[Regressors], Statistic | None]] = {
    "slopes by group": measure_group_slopes,
    "curvature": measure_curvature,
    "spread by group": measure_group_spread,
    "largest residual": measure_largest_residual,
}
"""What moves slopes, shares and standard errors of a linear model."""
WARNING: Mapping[str, Callable[[Regressors], Statistic | None]] = {
    "spread along a covariate": measure_covariate_spread,
    "skew of residuals": measure_skew,
    "two heaps of residuals": measure_heaps,
    "outlying group": measure_outlying_group,
}
"""What calls for another law of the residuals or of the groups."""
LARGE_IS_ODD = (*CLOSING, *WARNING)


def build_statistics(
    design: Regressors | None, which: Mapping[str, Callable[[Regressors], Statistic | None]]
) -> dict[str, Statistic]:
    """Those that this design has; none where fewer than `LEAST` degrees of freedom are left."""
    if design is None or design.freedom < LEAST:
        return {}
    return {name: statistic for name, of in which.items() if (statistic := of(design)) is not None}


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
    tables: Mapping[str, Callable[[Fit], pd.DataFrame]] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Fit, Axes], object]] = field(default_factory=dict)
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
    return Law(
        name=getattr(model, "__name__", "model"),
        of=partial(
            _build_own_design,
            model,
            columns,
            outcome,
            {k: _convert_constant(v) for k, v in (constants or {}).items()},
        ),
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
    texts = [name for name in per_row if not pd.api.types.is_numeric_dtype(rows[name])]
    return _build_numbered_design(
        declare,
        per_row,
        outcome,
        constants,
        rows,
        _convert_array(rows[outcome]),
        dict.fromkeys(texts, ()),
    )


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
    levels = dict[str, tuple[str, ...]]()
    for name in per_row:
        if name not in before:
            data[name] = _convert_array(rows[name])
            continue
        texts = read_labels(rows[name], name)
        levels[name] = (*before[name], *sorted(set(texts) - set(before[name])))
        data[name] = np.array([levels[name].index(text) for text in texts], dtype=np.int64)
        data[f"n_{name}"] = len(levels[name])
    data[f"{outcome}_observed"] = values
    return OwnDesign(
        model=Sampled(
            declare=declare, data=data, outcome=outcome, per_row=(*per_row, f"{outcome}_observed")
        ),
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
    kind = {"i": np.int64, "u": np.int64, "b": np.bool_}.get(str(values.dtype.kind), np.float64)
    if kind is np.float64 or values.isna().any():
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values.to_numpy(dtype=kind))


P = ParamSpec("P")
F = TypeVar("F", bound="Fit")
HOME = "thermostats.modelling."
NUMBERS: Mapping[str, type] = {"int": Integral, "float": Real}
"""What an argument of such a kind must be."""


def rebuild_fit(call: Call) -> Fit:
    """The fit of a call before it draws; UsageError where the function is none of ours."""
    module = import_module(call.module) if call.module.startswith(HOME) else None
    function = getattr(module, call.function, None)
    if function is None or not hasattr(function, "fits"):
        raise UsageError(
            "a fit of an unknown function", got=f"{call.module}.{call.function}", allowed=f"{HOME}…"
        )
    fit: Fit = function.fits(**call.arguments)
    return replace(fit, call=call)


def record_call(function: Callable[P, F]) -> Callable[P, F]:
    """A function of a table whose fits remember its call; other arguments than it has are a
    UsageError."""
    signature = inspect.signature(function)
    standard = {
        name: each.default
        for name, each in signature.parameters.items()
        if each.default is not each.empty
    }

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> F:
        try:
            arguments = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            name = function.__name__
            raise build_misuse_error(
                name, signature, args, kwargs, error, guess=guess_argument
            ) from None
        annotated = {name: str(signature.parameters[name].annotation) for name in arguments}
        arguments = {
            name: _convert_argument(name, value, annotated[name])
            for name, value in arguments.items()
        }
        with hold_call(
            CallMade(function=function.__name__, arguments=arguments, signature=signature)
        ):
            arguments = convert_arguments(arguments, standard)
            fit = function(**arguments)  # type: ignore[call-arg]
            drawn = fit.draws
        call = Call(
            module=function.__module__,
            function=function.__name__,
            arguments=arguments,
            standard=standard,
        )
        return replace(fit, call=call, drawn=drawn)

    called.fits = function  # type: ignore[attr-defined]
    called.guess = guess_argument  # type: ignore[attr-defined]
    return called


def deprecate(function: Callable[P, F], name: str) -> Callable[P, F]:
    """A function by a name that it no longer has: it works, and warns."""

    @wraps(function)
    def renamed(*args: P.args, **kwargs: P.kwargs) -> F:
        warnings.warn(f"{name} is {function.__name__} now", DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return renamed


def _convert_argument(name: str, value: Any, annotation: str) -> Any:
    """A table as a frame, one name as a list of one; UsageError for what is no number where one is
    needed."""
    kinds = annotation.split(" | ")
    if "pd.DataFrame" in kinds:
        return read_frame(value)
    if isinstance(value, str) and "Sequence[str]" in kinds and "str" not in kinds:
        return [value]
    if value is None:
        if "None" not in kinds:
            raise UsageError("an argument is missing", where=name, got="None", allowed=annotation)
        return None
    if kinds[0] in NUMBERS and (
        isinstance(value, bool) or not isinstance(value, NUMBERS[kinds[0]])
    ):
        raise UsageError(
            "an argument is no number", where=name, got=repr(value)[:SHOWN_OF], allowed=annotation
        )
    if name == "seed" and value < 0:
        raise UsageError("a seed below 0", got=value, allowed="a whole number of at least 0")
    if kinds[0].startswith("Mapping") and not isinstance(value, Mapping):
        allowed = f"names and what belongs to each: {name}={{…}}"
        raise UsageError(
            "an argument is no mapping", where=name, got=repr(value)[:SHOWN_OF], allowed=allowed
        )
    return int(value) if kinds[0] == "int" else value
