"""What a study of a claim could show: how often each side of its rule is given in the claim's own
worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thermostats.claims.calibration import Calibration, Side, calibrate_rows
from thermostats.claims.evidence import Evidence
from thermostats.claims.levels import POWER, SIDES, simulate_side
from thermostats.claims.question import Question, convert_numpy
from thermostats.claims.result import AGAINST, SUPPORTED, TooFew, Verdict
from thermostats.claims.rule import ALPHA
from thermostats.claims.run import load_claim
from thermostats.claims.study import choose_claims, list_scripts
from thermostats.claims.worlds import CLAIMED, NULL, Array
from thermostats.errors import UsageError, build_unknown_error
from thermostats.formatting import format_count, format_number, format_percent
from thermostats.modelling.columns import name_asked
from thermostats.modelling.fit_calls import suggest_call
from thermostats.modelling.heritage.fit_heritage import fit_heritage
from thermostats.modelling.heritage.lab_tests import choose_gain
from thermostats.modelling.planned import (
    SEVERAL,
    WANTED,
    Numbers,
    PlannedStudy,
    Sizes,
    draw_rows,
    plan_studies,
)
from thermostats.next_steps import (
    Code,
    call,
    is_file_of_rows,
    write_command,
    write_shell_command,
    write_value,
)
from thermostats.plots.general import (
    COLUMN,
    HEIGHT,
    draw_reference,
    set_column_style,
    set_title,
    start_axes,
    write_figure,
)
from thermostats.tables.choices import CALLED, MEASURED, OWN_ROWS, POOLED
from thermostats.tables.folders import find_data_folder, find_shipped, has_own_runs
from thermostats.tables.incoming import choose_pandas_read
from thermostats.tables.join import suggest_block_join
from thermostats.tables.model_rows import model_rows
from thermostats.terminal import show_progress

DRAWS = 10
STUDIES = 200
AT_ONCE = 1000
SECONDS = 20.0
"""Designs drawn of one size; studies of each size, and where a rule tests many at once; most
CPU-seconds of a world."""
WORLD = {SUPPORTED: CLAIMED, AGAINST: NULL}
"""The world in which a side is true: the size that the claim states, and none."""
FEWEST, GAIN, JOINED = 8, "penultimate_gain", "mine"
"""Models from which on a table is planned by alone; the gain that joined blocks are planned by, and
the folder that they are joined to."""
LIKE_YOURS = "Studies like your models, by a fit to them, which asks its own question"
PLANNED_BY_FIT = "studies like a table are planned by a fit to it"
COLUMNS = [
    "side",
    "models",
    "labs",
    "power",
    "error",
    "limit",
    "least",
    "largest",
    "studies",
    "finding",
]


def power(
    claim: str,
    *,
    models: Numbers = (),
    labs: Numbers = (),
    sizes: Sizes = (),
    finding: str = "",
    most: int | None = None,
    data: str | Path | None = None,
    analyses: str | Path | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """Simulate how often studies of these sizes would give a claim's verdicts, in its own worlds.

        P(a ≤ .05 and a < α*), a the attained level of a side, as a verdict is given

    Of “supported” it is taken in the world of the size that the claim states, of “not supported” in
    the null. α* is simulated on the first design of a size, in the worst worlds of the design
    nearest to it in `data/worlds.csv` (as `thermostats report --calibrate` does). Ten designs of
    each size are drawn from the rows at hand of the finding's own set of evidence (`draw_rows`);
    outcomes are simulated on them.

    Parameters
    ----------
    claim : str
        Its id, of `analyses` or those that ship.
    models, labs : int or sequence of int
        Every pair of them is a size; a number is a list of one.
    sizes : sequence of int, or sequence of them
        Labs of so many models each, of one study or of several.
    finding : str
        Its name where the claim has several, by default the first that was tried in worlds.
    most : int
        Simulated studies of each size and side, by default 1,000, or 200 of a rule that is tested
        study by study; there is an end after 20 s each.
    data : str or Path
        A user's folder, read together with the package's own tables.
    analyses : str or Path
        A folder of analyses of your own.
    seed : int
        Of the simulations.

    Returns
    -------
    DataFrame
        Columns: side, models, labs, power, error (its standard error over the designs), limit (α*,
        at most .05), least (the smallest level that a study attained), largest (models of the
        largest lab), studies, finding. Where it is stopped (Ctrl-C), what it has by then, and
        `attrs["stopped"]` says what it lacks.

    Raises
    ------
    UsageError
        For a claim or finding that is not there or has no worlds, for a fit, which has a power of
        its own, for a table or its file, for sizes that no study has, and where too few rows are
        at hand.

    Examples
    --------
    >>> import thermostats
    >>> table = thermostats.power("C05", models=[20], labs=[10], most=50)
    >>> table[["side", "models", "labs", "largest"]]
                side  models  labs  largest
    0      supported      20    10        2
    1  not supported      20    10        2
    """
    asked = {"models": models, "labs": labs, "sizes": sizes}
    check_claim(claim, asked)
    rest = {"finding": finding, "most": most, "data": data, "analyses": analyses}
    said = {name: value for name, value in rest.items() if value}
    question, here = read_design(claim, finding, data, analyses)
    planned = plan_like(here, asked, lambda **possible: call("power", claim, **possible, **said))
    return simulate_planned_power(question, here, planned, most=most, seed=seed)


def read_design(
    claim: str, finding: str, data: str | Path | None, analyses: str | Path | None
) -> tuple[Question, pd.DataFrame]:
    """A claim's finding, and the rows at hand that studies of it are drawn from; raises as
    `power`."""
    question = _find_question(claim, finding, analyses)
    trial = question.require_trial()[1]
    here = question.scope.select_evidence(Evidence(data))
    try:
        return question, convert_numpy(trial.read_rows(here, question.over))
    except TooFew as error:
        raise UsageError(
            "too few rows are at hand to draw studies from", where=question.id
        ) from error


def name_others_rows(question: Question, data: str | Path | None) -> str:
    """What studies are drawn from, in words, where the user has models that are not among it; else
    empty."""
    name = question.scope.evidence
    if name in (POOLED, MEASURED) or not has_own_runs(data):
        return ""
    return CALLED.get(name, name)


def suggest_own_plan(
    question: Question, data: str | Path | None, sizes: Mapping[str, Any]
) -> list[str]:
    """That studies are drawn from other models than the user's, and the command that plans with
    these where there is one; empty where the user has none, or they are among the models that are
    asked."""
    others = name_others_rows(question, data)
    if not others:
        return []
    line = _write_own_plan(question, find_data_folder(data), sizes)
    return [
        f"asked of {others}, so that studies are drawn from these and not from your models",
        *([f"{LIKE_YOURS}: {line}"] if line else []),
    ]


def _write_own_plan(question: Question, data: Path, sizes: Mapping[str, Any]) -> str:
    """The command that plans with the user's models: by the line that asks what the question asks,
    else by the fit of labs, shape and size where there are several labs; empty where neither is."""
    gain = choose_gain(data)
    evidence = Evidence(data)
    own = model_rows(evidence.named(OWN_ROWS), gain)
    taken, note = _write_rows(own["model_id"].tolist(), gain, data)
    rows = own if not note else model_rows(evidence.named(POOLED), gain)
    stated = [*sizes.get("labs", ()), *map(len, sizes.get("sizes", ()))]
    has_labs = rows["heritage"].ne("").all() and rows["heritage"].nunique() >= SEVERAL
    of_labs = has_labs and min(stated, default=SEVERAL) >= SEVERAL
    said = _write_asked(sizes)
    covariate = question.views.covariate if question.views else ""
    if covariate and rows[covariate].notna().all():
        line = call(
            "fit_line", taken, "log_gain", covariate, **({} if of_labs else {"group": None})
        )
        if not of_labs:
            models = [*sizes.get("models", ()), *map(sum, sizes.get("sizes", ()))]
            said = _write_asked({"models": models})
    elif of_labs:
        line = _write_heritage_fit(taken, gain, few=bool(note))
    else:
        return ""
    return f"{note}{write_shell_command(f'{line}.power({said})')}"


def plan_like(
    here: pd.DataFrame, sizes: Mapping[str, Any], write: Callable[..., str]
) -> list[PlannedStudy]:
    """Studies of the sizes that are asked for, of one lab only where the rows at hand are of one;
    raises as `plan_studies`."""
    fewest = min(SEVERAL, here["heritage"].nunique()) if "heritage" in here else SEVERAL
    return plan_studies(**sizes, write=write, fewest=fewest)


def _find_question(claim: str, finding: str, analyses: str | Path | None) -> Question:
    """The finding of a claim that is asked about."""
    paths = list_scripts(analyses if analyses is not None else find_shipped("analyses"))
    (name,) = choose_claims([claim], paths)
    tried: dict[str, Question] = {}
    for question in load_claim(paths[name]).questions:
        if question.trial is not None and question.trial.worlds is not None:
            tried[question.id] = question
    if not tried:
        step = "thermostats ls claims"
        raise UsageError(
            "no rule of this claim was tried in simulated worlds", got=name, next_step=step
        )
    if not finding:
        return next(iter(tried.values()))
    short = {}
    for id_, question in tried.items():
        short[id_.partition(".")[2]] = question
    found = tried.get(finding) or short.get(finding)
    if found is None:
        what = "no such finding that was tried in worlds"
        raise build_unknown_error(what, finding, list(short))
    return found


def check_claim(claim: Any, sizes: Mapping[str, Any], *, is_shell: bool = False) -> None:
    """Raise UsageError where a fit, a table or its file stands in the place of a claim, with the
    call that plans studies like it.

    sizes: those that are asked for. is_shell: whether the call is a command.
    """
    is_file = isinstance(claim, str) and is_file_of_rows(claim)
    if isinstance(claim, str) and not is_file:
        return
    said = _write_asked(sizes)
    what = "a claim is named by its id"
    got = f"{type(claim).__name__} in the place of a claim"
    step = f'thermostats.power("C05", {said})'
    if hasattr(claim, "law"):
        what = "a fit plans studies by its own law"
        step = f"fit.power({said})"
    elif isinstance(claim, pd.DataFrame):
        what = PLANNED_BY_FIT
        step = _plan_by_fit(claim, said)
    elif is_file:
        what = PLANNED_BY_FIT
        got = f"{claim} in the place of a claim"
        step = _plan_by_file(claim, said, is_shell)
    allowed = "the id of a claim, such as C05"
    raise UsageError(what, got=got, allowed=allowed, next_step=step)


def _write_asked(sizes: Mapping[str, Any]) -> str:
    """The sizes that are asked for, as arguments; an example's where none is."""
    stated = {}
    for name, value in sizes.items():
        if value not in ((), []):
            stated[name] = value
    stated = stated or {"models": [40, 80], "labs": 9}
    return ", ".join(f"{name}={write_value(value)}" for name, value in stated.items())


def _plan_by_file(file: str, said: str, is_shell: bool) -> str:
    """The lines that read a file, fit its rows and plan studies like theirs."""
    made = choose_pandas_read(Path(file))
    first = f"df = {made.line}"
    rows = made.read()
    if not is_shell:
        return f"{first}\n{_plan_by_fit(rows, said)}"
    joining, models = suggest_block_join(rows)
    if not joining:
        line, *notes = _write_fit(rows, said)
        return "\n".join([write_shell_command(line, first), *notes])
    line, note = _write_fit_of_blocks(models, said)
    command = write_shell_command(line)
    return f"{write_command('join', file, data=JOINED)}\n# then {note}{command}"


def suggest_file_fit(file: Path) -> str:
    """The command that fits the rows of a file, a row a model, and notes; empty where they are rows
    of blocks, and where columns would have to be filled in."""
    made = choose_pandas_read(file)
    rows = made.read()
    joining, _ = suggest_block_join(rows)
    if joining:
        return ""
    line, *notes = suggest_call(fit_heritage, rows).split("\n")
    if name_asked("outcome") in line or not line:
        return ""
    return "\n".join([write_shell_command(line, f"df = {made.line}"), *notes])


def _plan_by_fit(rows: pd.DataFrame, said: str) -> str:
    """The line that fits rows and plans studies like theirs; of rows of blocks, once they are
    joined, a row a model.

    said: the sizes that are asked for, as arguments.
    """
    joining, models = suggest_block_join(rows)
    if not joining:
        return "\n".join(_write_fit(rows, said))
    line, note = _write_fit_of_blocks(models, said)
    return f"{joining}\n# then {note}{line}"


def _write_fit(rows: pd.DataFrame, said: str) -> list[str]:
    """The line that fits a table `df` of a row a model and plans studies like it, and notes."""
    line, *notes = suggest_call(fit_heritage, rows).split("\n")
    return [f"{line}.power({said})", *notes]


def _write_fit_of_blocks(models: Sequence[str], said: str) -> tuple[str, str]:
    """The line that fits models whose blocks are joined and plans studies like them, and a note
    before it."""
    taken, note = _write_rows(models, GAIN, JOINED)
    return f"{_write_heritage_fit(taken, GAIN, few=bool(note))}.power({said})", note


def _write_rows(models: Sequence[str], gain: str, data: str | Path) -> tuple[Code, str]:
    """The call that gives models of a user's folder, with all others that are measured where they
    are few, and a note that says so."""
    few = len(models) < FEWEST
    taken = call("model_rows", POOLED if few else OWN_ROWS, gain, data=str(data))
    return Code(taken), f"yours are {len(models)}: with all others that are measured, " * few


def _write_heritage_fit(taken: Code, gain: str, *, few: bool) -> str:
    """The call that fits labs, shape and size to rows."""
    stated = {} if few else {"geometry": ["n_layers", "n_heads"]}
    return call("fit_heritage", taken, outcome=gain, **stated)


def simulate_planned_power(
    question: Question,
    here: pd.DataFrame,
    planned: Sequence[PlannedStudy],
    *,
    most: int | None = None,
    seed: int = 1,
) -> pd.DataFrame:
    """The table of `power` for one question and the rows that studies are drawn from."""
    total = most or (STUDIES if question.require_trial()[1].many_studies is None else AT_ONCE)
    rows: list[dict[str, Any]] = []
    stopped = ""
    for place, study in enumerate(planned):
        made: dict[Verdict, list[Array]] = {}
        try:
            rng = np.random.default_rng(seed)
            show_progress(f"{question.id}: studies of {study.words}")
            designs = [draw_rows(study, here, rng) for _ in range(DRAWS)]
            known = calibrate_rows(question, designs[0])
            for side in _list_true_sides(known):
                show_progress(f"{question.id}: “{side}” in studies of {study.words}")
                for levels in _simulate_designs(question, designs, side, total, seed):
                    made.setdefault(side, []).append(levels)
        except KeyboardInterrupt:
            left = len(planned) - place - 1
            stopped = f"Stopped while studies of {study.words} were simulated"
            stopped += f"; {format_count(left, 'further size')} not started" * bool(left) + "."
        size = {"models": study.models, "labs": len(study.sizes), "largest": study.sizes[0]}
        for side, levels_found in made.items():
            if len(levels_found) > 1:  # else nothing is known of its error
                rates = _summarise_rates(levels_found, known.side(side))
                rows.append({"finding": question.id, "side": str(side), **size, **rates})
        if stopped:
            break
    if stopped and not rows:
        raise KeyboardInterrupt
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.attrs |= {"stopped": stopped} if stopped else {}
    return table


def _list_true_sides(known: Calibration) -> list[Verdict]:
    """Sides that are true in their world."""
    true_sides: list[Verdict] = []
    for side in SIDES:
        if known.side(side).rows["box"].eq(POWER).any():
            true_sides.append(side)
    return true_sides


def _summarise_rates(made: Sequence[Array], side: Side) -> dict[str, Any]:
    """How often a side is given over designs, below which level, in how many studies."""
    rates = np.array([side.mark_given(of).mean() for of in made])
    limit = ALPHA if np.isnan(side.limit()) else min(ALPHA, side.limit())
    error = float(rates.std(ddof=1) / len(rates) ** 0.5)
    least = min(of.min() for of in made)
    numbers = {"power": float(rates.mean()), "error": error, "limit": limit, "least": least}
    return {**numbers, "studies": sum(map(len, made))}


def _simulate_designs(
    question: Question, designs: Sequence[pd.DataFrame], side: Verdict, total: int, seed: int
) -> Iterator[Array]:
    """Attained levels of a side in simulated studies of each design, in the world where it is
    true; of statements about units at hand, in the studies where it is."""
    worlds = question.require_trial()[1].worlds
    assert worlds is not None  # noqa: S101
    world = worlds.build_world(WORLD[side])
    n = -(-total // len(designs))
    for draw, rows in enumerate(designs):
        try:
            studies = n, f"planned {seed} {draw}", SECONDS / len(designs)
            yield simulate_side(question, rows, world, side, studies, true=True)
        except (UsageError, TooFew):  # such rows do not carry the test
            yield np.ones(n)


def write_sentences(table: pd.DataFrame, others: str = "") -> list[str]:
    """For each side the smallest study that gives it mostly, or that none does.

    others: what studies are drawn from, where that is not the user's models.
    """
    lines = []
    drawn = f", drawn from {others}," * bool(others)
    for side, rows in table.groupby("side", sort=False):
        enough = rows[rows["power"] >= WANTED].sort_values(["models", "labs"])
        what = f"“{side}” where it is true"
        if enough.empty:
            share = format_percent(WANTED)
            lines.append(f"No study of these sizes{drawn} says {what} in {share} of simulations.")
            if (rows["least"] >= rows["limit"]).all():
                end = (
                    f"No simulated test attains a level below α*: the least is "
                    f"{format_number(rows['least'].min(), 2)}"
                )
                lines.append(
                    f"{end}. What a test of more rearrangements would find was not simulated."
                )
            continue
        least = enough.iloc[0]
        models = format_count(int(least["models"]), "model")
        size = f"{models} of {format_count(int(least['labs']), 'lab')}"
        share = format_percent(least["power"])
        lines.append(f"{size}{drawn} would say {what} in {share} of simulations.")
    return lines


def draw_power(table: pd.DataFrame, path: Path, others: str = "") -> None:
    """Write a figure of power against the number of models, a line for each side and number of
    labs; others: as `write_sentences` has it."""
    with set_column_style():
        axes = start_axes(figsize=(COLUMN, HEIGHT))
        for (side, labs), rows in table.groupby(["side", "labs"], sort=False):
            at = rows.sort_values("models")
            style = "-" if side == SUPPORTED else "--"
            x, y, error = (at[name].to_numpy(np.float64) for name in ("models", "power", "error"))
            axes.errorbar(
                x, y, error, label=f"{side}, {labs} labs", marker="o", capsize=2, linestyle=style
            )
        draw_reference(axes, WANTED)
        axes.set(xlabel="models", ylabel="share of simulated studies", ylim=(0, 1))
        axes.set_xlabel(f"models, power of {table['finding'].iloc[0]}")
        set_title(axes, write_sentences(table, others)[0])
        axes.legend(loc="best")
        write_figure(axes, path)
