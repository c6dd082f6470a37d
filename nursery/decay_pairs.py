"""Models trained with weight decay and without it, all else equal: norms of W_V and W_O by head, at
start and end.

Writes `data/nursery/second/balance.csv`, in two minutes of one core: `python -m nursery.decay_pairs
FOLDER`, where FOLDER holds corpora (`python -m nursery corpora --folder FOLDER`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from nursery import DESIGN, corpora, designs, pack_training, stacked
from nursery.designs import Member, Pack
from nursery.recipes import Recipe, Shape
from nursery.records import step_folder

FILE = DESIGN.with_name("balance.csv")
CORPUS = "english"
OPTIMISERS = ("adamw", "sgd")
DEPTHS, WIDTH = (4, 8), 32
"""Shapes of the design that are taken: the narrow ones of these depths."""
SEED = 1


def pairs() -> list[Recipe]:
    """For each optimiser the recipe of the second study, on English, whose decay (rate · decay ·
    steps) is strongest, then the same without decay.
    """
    drawn = designs.read(DESIGN).recipes
    taken = []
    for optimiser in OPTIMISERS:
        alike = [
            recipe for recipe in drawn if (recipe.corpus, recipe.optimiser) == (CORPUS, optimiser)
        ]
        strongest = max(alike, key=lambda recipe: recipe.rate * recipe.decay * recipe.steps)
        taken += [strongest, replace(strongest, name=f"{strongest.name}-without", decay=0.0)]
    return taken


def packs() -> list[Pack]:
    """One pack for each shape; all models of a shape begin from one seed and read the same
    windows."""
    design = designs.read(DESIGN)
    recipes = pairs()
    shapes = [
        shape for shape in design.shapes if shape.n_layers in DEPTHS and shape.d_model == WIDTH
    ]
    return [
        pack
        for shape in shapes
        for pack in design.grouped(
            [Member(f"{r.name}-{shape.name}", r, SEED) for r in recipes], shape, (0.0, 1.0)
        )
    ]


def head_norms(weights: stacked.Weights, shape: Shape) -> pd.DataFrame:
    """‖W_V‖ and ‖W_O‖ (Frobenius) of every head of one model, m = 1; layers and heads from 1."""
    layers = shape.n_layers
    d = shape.d_model
    heads = shape.n_heads
    width = shape.d_head
    cut = {
        "wv_norm": weights["v"][0].reshape(layers, d, heads, width).norm(dim=(1, 3)),
        "wo_norm": weights["o"][0].reshape(layers, heads, width, d).norm(dim=(2, 3)),
    }
    places = pd.MultiIndex.from_product(
        [range(1, layers + 1), range(1, heads + 1)], names=["layer", "head"]
    )
    return pd.DataFrame(
        {name: norms.flatten().numpy() for name, norms in cut.items()}, index=places
    ).reset_index()


def measured(pack: Pack, folder: Path) -> Iterator[pd.DataFrame]:
    """Norms of a pack that is trained, at its start and its end."""
    vocab = corpora.load(folder, CORPUS).vocab_size
    for member in pack.members:
        recipe, facts = member.recipe, {"model": member.model, "decay": member.recipe.decay}
        weights = {
            0: stacked.initial(pack.shape, recipe, vocab, member.seed),
            pack.steps: stacked.restored(step_folder(folder, member.model, pack.steps)),
        }
        for step, at in weights.items():
            rows = head_norms(at, pack.shape)
            yield rows.assign(**facts, optimiser=recipe.optimiser, step=step)


def main(folder: Path) -> None:
    """Train what is not trained yet, and write the file."""
    frames: list[pd.DataFrame] = []
    for pack in packs():
        for record in pack_training.run(pack, folder):
            print(record.model, record.loss, record.learned, record.seconds)
        frames += measured(pack, folder)
    rows = pd.concat(frames)[
        ["model", "optimiser", "decay", "step", "layer", "head", "wv_norm", "wo_norm"]
    ]
    rows.to_csv(FILE, index=False, float_format="%.5g", lineterminator="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
