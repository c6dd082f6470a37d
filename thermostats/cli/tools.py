"""Supporting verbs: diagnosis, tables for other tools, what to cite, new analyses."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import string
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import thermostats
from thermostats.claims.study import NAME
from thermostats.cli.options import NEW, Data, Json
from thermostats.errors import ThermostatsError, UsageError, install
from thermostats.formatting import format_count, format_number
from thermostats.measurement.spec import count_gpus
from thermostats.next_steps import (
    call,
    set_shell_lines,
    write_command,
    write_shell_command,
    write_value,
)
from thermostats.reporting.state import versions
from thermostats.tables import folders
from thermostats.tables.choices import MOST_LINES, OWN_ROWS, check_export
from thermostats.tables.folders import write_all
from thermostats.tables.schemas import GAINS, TABLES
from thermostats.terminal import is_watched, print_json, print_next_step, print_rows

if TYPE_CHECKING:
    import pandas as pd

    from thermostats.claims.run import Lacking


GAINS_SHOWN = ["L", "last_gain", "penultimate_gain", "last_read_gain", "lowest_block"]


def list_gains(
    outcomes: Sequence[Any], data: Path | None
) -> tuple[list[dict[str, Any]], ThermostatsError | None]:
    """Gains of the model of each outcome, by `GAINS_SHOWN`, None where it has none; and why none
    can be read, so that what was measured is printed first."""
    from thermostats.tables.reading import summarise_runs  # noqa: PLC0415

    runs = {str(i): (*each.runs, *each.finished) for i, each in enumerate(outcomes)}
    by_number = {}
    unread = None
    try:
        by_number = {row.pop("model"): row for row in summarise_runs(runs, data)}
    except ThermostatsError as error:
        unread = error
    gains = []
    for i in range(len(outcomes)):
        gains.append({**dict.fromkeys(GAINS_SHOWN), **by_number.get(str(i), {})})
    return gains, unread


def print_dampening(gains: Sequence[dict[str, Any]]) -> None:
    """Say which models have a mean gain below 1 in their last block; nothing where no gain is
    known."""
    known = [row for row in gains if row["last_gain"] is not None]
    below = []
    for row in known:
        if row["last_gain"] < 1:
            below.append(f"{row['model']} ({format_number(row['last_gain'])})")
    if known:
        counted = f"{len(below)} of {format_count(len(known), 'model')}"
        named = f": {', '.join(below)}" * bool(below)
        words = "below 1 in the last block, by the mean over prompts"
        print(f"{words}: {counted}{named}", file=sys.stderr)


def show_gains(rows: Sequence[dict[str, Any]]) -> None:
    """Print a row for each model with gains below what was measured."""
    if rows:
        print()
        print_rows(rows, ["model", *GAINS_SHOWN], shorten=("model",), spare=("lowest_block",))


def draw_gains(
    names: Sequence[str],
    models: Sequence[str],
    prompts: str,
    data: Path | None,
    figure: Path | None,
) -> None:
    """Draw gains of models, or say how.

    names: models that have gains. models: what was asked for.
    """
    if figure is not None:
        from thermostats.plots.general import profile  # noqa: PLC0415

        profile(names, data=data, figure=figure)
        print(f"figure: {figure}", file=sys.stderr)
    elif names:
        named = models[:MOST_LINES]
        other = "" if prompts == "core" else prompts
        again = write_command("measure", *named, prompts=other, data=data, figure="gains.svg")
        some = f"{MOST_LINES} of them, the most of a figure"
        which = "them" if len(models) <= MOST_LINES else some
        print(f"To draw {which}: {again}", file=sys.stderr)
        print(f"A row a model, for a spreadsheet: {_write_gains(data)}", file=sys.stderr)


def name_outcome_model(outcome: Any) -> str:
    """A model as `profile` takes it: with its revision, where that is none of the usual."""
    if outcome.revision in ("", "main"):
        return str(outcome.model)
    return f"{outcome.model}@{outcome.revision}"


def compare_gains(first: Path, second: Path, data: Path | None) -> tuple[pd.DataFrame | None, str]:
    """Differences of two models' gains by `paired`; where both are measured, why there are none."""
    from thermostats.measurement.spectra import hash_model  # noqa: PLC0415
    from thermostats.modelling.pairs import paired  # noqa: PLC0415
    from thermostats.tables import store  # noqa: PLC0415
    from thermostats.tables.frames import select_rows  # noqa: PLC0415
    from thermostats.tables.runs import read_hashes  # noqa: PLC0415

    runs = store.load("runs", data)
    runs = runs.assign(sha=read_hashes(runs))
    runs = runs[runs["prompt_set"].ne("")]
    measured = [select_rows(runs, sha=hash_model(folder)) for folder in (first, second)]
    if any(of_one.empty for of_one in measured):
        return None, ""
    models = []
    for of_one in measured:
        last = of_one.iloc[-1]
        models.append(f"{last['model_id']}@{last['revision']}")
    try:
        return paired(*models, data=data), ""
    except UsageError as error:
        return None, str(error)


OK = "ok"
MISSING = "missing"
BROKEN = "broken"
UNPROVEN = "unproven"
"""State of a version that the register of proofs has not."""
NEEDED = (
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "statsmodels",
    "matplotlib",
    "pymc",
    "nutpie",
    "arviz",
)
EXTRAS = {"measure": ("torch", "transformers", "accelerate"), "ray": ("ray",)}
PYTHONS = ((3, 11), (3, 13))
ADVICE = ["name", "state", "found", "advice"]
"""Columns about a thing that is installed or missing."""


def run_checks(data: str | Path | None = None) -> list[dict[str, str]]:
    """Rows of name, state, found, advice.

    `broken`: the package cannot work; `missing`: a part of it cannot; `unproven`: see
    `make_proofs_row`.
    """
    python = sys.version.split()[0]
    room = shutil.disk_usage(Path.cwd()).free / 1e9
    good = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    place = Path(thermostats.__file__).parent
    rows = [("thermostats", OK, f"{thermostats.__version__} in {place}", "")]
    if good:
        rows.append(("Python", OK, python, ""))
    else:
        rows.append(("Python", BROKEN, python, "use Python 3.11, 3.12 or 3.13"))
    there, lacking = _find_libraries(NEEDED)
    if lacking:
        rows.append(("libraries", BROKEN, there, f"pip install {' '.join(lacking)}"))
    else:
        rows.append(("libraries", OK, there, ""))
    for extra, libraries in EXTRAS.items():
        there, lacking = _find_libraries(libraries)
        state = MISSING if lacking else OK
        rows.append((f"extra {extra}", state, there, install(extra) if lacking else ""))
    if compiler := shutil.which("g++") or shutil.which("clang++"):
        rows.append(("C++ compiler", OK, compiler, ""))
    else:
        rows.append(("C++ compiler", MISSING, "none", "install g++"))
    gpus = count_gpus()
    found = {None: "of another maker", 0: "none"}.get(gpus, str(gpus))
    rows.append(("GPUs", OK, found, ""))
    rows.append(("free disk", OK, f"{room:.0f} GB", ""))
    try:
        from thermostats.tables.store import check  # noqa: PLC0415

        folder = folders.find_lookup_folder(data)
        counts = check(folder)
        tables = f"{folder}: {counts['models']} models, {counts['runs']} runs"
        rows.append(("tables", OK, tables, ""))
        rows += [*make_proofs_row(), make_versions_row()]
    except (ThermostatsError, ImportError) as error:
        rows.append(("tables", BROKEN, str(error), "thermostats check"))
    return [dict(zip(ADVICE, row, strict=True)) for row in rows]


def _find_libraries(libraries: Sequence[str]) -> tuple[str, list[str]]:
    """Libraries that are installed, with their versions, and those that are lacking."""
    there = versions(*libraries)
    lacking = [library for library in libraries if library not in there]
    listed = ", ".join(f"{library} {number}" for library, number in there.items())
    return listed or "not installed", lacking


def make_proofs_row() -> list[tuple[str, str, str, str]]:
    """What the register says of the version of transformers that is installed; nothing where there
    is none."""
    from thermostats.tables.register import find_version, list_proved  # noqa: PLC0415

    number = find_version()
    if not number:
        return []
    proved = len(list_proved(number))
    if not proved:
        advice = "thermostats prove MODEL says whether a model of yours is read rightly"
        return [("proofs", UNPROVEN, f"transformers {number} is unproven", advice)]
    return [("proofs", OK, f"{proved} classes were proved under transformers {number}", "")]


def make_versions_row() -> tuple[str, str, str, str]:
    """With which versions classes and fits were proven, and what is newer here."""
    from thermostats.tables.register import find_newer, list_versions  # noqa: PLC0415

    proven = list_versions()
    listed = [f"{name} {', '.join(numbers)}" for name, numbers in proven.items()]
    found = "; ".join(listed)
    newer = find_newer(versions(*proven))
    advice = f"newer here, where nothing was tried: {', '.join(newer)}" if newer else ""
    return ("proven with", UNPROVEN if newer else OK, found, advice)


LETTER = "u"
"""Whose claim it is: the user's."""
LETTERS = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
)
"""Latin letters that are no letter with an accent, as a file's name writes them."""
HERITAGE = "heritage with my models"
"""What the question of the study is called, asked of one's own models too, where no other title is
given."""


def create_claim(name: str, folder: str | Path = "analyses") -> Path:
    """Write an analysis that runs and the file of its words, named after the first free id; the
    analysis' path.

    name: what the claim is about, such as "depth helps". In the file's name letters lose their
    accents.

    Raises UsageError where the name has no Latin letters, the folder has an analysis of that name,
    or no id is free.
    """
    return _copy_template("claim", name, Path(folder))


def create_heritage(
    name: str | None = None, folder: str | Path = "analyses", *, gain: str = "penultimate_gain"
) -> Path:
    """Write an analysis of heritage, geometry and scale in the study's models and the user's; else
    as `create_claim`."""
    return _copy_template("heritage", HERITAGE if name is None else name, Path(folder), gain=gain)


def _find_free_name(slug: str, there: Sequence[str]) -> str:
    """The same name with a number that is free."""
    taken = {file[4:-3] for file in there}
    number = next(number for number in count(2) if f"{slug}_{number}" not in taken)
    words = slug.replace("_", "-")
    return f"{words}-{number}"


def _copy_template(template: str, name: str, folder: Path, **more: str) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "_", _strip_accents(name)).strip("_")
    if not slug:
        allowed = "words in Latin letters, such as depth-helps"
        raise UsageError("a claim's name has no letters", got=repr(name), allowed=allowed)
    there = []
    for path in folder.glob("*"):
        file = f"{path.stem}.py"
        if path.suffix in (".md", ".py") and NAME.fullmatch(file):
            there.append(file)

    for file in there:
        if file[4:] == f"{slug}.py":
            other = _find_free_name(slug, there)
            raise UsageError(
                "there is an analysis of that name",
                where=folder / file,
                next_step=f"thermostats new {template} {other}, or open that one",
            )
    taken = {file[:3] for file in there}
    ids = (f"{LETTER}{number:02d}" for number in range(1, 100))
    free = next((each for each in ids if each not in taken), "")
    if not free:
        raise UsageError(
            "no id is free for another claim", where=folder, allowed=f"{LETTER}01 … {LETTER}99"
        )
    words = re.sub(r"[\W_]+", " ", unicodedata.normalize("NFC", name)).strip()
    title = words[0].upper() + words[1:]
    fields = {"id": free.upper(), "title": title, **more}
    path = folder / f"{free}_{slug}.py"
    templates = resources.files("thermostats").joinpath("starting_points")
    filled = {}
    for suffix in (".md", ".py"):
        text = templates.joinpath(f"{template}{suffix}.txt").read_text(encoding="utf-8")
        content = string.Template(text).substitute(fields)
        filled[path.with_suffix(suffix)] = content.encode()
    write_all(folder, filled)
    return path


def _strip_accents(name: str) -> str:
    """A name in small letters without accents: NFKD, its combining marks left out."""
    plain = unicodedata.normalize("NFKD", name).casefold().translate(LETTERS)
    parts = unicodedata.normalize("NFKD", plain)
    return "".join(part for part in parts if not unicodedata.combining(part))


app = typer.Typer()
new = typer.Typer(help="Write a file as a starting point for your own work.", no_args_is_help=True)
app.add_typer(new, name="new")


@app.command()
def doctor(data: Data = None, as_json: Json = False) -> None:
    """Report what is installed and what is missing; exit code 1 if the package cannot work.

    Example: `thermostats doctor`
    """
    rows = run_checks(data)
    print_rows(rows, ADVICE, as_json)
    if any(row["state"] == BROKEN for row in rows):
        raise typer.Exit(1)
    poor = [row["name"] for row in rows if row["state"] != OK]
    step = (
        f"see the advice on {', '.join(poor)}, or thermostats report C03"
        if poor
        else "thermostats report C03"
    )
    print_next_step(step, visible=is_watched(as_json))


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(help="Folder or hub id of a model, such as a base model.", metavar="A")
    ],
    second: Annotated[
        str,
        typer.Argument(
            help="Folder or hub id of another of the same shape, such as a tuned one.", metavar="B"
        ),
    ],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compare two models of one shape, as functions and as they are stored, and their gains.

    As functions: distance of their canonical forms, 0 for models that changes of weights connect
    which leave every output; anything else says only how far. As stored: which tensors changed, by
    how much and in what rank. Distance is the Frobenius norm of the change over that of the first
    model's tensor; rank is effective, the participation ratio of the change's squared singular
    values. Gains are shown where both models were measured, and differences block by block over the
    prompts of both, with intervals. Numbers have four digits, with `--json` all.

    Example: `thermostats compare models/base models/tuned` or `thermostats compare
    EleutherAI/pythia-70m EleutherAI/pythia-70m@step512`
    """
    from thermostats.measurement.compare import compare as compared  # noqa: PLC0415

    comparison = compared(first, second, data=data)
    changed = comparison.changed.to_dict("records")
    gains = comparison.gains.to_dict("records")
    differences, why = compare_gains(comparison.first, comparison.second, data)
    by_block = [] if differences is None else differences.to_dict("records")
    if as_json:
        tensors = comparison.tensors.replace([math.inf, math.nan], None).to_dict("records")
        function = None if math.isnan(comparison.function) else comparison.function
        of_function = {"function": function, "function_notes": comparison.function_notes}
        stored = {"distance": comparison.distance, "notes": comparison.notes}
        print_json(
            {**of_function, **stored, "tensors": tensors, "gains": gains, "paired": by_block}
        )
        return
    if not math.isnan(comparison.function):
        print(
            f"As functions: {comparison.function:.4g} ({_describe_distance(comparison.function)})."
        )
    for note in comparison.function_notes:
        print(note)
    share = f"{len(changed)} of {len(comparison.tensors)} tensors changed"
    print(f"As stored: {share}; distance of all together {comparison.distance:.4g}")
    for note in comparison.notes:
        print(note)
    if changed:
        columns = ["tensor", "shape", "distance", "rank", "full_rank"]
        print_rows(changed, columns, shorten=("tensor",), spare=("full_rank",))
    if gains:
        columns = ["gain", "first", "second", "ratio", "source", "prompt_set"]
        print_rows(gains, columns, shorten=("source", "prompt_set"))
    else:
        step = write_command("measure", first, second, what="gains", data=data or "mine")
        print(f"The tables hold no gains of both on one prompt set. Next: {step}")
    if differences is not None:
        level = differences.attrs["level"]
        minus = f"{Path(second).name} minus {Path(first).name}"
        print(f"Gains of the blocks on the same prompts, {minus}, {level:.0%} intervals:")
        columns = ["layer", "n_prompts", "first", "second", "difference", "lower", "upper"]
        print_rows(by_block, columns)
    elif why and gains:
        print(why)


SAME = 1e-5
"""Distance as functions below which weights stored in float32 do not tell two models apart."""


def _describe_distance(distance: float) -> str:
    return (
        "the same function, as far as weights can say"
        if distance < SAME
        else "it says only how far"
    )


@app.command("set")
def set_(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Your models, as listed by thermostats ls models --own, then name=value of lab "
            "(heritage), family, "
            "variant, parent, seed_of, year, quantised, package, model_licence, and for joined "
            "models their shape.",
            metavar="MODELS... FACTS...",
        ),
    ],
    revision: Annotated[
        str | None, typer.Option(help="One revision; by default every revision.")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Set facts about your own models that their files do not state, above all their lab.

    Rows that ship with the package are never changed.

    Example: `thermostats set my-model my-other lab="My lab" --data mine`
    """
    folder = folders.find_own_folder(data)
    models = [word for word in words if "=" not in word]
    facts = [word for word in words if "=" in word]
    if not models or not facts:
        *first, last = words
        lab = last.partition("=")[2] or last
        step = write_command("set", *(first or ["my-model"]), f"lab={lab}", data=data)
        allowed = "models, then column=value"
        raise UsageError(
            "facts are set of models", got=" ".join(words), allowed=allowed, next_step=step
        )
    from thermostats.tables.model_rows import find_other_spelling, set_facts  # noqa: PLC0415

    values = dict(fact.split("=", 1) for fact in facts)
    with set_shell_lines():
        done = set_facts(models, values, revision=revision, data=data)
    print_rows([asdict(each) for each in done], ["table", "replaced", "unchanged"], as_json)
    if lab := find_other_spelling(values.get("heritage", values.get("lab", "")), folder):
        print(
            f"Another lab is spelled {lab}; the tables now have two. If they are the same, set "
            f"heritage={lab}.",
            file=sys.stderr,
        )
    print_next_step("thermostats report", data=folder, visible=is_watched(as_json))


@app.command()
def needs(
    claims: Annotated[list[str] | None, typer.Argument(help="Claims, such as C05.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every claim in one table; nothing is tested.")
    ] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Report what a claim still needs: whether each set of evidence suffices, which models at hand
    lack rows, what to run. Which other models to measure, `thermostats next` says.

    Nothing is measured or downloaded. Disk and memory are those of weights in float32; time is that
    of the forward passes over the core prompts at this machine's speed.

    Example: `thermostats needs C05 --data mine` or `thermostats needs --all`
    """
    if bool(claims) == every:
        line = "thermostats needs C05"
        raise UsageError("a claim or --all is asked for", allowed="one of them", next_step=line)
    if every:
        from thermostats.claims.run import NEEDED, needs_of_all  # noqa: PLC0415

        print_rows(needs_of_all(data=data), NEEDED, as_json, digits=3)
        return
    from thermostats.claims.run import find_needs, load_claim  # noqa: PLC0415
    from thermostats.claims.study import choose_claims, list_scripts  # noqa: PLC0415

    paths = list_scripts(folders.find_shipped("analyses"))
    all_of = []
    for name in choose_claims(claims, paths):
        all_of.append(find_needs(load_claim(paths[name]), data))
    if as_json:
        print_json([asdict(need) for need in all_of])
        return
    for need in all_of:
        print(f"{need.claim} {need.title}")
        columns = ["finding", "evidence", "models", "groups", "verdict", "needs"]
        if need.sets:
            print_rows(need.sets, columns, shorten=("finding",), spare=("groups",))
        else:
            print("Its questions are put to only one set of evidence.")
        columns = ["model_id", "lacks", "disk", "memory", "minutes"]
        if need.models:
            costs = [_prepare_costs(model) for model in need.models]
            print_rows(costs, columns, shorten=("model_id",))
        steps = (
            ["Next:", *need.commands]
            if need.commands
            else ["No model lacks any row that the claim reads."]
        )
        if need.further:
            steps.append(f"Models that are not at hand: {need.further}")
        print("\n".join(steps))


def _prepare_costs(model: Lacking) -> dict[str, str]:
    """A model that lacks rows, with its costs rounded for reading."""
    gib = 2**30
    minutes = 60
    return {
        "model_id": model.model_id + " (yours)" * model.own,
        "lacks": ", ".join(model.lacks),
        "disk": f"{model.disk / gib:.2g} GiB",
        "memory": f"{model.memory / gib:.2g} GiB",
        "minutes": f"{model.seconds / minutes:.2g}",
    }


CONTRIBUTION = "contribution"
"""What is exported in the form that the package takes; the folder is called so."""


@app.command()
def export(
    out: Annotated[
        Path,
        typer.Argument(
            help=f"Folder to write to, new or empty; {CONTRIBUTION}: your own rows, as the package "
            f"would take them."
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables; by default all that have rows.", autocompletion=lambda: list(TABLES)
        ),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    partition: Annotated[
        str | None,
        typer.Option(help="Partition Parquet files into folders by this column, such as model_id."),
    ] = None,
    shipped: Annotated[
        bool,
        typer.Option("--shipped", help="With --data: the rows that ship with the package, too."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Folder of your own rows, of which these alone are written, with the runs, models "
            "and prompts that they are of; by default $THERMOSTATS_DATA, or the tables that ship "
            "with the package.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write tables to files for other tools, described by a codebook and, for CSV, a Frictionless
    data package.

    Rows of your own that others may use are written by `thermostats export contribution --data
    mine`: tables, provenance, licence and what was checked. A file source.toml in your folder says
    whose they are.

    Example: `thermostats export tables`, `thermostats export rows layers runs --format parquet
    --partition model_id` or `thermostats export all --data mine --shipped`
    """
    folders.find_data_folder(data)
    _check_gains(tables or (), data)
    check_export(out, tables or None, format_, partition)
    if str(out) == CONTRIBUTION:
        if tables or format_ != "csv":
            step = write_command("export", CONTRIBUTION, data=data or "mine")
            got = " ".join(tables or [format_])
            raise UsageError(
                "a contribution has all tables of your rows, as CSV", got=got, next_step=step
            )
        from thermostats.tables.export import contribute  # noqa: PLC0415

        done = contribute(out, data=data)
    else:
        from thermostats.tables.export import export as export_tables  # noqa: PLC0415

        done = export_tables(
            out, tables or None, data=data, format=format_, partition=partition, shipped=shipped
        )
    print_rows([asdict(each) for each in done], ["table", "rows", "path"], as_json)
    if done and not as_json and str(out) != CONTRIBUTION:
        print_next_step(_write_reading(done[0].path, data))


def _check_gains(tables: Sequence[str], data: Path | None) -> None:
    """Raise UsageError for gains as a table, which are computed of others, with the command that
    writes them."""
    if made := [name for name in tables if name in GAINS_OF_MODELS]:
        raise UsageError(
            "no table is stored under this name: gains of models are computed of others",
            got=made[0],
            next_step=_write_gains(data),
        )


def _write_gains(data: Path | None) -> str:
    """The command that writes a row for each model with its lab, its blocks and the named gains
    that there are, for a spreadsheet; of one's own rows where there are some."""
    own = {"evidence": OWN_ROWS} if folders.has_own_runs(data) else {}
    rows = call("features", *([] if data is None else [data]), **own)
    columns = f"^({'|'.join([*OF_MODELS, *GAINS])})(_sd|_n)?$"
    shown = f'{rows}.filter(regex={write_value(columns)}).dropna(axis=1, how="all")'
    code = f'import thermostats; {shown}.to_csv("gains.csv", index=False)'
    return f"python -c {shlex.quote(code)}"


def _write_reading(path: Path, data: Path | None) -> str:
    """The command that reads a table that was written; of rows of one's own the one that writes a
    row for each model with its gains."""
    if folders.has_own_runs(data):
        return _write_gains(data)
    reader = "read_csv" if path.suffix == ".csv" else "read_parquet"
    return write_shell_command(f"pd.{reader}({write_value(path.as_posix())})")


OF_MODELS = ("model_id", "heritage", "n_layers")
"""Columns that say of which model gains are, in a table for a spreadsheet."""
GAINS_OF_MODELS = ("features", "gains", "gain_rows", "model_rows")
"""What a table with a row for each model is asked by."""


@app.command()
def cite(data: Data = None, as_json: Json = False) -> None:
    """Print BibTeX of what to cite: the package, the study, libraries, other sources of your rows.

    Example: `thermostats cite > references.bib`
    """
    folders.find_data_folder(data)
    from thermostats.reporting.snapshot import citations, list_citations  # noqa: PLC0415

    if as_json:
        print_json([asdict(citation) for citation in list_citations(data)])
    else:
        print(citations(data))


FOLDER = Annotated[Path, typer.Option("--folder", help="Folder of your analyses.")]


@new.command()
def claim(
    name: Annotated[str, typer.Argument(help="What the claim is about, such as depth-helps.")],
    folder: FOLDER = NEW,
    as_json: Json = False,
) -> None:
    """Write an analysis that runs as it is, as a starting point for your own claim.

    Example: `thermostats new claim depth-helps`
    """
    _print_begun(create_claim(name, folder), as_json)


@new.command()
def heritage(
    title: Annotated[
        str | None, typer.Argument(help="Title of the analysis; by default it has a standard one.")
    ] = None,
    folder: FOLDER = NEW,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write an analysis of heritage, geometry and scale, in the study's models and in yours, and
    give a first answer.

    The first answer takes seconds: does the lab matter at all, does it beyond shape and size, how
    often would these tests err on the same models? The analysis also fits the heritage model, with
    its checks. Both are about the penultimate gain, or the gain that more of your models have.

    Example: `thermostats new heritage --data mine`, then
    `thermostats report U01 --analyses analyses --data mine --out my-report`
    """
    from thermostats.modelling.heritage.lab_tests import answer, choose_gain, format_lines  # noqa: PLC0415

    gain = choose_gain(data)
    first = answer(data, gain)
    path = create_heritage(title, folder, gain=gain)
    if as_json:
        print_json({"path": str(path), "first_answer": first})
        return
    print(path)
    print(*format_lines(first), sep="\n")
    print_next_step(_suggest_page_command(path, data), visible=True)


def _print_begun(path: Path, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(path)})
    else:
        print(path)
    print_next_step(_suggest_page_command(path), visible=not as_json)


def _suggest_page_command(path: Path, data: Path | None = None) -> str:
    """The command that makes the page, with the folder of rows that the user named."""
    id_ = path.name[:3].upper()
    step = write_command("report", id_, analyses=path.parent, out="my-report", data=data)
    named = "" if data is not None else " (with your own tables too: --data FOLDER)"
    return f"{step}{named}, then edit {path}"
