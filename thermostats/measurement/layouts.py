"""W_V and W_O out of the tensors a model stores them in, by the layout its entry declares. numpy alone.

Convention: matrices map column vectors, so W_V is (K·d_h × d) and W_O is (d × H·d_h); query head h reads the values of
key/value head h // (H/K). For comparison only, W_V as the study cut it: the last third of the fused matrix's first
axis, as stored. That is W_V where queries, keys and values lie one below the other; GPT-NeoX and BLOOM interleave them
per head and GPT-2 stores its matrix transposed, so that there it is something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermostats.errors import DataError
from thermostats.measurement.architectures import Architecture, Config, config_of, of_layer

LARGEST = 10_000_000
"""More than any width, depth or number of heads or positions."""
PARTITIONS = 4
"""CodeGen's fused matrix is stored in four partitions, whatever it was trained on."""

ALIASES: dict[str, tuple[str, ...]] = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "n_heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "attention_heads", "encoder_attention_heads"),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "d_head": ("head_dim", "d_kv"),
    "n_positions": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"),
}
"""What configurations call the same thing."""


@dataclass(frozen=True)
class Geometry:
    """L, d, H, K, width of a head's value d_h, and the width that W_V reads (d, or the latent's)."""

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value_in: int


@dataclass(frozen=True)
class ValueOutput:
    """W_V (K·d_h × d), W_O (d × H·d_h) of one layer, and the key/value head of each query head (H)."""

    w_v: NDArray[Any]
    w_o: NDArray[Any]
    kv_head: NDArray[np.int64]
    d_head: int

    def head(self, h: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """W_V^h (d_h × d) and W_O^h (d × d_h) of query head h, counted from 0; views, not copies."""
        k = int(self.kv_head[h])
        return (self.w_v[k * self.d_head : (k + 1) * self.d_head], self.w_o[:, h * self.d_head : (h + 1) * self.d_head])


def config_value(config: Config, quantity: str) -> int | None:
    """A quantity of `ALIASES` from a configuration; None where it is not stated."""
    decoder = config_of(config)
    return next((stated_count(decoder, key) for key in ALIASES[quantity] if decoder.get(key) is not None), None)


def stated_count(decoder: Config, key: str) -> int:
    """A number that a configuration states, held against what such numbers are."""
    value = decoder.get(key)
    if type(value) is not int or not 0 < value <= LARGEST:
        what = f"the configuration's {key} is no number of its kind"
        raise DataError(what, where="config.json", got=repr(value)[:60], allowed=f"a whole number from 1 to {LARGEST}")
    return value


def context(entry: Architecture, config: Config) -> int | None:
    """Tokens that a prompt may have at most, special ones included; None where the configuration states no number.

    Rotary frequencies that grow with the length reach further than that number, by their factor.
    """
    rows = config_value(config, "n_positions")
    first = entry.first_position
    if first == "pad":
        pad = config_of(config).get("pad_token_id")
        first = pad + 1 if type(pad) is int else 0
    grow = [rope for rope in ropes(config) if rope_type(rope) == "dynamic" and ORIGINAL not in rope]
    factor = max((float(rope.get("factor") or 1) for rope in grow), default=1.0)
    return None if rows is None else int(rows * factor) - int(first)


ORIGINAL = "original_max_position_embeddings"
"""Where a configuration states it, its number of positions is the extended one."""


def ropes(config: Config) -> list[Config]:
    """What a configuration says of its rotary embeddings, one for each kind of block where they differ."""
    decoder = config_of(config)
    stated = decoder.get("rope_parameters") or decoder.get("rope_scaling") or {}
    return [each for each in stated.values() if isinstance(each, Mapping)] or [stated]


def rope_type(rope: Config) -> str:
    """Its kind, ``None`` where it states none."""
    return str(rope.get("rope_type") or rope.get("type"))


def _required(config: Config, quantity: str) -> int:
    value = config_value(config, quantity)
    if value is None:
        what = f"the configuration does not state {quantity}"
        raise DataError(what, where="config.json", allowed=f"one of {', '.join(ALIASES[quantity])}")
    return value


def geometry(entry: Architecture, config: Config) -> Geometry:
    """L, d, H, K and d_h of a model, with several widths of its last stage; or of a block, of whose `of_layer` it is
    given. Without attention there are no heads. Raises DataError where the configuration lacks one of them."""
    if entry.depths and not isinstance(config.get("num_heads"), int):
        config = of_layer(entry, config, sum(entry.depths) - 1)
    decoder = config_of(config)
    d_model = _required(config, "d_model")
    if not entry.attention:
        return Geometry(_required(config, "n_layers"), d_model, 0, 0, 0, d_model)
    n_heads = _required(config, "n_heads")
    stated = config_value(config, "n_kv_heads") or n_heads
    n_kv_heads = {"config": stated, "one": 1, "all": n_heads}[entry.n_kv_heads]
    quarters = entry.layout != "partitioned" or n_heads % PARTITIONS == 0
    stated_width = next((stated_count(decoder, key) for key in ALIASES["d_head"] if decoder.get(key)), None)
    if n_heads % n_kv_heads or (n_heads > d_model and stated_width is None) or not quarters:
        what = "the configuration's numbers of heads do not divide each other or its width"
        got = f"width {d_model}, {n_heads} heads, {n_kv_heads} key/value heads"
        raise DataError(what, where="config.json", got=got)
    d_head, d_value_in = stated_width or d_model // n_heads, d_model
    if entry.layout == "latent":
        d_head, d_value_in = stated_count(decoder, "v_head_dim"), stated_count(decoder, "kv_lora_rank")
    return Geometry(_required(config, "n_layers"), d_model, n_heads, n_kv_heads, d_head, d_value_in)


def clipped_at(config: Config) -> float:
    """Largest value that a head may hold, where the configuration clips them; infinite where it does not."""
    inner = config.get("attn_config")
    stated = config.get("clip_qkv") or (inner.get("clip_qkv") if isinstance(inner, Mapping) else None)
    return float(stated) if stated else np.inf


def query_to_kv_head(entry: Architecture, config: Config) -> NDArray[np.int64]:
    """Key/value head of each query head, both from 0 (H)."""
    g = geometry(entry, config)
    return np.arange(g.n_heads) // (g.n_heads // g.n_kv_heads)


def value_rows(entry: Architecture, config: Config) -> NDArray[np.int64]:
    """Rows of the stored (outputs × inputs) matrix that hold each key/value head's values (K × d_h)."""
    g = geometry(entry, config)
    K, d_h, rows = g.n_kv_heads, g.d_head, np.arange(stored_rows(entry, config))
    if entry.layout == "stacked":
        rows = rows[-K * d_h :]
    elif entry.layout == "grouped":
        rows = rows.reshape(K, -1, d_h)[:, -1]
    elif entry.layout == "partitioned":
        rows = rows.reshape(PARTITIONS, 3, -1)[:, 1]
    elif entry.layout == "latent":
        rows = rows.reshape(K, -1)[:, -d_h:]
    return rows.reshape(K, d_h)


def stored_rows(entry: Architecture, config: Config) -> int:
    """Rows of the stored matrix that holds the values, after undoing any transposition."""
    g = geometry(entry, config)
    if entry.layout == "separate":
        return g.n_kv_heads * g.d_head
    if entry.layout == "latent":
        return g.n_heads * (g.d_head + int(config_of(config)["qk_nope_head_dim"]))
    return (g.n_heads + 2 * g.n_kv_heads) * g.d_head


def oriented(
    entry: Architecture, config: Config, value: NDArray[Any], output: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The tensors `entry.value` and `entry.output` as matrices of outputs × inputs; views.

    Raises DataError where a shape is not what the configuration implies.
    """
    g = geometry(entry, config)
    shapes = {entry.value: (stored_rows(entry, config), g.d_value_in), entry.output: (g.d_model, g.n_heads * g.d_head)}
    fused, w_o = (matrix.T if entry.transposed else matrix for matrix in (value, output))
    for matrix, (module, shape) in zip((fused, w_o), shapes.items(), strict=True):
        if matrix.shape != shape:
            what = "weights and configuration disagree on a matrix's shape (outputs × inputs)"
            raise DataError(what, where=f"{module}, architecture {entry.name}", got=matrix.shape, allowed=str(shape))
    return fused, w_o


def value_runs(entry: Architecture, config: Config) -> list[slice]:
    """Runs of consecutive rows of the stored (outputs × inputs) matrix that make up W_V, as few as possible."""
    places = value_rows(entry, config).ravel()
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts, lasts = places[np.r_[0, breaks + 1]], places[np.r_[breaks, places.size - 1]]
    return [slice(int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]


def split(entry: Architecture, config: Config, value: NDArray[Any], output: NDArray[Any]) -> ValueOutput:
    """W_V and W_O of one layer from the tensors `entry.value` and `entry.output` as stored.

    Raises DataError where a shape is not what the configuration implies.
    """
    fused, w_o = oriented(entry, config, value, output)
    w_v = fused if entry.layout == "separate" else fused[value_rows(entry, config).ravel()]
    return ValueOutput(w_v, w_o, query_to_kv_head(entry, config), geometry(entry, config).d_head)


def published_thirds(entry: Architecture, value: NDArray[Any]) -> NDArray[Any]:
    """The rows that the study took for W_V out of the tensor `entry.value` as stored; a view."""
    if entry.layout == "separate":
        return value
    return value[2 * (value.shape[0] // 3) :]


def published_heads(entry: Architecture, config: Config, value: NDArray[Any]) -> NDArray[Any]:
    """Those rows cut into H heads of d_h consecutive rows (H × d_h × columns); rows beyond the last are zero.

    Fewer rows than H·d_h are left with grouped queries and with GPT-2's transposed matrix.
    """
    g = geometry(entry, config)
    rows = published_thirds(entry, value)[: g.n_heads * g.d_head]
    heads = np.zeros((g.n_heads * g.d_head, value.shape[1]), value.dtype)
    heads[: rows.shape[0]] = rows
    return heads.reshape(g.n_heads, g.d_head, value.shape[1])
