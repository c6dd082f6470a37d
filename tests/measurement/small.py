"""Small models with a tokenizer, as folders, and a place to measure them into."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from thermostats.measurement.spec import RunSpec

torch.set_num_threads(1)  # as in processes with one core each: of more threads sums differ by 1e-7


def save_model(folder: Path, seed: int = 1, **changes: int) -> Path:
    """A GPT-2 of three layers that knows seven words, as `save_pretrained` writes it."""
    torch.manual_seed(seed)
    shape = {"n_layer": 3, "n_head": 2, "n_embd": 16, "vocab_size": 8, "n_positions": 12, **changes}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).save_pretrained(folder)
    words = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate(["?", *"abcdefg"])}, unk_token="?")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(
        folder
    )
    return folder


def save_prompts(folder: Path) -> Path:
    """Three prompts of those words."""
    path = folder / "three.txt"
    path.write_text("a b c\nb c d e f\nf a\n")
    return path


def specs(folder: Path, count: int, **options: object) -> list[RunSpec]:
    """So many models of growing size, and a spec for each."""
    prompts = str(save_prompts(folder))
    models = [save_model(folder / f"m{i}", seed=i, n_layer=2 + i) for i in range(count)]
    return [RunSpec(str(path), prompts=prompts, heritage="Us", **options) for path in models]  # type: ignore[arg-type]


def rows(data: Path) -> dict[str, bytes]:
    """Files of gains by name; those of runs also hold the time."""
    return {path.name: path.read_bytes() for path in (data / "measured" / "layers").glob("*.csv")}
