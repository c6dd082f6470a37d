"""Pairs of a base and the same model trained on: three kinds of tuning a base, half of the bases
dampening."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nursery.designs import Design, Member, Pack
from nursery.recipes import CORPORA, OPTIMISERS, RATES, Recipe
from nursery.records import read_gains, read_record

KINDS = ("corpus", "optimiser", "decay")
OF_ONE = 2
"""Most bases of one recipe."""
MORE_DECAY = 10.0
TUNING = 0.3
"""Steps of tuning, as a share of those of the base."""


def tuned_packs(design: Design, folder: Path) -> list[Pack]:
    """Packs of the tuned models of a design whose own are all trained; before that none."""
    packs = design.packs()
    if not all(pack.records(folder) for pack in packs):
        return []
    chosen = bases(packs, folder, design.bases)
    packs_of_tuned = []
    for pack in packs:
        members = [
            Member(
                f"{member.model}-{kind}",
                tuned(member.recipe, kind),
                member.seed,
                parent=f"{member.model}/step{pack.steps:05d}",
            )
            for member in pack.members
            if member.model in chosen
            for kind in KINDS
        ]
        packs_of_tuned += design.grouped(members, pack.shape, (0.0, 1.0), f"tuned-{pack.name}")
    return packs_of_tuned


def bases(packs: Sequence[Pack], folder: Path, count: int) -> list[str]:
    """Models to tune: the first that learned, in the order of packs, first seeds, at most two of a
    recipe and side.

    As many whose penultimate gain ends below 1 as above it, or where one side has too few, more of
    the other.
    """
    sides: dict[bool, list[Member]] = {True: [], False: []}
    for member in (member for pack in packs for member in pack.members if not member.replicate_of):
        record = read_record(folder, member.model)
        gain = penultimate(folder, member)
        side = sides[gain < 0]
        of_one = sum(other.recipe.name == member.recipe.name for other in side)
        if record is not None and record.learned and np.isfinite(gain) and of_one < OF_ONE:
            side.append(member)
    rarer = min(sides.values(), key=len)[: count // 2]
    other = max(sides.values(), key=len)[: count - len(rarer)]
    return [member.model for member in (*rarer, *other)]


def penultimate(folder: Path, member: Member) -> float:
    """Mean log penultimate gain (block L − 1) at the end of a model's training, on prompts of its
    own corpus."""
    rows = read_gains(folder, member.model)
    if "prompts" in rows:
        rows = rows[rows["prompts"] == member.recipe.corpus]
    rows = rows[rows["step"] == rows["step"].max()].sort_values("layer")
    return float(rows["log_gain"].iloc[-2])


def tuned(recipe: Recipe, kind: str) -> Recipe:
    """What a recipe becomes: another corpus, the next optimiser at the middle of its rates, or ten
    times the decay."""
    steps = max(1, round(TUNING * recipe.steps))
    if kind == "corpus":
        other = next(name for name in CORPORA if name != recipe.corpus)
        return replace(recipe, corpus=other, steps=steps)
    if kind == "optimiser":
        name = OPTIMISERS[(OPTIMISERS.index(recipe.optimiser) + 1) % len(OPTIMISERS)]
        rate = float(np.sqrt(np.prod(RATES[name])))
        return replace(
            recipe, optimiser=name, rate=rate, decay=recipe.rate * recipe.decay / rate, steps=steps
        )
    return replace(
        recipe, decay=MORE_DECAY * recipe.decay or 1 / (recipe.rate * steps), steps=steps
    )
