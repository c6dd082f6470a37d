"""Norms of hidden states of six models at the last token, averaged over ten or fifteen prompts."""

import json
from pathlib import Path

from source import Tables

from thermostats.tables.export import Source

SOURCE = Source(
    name="standard-model-of-transformers",
    title="Norms of hidden states of six models, means over ten or fifteen prompts",
    address="github.com/hafufu-stack/Standard-Model-of-Transformers",
    commit="ac24bc349910d460c96a5ce052c51418d6f587bc",
    licence="MIT",
    left_out="the row “7B” of phase293_shock_waves, which repeats the norms of Qwen2.5-1.5B to the "
    "last digit, since "
    "the program loads that model where another is lacking; further means of Qwen2.5-0.5B and "
    "-1.5B over other "
    "prompts (phase226, 230, 235, 238, 293), of which the tables hold one a model, of the pair "
    "Qwen2.5-0.5B and "
    "-0.5B-Instruct that over the prompts of both",
)
INSTRUMENT = "hidden states of transformers, ratio of norms averaged over prompts"
MODELS = {
    "Qwen-1.5B": "Qwen/Qwen2.5-1.5B",
    "Llama-1B": "meta-llama/Llama-3.2-1B",
    "GPT2-XL": "openai-community/gpt2-xl",
    "OPT-1.3B": "facebook/opt-1.3b",
}
PAIR = {"Base-0.5B": "Qwen/Qwen2.5-0.5B", "Instruct-0.5B": "Qwen/Qwen2.5-0.5B-Instruct"}
FILES = (
    ("phase230_universality.json", "standard_model_universality_10", 10, MODELS),
    ("phase238_instruct_vs_base.json", "standard_model_pair_15", 15, PAIR),
)
"""File, prompt set, its number of prompts, and models by their names in the file."""


def tables(folder: Path) -> Tables:
    """Gains of blocks 1 to L − 1; the last state has gone through the final norm, so that it gives
    the normed gain."""
    made = Tables(SOURCE)
    for file, prompts, count, models in FILES:
        made.prompts(prompts, [f"p{number:02}" for number in range(1, count + 1)], "unstated")
        results = json.loads((folder / file).read_text(encoding="utf-8"))["results"]
        for name, model in models.items():
            *stream, normed = results[name]["mean_U"]
            run = made.run(model, prompts, INSTRUMENT, "float16")
            made.norms(run, stream, "last")
            made.summaries(run, {"normed_gain": normed / stream[-1]})
    return made
