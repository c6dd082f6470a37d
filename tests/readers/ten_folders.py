"""Ten small models in folders, of two kinds and five depths, as `models/ten-…`: weights at random,
in which some blocks write more than others."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

DEPTHS = (4, 6, 8, 10, 12)
WORDS = ["[UNK]", "[END]", *"abcdefghijklmnopqrstuvwxyz", "the", "of", "and", "to", "in", "is"]


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of whole words, which every model shares."""
    words = {word: number for number, word in enumerate(WORDS)}
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="[END]")
    fast.save_pretrained(folder)


def build_model(kind: str, depth: int) -> transformers.PreTrainedModel:
    """A model at random; the MLPs of `neox` write the less the later they come."""
    torch.manual_seed(depth)
    sizes = {"vocab_size": len(WORDS), "hidden_size": 64, "num_attention_heads": 4}
    if kind == "neox":
        config = transformers.GPTNeoXConfig(
            **sizes, num_hidden_layers=depth, intermediate_size=256, initializer_range=0.05
        )
    else:
        config = transformers.LlamaConfig(
            **sizes, num_hidden_layers=depth, intermediate_size=128, initializer_range=0.08
        )
    model = transformers.AutoModelForCausalLM.from_config(config)
    if kind == "neox":
        for number, block in enumerate(model.gpt_neox.layers):
            block.mlp.dense_4h_to_h.weight.data *= 4 / (1 + number)
    return model


for kind in ("neox", "llama"):
    for depth in DEPTHS:
        folder = Path("models") / f"ten-{kind}-{depth}"
        build_model(kind, depth).save_pretrained(folder)
        write_tokenizer(folder)
