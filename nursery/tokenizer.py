"""The nursery's tokenizer: byte-level byte-pair encoding, the same for every model whatever its
corpus.

Sennrich, Haddow and Birch (2016), doi:10.18653/v1/P16-1162, on bytes as in GPT-2, by the library
tokenizers. One token serves as the beginning and end of a text and as padding; as in GPT-2, none is
added to a text by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thermostats.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 1024
END_OF_TEXT = "<|endoftext|>"
FILE = "tokenizer.json"


def train(corpora: Sequence[Sequence[str]]) -> Tokenizer:
    """A tokenizer of `VOCAB_SIZE` tokens from an equal share of each corpus, a list of documents.

    The share is counted in bytes: from each corpus documents evenly spread over it, as many as the
    smallest one has.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: PLC0415

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(equal_mix(corpora), trainer)
    return tokenizer


def equal_mix(corpora: Sequence[Sequence[str]]) -> Iterator[str]:
    """Documents of every corpus, evenly spread over it, to about as many bytes as the smallest
    corpus has."""
    sizes = [sum(len(document.encode()) for document in corpus) for corpus in corpora]
    for corpus, size in zip(corpora, sizes, strict=True):
        taken = passed = 0
        for document in corpus:
            length = len(document.encode())
            passed += length
            if taken + length / 2 <= passed * min(sizes) / size:
                taken += length
                yield document


def load(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a corpora folder. Raises DataError where the folder has none."""
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    path = folder / FILE
    if not path.is_file():
        raise DataError("no tokenizer here", where=path, next_step="python -m nursery corpora")
    make: Callable[..., PreTrainedTokenizerFast] = PreTrainedTokenizerFast
    return make(
        tokenizer_file=str(path),
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        pad_token=END_OF_TEXT,
    )
