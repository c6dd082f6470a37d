"""What a change of a model costs: KL and cross-entropy on held-out texts, every gain before and
after, intervals.

    kl = Σ_texts Σ_tokens KL(p‖q) / Σ tokens,   the first token of a text left out

Intervals are 95% by the percentile bootstrap over texts (Efron and Tibshirani 1993).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from thermostats.errors import ThermostatsError
from thermostats.measurement.checkpoint import split
from thermostats.measurement.forward import Decoder, convert_to_array, find_submodule, has_attention
from thermostats.measurement.lookup import select_layer_config
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.steering import compute_kl, count_rows
from thermostats.measurement.stream_logs import (
    average_texts,
    list_gains,
    read_stream,
    take_log_gain,
)

Array = NDArray[np.float64]
DRAWS = 2000
LEVEL = 0.95
DIGITS = 7
"""Digits of numbers that are kept as text."""


@dataclass(frozen=True)
class Reading:
    """A model on texts: per text sums over tokens, and means of log gains by name."""

    kl: Array
    """Σ over tokens but the first of KL from the model as it was."""
    ce: Array
    """Σ over tokens but the first of −log q of the token."""
    tokens: Array
    """How many tokens that are."""
    logs: Mapping[str, Array]
    """Mean over tokens but the first of a named gain's log."""
    last: Mapping[str, Array]
    """The same at the last token."""

    def gain(self, name: str) -> float:
        """exp of the mean over texts of a gain's log."""
        return float(np.exp(self.logs[name].mean()))

    def last_gain(self, name: str) -> float:
        """The same at the last token."""
        return float(np.exp(self.last[name].mean()))

    @property
    def entropy(self) -> float:
        """Cross-entropy, nats a token."""
        return float(self.ce.sum() / self.tokens.sum())

    @property
    def price(self) -> float:
        """KL, nats a token."""
        return float(self.kl.sum() / self.tokens.sum())

    def gains(self) -> dict[str, float]:
        """Every gain by name."""
        return {name: self.gain(name) for name in self.logs}


@torch.no_grad()
def read_texts(decoder: Decoder, texts: Texts, base: Decoder | None = None) -> Reading:
    """Read texts with a model, and with the model as it was where KL is asked for.

    Raises ThermostatsError where a model's numbers are not finite.
    """
    parts = []
    for part in texts.parts(count_rows(decoder, texts.ids.shape[1])):
        parts.append(_read(decoder, part, base))
    kl = np.concatenate([part.kl for part in parts])
    ce = np.concatenate([part.ce for part in parts])
    tokens = np.concatenate([part.tokens for part in parts])
    logs = _join_texts([part.logs for part in parts])
    last = _join_texts([part.last for part in parts])
    whole = Reading(kl=kl, ce=ce, tokens=tokens, logs=logs, last=last)
    for what, values in {"KL": whole.kl, "cross-entropy": whole.ce, **whole.logs}.items():
        if not np.isfinite(values).all():
            step = "a smaller change, or a smaller rate: --set rate=RATE"
            what_ = "the changed model gives numbers that are not finite, and there is no row of it"
            raise ThermostatsError(what_, got=what, next_step=step)
    return whole


def _join_texts(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Numbers of all texts by name, from those of a few texts each."""
    joined: dict[str, Array] = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined


def _read(decoder: Decoder, texts: Texts, base: Decoder | None) -> Reading:
    logs = read_stream(decoder, texts)
    later = texts.later.to(logs.blocks.device)
    log_q = logs.logits.double().log_softmax(dim=-1)
    following = texts.ids[:, 1:].to(log_q.device)
    log_p_next = log_q[:, :-1].gather(2, following[..., None])
    surprise = -log_p_next[..., 0]
    counted = texts.later.to(log_q.device).double()
    each = torch.zeros_like(counted)
    if base is not None:
        log_p = read_stream(base, texts).logits.double().log_softmax(dim=-1)
        each = compute_kl(log_p, log_q)
    ends = (texts.lengths - 1).to(later.device)
    rows = torch.arange(len(texts), device=later.device)
    means: dict[str, Array] = {}
    last: dict[str, Array] = {}
    for name in list_gains(decoder):
        log_gain = take_log_gain(name, logs, later)
        means[name] = convert_to_array(average_texts(log_gain, later))
        last[name] = convert_to_array(log_gain[rows, ends])
    kl = convert_to_array((each * counted).sum(dim=-1))
    ce = convert_to_array((surprise * counted[:, 1:]).sum(dim=-1))
    tokens = convert_to_array(counted.sum(dim=-1))
    return Reading(kl=kl, ce=ce, tokens=tokens, logs=means, last=last)


def count_crossed(before: float, logs: Array) -> float:
    """Share of texts whose gain is on the other side of 1 than a gain was before."""
    crossed = np.sign(logs) == -np.sign(np.log(before))
    return float(crossed.mean())


def bootstrap_interval(sums: Array, tokens: Array, seed: int = 0) -> tuple[float, float]:
    """95% interval of Σ sums / Σ tokens over texts."""
    rng = np.random.default_rng([seed, 3])
    drawn = rng.integers(len(sums), size=(DRAWS, len(sums)))
    values = sums[drawn].sum(axis=1) / tokens[drawn].sum(axis=1)
    tail = (1 - LEVEL) / 2
    lower, upper = np.quantile(values, [tail, (1 + LEVEL) / 2]).tolist()
    return lower, upper


def write_json(numbers: Mapping[str, float] | Array) -> str:
    """Numbers by name, or a list of them, to seven digits."""
    if isinstance(numbers, Mapping):
        return json.dumps({name: _round(value) for name, value in numbers.items()})
    return json.dumps([_round(value) for value in numbers.tolist()])


def merge_json(text: str, more: Mapping[str, float]) -> str:
    """Numbers by name as text, with further ones."""
    return write_json({**json.loads(text), **more})


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


@torch.no_grad()
def measure_matrices(decoder: Decoder) -> dict[str, float]:
    """Means over blocks of ‖W_V‖ and ‖W_O‖, and their ratio, as `features` has them; empty where no
    block has both."""
    entry = decoder.entry
    norms: dict[str, list[float]] = {"wv_norm": [], "wo_norm": []}
    for number, block in enumerate(dict.fromkeys(decoder.blocks)):
        if not has_attention(block, entry):
            continue
        config = select_layer_config(entry, decoder.config, number)
        stored = (find_submodule(block, path, entry).weight for path in (entry.value, entry.output))
        value, output = (convert_to_array(weight) for weight in stored)  # type: ignore[arg-type]
        parts = split(entry, config, value, output)
        norms["wv_norm"].append(float(np.linalg.norm(parts.w_v, ord=2)))
        norms["wo_norm"].append(float(np.linalg.norm(parts.w_o, ord=2)))
    if not norms["wv_norm"]:
        return {}
    means = {}
    for name, values in norms.items():
        means[name] = float(np.mean(values))
    return {**means, "wv_wo_ratio": means["wv_norm"] / means["wo_norm"]}


@torch.no_grad()
def measure_change(base: Decoder, changed: Decoder) -> float:
    """‖W' − W‖ / ‖W‖ over all weights together, tied ones once."""
    before = dict(base.model.named_parameters())
    moved = size = 0.0
    for name, weight in changed.model.named_parameters():
        old = before[name].double()
        moved += float((weight.double() - old).square().sum())
        size += float(old.square().sum())
    return float(np.sqrt(moved / size)) if size else 0.0


def describe_price(before: Reading, after: Reading, gain: str, seed: int) -> dict[str, Any]:
    """Columns of a row of `interventions` that say what a change costs on held-out texts.

    gain: the gain that the row is about; empty: none.
    """
    lower, upper = bootstrap_interval(after.kl, after.tokens, seed)
    rise_lower, rise_upper = bootstrap_interval(after.ce - before.ce, after.tokens, seed)
    columns: dict[str, Any] = {
        "kl": after.price,
        "kl_lower": lower,
        "kl_upper": upper,
        "ce_before": before.entropy,
        "ce_after": after.entropy,
        "ce_rise_lower": rise_lower,
        "ce_rise_upper": rise_upper,
        "gains_before": write_json(before.gains()),
        "gains_after": write_json(after.gains()),
        "kl_texts": write_json(after.kl / after.tokens),
    }
    if not gain:
        return columns
    return {
        **columns,
        "gain_before": before.gain(gain),
        "gain_after": after.gain(gain),
        "last_before": before.last_gain(gain),
        "last_after": after.last_gain(gain),
        "beyond": count_crossed(before.gain(gain), after.logs[gain]),
    }
