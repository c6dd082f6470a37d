"""A study's plan to measure its models anew: data that ships with the study, and the specs that it comes to here.

The plan is a folder `replication` of the study's package (`Study.replication`) with two tables. `plan.csv` has a row
for each model and prompt set; `explanations.csv` says what a published figure may be instead of what it is called.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files

from thermostats.claims.claim import Claim
from thermostats.claims.study import Study, studies
from thermostats.errors import DataError, UsageError, unknown
from thermostats.measurement.spec import PRECISIONS, WHAT, RunSpec

OURS, HALF = PRECISIONS[:2]
"""Precision that everything is measured in, and that which is taken where memory does not allow it."""
STUDY = "study"
"""What `--prompts` calls the prompts that the study says it used."""


@dataclass(frozen=True)
class Part:
    """One model on one prompt set, a row of `plan.csv`; there `what` is separated by commas, other lists by blanks."""

    model: str
    revision: str
    commit: str
    """That the revision is pinned to; empty where none is known."""
    commit_from: str
    """Who says so, or why none is known."""
    prompts: str
    """Prompt set of the study."""
    instead: str
    """A set of this package of equal size and categories, for who has not the study's texts; empty where none is."""
    what: tuple[str, ...]
    study_precisions: tuple[str, ...]
    """Half precisions that the study says it measured in."""
    position: str
    """Token at which the study states its gains; all positions are measured."""
    published_on: tuple[str, ...]
    """Prompt sets of the model's published figures; the texts of some are not published."""

    @property
    def asked(self) -> str:
        """Revision that the hub is asked for."""
        return self.commit or self.revision


EXPLAINED = ("quantity", "instead", "why")
"""Columns of what a published figure may be in truth: another measured quantity, and how that comes about."""


def study_named(name: str) -> Study:
    """The study of a name that has a plan; raises UsageError where there is none."""
    planned = {label: study for label, study in studies().items() if study.replication}
    if name not in planned:
        raise unknown("no such study with a plan for its replication", name, planned)
    return planned[name]


def plan_of(study: Study) -> tuple[Part, ...]:
    """The study's plan; raises DataError where the file is not as it must be."""
    found = []
    for where, row in _rows(study, "plan.csv", [field.name for field in fields(Part)]):
        what = tuple(row["what"].split(","))
        precisions = tuple(row["study_precisions"].split())
        if set(what) - set(WHAT) or set(precisions) - set(PRECISIONS):
            raise DataError("no such quantity or precision", where=where, got=f"{row['what']}; {precisions}")
        lists = {"what": what, "study_precisions": precisions, "published_on": tuple(row["published_on"].split())}
        found.append(Part(**{**row, **lists}))  # type: ignore[arg-type]
    return tuple(found)


def explanations_of(study: Study) -> list[tuple[str, str, str]]:
    """Rows of `EXPLAINED`: what the study's figures may be instead; raises DataError as `plan_of` does."""
    rows = _rows(study, "explanations.csv", EXPLAINED)
    return [(row["quantity"], row["instead"], row["why"]) for _, row in rows]


def _rows(study: Study, name: str, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    path = files(study.replication) / "replication" / name
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(csv.DictReader(lines), 2):
        if list(row) != list(columns) or None in row.values():
            got, allowed = ", ".join(map(str, row)), ", ".join(columns)
            raise DataError("not a table of a plan", where=f"{path}, row {number}", got=got, allowed=allowed)
        yield f"{path}, row {number}", row


def chosen(
    plan: Sequence[Part], claims: Sequence[Claim], models: Sequence[str], prompts: str = STUDY
) -> tuple[Part, ...]:
    """Parts of a plan that some claims read, of some models (without any, all), on the study's prompts or on ours.

    Raises UsageError for a model that is not in the plan, for prompts that it does not know, and where nothing is left.
    """
    known = list(dict.fromkeys(part.model for part in plan))
    for model in models:
        if model not in known:
            raise unknown("the study has no such model", model, known, where="--models")
    sets = dict.fromkeys(part.instead for part in plan if part.instead)
    if prompts not in (STUDY, *sets):
        raise unknown("no such prompts in the plan", prompts, [STUDY, *sets], where="--prompts")
    wanted = {name for claim in claims for name in claim.measures}
    found = []
    for part in plan:
        what = tuple(name for name in part.what if name in wanted)
        if what and (not models or part.model in models) and prompts in (STUDY, part.instead):
            found.append(replace(part, what=what, prompts=part.prompts if prompts == STUDY else part.instead))
    if not found:
        got = ", ".join(claim.id for claim in claims)
        raise UsageError("no measurement in the plan serves these claims", where="--claims", got=got)
    return tuple(found)


def settled(part: Part, claims: Iterable[Claim]) -> list[str]:
    """Claims all of whose measurements a part brings for its model."""
    return [claim.id for claim in claims if claim.measures and set(claim.measures) <= set(part.what)]


def precisions(part: Part, fits: Callable[[str], bool]) -> tuple[str, ...]:
    """Precisions that a part is measured in, each a level of its own: ours where memory allows it, and the study's.

    Where the study states none and ours does not fit, half precision takes its place.
    """
    study = tuple(name for name in part.study_precisions if name != OURS)
    return (*([OURS] if fits(OURS) else []), *study) or (HALF,)


def specs(part: Part, levels: Sequence[str], **options: object) -> list[RunSpec]:
    """Specs of a part, one a precision; weights are read as they are stored, and so once."""
    found = []
    for number, dtype in enumerate(levels):
        what = tuple(name for name in part.what if number == 0 or name != "weights")
        if what:
            named = {"revision": part.asked, "dtype": dtype, "prompts": part.prompts, "what": what}
            found.append(RunSpec(part.model, **{**options, **named}))  # type: ignore[arg-type]
    return found
