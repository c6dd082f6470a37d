"""What is read of the third study's tables, which ships, and what describes the later studies'
tables for other tools.

`python scripts/nursery_tables.py` writes `data/nursery/third/read` from the tables beside it, and
`data/nursery/datapackage.json` (https://datapackage.org/standard/data-package/).
"""

from __future__ import annotations

import io
import json

import pandas as pd

from thermostats.studies.nursery import FOURTH, READ, SECOND, THIRD, load_shipped_table
from thermostats.tables.folders import find_shipped, write_atomically

NUMBER = "number"
WHOLE = "integer"
TEXT = "string"
FLAG = "boolean"
COLUMNS: dict[str, tuple[str, str]] = {
    "model": (
        TEXT,
        "name of the model: recipe, corpus where it has several, depth L, width d, heads h",
    ),
    "recipe": (TEXT, "training recipe; in the third and fourth study with the corpus"),
    "kind": (TEXT, "kind of tuning (corpus, optimiser, decay); empty: trained from initialisation"),
    "parent": (TEXT, "model and checkpoint that tuning began from; empty: from initialisation"),
    "replicate_of": (TEXT, "model that was trained again with another seed; empty: none"),
    "n_layers": (WHOLE, "depth, L"),
    "d_model": (WHOLE, "width, d"),
    "n_heads": (WHOLE, "heads, H"),
    "d_head": (WHOLE, "width of a head, d_h"),
    "rho": (NUMBER, "head density, H/d_h"),
    "seed": (WHOLE, "seed of initialisation and of the order of windows"),
    "optimiser": (TEXT, "adamw, lion, muon or sgd"),
    "rate": (NUMBER, "peak learning rate"),
    "decay": (NUMBER, "weight decay, decoupled"),
    "schedule": (TEXT, "of the rate: cosine, constant or linear"),
    "warmup": (NUMBER, "share of the steps in which the rate rises"),
    "batch": (WHOLE, "windows in a step"),
    "init": (NUMBER, "scale of the initial matrices"),
    "depth_power": (
        NUMBER,
        "power of 1/L by which initial matrices that write to the stream are scaled",
    ),
    "embed": (NUMBER, "standard deviation of initial embeddings"),
    "dropout": (NUMBER, "share of the outputs of attention and MLP that training drops"),
    "clip": (NUMBER, "norm at which gradients are clipped; 0: not at all"),
    "corpus": (TEXT, "what the model learned: english, synthetic, code or shuffled"),
    "steps": (WHOLE, "steps of the optimiser"),
    "tokens": (WHOLE, "tokens of training"),
    "loss": (NUMBER, "held-out loss at the end, nat per token; empty: not finite"),
    "loss_unigram": (
        NUMBER,
        "held-out loss of the training tokens' frequencies alone, nat per token",
    ),
    "loss_bigram": (NUMBER, "held-out loss of the training tokens' pairs alone, nat per token"),
    "learned": (FLAG, "whether the loss is below that of the frequencies alone"),
    "step": (WHOLE, "steps after which it was measured"),
    "layer": (WHOLE, "block, from 1"),
    "log_gain": (
        NUMBER,
        "log of the block's gain of the residual stream's norm, at the last token, mean over "
        "prompts",
    ),
    "log_gain_sd": (NUMBER, "its standard deviation over prompts"),
    "wv_norm": (NUMBER, "spectral norm of W_V"),
    "wo_norm": (NUMBER, "spectral norm of W_O"),
    "prompts": (TEXT, "corpus that the prompts were cut out of"),
    "prompt": (WHOLE, "number of the prompt in its set, from 1"),
    "position": (TEXT, "last: at the last token; mean: of the mean norm over tokens but the first"),
    "last_gain": (NUMBER, "log gain of the last block"),
    "penultimate_gain": (NUMBER, "log gain of block L − 1"),
    "penultimate_gain_of_mean": (
        NUMBER,
        "log gain of block L − 1 of the mean norm over tokens but the first",
    ),
}
"""Type and meaning of every column."""
MEANING = {
    "models": "one row per model: its recipe, shape and loss",
    "gains": "one row per model, checkpoint and block, in the third and fourth study also per set "
    "of prompts",
    "prompts": "one row per model, set of prompts, prompt and position at the end of training",
    "read/gains": "one row per model, checkpoint and set of prompts: block L − 1",
    "read/spectra": "one row per model and block at the end of training",
    "read/means": "one row per model: means over prompts of its own corpus at the end of training",
}
KEYS = {
    "models": ["model"],
    "gains": ["model", "step", "layer"],
    "prompts": ["model", "prompts", "prompt", "position"],
    "read/gains": ["model", "step", "prompts"],
    "read/spectra": ["model", "layer"],
    "read/means": ["model"],
}


def extract(
    models: pd.DataFrame, gains: pd.DataFrame, prompts: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """What findings read of the third study's `gains` and `prompts`: the tables `READ`."""
    gains = gains.merge(models[["model", "n_layers", "steps"]], on="model")
    ended = gains[gains["step"] == gains["steps"]].drop_duplicates(["model", "layer"])
    own = prompts.merge(models[["model", "corpus"]], on="model").query("prompts == corpus")
    means = own.groupby(["position", "model"])[["last_gain", "penultimate_gain"]].mean()
    by_model = means.loc["last", ["last_gain"]].assign(
        penultimate_gain_of_mean=means.loc["mean", "penultimate_gain"]
    )
    tables = {
        "gains": gains[gains["layer"] == gains["n_layers"] - 1],
        "spectra": ended,
        "means": by_model.reset_index(),
    }
    return {name: frame[list(READ[name])].reset_index(drop=True) for name, frame in tables.items()}


def packed(rows: pd.DataFrame) -> bytes:
    """A table as Parquet; numbers are split by bytes, which makes the file a third smaller."""
    stream = io.BytesIO()
    numbers = list(rows.select_dtypes("float64"))
    others = [name for name in rows if name not in numbers]
    rows.to_parquet(
        stream,
        index=False,
        compression="zstd",
        compression_level=22,
        use_dictionary=others,
        use_byte_stream_split=numbers,
    )
    return stream.getvalue()


def datapackage() -> bytes:
    """The data package of the later studies' tables."""
    studies = {
        "second": SECOND,
        "third": THIRD | {f"read/{name}": columns for name, columns in READ.items()},
    }
    studies["fourth"] = FOURTH
    resources = [
        {
            "name": f"{study}-{name.replace('/', '-')}",
            "path": f"{study}/{name}.{'csv' if name == 'models' else 'parquet'}",
            "description": MEANING[name],
            "schema": {
                "fields": [
                    {"name": column, "type": COLUMNS[column][0], "description": COLUMNS[column][1]}
                    for column in columns
                ],
                "primaryKey": [
                    *KEYS[name],
                    *["prompts"] * (name == "gains" and "prompts" in columns),
                ],
            },
        }
        for study, tables in studies.items()
        for name, columns in tables.items()
    ]
    title = "The nursery's second, third and fourth study"
    facts = {"name": "nursery-later-studies", "title": title, "resources": resources}
    return f"{json.dumps(facts, indent=1, ensure_ascii=False)}\n".encode()


if __name__ == "__main__":
    folder = find_shipped("data") / "nursery"
    (folder / "third" / "read").mkdir(exist_ok=True)
    for name, frame in extract(*(load_shipped_table(f"third/{name}") for name in THIRD)).items():
        write_atomically(folder / "third" / "read" / f"{name}.parquet", packed(frame))
    write_atomically(folder / "datapackage.json", datapackage())
