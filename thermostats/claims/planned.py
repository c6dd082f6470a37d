"""Sizes of planned studies; nothing large is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermostats.errors import UsageError

LEAST = 4
"""Models that a study has at least."""


@dataclass(frozen=True)
class PlannedStudy:
    """A planned study: how many models each lab has, the largest first."""

    sizes: tuple[int, ...]

    @property
    def models(self) -> int:
        """Models in all."""
        return sum(self.sizes)


def plan_studies(
    models: Sequence[int], labs: Sequence[int], sizes: Sequence[Sequence[int]]
) -> list[PlannedStudy]:
    """Every number of models in every number of labs, as even as may be, then the studies of labs
    of stated sizes.

    Raises UsageError where there is none, or one of fewer than 4 models or 2 labs, or with a lab
    without models.
    """
    grid = [tuple(n // k + (place < n % k) for place in range(k)) for n in models for k in labs]
    made = [PlannedStudy(of) for of in (*grid, *(tuple(sorted(of, reverse=True)) for of in sizes))]
    if not made:
        line = 'thermostats.power("C05", models=[20, 40, 80], labs=[10])'
        raise UsageError(
            "no study is asked for", allowed="models and labs, or sizes of labs", next_step=line
        )
    for study in made:
        if study.models < LEAST or len(study.sizes) < 2 or min(study.sizes) < 1:
            got = f"{study.models} models in {len(study.sizes)} labs"
            allowed = f"{LEAST} models or more, 2 labs or more, a model or more in each"
            raise UsageError("no study can have this size", got=got, allowed=allowed)
    return made
