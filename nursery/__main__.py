"""`python -m nursery` in a checkout: design, corpora, train, measure, compare, tables."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from nursery import DESIGN
from nursery.records import read_record
from thermostats.cli.options import Data, Json, check_file, run
from thermostats.errors import DataError, UsageError, build_install_error, suggest_nearest
from thermostats.measurement.spec import EngineSettings, check_device, count_gpus, require_device
from thermostats.tables import folders
from thermostats.terminal import print_next_step, print_rows

if TYPE_CHECKING:
    from nursery.designs import Member, Pack

app = typer.Typer(
    name="nursery",
    help="Train families of small models in a randomised design, to see what a training recipe "
    "does to the gain.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Folder = Annotated[Path, typer.Option("--folder", help="Folder of corpora and trained models.")]
Recipes = Annotated[
    list[str],
    typer.Option("--recipe", help="Recipe whose models are taken, such as c005; may be repeated."),
]
Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        help="Model of the design, such as c005-L04d32h8; may be repeated. All by default.",
    ),
]
Design = Annotated[
    Path | None, typer.Argument(help="A design file; by default the one that ships.")
]
HERE = Path("build/nursery")
CONTEXT = 64
"""Tokens in a window of a design that is proposed."""


@app.command()
def design(
    factors: Annotated[
        list[str], typer.Argument(help="Further values for --shapes, such as rho=0.125,2 d=32,80.")
    ] = [],  # noqa: B006
    recipes: Annotated[
        int | None,
        typer.Option(min=1, help="Propose a design with this many recipes, drawn at random."),
    ] = None,
    shapes: Annotated[
        list[str], typer.Option(help="Depths, densities and widths: L=4,8,16 rho=0.125,2 d=32,80.")
    ] = [],  # noqa: B006
    repeats: Annotated[
        int, typer.Option(min=0, help="Number of models trained again with another seed.")
    ] = 8,
    core_hours: Annotated[float, typer.Option(help="Largest cost that training may have.")] = 12.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 1,
    power: Annotated[
        bool,
        typer.Option(
            "--power", help="Simulate studies of this design to see what its rules decide."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the design to a file, for train.")] = None,
    as_json: Json = False,
) -> None:
    """Print the recipes of the design that ships; with --recipes and --shapes propose, cost and
    simulate your own.

    Example: `python -m nursery design --recipes 32 --shapes L=4,8,16 rho=0.125,2 d=32,80 --power
    --out mine.toml`
    """
    from nursery import component_worlds, designs  # noqa: PLC0415
    from nursery.recipes import drawn  # noqa: PLC0415

    if recipes is None and (shapes or factors):
        raise UsageError(
            "--shapes needs --recipes, the number of recipes to draw",
            got=" ".join([*shapes, *factors]),
            next_step="python -m nursery design --recipes 32 --shapes L=4,8,16 rho=0.125,2 d=32,80",
        )
    if recipes is None:
        study = designs.read(DESIGN)
    else:
        grid = designs.parse_grid([*shapes, *factors])
        taken = tuple(drawn(recipes, seed, CONTEXT))
        study = designs.Design(
            out.stem if out else "own", seed, CONTEXT, core_hours, repeats, grid, taken
        )
        study.check()
    packs = study.packs()
    models = sum(len(pack.members) for pack in packs)
    print(
        f"{models} models in {len(packs)} packs, about {study.hours:.1f} core-hours of a processor",
        file=sys.stderr,
    )
    if power:
        corpora = Counter(recipe.corpus for recipe in study.recipes)
        rows = component_worlds.operating(list(corpora.values()), component_worlds.logs(study.grid))
    else:
        rows = [asdict(recipe) for recipe in (*study.recipes, *study.apart)]
    print_rows(rows, list(rows[0]), as_json)
    if out is not None:
        designs.write(study, out)
        print_next_step(
            f"python -m nursery corpora, then python -m nursery train {out}", visible=not as_json
        )


@app.command()
def corpora(
    folder: Folder = HERE,
    text: Annotated[
        Path | None,
        typer.Option(help="Your own English text; by default a Debian package is downloaded."),
    ] = None,
) -> None:
    """Make the corpora and the tokenizer; the English text is downloaded as a Debian package.

    Example: `python -m nursery corpora --folder nursery`
    """
    if text is not None:
        check_file(text, "--text FILE with English text in UTF-8")
    from nursery.corpora import build  # noqa: PLC0415

    build(folder, text)
    print(folder)
    print_next_step(
        "python -m nursery train --model c005-L04d32h8"
        + ("" if folder == HERE else f" --folder {folder}")
    )


@app.command()
def train(
    design: Design = None,
    models: Models = [],  # noqa: B006
    recipe: Recipes = [],  # noqa: B006
    folder: Folder = HERE,
    tune: Annotated[
        bool, typer.Option(help="Then train 14 models on in three ways, once all are trained.")
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "cpu",
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of packs trained at once; by default one per core or one per GPU."
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster that exists, as `ray start` printed it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Train the models of a design in packs; after an interruption, run it again to resume.

    Every pack that holds a chosen model is trained as a whole.
    Example: `python -m nursery train mine.toml --folder mine`
    """
    check_device(device)
    where = EngineSettings(engine, address=address)
    if engine == "local":
        require_device(device)
    device = ("cuda" if count_gpus() else "cpu") if device == "auto" else device
    path = _file(design)
    packs, _ = _chosen(models, recipe, path)
    from nursery.corpora import load  # noqa: PLC0415
    from nursery.designs import claim_folder  # noqa: PLC0415

    for name in sorted({member.recipe.corpus for pack in packs for member in pack.members}):
        load(folder, name, packs[0].context)
    _check_installed()
    from nursery.training import train_all  # noqa: PLC0415

    claim_folder(folder, path)
    _say_what(packs, folder, device, processes)
    rows: list[dict[str, Any]] = []

    def through(packs: Sequence[Pack]) -> None:
        before = sum(pack.work for pack in packs if pack.records(folder))
        with _progress(sum(pack.work for pack in packs), before) as report:
            for step in train_all(packs, folder, device=device, processes=processes, engine=where):
                report(step.pack.name, step.pack.work, step.share, step.trained)
                rows.extend(asdict(trained) for trained in step.trained)

    through(packs)
    if tune:
        through(_tuned(path, folder))
    print_rows(
        rows, ["model", "corpus", "steps", "loss", "loss_unigram", "learned", "seconds"], as_json
    )
    print_next_step(
        f"python -m nursery measure{_of(design)} --folder {folder} --data mine", visible=not as_json
    )


@app.command()
def measure(
    design: Design = None,
    models: Models = [],  # noqa: B006
    recipe: Recipes = [],  # noqa: B006
    folder: Folder = HERE,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Measure the last checkpoint of trained models into the tables; what is finished is skipped.

    Example: `python -m nursery measure --data mine`
    """
    folders.find_own_folder(data)
    wanted = _trained(models, recipe, folder, design)
    _check_installed()
    from nursery.measuring import measure_all  # noqa: PLC0415

    rows = []
    for model, outcome in measure_all(wanted, folder, data):
        rows.append({"model": model, **outcome.build_row()} | {"model": model})
        print(
            f"{model} {outcome.revision}: {outcome.status} {outcome.problem.reason}".rstrip(),
            file=sys.stderr,
            flush=True,
        )
    print_rows(rows, ["model", "revision", "status", "seconds", "reason"], as_json)
    if any(row["status"] == "failed" for row in rows):
        raise typer.Exit(1)
    print_next_step("thermostats report --all", data=data, visible=not as_json)


@app.command()
def compare(
    models: Models = [],  # noqa: B006
    recipe: Recipes = [],  # noqa: B006
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Compare the gains of models trained here with the shipped ones; exit code 1 if any checkpoint
    is not the same.

    Compared is the log gain of every layer, a mean over prompts, at every shipped checkpoint. A
    checkpoint is the same if no layer differs by more than 0.05 nat; a gain that is missing or not
    finite is not the same. On another processor or torch build, rounding alone can make late
    checkpoints of some models differ by more. Example: `python -m nursery compare --model
    c012-L04d32h8`
    """
    wanted = _trained(models, recipe, folder)
    _check_installed()
    from nursery import measuring  # noqa: PLC0415
    from thermostats.modelling.display import convert_records  # noqa: PLC0415

    table = measuring.compare(wanted, folder)
    print_rows(convert_records(table), list(table.columns), as_json)
    if not as_json:
        print(
            f"same: log gains of every layer differ by at most {measuring.TOLERANCE:g} nat",
            file=sys.stderr,
        )
    if not table["same"].all():
        raise typer.Exit(1)


@app.command()
def tables(
    out: Annotated[Path, typer.Argument(help="Folder to write to, such as data/nursery/second.")],
    design: Design = None,
    folder: Folder = HERE,
) -> None:
    """Write models.csv and gains.parquet of a design whose models are all trained, and of those
    tuned from them.

    Example: `python -m nursery tables data/nursery/second`
    """
    from nursery.tables import write  # noqa: PLC0415

    write(_file(design), folder, out)
    print(out)


@app.command("prompts")
def by_prompt(
    out: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    design: Design = None,
    folder: Folder = HERE,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")] = "cpu",
) -> None:
    """Write gains of trained models on prompts of every corpus, by prompt, whatever they were
    measured on in training.

    Example: `python -m nursery prompts second.parquet`
    """
    check_device(device)
    require_device(device)
    packs, _ = _chosen([], [], _file(design))
    _check_installed()
    from nursery.designs import OF_CORPORA  # noqa: PLC0415
    from nursery.gains_by_prompt import of_trained  # noqa: PLC0415
    from nursery.tables import write_rows  # noqa: PLC0415

    trained = [pack for pack in packs if pack.records(folder)]
    if not trained:
        raise DataError(
            "no pack is trained here",
            where=folder,
            got=f"0 of {len(packs)} packs",
            next_step=f"python -m nursery train{_of(design)} --folder {folder}",
        )
    write_rows(of_trained(trained, folder, OF_CORPORA, device), out, ("model", "prompts"))
    print(out)


def _say_what(packs: Sequence[Pack], folder: Path, device: str, processes: int | None) -> None:
    """Say before training what it will do and about how long that takes."""
    from nursery.designs import seconds_of  # noqa: PLC0415

    left = [pack for pack in packs if not pack.records(folder)]
    models = sum(len(pack.members) for pack in left)
    minutes = seconds_of(left, device, processes) / 60
    there = f", {len(packs) - len(left)} packs are trained" if len(left) < len(packs) else ""
    print(
        f"{models} models in {len(left)} packs on {device}, about {minutes:.0f} min{there}",
        file=sys.stderr,
    )


def _file(design: Path | None) -> Path:
    """The design file; by default the one that ships."""
    step = (
        "python -m nursery design --recipes 32 --shapes L=4,8,16 rho=0.125,2 d=32,80 --out FILE "
        "writes one"
    )
    if design is None:
        return DESIGN
    check_file(design, step)
    return design


def _chosen(
    models: Sequence[str], recipes: Sequence[str], design: Path
) -> tuple[list[Pack], list[Member]]:
    """Packs of a design that hold a model asked for, and these models; all where none is asked for.

    Raises UsageError for a model or a recipe that the design does not have.
    """
    from nursery import designs  # noqa: PLC0415

    packs = designs.read(design).packs()
    members = [member for pack in packs for member in pack.members]
    named = {
        "model": (models, {m.model for m in members}),
        "recipe": (recipes, {m.recipe.name for m in members}),
    }
    for what, (names, there) in named.items():
        listed = sorted(there)
        for name in names:
            if name not in there:
                raise UsageError(
                    f"no such {what} in the design",
                    got=name,
                    allowed=" … ".join(listed[:1] + listed[-1:]),
                    next_step=suggest_nearest(name, listed, "python -m nursery design lists them"),
                )
    if models or recipes:
        members = [
            member for member in members if member.model in models or member.recipe.name in recipes
        ]
    chosen = {member.model for member in members}
    return [
        pack for pack in packs if any(member.model in chosen for member in pack.members)
    ], members


def _tuned(design: Path, folder: Path) -> list[Pack]:
    """Packs of the tuned models of a design, once its own are trained."""
    from nursery import designs  # noqa: PLC0415
    from nursery.tuning import tuned_packs  # noqa: PLC0415

    return tuned_packs(designs.read(design), folder)


def _of(design: Path | None) -> str:
    return "" if design is None else f" {design}"


def _trained(
    models: list[str], recipes: list[str], folder: Path, design: Path | None = None
) -> list[Member]:
    """Models of a design that are asked for; raises DataError where none of them is trained in the
    folder."""
    path = _file(design)
    _, members = _chosen(models, recipes, path)
    if not (models or recipes):
        members += [member for pack in _tuned(path, folder) for member in pack.members]
    if not any(read_record(folder, member.model) for member in members):
        options = [f"--model {model}" for model in models] + [
            f"--recipe {recipe}" for recipe in recipes
        ]
        place = "".join(
            [
                _of(design),
                *(f" {each}" for each in options),
                "" if folder == HERE else f" --folder {folder}",
            ]
        )
        raise DataError(
            "none of these models is trained here",
            where=folder,
            next_step=f"python -m nursery corpora, then python -m nursery train{place}; "
            "the tables of the shipped models are read without training: thermostats report N01",
        )
    return members


def _check_installed() -> None:
    """Raise UsageError where the extra that training and measuring need is not installed."""
    try:
        import torch  # noqa: F401, PLC0415
        import transformers  # noqa: F401, PLC0415
    except ImportError as error:
        raise build_install_error(error, "the nursery needs torch and transformers") from error
    from thermostats.measurement.session import set_quiet  # noqa: PLC0415

    set_quiet()


@contextmanager
def _progress(total: float, before: float) -> Iterator[Callable[[str, float, float, Any], None]]:
    """On a terminal one bar of the work in all with the time left; one line per model that is
    through.

    before: what of the work was done when the command began.
    """
    done: dict[str, float] = {}
    began = time.perf_counter()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("training", total=total)

        def report(name: str, work: float, share: float, trained: Any) -> None:
            done[name] = work * share
            now = sum(done.values())
            left = "trained before"
            if now - before > total / 1e9:
                seconds = (time.perf_counter() - began) * (total - now) / (now - before)
                left = f"about {seconds / 60:.0f} min left"
            bars.update(task, completed=now, description=f"training {name}")
            for model in trained:
                line = f"{model.model}: {model.steps} steps, held-out loss {model.loss}, {left}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield report


if __name__ == "__main__":
    run(app)
