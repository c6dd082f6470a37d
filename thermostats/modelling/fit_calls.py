"""Functions that fit: their arguments are converted and checked, and every fit remembers the call
that made it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from thermostats.errors import SHOWN_OF, ThermostatsError, UsageError
from thermostats.modelling.columns import guess_argument
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.labelled import convert_arguments
from thermostats.modelling.laws import Call
from thermostats.next_steps import CallMade, build_misuse_error, hold_call
from thermostats.tables.frames import read_frame

P = ParamSpec("P")
F = TypeVar("F", bound=FittedLaw)
NUMBERS: Mapping[str, type] = {"int": Integral, "float": Real}
"""What an argument of such a kind must be."""


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
        made = CallMade(function=function.__name__, arguments=arguments, signature=signature)
        with hold_call(made):
            for name, value in arguments.items():
                annotation = str(signature.parameters[name].annotation)
                arguments[name] = _convert_argument(name, value, annotation)
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


def suggest_call(function: Callable[..., Any], table: pd.DataFrame) -> str:
    """The call of a fit that takes a table `df` under its own names, as the fit's refusal has
    it."""
    made = CallMade(
        function=function.__name__,
        arguments={"table": table},
        signature=inspect.signature(function),
    )
    try:
        with hold_call(made):
            function.fits(table)  # type: ignore[attr-defined]
    except ThermostatsError as refused:
        return refused.next_step
    return made.line()


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
    number = NUMBERS.get(kinds[0])
    if number and (isinstance(value, bool) or not isinstance(value, number)):
        got = repr(value)[:SHOWN_OF]
        raise UsageError("an argument is no number", where=name, got=got, allowed=annotation)
    if name == "seed" and value < 0:
        raise UsageError("a seed below 0", got=value, allowed="a whole number of at least 0")
    if kinds[0].startswith("Mapping") and not isinstance(value, Mapping):
        allowed = f"names and what belongs to each: {name}={{…}}"
        got = repr(value)[:SHOWN_OF]
        raise UsageError("an argument is no mapping", where=name, got=got, allowed=allowed)
    return int(value) if kinds[0] == "int" else value
