"""Checkpoints on disk as mapped tensors: safetensors read without torch, pickles by torch with
`weights_only=True`.

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
from thermostats.measurement.lookup import select_decoder_config, select_layer_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.tables.folders import CONFIG, read_bytes
from thermostats.tables.folders import INDEX as INDEX_BYTES

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
"""Tensors that old checkpoints hold though they are no weights: masks, frequencies, numbers of
positions."""
NO_NUMBERS = ("BOOL", "I64", "torch.bool", "torch.int64")
"""Types of masks and of numbers of places, in which no format packs weights."""
DIMENSIONS = 32
"""Most that an array has."""
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
UNLOADABLE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    LookupError,
    TypeError,
    ImportError,
    AttributeError,
    AssertionError,
)
"""What Python raises where transformers cannot load files, numbers that make no model included."""


def list_load_errors() -> tuple[type[Exception], ...]:
    """What transformers raises for files that it cannot load; asked for only once something was
    raised, so that nothing imports huggingface_hub before."""
    try:
        from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415
    except ImportError:  # a release whose configurations do not check themselves, or none
        return UNLOADABLE
    return (*UNLOADABLE, StrictDataclassError)


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a checkpoint; `raw()` maps its bytes, bfloat16 as 16-bit words (see
    `decode`)."""

    name: str
    path: Path
    dtype: str
    """Name in safetensors' header: F64, F32, F16, BF16, …"""
    shape: tuple[int, ...]
    map_bytes: Callable[[], NDArray[Any]]

    def read_raw(self) -> NDArray[Any]:
        """The tensor as stored, mapped and read only; slices and reshapes of it touch no bytes that
        they leave out.

        Raises DataError where the dtype is none that spectra are computed from.
        """
        if self.dtype not in STORAGE:
            step = "use a checkpoint whose weights are not quantised"
            what = f"tensor {self.name} is stored in a format that is not measured"
            raise DataError(
                what, where=self.path, got=self.dtype, allowed=", ".join(STORAGE), next_step=step
            )
        return self.map_bytes()


def decode(raw: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Stored numbers as float32, or float64 where stored so; 16-bit words are bfloat16, the upper
    half of a float32."""
    if raw.dtype == np.uint16:
        wide = raw.astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    return raw.astype(np.float32) if raw.dtype == np.float16 else raw


def open_checkpoint(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a model folder by its name in the checkpoint: safetensors, in one file or
    sharded, else pickles.

    All tensors of all shards count, and of a name in several shards the one in the last shard by
    name: this is what transformers loads, whatever an index places elsewhere; `find_doubled` names
    those.

    Raises DataError where there are no weights, a shard is missing, or a file does not hold what it
    says.
    """
    first, read = _find_first_file(folder)
    return _read_shards(first, read) if first.name.endswith(".index.json") else read(first)


def list_weight_files(folder: Path) -> list[Path]:
    """Files that a model's tensors are in, the index of shards included; raises as
    `open_checkpoint` does."""
    first, _ = _find_first_file(folder)
    return [first, *_list_shard_files(first)] if first.name.endswith(".index.json") else [first]


def find_doubled(folder: Path) -> list[str]:
    """Tensors that several shards hold with different values, each in a sentence that says which
    counts."""
    first, read = _find_first_file(folder)
    if not first.name.endswith(".index.json"):
        return []
    placed = {}
    for file, names in _group_shards(first).items():
        for name in names:
            placed[name] = file
    counted: dict[str, StoredTensor] = {}
    sentences: dict[str, str] = {}
    for path in _list_shard_files(first):
        for name, tensor in read(path).items():
            before = counted.get(name)
            if before is not None and not has_same_bits(before, tensor):
                files = f"{before.path.name} and {path.name}"
                indexed = placed.get(name, "neither")
                sentences[name] = (
                    f"tensor {name} is in {files} with different values, and the index names "
                    f"{indexed}; that in {path.name} is loaded and measured"
                )
            counted[name] = tensor
    return list(sentences.values())


def has_same_bits(first: StoredTensor, second: StoredTensor) -> bool:
    """Whether two tensors hold the same bits; of a format that is not read, whether they are
    one."""
    if first is second:
        return True
    if first.dtype != second.dtype or first.shape != second.shape or first.dtype not in STORAGE:
        return False
    word = WORDS[np.dtype(STORAGE[first.dtype]).itemsize]
    bits = first.read_raw().view(word)
    other_bits = second.read_raw().view(word)
    return bool(np.array_equal(bits, other_bits))


def _find_first_file(folder: Path) -> tuple[Path, Callable[[Path], dict[str, StoredTensor]]]:
    """The file of weights, or the index of shards, that transformers looks for first, and what
    reads such files."""
    if named := _read_named_weights(folder):
        return folder / named, read_safetensors
    for single, index, read in (
        (SINGLE, INDEX, read_safetensors),
        (PICKLE, PICKLE_INDEX, read_pickle),
    ):
        for name in (single, index):
            if (folder / name).is_file():
                return folder / name, read
    step = "download the model again, or name another folder"
    what = "no weights in this folder"
    allowed = f"{SINGLE}, {INDEX}, {PICKLE} or {PICKLE_INDEX}"
    raise DataError(what, where=folder, allowed=allowed, next_step=step)


def _read_named_weights(folder: Path) -> str:
    """File of weights that the configuration names, which transformers then loads; empty: it names
    none."""
    try:
        config = json.loads(read_bytes(folder / "config.json", CONFIG))
    except (OSError, ValueError, RecursionError, DataError):
        return ""  # said by what reads the configuration
    named = config.get("transformers_weights") if isinstance(config, dict) else None
    if named is None:
        return ""
    if (
        not isinstance(named, str)
        or _is_outside(named)
        or not named.endswith((".safetensors", ".safetensors.index.json"))
    ):
        what = "the configuration's transformers_weights is no file of weights"
        allowed = "a safetensors file in the same folder"
        raise DataError(what, where=folder / "config.json", got=repr(named)[:100], allowed=allowed)
    return named


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """Tensors of one safetensors file, from its header alone, which safetensors holds against the
    file.

    Raises DataError where the header's length, offsets, dtypes or shapes do not fit the file or
    each other.
    """
    try:
        with safe_open(path, "numpy"), path.open("rb") as stream:
            start = 8 + int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(start - 8), object_pairs_hook=_check_unique)
    except OSError as error:
        raise DataError(
            "weights cannot be read", where=path, got=error.strerror or str(error)
        ) from error
    except (SafetensorError, ValueError, RecursionError) as error:
        what = "not a safetensors file, or a truncated one"
        step = "download the file again"
        raise DataError(what, where=path, got=str(error)[:200], next_step=step) from error
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = entry["dtype"]
        shape = tuple(entry["shape"])
        if len(shape) > DIMENSIONS:
            allowed = f"at most {DIMENSIONS}"
            raise DataError(
                f"tensor {name} has too many dimensions",
                where=path,
                got=str(len(shape)),
                allowed=allowed,
            )
        first = start + entry["data_offsets"][0]
        read = partial(_map_tensor, path, dtype, shape, first)
        tensors[name] = StoredTensor(name, path, dtype, shape, read)
    return tensors


def read_pickle(path: Path) -> dict[str, StoredTensor]:
    """Tensors of a PyTorch pickle, read by torch with `weights_only=True`, so that no code in it
    can run.

    Raises DataError where torch is not installed, the file is damaged or it holds anything but
    tensors.
    """
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        step = "install thermostats[measure], or use a checkpoint in safetensors"
        raise DataError(
            "a PyTorch pickle can only be read with torch", where=path, next_step=step
        ) from error
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
    if not isinstance(loaded, dict) or not all(
        isinstance(value, torch.Tensor) for value in loaded.values()
    ):
        raise DataError(
            "PyTorch pickle holds something other than named tensors",
            where=path,
            got=type(loaded).__name__,
        )
    names = {f"torch.{precision}": name for name, precision in PRECISION.items()}
    tensors = {}
    for name, value in loaded.items():
        dtype = names.get(str(value.dtype), str(value.dtype))
        shape = tuple(value.shape)
        read = partial(_convert_torch, value)
        tensors[str(name)] = StoredTensor(str(name), path, dtype, shape, read)
    return tensors


def _check_stored(path: Path) -> None:
    """Raise DataError where parts of a zip are compressed, which torch never does: unpacked they
    may fill memory."""
    with zipfile.ZipFile(path) as archive:
        packed = [part for part in archive.infolist() if part.compress_type != zipfile.ZIP_STORED]
    if packed:
        step = "use a checkpoint in safetensors"
        what = "PyTorch pickle is compressed"
        got = f"{packed[0].filename} of {packed[0].file_size} bytes"
        raise DataError(
            what, where=path, got=got, allowed="parts as torch stores them", next_step=step
        )


def _convert_torch(tensor: Any) -> NDArray[Any]:
    import torch  # noqa: PLC0415

    plain = tensor.detach()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(plain.numpy())


def _map_tensor(path: Path, dtype: str, shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    if math.prod(shape) == 0:
        return np.empty(shape, STORAGE[dtype])
    mapped = np.memmap(path, STORAGE[dtype], mode="r", offset=offset, shape=shape)
    return np.asarray(mapped)


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a name occurs twice")
    return entries


def _read_shards(
    index: Path, read: Callable[[Path], Mapping[str, StoredTensor]]
) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    shards = _group_shards(index)
    for path in _list_shard_files(index):
        stored = read(path)
        names = shards[path.name]
        if absent := [name for name in names if name not in stored]:
            raise DataError(
                f"shard lacks {len(absent)} tensors that the index places in it",
                where=path,
                got=absent[0],
            )
        tensors |= stored
    return tensors


def _list_shard_files(index: Path) -> list[Path]:
    """Shards that an index names, sorted by name; raises DataError where one is missing."""
    shards = _group_shards(index)
    for file, names in shards.items():
        if not (index.parent / file).is_file():
            got = f"{index.name} names it for {names[0]}"
            step = "download the model again"
            raise DataError(
                "a shard of the model is missing",
                where=index.parent / file,
                got=got,
                next_step=step,
            )
    return [index.parent / file for file in sorted(shards)]


def _is_outside(file: str) -> bool:
    """Whether a name is none of a file in its own folder."""
    wrong = file in ("", ".", "..") or any(mark in file for mark in "/\\\0")
    return wrong or len(file.encode("utf-8", "surrogatepass")) > 255


def _group_shards(index: Path) -> dict[str, list[str]]:
    """Shards of an index with the tensors each holds; every file name is one in the index's own
    folder."""
    try:
        parsed = json.loads(
            read_bytes(index, INDEX_BYTES).decode("utf-8"), object_pairs_hook=_check_unique
        )
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            "index of the shards is not readable", where=index, got=str(error)[:200]
        ) from error
    places = parsed.get("weight_map") if isinstance(parsed, dict) else None
    if not isinstance(places, dict) or not places:
        raise DataError("index of the shards has no weight_map", where=index)
    shards: dict[str, list[str]] = {}
    for name, file in places.items():
        if not isinstance(file, str) or _is_outside(file):
            what = f"index places {name} outside the model's folder"
            allowed = "a file name without a folder"
            raise DataError(what, where=index, got=repr(file)[:100], allowed=allowed)
        shards.setdefault(file, []).append(name)
    return shards


LARGEST = 10_000_000
"""More than any width, depth or number of heads or positions."""
PARTITIONS = 4
"""CodeGen's fused matrix is stored in four partitions, whatever it was trained on."""

ALIASES: dict[str, tuple[str, ...]] = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "n_heads": (
        "num_attention_heads",
        "n_head",
        "num_heads",
        "n_heads",
        "attention_heads",
        "encoder_attention_heads",
    ),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "d_head": ("head_dim", "d_kv"),
    "n_positions": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"),
}
"""What configurations call the same thing."""


@dataclass(frozen=True)
class Geometry:
    """L, d, H, K, width of a head's value d_h, and the width that W_V reads (d, or the
    latent's)."""

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value_in: int


@dataclass(frozen=True)
class ValueOutput:
    """W_V (K·d_h × d), W_O (d × H·d_h) of one layer, and the key/value head of each query head
    (H)."""

    w_v: NDArray[Any]
    w_o: NDArray[Any]
    kv_head: NDArray[np.int64]
    d_head: int

    def get_head(self, h: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """W_V^h (d_h × d) and W_O^h (d × d_h) of query head h, counted from 0; views, not
        copies."""
        k = int(self.kv_head[h])
        of_values = slice(k * self.d_head, (k + 1) * self.d_head)
        of_query = slice(h * self.d_head, (h + 1) * self.d_head)
        return self.w_v[of_values], self.w_o[:, of_query]


def read_config_value(config: Config, quantity: str) -> int | None:
    """A quantity of `ALIASES` from a configuration; None where it is not stated."""
    decoder = select_decoder_config(config)
    for key in ALIASES[quantity]:
        if decoder.get(key) is not None:
            return read_count(decoder, key)
    return None


def read_count(decoder: Config, key: str) -> int:
    """A number that a configuration states, held against what such numbers are."""
    value = decoder.get(key)
    if type(value) is not int or not 0 < value <= LARGEST:
        what = f"the configuration's {key} is no number of its kind"
        raise DataError(
            what,
            where="config.json",
            got=repr(value)[:60],
            allowed=f"a whole number from 1 to {LARGEST}",
        )
    return value


def find_context_limit(entry: Architecture, config: Config) -> int | None:
    """Tokens that a prompt may have at most, special ones included; None where the configuration
    states no number.

    Rotary frequencies that grow with the length reach further than that number, by their factor.
    """
    rows = read_config_value(config, "n_positions")
    first = entry.first_position
    if first == "pad":
        pad = select_decoder_config(config).get("pad_token_id")
        first = pad + 1 if type(pad) is int else 0
    grow = []
    for rope in list_ropes(config):
        if name_rope_type(rope) == "dynamic" and ORIGINAL not in rope:
            grow.append(rope)
    factor = max((float(rope.get("factor") or 1) for rope in grow), default=1.0)
    return None if rows is None else int(rows * factor) - int(first)


ORIGINAL = "original_max_position_embeddings"
"""Where a configuration states it, its number of positions is the extended one."""


def list_ropes(config: Config) -> list[Config]:
    """What a configuration says of its rotary embeddings, one for each kind of block where they
    differ."""
    decoder = select_decoder_config(config)
    stated = decoder.get("rope_parameters") or decoder.get("rope_scaling") or {}
    return [each for each in stated.values() if isinstance(each, Mapping)] or [stated]


def name_rope_type(rope: Config) -> str:
    """Its kind, ``None`` where it states none."""
    return str(rope.get("rope_type") or rope.get("type"))


def _require_value(config: Config, quantity: str) -> int:
    value = read_config_value(config, quantity)
    if value is None:
        what = f"the configuration does not state {quantity}"
        raise DataError(what, where="config.json", allowed=f"one of {', '.join(ALIASES[quantity])}")
    return value


def read_geometry(entry: Architecture, config: Config) -> Geometry:
    """L, d, H, K and d_h of a model, with several widths of its last stage; or of a block, of whose
    `select_layer_config` it is given. Without attention there are no heads. Raises DataError where
    the configuration lacks one of them."""
    if entry.depths and not isinstance(config.get("num_heads"), int):
        config = select_layer_config(entry, config, sum(entry.depths) - 1)
    decoder = select_decoder_config(config)
    d_model = _require_value(config, "d_model")
    if not entry.attention:
        return Geometry(_require_value(config, "n_layers"), d_model, 0, 0, 0, d_model)
    n_heads = _require_value(config, "n_heads")
    stated = read_config_value(config, "n_kv_heads") or n_heads
    n_kv_heads = {"config": stated, "one": 1, "all": n_heads}[entry.n_kv_heads]
    quarters = entry.layout != "partitioned" or n_heads % PARTITIONS == 0
    widths = (read_count(decoder, key) for key in ALIASES["d_head"] if decoder.get(key))
    stated_width = next(widths, None)
    if n_heads % n_kv_heads or (n_heads > d_model and stated_width is None) or not quarters:
        what = "the configuration's numbers of heads do not divide each other or its width"
        got = f"width {d_model}, {n_heads} heads, {n_kv_heads} key/value heads"
        raise DataError(what, where="config.json", got=got)
    d_head = stated_width or d_model // n_heads
    d_value_in = d_model
    if entry.layout == "latent":
        d_head = read_count(decoder, "v_head_dim")
        d_value_in = read_count(decoder, "kv_lora_rank")
    return Geometry(
        _require_value(config, "n_layers"), d_model, n_heads, n_kv_heads, d_head, d_value_in
    )


def find_clip_limit(config: Config) -> float:
    """Largest value that a head may hold, where the configuration clips them; infinite where it
    does not."""
    inner = config.get("attn_config")
    stated = config.get("clip_qkv") or (
        inner.get("clip_qkv") if isinstance(inner, Mapping) else None
    )
    return float(stated) if stated else np.inf


def map_query_heads(entry: Architecture, config: Config) -> NDArray[np.int64]:
    """Key/value head of each query head, both from 0 (H)."""
    g = read_geometry(entry, config)
    return np.arange(g.n_heads) // (g.n_heads // g.n_kv_heads)


def index_value_rows(entry: Architecture, config: Config) -> NDArray[np.int64]:
    """Rows of the stored (outputs × inputs) matrix that hold each key/value head's values (K ×
    d_h)."""
    g = read_geometry(entry, config)
    K = g.n_kv_heads
    d_h = g.d_head
    rows = np.arange(count_stored_rows(entry, config))
    if entry.layout == "stacked":
        rows = rows[-K * d_h :]
    elif entry.layout == "grouped":
        rows = rows.reshape(K, -1, d_h)[:, -1]
    elif entry.layout == "partitioned":
        rows = rows.reshape(PARTITIONS, 3, -1)[:, 1]
    elif entry.layout == "latent":
        rows = rows.reshape(K, -1)[:, -d_h:]
    return rows.reshape(K, d_h)


def count_stored_rows(entry: Architecture, config: Config) -> int:
    """Rows of the stored matrix that holds the values, after undoing any transposition."""
    g = read_geometry(entry, config)
    if entry.layout == "separate":
        return g.n_kv_heads * g.d_head
    if entry.layout == "latent":
        return g.n_heads * (g.d_head + int(select_decoder_config(config)["qk_nope_head_dim"]))
    return (g.n_heads + 2 * g.n_kv_heads) * g.d_head


def align_matrices(
    entry: Architecture, config: Config, value: NDArray[Any], output: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The tensors `entry.value` and `entry.output` as matrices of outputs × inputs; views.

    Raises DataError where a shape is not what the configuration implies.
    """
    g = read_geometry(entry, config)
    fused_shape = (count_stored_rows(entry, config), g.d_value_in)
    output_shape = (g.d_model, g.n_heads * g.d_head)
    shapes = {entry.value: fused_shape, entry.output: output_shape}
    fused = value.T if entry.transposed else value
    w_o = output.T if entry.transposed else output
    for matrix, (module, shape) in zip((fused, w_o), shapes.items(), strict=True):
        if matrix.shape != shape:
            what = "weights and configuration disagree on a matrix's shape (outputs × inputs)"
            where = f"{module}, architecture {entry.name}"
            raise DataError(what, where=where, got=matrix.shape, allowed=str(shape))
    return fused, w_o


def find_value_runs(entry: Architecture, config: Config) -> list[slice]:
    """Runs of consecutive rows of the stored (outputs × inputs) matrix that make up W_V, as few as
    possible."""
    places = index_value_rows(entry, config).ravel()
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts = places[np.r_[0, breaks + 1]]
    lasts = places[np.r_[breaks, places.size - 1]]
    value_runs: list[slice] = []
    for first, last in zip(firsts, lasts, strict=True):
        value_runs.append(slice(int(first), int(last) + 1))
    return value_runs


def split(
    entry: Architecture, config: Config, value: NDArray[Any], output: NDArray[Any]
) -> ValueOutput:
    """W_V and W_O of one layer from the tensors `entry.value` and `entry.output` as stored.

    Raises DataError where a shape is not what the configuration implies.
    """
    fused, w_o = align_matrices(entry, config, value, output)
    w_v = fused
    if entry.layout != "separate":
        w_v = fused[index_value_rows(entry, config).ravel()]
    d_head = read_geometry(entry, config).d_head
    return ValueOutput(w_v, w_o, map_query_heads(entry, config), d_head)


def take_published_thirds(entry: Architecture, value: NDArray[Any]) -> NDArray[Any]:
    """The rows that the study took for W_V out of the tensor `entry.value` as stored; a view."""
    if entry.layout == "separate":
        return value
    return value[2 * (value.shape[0] // 3) :]


def take_published_heads(entry: Architecture, config: Config, value: NDArray[Any]) -> NDArray[Any]:
    """Those rows cut into H heads of d_h consecutive rows (H × d_h × columns); rows beyond the last
    are zero.

    Fewer rows than H·d_h are left with grouped queries and with GPT-2's transposed matrix.
    """
    g = read_geometry(entry, config)
    n_rows = g.n_heads * g.d_head
    rows = take_published_thirds(entry, value)[:n_rows]
    heads = np.zeros((n_rows, value.shape[1]), value.dtype)
    heads[: rows.shape[0]] = rows
    return heads.reshape(g.n_heads, g.d_head, value.shape[1])
