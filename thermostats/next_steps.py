"""Next steps as code: calls of this package, filled in so that a line runs as it is pasted, in
Python or in a shell."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature
from numbers import Integral, Real
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from thermostats.callers import find_user, name_objects, repeat_chain
from thermostats.errors import ThermostatsError, UsageError, build_unforeseen_error, find_nearest
from thermostats.public_names import PUBLIC, find_study

P = ParamSpec("P")
T = TypeVar("T")
SHELL: ContextVar[bool] = ContextVar("SHELL", default=False)
"""Whether lines are for a shell."""
PROGRAM = "thermostats"
OF_OTHERS = {
    "hdi_prob": "level",
    "ci_prob": "level",
    "prob": "level",
    "alpha": "level",
    "random_seed": "seed",
    "x": "covariates",
}
OF_OTHERS |= {
    "error": "se",
    "y": "outcome",
    "heritage": "lab",
    "lab": "heritage",
    "groups": "group",
    "model_id": "model",
}
"""What other libraries and our columns call an argument."""
OF_ROWS = ("data", "df", "frame", "dataset")
"""What other libraries call the table that a function is of."""
OF_ERROR_RATE = ("alpha",)
"""Words of other libraries for 1 less a level."""
MANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
READERS = {
    ".csv": "pd.read_csv({}, dtype=str, keep_default_na=False)",
    ".tsv": 'pd.read_csv({}, sep="\\t", dtype=str, keep_default_na=False)',
    ".json": "pd.read_json({}, dtype=False, precise_float=True)",
    ".jsonl": "pd.read_json({}, lines=True, dtype=False, precise_float=True)",
    ".parquet": "pd.read_parquet({})",
}
"""Expressions that read a file of rows as it is, by its ending."""


@dataclass(frozen=True)
class Code:
    """An expression, which stands in a call as it is."""

    text: str


NO_COLUMNS = ("sources", "prompt")
"""Arguments that name no column, or one that may be empty."""
LEFT_OUT = Code("")
"""In the place of an argument that goes."""


@dataclass(frozen=True, kw_only=True)
class CallMade:
    """The call that is being made: a function of this package and its arguments by name, its rows
    first."""

    function: str
    arguments: Mapping[str, Any]
    signature: Signature
    rows: str = "df"
    """What the rows are called in its lines."""

    def line(self, rows: Code | None = None, **changed: Any) -> str:
        """The call with other rows or arguments. What cannot be written is called as its argument
        is."""
        first, *_ = self.signature.parameters
        usual = {}
        for name, each in self.signature.parameters.items():
            usual[name] = each.default
        new = {
            name: value
            for name, value in changed.items()
            if name in self.arguments or (name in usual and not _is_same(value, usual[name]))
        }
        stated = {**self.arguments, **new, first: rows or Code(self.rows)}
        ordered = []
        for name in self.signature.parameters:
            if stated.get(name, LEFT_OUT) is not LEFT_OUT:
                ordered.append(name)
        words = {
            name: value if _is_writable(value := stated[name]) else Code(name) for name in ordered
        }
        unnamed = []
        for name, parameter in self.signature.parameters.items():
            if name not in words or parameter.kind is parameter.KEYWORD_ONLY:
                break
            unnamed.append(words.pop(name))
        return call(self.function, *unnamed, **words)


MADE: ContextVar[CallMade | None] = ContextVar("MADE", default=None)


@contextmanager
def hold_call(made: CallMade) -> Iterator[None]:
    """Next steps of what is refused here are this call with other arguments."""
    token = MADE.set(made)
    try:
        yield
    finally:
        MADE.reset(token)


def repeat_call(rows: Code | None = None, **changed: Any) -> str:
    """The call that is being made, with other rows or arguments; empty where none is."""
    made = MADE.get()
    return made.line(rows, **changed) if made else ""


def get_argument(name: str) -> Any:
    """An argument of the call that is being made; None where it has none."""
    made = MADE.get()
    return made.arguments.get(name) if made else None


def list_texts() -> set[str]:
    """Texts in all arguments of the call that is being made, such as columns that it names."""
    made = MADE.get()
    texts: set[str] = set()
    for value in made.arguments.values() if made else ():
        texts.update(list_named(value))
    return texts


def has_argument(name: str) -> bool:
    """Whether the call that is being made takes such an argument."""
    made = MADE.get()
    return made is not None and name in made.signature.parameters


def get_rows() -> Any:
    """The rows of the call that is being made, its first argument; None where none is made."""
    made = MADE.get()
    return made.arguments.get(next(iter(made.signature.parameters))) if made else None


def swap_rows() -> str:
    """The call that is being made with its first two arguments in the other order, where the second
    alone is a table; else empty."""
    made = MADE.get()
    if made is None or len(made.signature.parameters) == 1:
        return ""
    first, second, *_ = made.signature.parameters
    text = made.arguments.get(first)
    if is_table(text) or not is_table(made.arguments.get(second)):
        return ""
    return made.line(**{second: text})


def list_named(value: Any) -> list[str]:
    """Texts in an argument, at any depth."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = [*value.values()]
    return [text for each in value for text in list_named(each)] if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def list_named_columns(columns: Collection[str]) -> list[str]:
    """Columns of these that the call which is being made names, or reads where it names none."""
    made = MADE.get()
    if made is None:
        return []
    usual = {}
    for name, each in made.signature.parameters.items():
        usual[name] = each.default
    stated = {**usual, **made.arguments}
    values = [value for name, value in stated.items() if name not in NO_COLUMNS]
    return [name for name in dict.fromkeys(list_named(values)) if name in columns]


def is_none_allowed(argument: str) -> bool:
    """Whether an argument of the call that is being made may be None."""
    made = MADE.get()
    if made is None or argument not in made.signature.parameters:
        return True
    return "None" in str(made.signature.parameters[argument].annotation)


def wrap_function(function: Callable[P, T], of: str = "", name: str = "") -> Callable[P, T]:
    """A function whose call with arguments that it has not, or without one that it needs, is a
    UsageError in words, and that no message of a library leaves bare (`build_unforeseen_error`).

    of: what a method is of, in lines. name: what it is called by, where that is not its own name.
    """
    signature = inspect.signature(function)
    public = f"{of or PROGRAM}.{name or function.__name__}"

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        user = find_user(sys._getframe(1))
        objects = _list_objects(args, kwargs, of)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            misused = build_misuse_error(
                name or function.__name__,
                signature,
                args,
                kwargs,
                error,
                of,
                getattr(function, "guess", None),
            )
            raise _name_objects(misused, objects, user, public) from None
        try:
            return function(*args, **kwargs)
        except ThermostatsError as error:
            step = error.next_step or f"help({public})"
            named = _name_objects(error.replace_next_step(step), objects, user, public)
            if named.next_step == error.next_step:
                raise
            raise named from error.__cause__
        except Exception as error:
            unforeseen = build_unforeseen_error(error, public, f"help({public})")
            if unforeseen is None:
                raise
            raise unforeseen from error

    return called


def _list_objects(args: Sequence[Any], kwargs: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Fits and tables of a call, by what lines call them."""
    fit = {of: args[0]} if of and args else {}
    values = [*args[len(fit) :], *kwargs.values()]
    tables = values[0] if values and isinstance(values[0], (list, tuple)) else values
    numbered: dict[str, Any] = {}
    for each in filter(is_table, tables):
        numbered[f"df{len(numbered) or ''}"] = each
    return {**fit, **numbered}


def _name_objects(
    error: ThermostatsError, objects: Mapping[str, Any], user: FrameType | None, public: str
) -> ThermostatsError:
    """An error whose lines name tables and fits as the user does, and go on as the user's call of
    `public` did, where the user called."""
    if user is None or SHELL.get() or not error.next_step:
        return error
    step = name_objects(error.next_step, objects, user)
    return error.replace_next_step(repeat_chain(step, public, user))


def build_misuse_error(
    name: str,
    signature: Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: TypeError,
    of: str = "",
    guess: Callable[[str, Any, Sequence[Any], Any], Any] | None = None,
) -> UsageError:
    """What is wrong with the arguments of a call, and the call with those that it has, under the
    names it has.

    of: what a method is of, such as `fit`. guess: what an argument most likely is of the rows.
    """
    names = [each for each in signature.parameters if each != "self"]
    strange = [word for word in kwargs if word not in names]
    free = [each for each in names if each not in kwargs]
    meant = {word: near for word in strange if (near := _guess_argument(word, free))}
    stated = names
    for word in set(OF_ROWS) & set(strange):
        if is_table(kwargs[word]) and not any(map(is_table, args)):
            meant[word] = names[0]
            stated = names[1:]
    arguments = dict(zip(stated, args[1:] if of else args, strict=False))
    arguments |= {
        meant.get(word, word): _convert_meant(word, value)
        for word, value in kwargs.items()
        if word in names or word in meant
    }
    rows = arguments.get(names[0]) if names else None
    for word, value in arguments.items():
        arguments[word] = value if _is_writable(value) else Code("df" if is_table(value) else word)
    parameters = {word: signature.parameters[word] for word in names}
    if guess is not None and not strange:
        for word, each in parameters.items():
            standard = None if each.default is each.empty else each.default
            taken = [value for name, value in arguments.items() if name != names[0]]
            likely = None if word in arguments else guess(word, rows, taken, standard)
            arguments |= {word: likely} if likely is not None else {}
    needed = []
    for word, each in parameters.items():
        if each.default is each.empty and each.kind not in MANY:
            needed.append(word)
    named = {}
    for word in needed:
        named[word] = _make_placeholder(word, parameters[word], first=word == names[0])
    arguments = {
        word: arguments.get(word, named.get(word))
        for word in names
        if word in arguments or word in needed
    }
    unnamed = []
    for word in names:
        if word not in arguments or signature.parameters[word].kind is Parameter.KEYWORD_ONLY:
            break
        unnamed.append(arguments.pop(word))
    line = call(name, *unnamed, **arguments)
    gone = [word for word in strange if word not in meant]
    hints = [f"did you mean {near}?" for near in meant.values()]
    if gone:
        hints.append(f"without {', '.join(gone)}:")
    got = [f"{word}=" for word in strange] or [str(error).removeprefix("got ")]
    if of:
        line = f"{of}.{line.removeprefix(f'{PROGRAM}.')}"
    return UsageError(
        f"{name} cannot be called so",
        got=", ".join(got),
        allowed=", ".join(names),
        next_step=" ".join([*hints, line]),
    )


def _convert_meant(word: str, value: Any) -> Any:
    """The value of an argument of another library in our terms: alpha is 1 less the level."""
    if word not in OF_ERROR_RATE or isinstance(value, bool) or not isinstance(value, Real):
        return value
    return round(1 - float(value), 12)


def _guess_argument(word: str, names: Sequence[str]) -> str:
    """The argument that a word of another library stands for, or the nearest."""
    return other if (other := OF_OTHERS.get(word, "")) in names else find_nearest(word, names)


def wrap_methods(kind: type[T]) -> type[T]:
    """A class of fits whose methods are called as `wrap_function` has it."""
    for name, method in list(vars(kind).items()):
        if (
            inspect.isfunction(method)
            and not name.startswith("_")
            and name not in kind.__annotations__
        ):
            setattr(kind, name, wrap_function(method, of="fit"))
    return kind


def _make_placeholder(word: str, parameter: Parameter, *, first: bool) -> Code:
    """What stands for an argument that is missing: rows are `df`, all else only the user knows."""
    return Code("df" if first and "DataFrame" in str(parameter.annotation) else word.upper())


ARROW = ("__arrow_c_stream__", "__arrow_c_array__")
"""By which other libraries hand out what they hold."""


def is_table(value: object) -> bool:
    """Whether something is a frame, of pandas or of another library; a column alone is none."""
    if hasattr(type(value), "columns"):  # of the class: a lazy frame would be computed
        return True
    is_column = hasattr(value, "dtype") or hasattr(value, "type")
    return not is_column and any(hasattr(value, name) for name in (*ARROW, "to_pandas"))


def _is_same(value: Any, other: Any) -> bool:
    """Whether two arguments are one, lists and tuples alike."""
    value, other = (list(each) if isinstance(each, tuple) else each for each in (value, other))
    return type(value) is type(other) and bool(value == other)


def _is_writable(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_writable, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_writable, value))
    return value is None or isinstance(value, (Code, str, Path, Real))


@contextmanager
def set_shell_lines() -> Iterator[None]:
    """Lines of calls that are refused here are commands."""
    token = SHELL.set(True)
    try:
        yield
    finally:
        SHELL.reset(token)


def call(function: str, *values: Any, **arguments: Any) -> str:
    """The call of a function by name: of the package, of the study that it is of, or where neither
    has one such, as its user has imported it."""
    home = f"{PROGRAM}." if function in PUBLIC else ""
    if study := find_study(function):
        home = f"{study}."
    words = [
        *map(write_value, values),
        *(f"{name}={write_value(value)}" for name, value in arguments.items()),
    ]
    return f"{home}{function}({', '.join(words)})"


def write_command(verb: str, *words: object, **options: object) -> str:
    """The command of a verb; an option that is true stands alone, one of several values is
    repeated."""
    line = [PROGRAM, verb, *map(str, words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            line.append(option)
        elif isinstance(value, (list, tuple)):
            for each in value:
                line += [option, str(each)]
        elif value not in (None, "", False):
            line += [option, str(value)]
    return shlex.join(line)


def write_shell_command(line: str, first: str = "") -> str:
    """A line of Python as a command that prints what it gives.

    first: a line that comes before it.
    """
    others = {"pd.": ", pandas as pd", "np.": ", numpy as np"}
    code = "; ".join([*([first] if first else []), f"print({line})"])
    imports = f"import {PROGRAM}" + "".join(more for word, more in others.items() if word in code)
    return f"python -c {shlex.quote(f'{imports}; {code}')}"


def is_file_of_rows(word: str) -> bool:
    """Whether a word names a file of rows, by its ending."""
    return Path(word).suffix.lower() in READERS


def write_file_read(path: str | Path) -> str:
    """The expression that reads a file of rows as a frame, its texts as they are."""
    return READERS[Path(path).suffix.lower()].format(write_value(str(path)))


def write_value(value: Any) -> str:
    """A value as Python has it, texts in double quotes, numbers of any library as plain ones."""
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{write_value(key)}: {write_value(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(write_value, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, Code):
        return value.text
    plain = isinstance(value, bool) or not isinstance(value, Real)
    return (
        repr(value) if plain else repr(int(value) if isinstance(value, Integral) else float(value))
    )
