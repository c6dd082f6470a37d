"""Verbs for what is not measured yet: the gain of a model to come, and the power of a study to
come."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from thermostats.claims.planned import studies as check_studies
from thermostats.claims.study import chosen, scripts
from thermostats.cli.options import Analyses, Data, Json
from thermostats.errors import UsageError
from thermostats.next_steps import command
from thermostats.tables import folders
from thermostats.terminal import DIGITS, print_json, print_rows, say_next, watched

app = typer.Typer()
OPTIONS = {
    "n_layers": "--layers",
    "n_heads": "--heads",
    "d_head": "--head-width",
    "n_params": "--params",
}
"""Facts of a model, and the options that state them."""


@app.command()
def predict(
    model: Annotated[
        str | None,
        typer.Argument(help="A config.json, a model's folder or hub id; its weights are not read."),
    ] = None,
    lab: Annotated[str, typer.Option(help="Lab that trains it.")] = "",
    family: Annotated[str, typer.Option(help="Family of the lab that it belongs to, if any.")] = "",
    gain: Annotated[
        str, typer.Option(help="Which gain: thermostats ls columns features lists them.")
    ] = ("penultimate_gain"),
    layers: Annotated[float | None, typer.Option("--layers", help="Number of blocks.")] = None,
    heads: Annotated[float | None, typer.Option("--heads", help="Heads of a block.")] = None,
    head_width: Annotated[
        float | None, typer.Option("--head-width", help="Width of a head.")
    ] = None,
    params: Annotated[
        float | None, typer.Option("--params", help="Weights in all, such as 7e9.")
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Predict the gain of a model before it is measured, and say how good such predictions have
    been.

    A fit of lab, family, shape and size to the models at hand gives the gain with its interval and
    the probability that it lies below 1. How far that can be relied on is computed from the same
    models, each predicted by the others: those of labs with other models at hand, and those of labs
    with none. An option stands over what a configuration says.

    Example: `thermostats predict my-model/config.json --lab EleutherAI` or
    `thermostats predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI`
    """
    stated = dict(zip(OPTIONS, (layers, heads, head_width, params), strict=True))
    facts = {name: value for name, value in stated.items() if value is not None}
    lacking = [option for name, option in OPTIONS.items() if name not in facts]
    if model is None and lacking:
        line = (
            "thermostats predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab "
            "EleutherAI"
        )
        what = "facts of the model are missing"
        allowed = f"a config.json, or all of {', '.join(OPTIONS.values())}"
        raise UsageError(what, got=f"no {', '.join(lacking)}", allowed=allowed, next_step=line)
    if model is not None and lacking:
        from thermostats.measurement.plan import config_facts  # noqa: PLC0415

        facts = {**config_facts(model), **facts}
    from thermostats.modelling.heritage.prediction import LAB, predict_gain  # noqa: PLC0415

    try:
        prediction = predict_gain(facts, lab=lab, family=family, gain=gain, data=data)
    except UsageError as error:
        again = command(*(error.allowed if word == lab else word for word in sys.argv[1:]))
        raise error.ending_in(again) if error.where == LAB else error from None
    (row,) = prediction.table.to_dict("records")
    records = [{**asdict(record), "worthless": record.worthless} for record in prediction.records]
    if as_json:
        print_json({"prediction": row, "record": records, "sentences": prediction.sentences()})
        return
    columns = [
        name for name in row if name not in ("heritage", "family", *OPTIONS) and row[name] != ""
    ]
    print_rows([row], columns)
    print_rows(records, list(records[0]))
    print(*prediction.sentences(), sep="\n")
    say_next(
        command("measure", model or "MODEL", what="gains", data=data or "mine"),
        visible=watched(as_json),
    )


def numbers(text: str, option: str) -> list[int]:
    """Whole numbers above 0, separated by commas; UsageError names what is none."""
    words = [word.strip() for word in text.split(",")] if text else []
    if wrong := [word for word in words if not word.isdecimal() or int(word) == 0]:
        raise UsageError(
            "not a whole number above 0",
            where=option,
            got=repr(wrong[0]),
            allowed=f"{option} 20,40,80",
        )
    return [int(word) for word in words]


@app.command()
def power(
    claim: Annotated[str, typer.Argument(help="A claim, such as C05.")],
    models: Annotated[str, typer.Option(help="Numbers of models, such as 20,40,80.")] = "",
    labs: Annotated[str, typer.Option(help="Numbers of labs, as even in size as may be.")] = "",
    sizes: Annotated[
        list[str] | None,
        typer.Option(help="Models of each lab of one study, such as 12,5,3,1; may be repeated."),
    ] = None,
    finding: Annotated[
        str, typer.Option(help="Which of the claim's findings; by default the first.")
    ] = "",
    studies: Annotated[
        int | None,
        typer.Option(
            min=20, help="Simulated studies of each size; by default 1,000, or 200 where slow."
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw it into this file: .svg, .png or .pdf.")
    ] = None,
    analyses: Analyses = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Report how often studies of these sizes would reach a claim's verdicts, in the worlds that
    the claim declares.

    "Supported" is asked for where the claim is true at its own size, "not supported" where nothing
    is. Studies are drawn from the models at hand, lab by lab, yours among them (--data).

    Example: `thermostats power C05 --models 20,40,80 --labs 10` or `thermostats power C01 --sizes
    12,5,3,1`
    """
    named: dict[str, Any] = {"models": numbers(models, "--models"), "labs": numbers(labs, "--labs")}
    named["sizes"] = [numbers(each, "--sizes") for each in sizes or ()]
    if not (named["sizes"] or (models and labs)):
        step = f"thermostats power {claim} --models 20,40,80 --labs 10"
        raise UsageError(
            "no study is asked for", allowed="--models and --labs, or --sizes", next_step=step
        )
    check_studies(**named)
    chosen([claim], scripts(analyses if analyses is not None else folders.shipped("analyses")))
    from thermostats.claims.power import draw_power, sentences  # noqa: PLC0415
    from thermostats.claims.power import power as planned  # noqa: PLC0415
    from thermostats.plots.general import figure_file  # noqa: PLC0415

    path = figure_file(figure)
    table = planned(claim, **named, finding=finding, most=studies, data=data, analyses=analyses)
    print_rows(table.to_dict("records"), list(table), as_json, digits=DIGITS)
    if path is not None:
        draw_power(table, path)
    if not as_json:
        print(*sentences(table), sep="\n")
