"""The controlled studies' tables: those that are read ship with the package, the others are in the repository."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING, Any

from thermostats.errors import DataError
from thermostats.tables.folders import INSTALLED, shipped

if TYPE_CHECKING:
    import pandas as pd

MODELS = (
    *("model", "recipe", "kind", "parent", "replicate_of"),
    *("n_layers", "d_model", "n_heads", "d_head", "rho", "seed"),
    *("optimiser", "rate", "decay", "schedule", "warmup", "batch"),
    *("init", "depth_power", "embed", "dropout", "clip"),
    *("corpus", "steps", "tokens", "loss", "loss_unigram", "loss_bigram", "learned"),
)
GAINS = ("model", "step", "layer", "log_gain", "log_gain_sd", "wv_norm", "wo_norm")
PROMPTS = ("model", "prompts", "prompt", "position", "last_gain", "penultimate_gain")
SECOND: dict[str, tuple[str, ...]] = {"models": MODELS, "gains": GAINS, "prompts": PROMPTS}
THIRD: dict[str, tuple[str, ...]] = {"models": MODELS, "gains": (*GAINS, "prompts"), "prompts": PROMPTS}
"""Tables of the later studies: a row a model; a row a model, checkpoint and layer, means over prompts (in the third
study over each set of them); a row a model, prompt and position at the end of training, log gains.
"""
READ: dict[str, tuple[str, ...]] = {
    "gains": ("model", "step", "prompts", "log_gain", "log_gain_sd"),
    "spectra": ("model", "layer", "wv_norm", "wo_norm"),
    "means": ("model", "last_gain", "penultimate_gain_of_mean"),
}
"""What is read of the third study's, as `scripts/nursery_tables.py` makes it: gains of block L − 1; spectra at the end;
means over prompts of the model's own corpus at the end, of the last gain and of block L − 1's of the mean over tokens.
"""
CSV: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""How empty cells of the later studies' tables are read: a level may be called none."""


def shipped_table(name: str = "design") -> pd.DataFrame:
    """A table of the nursery: `design`, `training` (records), `losses`; `second/models`, `third/read/gains`, ….

    Raises DataError where it cannot be read, as those that no finding reads where the package is installed.
    """
    import pandas as pd  # noqa: PLC0415 - choosing from the design does without

    suffix = "csv" if "/" not in name or name.endswith("models") else "parquet"
    path = shipped("data") / "nursery" / f"{name}.{suffix}"
    if not path.is_file() and path.is_relative_to(INSTALLED):
        step = "git clone the repository, and read the table in the checkout"
        raise DataError("this table of the nursery is no part of the installed package", got=name, next_step=step)
    try:
        if suffix == "parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, **({"keep_default_na": False} if name == "design" else CSV if "/" in name else {}))
    except (OSError, ValueError) as error:
        raise DataError("a table of the nursery cannot be read", where=path, got=str(error)) from error


@cache
def of_third() -> dict[str, int]:
    """How many the third study has: models and recipes of its design, corpora, seeds repeated, and tuned models."""
    with (shipped("data") / "nursery" / "third" / "models.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    design = [row for row in rows if not row["kind"]]
    return {
        "models": len(design),
        "recipes": len({row["recipe"].partition("-")[0] for row in design}),
        "corpora": len({row["corpus"] for row in design}),
        "shapes": len({(row["n_layers"], row["rho"], row["d_model"]) for row in design}),
        "repeats": sum(bool(row["replicate_of"]) for row in design),
        "tuned": len(rows) - len(design),
    }
