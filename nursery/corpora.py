"""The nursery's corpora on disk: texts, one tokenizer, and the tokens of each for training and held
out.

The texts are in no repository: `build` makes the folder's files, and `corpora.json`, put in place
last, says what they are. A corpus is a list of documents (chapters of English, documents of the
synthetic language, modules of Python's standard library), each ended by the end-of-text token. The
last 5% of the documents, rounded up, are held out: of the English novels the end of the last. The
corpus `shuffled` is the English one with its tokens in random order, so that their frequencies are
all there is to learn. The tokenizer is learned from the first two and is the same for all.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nursery import english, python_source, recipes, synthetic, tokenizer
from nursery.records import CORPORA
from thermostats.errors import DataError, UsageError
from thermostats.tables.folders import hold_folder, write_all

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Tokens = npt.NDArray[np.uint16]

NAMES = recipes.CORPORA
HELD_OUT = 0.05
TOKENIZED = ("english", "synthetic")
"""Corpora that the tokenizer is learned from."""
SEPARATOR = "\f\n"
"""Between the documents of a corpus's text."""
SHUFFLED, ORDER = "shuffled", 41
"""The corpus without order, and the seed of its order."""
PROMPTS = 25
"""Prompts of every corpus, on which models of all corpora are measured."""
PSEUDO = 100.0
"""Pairs after every token that a bigram model is given beforehand, spread by frequency."""
_LEAST_DOCUMENTS = 20
_FORMAT = 1


@dataclass(frozen=True)
class Corpus:
    """One corpus as tokens, uint16 of shape (tokens,) below `vocab_size`, memory-mapped and not to
    be written."""

    name: str
    train: Tokens
    heldout: Tokens
    vocab_size: int


def build(folder: Path, text: Path | None = None) -> None:
    """Make the corpora in `folder`: texts, tokenizer, tokens, and `corpora.json` with the SHA-256
    of each.

    Nothing is done where they are there and intact; a missing or damaged file is made again, from
    the English text of the folder where that is intact. The English is downloaded as a Debian
    package, or it is the UTF-8 file `text`.

    Raises UsageError if the folder holds corpora made from another text; DataError if a text cannot
    be read or has fewer than 20 documents, or if the folder cannot be written; ThermostatsError if
    the package cannot be downloaded.
    """
    with hold_folder(folder):
        record = _record(folder) or {}
        content = None if text is None else _joined(english.documents(_read(text)))
        if (
            content is not None
            and record
            and record["files"]["english.txt"]["sha256"] != _sha256(content)
        ):
            raise UsageError(
                "the folder holds corpora made from another text",
                where=folder,
                got=text,
                next_step="give another folder, since models trained on the first text are "
                "measured with it",
            )
        if {*NAMES} <= {*record.get("documents", ())} and all(
            _intact(folder, name, record) for name in record["files"]
        ):
            return
        if content is None and record and _intact(folder, "english.txt", record):
            content = (folder / "english.txt").read_bytes()
        if content is None:
            if record.get("english") == "text":
                raise DataError(
                    "the English text is damaged, and it was your own text",
                    where=folder / "english.txt",
                    next_step="give it again with --text FILE",
                )
            content = _joined(english.documents(english.fetch()))
        _write(
            folder, content, "text" if text is not None else record.get("english", english.PACKAGE)
        )


def load(folder: Path, name: str, context: int = 0) -> Corpus:
    """Corpus of a folder that `build` made, one of NAMES, long enough for windows of `context`
    tokens.

    Raises UsageError for another name, DataError where the folder has no corpora, a file is not the
    one recorded, or the tokens for training or held out are no more than a window.
    """
    if name not in NAMES:
        raise UsageError("no such corpus", got=repr(name), allowed=", ".join(NAMES))
    record = _record(folder)
    again = f"python -m nursery corpora --folder {folder}"
    if record is None:
        raise DataError("no corpora here", where=folder, next_step=again)
    parts = {}
    for part in ("train", "heldout"):
        file = f"{name}-{part}.npy"
        if file not in record["files"] or not _intact(folder, file, record):
            raise DataError("tokens are missing or damaged", where=folder / file, next_step=again)
        parts[part] = np.load(folder / file, mmap_mode="r")
        if len(parts[part]) <= context:
            raise DataError(
                "a corpus is too short for the windows of the design",
                where=folder / file,
                got=f"{len(parts[part])} tokens",
                allowed=f"more than {context}, the context of the design",
                next_step="make corpora of a longer text in another folder, or design a shorter "
                "context",
            )
    return Corpus(name, parts["train"], parts["heldout"], record["vocab_size"])


def prompt_sets(folder: Path, context: int) -> dict[str, Tokens]:
    """PROMPTS windows of `context` held-out tokens of every corpus (PROMPTS, context), spread
    evenly over it.

    No two of a corpus end in the same token: a window that would is moved on by a token until it
    does not. Raises DataError where a corpus has too few tokens or too few kinds of them.
    """
    sets = {}
    for name in NAMES:
        tokens = load(folder, name, context).heldout
        ends = set[int]()
        rows = []
        starts = np.linspace(0, len(tokens) - context, PROMPTS + 1).astype(int)
        for start, following in itertools.pairwise(starts):
            free = (
                at for at in range(start, following) if int(tokens[at + context - 1]) not in ends
            )
            at = next(free, None)
            if at is None:
                got = f"{len(tokens)} held-out tokens"
                raise DataError(
                    "a corpus is too short for its prompts",
                    where=folder / f"{name}-heldout.npy",
                    got=got,
                )
            ends.add(int(tokens[at + context - 1]))
            rows.append(tokens[at : at + context])
        sets[name] = np.stack(rows)
    return sets


def unigram_loss(corpus: Corpus) -> float:
    """Held-out cross-entropy of the training tokens' frequencies (one added to each count), nat per
    token."""
    return float(-np.log(_frequencies(corpus))[corpus.heldout].mean())


def bigram_loss(corpus: Corpus) -> float:
    """Held-out cross-entropy of the token before alone, nat per token.

    p(b | a) = (n_ab + k p(b)) / (n_a + k), p the frequencies and k = PSEUDO (MacKay and Peto 1995,
    doi:10.1017/S1351324900000218).
    """
    pairs = np.zeros((corpus.vocab_size, corpus.vocab_size))
    np.add.at(pairs, (corpus.train[:-1], corpus.train[1:]), 1.0)
    p = (pairs + PSEUDO * _frequencies(corpus)) / (pairs.sum(axis=1, keepdims=True) + PSEUDO)
    return float(-np.log(p[corpus.heldout[:-1], corpus.heldout[1:]]).mean())


def _frequencies(corpus: Corpus) -> npt.NDArray[np.float64]:
    counts = np.bincount(corpus.train, minlength=corpus.vocab_size) + 1.0
    return np.asarray(counts / counts.sum())


def split(documents: Sequence[str]) -> tuple[list[str], list[str]]:
    """Documents for training, and the last 5%, rounded up, held out."""
    first = len(documents) - math.ceil(HELD_OUT * len(documents))
    return list(documents[:first]), list(documents[first:])


def _write(folder: Path, text: bytes, source: str) -> None:
    texts = {
        "english": text,
        "synthetic": _joined(synthetic.documents()),
        "code": _joined(python_source.documents()),
    }
    parts = {name: split(content.decode().split(SEPARATOR)) for name, content in texts.items()}
    learned = tokenizer.train([parts[name][0] for name in TOKENIZED])
    arrays = {name: [encode(learned, part) for part in pair] for name, pair in parts.items()}
    parts[SHUFFLED] = parts["english"]
    arrays[SHUFFLED] = [
        np.random.default_rng(ORDER).permutation(tokens) for tokens in arrays["english"]
    ]
    files = {f"{name}.txt": content for name, content in texts.items()}
    files[tokenizer.FILE] = learned.to_str(pretty=True).encode()
    tokens = {}
    for name, pair in arrays.items():
        for part, array in zip(("train", "heldout"), pair, strict=True):
            stream = io.BytesIO()
            np.save(stream, array)
            files[f"{name}-{part}.npy"], tokens[f"{name}-{part}.npy"] = (
                stream.getvalue(),
                len(array),
            )
    record = {
        "format": _FORMAT,
        "english": source,
        "same_english_as_shipped_models": _sha256(text) == english.SHA256,
        "english_licence": english.LICENCE if source == english.PACKAGE else "of the text's owner",
        "synthetic": "nursery.synthetic",
        "synthetic_seed": synthetic.SEED,
        "synthetic_licence": "MIT",
        "code": f"modules of Python {platform.python_version()}",
        "code_licence": python_source.LICENCE,
        "vocab_size": learned.get_vocab_size(),
        "held_out": HELD_OUT,
        "documents": {
            name: {"train": len(train), "heldout": len(held)}
            for name, (train, held) in parts.items()
        },
        "tokens": tokens,
        "files": {
            name: {"sha256": _sha256(content), "bytes": len(content)}
            for name, content in files.items()
        },
    }
    files[CORPORA] = (json.dumps(record, indent=2, sort_keys=True) + "\n").encode()
    write_all(folder, {folder / name: content for name, content in files.items()})


def encode(learned: Tokenizer, documents: Sequence[str]) -> Tokens:
    """Tokens of documents one after the other, an end-of-text token behind each; uint16 of shape
    (tokens,)."""
    end = learned.token_to_id(tokenizer.END_OF_TEXT)
    return np.array(
        [i for encoding in learned.encode_batch(documents) for i in (*encoding.ids, end)],
        dtype=np.uint16,
    )


def _record(folder: Path) -> Mapping[str, Any] | None:
    """What `corpora.json` says, None where there is none. Raises DataError where it cannot be
    read."""
    path = folder / CORPORA
    if not path.exists():
        return None
    try:
        record = json.loads(_read(path))
        if record["format"] != _FORMAT or not isinstance(
            record["files"]["english.txt"]["sha256"], str
        ):
            raise ValueError("another format")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"not a record of corpora: {error}",
            where=path,
            next_step="remove this file and make the corpora again",
        ) from error
    return dict(record)


def _intact(folder: Path, name: str, record: Mapping[str, Any]) -> bool:
    path = folder / name
    return path.is_file() and _sha256(path.read_bytes()) == record["files"][name]["sha256"]


def _joined(documents: Sequence[str]) -> bytes:
    if len(documents) < _LEAST_DOCUMENTS:
        raise DataError(
            "too few documents in the English text",
            got=str(len(documents)),
            allowed=f"{_LEAST_DOCUMENTS} or more",
            next_step="chapters begin with a line such as Chapter 1, or documents are separated by "
            "form feeds",
        )
    return SEPARATOR.join(documents).encode()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(
            "a text cannot be read", where=path, got=error.strerror or str(error)
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            "not UTF-8 text", where=path, got=f"byte {error.object[error.start]:#04x}"
        ) from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
