"""Identities of one pass through a model, block by block and token by token, whoever reads the
tensors.

`activations.py` reads what a pass leaves at the places of an entry, another tool's adapter what
that tool hands out (`other_tools.py`). Each identity holds some of them against others, or against
the model: its norms, its W_O, the hidden states that it returns itself. What a run proves on one
token (`proof.py`) is the same here, on every token of the prompts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from thermostats.measurement.activations import Activations, Array, Vectors, apply_module
from thermostats.measurement.batching import ImagePrompt
from thermostats.measurement.forward import (
    Decoder,
    count_patches,
    find_optional_submodule,
    find_submodule,
    has_attention,
)
from thermostats.measurement.gains import list_places
from thermostats.measurement.lookup import select_decoder_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.proof import (
    PROOF,
    TOLERANCES,
    detach_vectors,
    list_pair_sums,
    measure_relative_difference,
    scale_writes,
    split_heads,
)
from thermostats.measurement.readings import is_read_centred

Causes = Iterator[tuple[str, bool]]
"""What would explain that an identity fails, and whether it does."""

IDENTITIES = {
    "embedding": "what enters block 1 is not what the model makes of its embedding",
    "states": "a state is not the one that the model itself returns at that depth",
    "stream": PROOF["stream"],
    "residual": PROOF["residual"],
    "norms": "what a sub-block reads is not what its norm makes of the stream",
    "order": "the feed-forward layer reads another stream than is said",
    "heads": "the heads do not sum to what attention puts out",
    "window": "attention reaches further or less far than the configuration says",
    "read": "the read gain is not that of what the norms see of the stream",
    "final": PROOF["final"],
    "value": PROOF["value"],
    "circuit": PROOF["circuit"],
    "facts": "files or configuration say otherwise than the loaded model",
    "again": "inputs measured again by themselves give other numbers",
}
"""What is proved → what is wrong where it is off."""


@dataclass(frozen=True)
class Deviation:
    """How far one identity is off at one place, relative to what is expected there."""

    identity: str
    excess: float
    """What of the difference is no rounding, which `proof.TOLERANCES` are for."""
    difference: float
    place: str
    cause: str = ""
    """What explains it, where it is off."""


@dataclass(frozen=True)
class Held:
    """One identity held against one block."""

    identity: str
    decoder: Decoder
    claims: Decoder
    """The model with the entry and the configuration that say what the tensors are."""
    seen: Activations
    layer: int
    adds_up: bool = True
    """The writes of the block are what the stream gains, as far as they are handed out."""

    @property
    def vectors(self) -> Vectors:
        """Vectors of the block by name."""
        return self.seen.blocks[self.layer]

    @property
    def block(self) -> nn.Module:
        """The block itself."""
        return self.decoder.blocks[self.layer]

    @property
    def is_last(self) -> bool:
        """Whether no block follows."""
        return self.layer == len(self.decoder.blocks) - 1

    @property
    def tolerance(self) -> float:
        """What still is rounding."""
        return TOLERANCES[self.decoder.dtype]

    def has(self, *names: str) -> bool:
        """Whether vectors of these names were handed out."""
        return self.vectors.keys() >= set(names)

    def measure_excess(self, terms: Sequence[Array], expected: Array) -> Array:
        """Of every token (tokens) the relative difference that rounding does not explain; infinite
        of other shapes."""
        if any(term.shape != expected.shape for term in terms) or not expected.size:
            return np.array([np.inf])
        epsilon = torch.finfo(self.decoder.dtype).eps
        how: dict[str, Any] = {"tolerance": self.tolerance, "epsilon": epsilon}
        tokens = np.stack(terms, axis=1)  # tokens × terms × d
        excess = []
        for of_token, whole in zip(tokens, expected, strict=True):
            excess.append(measure_relative_difference(of_token, whole, **how))
        return np.array(excess)

    def is_explained(self, terms: Sequence[Array], expected: Array) -> bool:
        """Whether terms sum to what is expected."""
        return bool(self.measure_excess(terms, expected).max() <= self.tolerance)

    def judge(
        self, terms: Sequence[Array], expected: Array, causes: Callable[[], Causes] | None = None
    ) -> Deviation:
        """The deviation of terms that should sum to what is expected; `causes` are asked only where
        it is off."""
        excess = self.measure_excess(terms, expected)
        difference = excess
        if np.isfinite(excess).all():
            length = np.linalg.norm(expected, axis=-1)
            apart = np.linalg.norm(np.sum(terms, axis=0) - expected, axis=-1)
            relative = np.divide(apart, length, out=excess.copy(), where=length > 0)
            difference = np.maximum(excess, relative)
        worst = int(np.argmax(excess if excess.any() else difference))
        place = f"block {self.layer + 1}"
        if len(expected) > 1:
            place += f", token {worst + 1}"
        explained: Iterator[str] = iter(())
        if causes is not None and not excess.max() <= self.tolerance:
            explained = (words for words, fits in causes() if fits)
        sizes = (float(excess.max()), float(difference.max()))
        return Deviation(self.identity, *sizes, place, next(explained, ""))

    def apply(self, path: str, x: Array) -> Array:
        """What a module of the block makes of vectors (tokens × d); no path: the vectors as they
        are."""
        module = find_submodule(self.block, path, self.claims.entry) if path else nn.Identity()
        return apply_module(module, x, self.decoder)

    def align(self, x: Array) -> Array:
        """Vectors that can be held against each other: of tokens in windows, whose order differs,
        the mean."""
        return x.mean(0, keepdims=True) if self.decoder.entry.depths else x

    def apply_norms(self, x: Array) -> list[Array]:
        """What each norm of the block that is as wide as the stream makes of vectors, by what
        classes are called."""
        shape = x.shape[-1:]
        normed = []
        for module in self.block.modules():
            is_norm = "norm" in type(module).__name__.casefold()
            if is_norm and all(weight.shape == shape for weight in module.parameters()):
                normed.append(apply_module(module, x, self.decoder))
        return normed


def find_deviations(
    decoder: Decoder, seen: Activations, claims: Decoder | None = None
) -> Iterator[Deviation]:
    """Every identity of a pass at every block, each at its worst token.

    claims: the same model with what a tool says of its tensors, where that is not what `decoder`
    says. What a tool does not hand out has no deviation.
    """
    tolerance = TOLERANCES[decoder.dtype]
    for layer in range(len(decoder.blocks)):
        held = Held("residual", decoder, claims or decoder, seen, layer)
        written = list(check_residual(held))
        yield from written
        adds_up = all(each.excess <= tolerance for each in written)
        for identity, check in CHECKS.items():
            yield from check(replace(held, identity=identity, adds_up=adds_up))


def check_embedding(held: Held) -> Iterator[Deviation]:
    """What enters block 1 is the first state that the model returns."""
    hidden = held.seen.hidden
    first = hidden[0] if hidden else None
    if held.layer or first is None or not held.has("x_in"):
        return
    x = held.vectors["x_in"]

    def causes() -> Causes:
        yield (
            "a scale of the embedding is forgotten",
            held.is_explained([scale_vectors(x, first)], first),
        )

    yield held.judge([x], first, causes)


def check_states(held: Held) -> Iterator[Deviation]:
    """x_l is the state that the model returns behind l blocks; the last is returned normed, see
    `check_final`."""
    hidden = held.seen.hidden
    depth = len(held.decoder.blocks)
    if len(hidden) != depth + 1 or not held.has("x_in", "x_out"):
        return

    def causes(x: Array, place: int) -> Causes:
        for other in (place - 1, place + 1):
            state = hidden[other] if 0 <= other <= depth else None
            if state is not None:
                yield "the state is off by one block", held.is_explained([x], state)

    for name, place in (("x_in", held.layer), ("x_out", held.layer + 1)):
        state = hidden[place] if 0 < place < depth else None
        if state is not None:
            x = held.vectors[name]
            yield held.judge([x], state, partial(causes, x, place))


def check_stream(held: Held) -> Iterator[Deviation]:
    """A block reads what the block before left, where patches are not merged between them."""
    stage = held.decoder.entry.find_stage
    if held.is_last or stage(held.layer)[0] != stage(held.layer + 1)[0]:
        return
    following = held.seen.blocks[held.layer + 1]
    if held.has("x_out") and "x_in" in following:
        yield held.judge([held.vectors["x_out"]], following["x_in"])


def check_residual(held: Held) -> Iterator[Deviation]:
    """x_l = x_(l−1) + what attention writes + what the feed-forward layer writes, as `proof.py` has
    it."""
    entry = held.claims.entry
    if not held.has("x_in", "x_out", "attention_write", *["mlp_write"] * bool(entry.mlp)):
        return
    if entry.norm_after and not held.has("attention_sum", "mlp_sum"):
        return
    vectors = {}
    for name, x in held.vectors.items():
        vectors[name] = held.align(x)
    causes = partial(list_write_causes, held, vectors)
    for terms, expected in list_pair_sums(held.claims, held.layer, vectors):
        yield held.judge(terms, expected, causes)


def list_write_causes(held: Held, vectors: Vectors) -> Causes:
    """What would explain that the writes of a block do not add up."""
    attention, mlp = scale_writes(held.claims, held.layer, vectors)
    before = vectors["x_in"]
    if not attention.shape == mlp.shape == before.shape:
        return
    step = vectors["x_out"] - before

    def fits(*terms: Array) -> bool:
        return held.is_explained(terms, step)

    yield "attention's write holds the residual", fits(attention - before, mlp)
    middle = held.apply(held.claims.entry.mlp_norm, attention)
    both = False
    if held.has("mlp_read"):
        both = held.is_explained([middle], held.align(held.vectors["mlp_read"]))
    which = "both writes hold" if both else "the feed-forward layer's write holds"
    yield f"{which} the residual", fits(mlp - before)
    yield "a factor on the writes is forgotten", fits(scale_vectors(attention + mlp, step))
    attention_writes = [attention, *held.apply_norms(attention)]
    mlp_writes = [mlp, *held.apply_norms(mlp)]
    pairs = list(product(attention_writes, mlp_writes))
    for first, second in pairs[1:]:
        yield "a norm behind a sub-block is forgotten", fits(first, second)
    sums = held.apply_norms(before + attention + mlp)
    for middle in held.apply_norms(before + attention):
        sums += held.apply_norms(middle + mlp)
    for x in sums:
        yield "a norm stands behind the sum, not in front of the sub-block", fits(x, -before)
    if not held.is_last and "x_out" in (following := held.seen.blocks[held.layer + 1]):
        later = [held.align(following["x_out"]), -vectors["x_out"]]
        yield "the state is off by one block", held.is_explained(later, attention + mlp)


def check_norms(held: Held) -> Iterator[Deviation]:
    """What a sub-block reads is what the norm that the entry names makes of the stream, or the
    stream itself."""
    entry = held.claims.entry
    if held.has("x_in", "attention_read"):
        x = held.vectors["x_in"]
        read = held.align(held.vectors["attention_read"])
        causes = partial(list_norm_causes, held, "attention", (x,), read)
        normed = held.align(held.apply(entry.attention_norm, x))
        yield held.judge([normed], read, causes)
    streams = find_streams(held)
    if streams:
        read = held.vectors["mlp_read"]
        normed_streams = [held.apply(entry.mlp_norm, x) for x in streams]
        nearest = min(normed_streams, key=lambda each: held.measure_excess([each], read).max())
        causes = partial(list_norm_causes, held, "the feed-forward layer", streams, read)
        yield held.judge([nearest], read, causes)


def list_norm_causes(held: Held, what: str, streams: Sequence[Array], read: Array) -> Causes:
    """What would explain that a sub-block reads something else than its norm leaves of any of these
    streams."""
    for x in streams:
        yield f"no norm stands in front of {what}", held.is_explained([held.align(x)], read)
        for normed in held.apply_norms(x):
            yield (
                f"another norm stands in front of {what}",
                held.is_explained([held.align(normed)], read),
            )


def find_streams(held: Held) -> tuple[Array, ...]:
    """The streams that the feed-forward layer may read, that of the entry first; none where they
    are not known.

    Where the writes do not add up it is not known what attention wrote.
    """
    entry = held.claims.entry
    known = held.adds_up and held.has("x_in", "attention_write", "mlp_read")
    if entry.depths or not entry.mlp or not known:
        return ()
    before = held.vectors["x_in"]
    if held.vectors["attention_write"].shape != before.shape:
        return ()
    attention, _ = scale_writes(held.claims, held.layer, {"mlp_write": before, **held.vectors})
    both = (before, before + attention)
    return both if entry.parallel else both[::-1]


def check_order(held: Held) -> Iterator[Deviation]:
    """In parallel blocks the feed-forward layer reads what attention reads of, in others what that
    wrote to.

    Where neither gives what is read the norm is wrong, which `check_norms` says.
    """
    streams = find_streams(held)
    if not streams:
        return
    entry = held.claims.entry
    read = held.vectors["mlp_read"]
    stated, other = (held.apply(entry.mlp_norm, x) for x in streams)
    words = ("sequential", "parallel") if entry.parallel else ("parallel", "sequential")
    fits = held.is_explained([other], read)

    def causes() -> Causes:
        yield f"a {words[0]} block is called {words[1]}", fits

    found = held.judge([stated], read, causes)
    if fits or found.excess <= held.tolerance:
        yield found


def check_heads(held: Held) -> Iterator[Deviation]:
    """Attention's output = Σ_h W_O,h z_h + its bias, z_h what head h hands over."""
    entry = held.decoder.entry
    if not has_attention(held.block, entry) or not held.has("heads", "attention"):
        return
    parts = split_heads(held.decoder, held.layer)
    z = held.vectors["heads"]
    expected = held.vectors["attention"]
    if z.shape[-1] != len(parts.kv_head) * parts.d_head:
        yield held.judge([z], expected)
        return
    each = np.split(z, len(parts.kv_head), axis=-1)
    terms = []
    for h, x in enumerate(each):
        terms.append(x @ parts.get_head(h)[1].T)
    bias = getattr(find_submodule(held.block, entry.output, entry), "bias", None)
    if isinstance(bias, Tensor):
        terms.append(np.broadcast_to(detach_vectors(bias), terms[0].shape))
    yield held.judge(terms, expected)


def check_window(held: Held) -> Iterator[Deviation]:
    """A change of the first token reaches the tokens within the window that the configuration
    states, and no others."""
    moved = held.seen.moved[held.layer] if held.seen.moved else None
    entry = held.claims.entry
    if moved is None or entry.alone:  # of one whose masks are its own no window is known
        return
    window = read_window(entry, held.claims.config, held.layer)
    stated = len(moved) if window is None else min(window, len(moved))
    reached = int(np.flatnonzero(moved).max(initial=-1)) + 1
    excess = float(moved[stated:].max(initial=0.0)) if reached >= stated else 1.0
    cause = "a window is ignored" if reached > stated else "a window is not stated"
    cause *= not excess <= held.tolerance
    place = f"block {held.layer + 1}, token {max(reached, 1)}"
    yield Deviation(held.identity, excess, excess, place, cause)


WINDOWS = ("sliding_window", "attention_window_size", "local_attention")
"""Configuration keys of how many tokens a windowed block attends to; the last states both sides
together."""


def read_window(entry: Architecture, config: Config, layer: int) -> int | None:
    """How many tokens back a token of a block (from 0) sees by its configuration, itself included;
    None: all.

    A window of w tokens ends with the token itself, of an encoder it reaches w tokens to each side.
    """
    inner = select_decoder_config(config)
    kinds = inner.get("layer_types") or inner.get("attention_layers")
    kind = ""
    if isinstance(kinds, list | tuple) and layer < len(kinds):
        kind = str(kinds[layer])
    if kind == "local":
        return int(inner["window_size"])
    key = next((key for key in WINDOWS if isinstance(inner.get(key), int)), None)
    if (
        key is None
        or kind in ("full_attention", "global")
        or inner.get("use_sliding_window") is False
    ):
        return None
    width = int(inner[key])
    if entry.causal:
        return width
    return (width // 2 if key == "local_attention" else width) + 1


def check_final(held: Held) -> Iterator[Deviation]:
    """The last hidden state is the final norm of what the last block left."""
    if not held.is_last or not held.has("x_out"):
        return
    decoder = held.decoder
    behind = (
        find_optional_submodule(decoder.base, decoder.entry.behind_norm, decoder.entry)
        or nn.Identity()
    )

    def finish(x: Array) -> Array:
        return apply_module(
            behind, apply_module(decoder.final_norm or nn.Identity(), x, decoder), decoder
        )

    def causes() -> Causes:
        yield (
            "the last state is already normed",
            held.is_explained([held.vectors["x_out"]], held.seen.final),
        )
        earlier = []
        for each in held.seen.blocks[-2:-1]:
            earlier.append(finish(each["x_out"]))
        for x in (*earlier, finish(held.vectors.get("x_in", held.vectors["x_out"]))):
            yield "the state is off by one block", held.is_explained([x], held.seen.final)

    yield held.judge([finish(held.vectors["x_out"])], held.seen.final, causes)


CHECKS: dict[str, Callable[[Held], Iterator[Deviation]]] = {
    "embedding": check_embedding,
    "states": check_states,
    "stream": check_stream,
    "norms": check_norms,
    "order": check_order,
    "heads": check_heads,
    "window": check_window,
    "final": check_final,
}
"""Identities of a single pass but for the residual, on which some of them stand."""


def scale_vectors(x: Array, expected: Array) -> Array:
    """Vectors times the one number that brings them nearest to others."""
    if x.shape != expected.shape or not x.any():
        return x
    factor = float((x * expected).sum() / (x * x).sum())
    scaled: Array = x * factor
    return scaled


def check_read_gain(
    decoder: Decoder, seen: Activations, prompt: Any, rows: pd.DataFrame
) -> Iterator[Deviation]:
    """How far `gain_read` in the rows of one prompt is from ‖P x_l‖ / ‖P x_(l−1)‖ of its plain
    states.

    P is what the model's own norms see: I − 11ᵀ/d where adding a number to all coordinates changes
    nothing that they give, else I. Blocks that norm the stream itself have no read gain.
    """
    entry = decoder.entry
    if entry.norm_after:
        return
    centred = is_mean_ignored(decoder, seen.blocks[0]["x_in"].shape[-1])
    cause = "the norms subtract the mean" if centred else "the norms do not subtract the mean"
    cause *= is_read_centred(entry, decoder.config) != centred
    span = (
        count_patches(decoder, prompt.pixels)[1] if isinstance(prompt, ImagePrompt) else prompt.span
    )
    places = {"patches": slice(None)} if entry.depths else list_places(entry, span)
    measured = rows.set_index(["prompt_id", "layer", "position"])["gain_read"]
    for layer, vectors in enumerate(seen.blocks):
        before, after = (
            measure_lengths(vectors[name], centred=centred) for name in ("x_in", "x_out")
        )
        for position, tokens in places.items():
            logs = np.atleast_1d(np.log(after / before)[tokens])
            if logs.size:
                row = float(measured[prompt.prompt_id, layer + 1, position])
                off = abs(float(np.expm1(np.log(row) - logs.mean())))
                excess = off if np.isfinite(off) else np.inf
                yield Deviation("read", excess, excess, f"block {layer + 1}, {position}", cause)


def measure_lengths(x: Array, *, centred: bool) -> Array:
    """‖P x‖ of every token (tokens)."""
    shown = x - x.mean(-1, keepdims=True) if centred else x
    lengths: Array = np.linalg.norm(shown, axis=-1)
    return lengths


UNMOVED = 1e-2
"""A norm that gives the same to this share does not see what was added; else it moves by about what
it gives."""


def is_mean_ignored(decoder: Decoder, width: int) -> bool:
    """Whether the model's norms give the same of a stream of this width and of the stream with 1 on
    all coordinates."""
    entry = decoder.entry
    paths = [path for path in (entry.attention_norm, entry.mlp_norm) if path]
    norms: list[Any] = []
    for block in decoder.blocks:
        for path in paths:
            norms.append(find_submodule(block, path, entry))
    norms.append(decoder.final_norm)
    reading = [norm for norm in norms if not isinstance(norm, nn.Identity | None)]
    if not reading:
        return False
    norm = reading[0]
    plain = copy.deepcopy(norm).float().cpu()
    x = torch.randn(1, 1, width, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        before = plain(x)
        after = plain(x + 1)
    return bool((after - before).norm() < UNMOVED * before.norm())
