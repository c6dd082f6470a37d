"""Tables and models that ship; what is kept of a training: record, losses, folders of checkpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermostats.errors import DataError, first_line
from thermostats.tables.folders import shipped

if TYPE_CHECKING:
    import pandas as pd

CORPORA, RECORD, LOSSES, GAINS = "corpora.json", "training.json", "losses.csv", "gains.csv"
"""Records of a folder's corpora and of a model's training; losses of a training, and gains and spectra along it."""
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


@dataclass(frozen=True)
class Trained:
    """What a model's training came to; the losses in nat per token."""

    model: str
    parent: str
    """Model and checkpoint that training began from, MODEL/step00600; empty: from initialisation."""
    corpus: str
    steps: int
    tokens: int
    loss: float | None
    """Held-out loss at the end; empty where it is not finite."""
    loss_unigram: float
    """Held-out loss of the training tokens' frequencies alone."""
    learned: bool
    """The held-out loss is below that of the frequencies alone; a rule fixed before the first model was trained."""
    seconds: float
    loss_bigram: float | None = None
    """Held-out loss of the training tokens' pairs alone; of models trained in packs."""


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


def shipped_models() -> list[Path]:
    """Folders of the trained models that ship, each a Hugging Face model folder named after the model."""
    return sorted(path.parent for path in (shipped("data") / "nursery" / "models").glob("*/config.json"))


def model_folder(folder: Path, model: str) -> Path:
    """Folder of a trained model: its record, its losses, and a folder for every checkpoint."""
    return folder / "models" / model


def step_folder(folder: Path, model: str, step: int) -> Path:
    """Folder of a checkpoint, a Hugging Face model folder: FOLDER/models/MODEL/step00600."""
    return model_folder(folder, model) / f"step{step:05d}"


def read_record(folder: Path, model: str) -> Trained | None:
    """The record of a finished training, None where there is none. Raises DataError where it is damaged."""
    path = model_folder(folder, model) / RECORD
    if not path.is_file():
        return None
    try:
        found = Trained(**json.loads(path.read_text(encoding="utf-8")))
        if found.model != model or type(found.steps) is not int:
            raise ValueError(f"model = {found.model!r}, steps = {found.steps!r}")
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    return found


def read_gains(folder: Path, model: str) -> pd.DataFrame:
    """Gains and spectra along a model's training: the columns of `gains` in SECOND. Raises DataError where damaged."""
    import pandas as pd  # noqa: PLC0415 - choosing from the design does without

    path = model_folder(folder, model) / GAINS
    types = {name: "int64" if name in {"step", "layer"} else "float64" for name in SECOND["gains"][1:]}
    try:
        found = pd.read_csv(path)[list(types)].astype(types)
        if found.value_counts("step").nunique() != 1:
            raise ValueError("no rows, or not every layer at every step")
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error
    return found.assign(model=model)


def _damaged(path: Path, error: Exception) -> DataError:
    step = f"remove the folder {path.parent}, and repeat the thermostats nursery train that made it"
    return DataError("a file of a trained model is damaged", where=path, got=first_line(error), next_step=step)
