"""How far two models are apart as functions, as far as weights can say: their distance in a
canonical form.

Norm weights are folded into their readers; where norms subtract the mean, both sides of the stream
are centred; it is scaled to an embedding of norm 1, and the second model's turned onto the first
one's by Procrustes on what both ends of the model hold. Of attention W_O,h W_V,h counts, and qᵀk,
pair by pair of rotary dimensions qᵀk and qᵀJk, that is q*k of q = q_1 + iq_2; where queries and
keys are normed, each of them scaled to 1. Of a feed-forward layer its neurons, of gated and ReLU
ones the product of both sides. Heads and neurons are matched; biases enter where they act.

Distance of a part: ‖Y − X‖_F / ‖X‖_F; of the models the root mean square over parts. 0 says that
the functions are the same, anything else only how far the forms are apart. A product's difference
is that of its factors by QR, so that small ones are exact. Forms are computed by numpy and scipy;
which weights a class has is asked of transformers and torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from thermostats.errors import UsageError
from thermostats.formatting import join_words
from thermostats.measurement.checkpoint import (
    index_value_rows,
    map_query_heads,
    open_checkpoint,
    read_geometry,
)
from thermostats.measurement.empty_models import build_empty_model
from thermostats.measurement.gauge import ModelWeights, read_weights
from thermostats.measurement.lookup import HEADLESS, select_decoder_config
from thermostats.measurement.model_class import Config
from thermostats.measurement.model_row import POSITION_TABLES
from thermostats.measurement.readings import is_mean_subtracted

Array = NDArray[np.float64]
CLASSES = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "arcee",
    "gemma",
    "gpt2",
    "gpt_neox",
    "gpt_neox_sequential",
    "opt",
)
"""Entries that have a canonical form."""
DOWN = {"up_proj": "down_proj", "c_fc": "c_proj", "fc1": "fc2", "dense_h_to_4h": "dense_4h_to_h"}
"""Matrix into the neurons of a feed-forward layer → the one out of them."""
ACTIVATIONS = ("hidden_act", "activation_function")
"""What a class calls the activation of its neurons."""
POWERS = {"relu": 1, "relu2": 2}
"""Activations with f(cx) = c^p f(x) for c > 0."""
EVERYWHERE = ("hidden_act", "num_attention_heads", "is_causal", "rope_parameters")
GATED = (*EVERYWHERE, "rms_norm_eps", "head_dim", "num_key_value_heads")
WINDOWS = ("layer_types", "sliding_window")
NEOX = (*EVERYWHERE, "layer_norm_eps", "use_parallel_residual")
ACTING: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("llama", "arcee"), GATED),
    "mistral": (*GATED, "sliding_window"),
    **dict.fromkeys(("qwen2", "qwen3"), (*GATED, *WINDOWS)),
    "gemma": (*GATED, "use_bidirectional_attention"),
    "gpt2": (
        *("activation_function", "layer_norm_epsilon", "n_head", "is_causal"),
        *("scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
    ),
    **dict.fromkeys(("gpt_neox", "gpt_neox_sequential"), NEOX),
    "opt": (
        *("activation_function", "do_layer_norm_before", "_remove_final_layer_norm"),
        *("num_attention_heads", "layer_norm_elementwise_affine", "is_causal"),
    ),
}
"""Entry → keys of its class's configuration that act in a forward pass, besides shapes and those
that say which weights there are, which are held against the files."""
WINDOWED = "sliding_attention"
"""The kind of blocks in which a window acts, of classes whose blocks have kinds."""
BY_LENGTH = ("dynamic", "longrope", "yarn")
"""Kinds of rotary scaling in which the longest text that a model is for acts."""
UNSCALED: Config = {"rope_type": "default", "partial_rotary_factor": 1.0, "factor": 1.0}
"""Entries of rotary positions that are turned as they are, which may be left out."""
MOST = 1_000_000_000
"""Numbers of a model that is read whole, in float64."""
IN_BLOCK = re.compile(r"(^|\.)\d+\.")
"""In the name of a weight of a numbered block."""
TINY = float(np.finfo(np.float64).tiny)
LEFT = 1e-9
"""Heads and neurons that are so near in the order in which they stand are not matched."""


@dataclass(frozen=True)
class Block:
    """One block in its canonical form: rows of readers have their bias last; writes are over the
    embedding's norm."""

    q: Array
    """H × d_h × (d + 1)."""
    k: Array
    v: Array
    """K × d_h × d."""
    o: Array
    """H × d × d_h."""
    written: Array
    """What attention writes at every token, W_O b_V + b_O (d)."""
    gate: Array
    """n × (d + 1), or n × 0."""
    up: Array
    down: Array
    """n × d."""
    mlp_written: Array
    scales: Array
    """Weights of the norms of queries and keys, 2 × d_h, or 2 × 0."""


@dataclass(frozen=True)
class Form:
    """A model in its canonical form; `embedding` (V × d), `positions` (n × d), `head` (V × (d +
    1))."""

    weights: ModelWeights
    embedding: Array
    positions: Array
    head: Array
    blocks: tuple[Block, ...]
    rotary: int
    """Dimensions of a head that are turned by its position, in pairs (i, i + half of them)."""


@dataclass(frozen=True)
class FunctionDistance:
    """Distance of two models as functions; `parts` has layer (0: both ends), part and distance."""

    distance: float
    parts: pd.DataFrame
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"distance as functions {self.distance:.3g}"


def measure_function_distance(
    first: str | Path | ModelWeights, second: str | Path | ModelWeights
) -> FunctionDistance:
    """Distance of two models as functions, from their folders or from weights at hand.

    Raises UsageError for models of another class or shape, for classes without a canonical form,
    and for models too large to be read whole.
    """
    for each in (first, second):
        if not isinstance(each, ModelWeights):
            _check_size(Path(each))
    called = []
    for place, each in (("first", first), ("second", second)):
        called.append(f"the {place} model" if isinstance(each, ModelWeights) else str(each))
    pair = []
    for each in (first, second):
        pair.append(each if isinstance(each, ModelWeights) else read_weights(each))
    _check(*pair)
    for each, weights, name in zip((first, second), pair, called, strict=True):
        _check_finite(weights, name)
        if not isinstance(each, ModelWeights):
            _check_held(Path(each), weights)
    headless = [bool(weights.config.get(HEADLESS)) for weights in pair]
    here, there = (build_canonical_form(weights, head=not any(headless)) for weights in pair)
    there = turn_form(there, _find_rotation(here, there))
    rows = []
    for part, x, y in _list_ends(here, there):
        distance = _measure_relative_distance(x, y) if x.size else np.nan
        rows.append((0, part, distance))
    for layer, (a, b) in enumerate(zip(here.blocks, there.blocks, strict=True), 1):
        for part, distance in _measure_block_distances(a, b, here):
            rows.append((layer, part, distance))
    parts = pd.DataFrame(rows, columns=["layer", "part", "distance"])
    said = [*pair[0].notes, *pair[1].notes]
    if lacking := [name for name, is_headless in zip(called, headless, strict=True) if is_headless]:
        said.append(f"no head is compared: there is none in {join_words(lacking)}")
    said += _find_other_switches(*pair)
    notes = tuple(dict.fromkeys(said))
    mean_square = np.square(parts["distance"]).mean()
    return FunctionDistance(float(np.sqrt(mean_square)), parts, notes)


def build_canonical_form(weights: ModelWeights, *, head: bool = True) -> Form:
    """The canonical form of one model, without its `head` where that is not asked for; the stream
    is not yet turned onto another one's."""
    entry = weights.entry
    centred = is_mean_subtracted(entry, weights.config)
    embedding = _centre_rows(weights.tensors[weights.name(entry.embedding)], centred=centred)
    tables = (name for name in weights.tensors if name.split(".")[-2] in POSITION_TABLES)
    table = next(tables, "")
    positions = np.zeros((0, embedding.shape[1]))
    if table:  # a vector may stand in either
        mean = embedding.mean(axis=0)
        embedding = embedding - mean
        positions = _centre_rows(weights.tensors[table], centred=centred) + mean
    size = float(np.linalg.norm(embedding))
    blocks = tuple(_build_block(weights, layer, size, centred=centred) for layer in weights.layers)
    rope = select_decoder_config(weights.config).get("rope_parameters") or {}
    d_head = read_geometry(entry, weights.config).d_head
    rotary = int(d_head * float(rope.get("partial_rotary_factor") or 1.0)) if rope else 0
    rows = np.zeros((0, embedding.shape[1] + 1))
    if head:
        rows = _build_head(weights, centred=centred)
    return Form(weights, embedding / size, positions / size, rows, blocks, rotary)


def turn_form(of: Form, R: Array) -> Form:
    """The form with its stream x turned to Rᵀx (d × d, orthogonal)."""

    def read(rows: Array) -> Array:
        if not rows.shape[-1]:
            return rows
        turned = rows[..., :-1] @ R
        return np.concatenate([turned, rows[..., -1:]], axis=-1)

    blocks = []
    for block in of.blocks:
        reading = {}
        for name in ("q", "k", "gate", "up"):
            reading[name] = read(getattr(block, name))
        writes = ("v", "down", "written", "mlp_written")
        writing = {name: getattr(block, name) @ R for name in writes}
        o = np.einsum("de,hdr->her", R, block.o)
        blocks.append(replace(block, **reading, **writing, o=o))
    embedding = of.embedding @ R
    positions = of.positions @ R
    head = read(of.head)
    return replace(of, embedding=embedding, positions=positions, head=head, blocks=tuple(blocks))


def _check_size(folder: Path) -> None:
    tensors = open_checkpoint(folder).values()
    numbers = sum(math.prod(tensor.shape) for tensor in tensors)
    if numbers > MOST:
        what = "the model is too large to be brought into its canonical form in memory"
        got = f"{numbers / 1e9:.1f}e9 numbers"
        raise UsageError(what, where=folder, got=got, allowed=f"{MOST / 1e9:g}e9")


def _check(first: ModelWeights, second: ModelWeights) -> None:
    names = [each.entry.name for each in (first, second)]
    if names[0] != names[1] or names[0] not in CLASSES:
        what = "models of these classes have no canonical form in common"
        step = "their tensors as stored are compared by thermostats compare MODEL OTHER"
        got = " and ".join(names)
        allowed = f"one of {', '.join(CLASSES)} twice"
        raise UsageError(what, got=got, allowed=allowed, next_step=step)
    a = first.tensors
    b = second.tensors
    apart = []
    for name in a.keys() & b.keys():
        if a[name].shape != b[name].shape:
            apart.append(name)
    if apart or read_geometry(first.entry, first.config) != read_geometry(
        second.entry, second.config
    ):
        got = sorted(apart)[0] if apart else "other numbers of blocks or heads"
        raise UsageError("the models are not of one shape", got=got, allowed="models of one shape")
    config = select_decoder_config(first.config)
    if config.get("word_embed_proj_dim") not in (None, config.get("hidden_size")):
        raise UsageError(
            "a model whose embedding is projected has no canonical form", where=names[0]
        )


def _find_other_switches(first: ModelWeights, second: ModelWeights) -> list[str]:
    """Configuration values in which the models differ: with them one and the same weights are two
    functions."""
    a, b = map(read_acting_values, (first, second))
    keys = {*a, *b}
    apart = sorted(key for key in keys if a.get(key) != b.get(key))
    if not apart:
        return []
    return [
        f"the configurations differ in {', '.join(apart)}: not the same function, whatever the "
        f"distance"
    ]


def read_acting_values(weights: ModelWeights) -> dict[str, Any]:
    """What a configuration says of the forward pass: the keys that act in its class, in one
    spelling."""
    config = select_decoder_config(weights.config)
    acting = {}
    for key in ACTING[weights.entry.name]:
        acting[key] = config.get(key)
    if "rope_parameters" in acting:
        acting["rope_parameters"] = rope = _read_rotation(config)
        if rope.get("rope_type") in BY_LENGTH:
            acting["max_position_embeddings"] = config.get("max_position_embeddings")
    if WINDOWED not in (acting.get("layer_types") or [WINDOWED]):
        del acting["sliding_window"]
    return acting


def _read_rotation(config: Config) -> dict[str, Any]:
    """How positions are turned, without what is as if it were not there."""
    stated = config.get("rope_parameters")
    rope = {**stated} if isinstance(stated, Mapping) else {}
    if rope.get("rope_type") == "linear" and rope.get("factor") == UNSCALED["factor"]:
        rope["rope_type"] = UNSCALED["rope_type"]
    rotation: dict[str, Any] = {}
    for key, value in rope.items():
        if value is not None and UNSCALED.get(key, rope) != value:
            rotation[key] = value
    return rotation


def _check_held(folder: Path, weights: ModelWeights) -> None:
    """Raise UsageError where the files hold weights of blocks that the class does not read with
    this configuration, lack some that its blocks have, or lack its head; nothing else outside of
    blocks is looked at."""
    entry = weights.entry
    model: Any = build_empty_model(folder, entry.loader, **entry.set_values)
    before = f"{model.base_model_prefix}."
    has = {}
    for name, _ in model.named_parameters():
        has[name.removeprefix(before)] = name
    held = {name.removeprefix(before): name for name in weights.tensors}
    head_names = entry.list_tensor_names(entry.unembedding[0])
    heads = {name.removeprefix(before) for name in head_names}
    if weights.config.get(HEADLESS):
        heads -= has.keys()
    spare = []
    for name in held.keys() - has.keys():
        if IN_BLOCK.search(name):
            spare.append(held[name])
    lacking = []
    for name in has.keys() - held.keys():
        if IN_BLOCK.search(name):
            lacking.append(has[name])
    if not heads & held.keys():
        lacking += [has[name] for name in heads & has.keys()]
    if not spare and not lacking:
        return
    said = []
    for what, names in (("not read", spare), ("missing", lacking)):
        if names:
            said.append(f"{len(names)} {what}, such as {min(names)}")
    raise UsageError(
        "the files are not of the model that the configuration describes",
        where=folder,
        got=" and ".join(said),
        allowed="the weights that its class has",
    )


def _check_finite(weights: ModelWeights, model: str) -> None:
    """Raise UsageError by the name of a tensor that holds no finite numbers, and of its model."""
    for name, tensor in weights.tensors.items():
        if not np.isfinite(tensor).all():
            what = "a weight is no finite number, so there is no canonical form"
            where = f"{name} of {model}"
            raise UsageError(what, where=where, got="not a number, or infinite")


def _centre_rows(matrix: Array, *, centred: bool) -> Array:
    """Vectors of the stream, one a row, without what no reader sees."""
    return matrix - matrix.mean(axis=-1, keepdims=True) if centred else matrix


def _build_reader(
    weights: ModelWeights, name: str, norm: str, layer: int | None, *, centred: bool
) -> Array:
    """A matrix that reads the stream (outputs × d) and its bias as a last column, the norm's γ and
    β folded in; γ may be 0."""
    stored = name.removesuffix(".weight")
    matrix = weights.scale_inputs(name, 1.0)
    of_head = layer is None
    matrix = matrix.T if weights.entry.transposed and not of_head else matrix
    gamma, beta = weights.get_norm(norm, layer)
    bias = weights.tensors.get(f"{stored}.bias", np.zeros(len(matrix)))
    bias = bias + matrix @ beta
    read = _centre_rows(matrix * gamma, centred=centred)
    return np.concatenate([read, bias[:, None]], axis=1)


def _build_head(weights: ModelWeights, *, centred: bool) -> Array:
    entry = weights.entry
    of_head = entry.unembedding[0]
    name = weights.name(of_head) or entry.list_tensor_names(of_head)[0]
    head = _build_reader(weights, name, entry.final_norm, None, centred=centred)
    shifted: Array = head - head.mean(axis=0)  # no class here caps its logits
    return shifted


def _build_block(weights: ModelWeights, layer: int, size: float, *, centred: bool) -> Block:
    entry, g = weights.entry, read_geometry(weights.entry, weights.config)
    q, k, v = _build_projections(weights, layer, centred=centred)
    output = weights.name(entry.output, layer)
    w_o = weights.tensors[output].T if entry.transposed else weights.tensors[output]
    by_head = w_o.reshape(len(w_o), g.n_heads, g.d_head)
    o = by_head.transpose(1, 0, 2) / size
    o = o - o.mean(axis=1, keepdims=True) if centred else o
    of_query = map_query_heads(entry, weights.config)
    bias_name = f"{output.removesuffix('.weight')}.bias"
    bias = weights.tensors.get(bias_name, np.zeros(len(w_o))) / size
    of_values = np.einsum("hdr,hr->d", o, v[of_query][..., -1])
    written = of_values + _centre_rows(bias, centred=centred)
    gate, up, down, mlp_bias = _build_neurons(weights, layer, centred=centred)
    norms = []
    for each in "qk":
        norms.append(weights.name(f"{entry.attention}.{each}_norm", layer))
    scales = np.zeros((2, 0))
    if all(norms):
        scales = np.stack([weights.tensors[name] + entry.unit_offset for name in norms])
    mlp = {"gate": gate, "up": up, "down": down / size, "mlp_written": mlp_bias / size}
    values = v[..., :-1]
    return Block(q=q, k=k, v=values, o=o, written=written, scales=scales, **mlp)


def _build_projections(
    weights: ModelWeights, layer: int, *, centred: bool
) -> tuple[Array, Array, Array]:
    """Queries (H), keys and values (K) × d_h × (d + 1)."""
    entry, g = weights.entry, read_geometry(weights.entry, weights.config)
    value = weights.name(entry.value, layer)
    if entry.layout == "separate":
        names = [value.replace("v_proj", f"{each}_proj") for each in "qkv"]
        parts = []
        for name in names:
            parts.append(_build_reader(weights, name, entry.attention_norm, layer, centred=centred))
    else:
        fused = _build_reader(weights, value, entry.attention_norm, layer, centred=centred)
        rows = np.arange(len(fused))
        if entry.layout == "stacked":
            n_queries = g.n_heads * g.d_head
            n_keys = g.n_kv_heads * g.d_head
            parts = np.split(fused, [n_queries, n_queries + n_keys])
        else:
            groups = rows.reshape(g.n_kv_heads, -1, g.d_head)
            parts = []
            for each in (groups[:, :-2], groups[:, -2], index_value_rows(entry, weights.config)):
                parts.append(fused[each.ravel()])
    width = parts[0].shape[-1]
    q, k, v = (part.reshape(-1, g.d_head, width) for part in parts)
    return q, k, v


def _build_neurons(
    weights: ModelWeights, layer: int, *, centred: bool
) -> tuple[Array, Array, Array, Array]:
    """Gate and up (n × (d + 1)), down (n × d) and the bias of a feed-forward layer; |up| = 1 where
    it may."""
    entry = weights.entry
    place = f"{entry.mlp}." if entry.name != "opt" else ""
    start = f"{weights.start(layer)}{place}"
    tensors = weights.tensors
    into = next(name for name in DOWN if f"{start}{name}.weight" in tensors)
    gate_name = f"{start}gate_proj.weight"
    norm = entry.mlp_norm
    up = _build_reader(weights, f"{start}{into}.weight", norm, layer, centred=centred)
    gate = np.zeros((len(up), 0))
    if gate_name in tensors:
        gate = _build_reader(weights, gate_name, norm, layer, centred=centred)
    out = f"{start}{DOWN[into]}"
    stored = tensors[f"{out}.weight"]
    down = _centre_rows(stored if entry.transposed else stored.T, centred=centred)
    unbiased = np.zeros(down.shape[1])
    bias = _centre_rows(tensors.get(f"{out}.bias", unbiased), centred=centred)
    config = select_decoder_config(weights.config)
    activation = next(config[key] for key in ACTIVATIONS if key in ACTING[entry.name])
    power = POWERS.get(str(activation))
    if gate.shape[1] == 0 and power is None:
        return gate, up, down, bias
    length = np.linalg.norm(up, axis=1, keepdims=True)
    length[length == 0] = 1.0
    degree = 1 if gate.shape[1] else power
    return gate, up / length, down * length**degree, bias


def _find_rotation(first: Form, second: Form) -> Array:
    """The orthogonal R that brings the second model's ends nearest to the first one's."""
    pairs = [(first.embedding, second.embedding), (first.positions, second.positions)]
    first_head = first.head[:, :-1]
    second_head = second.head[:, :-1]
    pairs.append((first_head, second_head))
    products = []
    for x, y in pairs:
        if x.size:
            size = float(np.linalg.norm(x)) ** 2
            products.append(y.T @ x / max(size, TINY))
    left, _, right = np.linalg.svd(np.sum(products, axis=0))
    R: Array = left @ right
    return R


def _list_ends(a: Form, b: Form) -> list[tuple[str, Array, Array]]:
    ends = [("embedding", a.embedding, b.embedding)]
    ends.append(("unembedding", a.head, b.head))
    if a.positions.size:
        ends.append(("positions", a.positions, b.positions))
    return ends


def _measure_relative_distance(x: Array, y: Array) -> float:
    return measure_ratio(_sum_squares(y - x), _sum_squares(x))


def _sum_squares(x: Array) -> float:
    """‖x‖², of complex numbers too."""
    return float(np.square(np.abs(x)).sum())


def measure_ratio(moved: float, size: float) -> float:
    """√(moved/size); of what was all zeros infinite where it moved."""
    if size > 0:
        return float(np.sqrt(moved / size))
    return np.inf if moved > 0 else 0.0


def _measure_block_distances(a: Block, b: Block, of: Form) -> list[tuple[str, float]]:
    """Distances of the parts of one block, heads and neurons matched."""
    of_query = map_query_heads(of.weights.entry, of.weights.config)
    pairs = list(enumerate(_match_heads(a, b, of, of_query)))
    ov = [_measure_ov_distance(a, b, of_query, h, other) for h, other in pairs]
    size_ov = [_measure_ov_distance(a, None, of_query, h, h) for h, _ in pairs]
    qk = [_measure_qk_distance(a, b, of, of_query, h, other) for h, other in pairs]
    size_qk = [_measure_qk_distance(a, None, of, of_query, h, h) for h, _ in pairs]
    bias = _sum_squares(b.written - a.written)
    size_bias = _sum_squares(a.written)
    mine, theirs = _match_neurons(a, b)
    mlp = _sum_squares(theirs - mine) + _sum_squares(b.mlp_written - a.mlp_written)
    size_mlp = _sum_squares(mine) + _sum_squares(a.mlp_written)
    written = measure_ratio(np.sum(ov) + bias, np.sum(size_ov) + size_bias)
    pattern = measure_ratio(np.sum(qk), np.sum(size_qk))
    return [
        ("attention writes", written),
        ("attention pattern", pattern),
        ("feed-forward layer", measure_ratio(mlp, size_mlp)),
    ]


def _stack_features(block: Block) -> Array:
    """Both sides of every neuron, one a row; up and down share their size evenly where one may move
    into the other."""
    size = np.linalg.norm(block.down, axis=1, keepdims=True)
    lengths = np.linalg.norm(block.up, axis=1)
    free = bool(block.gate.shape[1]) or np.allclose(lengths, 1.0)
    share = np.sqrt(size) if free else np.ones_like(size)
    down = np.zeros_like(block.down)
    np.divide(block.down, share, out=down, where=share > 0)
    return np.concatenate([block.up * share, down], axis=1)


def _match_neurons(a: Block, b: Block) -> tuple[Array, Array]:
    """What counts of the neurons of a, and of those of b in the order and with the signs that bring
    them nearest.

    Of a gated neuron up and down may both change their sign.
    """
    mine = _stack_features(a)
    theirs = _stack_features(b)
    gated = bool(a.gate.shape[1])

    def put(order: NDArray[np.int64]) -> tuple[Array, Array]:
        sides = theirs[order]
        if gated:
            products = (mine * sides).sum(axis=1, keepdims=True)
            sides = sides * np.where(products < 0, -1.0, 1.0)
        here = np.concatenate([a.gate, mine], axis=1)
        there = np.concatenate([b.gate[order], sides], axis=1)
        return here, there

    first, second = put(np.arange(len(mine)))
    if _measure_relative_distance(first, second) < LEFT:
        return first, second
    near = mine @ theirs.T
    if gated:
        near = np.abs(near) + a.gate @ b.gate.T
    unmatched = np.concatenate([b.gate, theirs], axis=1)
    sizes = []
    for x in (first, unmatched):
        sizes.append(np.square(x).sum(axis=1))
    apart = sizes[0][:, None] + sizes[1] - 2 * near
    _, order = linear_sum_assignment(apart)
    return put(order)


def _match_heads(a: Block, b: Block, of: Form, of_query: NDArray[np.int64]) -> list[int]:
    """Query head of b for each of a: key/value heads matched, and within each its query heads."""
    H = len(of_query)

    def cost(h: int, other: int) -> float:
        ov = _measure_ov_distance(a, b, of_query, h, other)
        size_ov = _measure_ov_distance(a, None, of_query, h, h)
        qk = _measure_qk_distance(a, b, of, of_query, h, other)
        size_qk = _measure_qk_distance(a, None, of, of_query, h, h)
        return ov / max(size_ov, 1e-300) + qk / max(size_qk, 1e-300)

    if max(cost(h, h) for h in range(H)) < LEFT**2:
        return list(range(H))
    K = int(of_query.max()) + 1
    groups = []
    for k in range(K):
        groups.append(np.flatnonzero(of_query == k))
    costs = np.zeros((K, K))
    inner = dict[tuple[int, int], NDArray[np.int64]]()
    for k in range(K):
        for other in range(K):
            pairs = product(groups[k].tolist(), groups[other].tolist())
            pair_costs = [cost(*pair) for pair in pairs]
            table = np.reshape(pair_costs, (len(groups[k]), -1))
            rows, columns = linear_sum_assignment(table)
            costs[k, other] = table[rows, columns].sum()
            inner[k, other] = groups[other][columns]
    order = [0] * H
    for k, other in zip(*linear_sum_assignment(costs), strict=True):
        for h, match in zip(groups[k], inner[k, other], strict=True):
            order[int(h)] = int(match)
    return order


def _measure_ov_distance(
    a: Block, b: Block | None, of_query: NDArray[np.int64], h: int, other: int
) -> float:
    """‖W_O' W_V' − W_O W_V‖² of two heads; without b the size of the first."""
    first = (a.o[h], a.v[of_query[h]])
    second = None if b is None else (b.o[other], b.v[of_query[other]])
    return _measure_product_distance(first, second)


def _measure_qk_distance(
    a: Block, b: Block | None, of: Form, of_query: NDArray[np.int64], h: int, other: int
) -> float:
    """The same of how two heads attend."""
    mine = _get_qk(a, of_query, h)
    theirs = None if b is None else _get_qk(b, of_query, other)
    if a.scales.shape[1]:
        second = None if b is None or theirs is None else _normalise_qk(theirs, b.scales)
        first = _normalise_qk(mine, a.scales)
        return _sum_squares(first if second is None else second - first)
    turned = _build_rotary_pairs(mine, of.rotary)
    other_turned = None if theirs is None else _build_rotary_pairs(theirs, of.rotary)
    total = _measure_product_distance(turned, other_turned)
    if of.rotary < mine[0].shape[0]:
        rest = _build_unrotated(mine, of.rotary)
        total += _measure_product_distance(
            rest, None if theirs is None else _build_unrotated(theirs, of.rotary)
        )
    return total


def _get_qk(block: Block, of_query: NDArray[np.int64], h: int) -> tuple[Array, Array]:
    return block.q[h], block.k[of_query[h]]


def _normalise_qk(qk: tuple[Array, Array], scales: Array) -> Array:
    """Queries and keys that are normed: each of size 1, and the sizes of their norms' weights in
    those of the keys."""
    q, k = (each / np.linalg.norm(each) for each in qk)
    size = float(np.linalg.norm(scales[0]))
    sizes = [scales[0] / size, scales[1] * size]
    return np.concatenate([q.ravel(), k.ravel(), *sizes])


def _build_rotary_pairs(qk: tuple[Array, Array], rotary: int) -> tuple[Any, Any]:
    """Columns (pairs × (d + 1) × 1) and rows whose products are q*k of each rotary pair."""
    half = rotary // 2
    q, k = (each[:half] + 1j * each[half:rotary] for each in qk)
    return q.conj()[:, :, None], k[:, None, :]


def _build_unrotated(qk: tuple[Array, Array], rotary: int) -> tuple[Array, Array]:
    """Of dimensions that are not turned qᵀk without the keys' bias, which adds the same to every
    key."""
    queries, keys = qk
    return queries[rotary:].T, keys[rotary:, :-1]


def _measure_product_distance(first: Sequence[Any], second: Sequence[Any] | None) -> float:
    """‖A'B' − AB‖_F² of factors (… × m × r) and (… × r × n), summed; without the second ‖AB‖_F²."""
    left, right = first
    if second is not None:
        left = np.concatenate([second[0], -left], axis=-1)
        right = np.concatenate([second[1], right], axis=-2)
    r_left = np.asarray(np.linalg.qr(left, mode="r"))
    r_right = np.asarray(np.linalg.qr(right.mT, mode="r"))
    return _sum_squares(r_left @ r_right.mT)
