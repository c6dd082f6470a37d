"""Texts to the tokens a model reads, and those into batches within a budget: padded, or packed into
one row.

What a tokenizer puts in front stays: models were trained to read a beginning-of-text token first,
and it is position `first`. What it puts behind is taken off, as it would put `last` behind the
prompt. No torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thermostats.errors import UsageError

BUDGET = {"cpu": 256, "accelerator": 16384}
"""Tokens of a padded batch, padding included: beyond it a batch is no faster, only larger."""

Progress = Callable[[int, int], None]
"""Called with prompts done and prompts in all."""


@dataclass(frozen=True)
class TokenisedPrompt:
    """One prompt as the model reads it, special tokens included: every token counts, the first is
    position `first`."""

    prompt_id: str
    token_ids: tuple[int, ...]
    before: int = 1
    after: int = 0
    """Tokens at both ends that means leave out."""

    @property
    def span(self) -> slice:
        """Tokens that means are over."""
        return slice(self.before, len(self.token_ids) - self.after)


@dataclass(frozen=True)
class ImagePrompt:
    """One image as the model reads it, a tensor (channels × height × width) that its processor
    made."""

    prompt_id: str
    pixels: Any


def check_prompts(
    prompts: Sequence[TokenisedPrompt], *, vocabulary: int | None, context: int | None
) -> None:
    """Raise UsageError for no prompt, a repeated name, an empty prompt, an unknown token or one
    beyond the context."""
    if not prompts:
        raise UsageError(
            "no prompt to measure", next_step="name a prompt set: `thermostats ls prompts`"
        )
    seen: set[str] = set()
    for prompt in prompts:
        n = len(prompt.token_ids)
        where = f"prompt {prompt.prompt_id}"
        if prompt.prompt_id in seen:
            raise UsageError("two prompts have the same prompt_id", where=where)
        seen.add(prompt.prompt_id)
        if n == 0:
            raise UsageError(
                "the prompt is empty: no tokens",
                where=where,
                next_step="remove it or give it a text",
            )
        if context is not None and n > context:
            what = "the prompt is longer than the model's context"
            got = f"{n} tokens"
            allowed = f"at most {context}"
            raise UsageError(
                what, where=where, got=got, allowed=allowed, next_step="shorten or remove it"
            )
        if (
            vocabulary is not None
            and not 0 <= min(prompt.token_ids) <= max(prompt.token_ids) < vocabulary
        ):
            what = "a token is outside the model's vocabulary"
            allowed = f"0 to {vocabulary - 1}"
            step = "use the tokenizer that belongs to the model"
            raise UsageError(
                what, where=where, got=max(prompt.token_ids), allowed=allowed, next_step=step
            )


def plan_batches(lengths: Sequence[int], *, budget: int, overhead: int) -> list[list[int]]:
    """Indices of prompts, batch by batch, at the least cost: Σ over batches of (size × longest +
    overhead) tokens.

    No batch holds more than `budget` tokens, padding included, unless one prompt alone does. The
    order by length makes the best partition one of consecutive prompts, found exactly in O(n²).
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])  # equal ones as they were given
    best = [0.0]
    start_of = [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        first = end - 1
        if longest <= budget:
            first = max(0, min(end - 1, end - budget // longest))
        costs = [best[s] + (end - s) * longest + overhead for s in range(first, end)]
        cost = min(costs)
        start = first + costs.index(cost)
        best.append(cost)
        start_of.append(start)
    batches: list[list[int]] = []
    end = len(order)
    while end > 0:
        batches.append(order[start_of[end] : end])
        end = start_of[end]
    return batches


def plan_packs(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """Indices of prompts, pack by pack, for rows without padding: as few packs as there can be,
    about equally full.

    The longest prompt first, each into the pack that is least full; a pack more where one went over
    `budget` tokens. Only a prompt alone may be longer.
    """
    prompts = range(len(lengths))
    order = sorted(prompts, key=lambda i: lengths[i], reverse=True)  # equal ones as they were given
    for n in range(max(1, -(-sum(lengths) // budget)), len(lengths) + 1):
        packed: list[list[int]] = [[] for _ in range(n)]
        filled = [0] * n
        for i in order:
            least = filled.index(min(filled))
            packed[least].append(i)
            filled[least] += lengths[i]
        if all(len(pack) == 1 or size <= budget for pack, size in zip(packed, filled, strict=True)):
            return [pack for pack in packed if pack]
    return [[i] for i in order]


def tokenise(
    tokenizer: Any, texts: Iterable[tuple[str, str]], *, causal: bool = True
) -> tuple[list[TokenisedPrompt], str]:
    """Pairs of prompt_id and text as tokens, and the special tokens put in front of each, as text.

    What an encoder's tokenizer puts behind stays, as each of its tokens reads it, but is no token
    of the prompt.

    Raises UsageError where a text gives no tokens of its own, and where it begins with a special
    token that the tokenizer adds itself.
    """
    prompts = []
    before = set()
    usual = _count_prefix(tokenizer)
    for prompt_id, text in texts:
        bare = tokenizer(text, add_special_tokens=False)["input_ids"]
        if not bare:
            step = "remove it or give it a text"
            raise UsageError(
                "the prompt is empty", where=f"prompt {prompt_id}", got=repr(text), next_step=step
            )
        ids = list(tokenizer(text)["input_ids"])
        places = (usual, *range(len(ids)))  # a text of the first token alone is found in front, too
        start = _find_part(ids, bare, places)
        end = start + len(bare)
        read = ids[:end] if ids[start:end] == bare else ids
        if start and bare[0] == ids[start - 1] and bare[0] in tokenizer.all_special_ids:
            step = "remove the prompt: every other one begins with it"
            if len(bare) > 1:
                step = f"leave {tokenizer.convert_ids_to_tokens(bare[0])} out of the text"
            raise UsageError(
                "the text begins with a token that the tokenizer puts in front of it, which would "
                "be there twice",
                where=f"prompt {prompt_id}",
                got=repr(text[:40]),
                next_step=step,
            )
        before.add(" ".join(tokenizer.convert_ids_to_tokens(ids[:start])))
        behind = 0 if causal else len(ids) - len(read)
        first = 1 if causal else max(start, 1)
        prompts.append(TokenisedPrompt(prompt_id, tuple(ids if behind else read), first, behind))
    return prompts, " | ".join(sorted(filter(None, before)))


def _count_prefix(tokenizer: Any) -> int:
    """How many tokens a tokenizer puts in front of a letter."""
    ids, bare = (
        list(tokenizer("a", add_special_tokens=special)["input_ids"]) for special in (True, False)
    )
    return _find_part(ids, bare, range(len(ids))) if bare else 0


def _find_part(ids: Sequence[int], part: Sequence[int], places: Iterable[int]) -> int:
    """The first of some places at which a part stands in tokens; 0 where it stands at none."""
    return next((i for i in places if ids[i : i + len(part)] == part), 0)
