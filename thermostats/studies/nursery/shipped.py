"""The nursery's tables and trained models that ship."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import DataError
from thermostats.tables.folders import shipped

if TYPE_CHECKING:
    import pandas as pd

SECOND: dict[str, tuple[str, ...]] = {
    "models": (
        *("model", "recipe", "kind", "parent", "replicate_of"),
        *("n_layers", "d_model", "n_heads", "d_head", "rho", "seed"),
        *("optimiser", "rate", "decay", "schedule", "warmup", "batch"),
        *("init", "depth_power", "embed", "dropout", "clip"),
        *("corpus", "steps", "tokens", "loss", "loss_unigram", "loss_bigram", "learned"),
    ),
    "gains": ("model", "step", "layer", "log_gain", "log_gain_sd", "wv_norm", "wo_norm"),
}
"""Tables of the second study: one row per model, and one row per model, checkpoint and layer (means over prompts)."""
SHARES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Shares of training after which gains are kept, where a design does not say otherwise."""


EMPTY: dict[str, dict[str, Any]] = {
    "design": {"keep_default_na": False},
    "models": {"keep_default_na": False, "na_values": [""]},
}
"""How empty cells of shipped tables are read, where not as pandas does: a level may be called none."""


def shipped_table(name: str = "design") -> pd.DataFrame:
    """A table of the nursery that ships: `design`, `training` (records), `losses`; of SECOND.

    Raises DataError where it cannot be read.
    """
    import pandas as pd  # noqa: PLC0415 - choosing from the design does without

    folder = shipped("data") / "nursery" / ("second" if name in SECOND else "")
    path = folder / f"{name}.{'parquet' if name == 'gains' else 'csv'}"
    try:
        return pd.read_parquet(path) if name == "gains" else pd.read_csv(path, **EMPTY.get(name, {}))
    except (OSError, ValueError) as error:
        raise DataError("a table of the nursery cannot be read", where=path, got=str(error)) from error


def shipped_design() -> Path:
    """The design file that ships, of the second study."""
    return shipped("data") / "nursery" / "second" / "design.toml"
