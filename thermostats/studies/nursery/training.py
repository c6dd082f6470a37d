"""Train one model of the design: the same number of steps for all, six checkpoints, its loss kept.

A model is the unit of resumption: its folder appears, whole, when it is trained; what was interrupted begins again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
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
    corpus = corpora.load(folder, row["corpus"])
    steps = max(1, round(STEPS * budget))
    return _run(
        row,
        folder,
        row["model"],
        "",
        lambda: build(row, corpus.vocab_size),
        corpus,
        steps,
        checkpoint_steps(steps),
        device,
        progress,
    )


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

    def start() -> PreTrainedModel:
        torch.manual_seed(int(row["seed"]))
        model = AutoModelForCausalLM.from_pretrained(parent, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            held = row["position"] == "none" and any(table in name for table in POSITION_TABLES)
            parameter.requires_grad_(not held)
        return model

    begun = f"{row['model']}/{parent.name}"
    changed = {**row, "corpus": other}
    return _run(
        changed,
        folder,
        tuned_name(row["model"]),
        begun,
        start,
        corpora.load(folder, other),
        steps,
        (steps,),
        device,
        progress,
    )


def _run(
    row: Mapping[str, Any],
    folder: Path,
    name: str,
    parent: str,
    start: Callable[[], PreTrainedModel],
    corpus: Corpus,
    steps: int,
    kept: tuple[int, ...],
    device: str,
    progress: Progress | None,
) -> Trained:
    target = model_folder(folder, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{name}.part")
    with filelock.FileLock(target.with_name(f".{name}.lock")):
        known = read_record(folder, name)
        if known is not None and known.steps == steps:
            return known
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        done = _train_into(part, row, name, parent, start(), corpus, steps, kept, device, progress, folder)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    return done


def _train_into(
    part: Path,
    row: Mapping[str, Any],
    name: str,
    parent: str,
    model: PreTrainedModel,
    corpus: Corpus,
    steps: int,
    kept: tuple[int, ...],
    device: str,
    progress: Progress | None,
    folder: Path,
) -> Trained:
    began = perf_counter()
    words = tokenizer.load(folder)
    nn.Module.to(model, device).train()
    rules = optimisers(model, row)
    factor = schedule(row["schedule"], steps)
    peaks = [[group["lr"] for group in rule.param_groups] for rule in rules]
    rng = np.random.default_rng([int(row["seed"]), len(parent)])
    losses: list[dict[str, Any]] = []

    def keep(step: int) -> None:
        model.save_pretrained(part / f"step{step:05d}")
        words.save_pretrained(part / f"step{step:05d}")
        losses.append({"step": step, "loss": heldout_loss(model, corpus.heldout, device), "part": "heldout"})

    if 0 in kept:
        keep(0)
    for step in range(steps):
        for rule, peak in zip(rules, peaks, strict=True):
            for group, rate in zip(rule.param_groups, peak, strict=True):
                group["lr"] = rate * factor(step)
            rule.zero_grad()
        loss = _loss(model, _windows(corpus.train, rng.integers(len(corpus.train) - CONTEXT, size=BATCH), device))
        loss.backward()  # type: ignore[no-untyped-call]
        clip_grad_norm_(model.parameters(), CLIP)
        for rule in rules:
            rule.step()
        losses.append({"step": step + 1, "loss": loss.item(), "part": "train"})
        if step + 1 in kept:
            keep(step + 1)
        if progress is not None:
            progress(step + 1, steps)
    end = losses[-1]["loss"]
    unigram = unigram_loss(corpus)
    finite = math.isfinite(end)
    done = Trained(
        name,
        parent,
        corpus.name,
        steps,
        steps * BATCH * CONTEXT,
        end if finite else None,
        unigram,
        finite and end < unigram,
        round(perf_counter() - began, 1),
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
