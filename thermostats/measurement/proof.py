"""What a run proves of itself before it is stored, and what it leaves out where a proof fails.

The model is held to its entry on one token; then two inputs, each alone in the model as
it was loaded, are held to the rows in which they stood among others. Where these part, all are
measured again, each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.checkpoint import find_clip_limit, read_geometry, split
from thermostats.measurement.forward import (
    Decoder,
    build_example,
    convert_to_array,
    extract_input,
    find_mixer,
    find_optional_submodule,
    find_submodule,
    has_attention,
    hook_entry,
    hook_exit,
    prepare_model,
    run_forward_pass,
    track_layers,
    turn_cache_off,
)
from thermostats.measurement.gains import RATIOS, Measured
from thermostats.measurement.lookup import select_decoder_config, select_layer_config

Array = NDArray[np.float64]

TOLERANCES = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest relative difference that still is rounding at a precision; a wrong layout is wrong by
about 1."""

PROOF = {
    "value": "W_V is not the matrix from which the attention's heads are computed",
    "circuit": "W_O is not the matrix from which the attention's output is computed",
    "residual": "the writes do not add up to the step of the stream",
    "stream": "something outside the blocks changes the stream between them",
    "final": "the last hidden state is not the final norm of what the last block left",
}
"""What is held against the model → what is wrong where it is off."""


@dataclass(frozen=True)
class Conformance:
    """Largest relative differences between what an entry says and what the model does, over
    layers."""

    value: float
    circuit: float
    residual: float
    stream: float
    final: float
    tolerance: float

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of what is off by more than rounding; what cannot be compared is."""
        failed: list[str] = []
        for name in PROOF:
            if not getattr(self, name) <= self.tolerance:
                failed.append(name)
        return tuple(failed)

    @property
    def passed(self) -> bool:
        """Whether all are within the tolerance of the model's precision."""
        return not self.failed

    @property
    def reasons(self) -> tuple[str, ...]:
        """What failed, in words."""
        return tuple(PROOF[name] for name in self.failed)

    def __str__(self) -> str:
        """As `runs` keeps it."""
        return " ".join(f"{name}={getattr(self, name):.1e}" for name in PROOF)

    def build_error(self, name: str) -> ThermostatsError:
        """The error for one that failed."""
        got = f"{name} is off by {getattr(self, name):.2g}"
        allowed = f"at most {self.tolerance:g}"
        step = (
            "check the weights for numbers that are not finite, then report the model and the "
            "versions"
        )
        what = f"the measurement failed its own check: {PROOF[name]}"
        return ThermostatsError(what, got=got, allowed=allowed, next_step=step)


def check_conformance(decoder: Decoder, *, layers: Collection[int] | None = None) -> Conformance:
    """Hold an entry against its model with one random Δ of the size of the input it is added to.

    `layers` (from 0) restricts W_V, W_O and the writes to some; one forward pass of one token or
    image; these once more with Δ.

    Raises DataError where a matrix has another shape than the entry implies, ThermostatsError where
    the model fails.
    """
    value = circuit = residual = 0.0
    chosen = tuple(range(len(decoder.blocks)) if layers is None else layers)
    vectors, stream, final = _run_pass(decoder, chosen)
    tolerance = TOLERANCES[decoder.dtype]
    epsilon = torch.finfo(decoder.dtype).eps
    relative = partial(measure_relative_difference, tolerance=tolerance, epsilon=epsilon)
    for layer, seen in vectors.items():
        for terms, expected in list_pair_sums(decoder, layer, seen):
            residual = max(residual, relative(terms, expected))
        if not has_attention(decoder.blocks[layer], decoder.entry):
            continue
        parts = split_heads(decoder, layer)
        moved_heads = []
        for h in range(len(parts.kv_head)):
            moved_heads.append(parts.get_head(h)[0] @ seen["changed delta"])
        moved = np.concatenate(moved_heads)
        heads = seen["changed heads"], -seen["heads"]
        scaled = _scale_heads(heads, moved, parts.d_head) if decoder.entry.sinks else heads
        free = np.max(np.abs(heads), axis=0) < find_clip_limit(decoder.config)
        free_heads = [each[free] for each in scaled]
        value = max(value, relative(free_heads, moved[free]))
        output = seen["changed attention"], -seen["attention"]
        written = parts.w_o @ (heads[0] + heads[1])
        circuit = max(circuit, relative(output, written))
    return Conformance(value, circuit, residual, stream, final, tolerance)


def measure_relative_difference(
    terms: Sequence[Array], expected: Array, *, tolerance: float = 1e-4, epsilon: float = 0.0
) -> float:
    """‖Σ terms − expected‖ / ‖expected‖ beyond what rounding explains; infinite where it is not
    finite.

    Coordinate i of the terms is known to r_i = ε Σ |term_i|. Coordinates count by w_i = 1/(1 +
    r_i/(τ s)), s the root mean square of what is expected and τ the tolerance: those whose rounding
    hides it count for little. Of the difference ‖w r‖ is rounding. Where zeros are expected,
    nothing else will do.
    """
    difference = np.sum(terms, axis=0) - expected
    rounding = epsilon * np.sum(np.abs(terms), axis=0)
    if not (np.isfinite(difference).all() and expected.size):
        return np.inf
    if not expected.any():
        return np.inf if (np.abs(difference) > rounding).any() else 0.0
    size = np.sqrt(np.mean(np.square(expected)))
    weight = 1 / (1 + rounding / (tolerance * size))
    off = float(np.linalg.norm(weight * difference) - np.linalg.norm(weight * rounding))
    return max(0.0, off) / float(np.linalg.norm(weight * expected))


def _scale_heads(heads: Sequence[Array], moved: Array, d_head: int) -> list[Array]:
    """The heads before and after, each times the number that brings their sum nearest to what it
    should be."""
    pairs = np.stack([term.reshape(-1, d_head) for term in heads], axis=2)
    factors = []
    for pair, wanted in zip(pairs, moved.reshape(-1, d_head), strict=True):
        factors.append(np.linalg.lstsq(pair, wanted, rcond=None)[0])
    scaled = pairs * np.stack(factors)[:, None]
    return [scaled[..., 0].ravel(), scaled[..., 1].ravel()]


def split_heads(decoder: Decoder, layer: int) -> Any:
    """W_V and W_O of one block as loaded, cut into heads."""
    entry = decoder.entry
    block = decoder.blocks[layer]
    value = find_submodule(block, entry.value, entry).weight
    output = find_submodule(block, entry.output, entry).weight
    if not isinstance(value, Tensor) or not isinstance(output, Tensor):
        raise DataError("projection without a weight matrix", where=entry.name)
    config = select_layer_config(entry, decoder.config, layer)
    return split(entry, config, convert_to_array(value), convert_to_array(output))


@contextmanager
def track_block_gaps(decoder: Decoder) -> Iterator[list[float]]:
    """While open, collect how far what a block or the final norm reads is from what the block
    before left, where patches are not merged between them; infinite where the first block leaves
    what is not finite."""
    apart = [0.0]
    left = [np.zeros(0)]
    with track_layers(decoder.blocks) as now, ExitStack() as stack:

        def leave(x: Tensor) -> None:
            left[0] = detach_vectors(x)
            if now() == 0 and not np.isfinite(left[0]).all():
                apart.append(np.inf)

        def enter(x: Tensor, *, inside: bool = True) -> None:
            find_stage = decoder.entry.find_stage
            merged = inside and find_stage(now())[0] != find_stage(max(now() - 1, 0))[0]
            first = not left[0].size or (inside and now() == 0)
            if not (merged or first or np.array_equal(detach_vectors(x), left[0], equal_nan=True)):
                apart.append(measure_relative_difference([detach_vectors(x)], left[0]))

        for block in dict.fromkeys(decoder.blocks):
            hook_entry(stack, block, enter)
            hook_exit(stack, block, leave)
        if decoder.final_norm is not None:
            hook_entry(stack, decoder.final_norm, partial(enter, inside=False))
        yield apart


def detach_vectors(x: Tensor) -> Array:
    """Vectors of all tokens (tokens × d), copied."""
    copied: Array = convert_to_array(x).reshape(-1, x.shape[-1]).copy()
    return copied


def _draw_delta(decoder: Decoder, layer: int, read: Tensor) -> Tensor:
    config = select_layer_config(decoder.entry, decoder.config, layer)
    width = read_geometry(decoder.entry, config).d_value_in
    generator = torch.Generator().manual_seed(layer)
    delta = torch.randn(width, generator=generator, dtype=torch.float64)
    size = float(read.double().norm()) / float(delta.norm())
    return (delta * size).to(read.device, read.dtype)


def scale_writes(decoder: Decoder, layer: int, vectors: dict[str, Any]) -> tuple[Array, Array]:
    """What attention and feed-forward layer of one block add to the stream, times the scales that
    the entry names."""
    entry = decoder.entry
    block = decoder.blocks[layer]
    multiplier = (
        float(select_decoder_config(decoder.config)[entry.residual_multiplier])
        if entry.residual_multiplier
        else 1.0
    )
    factors = []
    for name in (entry.attention_scale, entry.mlp_scale):
        scale = attrgetter(name)(block) if name else 1.0
        factors.append(convert_to_array(scale) if isinstance(scale, Tensor) else scale)
    attention = multiplier * factors[0] * vectors["attention_write"]
    mlp = np.zeros_like(attention)
    if entry.mlp:
        mlp = multiplier * factors[1] * vectors["mlp_write"]
    return attention, mlp


def list_pair_sums(
    decoder: Decoder, layer: int, vectors: dict[str, Any]
) -> list[tuple[list[Array], Array]]:
    """Pairs that must be equal: terms of what the stream gained in one block, and what was written
    to it.

    vectors: of one token (d), or of several (tokens × d), by the names that `Probe` gives them.
    """
    attention, mlp = scale_writes(decoder, layer, vectors)
    if not attention.shape == mlp.shape == vectors["x_in"].shape:
        nowhere = np.full_like(
            vectors["x_out"], np.nan
        )  # not of the stream's width: no write at all
        return [([vectors["x_out"]], nowhere)]
    if not decoder.entry.norm_after:
        return [([vectors["x_out"], -vectors["x_in"]], attention + mlp)]
    gained = [vectors["attention_sum"], -vectors["x_in"]]
    gained_later = [vectors["mlp_sum"], -vectors["attention_sum_normed"]]
    whole = ([vectors["x_out"]], vectors["mlp_sum_normed"])
    return [(gained, attention), (gained_later, mlp), whole]


@dataclass(eq=False)
class Probe:
    """What hooks take of some layers in one pass, and once more with a change Δ of what their
    values are read from."""

    decoder: Decoder
    now: Callable[[], int]
    """The block that runs, from 0."""
    vectors: dict[int, dict[str, Any]]
    """Per layer the vectors (d) of the first token by name, of tokens in windows their mean; of
    those after Δ with "changed" before the name."""
    again: bool = False
    """The block runs once more, with Δ."""

    def keep(self, name: str, x: Tensor) -> None:
        """A vector of the layer that runs, unless it is there."""
        if self.now() in self.vectors:
            kept = self.reduce_tokens(detach_vectors(x))
            kept_name = f"changed {name}" if self.again else name
            self.vectors[self.now()].setdefault(kept_name, kept)

    def reduce_tokens(self, tokens: Array) -> Array:
        """What is kept of the vectors of all tokens (tokens × d)."""
        kept: Array = tokens.mean(0) if self.decoder.entry.depths else tokens[0]
        return kept

    def replace_input(
        self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Every token reads what the first reads, the second time with Δ."""
        if self.now() not in self.vectors:
            return None
        x = extract_input(args, kwargs)
        read = x.reshape(-1, x.shape[-1])[0]
        new = read
        if self.again:
            new = read + _draw_delta(self.decoder, self.now(), read)
        self.keep("delta", new.double() - read.double())
        x = new.expand(x.shape)
        if args:
            return (x, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": x}

    def repeat(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _output: Any
    ) -> None:
        """Run the block once more."""
        if self.now() in self.vectors:
            self.again = True
            block.forward(*args, **kwargs)
            self.again = False

    def track_block(self, stack: ExitStack, block: nn.Module) -> None:
        """Keep what a block passes on, until the stack is closed."""
        entry = self.decoder.entry
        keep = self.keep
        place = find_mixer(block, entry)
        hook_entry(stack, block, partial(keep, "x_in"))
        for path, name in (
            ("", "x_out"),
            (entry.attention_out or place, "attention"),
            (entry.attention_write or entry.attention_out or place, "attention_write"),
            (entry.mlp_write or entry.mlp_out or entry.mlp, "mlp_write"),
        ):
            if path or name == "x_out":
                hook_exit(stack, find_submodule(block, path, entry), partial(keep, name))
        for norm, name in zip(entry.norm_after, ("attention_sum", "mlp_sum"), strict=False):
            hook_entry(stack, find_submodule(block, norm, entry), partial(keep, name))
            hook_exit(stack, find_submodule(block, norm, entry), partial(keep, f"{name}_normed"))
        if has_attention(block, entry):
            hook_entry(stack, find_submodule(block, entry.output, entry), partial(keep, "heads"))

    def repeat_block(self, stack: ExitStack, block: nn.Module) -> None:
        """Run a block once more with Δ, until the stack is closed."""
        entry = self.decoder.entry
        if not has_attention(block, entry):
            return
        path = entry.value if entry.layout == "latent" else find_mixer(block, entry)
        module = find_submodule(block, path, entry)
        stack.callback(
            module.register_forward_pre_hook(self.replace_input, with_kwargs=True).remove
        )
        stack.callback(block.register_forward_hook(self.repeat, with_kwargs=True).remove)


def _run_pass(
    decoder: Decoder, layers: Collection[int]
) -> tuple[dict[int, dict[str, Any]], float, float]:
    """What some layers do with one input, as `Probe` takes it.

    And how far what a block, or the final norm, reads is from what the block before left; and how
    far the last hidden state is from the final norm of that.
    """
    entry = decoder.entry
    normed: list[Tensor] = []
    with (
        track_block_gaps(decoder) as apart,
        track_layers(decoder.blocks) as now,
        ExitStack() as stack,
    ):
        stack.enter_context(prepare_model(decoder.model))
        probe = Probe(decoder, now, {layer: {} for layer in layers})
        for block in dict.fromkeys(decoder.blocks[layer] for layer in layers):
            probe.track_block(stack, block)
            probe.repeat_block(stack, block)
        if decoder.final_norm is not None:
            behind = find_optional_submodule(decoder.base, entry.behind_norm, entry)
            hook_exit(stack, behind or decoder.final_norm, normed.append)
        with run_forward_pass(decoder.model):
            output = decoder.base(**build_example(decoder), **turn_cache_off(decoder.base))
        last = getattr(output, "last_hidden_state", output)
    final = 0.0
    if normed:
        final = measure_relative_difference([detach_vectors(last)], detach_vectors(normed[-1]))
    return probe.vectors, max(apart), final


BY_RATIO = ("norm_in", "gain_block")
BY_DIFFERENCE = ("self_attention", "entropy")
"""Columns that a second pass is held against the first in."""
OF_SUBBLOCKS = [name for name in RATIOS if name not in ("gain_block", "gain_read")]
"""Columns that stand on what the sub-blocks write."""


class InputsMeetError(ThermostatsError):
    """What a model does with one input depends on the others of its batch."""


def check_proof(decoder: Decoder, needed: Collection[str] = tuple(PROOF)) -> Conformance:
    """What holds of a model on its first, middle and last block.

    Raises ThermostatsError by the name of what is `needed` and does not, DataError where a weight
    is not finite, which spreads through the stream into the last block.
    """
    n = len(decoder.blocks)
    proof = check_conformance(decoder, layers={0, n // 2, n - 1})
    if proof.failed:
        check_finite(decoder)
    for name in proof.failed:
        if name in needed:
            raise proof.build_error(name)
    return proof


def check_finite(decoder: Decoder) -> None:
    """Raise DataError where a weight is not a finite number at the precision that it was loaded
    in."""
    for name, weight in decoder.model.named_parameters():
        if weight.is_meta or not weight.numel() or all(map(torch.isfinite, weight.aminmax())):
            continue
        what = "the weights hold numbers that are not finite"
        step = "download the file again, or --dtype float32"
        raise DataError(
            what, where=name, got=f"{decoder.dtype}".removeprefix("torch."), next_step=step
        )


def drop_unproven(measured: Measured, proof: Conformance) -> Measured:
    """The rows without what rests on a proof that failed: the columns of the sub-blocks, or
    `normed_gain`."""
    layers = measured.layers
    summaries = measured.summaries
    if "residual" in proof.failed:
        why = f"{PROOF['residual']}: {', '.join(OF_SUBBLOCKS)}"
        missing = layers["missing"].map(lambda reason: f"{reason}; {why}" if reason else why)
        unproven = dict.fromkeys(OF_SUBBLOCKS, np.nan)
        layers = layers.assign(**unproven, missing=missing.astype("str"))
    if "final" in proof.failed:
        summaries = summaries.assign(value=np.nan, missing=PROOF["final"])
    return Measured(layers, summaries, measured.outputs)


def repeat_pass(
    decoder: Decoder,
    inputs: Sequence[Any],
    of_one: Callable[[Any], pd.DataFrame],
    rows: pd.DataFrame,
) -> str:
    """Measure two inputs once more, each by itself in a model as it was loaded; what `runs` keeps
    of it.

    `rows` are those of the run, in which they stood among others, and `of_one` gives those of an
    input alone. Of texts the shortest and the longest are taken, as the longest of a batch may
    decide for all; of images the first and last.

    Raises InputsMeetError where they differ by more than rounding.
    """
    by_length = sorted(inputs, key=lambda each: len(getattr(each, "token_ids", ())))
    ends = by_length if len(by_length) == 1 else [by_length[0], by_length[-1]]
    once = pd.concat([of_one(each) for each in ends])
    key = [name for name in ("layer", "head", "variant", "prompt_id", "position") if name in rows]
    both = once.merge(rows, on=key, suffixes=("", "_run"))
    if "variant" in rows:
        both = both[both["variant"] == "exact"]
    off = []
    for name in BY_RATIO:
        if name in rows:
            ratio = both[name] / both[f"{name}_run"]
            off.append(np.log(ratio))
    for name in BY_DIFFERENCE:
        if name in rows:
            off.append(both[name] - both[f"{name}_run"])
    differences = np.abs(np.concatenate(off))
    largest = float(differences[np.isfinite(differences)].max(initial=0.0))
    allowed = TOLERANCES[decoder.dtype]
    if largest > allowed:
        what = (
            "the measurement failed its own check: two inputs measured again by themselves give "
            "different numbers"
        )
        step = "report the model and the versions: the same input gives other numbers each time"
        raise InputsMeetError(
            what, got=f"off by {largest:.2g}", allowed=f"at most {allowed:g}", next_step=step
        )
    return f"again={largest:.1e}"


def measure_proved(
    measure: Callable[..., Any],
    decoder: Decoder,
    inputs: Sequence[Any],
    *,
    options: dict[str, Any],
    alone: dict[str, Any],
) -> tuple[Any, str]:
    """What `measure` (inputs, options) gives of all inputs, and what `runs` keeps of its second
    pass.

    `alone`: the options under which each input is in a batch of its own.

    Raises InputsMeetError where a model gives other numbers each time.
    """

    def of_one(each: Any) -> pd.DataFrame:
        return _extract_rows(measure([each], **alone))

    measured = measure(inputs, **options)
    try:
        return measured, repeat_pass(decoder, inputs, of_one, _extract_rows(measured))
    except InputsMeetError:
        measured = measure(inputs, **{**options, **alone})
        return measured, f"{repeat_pass(decoder, inputs, of_one, _extract_rows(measured))} alone"


def _extract_rows(measured: Any) -> pd.DataFrame:
    rows: pd.DataFrame = getattr(measured, "layers", measured)
    return rows
