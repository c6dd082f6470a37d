"""Norms after every block of four instruct models over 50 prompts, and the spectral norm of W_O."""

import json
from pathlib import Path

import pandas as pd
from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="kameshkanna-norms-k-calibration",
    title="Norm profiles and spectral norms of four instruct models",
    address="github.com/kameshkanna/norms-k-calibration",
    commit="96c13f593a51dc26893a2579f2985ee0d80ed826",
    licence="MIT",
    licence_file="",
    licence_by="its README, which says “MIT License”; the repository has no licence file",
    left_out="spectral norms of the feed-forward layer's matrices, for which the tables have no "
    "name; "
    "standard deviations over prompts of norms, which are not those of gains",
)
INSTRUMENT = "hooks on blocks of transformers, ratio of norms averaged over 50 prompts"
SVD = "singular values in float32 of the stored matrix"
SET = "kameshkanna_instructions_50"
PROMPTS = 50
POSITIONS = {"llama": "last", "qwen": "last", "gemma": "unstated", "mistral": "unstated"}
"""The index taken is that of the last token only where the tokenizer pads right; of two it is not
known."""


def tables(folder: Path) -> Tables:
    """Gains of blocks 2 to L, and W_O by layer."""
    made = Tables(SOURCE)
    made.prompts(SET, [f"p{number:02}" for number in range(1, PROMPTS + 1)], "Instruction")
    for name, position in POSITIONS.items():
        model = json.loads((folder / f"{name}_summary.json").read_text(encoding="utf-8"))["hf_id"]
        rows = pd.read_csv(folder / f"{name}_k_vs_spectral.csv").sort_values("layer_idx")
        run = made.run(model, SET, INSTRUMENT, "bfloat16")
        made.norms(run, rows["mean_norm"].tolist(), position, first=1)
        made.weights(
            made.run(model, "", SVD, "bfloat16"), "W_O", rows["spectral_norm_o_proj"].tolist()
        )
    return made
