"""Train one model of the design: the same number of steps for all, six checkpoints, its loss kept.

A model is the unit of resumption: its folder appears, whole, when it is trained; what was interrupted begins again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import filelock
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from transformers import AutoModelForCausalLM, PreTrainedModel

from thermostats.studies.nursery import corpora, tokenizer
from thermostats.studies.nursery.corpora import Corpus, Tokens
from thermostats.studies.nursery.factors import BATCH, CHECKPOINTS, CONTEXT, STEPS, TUNING
from thermostats.studies.nursery.models import POSITION_TABLES, build
from thermostats.studies.nursery.optimisers import optimisers, schedule
from thermostats.studies.nursery.records import (
    Trained,
    model_folder,
    read_record,
    step_folder,
    tuned_name,
    write_record,
)

CLIP = 1.0
"""Largest norm of the gradient; larger ones are scaled down to it."""
HELD_OUT_WINDOWS = 32
"""Windows, evenly spread over the held-out tokens, on which the loss is told."""
Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""


def checkpoint_steps(steps: int) -> tuple[int, ...]:
    """Steps after which a checkpoint is kept, 0 and the last among them; small budgets give fewer than six."""
    return tuple(sorted({round(share * steps) for share in CHECKPOINTS}))


def train(
    row: Mapping[str, Any], folder: Path, *, budget: float = 1.0, device: str = "cpu", progress: Progress | None = None
) -> Trained:
    """Train the model of a design's row on its corpus and write its checkpoints; what is there is not trained again.

    Deterministic given the row on one machine and torch build. `budget` multiplies the number of steps.
    """
    steps = max(1, round(STEPS * budget))

    def start(vocab_size: int) -> PreTrainedModel:
        return build(row, vocab_size)

    return Training(row, folder, row["model"], "", steps, checkpoint_steps(steps), start, device, progress).result()


def tune(
    row: Mapping[str, Any], folder: Path, *, budget: float = 1.0, device: str = "cpu", progress: Progress | None = None
) -> Trained:
    """Train a finished model on with its own recipe on the other corpus (model MODEL-tuned), a base/instruct-like pair.

    Raises FileNotFoundError where the model itself is not trained yet.
    """
    other = next(name for name in corpora.NAMES if name != row["corpus"])
    parent = step_folder(folder, row["model"], max(1, round(STEPS * budget)))
    if not parent.is_dir():
        raise FileNotFoundError(parent)
    steps = max(1, round(TUNING * STEPS * budget))

    def start(_vocab_size: int) -> PreTrainedModel:
        torch.manual_seed(int(row["seed"]))
        model = AutoModelForCausalLM.from_pretrained(parent, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            held = row["position"] == "none" and any(table in name for table in POSITION_TABLES)
            parameter.requires_grad_(not held)
        return model

    name, begun, tuned = tuned_name(row["model"]), f"{row['model']}/{parent.name}", {**row, "corpus": other}
    return Training(tuned, folder, name, begun, steps, (steps,), start, device, progress).result()


@dataclass(frozen=True)
class Training:
    """One model's training: the row whose recipe it follows, its name and parent, what it keeps and begins from."""

    row: Mapping[str, Any]
    folder: Path
    name: str
    parent: str
    steps: int
    kept: tuple[int, ...]
    start: Callable[[int], PreTrainedModel]
    device: str
    progress: Progress | None

    def result(self) -> Trained:
        """The record of the training, made now where there is none."""
        corpus = corpora.load(self.folder, self.row["corpus"])
        target = model_folder(self.folder, self.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{self.name}.part")
        with filelock.FileLock(target.with_name(f".{self.name}.lock")):
            known = read_record(self.folder, self.name)
            if known is not None and known.steps == self.steps:
                return known
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            done = self._into(part, corpus)
            if target.exists():
                shutil.rmtree(target)
            part.rename(target)
        return done

    def _into(self, part: Path, corpus: Corpus) -> Trained:
        model = self.start(corpus.vocab_size)
        began = perf_counter()
        words = tokenizer.load(self.folder)
        nn.Module.to(model, self.device).train()
        rules = optimisers(model, self.row)
        factor = schedule(self.row["schedule"], self.steps)
        peaks = [(group, group["lr"]) for rule in rules for group in rule.param_groups]
        rng = np.random.default_rng([int(self.row["seed"]), len(self.parent)])
        losses: list[dict[str, Any]] = []

        def keep(step: int) -> None:
            model.save_pretrained(part / f"step{step:05d}")
            words.save_pretrained(part / f"step{step:05d}")
            losses.append({"step": step, "loss": heldout_loss(model, corpus.heldout, self.device), "part": "heldout"})

        if 0 in self.kept:
            keep(0)
        for step in range(self.steps):
            for group, rate in peaks:
                group["lr"] = rate * factor(step)
            for rule in rules:
                rule.zero_grad()
            starts = rng.integers(len(corpus.train) - CONTEXT, size=BATCH)
            loss = _loss(model, _windows(corpus.train, starts, self.device))
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(model.parameters(), CLIP)
            for rule in rules:
                rule.step()
            losses.append({"step": step + 1, "loss": loss.item(), "part": "train"})
            if step + 1 in self.kept:
                keep(step + 1)
            if self.progress is not None:
                self.progress(step + 1, self.steps)
        end, unigram = losses[-1]["loss"], unigram_loss(corpus)
        done = Trained(
            self.name,
            self.parent,
            corpus.name,
            self.steps,
            tokens=self.steps * BATCH * CONTEXT,
            loss=end if math.isfinite(end) else None,
            loss_unigram=unigram,
            learned=math.isfinite(end) and end < unigram,
            seconds=round(perf_counter() - began, 1),
        )
        write_record(part, done, pd.DataFrame(losses))
        return done


@torch.no_grad()
def heldout_loss(model: PreTrainedModel, tokens: Tokens, device: str) -> float:
    """Mean cross-entropy, nat per token, on windows evenly spread over the held-out tokens, dropout off."""
    model.train(False)
    starts = np.linspace(0, len(tokens) - CONTEXT - 1, HELD_OUT_WINDOWS).astype(int)
    loss = float(np.mean([_loss(model, _windows(tokens, part, device)).item() for part in starts.reshape(-1, BATCH)]))
    model.train()
    return loss


def unigram_loss(corpus: Corpus) -> float:
    """Held-out cross-entropy of the training tokens' frequencies (one added to each count), nat per token."""
    counts = np.bincount(corpus.train, minlength=corpus.vocab_size) + 1.0
    return float(-np.log(counts / counts.sum())[corpus.heldout].mean())


def _windows(tokens: Tokens, starts: Any, device: str) -> torch.Tensor:
    taken = np.stack([tokens[start : start + CONTEXT + 1] for start in starts]).astype(np.int64)
    return torch.from_numpy(taken).to(device)


def _loss(model: PreTrainedModel, windows: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=windows[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
