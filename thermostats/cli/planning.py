"""Verbs for what is not measured yet: the gain of a model to come, the power of a study to come,
and which models to measure next."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from thermostats.claims.study import choose_claims, list_scripts
from thermostats.cli.options import Analyses, Data, Json
from thermostats.errors import UsageError, build_missing_error
from thermostats.modelling.planned import plan_studies
from thermostats.next_steps import is_file_of_rows, write_command
from thermostats.tables import folders
from thermostats.tables.choices import CALLED
from thermostats.tables.entries import drop_names
from thermostats.terminal import is_watched, print_json, print_next_step, print_rows

app = typer.Typer()
OPTIONS = {
    "n_layers": "--layers",
    "n_heads": "--heads",
    "d_head": "--head-width",
    "n_params": "--params",
}
"""Facts of a model, and the options that state them."""
PREDICTED = ("median", "lower", "upper", "P(gain < 1)", "mean", "sd", "new", "outside")
"""What is printed of a prediction: what was asked for first."""
SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*(MB|GB|TB)?", re.IGNORECASE)
UNITS = {"MB": 1e-3, "GB": 1.0, "TB": 1e3}
"""10⁹ bytes of each unit."""


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
    lacking = list(drop_names(OPTIONS, facts).values())
    if model is None and lacking:
        line = (
            "thermostats predict --layers 24 --heads 16 --head-width 64 --params 4e8 --lab "
            "EleutherAI"
        )
        what = "facts of the model are missing"
        allowed = f"a config.json, or all of {', '.join(OPTIONS.values())}"
        raise UsageError(what, got=f"no {', '.join(lacking)}", allowed=allowed, next_step=line)
    if model is not None and lacking:
        facts = {**_read_facts(model), **facts}
    from thermostats.modelling.heritage.prediction import LAB, predict_gain  # noqa: PLC0415

    try:
        prediction = predict_gain(facts, lab=lab, family=family, gain=gain, data=data)
    except UsageError as error:
        if error.where != LAB:
            raise
        words = [error.allowed if word == lab else word for word in sys.argv[1:]]
        raise error.replace_next_step(write_command(*words)) from None
    (row,) = prediction.table.to_dict("records")
    records = [{**asdict(record), "worthless": record.worthless} for record in prediction.records]
    if as_json:
        print_json({"prediction": row, "record": records, "sentences": prediction.sentences()})
        return
    told = {}
    for name, value in row.items():
        label = name.removeprefix(f"{gain}_").replace(gain, "gain")
        told[label] = value
    shown = [name for name in PREDICTED if told.get(name, "") != ""]
    print_rows([told], shown)
    print_rows(records, list(records[0]))
    print(*prediction.sentences(), sep="\n")
    print_next_step(
        write_command("measure", model or "MODEL", what="gains", data=data or "mine"),
        visible=is_watched(as_json),
    )


def _read_facts(model: str) -> dict[str, int]:
    """Facts of a model by its configuration; UsageError where what reads it is not installed."""
    try:
        from thermostats.measurement.empty_models import read_config_facts  # noqa: PLC0415

        return read_config_facts(model)
    except ModuleNotFoundError as error:
        what = "a configuration is read, and its weights are counted, by torch and transformers"
        allowed = f"the facts themselves: {', '.join(OPTIONS.values())}"
        raise build_missing_error(error, what, allowed) or error from error


def parse_numbers(text: str, option: str) -> list[int]:
    """Whole numbers above 0, separated by commas; UsageError names what is none."""
    numbers = []
    for word in map(str.strip, text.split(",") if text else ()):
        if not word.isdecimal() or int(word) == 0:
            what = "not a whole number above 0"
            allowed = f"{option} 20,40,80"
            raise UsageError(what, where=option, got=repr(word), allowed=allowed)
        numbers.append(int(word))
    return numbers


def _write_sizes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes of studies as the options that state them."""
    written: dict[str, Any] = {}
    for name, of in sizes.items():
        several = name == "sizes"
        written[name] = list(map(_write_numbers, of)) if several else _write_numbers(of)
    return written


def _write_numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def gigabytes(text: str) -> float:
    """10⁹ bytes of `25GB`, `1.5TB`, `800MB` or a number of gigabytes; UsageError for what is
    none."""
    found = SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(
            "not a size of downloads",
            where="--budget",
            got=repr(text),
            allowed="a number with MB, GB or TB, such as 25GB",
            next_step="--budget 25GB",
        )
    unit = (found[2] or "GB").upper()
    return float(found[1]) * UNITS[unit]


@app.command("next")
def next_(
    claim: Annotated[str | None, typer.Argument(help="A claim, such as X02.")] = None,
    budget: Annotated[str, typer.Option(help="What is downloaded at most, such as 25GB.")] = "60GB",
    models: Annotated[int, typer.Option(min=1, help="Models at most.")] = 6,
    every: Annotated[
        bool, typer.Option("--all", help="Every claim that reads measured models.")
    ] = False,
    candidates: Annotated[
        Path | None,
        typer.Option(help="A CSV file of your own candidates; by default those that ship."),
    ] = None,
    looks: Annotated[
        int, typer.Option(help="How often the verdict is asked for in all, at most five.")
    ] = 2,
    taken: Annotated[
        int, typer.Option(help="How often it was already; the rows at hand are one.")
    ] = 1,
    finding: Annotated[
        str, typer.Option(help="Which of the claim's findings; by default the first.")
    ] = "",
    analyses: Analyses = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say which public models to measure next for a claim, and what verdict they would bring.

    Sets of candidates are sought that tell most about the claim's effect within a budget; the best
    three are judged by the claim's own rule in simulated studies. Nothing is downloaded.

    Example: `thermostats next X02 --budget 25GB` or `thermostats next --all --budget 60GB`
    """
    size = gigabytes(budget)
    if (claim is None) != every:
        line = "thermostats next X02 --budget 25GB"
        raise UsageError("a claim or --all is asked for", allowed="one of them", next_step=line)
    if claim is not None:
        choose_claims(
            [claim],
            list_scripts(analyses if analyses is not None else folders.find_shipped("analyses")),
        )
    from thermostats.claims.planning import advice as words  # noqa: PLC0415
    from thermostats.claims.planning.next_models import next_models  # noqa: PLC0415

    rest: dict[str, Any] = {"candidates": candidates, "analyses": analyses}
    if claim is None:
        _print_campaign(size, models, (looks, taken), data, rest, as_json)
        return
    print(f"{claim.upper()}: sets are sought, then judged in simulated studies", file=sys.stderr)
    rest |= {"looks": looks, "taken": taken, "finding": finding, "data": data}
    advice = next_models(claim, budget=size, models=models, **rest)
    if as_json:
        print_json(words.export_advice(advice))
        return
    print(*words.write_sentences(advice), sep="\n")
    if not advice.sets:
        return
    print_rows(words.tabulate_costs(advice), words.COSTS)
    print_rows(words.tabulate_chances(advice), words.CHANCES)
    print(*words.LEGEND, sep="\n")
    print("Set 1:")
    print_rows(words.tabulate_models(advice.sets[0]), words.MODELS, shorten=("model_id",))
    print("Nothing was downloaded. To download and measure set 1, then to judge the claim with it:")
    after = write_command("report", advice.claim, data=data or "mine", analyses=analyses)
    print(*advice.lines, after, sep="\n")


def _print_campaign(
    size: float,
    models: int,
    asked: tuple[int, int],
    data: Path | None,
    rest: dict[str, Any],
    as_json: bool,
) -> None:
    """One table over claims, the models that bring most verdicts within the budget, and what all of
    them bring.

    asked: looks declared and taken.
    """
    from thermostats.claims.planning import advice as words  # noqa: PLC0415
    from thermostats.claims.planning import campaign  # noqa: PLC0415
    from thermostats.claims.planning.next_models import Terms  # noqa: PLC0415
    from thermostats.claims.planning.scoring import Looks  # noqa: PLC0415
    from thermostats.claims.planning.search import Budget  # noqa: PLC0415

    terms = Terms(Budget(size, models), Looks(*asked), data=data)
    advice = []
    for each in campaign.plan_all(terms, **rest):
        print(f"{each.claim}: sets are sought and judged", file=sys.stderr, flush=True)
        advice.append(each)
    chosen = campaign.choose_campaign(advice, size, data)
    judged = []
    for claim, shown in campaign.judge_campaign(chosen, advice, terms, **rest):
        print(f"{claim.claim}: judged with all models of the campaign", file=sys.stderr)
        judged.append((claim, shown))
    chosen = replace(chosen, judged=tuple(judged))
    if as_json:
        print_json(campaign.export_campaign(advice, chosen))
        return
    print_rows([words.summarise_advice(each) for each in advice], words.SUMMARY)
    print(words.SUMMARY_LEGEND.format(models=models, gigabytes=size))
    print(*chosen.write_sentences(), sep="\n")
    if chosen.lines:
        print("Nothing was downloaded. To download and measure them, every line:")
        print(*chosen.lines, sep="\n")


def _check_power(
    claim: str, sizes: Mapping[str, Any], write: Callable[..., str], analyses: Path | None
) -> None:
    """Raise UsageError before anything large is loaded: for a file of rows in the place of a claim,
    for sizes that no study has, and for a claim that is not there. Of one lab the rows say later
    whether a study may be."""
    if is_file_of_rows(claim):
        from thermostats.claims.power import check_claim  # noqa: PLC0415

        check_claim(claim, sizes, is_shell=True)
    of_one_lab = 1 in sizes["labs"] or 1 in map(len, sizes["sizes"])
    if not of_one_lab:
        plan_studies(**sizes, write=write)
    shipped = folders.find_shipped("analyses")
    choose_claims([claim], list_scripts(shipped if analyses is None else analyses))


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
    is. Studies are drawn from the models that the finding is asked of, lab by lab; where these are
    all that were measured, yours are among them (--data).

    Example: `thermostats power C05 --models 20,40,80 --labs 10` or `thermostats power C01 --sizes
    12,5,3,1`
    """
    named: dict[str, Any] = {
        "models": parse_numbers(models, "--models"),
        "labs": parse_numbers(labs, "--labs"),
    }
    named["sizes"] = [parse_numbers(each, "--sizes") for each in sizes or ()]
    rest = {"finding": finding, "studies": studies, "figure": figure, "analyses": analyses}
    rest |= {"data": data, "json": as_json}

    def write(**sizes: Any) -> str:
        return write_command("power", claim, **_write_sizes(sizes), **rest)

    _check_power(claim, named, write, analyses)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is simulated by then is kept
    print(f"{claim.upper()}: rows at hand are read", file=sys.stderr, flush=True)
    from thermostats.claims import power as planning  # noqa: PLC0415
    from thermostats.plots.general import check_figure_file  # noqa: PLC0415

    path = check_figure_file(figure)
    try:
        question, here = planning.read_design(claim, finding, data, analyses)
        asked = planning.plan_like(here, named, write)
        whose, *like_yours = planning.suggest_own_plan(question, data, named) or [""]
        if whose:
            print(f"{claim.upper()}: {whose}", file=sys.stderr, flush=True)
        sizes_asked = ", ".join(study.words for study in asked)
        drawn = "" if whose else f", drawn from {CALLED[question.scope.evidence]},"
        print(f"{claim.upper()}: studies of {sizes_asked}{drawn} are simulated", file=sys.stderr)
        table = planning.simulate_planned_power(question, here, asked, most=studies)
    except KeyboardInterrupt:
        print("\nthermostats: stopped before anything was simulated", file=sys.stderr)
        raise typer.Exit(1) from None
    print_rows(table.to_dict("records"), list(table), as_json)
    others = planning.name_others_rows(question, data)
    if path is not None:
        planning.draw_power(table, path, others)
    if not as_json:
        print(*planning.write_sentences(table, others), sep="\n")
    for line in like_yours:
        print(line, file=sys.stderr)
    if stopped := table.attrs.get("stopped"):
        print(f"thermostats: {stopped} What was simulated stands above.", file=sys.stderr)
        raise typer.Exit(1)
