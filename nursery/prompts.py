"""Prompts that models in training are measured on, as tokens, in named sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from nursery import tokenizer
from nursery.corpora import prompt_sets
from nursery.designs import OF_CORPORA
from thermostats.measurement.prompts import load_prompts
from thermostats.tables.folders import find_shipped
from thermostats.tables.schemas import NURSERY

WINDOW = 32
"""Tokens in a prompt that is cut out of a corpus."""


@dataclass(frozen=True)
class Prompts:
    """Tokens (prompts, positions), padded on the right, the place of the last of each, and the rows
    of every set."""

    tokens: Tensor
    ends: Tensor
    sets: Mapping[str, slice]


@cache
def prompts_of(folder: Path, kind: str) -> Prompts:
    """The nursery's prompts as one set without a name, or those cut out of each corpus."""
    if kind == OF_CORPORA:
        windows = prompt_sets(folder, WINDOW)
        tokens = torch.tensor([window.tolist() for rows in windows.values() for window in rows])
        count = len(tokens) // len(windows)
        sets = {name: slice(i * count, (i + 1) * count) for i, name in enumerate(windows)}
        return Prompts(tokens, torch.full((len(tokens),), WINDOW - 1), sets)
    words = tokenizer.load(folder)
    texts: Mapping[int, str] = load_prompts(NURSERY, find_shipped("data"))["text"].to_dict()
    rows = [words(text)["input_ids"] for text in texts.values()]
    ends = torch.tensor([len(row) - 1 for row in rows])
    padded = [row + [0] * (int(ends.max()) + 1 - len(row)) for row in rows]
    return Prompts(torch.tensor(padded), ends, {"": slice(0, len(rows))})
