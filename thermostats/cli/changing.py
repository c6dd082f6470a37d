"""Verbs that change a model to see what follows: steer a gain, or do something to the weights."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermostats.cli.options import Data, Json
from thermostats.errors import build_install_error
from thermostats.measurement.spec import PRECISIONS, parse_settings
from thermostats.measurement.steering_spec import BLOCK, SETTINGS, SHORT
from thermostats.next_steps import write_command
from thermostats.terminal import is_watched, print_json, print_next_step, print_rows

if TYPE_CHECKING:
    import pandas as pd

app = typer.Typer()
MOVED = 1e-6
"""Relative change of a number that is printed."""
REACHED = 0.005
"""How far from its target, as a share of it, a gain may end for its price to be that of the
target."""

Model = Annotated[str, typer.Argument(help="A model's folder or hub id.", metavar="FOLDER")]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        help="A prompt set or a file of texts, instead of texts sampled from the model itself.",
    ),
]
Also = Annotated[
    str | None,
    typer.Option(
        "--also",
        help="A prompt set or file on which cross-entropy and the gain are read before and "
        "afterwards.",
    ),
]
Save = Annotated[Path | None, typer.Option("--save", help="Folder to save the changed model to.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of texts and batches.")]
Precision = Annotated[
    str,
    typer.Option(
        "--dtype",
        help="float32, bfloat16 or float16; in half precision small changes of weights are lost.",
        autocompletion=lambda: list(PRECISIONS),
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help=f"A setting, may be repeated: {', '.join(SETTINGS)}."
    ),
]


@app.command()
def steer(
    model: Model,
    gain: Annotated[
        str,
        typer.Option(
            "--gain",
            help=f"Which gain: {', '.join(SHORT)}, or the number of a block.",
            autocompletion=lambda: list(SHORT),
        ),
    ] = "penultimate",
    targets: Annotated[
        list[float] | None,
        typer.Option(
            "--to",
            help="Target, may be repeated; by default exp(±.1, ±.2, ±.4) times the model's gain.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="What may change, may be repeated: blocks (3, 2-4), W_V, W_O, attention, mlp, "
            "norms, "
            "embedding, unembedding.",
        ),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=1, help="Train adapters of this rank (LoRA, by peft)."),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of a training.")] = 400,
    until: Annotated[
        float | None,
        typer.Option(
            "--until",
            help="Add steps until the price changes by less than this share, such as 0.05.",
        ),
    ] = None,
    prompts: Prompts = None,
    also: Also = None,
    save: Save = None,
    seed: Seed = 1,
    dtype: Precision = "float32",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say steps, minutes and memory; train nothing.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Draw the prices into this file: .svg, .png or .pdf."),
    ] = None,
    set_: Settings = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Move one gain of a model to a target, keep what the model says, and report what that costs.

    A copy is trained so that its next-token distribution on texts that the model sampled itself
    stays, and one gain comes to the target. The price is KL in nats a token on held-out texts;
    next to it stand the floor (the same steps without a target) and the mirror (as far on the other
    side of where the gain was). It is an upper bound: more steps and more texts can only lower it.
    The model itself is never changed.

    With --data rows are kept, and the same command resumes an interrupted one.

    Example: `thermostats steer my-model --gain penultimate --to 0.95 --save steered --data mine`
    """
    chosen = {**parse_settings(set_ or (), SETTINGS), "steps": steps}
    if figure is not None:
        _check_figure(figure)
    steer_model = _load_function("steer")
    rows = steer_model(
        model,
        data=data,
        gain=gain,
        to=targets or None,
        only=only or (),
        rank=rank,
        until=until,
        prompts=prompts,
        also=also,
        save=save,
        seed=seed,
        dtype=dtype,
        dry_run=dry_run,
        **chosen,
    )
    if dry_run:
        return
    if figure is not None:
        from thermostats.plots.price_curves import draw_prices  # noqa: PLC0415 - matplotlib

        draw_prices(rows, figure=figure)
    if as_json:
        print_json(_list_records(rows))
        return
    listed = [_describe_point(row) for row in _list_records(rows)]
    print_rows(listed, list(listed[0]), spare=("size", "ce_rise"))
    print(*_write_sentences(_list_records(rows)), sep="\n")
    _say_where(model, save, data)


@app.command()
def do(
    model: Model,
    what: Annotated[
        list[str],
        typer.Argument(
            help="What is done: W_V * 2, W_O / 2, block 3 * 0.5, without block 3, stream + 64. "
            "Commas join "
            "what is done together.",
            metavar="WHAT",
        ),
    ],
    gain: Annotated[
        str | None,
        typer.Option(
            "--gain", help="Gain whose side of 1 is printed.", autocompletion=lambda: list(SHORT)
        ),
    ] = None,
    prompts: Prompts = None,
    also: Also = None,
    save: Save = None,
    seed: Seed = 1,
    dtype: Precision = "float32",
    set_: Settings = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Change a model without training, and report what that costs and which numbers it moves.

    W_V and W_O of all blocks or some are multiplied (b_V with W_V), what a block writes to
    the stream is multiplied or left out, or a constant is added to the stream. The cost is KL in
    nats a token on texts that the model sampled itself: 0 where no output changes. The model itself
    is never changed.

    Example: `thermostats do my-model "W_V * 2"`, `thermostats do my-model "W_V * 2, W_O / 2"` or
    `thermostats do my-model "without every block"`
    """
    chosen = parse_settings(set_ or (), SETTINGS)
    change_model = _load_function("do")
    rows = change_model(
        model,
        what,
        data=data,
        gain=gain,
        prompts=prompts,
        also=also,
        save=save,
        seed=seed,
        dtype=dtype,
        **chosen,
    )
    records = _list_records(rows)
    if as_json:
        print_json(records)
        return
    columns = ("what", "kl", "kl_lower", "kl_upper", "ce_before", "ce_after", "beyond", "size")
    print_rows(records, columns)
    moved = list(chain.from_iterable(map(_list_moved, records)))
    if moved:
        print_rows(moved, ["what", "quantity", "before", "after", "ratio"])
    else:
        print("No gain moved.")
    _say_where(model, save, data)


def _check_figure(figure: Path) -> None:
    """Raise UsageError for a kind of file that no figure is written to, before anything is
    trained."""
    from thermostats.plots.general import check_figure_file  # noqa: PLC0415 - matplotlib

    check_figure_file(figure)


def _load_function(name: str) -> Any:
    """A function of the module that changes models. Raises UsageError where the extra is not
    installed."""
    try:
        from thermostats.measurement import interventions  # noqa: PLC0415 - torch
    except ImportError as error:
        raise build_install_error(error, "changing a model needs torch and transformers") from error
    return getattr(interventions, name)


def _list_records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dicts, what is empty as None, and numbers kept as text as numbers."""
    from thermostats.modelling.display import convert_records  # noqa: PLC0415 - numpy

    records = convert_records(rows)
    for row in records:
        for name in ("gains_before", "gains_after", "kl_texts"):
            row[name] = json.loads(str(row[name]))
    return records


def _describe_point(row: dict[str, Any]) -> dict[str, Any]:
    """What is printed of one point of a price curve."""
    columns = ("operation", "target", "gain_after", "beyond", "kl", "kl_lower", "kl_upper")
    shown = {name: row[name] for name in columns}
    rise = row["ce_after"] - row["ce_before"]
    return {**shown, "ce_rise": rise, "size": row["size"]}


def _write_sentences(rows: list[dict[str, Any]]) -> list[str]:
    """The price curve in words: floor, targets and whether they were reached."""
    floor = next((row for row in rows if row["operation"] == "floor"), None)
    lines = []
    for row in rows:
        if row["operation"] != "steer":
            continue
        reached = abs(row["gain_after"] / row["target"] - 1) <= REACHED
        end = "" if reached else "; the target was not reached within 0.5%: more steps or texts"
        moved = f"{row['gain']} {row['gain_before']:.4g} to {row['gain_after']:.4g}"
        beyond = f"{row['beyond']:.0%} of {row['n_held_out']} texts on the other side of 1"
        lines.append(f"{moved}: at most {row['kl']:.2g} nats a token, {beyond}{end}")
    if floor is not None:
        lines.append(
            f"The floor, the same steps without a target, is {floor['kl']:.2g} nats a token."
        )
    return lines


def _list_moved(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Numbers that a change moved, by name; those of single blocks are left to `--json`."""
    moved = []
    for name, after in row["gains_after"].items():
        before = row["gains_before"].get(name)
        if before is None or name.startswith(BLOCK):
            continue
        ratio = after / before
        if abs(ratio - 1) > MOVED:
            numbers = {"before": before, "after": after, "ratio": ratio}
            moved.append({"what": row["what"], "quantity": name, **numbers})
    return moved


def _say_where(model: str, save: Path | None, data: Path | None) -> None:
    """What can be done next: compare a saved model, or keep the rows."""
    if save is not None and (save / "config.json").is_file():
        print_next_step(write_command("compare", model, save), visible=is_watched())
    elif data is None:
        print("rows are kept nowhere: --data mine keeps them", file=sys.stderr)
    else:
        print_next_step(
            "thermostats export interventions interventions", data=data, visible=is_watched()
        )
