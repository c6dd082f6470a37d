"""`measure --what weights` of this checkout beside that of another one, such as of an earlier
version.

    git worktree add /tmp/earlier e39505a9           # version 0.3.0
    python benchmarks/weights.py /tmp/earlier        # three random models, three rounds

Random models of a GPT-2, a GPT-NeoX and a Llama with grouped keys are written to a temporary
folder, 2.5 GB of it. Both take turns on each; a command's time is the CPU-seconds of its processes,
imports included. Results go to results/weights.csv.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from report import THERMOSTATS, timed
from results import RESULTS
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    PretrainedConfig,
    set_seed,
)

HERE = Path(__file__).parents[1]
ROUNDS = 3
GOAL = 1.12
"""Most times of the other's CPU-seconds."""
CONFIGURATIONS: dict[str, PretrainedConfig] = {
    "GPT-2, 12 blocks of width 768": GPT2Config(),
    "GPT-NeoX, 12 blocks of width 768": GPTNeoXConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
    ),
    "Llama, 24 blocks of width 896": LlamaConfig(
        hidden_size=896,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        intermediate_size=4864,
        vocab_size=32000,
    ),
}


def save_random_model(configuration: PretrainedConfig, folder: Path) -> Path:
    """A model with random weights."""
    set_seed(1)
    model = AutoModelForCausalLM.from_config(configuration, dtype=torch.float32)
    model.save_pretrained(folder)
    return folder


def time_command(checkout: Path, model: Path, place: Path) -> float:
    """CPU-seconds of the command with a checkout's package, into a new folder of rows."""
    with tempfile.TemporaryDirectory(dir=place) as data:
        command = [*THERMOSTATS, "measure", str(model), "--what", "weights"]
        command += ["--data", f"{data}/mine"]
        alone = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
        return timed(command, place / "cache", **alone)[0]


def compare_checkouts(other: Path, place: Path) -> list[dict[str, Any]]:
    """A line a model: median CPU-seconds of both, and the median ratio of the rounds."""
    lines = []
    for name, configuration in CONFIGURATIONS.items():
        model = save_random_model(configuration, place / "model")
        rounds = []
        for _ in range(ROUNDS):
            rounds.append([time_command(checkout, model, place) for checkout in (HERE, other)])
        ours, theirs = np.median(rounds, axis=0)
        ratio = np.median([a / b for a, b in rounds])
        line = {
            "model": name,
            "cpu_seconds": ours,
            "other_cpu_seconds": theirs,
            "ratio": ratio,
            "goal": GOAL,
            "load": os.getloadavg()[0],
            "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        }
        print(line, flush=True)
        lines.append(line)
    return lines


def main(other: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        lines = compare_checkouts(other.resolve(), Path(place))
    pd.DataFrame(lines).to_csv(RESULTS / "weights.csv", index=False, float_format="%.3g")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
