"""Corpora of a few thousand tokens, on which models train in a second."""

from __future__ import annotations

import random
from pathlib import Path

from thermostats.studies.nursery import corpora, synthetic

WORDS = ("it", "is", "a", "truth", "that", "single", "men", "of", "good", "fortune", "must", "want", "some", "wife")


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
