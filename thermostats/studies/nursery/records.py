"""What is kept of a training: its record, its losses, its checkpoints' folders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thermostats.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

CORPORA = "corpora.json"
"""Record of a folder's corpora."""

RECORD = "training.json"
LOSSES = "losses.csv"
TUNED = "-tuned"


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


def tuned_name(model: str) -> str:
    """Name of a model trained on, on the other corpus."""
    return model + TUNED


def model_folder(folder: Path, model: str) -> Path:
    """Folder of a trained model: its record, its losses, and a folder for every checkpoint."""
    return folder / "models" / model


def step_folder(folder: Path, model: str, step: int) -> Path:
    """Folder of a checkpoint, a Hugging Face model folder: FOLDER/models/MODEL/step00600."""
    return model_folder(folder, model) / f"step{step:05d}"


def read_record(folder: Path, model: str) -> Trained | None:
    """The record of a finished training, None where there is none."""
    path = model_folder(folder, model) / RECORD
    return Trained(**json.loads(path.read_text())) if path.is_file() else None


def write_record(part: Path, trained: Trained, losses: pd.DataFrame) -> None:
    """Write losses and record into a model's folder, the record last."""
    losses.to_csv(part / LOSSES, index=False)
    (part / RECORD).write_text(json.dumps(asdict(trained), indent=1) + "\n")


def read_losses(folder: Path, model: str) -> pd.DataFrame:
    """Losses of a finished training: columns model, step, part (train or heldout), loss in nat per token."""
    import pandas as pd  # noqa: PLC0415 - reading a record does without

    losses = pd.read_csv(model_folder(folder, model) / LOSSES)
    return losses.assign(model=model)[["model", "step", "part", "loss"]]


def check_corpora(folder: Path) -> None:
    """Raise DataError where a folder has no corpora to train on."""
    if not (folder / CORPORA).is_file():
        raise DataError("no corpora here", where=folder, next_step=f"thermostats nursery corpora --folder {folder}")
