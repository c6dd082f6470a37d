"""Verbs for what is not measured yet: the gain of a model to come, and the power of a study to come."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from thermostats.command_options import Data, Json
from thermostats.errors import UsageError
from thermostats.next_steps import command
from thermostats.terminal import print_json, print_rows, say_next, watched

app = typer.Typer()
OPTIONS = {"n_layers": "--layers", "n_heads": "--heads", "d_head": "--head-width", "n_params": "--params"}
"""Facts of a model, and the options that state them."""


@app.command()
def predict(
    model: Annotated[
        str | None, typer.Argument(help="A config.json, a model's folder or hub id; its weights are not read.")
    ] = None,
    lab: Annotated[str, typer.Option(help="Lab that trains it.")] = "",
    family: Annotated[str, typer.Option(help="Family of the lab that it belongs to, if any.")] = "",
    gain: Annotated[str, typer.Option(help="Which gain: thermostats ls columns features lists them.")] = (
        "penultimate_gain"
    ),
    layers: Annotated[float | None, typer.Option("--layers", help="Number of blocks.")] = None,
    heads: Annotated[float | None, typer.Option("--heads", help="Heads of a block.")] = None,
    head_width: Annotated[float | None, typer.Option("--head-width", help="Width of a head.")] = None,
    params: Annotated[float | None, typer.Option("--params", help="Weights in all, such as 7e9.")] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Predict the gain of a model before it is measured, and say how good such predictions have been.

    A fit of lab, family, shape and size to the models at hand gives the gain with its interval and the probability
    that it lies below 1. How far that can be relied on is computed from the same models, each predicted by the others:
    those of labs with other models at hand, and those of labs with none. An option stands over what a configuration
    says.

    Example: `thermostats predict my-model/config.json --lab EleutherAI` or
    `thermostats predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI`
    """
    stated = dict(zip(OPTIONS, (layers, heads, head_width, params), strict=True))
    facts = {name: value for name, value in stated.items() if value is not None}
    lacking = [option for name, option in OPTIONS.items() if name not in facts]
    if model is None and lacking:
        line = "thermostats predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab EleutherAI"
        what, allowed = "facts of the model are missing", f"a config.json, or all of {', '.join(OPTIONS.values())}"
        raise UsageError(what, got=f"no {', '.join(lacking)}", allowed=allowed, next_step=line)
    if model is not None and lacking:
        from thermostats.measurement.plan import config_facts  # noqa: PLC0415 - transformers

        facts = {**config_facts(model), **facts}
    from thermostats.modelling.heritage.prediction import LAB, predict_gain  # noqa: PLC0415 - seconds

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
    columns = [name for name in row if name not in ("heritage", "family", *OPTIONS) and row[name] != ""]
    print_rows([row], columns)
    print_rows(records, list(records[0]))
    print(*prediction.sentences(), sep="\n")
    say_next(command("measure", model or "MODEL", what="gains", data=data or "mine"), visible=watched(as_json))


@app.command()
def power(
    models: Annotated[int, typer.Option(min=4, help="Models in the planned study.")],
    labs: Annotated[
        int,
        typer.Option(
            min=2, help="Number of labs that trained them; each has the same number of models, give or take one."
        ),
    ],
    shares: Annotated[
        str,
        typer.Option(
            help="Shares of variance of heritage, geometry and scale; the rest is the residual between models."
        ),
    ] = "0.60,0.15,0.05",
    geometry: Annotated[
        str,
        typer.Option(
            help="met: each lab keeps to one head width; free: geometry is independent of labs; unrelated: "
            "scale is independent of geometry too."
        ),
    ] = "met",
    simulations: Annotated[int, typer.Option(min=20, help="Simulated studies.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    as_json: Json = False,
) -> None:
    """Report how often a study of this size could separate heritage, geometry and scale.

    Uses simulation and the exact engine, and takes seconds.

    Example: `thermostats power --models 48 --labs 16 --shares 0.60,0.15,0.05`
    """
    from thermostats.modelling.heritage.planned import check_size, parsed  # noqa: PLC0415 - only this verb needs it

    check_size(models, labs, geometry)
    parts = parsed(shares)
    from thermostats.modelling.heritage.power import power as plan  # noqa: PLC0415 - scipy

    chances = plan(models, labs, parts, geometry=geometry, simulations=simulations, seed=seed, progress=True)
    if as_json:
        print_json(chances.to_dict())
    else:
        columns = ["statement", "P above", "percent", "error", "lower", "upper", "simulations"]
        print_rows(chances.rows(), columns, as_json)
        print(chances.sentence(), file=sys.stderr)
    twice = f"thermostats power --models {2 * models} --labs {2 * labs}"
    say_next(f"{twice} for a study of twice the size", visible=watched(as_json))
