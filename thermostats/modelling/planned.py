"""Sizes of planned studies, and their rows; nothing large is loaded before rows are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any

from thermostats.errors import SHOWN_OF, UsageError
from thermostats.formatting import format_count

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

LEAST, SEVERAL = 4, 2
"""Models and labs that a study has at least."""
WANTED = 0.8
"""Share of studies in which one that is large enough shows what it is made for."""
FIRST_MODELS, FIRST_LABS = [20, 40, 80], 10
"""Studies that a line asks for where none were named."""
OF_LAB, OF_MODEL = ("heritage", "family", "recipe", "source"), ("model_id", "pair")
"""Columns of names that are a lab's own, and a model's own, in a study that is drawn."""
Numbers = int | Sequence[int]
Sizes = Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class PlannedStudy:
    """A planned study: how many models each lab has, the largest first."""

    sizes: tuple[int, ...]

    @classmethod
    def divide_evenly(cls, models: int, labs: int) -> PlannedStudy:
        """So many models in so many labs, as even as may be."""
        least, more = divmod(models, labs)
        return cls((least + 1,) * more + (least,) * (labs - more))

    @property
    def models(self) -> int:
        """Models in all."""
        return sum(self.sizes)

    @property
    def words(self) -> str:
        """Its size in words."""
        labs = f" of {len(self.sizes)} labs" if len(self.sizes) > 1 else ""
        return f"{self.models} models{labs}"


def plan_studies(
    models: Numbers,
    labs: Numbers,
    sizes: Sizes,
    *,
    write: Callable[..., str],
    fewest: int = SEVERAL,
) -> list[PlannedStudy]:
    """Every number of models in every number of labs, as even as may be, then the studies of labs
    of stated sizes; a number is a list of one, and a list of numbers the sizes of one study.

    write: the call with other sizes, as a line. fewest: labs of a study. Raises UsageError where
    there is no study, or one of fewer than 4 models or fewer labs, or with a lab without models,
    with the nearest that there can be.
    """
    given = (models, "models"), (labs, "labs")
    numbers = {}
    for each, name in given:
        if read := read_sizes(each, name):
            numbers[name] = read
    is_one = any(not isinstance(each, Sequence) for each in sizes)
    stated = [read_sizes(each, "sizes") for each in ([sizes] if is_one else sizes)]
    grid = product(numbers.get("models", ()), numbers.get("labs", ()))
    made = [PlannedStudy.divide_evenly(n, k) for n, k in grid]
    made += [PlannedStudy(tuple(sorted(of, reverse=True))) for of in stated]
    asked = {}
    if numbers or not stated:
        asked = {"models": FIRST_MODELS, **numbers}
        asked.setdefault("labs", [_suggest_labs(asked["models"], fewest)])
    possible = _list_possible(asked, stated, fewest)
    if not made:
        allowed = "models and labs, or sizes of labs"
        raise UsageError("no study is asked for", allowed=allowed, next_step=write(**possible))
    for study in made:
        if study.models < LEAST or len(study.sizes) < fewest or min(study.sizes) < 1:
            labs_of_it = format_count(len(study.sizes), "lab")
            least_labs = format_count(fewest, "lab")
            raise UsageError(
                "no study can have this size",
                got=f"{format_count(study.models, 'model')} in {labs_of_it}",
                allowed=f"{LEAST} models or more, {least_labs} or more, a model or more in each",
                next_step=write(**possible),
            )
    return made


def _suggest_labs(models: Sequence[int], fewest: int) -> int:
    """Labs of a study whose models alone are stated: one where the rows at hand are of one, else so
    many that the smallest study has two models in each."""
    return 1 if fewest == 1 else max(fewest, min(FIRST_LABS, min(models) // 2))


def _list_possible(
    numbers: Mapping[str, list[int]], stated: Sequence[list[int]], fewest: int
) -> dict[str, Any]:
    """Sizes as they were asked for, those that no study has raised to the nearest that one has."""
    possible: dict[str, Any] = {}
    if numbers:
        labs = sorted({max(fewest, number) for number in numbers["labs"]})
        least = max(LEAST, *labs)
        models = sorted({max(least, number) for number in numbers["models"]})
        possible = {"models": models, "labs": labs}
    if stated:
        several = []
        for of in stated:
            sizes = of * fewest if len(of) == 1 else of
            if sizes:
                lacking = max(0, LEAST - sum(sizes))
                several.append([sizes[0] + lacking, *sizes[1:]])
            else:
                several.append([2, 2])
        possible["sizes"] = several
    return possible


def read_sizes(value: Any, name: str) -> list[int]:
    """Whole numbers above 0 as a list, one as a list of one; UsageError for anything else."""
    listed: list[Any] = [value] if isinstance(value, Number | str) else list(value)
    if all(isinstance(each, Integral) and not isinstance(each, bool) for each in listed):
        numbers = [int(each) for each in listed]
        if all(number > 0 for number in numbers):
            return numbers
    raise UsageError(
        "no numbers of models or labs",
        where=name,
        got=repr(value)[:SHOWN_OF],
        allowed="whole numbers above 0, such as [20, 40]",
    )


def draw_rows(study: PlannedStudy, here: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of a study, drawn from those at hand.

    The labs at hand take turns, the largest first; a lab that is taken again is another one of the
    same models. In each the models come in random order, and where the lab has too few they are
    repeated as further ones.
    """
    import pandas as pd  # noqa: PLC0415

    labs = here.groupby("heritage")["model_id"].unique()
    largest_first = sorted(labs.index, key=lambda lab: (-len(labs[lab]), lab))
    labs = labs.loc[largest_first]
    of_model = dict(iter(here.groupby("model_id", sort=False)))
    parts = []
    for place, size in enumerate(study.sizes):
        again = place // len(labs)
        models = rng.permutation(labs.iloc[place % len(labs)])
        for k in range(size):
            round_of_models, model = divmod(k, len(models))
            parts.append(_name_rows(of_model[models[model]], again, round_of_models))
    return pd.concat(parts, ignore_index=True)


def _name_rows(rows: pd.DataFrame, lab: int, model: int) -> pd.DataFrame:
    """Rows of a model under names of their own, where its lab or itself stands in the study
    already."""
    of_lab = f" {lab}" * bool(lab)
    of_model = f" {lab}.{model}" * bool(lab or model)
    ends = {**dict.fromkeys(OF_LAB, of_lab), **dict.fromkeys(OF_MODEL, of_model)}
    renamed = {}
    for name, end in ends.items():
        if end and name in rows:
            renamed[name] = rows[name].astype(str) + end
    return rows.assign(**renamed)
