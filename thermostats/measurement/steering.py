"""Train a copy of a model so that one gain comes to a target and its distribution stays: KL(p‖q) +
w (log g − log t)².

p is the model as it was, q as it is; the mean of KL is over all tokens of the texts but the first,
and g a text's gain, or with `every` a token's. Without a target the same steps are the floor. Adam,
its rate falling to nothing by a line; a model is trained as it is measured, without dropout.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thermostats.errors import ThermostatsError
from thermostats.measurement.checkpoint import read_geometry
from thermostats.measurement.forward import Decoder, build_decoder, is_batch_independent
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.steering_spec import SteeringSettings, SteeringSpec
from thermostats.measurement.stream_logs import average_texts, read_stream, take_log_gain
from thermostats.measurement.trained_weights import TrainedWeights, add_adapters, select_weights
from thermostats.tables.folders import write_atomically

LOGITS_AT_ONCE = 2**26
"""Numbers of logits that a pass may hold: rows of a batch are taken in parts where they would be
more."""
KEPT = 2**28
"""Numbers up to which log p of all texts is computed once and kept."""
SAVED_EVERY = 60.0
"""Seconds of work that a kill may cost."""
MOST_ROUNDS = 8
"""Rounds of steps at most where they are added until the price hardly changes."""
Progress = Callable[[int, int], None]
"""Called with steps done and steps in all."""


@dataclass(frozen=True)
class Goal:
    """A gain by name and the target it is trained to; None: no target, the floor."""

    gain: str
    target: float | None


@dataclass(frozen=True)
class Steered:
    """A model that was trained, and the steps that it took."""

    decoder: Decoder
    steps: int


def copy_model(base: Decoder) -> Decoder:
    """A model in memory once more, with weights of its own."""
    return build_decoder(deepcopy(base.model), base.entry, base.config)


def count_rows(base: Decoder, tokens: int) -> int:
    """Texts of so many tokens that one pass may hold."""
    if not is_batch_independent(base):
        return 1
    head: Any = base.model.get_output_embeddings()  # type: ignore[operator]
    vocabulary = int(head.weight.shape[0])
    return max(1, LOGITS_AT_ONCE // (tokens * vocabulary))


def compute_log_p(logits: Tensor) -> Tensor:
    """log p (texts × tokens × vocabulary), in float32 or wider."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return wide.log_softmax(dim=-1)


class BaseOutputs:
    """p of a model as it was on its training texts, and −H(p); kept where there is room, else
    computed each time."""

    def __init__(self, base: Decoder, texts: Texts) -> None:
        self.base, self.texts = base, texts
        self.rows = count_rows(base, texts.ids.shape[1])
        head: Any = base.model.get_output_embeddings()  # type: ignore[operator]
        keeps = texts.ids.numel() * int(head.weight.shape[0]) <= KEPT
        self._kept: tuple[Tensor, Tensor] | None = self._compute_all() if keeps else None

    def read_probabilities(self, places: Any) -> tuple[Tensor, Tensor]:
        """p (texts × tokens × vocabulary) and −H(p) (texts × tokens), as wide as the longest
        text."""
        part = self.texts.part(places)
        if self._kept is None:
            return self._compute(part)
        width = part.ids.shape[1]
        p, negative_entropy = self._kept
        return p[places, :width], negative_entropy[places, :width]

    @torch.no_grad()
    def _compute(self, texts: Texts) -> tuple[Tensor, Tensor]:
        log_p = compute_log_p(read_stream(self.base, texts).logits)
        p = log_p.exp()
        return p, (p * log_p).sum(dim=-1)

    def _compute_all(self) -> tuple[Tensor, Tensor]:
        width = self.texts.ids.shape[1]
        kept: tuple[list[Tensor], list[Tensor]] = ([], [])
        for part in self.texts.parts(self.rows):
            p, negative_entropy = self._compute(part)
            blank = width - p.shape[1]
            kept[0].append(torch.nn.functional.pad(p, (0, 0, 0, blank)))
            kept[1].append(torch.nn.functional.pad(negative_entropy, (0, blank)))
        return torch.cat(kept[0]), torch.cat(kept[1])


def compute_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p‖q) at every token (texts × tokens), in nats."""
    each: Tensor = (log_p.exp() * (log_p - log_q)).sum(dim=-1)
    return each


def steer_model(
    base: Decoder,
    outputs: BaseOutputs,
    goal: Goal,
    spec: SteeringSpec,
    price: Callable[[Decoder], float],
    *,
    state: Path | None = None,
    progress: Progress | None = None,
) -> Steered:
    """Train a copy of a model to a goal; `base` stays as it is.

    price: KL of a model on held-out texts, asked for where steps are added until it hardly changes.
    state: a file by which an interrupted training is resumed.

    Raises ThermostatsError where the training diverges.
    """
    training = Training(base, outputs, goal, spec, state)
    prices: list[float] = training.prices
    while True:
        training.take_round(progress)
        if spec.least_change is None:
            break
        prices.append(price(training.decoder))
        if len(prices) == MOST_ROUNDS or _is_settled(prices, spec.least_change):
            break
    training.forget()
    return Steered(training.finish(), training.step)


def _is_settled(prices: list[float], least_change: float) -> bool:
    """Whether the last round changed the price by less than a share of it."""
    if len(prices) < 2:
        return False
    before, now = prices[-2:]
    return abs(now - before) < least_change * abs(before)


class Training:
    """A copy of a model, how far it is trained, and what a resumed training needs."""

    def __init__(
        self,
        base: Decoder,
        outputs: BaseOutputs,
        goal: Goal,
        spec: SteeringSpec,
        state: Path | None,
    ) -> None:
        self.decoder = copy_model(base)
        self.outputs, self.goal, self.spec, self.state = outputs, goal, spec, state
        self.step = 0
        self.prices: list[float] = []
        self._merge: Callable[[], Any] | None = None
        if spec.rank is None:
            self.selection = select_weights(self.decoder, spec.only)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(spec.seed)
                self._merge = add_adapters(self.decoder, spec.rank, spec.only)
            trained = self.decoder.model.named_parameters()
            self.selection = TrainedWeights({name: p for name, p in trained if p.requires_grad})
        width = read_geometry(base.entry, base.config).d_model
        self.rate = spec.settings.scale_rate(width)
        self.optimiser = torch.optim.Adam(self.selection.weights.values(), lr=self.rate)
        self._resume()

    @property
    def settings(self) -> SteeringSettings:
        """How it is trained."""
        return self.spec.settings

    def take_round(self, progress: Progress | None) -> None:
        """Take steps up to the end of a round, the rate falling to nothing."""
        steps = self.settings.steps
        end = (len(self.prices) + 1) * steps
        saved = perf_counter()
        while self.step < end:
            share = (self.step - (end - steps)) / steps
            for group in self.optimiser.param_groups:
                group["lr"] = self.rate * (1 - share)
            self._take_step()
            if progress is not None:
                progress(self.step, end)
            if self.state is not None and perf_counter() - saved > SAVED_EVERY:
                self._save()
                saved = perf_counter()

    def finish(self) -> Decoder:
        """The trained model, adapters taken into its weights."""
        if self._merge is None:
            return self.decoder
        return build_decoder(self._merge(), self.decoder.entry, self.decoder.config)

    def forget(self) -> None:
        """Remove the file of a training that is through."""
        if self.state is not None:
            self.state.unlink(missing_ok=True)

    def _take_step(self) -> None:
        texts = self.outputs.texts
        rng = np.random.default_rng([self.spec.seed, 2, self.step])
        chosen = rng.integers(len(texts), size=min(self.settings.batch, len(texts)))
        tokens = float(texts.later[chosen].sum())
        self.optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for first in range(0, len(chosen), self.outputs.rows):
            places = chosen[first : first + self.outputs.rows]
            loss = self._compute_loss(places, tokens, len(chosen))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if not np.isfinite(total):
            self.forget()
            raise build_error(self.goal, self.step, self.rate)
        self.selection.mask_gradients()
        self.optimiser.step()
        self.step += 1

    def _compute_loss(self, places: Any, tokens: float, texts: int) -> Tensor:
        """The part of a step's loss that some of its texts add."""
        part = self.outputs.texts.part(places)
        logs = read_stream(self.decoder, part)
        later = part.later.to(logs.blocks.device)
        p, negative_entropy = self.outputs.read_probabilities(places)
        each = negative_entropy - (p * compute_log_p(logs.logits)).sum(dim=-1)
        loss = (each * later.to(each.device)).sum() / tokens
        if self.goal.target is None:
            return loss
        log_gain = take_log_gain(self.goal.gain, logs, later)
        distance = log_gain - float(np.log(self.goal.target))
        if self.settings.every == "text":
            off = average_texts(distance, later).square().sum() / texts
        else:
            off = (distance.square() * later).sum() / tokens
        return loss + self.settings.penalty * off.to(loss.device)

    def _save(self) -> None:
        assert self.state is not None  # noqa: S101 - asked before
        stream = io.BytesIO()
        weights = {}
        for name, weight in self.selection.weights.items():
            weights[name] = weight.detach()
        facts = {"step": self.step, "prices": self.prices, "weights": weights}
        torch.save({**facts, "optimiser": self.optimiser.state_dict()}, stream)
        self.state.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.state, stream.getvalue())

    @torch.no_grad()
    def _resume(self) -> None:
        if self.state is None or not self.state.is_file() or not zipfile.is_zipfile(self.state):
            return
        device = self.decoder.device
        saved = torch.load(self.state, map_location=device, weights_only=True)
        if saved["weights"].keys() != self.selection.weights.keys():
            return
        self.step, self.prices = saved["step"], saved["prices"]
        for name, weight in saved["weights"].items():
            self.selection.weights[name].copy_(weight)
        self.optimiser.load_state_dict(saved["optimiser"])


def build_error(goal: Goal, step: int, rate: float) -> ThermostatsError:
    """The error for a training whose loss is no number any more."""
    what = "the training diverged, and there is no row of it"
    aim = "the floor" if goal.target is None else f"{goal.gain} to {goal.target:g}"
    step_ = f"a smaller rate: --set rate={rate / 10:g}"
    return ThermostatsError(what, where=aim, got=f"loss not finite at step {step}", next_step=step_)
