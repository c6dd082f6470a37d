"""Train a pack as one batch of stacked matrices.

A model's numbers depend on its own seed and the step alone, whatever else is in the pack, up to
rounding; on a GPU dropout is drawn by the GPU's generator, so that models with dropout are as with
another seed there. A pack writes its state down now and then and goes on from there after a kill;
its models' folders appear when it is through.
"""

from __future__ import annotations

import io
import json
import math
import shutil
import zipfile
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import filelock
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nursery import corpora, stacked, tokenizer
from nursery.corpora import bigram_loss, unigram_loss
from nursery.designs import OF_CORPORA, Member, Pack
from nursery.gains_by_prompt import by_prompt, log_norms
from nursery.prompts import prompts_of
from nursery.rates import Optimiser
from nursery.records import BY_PROMPT, GAINS, LOSSES, RECORD, Trained, model_folder, step_folder
from thermostats.tables.folders import write_atomically

SAVED_EVERY = 120.0
"""Seconds of work that a kill may cost."""
HELD_OUT_WINDOWS = 64
AT_ONCE = 16
STATES = "packs"
"""Folder of the states of packs that are under way."""
LOSSES_EVERY = 10
"""Training losses are kept as means over so many steps."""


def run(pack: Pack, folder: Path, *, device: str = "cpu", progress: Any = None) -> list[Trained]:
    """Train a pack, or go on; what is trained is not trained again."""
    states = folder / STATES
    states.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(states / f".{pack.name}.lock"):
        if records := pack.records(folder):
            return records
        training = PackTraining(pack, folder, device)
        records = training.result(progress)
        training.place.unlink(missing_ok=True)
        return records


class PackTraining:
    """A pack's training as far as it is: what stands in its state file."""

    def __init__(self, pack: Pack, folder: Path, device: str) -> None:
        self.pack, self.folder, self.device = pack, folder, device
        self.recipes = [member.recipe for member in pack.members]
        self.corpora = {
            name: corpora.load(folder, name) for name in {recipe.corpus for recipe in self.recipes}
        }
        vocab = next(iter(self.corpora.values())).vocab_size
        began = [self._beginning(member, vocab) for member in pack.members]
        self.weights = {
            name: t.to(device).requires_grad_() for name, t in stacked.stack(began).items()
        }
        self.optimiser = Optimiser(self.weights, self.recipes)
        self.step, self.seconds = 0, 0.0
        self.losses: list[list[float]] = []
        self.rows: list[dict[str, Any]] = []
        self.place = folder / STATES / f"{pack.name}.pt"
        self.moments = {round(share * pack.steps) for share in pack.shares}
        self.prompts = prompts_of(folder, pack.prompts)

    def _beginning(self, member: Member, vocab: int) -> stacked.Weights:
        if not member.parent:
            return stacked.initial(self.pack.shape, member.recipe, vocab, member.seed)
        model, _, step = member.parent.partition("/")
        return stacked.restored(step_folder(self.folder, model, int(step.removeprefix("step"))))

    def result(self, progress: Any) -> list[Trained]:
        """Go on to the last step and write the models."""
        self._resume()
        if not self.rows:
            self._keep()
        began = saved = perf_counter()
        spent = self.seconds
        while self.step < self.pack.steps:
            self._take_a_step()
            self.seconds = spent + perf_counter() - began
            if self.step in self.moments:
                self._keep()
            if perf_counter() - saved > SAVED_EVERY:
                self._save()
                saved = perf_counter()
            if progress is not None:
                progress(self.step, self.pack.steps)
        ends = (
            by_prompt(self.weights, self.prompts, self.pack.shape)
            if self.pack.prompts == OF_CORPORA
            else None
        )
        return [self._finished(number, ends) for number in range(len(self.recipes))]

    def _take_a_step(self) -> None:
        tokens = self._windows()
        dropped = self._dropped(tokens.shape[1] * self.pack.context)
        logits = stacked.forward(self.weights, tokens[..., :-1], self.pack.shape, dropped).logits
        losses = by_model(logits, tokens[..., 1:])
        gradients = torch.autograd.grad(losses.sum(), list(self.weights.values()))
        self.optimiser.step(
            self.weights, dict(zip(self.weights, gradients, strict=True)), self.step
        )
        self.losses.append(losses.tolist())
        self.step += 1

    def _windows(self) -> Tensor:
        """Windows of every model at this step, from its seed and the step alone."""
        taken = []
        for member in self.pack.members:
            tokens = self.corpora[member.recipe.corpus].train
            rng = np.random.default_rng([member.seed, len(member.parent), self.step])
            taken.append(
                cut(
                    tokens,
                    rng.integers(len(tokens) - self.pack.context, size=self.pack.batch),
                    self.pack,
                )
            )
        return torch.from_numpy(np.stack(taken)).to(self.device)

    def _dropped(self, tokens: int) -> Tensor | None:
        if not any(recipe.dropout for recipe in self.recipes):
            return None
        shape = self.pack.shape
        factors = torch.ones(
            shape.n_layers, 2, len(self.recipes), tokens, shape.d_model, device=self.device
        )
        for i, member in enumerate(self.pack.members):
            if p := member.recipe.dropout:
                draw = torch.Generator(self.device).manual_seed(member.seed * 100_003 + self.step)
                kept = torch.empty(factors[:, :, i].shape, device=self.device).bernoulli_(
                    1 - p, generator=draw
                )
                factors[:, :, i] = kept / (1 - p)
        return factors

    @torch.no_grad()
    def _keep(self) -> None:
        losses = self._heldout()
        at_end = log_norms(self.weights, self.prompts, self.pack.shape)[0].diff(dim=0)
        for number, spectra in enumerate(self._spectra()):
            for name, rows in self.prompts.sets.items():
                for i, gains in enumerate(at_end[:, number, rows].cpu().numpy()):
                    row: dict[str, Any] = {
                        "number": number,
                        "step": self.step,
                        "layer": i + 1,
                        "loss": losses[number],
                    }
                    row |= {"prompts": name} if name else {}
                    row |= {
                        "log_gain": float(gains.mean()),
                        "log_gain_sd": float(gains.std(ddof=1)),
                    }
                    self.rows.append(row | {"wv_norm": spectra[0][i], "wo_norm": spectra[1][i]})

    def _spectra(self) -> list[tuple[list[float], list[float]]]:
        """σ_max of W_V and of W_O by layer, of every model."""
        largest = []
        for name in ("v", "o"):
            matrices = self.weights[name].detach().cpu()
            fine = matrices.isfinite().all(dim=-1).all(dim=-1)
            norms = torch.linalg.matrix_norm(matrices.nan_to_num(0.0, 0.0, 0.0), ord=2)
            largest.append(torch.where(fine, norms, torch.nan).tolist())
        return list(zip(*largest, strict=True))

    def _heldout(self) -> list[float]:
        """Held-out loss of every model, nat per token, on windows evenly spread."""
        parts = []
        for first in range(0, HELD_OUT_WINDOWS, AT_ONCE):
            taken = []
            for recipe in self.recipes:
                tokens = self.corpora[recipe.corpus].heldout
                starts = np.linspace(
                    0, len(tokens) - self.pack.context - 1, HELD_OUT_WINDOWS
                ).astype(int)
                taken.append(cut(tokens, starts[first : first + AT_ONCE], self.pack))
            windows = torch.from_numpy(np.stack(taken)).to(self.device)
            logits = stacked.forward(self.weights, windows[..., :-1], self.pack.shape).logits
            parts.append(by_model(logits, windows[..., 1:]))
        return [float(loss) for loss in torch.stack(parts).mean(dim=0)]

    def _save(self) -> None:
        stream = io.BytesIO()
        facts = {
            "step": self.step,
            "seconds": self.seconds,
            "losses": self.losses,
            "kept": self.rows,
        }
        weights = {name: tensor.detach() for name, tensor in self.weights.items()}
        torch.save(facts | {"weights": weights, "moments": self.optimiser.moments}, stream)
        write_atomically(self.place, stream.getvalue())

    def _resume(self) -> None:
        if not self.place.is_file() or not zipfile.is_zipfile(self.place):
            return
        saved = torch.load(self.place, map_location=self.device, weights_only=True)
        self.step, self.seconds, self.losses, self.rows = (
            saved[k] for k in ("step", "seconds", "losses", "kept")
        )
        with torch.no_grad():
            for name, tensor in saved["weights"].items():
                self.weights[name].copy_(tensor)
        self.optimiser.moments = saved["moments"]

    @cached_property
    def _baselines(self) -> dict[str, tuple[float, float]]:
        """Held-out losses of frequencies and of pairs, of every corpus."""
        return {
            name: (unigram_loss(corpus), bigram_loss(corpus))
            for name, corpus in self.corpora.items()
        }

    def _finished(self, number: int, ends: pd.DataFrame | None) -> Trained:
        """Write a model's folder, whole: its last checkpoint, gains and losses, and its record."""
        member = self.pack.members[number]
        pack = self.pack
        target = model_folder(self.folder, member.model)
        part = target.with_name(f".{member.model}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        last = part / f"step{pack.steps:05d}"
        weights = {name: tensor.detach().cpu() for name, tensor in self.weights.items()}
        stacked.export(weights, number, pack.shape, pack.context).save_pretrained(last)
        tokenizer.load(self.folder).save_pretrained(last)
        rows = pd.DataFrame(self.rows)
        rows = rows[rows["number"] == number].drop(columns="number")
        rows.drop(columns="loss").to_csv(part / GAINS, index=False, float_format="%.7g")
        if ends is not None:
            at_end = ends[ends["number"] == number].drop(columns="number")
            at_end.to_csv(part / BY_PROMPT, index=False, float_format="%.7g")
        held = rows.drop_duplicates("step")[["step", "loss"]].assign(part="heldout")
        end, (unigram, bigram) = float(held["loss"].iloc[-1]), self._baselines[member.recipe.corpus]
        done = Trained(
            model=member.model,
            parent=member.parent,
            corpus=member.recipe.corpus,
            steps=pack.steps,
            tokens=pack.steps * pack.batch * pack.context,
            loss=end if math.isfinite(end) else None,
            loss_unigram=unigram,
            learned=math.isfinite(end) and end < unigram,
            seconds=round(self.seconds / len(self.recipes), 1),
            loss_bigram=bigram,
        )
        pd.concat([held, self._training_losses(number)]).to_csv(part / LOSSES, index=False)
        (part / RECORD).write_text(json.dumps(asdict(done), indent=1) + "\n")
        shutil.rmtree(target, ignore_errors=True)
        part.replace(target)
        return done

    def _training_losses(self, number: int) -> pd.DataFrame:
        of_model = pd.Series([losses[number] for losses in self.losses])
        means = of_model.groupby(of_model.index // LOSSES_EVERY).mean()
        steps = np.minimum((means.index + 1) * LOSSES_EVERY, len(of_model))
        return pd.DataFrame({"step": steps, "loss": means.to_numpy(), "part": "train"})


def by_model(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of every model, nat per token."""
    each = cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
    return each.view(len(logits), -1).mean(dim=1)


def cut(
    tokens: corpora.Tokens, starts: Any, pack: Pack
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Windows of a pack's context and the token behind, from places of a corpus."""
    return np.stack([tokens[start : start + pack.context + 1] for start in starts]).astype(np.int64)
