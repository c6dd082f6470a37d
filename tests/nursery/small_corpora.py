"""Corpora of a few thousand tokens, and rows of a design that train in a second."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from thermostats.studies.nursery import corpora, synthetic

WORDS = ("it", "is", "a", "truth", "that", "single", "men", "of", "good", "fortune", "must", "want", "some", "wife")
BUDGET = 0.02
"""Times the 600 steps of the shipped models: 12 steps."""


def small_corpora(folder: Path) -> Path:
    """Build both corpora in `folder` from an English text made up here and a hundred synthetic documents."""
    draw = random.Random(1)  # noqa: S311 - no secret
    chapters = (
        f"Chapter {n}\n\n" + ".\n".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(40)) + ".\n"
        for n in range(1, 42)
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "novel.txt"
    text.write_text("\n".join(chapters))
    whole = synthetic.documents
    synthetic.documents = lambda: whole(100)
    try:
        corpora.build(folder, text)
    finally:
        synthetic.documents = whole
    return folder


def row(model: str = "r01-1", **changed: Any) -> dict[str, Any]:
    """A row of a design: a GPT-2 of two blocks, AdamW."""
    return {
        "model": model,
        "recipe": model.partition("-")[0],
        "optimiser": "adamw",
        "init": "normal",
        "decay": "low",
        "schedule": "cosine",
        "peak": "low",
        "dropout": "none",
        "corpus": "english",
        "architecture": "gpt2",
        "norm": "pre",
        "position": "learned",
        "model_type": "gpt2",
        "tied": True,
        "n_layers": 2,
        "d_model": 32,
        "n_heads": 2,
        "d_head": 16,
        "rho": 0.125,
        "seed": 7,
        "replicate_of": "",
    } | changed
