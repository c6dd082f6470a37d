"""Norms of the stream of ten models before every block, by TransformerLens, on one prompt."""

from pathlib import Path

import pandas as pd
from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="logos-in-layers",
    title="Norms of the stream of ten models, one prompt",
    address="github.com/forms-and-features/logos-in-layers",
    commit="run of 2025-10-16",
    licence="MIT",
)
INSTRUMENT = (
    "TransformerLens, weights not processed; norms before every block and before the final norm"
)
SET = "logos_capital_1"


def tables(folder: Path) -> Tables:
    """Gains of every block at the last token of the one prompt."""
    made = Tables(SOURCE)
    states = pd.read_csv(folder / "states.csv")
    made.prompts(SET, sorted(states["prompt"].unique()), "Factual")
    for model, rows in states.groupby("model"):
        run = made.run(str(model), SET, INSTRUMENT, "float32", "2025-10-16")
        for prompt, stream in rows.sort_values("state").groupby("prompt"):
            made.norms(
                run,
                stream["norm"].tolist(),
                "last",
                first=int(stream["state"].min()),
                prompt=str(prompt),
            )
    return made
