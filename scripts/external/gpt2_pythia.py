"""Norms after every block of GPT-2 and two Pythia models, centred, on one prompt."""

import json
from pathlib import Path

from source import Tables

from thermostats.tables.column_map import CENTRED
from thermostats.tables.export import Source

SOURCE = Source(
    name="ie7374-gpt2-pythia",
    title="Norms of the centred stream of GPT-2 and two Pythia models, one prompt",
    address="github.com/Jesus-D-Jimenez/IE7374_Project",
    commit="ad8b48ed5fe451d14e08d1c2c3aea3906272ccaa",
    licence="MIT",
)
INSTRUMENT = (
    "TransformerLens with its defaults: layer norms folded, stream centred; norms to two decimals"
)
SET = "ie7374_eiffel_1"
MODELS = {
    "gpt2": "openai-community/gpt2",
    "pythia-160m": "EleutherAI/pythia-160m",
    "pythia-410m": "EleutherAI/pythia-410m",
}


def tables(folder: Path) -> Tables:
    """Read gains of blocks 2 to L at the last token of the one prompt: the stream was centred."""
    made = Tables(SOURCE)
    made.prompts(SET, ["eiffel"], "Factual")
    norms = json.loads((folder / "residual_norms.json").read_text(encoding="utf-8"))
    for name, values in norms.items():
        made.norms(
            made.run(MODELS[name], SET, INSTRUMENT),
            values,
            "last",
            first=1,
            prompt="eiffel",
            form=CENTRED,
        )
    return made
