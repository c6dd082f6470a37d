"""Texts that a model is steered on: sampled from itself, or a user's prompts; some are held out.

Sampled are texts from the first token on, at temperature 1 and without truncation; they do not end
at an end-of-text token, behind which a model goes on as it was trained to. No text that is held out
is among those trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

from thermostats.errors import ThermostatsError, UsageError
from thermostats.measurement.batching import TokenisedPrompt
from thermostats.measurement.checkpoint import find_context_limit
from thermostats.measurement.forward import Decoder
from thermostats.measurement.lookup import select_decoder_config

ROWS = 64
"""Texts that are sampled side by side."""
MOST_ROUNDS = 4
"""How often as many texts are sampled as are wanted, before a model is said to repeat itself."""
HELD_OUT_SHARE = 1 / 3
"""Of a user's prompts, how many are held out."""


@dataclass(frozen=True)
class Texts:
    """Token ids (texts × tokens), padded on the right with zeros, and how many of each are real."""

    ids: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def mask(self) -> Tensor:
        """Real tokens (texts × tokens)."""
        return torch.arange(self.ids.shape[1]) < self.lengths[:, None]

    @property
    def later(self) -> Tensor:
        """1 for real tokens but the first, else 0 (texts × tokens)."""
        counted = self.mask.clone()
        counted[:, 0] = False
        return counted.float()

    @property
    def padded(self) -> bool:
        """Whether texts differ in length."""
        return bool((self.lengths < self.ids.shape[1]).any())

    def part(self, places: Any) -> Texts:
        """Some of the texts, as wide as the longest of them."""
        lengths = self.lengths[places]
        return Texts(self.ids[places, : int(lengths.max())], lengths)

    def parts(self, rows: int) -> Iterator[Texts]:
        """All texts, so many at a time."""
        for first in range(0, len(self), rows):
            yield self.part(slice(first, first + rows))


def pad_texts(rows: Sequence[Sequence[int]]) -> Texts:
    """Texts of token ids."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
    return Texts(ids, torch.tensor([len(row) for row in rows]))


def find_first_token(decoder: Decoder, tokenizer: Any = None) -> int:
    """The token that a model's texts begin with: the tokenizer's, the configuration's, or that of a
    text's end.

    Raises UsageError where none is stated.
    """
    stated = select_decoder_config(decoder.config)
    known = int(stated["vocab_size"])
    for name in ("bos_token_id", "eos_token_id"):
        for said in (getattr(tokenizer, name, None), stated.get(name)):
            token = said[0] if isinstance(said, list) and said else said
            if type(token) is int and 0 <= token < known:
                return token
    what = (
        "texts cannot be sampled: neither tokenizer nor configuration states a token that texts "
        "begin with"
    )
    step = "give texts of your own: --prompts FILE (prompts=[…] in Python)"
    raise UsageError(what, where=decoder.entry.name, next_step=step)


def sample_texts(decoder: Decoder, count: int, tokens: int, first: int, seed: int) -> Texts:
    """So many different texts (count × (1 + tokens)) sampled from a model: the first token, then
    its own.

    `tokens` are at most as many as the model's context allows. Raises ThermostatsError where a
    model repeats itself.
    """
    room = find_context_limit(decoder.entry, decoder.config)
    tokens = tokens if room is None else min(tokens, room - 1)
    rows: dict[tuple[int, ...], None] = {}
    with _fix_seed(decoder, seed), _sample_plainly(decoder.model, tokens):
        for _ in range(-(-MOST_ROUNDS * count // ROWS)):
            for row in _generate_rows(decoder, first):
                rows[tuple(row)] = None
            if len(rows) >= count:
                return pad_texts(list(rows)[:count])
    what = "the model repeats itself: too few different texts were sampled"
    step = "give texts of your own: --prompts FILE, or ask for longer ones: --set tokens=N"
    got = f"{len(rows)} different texts of {tokens} tokens"
    raise ThermostatsError(what, got=got, allowed=f"{count} or more", next_step=step)


def _generate_rows(decoder: Decoder, first: int) -> list[list[int]]:
    """Token ids of as many texts as are sampled side by side."""
    begun = torch.full((ROWS, 1), first, device=decoder.device)
    model: Any = decoder.model
    ids: Tensor = model.generate(begun, attention_mask=torch.ones_like(begun))
    rows: list[list[int]] = ids.cpu().tolist()
    return rows


@contextmanager
def _fix_seed(decoder: Decoder, seed: int) -> Iterator[None]:
    """While open, torch's numbers are those of a seed; afterwards they go on as before."""
    devices = [decoder.device] if decoder.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        yield


@contextmanager
def _sample_plainly(model: Any, tokens: int) -> Iterator[None]:
    """While open, a model samples so many tokens from its own distribution, whatever its folder
    says of sampling."""
    before = model.generation_config
    configuration: Any = transformers.GenerationConfig
    model.generation_config = configuration(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        eos_token_id=None,
        pad_token_id=0,
    )
    try:
        yield
    finally:
        model.generation_config = before


def split_texts(texts: Texts, held_out: int, seed: int) -> tuple[Texts, Texts]:
    """Texts to train on, and those held out, drawn at random by the seed."""
    order = np.random.default_rng([seed, 1]).permutation(len(texts))
    held = np.sort(order[:held_out])
    trained = np.sort(order[held_out:])
    return texts.part(trained), texts.part(held)


def split_prompts(prompts: Sequence[TokenisedPrompt], seed: int) -> tuple[Texts, Texts]:
    """A user's prompts as texts to train on and a third held out; prompts of equal tokens count
    once.

    Raises UsageError where fewer than two would be in either, or one has a single token.
    """
    rows = list(dict.fromkeys(prompt.token_ids for prompt in prompts))
    short = [prompt.prompt_id for prompt in prompts if len(prompt.token_ids) < 2]
    if short:
        what = "a prompt of one token has no gain beyond its first token"
        raise UsageError(
            what, where=f"prompt {short[0]}", next_step="leave it out, or make it longer"
        )
    held_out = round(len(rows) * HELD_OUT_SHARE)
    if held_out < 2:
        what = "too few different prompts to steer a model and hold some out"
        step = "give more, or leave out --prompts: the model's own samples are used then"
        raise UsageError(what, got=str(len(rows)), allowed="5 or more", next_step=step)
    return split_texts(pad_texts(rows), held_out, seed)
