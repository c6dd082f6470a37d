"""Texts to the tokens a model reads: what its tokenizer puts in front stays, what it puts behind is taken off.

A beginning-of-text token is what such models were trained to read first, and is position `first`; an end token that a
tokenizer appends would put `last` behind the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from thermostats.errors import UsageError
from thermostats.measurement.batching import TokenisedPrompt


@dataclass(frozen=True)
class Tokenised:
    """Prompts as tokens, and the special tokens put in front of each and taken off its end, as text."""

    prompts: tuple[TokenisedPrompt, ...]
    special_before: str
    special_removed: str


def tokenise(tokenizer: Any, texts: Iterable[tuple[str, str]]) -> Tokenised:
    """Tokenise pairs of prompt_id and text. Raises UsageError where a text gives no tokens of its own."""
    prompts, before, removed = [], set(), set()
    for prompt_id, text in texts:
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        if not bare:
            raise UsageError(
                "the prompt is empty",
                where=f"prompt {prompt_id}",
                got=repr(text),
                next_step="remove it or give it a text",
            )
        ids = list(tokenizer(text)["input_ids"])
        start = next((i for i in range(len(ids)) if ids[i : i + len(bare)] == bare), 0)
        kept = ids[: start + len(bare)] if ids[start : start + len(bare)] == bare else ids
        before.add(" ".join(tokenizer.convert_ids_to_tokens(ids[:start])))
        removed.add(" ".join(tokenizer.convert_ids_to_tokens(ids[len(kept) :])))
        prompts.append(TokenisedPrompt(prompt_id, tuple(kept)))
    return Tokenised(tuple(prompts), " | ".join(sorted(before)), " | ".join(sorted(removed)))
