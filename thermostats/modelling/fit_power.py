"""Power of a study to come under the law of a fit: outcomes of other models of other labs are
simulated from its draws, and the law is fitted to each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.formatting import format_count, format_percent, format_statement_chance
from thermostats.modelling.draws import Array, find_equal_tailed
from thermostats.modelling.fitted_law import FittedLaw
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.mixed_model import MixedDesign
from thermostats.modelling.planned import (
    LEAST,
    WANTED,
    Numbers,
    PlannedStudy,
    Sizes,
    draw_rows,
    plan_studies,
    read_sizes,
)
from thermostats.plots.general import draw_reference, set_title, start_axes
from thermostats.terminal import show_progress

SURE = 0.95
"""A probability that a study reports as an answer."""
SELDOM = 0.01
"""Share of studies that are sure of the opposite, below which no sentence has it."""
STUDIES, DESIGNS = 200, 10
"""Simulated studies of a size, and sets of rows that these have."""
DRAWS = 250
"""Of a chain, of the fit to a simulated study."""
FITS = "fit_heritage and fit_line, with normal residuals and effects"
COLUMNS = ["asked", "models", "labs", "largest", "power", "against", "error", "studies"]
LAB, MODEL = "heritage", "model_id"
TWO_SIDES = re.compile(r"(?P<more>[^<>]+) > (?P<less>0|(?!.* and )[^<>]+)")
"""A statement whose opposite is its two sides the other way round."""
Asked = Mapping[str, Callable[[Mapping[str, Array]], tuple[bool, bool]]]
"""What a study is asked, by its words: whether it is reached, and whether its opposite is."""


@dataclass(frozen=True, repr=False)
class FitPower:
    """How often studies of some sizes would reach an answer; at a prompt its sentences and its
    table."""

    table: pd.DataFrame
    """By what is asked and size: power, the share of simulated studies that reach it; against, that
    are as sure of its opposite; error, of both at most, by simulation; studies."""
    law: str
    stopped: str = ""
    """What was not simulated, where it was stopped."""
    chances: Mapping[str, float] = field(default_factory=dict)
    """P of each statement by the fit that studies are drawn from. However large, a study finds what
    is so in the draw that it is of: power comes to this share."""

    @property
    def sentences(self) -> list[str]:
        """For each thing asked a line, from the smallest study to the largest; then the next call,
        where none was large enough and a larger one could be."""
        lines = []
        short = False
        for asked, rows in self.table.groupby("asked", sort=False):
            parts = [_write_share(row) for row in rows.to_dict("records")]
            chance = self.chances.get(str(asked), 1.0)
            lines.append(f"{asked}: {', '.join(parts)}; {_describe_enough(rows, chance)}")
            short |= rows["power"].max() < WANTED <= _bound_power(chance)
        if self.stopped:
            return [*lines, self.stopped]
        return [*lines, f"next: {_write_larger(self.table)}"] if short else lines

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw power against the number of models, a line for each thing asked and number of labs,
        onto the axes or onto those of a new figure, and return them."""
        axes = start_axes() if axes is None else axes
        several = self.table["labs"].nunique() > 1
        for (asked, labs), rows in self.table.groupby(["asked", "labs"], sort=False):
            at = rows.sort_values("models")
            label = f"{asked}, {labs} labs" if several else str(asked)
            x, y, error = at[["models", "power", "error"]].to_numpy(np.float64).T
            axes.errorbar(x, y, error, label=label, marker="o", capsize=2)
        draw_reference(axes, WANTED)
        axes.set(xlabel="models", ylabel="share of simulated studies", ylim=(0, 1))
        first = self.sentences[0] if len(self.table) else self.stopped
        set_title(axes, first)
        axes.legend(loc="best", fontsize="small")
        return axes

    def __repr__(self) -> str:
        table = self.table.to_string(index=False, float_format=lambda x: f"{x:.3f}")
        return "\n".join([*self.sentences, table])


def _describe_enough(rows: pd.DataFrame, chance: float) -> str:
    """The smallest study that reaches what is asked mostly, or that none does, nor would; chance:
    that the fit gives it."""
    enough = rows[rows["power"] >= WANTED].sort_values(["models", "labs"], kind="stable")
    often = format_percent(WANTED)
    if enough.empty and _bound_power(chance) < WANTED:
        return (
            f"no study of these sizes reaches {often}, nor would a larger one: in the fit itself "
            f"{format_statement_chance('P', chance)}"
        )
    if enough.empty:
        return f"no study of these sizes reaches {often}"
    return f"{often} from {_write_size(enough.iloc[0].to_dict())} on"


def _bound_power(chance: float) -> float:
    """What power comes to at most, P + (1 − 0.95) (1 − P): every study of what is so is sure of it,
    and of what is not so no more than its error allows."""
    return chance + (1 - SURE) * (1 - chance)


def _write_larger(rows: pd.DataFrame) -> str:
    """The call for a study with twice the models of the largest, and twice its labs."""
    largest = rows.sort_values(["models", "labs"], kind="stable").iloc[-1]
    sizes = {"models": 2 * int(largest["models"])}
    if largest["labs"] > 1:
        sizes["labs"] = 2 * int(largest["labs"])
    return _write_call(**sizes)


def _write_share(row: Mapping[Any, Any]) -> str:
    """How often a study of a size reaches what is asked, and is as sure of the opposite where that
    is not hardly ever."""
    power = f"{format_percent(row['power'])} of studies of {_write_size(row)}"
    opposite = f" ({format_percent(row['against'])} are as sure of the opposite)"
    return power + opposite if row["against"] >= SELDOM else power


def _write_size(row: Mapping[Any, Any]) -> str:
    labs = f" of {row['labs']} labs" if row["labs"] > 1 else ""
    return f"{row['models']} models{labs}"


def simulate_power(
    fit: FittedLaw,
    models: Numbers,
    labs: Numbers,
    sizes: Sizes,
    *,
    studies: int = STUDIES,
    seed: int,
) -> FitPower:
    """The answer of `Fit.power`."""
    design = _require_design(fit)
    planned = _plan(design, models, labs, sizes)
    asked = _list_questions(fit, design)
    rows = []
    stopped = ""
    for place, study in enumerate(planned):
        reached = []
        try:
            show_progress(f"{study.words}: {studies} studies are simulated and fitted")
            for each in _simulate(fit, design, study, studies, seed):
                answers = [question(each.quantities) for question in asked.values()]
                reached.append(np.array(answers))
        except KeyboardInterrupt:
            left = len(planned) - place - 1
            stopped = f"Stopped after {len(reached)} of {studies} studies of {study.words}"
            stopped += f"; {format_count(left, 'further size')} not started" * bool(left) + "."
        if reached:
            rows += _summarise(study, list(asked), np.array(reached))
        if stopped:
            break
    if not rows:
        raise KeyboardInterrupt
    table = pd.DataFrame(rows, columns=COLUMNS)
    order = list(asked)
    table = table.sort_values("asked", key=lambda names: names.map(order.index), kind="stable")
    chances = _find_chances(fit)
    return FitPower(table.reset_index(drop=True), fit.law.name, stopped, chances)


def is_planned(fit: FittedLaw) -> bool:
    """Whether studies can be simulated by a fit: its rows are its outcomes."""
    design = fit.design
    plain = isinstance(design, MixedDesign) and isinstance(fit.model, Gaussian)
    return bool(plain and len(design.outcomes) == len(fit.rows) and design.by_row)


def _require_design(fit: FittedLaw) -> MixedDesign:
    """The design of a fit whose rows are its outcomes; UsageError for another one."""
    if is_planned(fit):
        return fit.design  # type: ignore[return-value]
    raise UsageError(
        "studies are not simulated by this law",
        where=fit.law.name,
        allowed=FITS,
        next_step='a claim has the power of its own rule: thermostats.power("C05", models=[40], '
        "labs=[9])",
    )


def _plan(design: MixedDesign, models: Numbers, labs: Numbers, sizes: Sizes) -> list[PlannedStudy]:
    """The studies that are asked for; of a fit without labs by their numbers of models alone."""
    if design.groups:
        return plan_studies(models, labs, sizes, write=_write_call)
    numbers = read_sizes(models, "models")
    if not numbers or min(numbers) < LEAST:
        raise UsageError(
            "no study is asked for",
            got=f"models={numbers}",
            allowed=f"numbers of models, {LEAST} or more: this fit knows no labs",
            next_step="fit.power(models=[40, 80])",
        )
    return [PlannedStudy((number,)) for number in numbers]


def _write_call(**sizes: Any) -> str:
    """The call that asks for studies of these sizes."""
    arguments = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return f"fit.power({arguments})"


def _list_questions(fit: FittedLaw, design: MixedDesign) -> Asked:
    """Statements that may be sure, those about slopes first and each the way that the fit finds
    likelier, and slopes whose intervals may exclude 0."""
    slopes = []
    for each in design.mixed.fixed:
        if each.column and each.quantity:
            slopes.append(each.quantity)
    statements = fit.law.statements
    of_slopes = [name for name in statements if name.startswith(tuple(slopes))]
    asked = {}
    for name in dict.fromkeys([*of_slopes, *statements]):
        likelier, turned = _choose_direction(fit, name)
        asked[_write_question(likelier)] = partial(_is_sure, statements[name], turned)
    for name in slopes:
        words = f"{fit.level:.0%} interval of {name} excludes 0"
        asked[words] = partial(_excludes_zero, name, fit.level)
    return asked


def _find_chances(fit: FittedLaw) -> dict[str, float]:
    """P of each statement that studies are asked, by the fit itself."""
    chances = {}
    for name in fit.law.statements:
        likelier, turned = _choose_direction(fit, name)
        chance = fit.probability(name)
        chances[_write_question(likelier)] = 1 - chance if turned else chance
    return chances


def _write_question(statement: str) -> str:
    return f"P({statement}) ≥ {SURE:g}"


def _choose_direction(fit: FittedLaw, name: str) -> tuple[str, bool]:
    """The words of a statement or of its opposite, whichever the fit finds likelier, and whether
    it is the opposite."""
    sides = TWO_SIDES.fullmatch(name)
    if sides is None or fit.probability(name) >= 0.5:
        return name, False
    more = sides["more"]
    less = sides["less"]
    return (f"{more} < 0" if less == "0" else f"{less} > {more}"), True


def _is_sure(statement: Any, turned: bool, values: Mapping[str, Array]) -> tuple[bool, bool]:
    """Whether a statement is probable enough, and whether its opposite is; turned: its opposite is
    what is asked."""
    chance = float(np.mean(statement(values)))
    sure = chance >= SURE
    opposite = chance <= 1 - SURE
    return (opposite, sure) if turned else (sure, opposite)


def _excludes_zero(name: str, level: float, values: Mapping[str, Array]) -> tuple[bool, bool]:
    """Whether an interval lies on one side of 0; it has no opposite."""
    lower, upper = find_equal_tailed(values[name].ravel(), level)
    return bool(lower > 0 or upper < 0), False


def _simulate(
    fit: FittedLaw, design: MixedDesign, study: PlannedStudy, studies: int, seed: int
) -> Iterator[FittedLaw]:
    """Fits of the law to simulated studies, one after the other."""
    rng = np.random.default_rng([seed, *study.sizes])
    here = _name_units(fit.rows, design)
    values = fit.draws.few(studies)
    values.pop("error", None)
    settings = replace(fit.settings, draws=DRAWS)
    for place in range(DESIGNS):
        chosen = {name: drawn[place::DESIGNS] for name, drawn in values.items()}
        rows = _rename(draw_rows(study, here, rng), design)
        table = design.mixed.tabulate(rows, fit.rows)
        new = design.mixed.arrange(table, fit.rows, design)
        for outcomes in new.gaussian.replicate(chosen, rng):
            simulated = rows.assign(**{design.mixed.outcome: outcomes})
            again = fit.law.of(simulated)
            drawn = again.model.sample(seed=int(rng.integers(2**31)), settings=settings)
            yield replace(fit, rows=simulated, design=again, drawn=drawn, call=None)


def _name_units(rows: pd.DataFrame, design: MixedDesign) -> pd.DataFrame:
    """Rows with the columns of models and labs that studies are drawn by."""
    labs = rows[design.groups[0]].astype(str) if design.groups else "all"
    numbered = [f"row {place}" for place in range(len(rows))]
    models = rows[MODEL].astype(str) if MODEL in rows else numbered
    return rows.assign(**{LAB: labs, MODEL: models})


def _rename(rows: pd.DataFrame, design: MixedDesign) -> pd.DataFrame:
    """Rows of models of labs that the fit has not seen: their effects are drawn anew."""
    new = {design.groups[0]: "planned " + rows[LAB]} if design.groups else {}
    return rows.assign(**new)


def _summarise(study: PlannedStudy, asked: Sequence[str], reached: Array) -> list[dict[str, Any]]:
    """A row for each thing asked; reached: studies × questions × sides."""
    shares = reached.mean(axis=0)
    variance = shares * (1 - shares) / len(reached)
    errors = np.sqrt(variance).max(axis=1)
    size = {"models": study.models, "labs": len(study.sizes), "largest": study.sizes[0]}
    rows = []
    for name, (power, against), error in zip(asked, shares, errors, strict=True):
        row = {
            "asked": name,
            **size,
            "power": float(power),
            "against": float(against),
            "error": float(error),
            "studies": len(reached),
        }
        rows.append(row)
    return rows
