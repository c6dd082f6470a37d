"""The nursery's tables and trained models that ship."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import DataError
from thermostats.tables.folders import shipped

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
SHARES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Shares of training after which gains are kept, where a design does not say otherwise."""
CSV: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""How empty cells of the later studies' tables are read: a level may be called none."""


def shipped_table(name: str = "design") -> pd.DataFrame:
    """A table of the nursery that ships: `design`, `training` (records), `losses`; `second/models`, `third/gains`, ….

    Raises DataError where it cannot be read.
    """
    import pandas as pd  # noqa: PLC0415 - choosing from the design does without

    suffix = "parquet" if name.endswith(("gains", "prompts")) else "csv"
    path = shipped("data") / "nursery" / f"{name}.{suffix}"
    try:
        if suffix == "parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, **({"keep_default_na": False} if name == "design" else CSV if "/" in name else {}))
    except (OSError, ValueError) as error:
        raise DataError("a table of the nursery cannot be read", where=path, got=str(error)) from error


def shipped_design() -> Path:
    """The design file that ships, of the second study."""
    return shipped("data") / "nursery" / "second" / "design.toml"
