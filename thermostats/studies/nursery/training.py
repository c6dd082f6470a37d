"""Train models of the design: the same number of steps for all, six checkpoints, losses kept; many side by side.

A model is the unit of resumption: its folder appears, whole, when it is trained; what was interrupted begins again.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import queue
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Protocol

import filelock
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from transformers import AutoModelForCausalLM, PreTrainedModel

from thermostats.measurement.settings import Settings
from thermostats.studies.nursery import corpora, tokenizer
from thermostats.studies.nursery.corpora import Corpus, Tokens, unigram_loss
from thermostats.studies.nursery.factors import BATCH, CHECKPOINTS, CONTEXT, STEPS, TUNING
from thermostats.studies.nursery.models import POSITION_TABLES, build
from thermostats.studies.nursery.optimisers import optimisers, schedule
from thermostats.studies.nursery.plan import Trained, model_folder, read_record, step_folder, tuned_name, write_record
from thermostats.studies.nursery.pools import Submit, pool

CLIP = 1.0
"""Largest norm of the gradient; larger ones are scaled down to it."""
HELD_OUT_WINDOWS = 32
"""Windows, evenly spread over the held-out tokens, on which the loss is estimated."""
Row = Mapping[str, Any]
Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""


@dataclass(frozen=True)
class Job:
    """One training: a row of the design, from initialisation or (`tuned`) on the other corpus."""

    row: Row
    tuned: bool
    budget: float

    @property
    def name(self) -> str:
        """Name of the model that comes of it."""
        return tuned_name(self.row["model"]) if self.tuned else str(self.row["model"])

    @property
    def steps(self) -> int:
        """Steps of the optimiser."""
        return max(1, round(STEPS * self.budget * (TUNING if self.tuned else 1)))

    @property
    def work(self) -> float:
        """About how long it takes, in layer-steps; the wider model counts half as much again."""
        return float(self.steps * (self.row["n_layers"] + 1) * (1.5 if self.row["d_model"] > 32 else 1.0))

    def record(self, folder: Path) -> Trained | None:
        """What it came to, where it was trained by as many steps already."""
        known = read_record(folder, self.name)
        return known if known is not None and known.steps == self.steps else None

    def records(self, folder: Path) -> list[Trained]:
        """`record` as a list of one or none."""
        known = self.record(folder)
        return [] if known is None else [known]

    def run(self, folder: Path, *, device: str, progress: Progress) -> list[Trained]:
        """Train it, or tune it."""
        run = tune if self.tuned else train
        return [run(self.row, folder, budget=self.budget, device=device, progress=progress)]


class Work(Protocol):
    """Something to train: a model, or a pack of them."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def tuned(self) -> bool:
        """Whether it begins from what others must train first."""

    @property
    def work(self) -> float:
        """About how long it takes, to be compared with others of its kind."""

    def records(self, folder: Path) -> list[Trained]:
        """What its models came to, where all of them are trained."""

    def run(self, folder: Path, *, device: str, progress: Progress) -> list[Trained]:
        """Train it, or go on."""


@dataclass(frozen=True)
class Step:
    """Progress of a job: share done, and the records of its models when it is through."""

    job: Work
    share: float
    trained: Sequence[Trained] = ()


def jobs(rows: Sequence[Row], tuned: Sequence[Row], budget: float) -> list[Job]:
    """Every training of the rows, then fine-tuning of those in `tuned`."""
    return [Job(row, False, budget) for row in rows] + [Job(row, True, budget) for row in tuned]


def train_all(
    wanted: Sequence[Work],
    folder: Path,
    *,
    device: str = "cpu",
    processes: int | None = None,
    engine: Settings = Settings(),  # noqa: B008 - frozen
) -> Iterator[Step]:
    """Run jobs side by side, one process a core or one for a GPU, and yield their progress; fine-tuning comes last.
    The longest come first, so that processes end together.

    engine: this machine, or a cluster, which takes all jobs at once.

    A finished job is yielded at once and not run again. An exception of one job is raised when the others are through.
    """
    workers = processes or (1 if device != "cpu" else os.cpu_count() or 1)
    for tuned in (False, True):
        part = sorted((job for job in wanted if job.tuned == tuned), key=lambda job: -job.work)
        known = {job.name: job.records(folder) for job in part}
        yield from (Step(job, 1.0, known[job.name]) for job in part if known[job.name])
        if left := [job for job in part if not known[job.name]]:
            with pool(engine, folder.resolve(), min(workers, len(left)), gpu=device != "cpu") as (submit, shares):
                yield from _side_by_side(left, folder.resolve(), device, submit, shares)


def checkpoint_steps(steps: int) -> tuple[int, ...]:
    """Steps after which a checkpoint is kept, 0 and the last among them; small budgets give fewer than six."""
    return tuple(sorted({round(share * steps) for share in CHECKPOINTS}))


def train(
    row: Row, folder: Path, *, budget: float = 1.0, device: str = "cpu", progress: Progress | None = None
) -> Trained:
    """Train the model of a design's row on its corpus and write its checkpoints; what is there is not trained again.

    Deterministic given the row on one machine and torch build. `budget` multiplies the number of steps.
    """
    job = Job(row, False, budget)
    kept = checkpoint_steps(job.steps)
    return Training(job, folder, row["corpus"], "", kept, lambda size: build(row, size), device, progress).result()


def tune(
    row: Row, folder: Path, *, budget: float = 1.0, device: str = "cpu", progress: Progress | None = None
) -> Trained:
    """Train a finished model on with its own recipe on the other corpus (model MODEL-tuned), a base/instruct-like pair.

    Raises FileNotFoundError where the model itself is not trained yet.
    """
    job = Job(row, True, budget)
    parent = step_folder(folder, row["model"], Job(row, False, budget).steps)
    if not parent.is_dir():
        raise FileNotFoundError(parent)

    def start(_vocab_size: int) -> PreTrainedModel:
        torch.manual_seed(int(row["seed"]))
        model = AutoModelForCausalLM.from_pretrained(parent, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            held = row["position"] == "none" and any(table in name for table in POSITION_TABLES)
            parameter.requires_grad_(not held)
        return model

    other = next(name for name in corpora.NAMES if name != row["corpus"])
    begun = f"{row['model']}/{parent.name}"
    return Training(job, folder, other, begun, (job.steps,), start, device, progress).result()


@dataclass(frozen=True)
class Training:
    """One model's training: its job, corpus and parent, the checkpoints it keeps and the model it begins from."""

    job: Job
    folder: Path
    corpus: str
    parent: str
    kept: tuple[int, ...]
    start: Callable[[int], PreTrainedModel]
    device: str
    progress: Progress | None

    def result(self) -> Trained:
        """The record of the training, made now where there is none."""
        corpus = corpora.load(self.folder, self.corpus)
        target = model_folder(self.folder, self.job.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{self.job.name}.part")
        with filelock.FileLock(target.with_name(f".{self.job.name}.lock")):
            if known := self.job.record(self.folder):
                return known
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            done = self._into(part, corpus)
            if target.exists():
                shutil.rmtree(target)
            part.rename(target)
        return done

    def _into(self, part: Path, corpus: Corpus) -> Trained:
        model, steps, row = self.start(corpus.vocab_size), self.job.steps, self.job.row
        began = perf_counter()
        words = tokenizer.load(self.folder)
        nn.Module.to(model, self.device).train()
        rules = optimisers(model, row)
        factor = schedule(row["schedule"], steps)
        peaks = [(group, group["lr"]) for rule in rules for group in rule.param_groups]
        rng = np.random.default_rng([int(row["seed"]), len(self.parent)])
        losses: list[dict[str, Any]] = []

        def keep(step: int) -> None:
            if step in self.kept:
                model.save_pretrained(part / f"step{step:05d}")
                words.save_pretrained(part / f"step{step:05d}")
                loss = heldout_loss(model, corpus.heldout, self.device)
                losses.append({"step": step, "loss": loss, "part": "heldout"})

        keep(0)
        for step in range(steps):
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
            keep(step + 1)
            if self.progress is not None:
                self.progress(step + 1, steps)
        end, unigram = losses[-1]["loss"], unigram_loss(corpus)
        done = Trained(
            self.job.name,
            self.parent,
            corpus.name,
            steps,
            tokens=steps * BATCH * CONTEXT,
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


def _windows(tokens: Tokens, starts: Any, device: str) -> torch.Tensor:
    taken = np.stack([tokens[start : start + CONTEXT + 1] for start in starts]).astype(np.int64)
    return torch.from_numpy(taken).to(device)


def _loss(model: PreTrainedModel, windows: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=windows[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def _side_by_side(
    wanted: Sequence[Work], folder: Path, device: str, submit: Submit, shares: queue.Queue[tuple[int, float]] | None
) -> Iterator[Step]:
    running = [(submit(_train, i, job, folder, device, shares), job) for i, job in enumerate(wanted)]
    failed: BaseException | None = None
    while running:
        yield from (Step(wanted[number], share) for number, share in _arrived(shares))
        through = [(future, job) for future, job in running if future.done()]
        running = [(future, job) for future, job in running if all(future is not other for other, _ in through)]
        for future, job in through:
            if (error := future.exception()) is not None:
                failed = error
            else:
                yield Step(job, 1.0, future.result())
    if failed is not None:
        raise failed


def _arrived(shares: queue.Queue[tuple[int, float]] | None) -> Iterator[tuple[int, float]]:
    if shares is None:
        sleep(0.5)
        return
    try:
        yield shares.get(timeout=0.5)
        while True:
            yield shares.get_nowait()
    except queue.Empty:
        return


def _train(
    number: int, job: Work, folder: Path, device: str, shares: queue.Queue[tuple[int, float]] | None
) -> list[Trained]:
    parent = multiprocessing.parent_process()

    def progress(done: int, total: int) -> None:
        if parent is not None and not parent.is_alive():
            raise SystemExit("the command that trains was killed")
        if shares is not None and done % 10 == 0:
            shares.put((number, done / total))

    return job.run(folder, device=device, progress=progress)
