"""Names of earlier versions: they still work, and a DeprecationWarning says the name of today."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
MODULES = {
    "thermostats.claims.operating": "thermostats.claims.simulation",
    "thermostats.modelling.heritage.shares": "thermostats.modelling.heritage.variance_shares",
    "thermostats.tables.growing": "thermostats.tables.tree_of_models",
}
"""Modules that pages or files written by `thermostats new` imported by their earlier names, with those of today."""


class Moved(MetaPathFinder, Loader):
    """Imports a module of `MODULES` under its earlier name: the module of today itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for an earlier name; None for any other."""
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of the empty one."""
        name = module.__name__
        _warn(name, MODULES[name])
        sys.modules[name] = import_module(MODULES[name])


def arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a function that still takes its arguments by the earlier names, each with that of today."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> T:
            for old in named.keys() & names.keys():
                _warn(f"{function.__qualname__}({old}=)", names[old])
                named[names[old]] = named.pop(old)
            return function(*args, **named)

        return call

    return decorate


def fields(**names: str) -> Callable[[type[T]], type[T]]:
    """Decorator of a frozen dataclass whose fields and methods are still read, and its fields given, by earlier names.

    Each comes with its place today: `statement`, or `criterion.statement` where it is a field of a record in a field.
    """

    def decorate(kind: type[T]) -> type[T]:
        make = vars(kind)["__init__"]

        @wraps(make)
        def init(self: T, *args: Any, **named: Any) -> None:
            for old in [name for name in names if name in named]:
                _warn(f"{kind.__name__}({old}=)", names[old])
                _place(kind, named, names[old], named.pop(old))
            make(self, *args, **named)

        setattr(kind, "__init__", init)  # noqa: B010 - mypy lets no method be assigned to
        setattr(kind, "__getattr__", lambda record, name: read(record, name, names))  # noqa: B010
        return kind

    return decorate


def _place(kind: type, named: dict[str, Any], place: str, value: Any) -> None:
    """Put a value among the arguments of a record, at its place of today."""
    record, _, field = place.partition(".")
    named[record] = replace(named.get(record, getattr(kind, record)), **{field: value}) if field else value


def read(record: object, name: str, places: Mapping[str, str]) -> Any:
    """What stood in a record's field of this name, from its place today; AttributeError for any other name."""
    kind = type(record).__name__
    if name not in places:
        raise AttributeError(f"{kind} has no attribute {name!r}")
    _warn(f"{kind}.{name}", places[name], frames=4)
    return attrgetter(places[name])(record)


def _warn(old: str, new: str, frames: int = 3) -> None:
    """Warn at the line so many frames up, that of the user."""
    warnings.warn(f"{old} is {new} now", DeprecationWarning, stacklevel=frames)
