"""Options that the verbs of the package and of its studies share."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from thermostats.errors import ThermostatsError, UsageError, build_unforeseen_error, suggest_nearest
from thermostats.next_steps import write_command
from thermostats.tables import folders
from thermostats.tables.choices import is_path, is_text
from thermostats.terminal import handle_closed_output, refuse

if TYPE_CHECKING:
    from thermostats.measurement.spec import Outcome


NEW = Path("analyses")
"""Folder that a user's own analyses are written to where none is named."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of your own rows, read together with the tables that ship with the package; "
        "by default "
        "$THERMOSTATS_DATA, or only those tables.",
    ),
]
Analyses = Annotated[
    Path | None,
    typer.Option(
        "--analyses",
        help="Folder of your own analyses; by default those that ship with the package.",
    ),
]


def check_file(path: Path, otherwise: str = "check the path") -> None:
    """Raise UsageError if there is no such file, naming the most similar file in its folder, or
    else `otherwise`."""
    if path.is_file():
        return
    near = []
    if path.parent.is_dir():
        near = [file.name for file in path.parent.iterdir() if file.is_file()]
    step = suggest_nearest(path.name, near, otherwise)
    raise UsageError("no such file", where=path, next_step=step)


TRACEBACK_VARIABLE = "THERMOSTATS_TRACEBACK"
"""Set to see what a command failed with as Python shows it."""
WRONG_USE: type[Exception] = typer.BadParameter.__mro__[2]
"""What Typer raises for arguments that it cannot take: ClickException, of click or of Typer's own
copy."""


def run(app: typer.Typer) -> NoReturn:
    """Run a command line and leave: exit code 0 done, 1 failed, 2 wrong use."""
    signal.signal(signal.SIGINT, handle_interrupt)
    as_json = "--json" in sys.argv
    with handle_closed_output():
        try:
            _check_text(sys.argv[1:])
            stopped = app(standalone_mode=False)
        except ThermostatsError as error:
            refuse(_add_command(error), as_json=as_json)
            sys.exit(error.exit_code)
        except WRONG_USE as error:
            sys.exit(_print_argument_error(error, as_json))
        except typer.Abort:
            sys.exit(1)
        except OSError as error:
            if error.filename is None:  # standard output
                raise
            refused = ThermostatsError(
                "the system refused", where=error.filename, got=error.strerror or error
            )
            refuse(refused, as_json=as_json)
            sys.exit(refused.exit_code)
        except Exception as error:
            again = f"{TRACEBACK_VARIABLE}=1 {write_command(*sys.argv[1:])}"
            step = f"{again} shows the whole way to it, for a report"
            unforeseen = build_unforeseen_error(error, "the command", step)
            if unforeseen is None or os.environ.get(TRACEBACK_VARIABLE):
                raise
            refuse(unforeseen, as_json=as_json)
            sys.exit(unforeseen.exit_code)
    sys.exit(stopped if isinstance(stopped, int) else 0)


def _check_text(words: Sequence[str]) -> None:
    """Raise UsageError for an argument that is neither text in the terminal's encoding nor a path,
    whose name may be any bytes."""
    for word in words:
        if not is_text(word) and not _is_path_given(word):
            text = f"text in {sys.getfilesystemencoding()}"
            raise UsageError(
                "an argument is no text in the encoding of this terminal",
                got=ascii(word),
                allowed=f"{text}, or a path: one that is there, or ./ and a new name",
                next_step=_suggest_text(words, word),
            )


def _is_path_given(word: str) -> bool:
    """Whether a word, or the value of an option in it, is a file or folder that is there, or one
    to be made in a folder that is there and named with it."""
    value = word.partition("=")[2] if word.startswith("-") else word
    if is_path(value):
        return True
    return os.sep in value and is_path(str(Path(value).parent))


def _suggest_text(words: Sequence[str], wrong: str) -> str:
    """What to do about a word that is no text: have Python read UTF-8 where it is that, else the
    command with it read as Latin-1, in which any bytes are text."""
    if os.fsencode(wrong).decode(errors="ignore").encode() == os.fsencode(wrong):
        return "PYTHONUTF8=1 before the same command reads its words as UTF-8"
    meant = os.fsencode(wrong).decode("latin-1")
    return f"if {meant} is meant: {_replace_word(words, wrong, meant)}"


def _replace_word(words: Sequence[str], wrong: str, meant: str) -> str:
    """The command of some words with another in the place of one."""
    return write_command(*(meant if word == wrong else word for word in words))


def _print_argument_error(error: Exception, as_json: bool) -> int:
    """Say what is wrong with the arguments, and where the help is; without any arguments, show the
    help."""
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message)
        return 0
    command = context.command_path if context is not None else "thermostats"
    what, _, near = message.partition(" Did you mean ")
    help_ = f"{command} --help"
    step = f"did you mean {near} {_suggest_correction(what, near)}".strip() if near else help_
    refuse(UsageError(what.rstrip("."), next_step=step), as_json=as_json)
    return UsageError.exit_code


def _add_command(error: ThermostatsError) -> ThermostatsError:
    """The error with the whole command that would pass, where it lacks an option."""
    if not error.options or error.options[0] in sys.argv:
        return error
    command = write_command(*sys.argv[1:], *error.options)
    return error.replace_next_step(f"{error.next_step}: {command}")


def _suggest_correction(what: str, near: str) -> str:
    """The command that was typed with the name that is near in place of the one that there is
    not."""
    wrong = re.search(r"'([^']+)'", what)
    right = re.search(r"'([^']+)'", near)
    if wrong is None or right is None or wrong[1] not in sys.argv[1:]:
        return ""
    return _replace_word(sys.argv[1:], wrong[1], right[1])


def handle_interrupt(*_: object) -> NoReturn:
    """What Ctrl-C does; pressed again, it leaves at once, without a traceback out of the middle of
    stopping."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(1))
    print(
        "\nthermostats: interrupted; every file is complete; the same command resumes where it "
        "stopped",
        file=sys.stderr,
    )
    raise KeyboardInterrupt


def choose_exit_code(outcomes: Iterable[Outcome]) -> int:
    """Exit code of a verb that measured: 2 where all that failed was asked for wrongly, 1 where
    other things failed."""
    failed = [outcome.problem.wrong_use for outcome in outcomes if outcome.status == "failed"]
    return (2 if all(failed) else 1) if failed else 0


def suggest_model(model: str, data: Path | None) -> str:
    """Question whether a model of the tables was meant; empty where it is one, or none is near."""
    from thermostats.tables.store import load  # noqa: PLC0415

    names = set(load("models", folders.find_lookup_folder(data))["model_id"])
    return "" if model in names else suggest_nearest(model, names)


def suggest_option(failed: Outcome, lab: str, data: Path | None) -> str:
    """The command that measures a failed model with the option that it lacked; empty where it
    lacked none."""
    if not failed.problem.options:
        return ""
    return write_command("measure", failed.model, *failed.problem.options, lab=lab, data=data)


def suggest_own_claims(error: UsageError, claims: list[str], data: Path | None) -> UsageError:
    """The error for claims that the package lacks; of the user's own, if they are where `new claim`
    puts them."""
    there = {path.name[:3].upper() for path in NEW.glob("*.py")}
    if there.isdisjoint(map(str.upper, claims)):
        return error
    step = write_command("report", *claims, analyses=NEW, data=data, out="my-report")
    return UsageError(error.what, got=error.got, allowed=error.allowed, next_step=step)
