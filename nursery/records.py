"""What is kept of a training: its record, its losses, gains and spectra along it, folders of
checkpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from thermostats.errors import DataError, take_first_line
from thermostats.studies.nursery import SECOND

CORPORA, RECORD, LOSSES, GAINS = "corpora.json", "training.json", "losses.csv", "gains.csv"
"""Records of a folder's corpora and of a model's training; losses of a training, and gains and
spectra along it."""
BY_PROMPT = "prompts.csv"
"""Gains at the end of a training by prompt, where prompts were cut out of the corpora."""


@dataclass(frozen=True)
class Trained:
    """What a model's training came to; the losses in nat per token."""

    model: str
    parent: str
    """Model and checkpoint that training began from, MODEL/step00600; empty: from
    initialisation."""
    corpus: str
    steps: int
    tokens: int
    loss: float | None
    """Held-out loss at the end; empty where it is not finite."""
    loss_unigram: float
    """Held-out loss of the training tokens' frequencies alone."""
    learned: bool
    """The held-out loss is below that of the frequencies alone; a rule fixed before the first model
    was trained."""
    seconds: float
    loss_bigram: float | None = None
    """Held-out loss of the training tokens' pairs alone; of models trained in packs."""


def model_folder(folder: Path, model: str) -> Path:
    """Folder of a trained model: its record, its losses, and a folder for every checkpoint."""
    return folder / "models" / model


def step_folder(folder: Path, model: str, step: int) -> Path:
    """Folder of a checkpoint, a Hugging Face model folder: FOLDER/models/MODEL/step00600."""
    return model_folder(folder, model) / f"step{step:05d}"


def read_record(folder: Path, model: str) -> Trained | None:
    """The record of a finished training, None where there is none. Raises DataError where it is
    damaged."""
    path = model_folder(folder, model) / RECORD
    if not path.is_file():
        return None
    try:
        record = Trained(**json.loads(path.read_text(encoding="utf-8")))
        if record.model != model or type(record.steps) is not int:
            raise ValueError(f"model = {record.model!r}, steps = {record.steps!r}")
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    return record


def read_gains(folder: Path, model: str) -> pd.DataFrame:
    """Gains and spectra along a model's training: the columns of `gains`, with `prompts` where
    there are several sets.

    Raises DataError where they are damaged.
    """
    path = model_folder(folder, model) / GAINS
    types = {
        name: "int64" if name in {"step", "layer"} else "float64" for name in SECOND["gains"][1:]
    }
    try:
        rows = pd.read_csv(path).astype(types)
        if rows.value_counts("step").nunique() != 1:
            raise ValueError("no rows, or not every layer at every step")
        rows = rows[[*types, *rows.columns.intersection(["prompts"])]]
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error
    return rows.assign(model=model)


def read_by_prompt(folder: Path, model: str) -> pd.DataFrame:
    """Log gains at the end of a training by set of prompts, prompt and position. Raises DataError
    where damaged."""
    path = model_folder(folder, model) / BY_PROMPT
    types = {"prompts": "str", "prompt": "int64", "position": "str", "last_gain": "float64"}
    types["penultimate_gain"] = "float64"
    try:
        return pd.read_csv(path)[list(types)].astype(types)
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    step = f"remove the folder {path.parent}, and repeat the python -m nursery train that made it"
    return DataError(
        "a file of a trained model is damaged",
        where=path,
        got=take_first_line(error),
        next_step=step,
    )
