"""Whether transformers reads a text as the tokens that llama.cpp would, given a GGUF file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thermostats.errors import DataError

KEY = "tokenizer.ggml."
FIRST_TOKEN = {
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    *("jina-v5-nano", "tekken", "chameleon"),
}
"""Splits whose texts llama.cpp begins with the first token where a file does not say it (`src/
llama-vocab.cpp`, as of `gguf_defaults`); of all other splits of GPT-2's kind it does not."""
FORCED = "gemma4"
"""The kind of tokenizers whose texts it begins so whatever the file says."""
BEGUN = {"llama": True, "bert": True, "gpt2": False, "t5": False, "rwkv": False}
"""Kind of tokenizers → whether llama.cpp puts the first token in front by default."""
ENDED = {"t5": True}
"""The same of the last token at the end; of other kinds it does not."""
SPACED = {"llama": True, "t5": False}
"""Kinds with a space that a text may begin with → whether it does by default."""
BOS = {"llama": 1, "gpt2": 11, "bert": 101}
EOS = {"llama": 2, "gpt2": 11, "t5": 1}
"""Kind of tokenizers → the number of its first and of its last token by default."""
SPLIT_LIKE_GPT2 = ("gpt-2", "phi-2", "mpt", "jina-es", "jina-de", "gigachat")
"""Names of splits of a text before its merges that are GPT-2's, which transformers takes where it
knows no other."""
DEFAULT_SPLIT = "default"
"""The split of a file that names none. It cuts digits and punctuation otherwise than GPT-2's."""
CUT_APART = re.compile(r"[\d_]|[^\w\s]")
"""Characters around which the two cut otherwise."""
SPACE = "▁"
"""How a vocabulary of sentencepiece writes a space."""


def check_tokenizer(stated: Mapping[str, Any], tokenizer: Any, file: Path) -> None:
    """Raise DataError where a tokenizer splits a text otherwise, or puts other tokens around it,
    than its file says, or than llama.cpp does where the file does not say it."""
    defaults = find_defaults(stated)
    does = {}
    for key, value in _describe_tokenizer(stated, tokenizer).items():
        does[f"{KEY}{key}"] = value
    kind = stated.get(f"{KEY}model")
    wrong = []
    for key, here in does.items():
        meant = stated.get(key, defaults.get(key, here))
        if kind == FORCED and key == f"{KEY}add_bos_token":
            meant = True
        if meant != here:
            wrong.append(_write_key(stated, key, meant))
    if kind == "gpt2" and not _is_split_alike(stated, tokenizer):
        wrong.append(_write_key(stated, f"{KEY}pre", DEFAULT_SPLIT))
    if wrong:
        what = "transformers would read a text as other tokens than the file's tokenizer"
        step = "measure the model in safetensors with its tokenizer.json instead"
        raise DataError(what, where=file, got="; ".join(wrong), next_step=step)


def _write_key(stated: Mapping[str, Any], key: str, meant: Any) -> str:
    """A key as the file has it, or what it stands for where the file lacks it."""
    return f"{key} = {stated[key]}" if key in stated else f"no {key}, which stands for {meant}"


def find_defaults(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What llama.cpp takes keys of the tokenizer for that a file leaves out; without those that
    have no default."""
    kind = str(stated.get(f"{KEY}model"))
    begun = BEGUN.get(kind)
    if kind == "gpt2" and stated.get(f"{KEY}pre") in FIRST_TOKEN:
        begun = True
    found = {
        "add_bos_token": begun,
        "add_eos_token": ENDED.get(kind, False),
        "bos_token_id": BOS.get(kind),
        "eos_token_id": EOS.get(kind),
        "add_space_prefix": SPACED.get(kind),
        "remove_extra_whitespaces": False,
    }
    defaults: dict[str, Any] = {}
    for key, value in found.items():
        if value is not None:
            defaults[f"{KEY}{key}"] = value
    return defaults


def _describe_tokenizer(stated: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """What a tokenizer does, by the key that says so; only keys that matter to its kind."""
    ids, bare = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False)
    )
    begins = bool(ids) and ids[0] == tokenizer.bos_token_id
    ends = len(ids) > len(bare) + begins and ids[-1] == tokenizer.eos_token_id
    does: dict[str, Any] = {"add_bos_token": begins, "add_eos_token": ends}
    if begins:
        does["bos_token_id"] = ids[0]
    if ends:
        does["eos_token_id"] = ids[-1]
    kind = stated.get(f"{KEY}model")
    if kind in SPACED:
        words = tokenizer.convert_ids_to_tokens(bare)
        does["add_space_prefix"] = bool(words) and str(words[0]).startswith(SPACE)
    if kind == "t5":
        wide, narrow = (tokenizer(text)["input_ids"] for text in ("a  a", "a a"))
        does["remove_extra_whitespaces"] = wide == narrow
    return does


def _is_split_alike(stated: Mapping[str, Any], tokenizer: Any) -> bool:
    """Whether transformers splits a text before its merges as llama.cpp does: it knows the split,
    or no merge of the vocabulary reaches over a place where the default split and GPT-2's
    differ."""
    from transformers.integrations import gguf as reading  # noqa: PLC0415

    splits: Any = getattr(reading, "gguf_tokenizer_mapping", None)
    split = stated.get(f"{KEY}pre", DEFAULT_SPLIT)
    if split != DEFAULT_SPLIT:
        return split in {*SPLIT_LIKE_GPT2, *getattr(splits, "GGUF_PRE_TOKENIZER_SPLITS", ())}
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    words = ("".join(merge) for merge in merges)
    return not any(CUT_APART.search(tokenizer.convert_tokens_to_string([word])) for word in words)
