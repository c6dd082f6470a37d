"""One pass of texts through a loaded model with gradients: logits, and logs of what the stream's
norms grow by.

The same norms, of the same places, as `gains.py` records them; here they can be trained on.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from thermostats.errors import UsageError
from thermostats.measurement.forward import Decoder, hook_entry, hook_exit, turn_cache_off
from thermostats.measurement.gains import centre_vectors
from thermostats.measurement.readings import POST_NORM, is_read_centred
from thermostats.measurement.sampled_texts import Texts
from thermostats.measurement.steering_spec import BLOCK, check_depth
from thermostats.tables.schemas import GAINS, READ_GAINS

SINGLE = {"last_gain": -1, "penultimate_gain": -2}
"""Gains that are those of one block."""


@dataclass(frozen=True)
class StreamLogs:
    """A pass: logits (texts × tokens × vocabulary), and logs of ratios of norms, each text's tokens
    in a row."""

    logits: Tensor
    blocks: Tensor
    """log G_l (L × texts × tokens)."""
    read: Tensor | None
    """log R_l, of the stream as its readers see it; None in post-norm models."""
    normed: Tensor | None
    """log of the final norm's output over n_(L-1) (texts × tokens); None without a final norm."""


def read_stream(decoder: Decoder, texts: Texts) -> StreamLogs:
    """Run a model on texts and take the logs of its gains; gradients are kept where they are asked
    for."""
    lengths: list[Tensor] = []
    seen: list[Tensor] = []
    final: list[Tensor] = []
    read_apart = is_read_centred(decoder.entry, decoder.config)

    def keep(x: Tensor) -> None:
        lengths.append(_take_log_norms(x))
        if read_apart:
            seen.append(_take_log_norms(centre_vectors(x)))

    left: list[Tensor] = []
    with ExitStack() as stack:
        for block in dict.fromkeys(decoder.blocks):
            hook_entry(stack, block, keep)
        hook_exit(stack, decoder.blocks[-1], left.append)
        if decoder.final_norm is not None:
            hook_exit(stack, decoder.final_norm, lambda x: final.append(_take_log_norms(x)))
        logits = decoder.model(**_build_inputs(decoder, texts)).logits
    keep(left[-1])
    places = lengths[0].device
    stream = torch.stack([x.to(places) for x in lengths])
    read = torch.stack([x.to(places) for x in seen]) if seen else stream
    last = final[-1].to(places) - stream[-2] if final else None
    blocks = stream.diff(dim=0)
    gains_read = None if decoder.entry.norm_after else read.diff(dim=0)
    return StreamLogs(logits=logits, blocks=blocks, read=gains_read, normed=last)


def _take_log_norms(x: Tensor) -> Tensor:
    """log ‖x(t)‖ (texts × tokens), accumulated in float32 or wider."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=wide)
    return norms.log()


def _build_inputs(decoder: Decoder, texts: Texts) -> dict[str, object]:
    """What a model is called with: token ids, a mask where texts are padded, and no cache."""
    ids = texts.ids.to(decoder.device)
    inputs: dict[str, object] = {"input_ids": ids, **turn_cache_off(decoder.model)}
    if texts.padded:
        inputs["attention_mask"] = texts.mask.to(decoder.device, torch.long)
    return inputs


def check_gain(gain: str, decoder: Decoder) -> None:
    """Raise UsageError where a model has no such gain."""
    check_depth(gain, len(decoder.blocks))
    if gain in READ_GAINS and decoder.entry.norm_after:
        what = "models of this class have no read gain"
        step = "steer penultimate, whose number such a model can change at no price at all"
        raise UsageError(what, where=decoder.entry.name, got=POST_NORM, next_step=step)
    if gain == "normed_gain" and decoder.final_norm is None:
        what = "the model has no final norm, and so no gain with it"
        raise UsageError(what, where=decoder.entry.name, got=gain, allowed="last, penultimate, …")


def list_gains(decoder: Decoder) -> list[str]:
    """Every gain that a model has, by name: its blocks', then those of the tables."""
    names = []
    for number in range(1, len(decoder.blocks) + 1):
        names.append(f"{BLOCK}{number}")
    for gain in (*GAINS, *READ_GAINS):
        try:
            check_gain(gain, decoder)
        except UsageError:
            continue
        names.append(gain)
    return names


def take_log_gain(gain: str, logs: StreamLogs, later: Tensor) -> Tensor:
    """The log of a named gain at every token (texts × tokens).

    Of the largest gain it is that of the block whose mean log gain over a text's tokens is largest,
    as a table's position `mean` has it. later: tokens that means are over, 1 or 0 (texts ×
    tokens).
    """
    if gain == "normed_gain" and logs.normed is not None:
        return logs.normed
    if gain in READ_GAINS and logs.read is not None:
        return _combine_blocks(gain.replace("_read", ""), logs.read, later)
    if gain.startswith(BLOCK):
        return logs.blocks[int(gain.removeprefix(BLOCK)) - 1]
    return _combine_blocks(gain, logs.blocks, later)


def _combine_blocks(gain: str, blocks: Tensor, later: Tensor) -> Tensor:
    """The log of a gain of `GAINS` from logs of blocks' gains (L × texts × tokens)."""
    if gain in SINGLE:
        return blocks[SINGLE[gain]]
    if gain == "total_amplification_from_input":
        return blocks.sum(dim=0)
    inner = blocks[1:-1] if gain.endswith("to_penultimate") else blocks[1:]
    if gain == "total_amplification":
        return inner.sum(dim=0)
    return _select_largest(inner, later) if gain.startswith("max_gain") else inner.mean(dim=0)


def _select_largest(blocks: Tensor, later: Tensor) -> Tensor:
    """Log gains of the block that is largest over each text (texts × tokens)."""
    means = (blocks * later).sum(dim=-1) / later.sum(dim=-1)
    place = means.argmax(dim=0)
    texts = torch.arange(blocks.shape[1], device=blocks.device)
    return blocks[place, texts]


def average_texts(values: Tensor, later: Tensor) -> Tensor:
    """Mean over each text's counted tokens (texts)."""
    means: Tensor = (values * later).sum(dim=-1) / later.sum(dim=-1)
    return means
