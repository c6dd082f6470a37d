"""The call that made a fit: bound to its arguments, refused in words, kept so that a saved fit can be read again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from thermostats.errors import SHOWN_OF, UsageError
from thermostats.modelling.columns import frame_of
from thermostats.modelling.labelled import labelled
from thermostats.modelling.laws import Call
from thermostats.next_steps import CallMade, making, misused

if TYPE_CHECKING:
    from thermostats.modelling.fit import Fit

P = ParamSpec("P")
F = TypeVar("F", bound="Fit")
HOME = "thermostats.modelling."
NUMBERS: Mapping[str, type] = {"int": Integral, "float": Real}
"""What an argument of such a kind must be."""


def laid_out(call: Call) -> Fit:
    """The fit of a call before it draws; UsageError where the function is none of ours."""
    module = import_module(call.module) if call.module.startswith(HOME) else None
    function = getattr(module, call.function, None)
    if function is None or not hasattr(function, "fits"):
        raise UsageError("a fit of an unknown function", got=f"{call.module}.{call.function}", allowed=f"{HOME}…")
    fit: Fit = function.fits(**call.arguments)
    return replace(fit, call=call)


def fits(function: Callable[P, F]) -> Callable[P, F]:
    """A function of a table whose fits remember its call; other arguments than it has are a UsageError."""
    signature = inspect.signature(function)
    standard = {name: each.default for name, each in signature.parameters.items() if each.default is not each.empty}

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> F:
        try:
            arguments = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise misused(function.__name__, signature, args, kwargs, error) from None
        annotated = {name: str(signature.parameters[name].annotation) for name in arguments}
        arguments = {name: _argument(name, value, annotated[name]) for name, value in arguments.items()}
        with making(CallMade(function=function.__name__, arguments=arguments, signature=signature)):
            arguments = labelled(arguments, standard)
            fit = function(**arguments)  # type: ignore[call-arg]
            drawn = fit.draws
        call = Call(module=function.__module__, function=function.__name__, arguments=arguments, standard=standard)
        return replace(fit, call=call, drawn=drawn)

    called.fits = function  # type: ignore[attr-defined]
    return called


def _argument(name: str, value: Any, annotation: str) -> Any:
    """A table as a frame, one name as a list of one; UsageError for what is no number where one is needed."""
    kinds = annotation.split(" | ")
    if "pd.DataFrame" in kinds:
        return frame_of(value)
    if isinstance(value, str) and "Sequence[str]" in kinds and "str" not in kinds:
        return [value]
    if value is None:
        if "None" not in kinds:
            raise UsageError("an argument is missing", where=name, got="None", allowed=annotation)
        return None
    if kinds[0] in NUMBERS and (isinstance(value, bool) or not isinstance(value, NUMBERS[kinds[0]])):
        raise UsageError("an argument is no number", where=name, got=repr(value)[:SHOWN_OF], allowed=annotation)
    if name == "seed" and value < 0:
        raise UsageError("a seed below 0", got=value, allowed="a whole number of at least 0")
    if kinds[0].startswith("Mapping") and not isinstance(value, Mapping):
        allowed = f"names and what belongs to each: {name}={{…}}"
        raise UsageError("an argument is no mapping", where=name, got=repr(value)[:SHOWN_OF], allowed=allowed)
    return int(value) if kinds[0] == "int" else value
