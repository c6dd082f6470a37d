"""The verb `prove`: a model held against itself, or another tool held against the same model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thermostats.cli.options import Json
from thermostats.errors import UsageError, build_install_error
from thermostats.measurement.printed import check_installed
from thermostats.measurement.spec import (
    PRECISIONS,
    check_device,
    check_set,
    parse_settings,
    require_device,
)
from thermostats.next_steps import write_command
from thermostats.tables.folders import find_lookup_folder
from thermostats.terminal import print_json, print_next_step, print_rows

app = typer.Typer()
SETTABLE = ("device", "trust_remote_code")
"""Settings of `measure` that change how a model is loaded."""
COLUMNS = ["name", "state", "difference", "excess", "allowed", "place", "why"]
TOOL_COLUMNS = ["name", "state", "difference", "ours", "place", "why"]


def list_tools() -> list[str]:
    """Tools that there is an adapter for."""
    from thermostats.measurement.other_tools import TOOLS  # noqa: PLC0415

    return list(TOOLS)


@app.command()
def prove(
    model: Annotated[str, typer.Argument(help="Hub id, or folder of a model.", metavar="MODEL")],
    prompts: Annotated[
        str,
        typer.Option(
            help="As for measure; by default core, of images images, without a tokenizer ids drawn."
        ),
    ] = "",
    tool: Annotated[
        str,
        typer.Option(
            help="Hold another tool that is installed to the same: nnterp, transformer-lens or "
            "nnsight.",
            autocompletion=list_tools,
        ),
    ] = "",
    revision: Annotated[str, typer.Option(help="Branch, tag or commit on the hub.")] = "main",
    dtype: Annotated[
        str,
        typer.Option(help="float32, bfloat16 or float16.", autocompletion=lambda: list(PRECISIONS)),
    ] = "float32",
    offline: Annotated[
        bool, typer.Option("--offline", help="Use only what is on this machine; download nothing.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=f"As for measure: {', '.join(SETTABLE)}."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove that a model is read rightly, on its own prompts: exit code 1 where an identity does
    not hold.

    Block by block and token by token: the stream after a block is the stream before it and what
    both sub-blocks write; each reads what its norm makes of the stream; the heads sum to
    attention's output; states, windows, read gains and facts are the model's own. `difference` is
    relative, `excess` what of it rounding does not explain. The last line is for a badge.

    Example: `thermostats prove my-model`, `thermostats prove my-model --tool nnterp` or
    `thermostats prove gpt2 --json`
    """
    settings = parse_settings(set_ or ())
    if wrong := [name for name in settings if name not in SETTABLE]:
        got = ", ".join(wrong)
        raise UsageError(
            "this setting changes no proof", where="--set", got=got, allowed=", ".join(SETTABLE)
        )
    check_device(settings.get("device", "auto"))
    require_device(settings.get("device", "auto"))
    if prompts:
        check_set(prompts, find_lookup_folder())
    options: dict[str, Any] = {
        "revision": revision,
        "dtype": dtype,
        "download": not offline,
        **settings,
    }
    try:
        check_installed()
        from thermostats.measurement import proving  # noqa: PLC0415
        from thermostats.measurement.session import set_quiet  # noqa: PLC0415
    except ImportError as error:
        raise build_install_error(error, "proving needs torch and transformers") from error
    set_quiet()
    proof = proving.prove(model, prompts=prompts or None, tool=tool, **options)
    if as_json:
        print_json(proof.to_json())
    else:
        print_rows(proving.list_rows(proof), COLUMNS if proof.tool is None else TOOL_COLUMNS)
        print()
        print(proof.badge)
    if not proof.passed:
        raise typer.Exit(1)
    print_next_step(write_command("measure", model, data="mine"), visible=not as_json and not tool)
