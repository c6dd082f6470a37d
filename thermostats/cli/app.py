"""The command line: data on standard output, progress on standard error; exit 0 done, 1 failed, 2
wrong use."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from thermostats import __version__
from thermostats.claims.study import load_named, load_studies
from thermostats.cli.changing import app as changing
from thermostats.cli.options import (
    Analyses,
    Data,
    Json,
    check_file,
    choose_exit_code,
    run,
    suggest_model,
    suggest_option,
    suggest_own_claims,
)
from thermostats.cli.planning import app as planning
from thermostats.cli.proving import app as proving
from thermostats.cli.tools import (
    GAINS_SHOWN,
    draw_gains,
    list_gains,
    name_outcome_model,
    print_dampening,
    show_gains,
)
from thermostats.cli.tools import app as tools
from thermostats.errors import DataError, UsageError
from thermostats.measurement.spec import PRECISIONS, SETTINGS, list_shipped_specs, parse_settings
from thermostats.next_steps import write_command
from thermostats.reporting.pages import check_written, has_own_findings
from thermostats.tables import folders
from thermostats.tables.choices import ALL, DESCRIBED, MOST_LINES, RECIPES, SETS, check_table
from thermostats.tables.entries import keep_names
from thermostats.tables.schemas import NURSERY
from thermostats.terminal import is_watched, print_json, print_next_step, print_rows

app = typer.Typer(
    name="thermostats",
    help="Put claims about residual-stream gains in transformers to the test.",
    epilog="Fits of one's own table are Python: `thermostats.fit_heritage(df)` asks whether the "
    "lab matters. Where its columns have other names, the refusal says the call.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    suggest_commands=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for registered in load_studies().values():
    if registered.verbs:
        app.add_typer(load_named(registered.verbs), rich_help_panel="Commands")
app.add_typer(tools)
app.add_typer(planning)
app.add_typer(changing)
app.add_typer(proving)

LISTS = {
    "architectures": "thermostats measure MODEL for a model of one of these",
    "claims": "thermostats report C04",
    "evidence": "thermostats findings --evidence pooled",
    "columns": "thermostats ls columns models for one table alone",
    "models": "thermostats measure MODEL",
    "prompts": "thermostats measure MODEL --prompts SET",
    "runs": "thermostats report --all",
    "tables": "thermostats ls columns models says what each column of one means",
}
"""What can be listed, and what to do with it."""
OWN_ROWS = (
    "whether your models have a block above the ceiling of gains that claim C02 states: "
    "thermostats report C02 --out my-report"
)
"""What a user's own rows are good for: every claim puts its questions to them too, this one to any
number of models with gains."""
AFTER_JOIN = {
    "layers": OWN_ROWS,
    "summaries": "thermostats new heritage",
    "runs": "thermostats ls runs --own",
}
"""What the rows of a table, joined, can be used for; the first that applies."""
MOST_SET = 24
"""Most models that a suggested line sets a fact of."""
FIT_ALONE = "to ask these rows alone whether the lab matters, no join is needed"
FACTS_ALONE = "thermostats ls columns layers"
"""What says how gains of models are joined, where only models or prompts were."""
ASKED_TOO = "Your models are asked too"
LACKING = "What your models lack"
"""What a report of a user's rows says of them, before the command that shows it."""


def print_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options that stand before the verb."""


@app.command("version")
def version_(as_json: Json = False) -> None:
    """Print the version.

    Example: `thermostats version`
    """
    if as_json:
        print_json({"version": __version__})
    else:
        print(__version__)


def _list_claims() -> list[str]:
    from thermostats.claims.study import list_scripts  # noqa: PLC0415

    return list(list_scripts(folders.find_shipped("analyses")))


def _list_labs() -> list[str]:
    from thermostats.tables.store import load  # noqa: PLC0415

    models = load("models", folders.find_lookup_folder())
    return sorted(set(models["heritage"]) - {"", NURSERY})


def _list_models() -> list[str]:
    from thermostats.tables.store import load  # noqa: PLC0415

    named = set(load("models", folders.find_lookup_folder())["model_id"])
    return sorted(model for model in named if not model.startswith(f"{NURSERY}/"))


@app.command()
def join(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV, TSV, JSON, JSON Lines or Parquet files, whose columns determine the table "
            "of each."
        ),
    ],
    mapping: Annotated[
        Path | None, typer.Option("--map", help="TOML file that maps your columns to ours.")
    ] = None,
    recipe: Annotated[
        str, typer.Option("--as", help=f"The tool whose tables these are: {', '.join(RECIPES)}.")
    ] = "",
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--constant",
            metavar="COLUMN=VALUE",
            help="What every row has, such as position=last; may be repeated.",
        ),
    ] = None,
    states: Annotated[
        str,
        typer.Option(
            "--states", help="Of fewer than L + 1 norms: inputs or outputs of the blocks."
        ),
    ] = "",
    form: Annotated[
        str, typer.Option("--form", help="Of norms by hooks of TransformerLens: raw or centred.")
    ] = "",
    data: Data = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing values with the new ones.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Insist on rows that are hardly what they say, which are else refused."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and count; write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Join new rows into the tables.

    Existing rows with equal values change nothing; rows with other values are refused, and the
    largest difference is named. So are values far beyond every known one of their kind, and columns
    that contradict each other.

    A mapping file names a table and, under `[columns]`, `theirs = "ours"`; under `[factors]`
    numbers to multiply by; under `[constants]` what every row has. With a mapping, rows of layers,
    summaries and the like need no run_id if they have model_id and source; `thermostats ls columns
    layers` says what else may be left out.

    Join models that are not in the tables yet first, then prompts, then gains.

    Example: `thermostats join runs.csv layers.csv --data mine`, `thermostats join gains.parquet
    --map map.toml` or `thermostats join norms.csv --as hidden-states --constant position=last`
    """
    folders.find_own_folder(data)
    for path in [*files, *([mapping] if mapping is not None else [])]:
        check_file(path)
    if wrong := [each for each in constants or () if "=" not in each]:
        raise UsageError(
            "a constant is a column and its value", got=wrong[0], allowed="COLUMN=VALUE"
        )
    how: dict[str, Any] = {
        "mapping": mapping,
        "recipe": recipe,
        "states": states,
        "form": form,
        "constants": dict(constant.split("=", 1) for constant in constants or ()),
        "replace": replace,
        "accept": accept,
        "dry_run": dry_run,
    }
    from thermostats.next_steps import set_shell_lines  # noqa: PLC0415
    from thermostats.tables.join import join as join_tables  # noqa: PLC0415

    with set_shell_lines():
        try:
            rows = [asdict(done) for done in join_tables(files, data=data, **how)]
        except UsageError as refused:
            raise _offer_fit(refused, files) from None
    print_rows(rows, ["table", "added", "unchanged", "replaced"], as_json)
    for row in rows:
        if row["unstated"]:
            print(f"not stated: {row['unstated']}", file=sys.stderr)
        for said in (row["unread"], row["revisions"]):
            if said:
                print(said, file=sys.stderr)
    changed = any(row["added"] or row["replaced"] for row in rows)
    if dry_run:
        print("nothing was written: --dry-run", file=sys.stderr)
    steps = keep_names(AFTER_JOIN, {row["table"] for row in rows})
    step = next(iter(steps.values()), FACTS_ALONE)
    print_next_step(step, data=data, visible=changed and not as_json and not dry_run)


def _offer_fit(refused: UsageError, files: list[Path]) -> UsageError:
    """The refusal of a table of models under names of its own, with the fit that takes it as it
    is."""
    from thermostats.claims.power import suggest_file_fit  # noqa: PLC0415
    from thermostats.tables.join import NOT_OURS  # noqa: PLC0415

    if refused.what != NOT_OURS or len(files) > 1:
        return refused
    fit = suggest_file_fit(files[0])
    if not fit:
        return refused
    return refused.replace_next_step(f"{refused.next_step}\n# {FIT_ALONE}: {fit}")


@app.command()
def forget(
    source: Annotated[
        str, typer.Option("--source", help="Whose rows, as thermostats ls runs --own lists it.")
    ],
    data: Data = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go; remove nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take a join back: remove the rows of one source from your folder.

    Its runs go with all their rows, and the models whose facts come from it, unless another run is
    of them. Rows that ship with the package stay, and so do prompts.

    Example: `thermostats forget --source "my own hooks" --data mine`
    """
    folder = folders.find_own_folder(data)
    from thermostats.tables.join import forget as forget_rows  # noqa: PLC0415

    removed = forget_rows(source, data=folder, dry_run=dry_run)
    _print_counts({"removed": removed}, as_json)
    print_next_step("thermostats ls runs --own", data=data, visible=is_watched(as_json))


@app.command()
def measure(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Hub ids, or folders of models.", autocompletion=_list_models),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--models",
            help="A file of models and how to measure each: .toml, .csv, .jsonl; or a list that "
            "ships: "
            f"{', '.join(list_shipped_specs())}.",
        ),
    ] = None,
    revision: Annotated[
        str,
        typer.Option(
            help="Branch, tag or commit on the hub, or several: main,step1000..step5000:1000."
        ),
    ] = "main",
    prompts: Annotated[
        str, typer.Option(help="A prompt set, a .txt, .csv or .jsonl file, or a folder of images.")
    ] = "core",
    what: Annotated[
        str, typer.Option(help="Any of gains, outputs, weights, attention, separated by commas.")
    ] = ("weights,gains,outputs,attention"),
    dtype: Annotated[
        str,
        typer.Option(help="float32, bfloat16 or float16.", autocompletion=lambda: list(PRECISIONS)),
    ] = "float32",
    lab: Annotated[
        str,
        typer.Option(
            help="Lab that trained the models, if the tables do not know it.",
            autocompletion=_list_labs,
        ),
    ] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Use only what is on this machine; download nothing.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what can be measured, memory, disk and time, and stop."
        ),
    ] = False,
    shard: Annotated[
        str,
        typer.Option(
            help="With 2/8 only every 8th model from the 2nd on: a shard for each job of a job "
            "array."
        ),
    ] = "1/1",
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            help="Draw the gains of the models over depth into this file: .svg, .png or .pdf.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=f"A setting, may be repeated: {', '.join(SETTINGS)}.",
        ),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Measure models: gains and outputs on prompts, spectra of their weights, sheaf Laplacians of
    their attention.

    What is finished is skipped: after an interruption, run the same command again. A file of models
    has a row for each (model, revision, dtype, prompts, …); `thermostats ls runs` shows meanwhile
    what became of them. A second table has gains, and --figure draws them; thermostats.profile
    draws more.

    Example: `thermostats measure EleutherAI/pythia-160m ./my-model --data mine` or
    `thermostats measure --models checkpoints.toml --set engine=ray --data mine`
    """
    if not dry_run:
        folders.find_own_folder(data)
    from thermostats.measurement.printed import measure_models  # noqa: PLC0415

    options: dict[str, object] = {
        "revision": revision,
        "dtype": dtype,
        "prompts": prompts,
        "heritage": lab,
    }
    options |= {"what": tuple(map(str.strip, what.split(","))), "download": not offline}
    models_asked = [*(models or ()), *(files or ())]
    if figure is not None:
        _check_figure(models or [], files or [], figure, data)
    chosen = parse_settings(set_ or ())
    outcomes = measure_models(models_asked, options, data, dry_run=dry_run, shard=shard, **chosen)
    gains, unread = ([{}] * len(outcomes), None) if dry_run else list_gains(outcomes, data)
    rows = [{**outcome.build_row(), **each} for outcome, each in zip(outcomes, gains, strict=True)]
    listed = rows
    if not as_json:
        listed = [
            {**row, "runs": len(row["runs"]), "finished": len(row["finished"])} for row in rows
        ]
    columns = [
        "model",
        "status",
        "runs",
        "finished",
        "revision",
        "n_params",
        "gigabytes",
        "seconds",
        "reason",
    ]
    if dry_run:
        columns.insert(7, "disk")
    if not (dry_run or as_json or sys.stdout.isatty()):
        columns += GAINS_SHOWN
    print_rows(listed, columns, as_json)
    if failed := [outcome for outcome in outcomes if outcome.status == "failed"]:
        step = suggest_option(failed[0], lab, data) or suggest_model(failed[0].model, data)
        print_next_step(step, visible=bool(step) and not as_json)
        raise typer.Exit(choose_exit_code(outcomes))
    if unread is not None:
        raise unread
    if not (dry_run or lab):
        _warn_missing_labs([row["model"] for row in rows], data)
    if not (dry_run or as_json):
        names = [name_outcome_model(outcome) for outcome in outcomes]
        with_gains = []
        for name, row in zip(names, rows, strict=True):
            if row["L"] is not None:
                with_gains.append({**row, "model": name})
        if sys.stdout.isatty():
            show_gains(with_gains)
        print_dampening(with_gains)
        shown = [row["model"] for row in with_gains]
        asked = names if figure is not None else []
        draw_gains(list(dict.fromkeys(shown or asked)), models_asked, prompts, data, figure)
    print_next_step(OWN_ROWS, data=data, visible=not dry_run and not as_json)


def _print_counts(counts: Mapping[str, Mapping[str, int]], as_json: bool) -> None:
    """A row for each table with its numbers of rows, by what they are of."""
    first = next(iter(counts.values()))
    rows = []
    for name in first:
        of_table = {what: numbers[name] for what, numbers in counts.items()}
        rows.append({"table": name, **of_table})
    print_rows(rows, ["table", *counts], as_json)


def _check_figure(models: list[str], files: list[str], figure: Path, data: Path | None) -> None:
    """Raise UsageError before anything is measured for a figure that cannot be drawn then."""
    from thermostats.plots.general import check_figure_file, check_lines  # noqa: PLC0415

    check_figure_file(figure)
    if not files:
        some = write_command("measure", *models[:MOST_LINES], data=data, figure=figure)
        check_lines(len(models), f"measure without --figure, then draw some: {some}")


def _warn_missing_labs(models: list[str], data: Path | None) -> None:
    """Name those models for which the user's own rows give no lab, and the command that sets it."""
    from thermostats.tables.model_rows import read_own_models  # noqa: PLC0415

    rows = read_own_models(folders.find_own_folder(data))
    if unknown := sorted(
        set(rows.loc[rows["heritage"].eq("") & rows["model_id"].isin(models), "model_id"])
    ):
        labless = f"no lab is known of {', '.join(unknown)}: no question about labs counts them"
        line = write_command("set", *unknown[:MOST_SET], "heritage=LAB", data=data)
        which = "it" if len(unknown) <= MOST_SET else f"that of the first {MOST_SET}"
        print(f"{labless}; {line} sets {which}", file=sys.stderr)


@app.command()
def check(data: Data = None, as_json: Json = False) -> None:
    """Check every table against its schema, keys and cross-references; name measurements of one
    model that disagree, with a folder of yours those of models that you measured.

    Names what an older version measured and this one would measure differently, or cannot tell the
    weights of.

    Example: `thermostats check --data mine`
    """
    folder = folders.find_data_folder(data)
    from thermostats.tables.store import check as check_tables  # noqa: PLC0415
    from thermostats.tables.store import count_own_rows  # noqa: PLC0415

    counts = {"rows": check_tables(data)}
    if own := count_own_rows(data):
        counts["yours"] = own
    _print_counts(counts, as_json)
    from thermostats.tables.model_rows import find_disagreements, select_own_models  # noqa: PLC0415
    from thermostats.tables.reading import features  # noqa: PLC0415

    rows = features(data)
    if folders.has_own_runs(data):
        from thermostats.measurement.versions import find_outdated_rows  # noqa: PLC0415

        for line in find_outdated_rows(data):
            print(f"Measured by an older version: {line}", file=sys.stderr)
        rows = select_own_models(rows, folder)
    for gain in ("penultimate_gain", "last_gain"):
        for line in find_disagreements(rows, gain):
            print(f"Two measurements disagree; both are kept: {line}", file=sys.stderr)
    print_next_step("thermostats ls tables", data=data, visible=is_watched(as_json))


@app.command()
def ls(
    what: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(LISTS)}.", autocompletion=lambda: list(LISTS))
    ],
    table: Annotated[
        str | None,
        typer.Argument(
            help="For columns: only those of this table.", autocompletion=lambda: list(DESCRIBED)
        ),
    ] = None,
    data: Data = None,
    yours: Annotated[
        bool,
        typer.Option(
            "--own", help="For models and runs: only those in your own folder, see --data."
        ),
    ] = False,
    lab: Annotated[
        str,
        typer.Option(
            help="For models and runs: only those of this lab.", autocompletion=_list_labs
        ),
    ] = "",
    family: Annotated[
        str, typer.Option(help="For models and runs: only those of this family.")
    ] = "",
    nursery: Annotated[
        bool,
        typer.Option(
            "--nursery", help="For models and runs: those of the controlled study as well."
        ),
    ] = False,
    paths: Annotated[
        bool,
        typer.Option(
            "--paths",
            help="For models: folders of a checkout's trained models, to measure offline.",
        ),
    ] = False,
    proofs: Annotated[
        bool,
        typer.Option(
            "--proofs",
            help="For architectures: what was proved of each, by version of transformers.",
        ),
    ] = False,
    analyses: Analyses = None,
    as_json: Json = False,
) -> None:
    """List architectures, claims, columns, sets of evidence, models, prompts, runs or tables.

    For a column, `joined` says whether joined rows must have it; for a claim, `reads` says on whose
    rows it is judged.

    Example: `thermostats ls columns models`, `thermostats ls models --family pythia`,
    `thermostats ls runs --own --data mine` or `thermostats ls claims --analyses analyses`
    """
    _check_listing(what, table, by_lab=bool(lab or family), paths=paths)
    if proofs and what != "architectures":
        step = "thermostats ls architectures --proofs"
        raise UsageError(
            "proofs are listed of architectures", got=f"{what} --proofs", next_step=step
        )
    if yours:
        folders.find_own_folder(data)
    folders.find_data_folder(data)
    if paths:
        _list_folders(as_json)
        return
    step = "thermostats ls tables" if table is not None else LISTS[what]
    step = "thermostats prove MODEL for one of yours" if proofs else step
    if analyses is not None and what == "claims":
        from thermostats.claims.study import list_scripts  # noqa: PLC0415

        list_scripts(analyses)  # says what is wrong with the folder before anything large is loaded
        step = write_command("report", analyses=analyses, out="my-report")
    from thermostats.cli import listing  # noqa: PLC0415

    chosen: dict[str, Any] = {"lab": lab, "family": family, "nursery": nursery or yours}
    rows, columns = listing.list_table_rows(
        what,
        data,
        yours=yours,
        table=table,
        analyses=analyses,
        rules=as_json,
        proofs=proofs,
        **chosen,
    )
    print_rows(rows, columns, as_json, spare=listing.SPARE)
    if what == "models" and not (yours or family) and lab.casefold() in {"", NURSERY}:
        from thermostats.claims.study import list_study_models  # noqa: PLC0415

        print(*list_study_models(), sep="\n", file=sys.stderr)
    print_next_step(step, data=data, visible=is_watched(as_json))


def _check_listing(what: str, table: str | None, *, by_lab: bool, paths: bool) -> None:
    """UsageError for a list that does not exist, or for what is listed otherwise."""
    if what not in LISTS:
        near = next(iter(get_close_matches(what, LISTS, 1)), "models")
        raise UsageError(
            "no such list", got=what, allowed=", ".join(LISTS), next_step=f"thermostats ls {near}"
        )
    if table is not None:
        if what != "columns":
            step = (
                f"thermostats ls columns {table}"
                if table in DESCRIBED
                else f"thermostats ls {what}"
            )
            raise UsageError(
                "only columns are listed by table", got=f"{what} {table}", next_step=step
            )
        check_table(table, DESCRIBED)
    if by_lab and what not in {"models", "runs"}:
        raise UsageError("not listed by lab or family", got=what, allowed="models, runs")
    if paths and what != "models":
        option = " --paths" if folders.list_shipped_models() else ""
        step = f"thermostats ls models{option}"
        raise UsageError("only models have folders", got=f"{what} --paths", next_step=step)


def _list_folders(as_json: bool) -> None:
    """Folders of the trained models that a checkout has; DataError where the package is
    installed."""
    rows = [{"path": str(path)} for path in folders.list_shipped_models()]
    if not rows:
        raise DataError(
            "the trained models are in the repository, not in the installed package",
            where=folders.find_shipped("data"),
            next_step="clone the repository, or name a model of the hub: "
            "thermostats measure EleutherAI/pythia-70m --data mine",
        )
    print_json(rows) if as_json else print(*(row["path"] for row in rows), sep="\n")
    print_next_step(
        "thermostats measure $(thermostats ls models --paths) --data mine",
        visible=is_watched(as_json),
    )


@app.command()
def report(
    claims: Annotated[
        list[str] | None,
        typer.Argument(help="Claims, such as C04; all by default.", autocompletion=_list_claims),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All claims (the default if none is named).")
    ] = False,
    check_only: Annotated[
        bool,
        typer.Option("--check", help="Only report whether the report is stale; exit with 1 if so."),
    ] = False,
    data: Data = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder to which the report is written.")
    ] = Path("reports"),
    analyses: Analyses = None,
    draw: Annotated[
        bool,
        typer.Option(
            "--draw", help="Also draw the posteriors that need PyMC, about a minute a claim."
        ),
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Draw, and refit what was drawn, without each unit and under other priors.",
        ),
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Simulate rules on your rows, at most 20 s a finding."),
    ] = False,
    snapshot: Annotated[
        bool,
        typer.Option("--snapshot", help="Draw, and rewrite the files kept under version control."),
    ] = False,
    single_file: Annotated[
        bool,
        typer.Option(
            "--single-file",
            help="Also write each claim named as one HTML file to send, at most 3 MB.",
        ),
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Run the analyses whose inputs changed and render the report.

    Example: `thermostats report C04`
    """
    if claims and all_:
        raise UsageError(
            "name claims or give --all, not both", got=f"{', '.join(claims)} and --all"
        )
    from thermostats.claims.study import ONE_THREAD, choose_claims, is_own, list_scripts  # noqa: PLC0415

    try:
        scripts = analyses if analyses is not None else folders.find_shipped("analyses")
        ids = choose_claims(claims or None, list_scripts(scripts))
    except UsageError as error:
        raise (
            error if analyses is not None else suggest_own_claims(error, claims or [], data)
        ) from None
    folders.find_data_folder(data)
    here = analyses is None and len(ids) == 1 and "numpy" not in sys.modules
    # starts no process, but computes as one would; a user's script, which might end its process,
    # gets one
    if here:
        os.environ.update({name: os.environ.get(name) or "1" for name in ONE_THREAD})
    from thermostats.reporting import report as engine  # noqa: PLC0415

    options: dict[str, Any] = {
        "check": check_only,
        "draw": draw,
        "thorough": thorough,
        "calibrate": calibrate,
        "snapshot": snapshot,
        "single_file": single_file,
        "processes": 1 if here else None,
    }
    result = engine.report(claims or None, data=data, out=out, analyses=analyses, **options)
    if as_json:
        print_json(asdict(result))
    else:
        print(result)
        shipped = [outcome.claim for outcome in result.outcomes if not is_own(outcome.claim)]
        if folders.has_own_runs(data) and shipped:
            if has_own_findings(out):
                line = write_command("findings", evidence="own", out=out)
                print(f"{ASKED_TOO}: {line}", file=sys.stderr)
            folder = folders.find_data_folder(data)
            line = write_command("needs", shipped[0], data=folder)
            print(f"{LACKING}: {line}", file=sys.stderr)
    if not result.ok:
        print_next_step("the same command without --check", visible=check_only and not as_json)
        raise typer.Exit(1)
    if open_:
        webbrowser.open((out / "index.html").resolve().as_uri())
    print_next_step(
        "the same command with --open opens the report",
        visible=not (as_json or check_only or open_),
    )


@app.command()
def findings(
    claims: Annotated[
        list[str] | None,
        typer.Argument(help="Claims, such as C04; all by default.", autocompletion=_list_claims),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            help=f"Set of evidence that the questions were put to: {', '.join(SETS)}, or {ALL}; by "
            f"default, for each "
            "question, the set to which it was first put.",
            autocompletion=lambda: [*SETS, ALL],
        ),
    ] = None,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed",
            help="Only what moved since the report's rows changed last, as by join, before and "
            "now; stale claims are made again first.",
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", help="Folder to which the report was written.")
    ] = Path("reports"),
    as_json: Json = False,
) -> None:
    """Print the verdicts of the last report: each claim first, then its further findings.

    Estimates are given with their intervals, rounded as on the pages; `--json` has every digit.

    Example: `thermostats findings C04`, `thermostats findings --changed` or
    `thermostats findings --evidence own --json`
    """
    check_written(out, claims)
    if changed:
        _print_changes(claims, evidence, out, as_json)
        return
    from thermostats.cli import listing  # noqa: PLC0415

    rows = listing.list_findings(out, claims or (), evidence)
    asked = listing.list_findings(out, claims or ())
    first = {row["finding"] for row in asked if row["headline"]}
    listed = rows if as_json else [{**row, **listing.describe_finding(row, first)} for row in rows]
    columns = [
        "claim",
        "headline",
        "verdict",
        "reason",
        "estimand",
        "estimate",
        "n_models",
        "n_heritages",
    ]
    if evidence is not None:
        columns.insert(2, "evidence")
    print_rows(
        listed,
        columns,
        as_json,
        spare=("headline", "n_heritages", "n_models", "reason", "estimand"),
    )
    print_next_step(f"open {out / 'index.html'} in a browser", visible=is_watched(as_json))


def _print_changes(
    claims: list[str] | None, evidence: str | None, out: Path, as_json: bool
) -> None:
    """Print what moved in a report's findings; as JSON all of it."""
    from thermostats.reporting.changed import find_changes  # noqa: PLC0415

    changes = find_changes(claims, evidence=evidence, out=out)
    if as_json:
        rows = changes.table.astype(object).where(changes.table.notna(), None)
        print_json({"compared_with": changes.compared_with, "moved": rows.to_dict("records")})
        return
    print(*changes.write_sentences(), sep="\n")
    if rows := changes.tabulate():
        print_rows(rows, list(rows[0]), spare=("models",))
    if rest := len(changes.table) - len(rows):
        print(f"{rest} more that moved less; --json has all", file=sys.stderr)


def main() -> NoReturn:
    """Run the command line; a user's mistake gives a sentence, never a traceback."""
    run(app)
