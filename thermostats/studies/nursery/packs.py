"""Packs: models of one shape that train as one batch, each with its recipe, its corpus and its order of windows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thermostats.studies.nursery.plan import Trained, read_record
from thermostats.studies.nursery.recipes import Recipe, Shape


@dataclass(frozen=True)
class Member:
    """One model of a pack."""

    model: str
    recipe: Recipe
    seed: int
    replicate_of: str = ""
    parent: str = ""
    """Model and checkpoint that training begins from, MODEL/step00600; empty: from initialisation."""


@dataclass(frozen=True)
class Pack:
    """Models of one shape whose recipes have as many windows in a step and as many steps."""

    name: str
    shape: Shape
    members: tuple[Member, ...]
    context: int
    shares: tuple[float, ...]
    """Shares of the steps after which gains, spectra and held-out losses are kept."""

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
        per_token = self.shape.weights(1024) / 1e6 + self.shape.n_layers * self.shape.n_heads * self.context / 1e5
        return per_token * self.steps * self.batch * self.context * len(self.members)

    def records(self, folder: Path) -> list[Trained]:
        """What its models came to, where all of them are trained."""
        known = [read_record(folder, member.model) for member in self.members]
        return [record for record in known if record is not None] if all(known) else []
