"""The command line: data on standard output, progress on standard error; exit 0 done, 1 failed, 2 wrong use."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from thermostats import __version__
from thermostats.errors import ThermostatsError, UsageError

app = typer.Typer(
    name="thermostats",
    help="Put claims about residual-stream gains in transformers to the test.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    suggest_commands=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder; without it $THERMOSTATS_DATA, or the tables that ship with the package."),
]
LISTS = ("architectures", "claims", "columns", "models", "prompts", "runs", "tables")


def version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="Folder with the study's result files.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Read the study's result files into DATA/published.

    Every number is accounted for: imported, recomputed from imported ones, or left out with the reason.

    Example: `thermostats import results/`
    """
    from thermostats.tables.begin import writable_folder  # noqa: PLC0415
    from thermostats.tables.published import import_published  # noqa: PLC0415

    done = import_published(source, writable_folder(data))
    if as_json:
        _print_json(asdict(done))
    else:
        print(done)


@app.command()
def join(
    files: Annotated[list[Path], typer.Argument(help="CSV files; which table each is follows from its columns.")],
    data: Data = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put new values in the place of old ones.")] = False,
    as_json: Json = False,
) -> None:
    """Join new rows into the tables.

    Rows that are there already with equal values change nothing; with other values they are refused, the largest
    difference named.

    Example: `thermostats join runs.csv layers.csv --data mine`
    """
    from thermostats.tables.join import join as join_tables  # noqa: PLC0415

    rows = [asdict(done) for done in join_tables(files, data=data, replace=replace)]
    _print_rows(rows, ["table", "added", "unchanged", "replaced"], as_json)
    if any(row["added"] or row["replaced"] for row in rows):
        _next("thermostats report", data)


@app.command()
def measure(
    models: Annotated[list[str], typer.Argument(help="Hub ids or folders of models.")],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit on the hub.")] = "main",
    prompts: Annotated[str, typer.Option(help="A prompt set, or a .txt, .csv or .jsonl file.")] = "core",
    what: Annotated[str, typer.Option(help="Any of gains, outputs, weights, attention, separated by commas.")] = (
        "weights,gains,outputs,attention"
    ),
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    device_map: Annotated[str | None, typer.Option(help="auto: spread a model over several devices.")] = None,
    token_budget: Annotated[int | None, typer.Option(help="Most tokens in a batch; smaller needs less memory.")] = None,
    heritage: Annotated[str, typer.Option(help="Lab that trained the models, where the tables do not know it.")] = "",
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Execute code that comes with a model.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Only what is on this machine; fetch nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be measured, and stop.")] = False,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Measure models: gains and outputs on prompts, spectra of their weights, sheaf Laplacians of their attention.

    What is finished is skipped: after an interruption, run the same command again.

    Example: `thermostats measure EleutherAI/pythia-160m ./my-model --data mine`
    """
    from thermostats.measurement.terminal import measure_models  # noqa: PLC0415

    options = {
        "revision": revision, "dtype": dtype, "prompts": prompts, "what": tuple(map(str.strip, what.split(","))),
        "device": device, "device_map": device_map, "token_budget": token_budget, "heritage": heritage,
        "trust_remote_code": trust_remote_code, "download": not offline,
    }  # fmt: skip
    outcomes = measure_models(models, options, data, dry_run=dry_run)
    rows = [asdict(outcome) for outcome in outcomes]
    shown = rows if as_json else [{**row, "runs": len(row["runs"]), "finished": len(row["finished"])} for row in rows]
    _print_rows(shown, ["model", "status", "runs", "finished", "n_params", "gigabytes", "seconds", "reason"], as_json)
    if any(row["status"] == "failed" for row in rows):
        raise typer.Exit(2 if all(row["wrong_use"] for row in rows if row["status"] == "failed") else 1)
    if not dry_run:
        _next("thermostats report", data)


@app.command()
def check(data: Data = None, as_json: Json = False) -> None:
    """Hold every table against its schema, keys and cross-references.

    Example: `thermostats check --data mine`
    """
    from thermostats.tables.store import check as check_tables  # noqa: PLC0415

    counts = check_tables(data)
    _print_rows([{"table": name, "rows": rows} for name, rows in counts.items()], ["table", "rows"], as_json)


@app.command()
def ls(
    what: Annotated[str, typer.Argument(help=f"One of: {', '.join(LISTS)}.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List what there is: architectures, claims, columns, models, prompts, runs or tables.

    Example: `thermostats ls models`
    """
    from thermostats.tables import listing  # noqa: PLC0415

    rows, columns = listing.rows(what, data)
    _print_rows(rows, columns, as_json)


@app.command()
def report(
    claims: Annotated[list[str] | None, typer.Argument(help="Claims, such as C04; without any, all.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All claims (the default where none is named).")] = False,
    check_only: Annotated[
        bool, typer.Option("--check", help="Only say whether the report is stale; exit 1 if so.")
    ] = False,
    data: Data = None,
    out: Annotated[Path, typer.Option("--out", help="Folder the report is written to.")] = Path("reports"),
    analyses: Annotated[Path | None, typer.Option("--analyses", help="Folder of analyses; without it ours.")] = None,
    as_json: Json = False,
) -> None:
    """Run the analyses whose inputs changed and render the report.

    Draws made before on this machine come from its cache; with `THERMOSTATS_CACHE=off` they are made afresh.

    Example: `thermostats report C04`
    """
    if claims and all_:
        raise UsageError("either name claims or give --all, not both", got=f"{', '.join(claims)} and --all")
    from thermostats.reporting import engine  # noqa: PLC0415

    result = engine.report(claims or None, data=data, out=out, analyses=analyses, check=check_only)
    if as_json:
        _print_json(asdict(result))
    else:
        print(result)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def findings(
    out: Annotated[Path, typer.Option("--out", help="Folder the report was written to.")] = Path("reports"),
    as_json: Json = False,
) -> None:
    """Print the verdicts of the last report: of each claim, then of its further findings.

    Example: `thermostats findings --json`
    """
    from thermostats.tables import listing  # noqa: PLC0415

    rows = listing.findings(out)
    shown = rows if as_json else [{**row, "headline": "claim" if row["headline"] else ""} for row in rows]
    columns = ["claim", "headline", "verdict", "estimand", "estimate", "lower", "upper", "n_models", "n_heritages"]
    _print_rows(shown, columns, as_json)


@app.command()
def power(
    models: Annotated[int, typer.Option(help="Models in the planned study.")],
    labs: Annotated[int, typer.Option(help="Labs that trained them; each has as many models, one more or less.")],
    shares: Annotated[
        str, typer.Option(help="Shares of variance of heritage, geometry and scale; what is left is the model's own.")
    ] = "0.60,0.15,0.05",
    geometry: Annotated[
        str,
        typer.Option(
            help="met: labs keep to a head width; free: geometry has nothing to do with labs; unrelated: "
            "nor scale with geometry."
        ),
    ] = "met",
    simulations: Annotated[int, typer.Option(help="Simulated studies.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 1,
    as_json: Json = False,
) -> None:
    """Say how often a study of this size could tell heritage from geometry from scale.

    By simulation and the closed form of the heritage model; seconds.

    Example: `thermostats power --models 48 --labs 16 --shares 0.60,0.15,0.05`
    """
    from thermostats.modelling import planning  # noqa: PLC0415

    found = planning.planned(models, labs, shares, geometry=geometry, simulations=simulations, seed=seed)
    if as_json:
        _print_json(found.to_dict())
    else:
        _print_rows(
            found.rows(), ["statement", "P above", "percent", "error", "lower", "upper", "simulations"], as_json
        )
        print(found.sentence(), file=sys.stderr)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str))


def _print_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Rows as JSON, as a table on a terminal, as tab-separated text in a pipe."""
    if as_json:
        _print_json(rows)
    elif sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(*columns, header_style="bold", box=None, pad_edge=False)
        for row in rows:
            table.add_row(*(Text(_cell(row[label], digits=4)) for label in columns))
        Console().print(table)
    else:
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_cell(row[label]) for label in columns))


def _cell(value: object, digits: int | None = None) -> str:
    """A value as text; a number exactly, or to so many digits."""
    text = "" if value is None else str(value)
    if isinstance(value, float):
        text = repr(float(value)) if digits is None else f"{value:.{digits}g}"
    return text.encode("unicode_escape").decode() if any(ord(character) < 32 for character in text) else text


def _next(command: str, data: Path | None) -> None:
    print(f"Next: {command}" + (f" --data {data}" if data else ""), file=sys.stderr)


def main() -> NoReturn:
    """Run the command line; a user's mistake gives a sentence, never a traceback."""
    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except ThermostatsError as error:
        print(f"thermostats: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    sys.exit(0)


def _interrupted(*_: object) -> NoReturn:
    print("\nthermostats: interrupted; every file is whole, the same command goes on where it stopped", file=sys.stderr)
    raise KeyboardInterrupt
