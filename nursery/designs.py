"""A design file in TOML: recipes crossed with every shape of a grid, some models repeated with
another seed.

Models of one shape train in packs, as one batch, each with its recipe, its corpus and its order of
windows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nursery.recipes import Recipe, Shape, check_limits, check_types, shape_of
from nursery.records import Trained, read_record
from thermostats.errors import DataError, UsageError
from thermostats.tables.folders import write_atomically

GRID = ("L", "rho", "d")
SHARES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Shares of training after which gains are kept, where a design does not say otherwise."""
WIDEST = 8
"""Models in a pack: more take no less time each on a processor, and a kill costs the more."""
SPEED = 2700.0
"""Millions of weight-tokens that a core trains on in a second, measured over the pilot's packs."""
GPU_STEP = 0.017
"""Seconds that one of several processes on a GPU takes for a step of a layer of a pack: ten trained
the third study's packs on an H100 in 288 s."""
OF_RECIPES = ("recipes", "apart")
"""Parts of a design that are lists of recipes."""
OF_LISTS = ("shares", "again")
"""Parts of a design that are lists of anything else."""
OF_CORPORA = "corpora"
PROMPTS = ("nursery", OF_CORPORA)
"""Prompts that models in training are measured on: those of the nursery, or a set cut out of every
corpus."""
PLACED = "design.sha256"
"""In a folder of trainings: the digest of the design that they are of."""


@dataclass(frozen=True)
class Member:
    """One model of a pack."""

    model: str
    recipe: Recipe
    seed: int
    replicate_of: str = ""
    parent: str = ""
    """Model and checkpoint that training begins from, MODEL/step00600; empty: from
    initialisation."""


@dataclass(frozen=True)
class Pack:
    """Models of one shape whose recipes have as many windows in a step and as many steps."""

    name: str
    shape: Shape
    members: tuple[Member, ...]
    context: int
    shares: tuple[float, ...]
    """Shares of the steps after which gains, spectra and held-out losses are kept."""
    prompts: str = PROMPTS[0]

    @property
    def steps(self) -> int:
        """Steps of the optimisers."""
        return self.members[0].recipe.steps

    @property
    def batch(self) -> int:
        """Windows in a step of every model."""
        return self.members[0].recipe.batch

    @property
    def work(self) -> float:
        """About how long it takes, in millions of weight-tokens, attention among them."""
        per_token = (
            self.shape.weights(1024) / 1e6
            + self.shape.n_layers * self.shape.n_heads * self.context / 1e5
        )
        return per_token * self.steps * self.batch * self.context * len(self.members)

    def records(self, folder: Path) -> list[Trained]:
        """What its models came to, where all of them are trained."""
        records = [read_record(folder, member.model) for member in self.members]
        return [record for record in records if record is not None] if all(records) else []


@dataclass(frozen=True)
class Design:
    """What is trained; nothing else decides a number."""

    name: str
    seed: int
    context: int
    core_hours: float
    """Largest cost that training may have."""
    repeats: int
    """Models trained again with another seed, drawn at random."""
    grid: Mapping[str, Sequence[float]]
    """Depths L, head densities rho, widths d: every combination is a shape."""
    recipes: tuple[Recipe, ...]
    apart: tuple[Recipe, ...] = ()
    """Recipes chosen, not drawn: trained at every shape, and counted in no component of
    variance."""
    shares: tuple[float, ...] = SHARES
    prompts: str = PROMPTS[0]
    """What models are measured on along their training, one of PROMPTS."""
    widest: int = WIDEST
    """Most models of a pack."""
    bases: int = 14
    """Models that are tuned, each in every kind, half of them dampening where there are so many."""
    again: tuple[str, ...] = ()
    """Recipes whose models are trained with a second seed at every shape, besides those drawn."""

    @property
    def shapes(self) -> list[Shape]:
        """Every shape of the grid; raises UsageError where one does not divide."""
        return [
            shape_of(int(L), rho, int(d))
            for L, rho, d in itertools.product(*(self.grid[key] for key in GRID))
        ]

    @property
    def hours(self) -> float:
        """Core-hours that training is expected to take."""
        return sum(pack.work for pack in self.packs()) / SPEED / 3600

    def packs(self) -> list[Pack]:
        """Everything to be trained: shape by shape, models of as many windows and steps together,
        by optimiser."""
        shapes = self.shapes
        packs = []
        rng = np.random.default_rng([self.seed, 1])
        chosen = rng.choice(len(self.recipes) * len(shapes), size=self.repeats, replace=False)
        again = {divmod(int(place), len(shapes)) for place in chosen}
        for number, shape in enumerate(shapes):
            members = []
            for place, recipe in enumerate((*self.recipes, *self.apart)):
                name = f"{recipe.name}-{shape.name}"
                members.append(Member(name, recipe, self._seed(place, number, 0)))
                if (place, number) in again or recipe.name in self.again:
                    members.append(
                        Member(
                            f"{name}-again", recipe, self._seed(place, number, 1), replicate_of=name
                        )
                    )
            packs += self.grouped(members, shape, self.shares)
        return packs

    def check(self) -> None:
        """Raise UsageError where it cannot be trained as it is."""
        where = f"design {self.name}"
        check_types(self, where)
        check_grid(self.grid)
        for recipe in (*self.recipes, *self.apart):
            recipe.check()
        models = len(self.recipes) * len(self.shapes)
        limits = {
            "recipes": (len(self.recipes) + len(self.apart) > 0, "one or more"),
            "seed": (self.seed >= 0, "0 or more"),
            "context": (self.context >= 1, "1 or more"),
            "core_hours": (0 < self.core_hours < math.inf, "a number above 0"),
            "prompts": (self.prompts in PROMPTS, ", ".join(PROMPTS)),
            "bases": (self.bases >= 0, "0 or more"),
            "widest": (self.widest >= 1, "1 or more"),
            "repeats": (0 <= self.repeats <= models, f"0 to {models}, the models of drawn recipes"),
            "shares": (
                _numbers(self.shares)
                and all(0 <= share <= 1 for share in self.shares)
                and 1 in self.shares,
                "numbers from 0 to 1, with 1 among them",
            ),
        }
        check_limits(self, where, limits)
        named = {recipe.name for recipe in (*self.recipes, *self.apart)}
        if unknown := [name for name in self.again if name not in named]:
            raise UsageError(
                "no such recipe in the design",
                where=f"again, in {where}",
                got=str(unknown[0]),
                allowed=", ".join(sorted(named)),
            )
        names = [member.model for pack in self.packs() for member in pack.members]
        if len(set(names)) < len(names):
            raise UsageError(
                "several models have the same name",
                got=next(name for name in names if names.count(name) > 1),
                next_step="give every recipe a separate name, and every depth and width head "
                "densities that differ in "
                "the number of heads; give no value of the grid twice",
            )
        if self.hours > self.core_hours:
            raise UsageError(
                "the budget does not fit",
                got=f"about {self.hours:.1f} core-hours",
                allowed=f"core_hours = {self.core_hours:g}",
                next_step="fewer recipes or shapes, fewer steps, or a larger budget",
            )

    def grouped(
        self, members: Sequence[Member], shape: Shape, shares: tuple[float, ...], prefix: str = ""
    ) -> list[Pack]:
        """Models of one shape as packs: as many windows and steps together, optimisers side by
        side."""

        def key(member: Member) -> tuple[int, int]:
            return member.recipe.batch, member.recipe.steps

        packs = []
        in_order = sorted(
            members, key=lambda member: (*key(member), member.recipe.optimiser, member.model)
        )
        for (batch, steps), run in itertools.groupby(in_order, key=key):
            alike = tuple(run)
            for first in range(0, len(alike), self.widest):
                name = f"{prefix or shape.name}-b{batch}-s{steps}-{first // self.widest + 1}"
                taken = alike[first : first + self.widest]
                packs.append(Pack(name, shape, taken, self.context, shares, self.prompts))
        return packs

    def _seed(self, *place: int) -> int:
        return int(np.random.default_rng([self.seed, 2, *place]).integers(2**31))


def seconds_of(packs: Sequence[Pack], device: str, processes: int | None) -> float:
    """About how long packs take side by side: on a processor by their work, on a GPU by their steps
    and layers."""
    if device == "cpu":
        return sum(pack.work for pack in packs) / SPEED / (processes or os.cpu_count() or 1)
    return sum(pack.steps * pack.shape.n_layers for pack in packs) * GPU_STEP / (processes or 1)


def parse_grid(texts: Sequence[str]) -> dict[str, list[float]]:
    """Depths, head densities and widths of texts such as L=4,8 rho=0.125,2 d=32,80. Raises
    UsageError for others."""
    grid: dict[str, list[float]] = {}
    for text in " ".join(texts).split():
        key, _, values = text.partition("=")
        try:
            grid["" if key in grid else key] = [float(value) for value in values.split(",")]
        except ValueError:
            grid[""] = []
    check_grid(grid, " ".join(texts))
    return grid


def check_grid(grid: Mapping[str, Sequence[float]], got: str = "") -> None:
    """Raise UsageError for what is no grid of shapes; got: what was given, where not the grid
    itself."""
    is_grid = (
        isinstance(grid, Mapping) and set(grid) == set(GRID) and all(map(_numbers, grid.values()))
    )
    if not is_grid or not all(
        0 < value < math.inf and (key == "rho" or value % 1 == 0)
        for key in GRID
        for value in grid[key]
    ):
        raise UsageError(
            "not a grid of shapes",
            got=got or f"grid = {grid!r}",
            allowed="depths L, head densities rho and widths d, each given once: finite numbers "
            "above 0, whole "
            "for L and d",
            next_step="--shapes L=4,8,16 rho=0.125,2 d=32,80",
        )


def read(path: Path) -> Design:
    """The design of a file. Raises DataError where it is none, UsageError where it cannot be
    trained."""
    try:
        stated = tomllib.loads(path.read_text(encoding="utf-8"))
        stated |= {
            key: tuple(_recipe(recipe) for recipe in stated.get(key, [])) for key in OF_RECIPES
        }
        lists = {key: tuple(stated[key]) for key in OF_LISTS if isinstance(stated.get(key), list)}
        stated |= lists
        design = Design(**stated)
    except (OSError, ValueError, OverflowError, TypeError, AttributeError) as error:
        step = (
            "python -m nursery design --recipes 32 --shapes L=4,8,16 rho=0.125,2 d=32,80 --out "
            "FILE writes one"
        )
        raise DataError("not a design file", where=path, got=str(error), next_step=step) from error
    design.check()
    return design


def write(design: Design, path: Path) -> None:
    """Write a design file."""
    facts = asdict(design)
    if not design.again:
        del facts["again"]
    tables = [("[grid]", facts.pop("grid"))]
    tables += [(f"[[{name}]]", recipe) for name in OF_RECIPES for recipe in facts.pop(name)]
    lines = _toml(facts)
    for name, table in tables:
        lines += ["", name, *_toml(table)]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def digest(path: Path) -> str:
    """SHA-256 of a design file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def claim_folder(folder: Path, path: Path) -> None:
    """Say in a folder which design its trainings are of. Raises UsageError where it holds those of
    another."""
    place = folder / PLACED
    if not place.exists():
        write_atomically(place, (digest(path) + "\n").encode())
    elif place.read_text().strip() != digest(path):
        raise UsageError(
            "the folder holds trainings of another design",
            where=folder,
            got=f"{path}, {digest(path)[:12]}",
            allowed=place.read_text().strip()[:12],
            next_step="give another --folder; corpora are made there by python -m nursery corpora",
        )


def _recipe(stated: Mapping[str, Any]) -> Recipe:
    broken = {f.name for f in fields(Recipe) if f.type == "float"}
    numbers = {
        key: float(value) for key, value in stated.items() if key in broken and type(value) is int
    }
    return Recipe(**{**stated, **numbers})


def _numbers(values: object) -> bool:
    """Whether this is a list of numbers that is not empty; a flag is no number."""
    return isinstance(values, (list, tuple)) and {*map(type, values)} in (
        {int},
        {float},
        {int, float},
    )


def _toml(table: Mapping[str, Any]) -> list[str]:
    """Lines of a table; texts, numbers and lists are written as in JSON."""
    return [f"{name} = {json.dumps(value)}" for name, value in table.items()]
