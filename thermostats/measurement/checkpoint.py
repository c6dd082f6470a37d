"""Checkpoints on disk as mapped tensors: safetensors read without torch, pickles by torch with `weights_only=True`.

Nothing that a header or an index says is believed before it was held against the file.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from thermostats.errors import DataError
from thermostats.tables.limits import CONFIG, read_bytes
from thermostats.tables.limits import INDEX as INDEX_BYTES

STORAGE = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
PRECISION = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Name in safetensors' header → type in numpy, name in torch and in the tables."""
WORDS: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Bytes of a number → the type that holds its bits, in which a NaN equals itself."""
BUFFERS = (
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    ".attn.causal_mask",
    "inv_freq",
    "cos_cached",
    "sin_cached",
    "relative_position_index",
    "position_ids",
    "token_type_ids",
)
"""Tensors that old checkpoints hold though they are no weights: masks, frequencies, numbers of positions."""
NO_NUMBERS = ("BOOL", "I64", "torch.bool", "torch.int64")
"""Types of masks and of numbers of places, in which no format packs weights."""
DIMENSIONS = 32
"""Most that an array has."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLE, PICKLE_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
UNLOADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, ImportError, AttributeError, AssertionError)
"""What transformers raises for files that it cannot load."""


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint; `raw()` maps its bytes, bfloat16 as 16-bit words (see `decode`)."""

    name: str
    path: Path
    dtype: str
    """Name in safetensors' header: F64, F32, F16, BF16, …"""
    shape: tuple[int, ...]
    map_bytes: Callable[[], NDArray[Any]]

    def raw(self) -> NDArray[Any]:
        """The tensor as stored, mapped and read only; slices and reshapes of it touch no bytes that they leave out.

        Raises DataError where the dtype is none that spectra are computed from.
        """
        if self.dtype not in STORAGE:
            step = "use a checkpoint whose weights are not quantised"
            what = f"tensor {self.name} is stored in a format that is not measured"
            raise DataError(what, where=self.path, got=self.dtype, allowed=", ".join(STORAGE), next_step=step)
        return self.map_bytes()


def decode(raw: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Stored numbers as float32, or float64 where stored so; 16-bit words are bfloat16, the upper half of a float32."""
    if raw.dtype == np.uint16:
        wide = raw.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    return raw.astype(np.float32) if raw.dtype == np.float16 else raw


def open_checkpoint(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a model folder by its name in the checkpoint: safetensors, in one file or sharded, else pickles.

    All tensors of all shards count, and of a name in several shards the one in the last shard by name: this is what
    transformers loads, whatever an index places elsewhere; `doubled` names those.

    Raises DataError where there are no weights, a shard is missing, or a file does not hold what it says.
    """
    first, read = _first_file(folder)
    return _sharded(first, read) if first.name.endswith(".index.json") else read(first)


def weight_files(folder: Path) -> list[Path]:
    """Files that a model's tensors are in, the index of shards included; raises as `open_checkpoint` does."""
    first, _ = _first_file(folder)
    return [first, *_shard_files(first)] if first.name.endswith(".index.json") else [first]


def doubled(folder: Path) -> list[str]:
    """Tensors that several shards hold with different values, each in a sentence that says which counts."""
    first, read = _first_file(folder)
    if not first.name.endswith(".index.json"):
        return []
    placed = {name: file for file, names in _shards(first).items() for name in names}
    counted: dict[str, StoredTensor] = {}
    sentences: dict[str, str] = {}
    for path in _shard_files(first):
        for name, tensor in read(path).items():
            before = counted.get(name)
            if before is not None and not same_bits(before, tensor):
                sentences[name] = (
                    f"tensor {name} is in {before.path.name} and {path.name} with different values, and the index "
                    f"names {placed.get(name, 'neither')}; that in {path.name} is loaded and measured"
                )
            counted[name] = tensor
    return list(sentences.values())


def same_bits(first: StoredTensor, second: StoredTensor) -> bool:
    """Whether two tensors hold the same bits; of a format that is not read, whether they are one."""
    if first is second:
        return True
    if first.dtype != second.dtype or first.shape != second.shape or first.dtype not in STORAGE:
        return False
    word = WORDS[np.dtype(STORAGE[first.dtype]).itemsize]
    return bool(np.array_equal(first.raw().view(word), second.raw().view(word)))


def _first_file(folder: Path) -> tuple[Path, Callable[[Path], dict[str, StoredTensor]]]:
    """The file of weights, or the index of shards, that transformers looks for first, and what reads such files."""
    if named := _named_weights(folder):
        return folder / named, read_safetensors
    for single, index, read in ((SINGLE, INDEX, read_safetensors), (PICKLE, PICKLE_INDEX, read_pickle)):
        for name in (single, index):
            if (folder / name).is_file():
                return folder / name, read
    step = "download the model again, or name another folder"
    what = "no weights in this folder"
    raise DataError(what, where=folder, allowed=f"{SINGLE}, {INDEX}, {PICKLE} or {PICKLE_INDEX}", next_step=step)


def _named_weights(folder: Path) -> str:
    """File of weights that the configuration names, which transformers then loads; empty: it names none."""
    try:
        config = json.loads(read_bytes(folder / "config.json", CONFIG))
    except (OSError, ValueError, RecursionError, DataError):
        return ""  # said by what reads the configuration
    named = config.get("transformers_weights") if isinstance(config, dict) else None
    if named is None:
        return ""
    if not isinstance(named, str) or _leaves(named) or not named.endswith((".safetensors", ".safetensors.index.json")):
        what, allowed = (
            "the configuration's transformers_weights is no file of weights",
            "a safetensors file in the same folder",
        )
        raise DataError(what, where=folder / "config.json", got=repr(named)[:100], allowed=allowed)
    return named


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """Tensors of one safetensors file, from its header alone, which safetensors holds against the file.

    Raises DataError where the header's length, offsets, dtypes or shapes do not fit the file or each other.
    """
    try:
        with safe_open(path, "numpy"), path.open("rb") as stream:
            start = 8 + int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(start - 8), object_pairs_hook=_unique)
    except OSError as error:
        raise DataError("weights cannot be read", where=path, got=error.strerror or str(error)) from error
    except (SafetensorError, ValueError, RecursionError) as error:
        what, step = "not a safetensors file, or a truncated one", "download the file again"
        raise DataError(what, where=path, got=str(error)[:200], next_step=step) from error
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        if len(shape) > DIMENSIONS:
            allowed = f"at most {DIMENSIONS}"
            raise DataError(f"tensor {name} has too many dimensions", where=path, got=str(len(shape)), allowed=allowed)
        first = start + entry["data_offsets"][0]
        tensors[name] = StoredTensor(name, path, dtype, shape, partial(_mapped, path, dtype, shape, first))
    return tensors


def read_pickle(path: Path) -> dict[str, StoredTensor]:
    """Tensors of a PyTorch pickle, read by torch with `weights_only=True`, so that no code in it can run.

    Raises DataError where torch is not installed, the file is damaged or it holds anything but tensors.
    """
    try:
        import torch  # noqa: PLC0415 - only pickles need it
    except ImportError as error:
        step = "install thermostats[measure], or use a checkpoint in safetensors"
        raise DataError("a PyTorch pickle can only be read with torch", where=path, next_step=step) from error
    try:
        zipped = zipfile.is_zipfile(path)
        if zipped:
            _check_stored(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except DataError:
        raise
    except Exception as error:  # torch raises whatever its unpickler met
        reason = str(error).strip().split("\n")[0]
        step = "use a checkpoint in safetensors, or convert it where you trust it"
        what = "PyTorch pickle cannot be read as plain weights"
        raise DataError(what, where=path, got=reason, next_step=step) from error
    if not isinstance(loaded, dict) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise DataError(
            "PyTorch pickle holds something other than named tensors", where=path, got=type(loaded).__name__
        )
    names = {f"torch.{precision}": name for name, precision in PRECISION.items()}
    tensors = {}
    for name, value in loaded.items():
        dtype = names.get(str(value.dtype), str(value.dtype))
        tensors[str(name)] = StoredTensor(str(name), path, dtype, tuple(value.shape), partial(_torch_words, value))
    return tensors


def _check_stored(path: Path) -> None:
    """Raise DataError where parts of a zip are compressed, which torch never does: unpacked they may fill memory."""
    with zipfile.ZipFile(path) as archive:
        packed = [part for part in archive.infolist() if part.compress_type != zipfile.ZIP_STORED]
    if packed:
        step = "use a checkpoint in safetensors"
        what = "PyTorch pickle is compressed"
        got = f"{packed[0].filename} of {packed[0].file_size} bytes"
        raise DataError(what, where=path, got=got, allowed="parts as torch stores them", next_step=step)


def _torch_words(tensor: Any) -> NDArray[Any]:
    import torch  # noqa: PLC0415 - only pickles need it

    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(plain.numpy())


def _mapped(path: Path, dtype: str, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    if math.prod(shape) == 0:
        return np.empty(shape, STORAGE[dtype])
    return np.asarray(np.memmap(path, STORAGE[dtype], mode="r", offset=offset, shape=shape))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a name occurs twice")
    return entries


def _sharded(index: Path, read: Callable[[Path], Mapping[str, StoredTensor]]) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    shards = _shards(index)
    for path in _shard_files(index):
        stored, names = read(path), shards[path.name]
        if absent := [name for name in names if name not in stored]:
            raise DataError(f"shard lacks {len(absent)} tensors that the index places in it", where=path, got=absent[0])
        tensors |= stored
    return tensors


def _shard_files(index: Path) -> list[Path]:
    """Shards that an index names, sorted by name; raises DataError where one is missing."""
    shards = _shards(index)
    for file, names in shards.items():
        if not (index.parent / file).is_file():
            got, step = f"{index.name} names it for {names[0]}", "download the model again"
            raise DataError("a shard of the model is missing", where=index.parent / file, got=got, next_step=step)
    return [index.parent / file for file in sorted(shards)]


def _leaves(file: str) -> bool:
    """Whether a name is none of a file in its own folder."""
    wrong = file in ("", ".", "..") or any(mark in file for mark in "/\\\0")
    return wrong or len(file.encode("utf-8", "surrogatepass")) > 255


def _shards(index: Path) -> dict[str, list[str]]:
    """Shards of an index with the tensors each holds; every file name is one in the index's own folder."""
    try:
        parsed = json.loads(read_bytes(index, INDEX_BYTES).decode("utf-8"), object_pairs_hook=_unique)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError("index of the shards is not readable", where=index, got=str(error)[:200]) from error
    places = parsed.get("weight_map") if isinstance(parsed, dict) else None
    if not isinstance(places, dict) or not places:
        raise DataError("index of the shards has no weight_map", where=index)
    shards: dict[str, list[str]] = {}
    for name, file in places.items():
        if not isinstance(file, str) or _leaves(file):
            what, allowed = f"index places {name} outside the model's folder", "a file name without a folder"
            raise DataError(what, where=index, got=repr(file)[:100], allowed=allowed)
        shards.setdefault(file, []).append(name)
    return shards
