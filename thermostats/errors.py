"""Errors a user can act on: what, where, what was got, what is allowed, what to do next."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any, Self

HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Characters that a terminal obeys, turns around or does not show, and halves of characters."""
SHOWN = 10
"""Wrong rows that a message lists."""
MOST_NAMED = 30
"""Names that a message lists."""
NEAREST = 5
"""Of more names the nearest, which it lists."""
HOMES = (Path(__file__).parent, Path(__file__).parents[1] / "analyses")
"""Where code of the package lies; analyses only in a checkout."""
LIBRARIES = tuple(
    Path(place)
    for name, place in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)
SHOWN_OF = 60
"""Characters of a wrong value that a message shows."""


class ThermostatsError(Exception):
    """The thing asked for failed; the command line exits with 1.

    The message reads ``what (where): got …; allowed …. Next: …``; empty parts are left out. `rows`:
    what is wrong row by row, of which the message lists the first. `remedy`: what would let rows
    pass that were joined (`tables/remedies.py`). `options`: an option and its value with which the
    same command would pass.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: object = "",
        got: object = "",
        allowed: str = "",
        next_step: str = "",
        rows: Sequence[str] = (),
        remedy: Any = None,
        options: Sequence[str] = (),
    ) -> None:
        self.what = escape_hidden(what)
        self.where = escape_hidden(str(where))
        self.got = escape_hidden(str(got))
        self.allowed = escape_hidden(allowed)
        self.next_step = escape_hidden(next_step)
        self.rows = tuple(map(escape_hidden, rows))
        self.remedy = remedy
        self.options = tuple(options)
        super().__init__(self._write_message())

    def _write_message(self) -> str:
        """The message without what is empty."""
        details = []
        if self.got:
            details.append(f"got {self.got}")
        if self.allowed:
            details.append(f"allowed: {self.allowed}")
        place = f" ({self.where})" if self.where else ""
        why = f": {'; '.join(details)}" if details else ""
        lines = [f"{self.what}{place}{why}.", *(f"  {row}" for row in self.rows[:SHOWN])]
        if len(self.rows) > SHOWN:
            lines.append(f"  … and {len(self.rows) - SHOWN} more")
        message = "\n".join(lines)
        if not self.next_step:
            return message
        gap = "\n" if self.rows else " "
        return f"{message}{gap}Next: {self.next_step}"

    def replace_next_step(self, next_step: str) -> Self:
        """The same error with another next step."""
        return type(self)(
            self.what,
            where=self.where,
            got=self.got,
            allowed=self.allowed,
            next_step=next_step,
            rows=self.rows,
            remedy=self.remedy,
            options=self.options,
        )


class UsageError(ThermostatsError):
    """The command or function was called wrongly; the command line exits with 2."""

    exit_code = 2


class DataError(ThermostatsError):
    """A table or file does not say what it should; nothing was written."""


class TransientError(ThermostatsError):
    """The machine or the network was at fault, not what was asked for: the same may succeed when
    tried again."""


class UnforeseenError(ThermostatsError):
    """What a library raised out of the package, and no check had refused before.

    `__cause__` is what was raised, with the whole way to it.
    """


MAY_LEAVE = (ThermostatsError, OSError, MemoryError, ImportError, Warning)
"""What leaves the package as it is: errors that say what they are of."""


def build_unforeseen_error(
    error: Exception, called: str, next_step: str
) -> ThermostatsError | None:
    """The refusal in the place of an error that would leave the package bare; None of one that may.

    called: what was called. A package of an extra that is missing is named with the line that
    installs it. May leave: errors of the package, of the system (OSError), of memory, of another
    missing package, of warnings that were made errors, and of functions of the user's.
    """
    if missing := build_missing_error(error, f"{called} needs torch and transformers"):
        return missing
    place = None if isinstance(error, MAY_LEAVE) else find_failure(error)
    if place is None:
        return None
    file, line, library = place
    return UnforeseenError(
        f"{called} failed where no check had foreseen it",
        where=f"{file}:{line}" + f", in {library}" * bool(library),
        got=f"{type(error).__name__}: {take_first_line(error)}",
        allowed="arguments and rows as its help describes them",
        next_step=next_step,
    )


def _is_of_user(kind: type[BaseException]) -> bool:
    """Whether a kind of error is defined outside the package, its libraries and Python."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and not any(
        Path(file).is_relative_to(place) for place in (*HOMES, *LIBRARIES)
    )


def find_failure(error: BaseException) -> tuple[str, int, str] | None:
    """File and line of the package where an error arose, and the library that raised it, empty for
    the package; None where code of the user's did, or the package was not on the way."""
    if _is_of_user(type(error)):
        return None
    ours = None
    outside = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        home = next((each for each in HOMES if path.is_relative_to(each)), None)
        if home is not None:
            ours = (str(path.relative_to(home.parent)), line)
            outside = ""
        elif any(path.is_relative_to(each) for each in LIBRARIES) or not path.is_absolute():
            outside = outside or str(frame.f_globals.get("__name__", "")).partition(".")[0]
        else:
            ours = None
    return None if ours is None else (*ours, outside)


def escape_hidden(text: str) -> str:
    """Text with hidden characters escaped, so that a name from a file cannot write on a
    terminal."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def suggest_nearest(got: str, allowed: Iterable[str], otherwise: str = "") -> str:
    """A next step that names the nearest of what is allowed, whatever its case; `otherwise` where
    none is near."""
    near = find_nearest(got, allowed)
    return f"did you mean {near}?" if near else otherwise


def find_nearest(got: str, allowed: Iterable[str]) -> str:
    """The nearest of what is allowed, whatever its case; empty where none is near."""
    folded = {name.casefold(): name for name in allowed}
    near = get_close_matches(got.casefold(), folded, n=1)
    return folded[near[0]] if near else ""


def join_some(names: Iterable[object], near: object = "") -> str:
    """Names for a message: all where they are few, else the five nearest to one and how many
    more."""
    every = [str(name) for name in names]
    if len(every) <= MOST_NAMED:
        return ", ".join(every)
    wanted = str(near).casefold()
    ordered = sorted(
        every, key=lambda name: -SequenceMatcher(None, wanted, name.casefold()).ratio()
    )
    return f"{', '.join(ordered[:NEAREST])} and {len(every) - NEAREST} more"


def install(extra: str) -> str:
    """The line that installs an extra: of the checkout that this package is run from, else from an
    index."""
    root = Path(__file__).parents[1]
    if (root / "pyproject.toml").is_file():
        return f"pip install -e '{root}[{extra}]'"
    return f"pip install '{__package__}[{extra}]'"


def build_install_error(
    error: ImportError, what: str = "measuring needs torch and transformers", extra: str = "measure"
) -> UsageError:
    """The error for a package without an extra."""
    return UsageError(what, got=str(error), next_step=install(extra))


OF_MEASURE = ("torch", "transformers", "huggingface_hub", "tokenizers", "accelerate", "psutil")
"""Packages that come with the extra `measure` alone."""


def build_missing_error(error: BaseException, what: str, allowed: str = "") -> UsageError | None:
    """The error for a package that is not installed, where it comes with an extra; else None.

    what: what cannot be done without it. allowed: what can.
    """
    missing = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or missing not in OF_MEASURE:
        return None
    return UsageError(what, got=str(error), allowed=allowed, next_step=install("measure"))


def build_unknown_error(
    what: str,
    got: object,
    allowed: Iterable[str],
    *,
    where: object = "",
    otherwise: str = "",
    line: str = "",
) -> UsageError:
    """The error for a name that is none of those allowed; its next step is the nearest of them,
    else `otherwise`.

    line: a call in which {} is a name, printed with the nearest one, or with the first where none
    is near.
    """
    names = list(allowed)
    step = suggest_nearest(str(got), names, otherwise)
    if line and names:
        step = f"{step} {line.format(find_nearest(str(got), names) or names[0])}".strip()
    return UsageError(
        what, where=where, got=repr(got), allowed=join_some(names, got), next_step=step
    )


def make_list(value: Any, what: str) -> list[str] | None:
    """Names as a list, a string as the only one; None stays None.

    Raises UsageError for what is neither text nor a collection of texts.
    """
    if value is None or isinstance(value, str):
        return None if value is None else [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise UsageError("not a name or a list of names", where=what, got=repr(value)[:SHOWN_OF])
    names = list(value)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise UsageError("not a name", where=what, got=repr(wrong[0])[:SHOWN_OF], allowed="text")
    return names


def take_first_line(error: BaseException, most: int = 160) -> str:
    """The first line of what an error says, with the next where it ends in a colon, or its kind
    where it says nothing."""
    first, *others = (str(error).strip() or type(error).__name__).splitlines()
    whole = f"{first} {others[0].strip()}" if others and first.endswith(":") else first
    return whole[:most]


def describe_file_error(error: Exception) -> str:
    """Why a file or folder could not be read or written, without its name."""
    return getattr(error, "strerror", None) or str(error)
