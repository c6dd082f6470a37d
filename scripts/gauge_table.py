"""Measure what changes of weights that leave a model's outputs do to every quantity:
`data/gauge.csv`.

On tiny models of some classes with random weights, and on trained ones: those that ship, and
`../shared/models/` where it is there. All is computed in float64, so that what is left is left to
1e-10 and the file is the same everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "measurement"))

import tiny  # noqa: E402
import wide  # noqa: E402

from thermostats.measurement import gauge  # noqa: E402
from thermostats.measurement.actions import change_model, parse_actions  # noqa: E402
from thermostats.measurement.forward import Decoder  # noqa: E402
from thermostats.measurement.gauge import ModelWeights, extract_weights, replace_weights  # noqa: E402
from thermostats.measurement.gauge_moves import build_tables, measure_moves, open_model  # noqa: E402
from thermostats.tables.invariants import CLASSES  # noqa: E402

FILE = ROOT / "data" / "gauge.csv"
STORIES = ROOT.parent / "shared" / "models" / "stories260k"
PROOF = (
    *(
        "llama",
        "gpt_neox",
        "gpt2",
        "opt",
        "opt_post_norm",
        "gemma2",
        "olmo",
        "qwen3",
        "granite",
        "deepseek_v3",
    ),
    *("gpt_oss", "glm4", "bloom", "mpt"),
)
LEFT = 1e-10
"""What moved by no more has moved by rounding."""
NOISE = "printed_factor"
"""A published variant of the trace that is zero but for rounding."""
OTHER_STATISTICS = ("_n", "_sd", "_geometric")
Change = tuple[str, str, Callable[[ModelWeights], ModelWeights]]

HEADS: tuple[Change, ...] = (
    (
        "heads",
        "W_V × 8 and W_O / 8 in every block",
        partial(gauge.turn_heads, turn=gauge.make_scaling_turn(8.0)),
    ),
    (
        "heads",
        "W_V × 32 and W_O / 32 in block 2",
        partial(gauge.turn_heads, turn=gauge.make_scaling_turn(32.0, layer=1)),
    ),
)
LOGITS: Change = ("logits", "1vᵀ added to the unembedding, normal v", gauge.shift_logits)
FOLD: Change = ("fold", "norm weights folded into their readers", gauge.fold_norms)


def _ones(weights: ModelWeights, at: dict[int, float]) -> ModelWeights:
    for layer, amount in at.items():
        weights = gauge.add_ones(weights, amount, layer, spread=0.0)
    return weights


def ones(depth: int) -> tuple[Change, ...]:
    """64·1 put into the stream early, taken out late, or put in late, before the last block."""
    places = {
        "64·1 added to a bias of block 1": {0: 64.0},
        f"64·1 added to a bias of block 1 and taken from one of block {depth - 1}": {
            0: 64.0,
            depth - 2: -64.0,
        },
        f"64·1 added to a bias of block {depth - 1}": {depth - 2: 64.0},
    }
    return tuple(("ones", how, partial(_ones, at=at)) for how, at in places.items())


HALVES = ("W_O * 2", "W_V * 2")
"""Two interventions with equal outputs, by `do`: what is measured before, and what after."""
HALVES_WORDS = "W_V × 2 in every block, b_V with it, instead of W_O × 2"
READERS: Change = ("readers", "u(1/γ)ᵀ added to every W_V, normal u", gauge.shift_readers)
POST: Change = ("post-norm", "γ and β × 4 at the end of every second block", gauge.scale_post_norms)


def trained() -> Iterator[tuple[str, Path, dict[str, Any], tuple[Change, ...]]]:
    """Name, folder, changed configuration and changes of every trained model."""
    folder = ROOT / "data" / "nursery" / "models"
    yield "r03-1", folder / "r03-1", {}, (*HEADS, FOLD, LOGITS)
    yield "r07-5", folder / "r07-5", {}, (*HEADS, FOLD, LOGITS, READERS, *ones(9))
    yield "r15-2", folder / "r15-2", {}, (*HEADS, FOLD, LOGITS, READERS, *ones(20))
    yield (
        "r15-2 run as post-norm",
        folder / "r15-2",
        {"do_layer_norm_before": False},
        (*HEADS, LOGITS, POST),
    )
    if STORIES.is_dir():
        yield "stories260k", STORIES, {}, (*HEADS, FOLD, LOGITS)


def rows_of(places: Decoder, prompts: list[Any], changes: tuple[Change, ...]) -> pd.DataFrame:
    """Rows of the file for one model."""
    weights = extract_weights(places)
    frames = []
    with wide.float64():
        before = build_tables(places, prompts)
        for change, how, changed in changes:
            if why := gauge.find_obstacle(change, weights):
                raise SystemExit(f"{places.entry.name} does not allow {change}: {why}")
            after = build_tables(replace_weights(places, changed(weights)), prompts)
            frames.append(measure_moves(change, before, after).assign(how=how))
    return pd.concat(frames, ignore_index=True)


def compare_halves(places: Decoder, prompts: list[Any]) -> pd.DataFrame:
    """Rows of the file for one model: W_O × 2 before and W_V × 2 after, each done to the model."""
    tables = []
    with wide.float64():
        for text in HALVES:
            actions = parse_actions(text, len(places.blocks))
            tables.append(build_tables(change_model(places, actions), prompts))
        return measure_moves("heads", *tables).assign(how=HALVES_WORDS)


def of_classes() -> pd.DataFrame:
    """The largest move of every quantity over tiny models of the classes that allow a change."""
    frames = []
    for name in PROOF:
        places = wide.opened(name, attention="eager")
        weights = extract_weights(places)
        allowed = [
            (change, "", changed)
            for change, changed in gauge.CHANGES.items()
            if not gauge.find_obstacle(change, weights)
        ]
        frames.append(
            rows_of(places, tiny.inputs(places, 9, 5, 7), tuple(allowed)).assign(model=name)
        )
    every = pd.concat(frames)
    grouped = every.groupby(["change", "table", "quantity"], sort=False)
    rows = grouped.agg(
        moved=("moved", "max"), names=("model", lambda names: " ".join(dict.fromkeys(names)))
    ).reset_index()
    return rows.rename(columns={"names": "how"}).assign(model=CLASSES, before=np.nan, after=np.nan)


def main() -> None:
    """Write the file."""
    frames = []
    for name, path, changed, changes in trained():
        opened = open_model(path, **changed)
        frames.append(rows_of(*opened, changes).assign(model=name))
        if not changed and path != STORIES:
            frames.append(compare_halves(*opened).assign(model=name))
    rows = pd.concat([*frames, of_classes()], ignore_index=True)
    others = rows["table"].eq("features") & rows["quantity"].str.endswith(OTHER_STATISTICS)
    noise = others | rows["quantity"].str.contains(NOISE)
    rows = rows[~noise].assign(moved=lambda frame: frame["moved"].where(frame["moved"] > LEFT, 0.0))
    columns = ["model", "change", "how", "table", "quantity", "before", "after", "moved"]
    rows[columns].to_csv(FILE, index=False, float_format="%.6g", lineterminator="\n")


if __name__ == "__main__":
    main()
