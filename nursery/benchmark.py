"""Measured models of the nursery per core-hour: packed, against one at a time by transformers and
torch's optimiser.

One at a time is the first study's way: training, then the instrument at every checkpoint. Packed
measures its checkpoints itself, and the instrument measures the last. Processor time of one thread,
since it hardly depends on other load: `python -m nursery.benchmark CORPORA`, a folder that `python
-m nursery corpora` made.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch

from nursery import designs, pack_training, recipes, stacked, tokenizer
from nursery.corpora import load
from thermostats.measurement.execute import run_specs
from thermostats.measurement.session import set_quiet
from thermostats.measurement.spec import RunSpec
from thermostats.tables.schemas import NURSERY

STEPS = 40
CHECKPOINTS = 8
CONTEXT = 64
FULL = 400
"""Steps of a training, to which those timed here are scaled."""
SHAPES = ((4, 0.125, 32), (8, 2.0, 32), (8, 0.125, 80))


def one_step_at_a_time(corpora: Path, shape: recipes.Shape, recipe: recipes.Recipe) -> float:
    """Seconds of a step of one model: transformers' class, torch's AdamW and clipping."""
    corpus = load(corpora, recipe.corpus)
    model = stacked.export(stacked.initial(shape, recipe, corpus.vocab_size, 1), 0, shape, CONTEXT)
    rule = torch.optim.AdamW(model.parameters(), lr=recipe.rate)
    pack = designs.Pack("x", shape, (designs.Member("x", recipe, 1),), CONTEXT, (0.0,))
    began = 0.0
    for step in range(STEPS + 3):
        if step == 3:
            began = time.process_time()
        windows = torch.from_numpy(
            pack_training.cut(corpus.train, range(step, step + recipe.batch), pack)
        )
        logits = model(input_ids=windows[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        rule.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rule.step()
    return (time.process_time() - began) / STEPS


def packed(folder: Path, shape: recipes.Shape, recipe: recipes.Recipe) -> tuple[float, float]:
    """Seconds of a step of one model of eight in a pack, and of measuring it once in the pack."""
    members = tuple(designs.Member(f"m{i}", replace(recipe, name=f"r{i}"), i) for i in range(8))
    pack = designs.Pack("p", shape, members, CONTEXT, (0.0, 1.0))
    training = pack_training.PackTraining(pack, folder, "cpu")
    training._take_a_step()
    began = time.process_time()
    for _ in range(STEPS):
        training._take_a_step()
    middle = time.process_time()
    training._keep()
    return (middle - began) / STEPS / 8, (time.process_time() - middle) / 8


def instrument(
    corpora: Path, shape: recipes.Shape, recipe: recipes.Recipe, what: tuple[str, ...]
) -> float:
    """Seconds of measuring a model from its folder."""
    with tempfile.TemporaryDirectory() as name:
        model = stacked.export(stacked.initial(shape, recipe, 1024, 1), 0, shape, CONTEXT)
        model.save_pretrained(Path(name) / "m")
        tokenizer.load(corpora).save_pretrained(Path(name) / "m")
        spec = RunSpec(
            str(Path(name) / "m"),
            prompts=NURSERY,
            what=what,
            device="cpu",
            name="x/y",
            download=False,
        )
        began = time.process_time()
        list(run_specs([spec], Path(name) / "data"))
        return time.process_time() - began


def main(corpora: Path) -> pd.DataFrame:
    """A row a shape: seconds of a measured model each way, and the ratio."""
    torch.set_num_threads(1)
    set_quiet()
    recipe = replace(
        recipes.drawn(1, 1, CONTEXT)[0],
        optimiser="adamw",
        rate=2e-3,
        batch=8,
        steps=FULL,
        dropout=0.0,
    )
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(
            shutil.copytree(
                corpora, Path(name) / "n", ignore=shutil.ignore_patterns("m*", "p*", "*.txt")
            )
        )
        for place in SHAPES:
            shape = recipes.shape_of(*place)
            instrument(folder, shape, recipe, ("gains",))
            early, last = (
                instrument(folder, shape, recipe, what)
                for what in (("gains", "outputs"), ("gains", "outputs", "weights", "attention"))
            )
            single = (
                FULL * one_step_at_a_time(folder, shape, recipe) + (CHECKPOINTS - 1) * early + last
            )
            step, keep = packed(folder, shape, recipe)
            side_by_side = FULL * step + CHECKPOINTS * keep + last
            rows.append(
                {
                    "shape": shape.name,
                    "one_at_a_time_s": single,
                    "packed_s": side_by_side,
                    "ratio": single / side_by_side,
                }
            )
    return pd.DataFrame(rows).round(2)


if __name__ == "__main__":
    print(main(Path(sys.argv[1])).to_string(index=False))
