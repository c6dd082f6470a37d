"""Changes of weights that leave every output of a model as it is, and what a model must be for
each.

    heads      W_V,k → A W_V,k, b_V,k → A b_V,k and W_O,h → W_O,h A⁻¹
               for the query heads h of a key/value head k
    fold       a norm's γ into all that read it: W → W diag(γ), β → β/γ, γ → 1
    readers    W_V → W_V + u (1/γ)ᵀ, b_V → b_V − u (1/γ)ᵀβ
               where W_V reads a LayerNorm: (1/γ)ᵀ(γ⊙x̂ + β) = (1/γ)ᵀβ
    ones       W_O → W_O + 1uᵀ, b_O → b_O + a·1 where all that read the stream are LayerNorms
    post-norm  γ, β of the norm behind a residual sum times c, its readers / c,
               the next write times c, the next ε · c²
    logits     W_U → W_U + 1vᵀ: all logits of a token move by one number, which no probability knows

γ and β are those that a norm applies. What a change needs of a class stands in `find_obstacle`;
every change is tried on every class of the registry in `tests/measurement/test_gauge.py`, and the
two agree. Arrays are float64; nothing is written to a model's files. numpy alone: `replace_weights`
puts changed weights into a loaded model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from thermostats.errors import UsageError
from thermostats.measurement.checkpoint import (
    BUFFERS,
    NO_NUMBERS,
    decode,
    find_clip_limit,
    index_value_rows,
    map_query_heads,
    open_checkpoint,
    read_geometry,
)
from thermostats.measurement.forward import Decoder, build_decoder
from thermostats.measurement.gguf_files import record
from thermostats.measurement.lookup import lookup, select_decoder_config, select_layer_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.readings import is_mean_subtracted
from thermostats.measurement.spectra import find_embedding, read_config

Array = NDArray[np.float64]
Turn = Callable[[int, int, int], Array]
"""Layer (from 0), key/value head and width of a head → the matrix A (d_h × d_h) of its values."""

ATTENTION_READERS = (
    "q_proj k_proj v_proj qkv_proj query_key_value c_attn Wqkv q k v query key value in_proj q_lin "
    "k_lin v_lin "
    "query_proj key_proj value_proj q_a_proj kv_a_proj_with_mqa in_proj_ba in_proj_qkvz "
    "in_proj_qkv in_proj_z "
    "in_proj_a in_proj_b linear_x linear_y"
)
MLP_READERS = (
    "c_fc fc_in fc1 dense_h_to_4h up_proj gate_proj gate_up_proj gate router wg w1 w3 wi wi_0 wi_1 "
    "lin1 input_linear "
    "Wi shared_expert_gate intermediate.dense ffn"
)
"""Last part of the name, or parts, of the matrices of a block that read the normed stream."""


@dataclass(frozen=True)
class ModelWeights:
    """The tensors of one model in float64, by name, and how far the ε of norms goes with a
    change."""

    entry: Architecture
    config: Config
    tensors: Mapping[str, Array]
    epsilon: Mapping[str, float] = field(default_factory=dict)
    """Norm (as its tensors' names begin) → factor on its ε."""
    notes: tuple[str, ...] = ()
    """What was done to the stored numbers before they could be read."""

    @property
    def layers(self) -> range:
        """Blocks that hold weights of their own, from 0."""
        return range(1 if self.entry.shared else read_geometry(self.entry, self.config).n_layers)

    def start(self, layer: int | None) -> str:
        """What the names of a block's tensors begin with, of None those of the base model."""
        for name in self.entry.list_tensor_names("@", layer):
            before = name.removesuffix("@.weight")
            if before and any(each.startswith(before) for each in self.tensors):
                return before
        return ""

    def name(self, module: str, layer: int | None = None, kind: str = "weight") -> str:
        """Name of a module's tensor; empty where there is none."""
        names = self.entry.list_tensor_names(module, layer, kind=kind) if module else ()
        return next((each for each in names if each in self.tensors), "")

    def list_readers(self, layer: int, leaves: str) -> list[str]:
        """Names of the matrices of a block whose module is one of those."""
        start = self.start(layer)
        names = []
        wanted = set(leaves.split())
        for name in self.tensors:
            parts = name.removeprefix(start).removesuffix(".weight").split(".")
            matrix = name.startswith(start) and self.tensors[name].ndim > 1
            if matrix and not wanted.isdisjoint((parts[-1], ".".join(parts[-2:]))):
                names.append(name)
        return names

    def scale_inputs(self, name: str, factors: Array | float) -> Array:
        """A matrix that reads the stream with its inputs times some factors (d); a tied head is the
        embedding."""
        of_head = name in self.entry.list_tensor_names(self.entry.unembedding[0])
        tied = of_head and name not in self.tensors
        matrix = self.tensors[self.name(self.entry.embedding) if tied else name]
        turned = self.entry.transposed and not of_head
        if matrix.ndim == 3:
            turned = self.entry.experts_transposed
        product: Array = matrix * (np.reshape(factors, (-1, 1)) if turned else factors)
        return product

    def get_norm(self, module: str, layer: int | None = None) -> tuple[Array, Array]:
        """γ and β (d) as a norm applies them; 1 and 0 where it has none, or is not there."""
        config = select_layer_config(self.entry, self.config, layer or 0)
        width = read_geometry(self.entry, config).d_model
        weight = self.name(module, layer)
        bias = self.name(module, layer, "bias")
        gamma = np.ones(width)
        if weight:
            gamma = self.tensors[weight] + self.entry.unit_offset
        return gamma, self.tensors[bias] if bias else np.zeros(gamma.shape)

    def is_normed(self, layer: int) -> bool:
        """Whether what attention reads in a block is normed: its norm has weights, or none of the
        blocks' has any."""
        norm = self.entry.attention_norm
        if not norm:
            return False
        return bool(self.name(norm, layer)) or not any(
            self.name(norm, each) for each in self.layers
        )

    def replace_tensors(
        self, tensors: Mapping[str, Array], epsilon: Mapping[str, float] | None = None
    ) -> ModelWeights:
        """These weights with some tensors, and some factors on ε, in the place of their own."""
        factors = {}
        for name, factor in (epsilon or {}).items():
            factors[name] = self.epsilon.get(name, 1.0) * factor
        replaced = {**self.tensors, **tensors}
        epsilons = {**self.epsilon, **factors}
        return ModelWeights(self.entry, self.config, replaced, epsilons, self.notes)


def read_weights(folder: str | Path, *, reads: str = "text") -> ModelWeights:
    """The weights of a model's folder; bfloat16 and float16 are exact in float64, a GGUF file's are
    dequantised.

    Raises DataError where the folder cannot be read or its weights are packed, UsageError for an
    unknown architecture.
    """
    place = Path(folder)
    config = read_config(place, reads)
    stored = open_checkpoint(place)
    tensors = {}
    for name, tensor in stored.items():
        if not name.endswith(BUFFERS) and tensor.dtype not in NO_NUMBERS:
            tensors[name] = np.asarray(decode(tensor.read_raw()), dtype=np.float64)
    scheme = record(place).get("scheme")
    notes = (f"{folder}: weights are a dequantised copy of {scheme}",) if scheme else ()
    entry = lookup(config)
    names = entry.list_tensor_names(entry.embedding)
    heads = entry.list_tensor_names(entry.unembedding[0]) if entry.has_head else ()
    if {*heads} & {*tensors} and not {*names} & {*tensors}:  # tied, stored under the head's name
        tensors[names[0]] = tensors.pop(find_embedding(entry, config, stored).name)
    return ModelWeights(entry, config, tensors, notes=notes)


def draw_turn(seed: int = 1) -> Turn:
    """A ↦ 1 + N/(2√d_h) with normal N, invertible and far from orthogonal, another one for each
    layer and head."""

    def turn(layer: int, head: int, width: int) -> Array:
        generator = np.random.default_rng((seed, layer, head))
        noise = generator.standard_normal((width, width))
        matrix: Array = np.eye(width) + noise / (2 * np.sqrt(width))
        return matrix

    return turn


def make_scaling_turn(factor: float, layer: int | None = None) -> Turn:
    """A = c·1 in every layer, or in one alone (from 0)."""
    return lambda each, _head, width: np.eye(width) * (factor if layer in (None, each) else 1.0)


def turn_heads(weights: ModelWeights, turn: Turn | None = None) -> ModelWeights:
    """The change `heads` with the matrices of `turn`, random ones where none are given."""
    turn = turn or draw_turn()
    entry = weights.entry
    changed = dict[str, Array]()
    for layer in weights.layers:
        value = weights.name(entry.value, layer)
        output = weights.name(entry.output, layer)
        if not value or not output:
            continue
        config = select_layer_config(entry, weights.config, layer)
        rows = index_value_rows(entry, config)
        of_query = map_query_heads(entry, config)
        w_v = _align_matrix(entry, weights.tensors[value]).copy()
        w_o = _align_matrix(entry, weights.tensors[output]).copy()
        bias, bias_rows = _find_value_bias(weights, layer, rows)
        turns = []
        for k in range(len(rows)):
            turns.append(turn(layer, k, rows.shape[1]))
        for k, A in enumerate(turns):
            w_v[rows[k]] = A @ w_v[rows[k]]
            if bias:
                own = changed.get(bias, weights.tensors[bias]).copy()
                own[bias_rows[k]] = A @ own[bias_rows[k]]
                changed[bias] = own
        heads = w_o.reshape(len(w_o), len(of_query), -1)
        inverse = np.stack([np.linalg.inv(turns[k]) for k in of_query])
        w_o = np.einsum("dhi,hij->dhj", heads, inverse).reshape(w_o.shape)
        changed |= {value: _align_matrix(entry, w_v), output: _align_matrix(entry, w_o)}
    return weights.replace_tensors(changed)


def fold_norms(weights: ModelWeights) -> ModelWeights:
    """The change `fold` of every norm in front of readers, the final one into the unembedding,
    which it unties."""
    entry = weights.entry
    changed = dict[str, Array]()
    for norm, layer, names in _list_folds(weights):
        gamma, beta = weights.get_norm(norm, layer)
        for name in names:
            changed[name] = weights.scale_inputs(name, gamma)
        weight = weights.name(norm, layer)
        bias = weights.name(norm, layer, "bias")
        changed[weight] = np.ones_like(gamma) - entry.unit_offset
        if bias:
            changed[bias] = beta / gamma
    return weights.replace_tensors(changed)


def shift_readers(weights: ModelWeights, seed: int = 2) -> ModelWeights:
    """The change `readers` of every W_V, with u of normal numbers, another one for each layer."""
    entry = weights.entry
    changed = dict[str, Array]()
    for layer in weights.layers:
        value = weights.name(entry.value, layer)
        if not value or not weights.is_normed(layer):
            continue
        gamma, beta = weights.get_norm(entry.attention_norm, layer)
        rows = index_value_rows(entry, select_layer_config(entry, weights.config, layer))
        u = np.random.default_rng((seed, layer)).standard_normal(rows.shape)
        w_v = _align_matrix(entry, weights.tensors[value]).copy()
        inverse = np.ones(w_v.shape[1])
        if len(inverse) == len(gamma):
            inverse = 1 / gamma
        w_v[rows] += u[..., None] * inverse
        changed[value] = _align_matrix(entry, w_v)
        bias, bias_rows = _find_value_bias(weights, layer, rows)
        if bias:
            changed[bias] = weights.tensors[bias].copy()
            shift = float(inverse @ beta[: len(inverse)])
            changed[bias][bias_rows] -= u * shift
    return weights.replace_tensors(changed)


def add_ones(
    weights: ModelWeights,
    amount: float = 3.0,
    layer: int = 0,
    *,
    spread: float = 1.0,
    seed: int = 3,
) -> ModelWeights:
    """The change `ones` in what attention writes in one block (from 0), `amount` being a.

    u is of normal numbers times `spread`; of a model with stages, whose norms between them read
    several tokens at once, zero. Where what attention writes is multiplied by a vector s first, 1/s
    takes the place of 1.
    """
    entry = weights.entry
    output = weights.name(entry.output, layer)
    bias = weights.name(entry.output, layer, "bias")
    if not output:
        return weights
    w_o = _align_matrix(entry, weights.tensors[output])
    ones = np.ones(len(w_o))
    if entry.attention_scale:
        ones = 1 / weights.tensors[weights.start(layer) + entry.attention_scale]
    normal = np.random.default_rng(seed).standard_normal(w_o.shape[1])
    u = normal * (0.0 if entry.depths else spread)
    changed = {output: _align_matrix(entry, w_o + np.outer(ones, u))}
    if bias:
        changed[bias] = weights.tensors[bias] + amount * ones
    return weights.replace_tensors(changed)


def scale_post_norms(
    weights: ModelWeights, factor: float = 4.0, layers: range | None = None
) -> ModelWeights:
    """The change `post-norm` with c a power of two, of the norm at the end of some blocks (from 0),
    the last left out.

    Of a block the gain is c times what it was, and of the next one a c-th.
    """
    entry = weights.entry
    changed = dict[str, Array]()
    epsilon = dict[str, float]()
    for layer in layers if layers is not None else weights.layers[:-1:2]:
        after = entry.norm_after[1]
        then = entry.norm_after[0]
        weight = weights.name(after, layer)
        bias = weights.name(after, layer, "bias")
        gamma = weights.tensors[weight] + entry.unit_offset
        changed[weight] = gamma * factor - entry.unit_offset
        for name in (bias, *_write(weights, layer + 1)):
            if name:
                changed[name] = weights.tensors[name] * factor
        for name in weights.list_readers(layer + 1, ATTENTION_READERS):
            changed[name] = weights.tensors[name] / factor
        epsilon[weights.name(then, layer + 1).removesuffix(".weight")] = factor**2
    return weights.replace_tensors(changed, epsilon)


def shift_logits(weights: ModelWeights, seed: int = 4) -> ModelWeights:
    """The change `logits` with v of normal numbers; it unties."""
    if not weights.entry.has_head:
        return weights
    name = _name_head(weights)
    head = weights.scale_inputs(name, 1.0)
    v = np.random.default_rng(seed).standard_normal(head.shape[1])
    return weights.replace_tensors({name: head + v})


CHANGES: dict[str, Callable[[ModelWeights], ModelWeights]] = {
    "heads": turn_heads,
    "fold": fold_norms,
    "readers": shift_readers,
    "ones": add_ones,
    "post-norm": scale_post_norms,
    "logits": shift_logits,
}
"""Name of a change → the change with its standard numbers."""
CAPS = ("final_logit_softcapping", "logits_soft_cap")
"""Configuration keys of a cap on logits."""


def find_obstacle(change: str, weights: ModelWeights) -> str:
    """Why a model does not allow a change, by its entry, its configuration and which tensors it
    has; empty: it does.

    Raises UsageError for a name that is none of `CHANGES`.
    """
    if change not in CHANGES:
        allowed = ", ".join(CHANGES)
        raise UsageError(
            "no such change",
            got=repr(change),
            allowed=allowed,
            next_step=f"change={next(iter(CHANGES))}",
        )
    return _REASONS[change](weights)


def apply(change: str, weights: ModelWeights) -> ModelWeights:
    """The weights after one change with its standard numbers.

    Raises UsageError where the model does not allow it, or there is no such change.
    """
    if why := find_obstacle(change, weights):
        open_to = [name for name in CHANGES if not find_obstacle(name, weights)]
        step = f"changes that it allows: {', '.join(open_to) or 'none'}"
        raise UsageError(
            f"the model does not allow the change {change}",
            where=weights.entry.name,
            got=why,
            next_step=step,
        )
    return CHANGES[change](weights)


def _align_matrix(entry: Architecture, matrix: Array) -> Array:
    """A stored matrix as outputs × inputs, and back."""
    return matrix.T if entry.transposed else matrix


def _find_value_bias(
    weights: ModelWeights, layer: int, rows: NDArray[np.int64]
) -> tuple[str, NDArray[np.int64]]:
    """Name of the tensor that holds the values' bias, and its places (K × d_h); empty: they have
    none."""
    entry = weights.entry
    if entry.value_bias:
        name = weights.start(layer) + entry.value_bias
        places = np.arange(rows.size).reshape(rows.shape)
        return name if name in weights.tensors else "", places
    return weights.name(entry.value, layer, "bias"), rows


def _write(weights: ModelWeights, layer: int) -> tuple[str, str]:
    """Names of the tensors that make up what attention writes."""
    output = weights.entry.output
    return weights.name(output, layer), weights.name(output, layer, "bias")


def _list_folds(weights: ModelWeights) -> list[tuple[str, int | None, list[str]]]:
    """Norms that have weights, the block of each, and the matrices that read it."""
    entry = weights.entry
    folds = list[tuple[str, int | None, list[str]]]()
    for layer in weights.layers:
        readers: dict[str, list[str]] = {}
        for norm, leaves in (
            (entry.attention_norm, ATTENTION_READERS),
            (entry.mlp_norm, MLP_READERS),
        ):
            if weights.name(norm, layer):
                readers.setdefault(norm, []).extend(weights.list_readers(layer, leaves))
        folds += [(norm, layer, names) for norm, names in readers.items()]
    head = weights.name(entry.behind_norm) or (_name_head(weights) if entry.has_head else "")
    if head and weights.name(entry.final_norm):
        folds.append((entry.final_norm, None, [head]))
    return folds


def _name_head(weights: ModelWeights) -> str:
    """Name of the unembedding, the one that it would be stored under where it is tied."""
    module = weights.entry.unembedding[0]
    return weights.name(module) or weights.entry.list_tensor_names(module)[0]


def _check_heads(weights: ModelWeights) -> str:
    entry = weights.entry
    config = weights.config
    if not entry.value or not any(weights.name(entry.value, layer) for layer in weights.layers):
        return "no block has W_V and W_O"
    return "values are clipped" if np.isfinite(find_clip_limit(config)) else ""


def _fold_held(weights: ModelWeights) -> str:
    folds = _list_folds(weights)
    if not folds:
        return "no norm with weights stands in front of readers"
    if any(norm in weights.entry.norm_after for norm, _, _ in folds):
        return "a norm's output is the stream itself, which is read by more than matrices"
    return ""


def _check_readers(weights: ModelWeights) -> str:
    entry = weights.entry
    layers = []
    for layer in weights.layers:
        if entry.value and weights.name(entry.value, layer):
            layers.append(layer)
    if not layers:
        return "no block has W_V"
    if not is_mean_subtracted(entry, weights.config):
        return "the norms do not subtract the mean"
    if not entry.attention_norm:
        return "W_V reads the stream as it is"
    for layer in layers:
        gamma, beta = weights.get_norm(entry.attention_norm, layer)
        config = select_layer_config(entry, weights.config, layer)
        rows = index_value_rows(entry, config)
        bias, _ = _find_value_bias(weights, layer, rows)
        if not bias and (beta / gamma).sum() != 0:
            return "the norm has a bias, and the values have none that could take it back"
    return ""


def _check_ones(weights: ModelWeights) -> str:
    entry = weights.entry
    if not entry.value or not weights.name(entry.output, 0):
        return "the first block has no W_O"
    if not is_mean_subtracted(entry, weights.config):
        return "the norms do not subtract the mean"
    if entry.attention_write:
        return "a norm stands behind W_O"
    if entry.norm_after:
        return ""
    config = select_decoder_config(weights.config)
    bare = entry.bare_end and all(config.get(key) == value for key, value in entry.bare_end)
    return "the stream itself is an output" if not entry.final_norm or bare else ""


def _check_post_norm(weights: ModelWeights) -> str:
    entry = weights.entry
    if not entry.norm_after:
        return "no norm stands behind the residual sum"
    return "all blocks are one, and the last one's norm gives the output" if entry.shared else ""


def _check_logits(weights: ModelWeights) -> str:
    if not weights.entry.has_head:
        return "there is no unembedding"
    capped = any(select_decoder_config(weights.config).get(key) for key in CAPS)
    return "logits are capped, each by itself" if capped else ""


_REASONS: dict[str, Callable[[ModelWeights], str]] = {
    "heads": _check_heads,
    "fold": _fold_held,
    "readers": _check_readers,
    "ones": _check_ones,
    "post-norm": _check_post_norm,
    "logits": _check_logits,
}


EPSILON = ("eps", "variance_epsilon")
"""What classes call the ε of a norm."""


def extract_weights(places: Decoder) -> ModelWeights:
    """The weights of a loaded model, bfloat16 and float16 exactly; tied ones stand there under both
    names."""
    tensors = {}
    for name, tensor in places.model.state_dict().items():
        if tensor.is_floating_point():
            tensors[name] = tensor.detach().cpu().double().numpy().copy()
    return ModelWeights(places.entry, places.config, tensors)


def replace_weights(places: Decoder, weights: ModelWeights) -> Decoder:
    """A copy of a loaded model with other weights at its own precision, in memory alone; what was
    tied is no more.

    ε of norms is multiplied as the weights say.
    """
    model = deepcopy(places.model)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, array in weights.tensors.items():
        before, _, label = name.rpartition(".")
        module: Any = model.get_submodule(before)
        if name in parameters:
            values = torch.from_numpy(np.array(array)).to(parameters[name])
            module._parameters[label] = nn.Parameter(values, requires_grad=False)
    for norm, factor in weights.epsilon.items():
        module = model.get_submodule(norm)
        label = next(name for name in EPSILON if hasattr(module, name))
        setattr(module, label, getattr(module, label) * factor)
    return build_decoder(model, places.entry, places.config)
