"""Residual gains and next-token distributions of a loaded model: what hooks record of a pass, and
the tables of it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thermostats.errors import ThermostatsError
from thermostats.measurement.batching import Progress, TokenisedPrompt
from thermostats.measurement.forward import (
    Batch,
    Decoder,
    call,
    convert_to_array,
    find_mixer,
    find_submodule,
    hook_entry,
    hook_exit,
    make_batches,
    pad_prompts,
    prepare_model,
    track_layers,
    trim_head_input,
)
from thermostats.measurement.lookup import select_decoder_config
from thermostats.measurement.model_class import Architecture
from thermostats.measurement.readings import POST_NORM, is_read_centred
from thermostats.measurement.resources import check_batches
from thermostats.tables.schemas import TABLES

Record = dict[str, Tensor]
"""Per quantity one tensor: norms and products (L × rows × tokens), `spread` (L × rows × prompts in
the row) and `final_norm` (rows × tokens); NaN where the module was not called, and beyond the
patches of a later stage."""

SUBBLOCKS = ("attention_in", "attention_out", "attention_write", "mlp_in", "mlp_out", "mlp_write")
SUMS = ("attention_sum", "mlp_sum")
"""Of post-norm blocks: what the norm behind a sub-block reads, x + f(x)."""
CENTRED = ("norm_in_centred", "norm_out_centred", "attention_write_centred", "mlp_write_centred")
"""Of models whose norms subtract the mean: norms of P x_(l-1), P x_l and of P times what is
written, P = I − 11ᵀ/d."""
PER_TOKEN = ("norm_in", "norm_out", "product", *SUBBLOCKS, *SUMS, *CENTRED)


def _convert_wide(x: Tensor) -> Tensor:
    """float32 at least."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def measure_norms(x: Tensor, rows: int) -> Tensor:
    """‖x(t)‖₂ over the last axis, accumulated in float32 or wider, as (rows × tokens); windows one
    behind the other."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=wide)
    return lengths.reshape(rows, -1)


def centre_vectors(x: Tensor) -> Tensor:
    """P x = x − mean(x) over the last axis, in float32 or wider."""
    wide = _convert_wide(x)
    return wide - wide.mean(-1, keepdim=True)


def measure_mean_cosine(x: Tensor, norm: Tensor, weights: Tensor) -> Tensor:
    """Mean pairwise cosine of the token vectors that have weight 1: (‖Σ x/‖x‖‖² − m) / (m(m − 1)).

    `x` (rows × tokens × d), `norm` (rows × tokens), `weights` (rows × prompts × tokens); one number
    per row and prompt.
    """
    m = weights.sum(-1)
    directions = _convert_wide(x).reshape(*norm.shape, -1)
    shares = (weights / norm.unsqueeze(1)).to(norm.dtype)
    total = torch.bmm(shares, directions)
    pairs = m * (m - 1)
    return (total.square().sum(-1) - m) / pairs


def _list_subblocks(block: nn.Module, entry: Architecture) -> list[tuple[str, str, str, str, str]]:
    """Name of each sub-block that a block has, its module, and the modules and scale of its
    output."""
    mixer = (
        find_mixer(block, entry),
        entry.attention_out,
        entry.attention_write,
        entry.attention_scale,
    )
    both = {"attention": mixer, "mlp": (entry.mlp, entry.mlp_out, entry.mlp_write, entry.mlp_scale)}
    subblocks: list[tuple[str, str, str, str, str]] = []
    for part, modules in both.items():
        if modules[0]:
            subblocks.append((part, *modules))
    return subblocks


def _hook_subblocks(
    stack: ExitStack,
    block: nn.Module,
    entry: Architecture,
    keep: Callable[..., None],
    *,
    centring: bool,
) -> None:
    """Until the stack is closed, keep (name, tensor) of what the sub-blocks of a block read and
    write."""
    for part, place, out, write, scale in _list_subblocks(block, entry):
        read = find_submodule(block, place, entry)
        written = find_submodule(block, out or place, entry)
        factor = attrgetter(scale)(block) if scale else None
        hook_entry(stack, read, partial(keep, f"{part}_in"))
        hook_exit(stack, written, partial(keep, f"{part}_out"))
        if write:
            hook_exit(stack, find_submodule(block, write, entry), partial(keep, f"{part}_write"))
        if scale:
            hook_exit(stack, written, partial(keep, f"{part}_write", scale=factor))
        if centring:
            of_write = partial(keep, f"{part}_write_centred", scale=factor, of=centre_vectors)
            hook_exit(stack, find_submodule(block, write, entry) if write else written, of_write)
    for name, norm in zip(SUMS, entry.norm_after, strict=False):
        hook_entry(stack, find_submodule(block, norm, entry), partial(keep, name))


@dataclass(eq=False)
class Recorder:
    """What hooks of a pass put into its record, block by block.

    What a sub-block reads and writes is taken call by call, one behind the other where it is called
    on a part of the tokens; where the calls of a block are not all of its tokens once, its place is
    NaN.
    """

    record: Record
    members: Tensor
    """Rows × prompts in the row × tokens: 1 on the tokens of each prompt but its first."""
    now: Callable[[], int]
    """The block that runs, from 0."""
    centring: bool
    """Norms subtract the mean."""
    stream: Tensor | None = None
    """What was last seen between blocks."""
    tokens: dict[str, int] = field(default_factory=dict)
    """Tokens of the block seen so far, by name."""
    weights: dict[torch.device, Tensor] = field(default_factory=dict)
    """`members` on every device."""

    def measure_row_norms(self, x: Tensor) -> Tensor:
        """Norms of the rows' tokens."""
        return measure_norms(x, self.members.shape[0])

    def put(self, name: str, values: Tensor) -> None:
        """Values of the block that runs, or of the final norm."""
        place = self.record[name]
        if name != "final_norm":
            place = place[self.now()]
        place[:, : values.shape[1]] = values

    def keep(
        self,
        name: str,
        x: Tensor,
        scale: Tensor | None = None,
        *,
        of: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Norms of what a sub-block reads or writes, behind those of its earlier calls."""
        x = x if scale is None else scale * x
        norm = self.measure_row_norms(x if of is None else of(x))
        first = self.tokens.get(name, 0)
        last = first + norm.shape[1]
        self.tokens[name] = last
        place = self.record[name][self.now()][:, first:last]
        place[:] = norm[:, : place.shape[1]]

    def record_input(self, x: Tensor) -> None:
        """What a block reads, whose norms are those that the block before left where it is the same
        tensor."""
        same_tensor = x is self.stream
        before = self.now() - 1
        norm = self.record["norm_out"][before] if same_tensor else self.measure_row_norms(x)
        self.put("norm_in", norm)
        if self.centring:
            if same_tensor:
                centred = self.record["norm_out_centred"][before]
            else:
                centred = self.measure_row_norms(centre_vectors(x))
            self.put("norm_in_centred", centred)
        self.stream = x
        self.tokens.clear()

    def leave(self, x: Tensor) -> None:
        """What a block writes, against what it read."""
        assert self.stream is not None  # noqa: S101
        before = self.stream.to(x.device)
        norm = self.measure_row_norms(x)
        self.put("norm_out", norm)
        if self.centring:
            self.put("norm_out_centred", self.measure_row_norms(centre_vectors(x)))
        self.put("product", torch.einsum("btd,btd->bt", _convert_wide(before), _convert_wide(x)))
        weights = self._build_weights(x.device)[..., : norm.shape[1]]
        self.record["spread"][self.now()] = measure_mean_cosine(x, norm, weights)
        self.stream = x
        for name, n in self.tokens.items():
            if n != norm.shape[1]:
                self.record[name][self.now()] = torch.nan

    def _build_weights(self, device: torch.device) -> Tensor:
        if device not in self.weights:
            self.weights[device] = self.members.to(device)
        return self.weights[device]


def _make_empty_record(decoder: Decoder, members: Tensor) -> Record:
    """A record of NaN."""
    L = len(decoder.blocks)
    shape = (members.shape[0], members.shape[2])
    wide = torch.float64 if decoder.dtype == torch.float64 else torch.float32
    options: dict[str, Any] = {"dtype": wide, "device": members.device}
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(PER_TOKEN, (L, *shape))
    shapes |= {"spread": (L, *members.shape[:2]), "final_norm": shape}
    return {name: torch.full(each, torch.nan, **options) for name, each in shapes.items()}


@contextmanager
def record_batch(decoder: Decoder, members: Tensor) -> Iterator[Record]:
    """Record, while open, the forward pass of one batch; `members` as `Recorder` has them.

    The record holds norm_in, norm_out, product (⟨x_(l-1), x_l⟩), spread (anisotropy of x_l without
    the first token), the norms of `SUBBLOCKS`, and final_norm (‖norm_f(x_L)‖). It is made before
    the pass, so that nothing small that stays lies between the large tensors that come and go, and
    their memory can be used again.
    """
    record = _make_empty_record(decoder, members)
    with track_layers(decoder.blocks) as now, ExitStack() as stack:
        recorder = Recorder(record, members, now, is_read_centred(decoder.entry, decoder.config))
        for block in dict.fromkeys(decoder.blocks):
            hook_entry(stack, block, recorder.record_input)
            _hook_subblocks(stack, block, decoder.entry, recorder.keep, centring=recorder.centring)
            hook_exit(stack, block, recorder.leave)
        if decoder.final_norm is not None:
            hook_exit(
                stack,
                decoder.final_norm,
                lambda x: recorder.put("final_norm", recorder.measure_row_norms(x)),
            )
        yield record


Array = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

Places = Mapping[str, int | slice]
"""Position → the token it is at, or the tokens that it is a mean over."""
RATIOS = {
    "gain_block": ("norm_out", "norm_in"),
    "gain_attention": ("attention_out", "attention_in"),
    "gain_mlp": ("mlp_out", "mlp_in"),
    "write_attention": ("attention_write", "norm_in"),
    "write_mlp": ("mlp_write", "norm_in"),
    "gain_sum_attention": ("attention_sum", "norm_in"),
    "gain_sum_mlp": ("mlp_sum", "mlp_in"),
    "gain_read": ("norm_out_centred", "norm_in_centred"),
    "centred_write_attention": ("attention_write_centred", "norm_in_centred"),
    "centred_write_mlp": ("mlp_write_centred", "norm_in_centred"),
}
"""Column: numerator and denominator among the recorded norms; `gain_sum` is of post-norm blocks
alone."""
SINGLE = {"norm_in": "norm_in", "read_norm": "norm_in_centred"}
"""Column: the recorded norm that it is."""
OF_READING = ("read_norm", "gain_read", "centred_write_attention", "centred_write_mlp")
"""Columns that post-norm blocks have not."""
SOURCES = {
    **RATIOS,
    **{name: (norm,) for name, norm in SINGLE.items()},
    "cosine": ("product", "norm_in", "norm_out"),
    "anisotropy": ("norm_out",),
}
SIGNED = ("cosine", "anisotropy")
COLUMNS = [name for name in TABLES["layers"].columns if name != "run_id"]


@dataclass(frozen=True)
class Measured:
    """Frames with the columns of the tables of these names, without run_id; `outputs` is None where
    not asked for."""

    layers: pd.DataFrame
    summaries: pd.DataFrame
    """normed_gain = ‖norm_f(x_L)‖ / n_(L-1) at `last`, of an image at `cls`, where the model has a
    final norm."""
    outputs: pd.DataFrame | None


def measure_gains(
    decoder: Decoder,
    prompts: Sequence[TokenisedPrompt],
    *,
    decode: Callable[[int], str] | None = None,
    token_budget: int | None = None,
    progress: Progress | None = None,
    packed: bool = True,
) -> Measured:
    """Residual norms of every block on every prompt, and with `decode` (token id to text) the
    outputs too.

    `packed`: prompts may stand one after the other in one row. Without `decode` the head is not run
    at all.

    Raises UsageError for prompts that cannot be measured and ThermostatsError where memory does not
    suffice or the model has no head that outputs could come from.
    """
    dtype = str(decoder.dtype).removeprefix("torch.")
    rows = []
    summaries = []
    outputs = []
    done = 0
    with prepare_model(decoder.model):
        waiting = deque(make_batches(decoder, prompts, token_budget, packed=packed))
        check_batches(decoder, waiting, outputs=decode is not None)
        while waiting:
            batch = waiting.popleft()
            ids = [prompts[i].prompt_id for i in batch.indices]
            with record_batch(decoder, batch.mark_members()) as record:
                logits = None if decode is None else _read_logits(decoder, batch)
                if decode is None:
                    call(decoder.base, batch)
            arrays = {
                name: _extract_array(decoder, record, name) for name in _list_quantities(decoder)
            }
            if batch.positions is not None and not np.isfinite(arrays["norm_out"]).all():
                waiting.appendleft(
                    pad_prompts(decoder, prompts, batch.indices)
                )  # 0 × inf: it spoils the whole row
                continue
            of_layers, of_summaries = _build_batch_rows(decoder, batch, ids, record, arrays)
            rows += of_layers
            summaries += of_summaries
            if logits is not None and decode is not None:
                outputs.append(build_output_rows(ids, logits, decode, dtype))
            done += len(ids)
            if progress is not None:
                progress(done, len(prompts))
    table = pd.concat(outputs).sort_values("prompt_id", ignore_index=True) if outputs else None
    return Measured(build_layers_frame(rows), _build_summaries(summaries), table)


def _list_quantities(decoder: Decoder) -> tuple[str, ...]:
    """Quantities that a model's columns are made of."""
    left_out = CENTRED if decoder.entry.norm_after else SUMS
    return tuple(name for name in PER_TOKEN if name not in left_out)


def _build_batch_rows(
    decoder: Decoder,
    batch: Batch,
    ids: Sequence[str],
    record: Record,
    arrays: Mapping[str, NDArray[np.float64]],
) -> tuple[list[Columns], list[tuple[str, str, float, str]]]:
    """Columns of `layers` of every prompt and stage of a batch, and rows of `summaries`, from what
    was recorded."""
    dtype = str(decoder.dtype).removeprefix("torch.")
    rows = []
    summaries = []
    spread = convert_to_array(record["spread"].flatten(1))
    final = convert_to_array(record["final_norm"])
    for k, (prompt_id, row, start, n) in enumerate(
        zip(ids, batch.rows, batch.starts, batch.lengths, strict=True)
    ):
        norms = {}
        for name, array in arrays.items():
            norms[name] = array[:, row, start : start + n]
        at = list_places(decoder.entry, batch.spans[k])
        for part, m, places in split_stages(decoder.entry, at, n):
            of_stage = {}
            for name, x in norms.items():
                of_stage[name] = x[part, :m]
            spread_here = spread[part, k]
            first = part.start or 0
            of_layers = build_layer_rows(prompt_id, m, of_stage, spread_here, dtype, places, first)
            rows.append(of_layers)
        token = at.get("last", at.get("cls"))
        if decoder.final_norm is not None and isinstance(token, int):
            before = norms["norm_in"][-1, token]
            ratio = final[row, start + token] / before
            summaries.append((prompt_id, "normed_gain", ratio, f"norm not finite in {dtype}"))
    return rows, summaries


def _read_logits(decoder: Decoder, batch: Batch) -> torch.Tensor:
    if decoder.base is decoder.model:
        step = "load it with AutoModelForCausalLM, or ask for gains alone"
        raise ThermostatsError(
            "outputs need a model with its head", where=type(decoder.model).__name__, next_step=step
        )
    with trim_head_input(decoder, batch):
        logits: torch.Tensor = call(decoder.model, batch).logits
    if logits.shape[1] != 1:
        step = (
            "correct `blocks` of the entry: its parent must be the module whose output the head "
            "reads"
        )
        what = "the head read more than the last token"
        got = f"{logits.shape[1]} tokens"
        raise ThermostatsError(what, where=type(decoder.model).__name__, got=got, next_step=step)
    return logits[:, 0]


def _extract_array(decoder: Decoder, record: Record, name: str) -> NDArray[np.float64]:
    """A recorded quantity (L × rows × tokens); writes default to outputs, centred norms to others
    where P = I."""
    multiplier = 1.0
    of_write = name.removesuffix("_centred").endswith("_write")
    if not is_read_centred(decoder.entry, decoder.config):
        name = name.removesuffix("_centred")
    if of_write:
        entry = decoder.entry
        if entry.residual_multiplier:
            multiplier = float(select_decoder_config(decoder.config)[entry.residual_multiplier])
        if not name.endswith("_centred") and not any(
            getattr(entry, name.replace("_write", x)) for x in ("_write", "_scale")
        ):
            name = name.replace("_write", "_out")
    return convert_to_array(record[name]) * abs(multiplier)


def _build_summaries(rows: Sequence[tuple[str, str, float, str]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["prompt_id", "estimand", "value", "missing"])
    lost = ~np.isfinite(table["value"].to_numpy(dtype=np.float64))
    table["value"] = table["value"].mask(lost)
    table["missing"] = table["missing"].where(lost, "")
    return table.sort_values(["prompt_id", "estimand"], ignore_index=True)


def list_places(entry: Architecture, span: slice) -> Places:
    """Positions of one prompt, whose means are over its own tokens: see the table `layers`."""
    if entry.reads == "image":
        return {**({"cls": 0} if entry.leading or entry.registers else {}), "patches": span}
    return {"first" if entry.causal else "cls": 0, "last": span.stop - 1, "mean": span}


def split_stages(entry: Architecture, places: Places, n: int) -> list[tuple[slice, int, Places]]:
    """Layers of each stage, its tokens and positions of an input of n tokens; of one width all
    layers are one stage.

    From stage to stage four patches become one.
    """
    if not entry.depths:
        return [(slice(None), n, places)]
    ends = np.cumsum((0, *entry.depths)).tolist()
    sizes = []
    for stage in range(len(entry.depths)):
        sizes.append(n // 4**stage)
    stages: list[tuple[slice, int, Places]] = []
    for a, b, m in zip(ends, ends[1:], sizes, strict=False):
        stages.append((slice(a, b), m, {"patches": slice(0, m)}))
    return stages


def build_layer_rows(
    prompt_id: str,
    n: int,
    norms: Mapping[str, Array],
    spread: Array,
    dtype: str,
    places: Places,
    first: int = 0,
) -> Columns:
    """Columns of one prompt's rows (layers × positions); `first`: layers before these.

    `norms` holds norm_in, norm_out, product, attention_in, attention_out, attention_write
    and the same for mlp, of post-norm blocks attention_sum and mlp_sum, of others those of
    `residual.CENTRED`, each (L × n), NaN throughout where a module was not called; `spread` (L) is
    the anisotropy. Where a position is a mean, norms and gains are geometric means over its tokens,
    the cosine an arithmetic one. The anisotropy belongs to the prompt and stands in the rows of
    every position.
    """
    L = len(spread)
    span = next(at for at in places.values() if isinstance(at, slice))
    with np.errstate(all="ignore"):
        per_token = {}
        for column, name in SINGLE.items():
            if name in norms:
                per_token[column] = norms[name]
        for column, (above, below) in RATIOS.items():
            if above in norms:
                per_token[column] = norms[above] / norms[below]
        values = {}
        for column, numbers in per_token.items():
            values[column] = _take_places(places, numbers, _take_geometric_mean)
        cosines = norms["product"] / (norms["norm_in"] * norms["norm_out"])
        values["cosine"] = _take_places(places, cosines, _take_mean)
    values["anisotropy"] = np.repeat(spread[:, None], len(places), axis=1)
    reasons: dict[tuple[int, int], dict[str, list[str]]] = {}
    for column, value in values.items():
        usable = np.isfinite(value) & ((value > 0) | (column in SIGNED))
        for layer, place in np.argwhere(~usable).tolist():
            at = span if column == "anisotropy" else list(places.values())[place]
            of_layer = {name: x[layer] for name, x in norms.items()}
            why = _describe_missing(column, of_layer, at, dtype)
            reasons.setdefault((layer, place), {}).setdefault(why, []).append(column)
        value[~usable] = np.nan
    if "read_norm" not in values:
        for layer, place in np.ndindex(L, len(places)):
            reasons.setdefault((layer, place), {})[POST_NORM] = list(OF_READING)
    shape = (L, len(places))
    missing = np.full(shape, "", dtype=object)
    for cell, by_reason in reasons.items():
        said = [f"{why}: {', '.join(lost)}" for why, lost in by_reason.items()]
        missing[cell] = "; ".join(said)
    layers = first + np.arange(1, L + 1)
    positions = np.array(list(places), dtype=object)
    unmeasured = {}
    for column in (*RATIOS, *SINGLE):
        unmeasured[column] = np.full(shape, np.nan)
    columns: Columns = {
        "layer": np.broadcast_to(layers[:, None], shape),
        "prompt_id": np.full(shape, prompt_id, dtype=object),
        "position": np.broadcast_to(positions, shape),
        "n_tokens": np.full(shape, n),
        "missing": missing,
        **unmeasured,
        **values,
    }
    return {name: column.ravel() for name, column in columns.items()}


def build_layers_frame(parts: Sequence[Columns]) -> pd.DataFrame:
    """All prompts' rows with the columns of the table `layers`, without run_id, in order of its
    key."""
    columns: Columns = {}
    for name in COLUMNS:
        columns[name] = np.concatenate([part[name] for part in parts])
    text = dict.fromkeys(("prompt_id", "position", "missing"), "str")
    frame = pd.DataFrame(columns).astype({"layer": "Int64", "n_tokens": "Int64", **text})
    return frame.sort_values(["layer", "prompt_id", "position"], ignore_index=True)


def _take_places(places: Places, x: Array, mean: Callable[[Array], Array]) -> Array:
    """Numbers of tokens (L × n) at each position, or their mean over its tokens (L × positions)."""
    columns = []
    for at in places.values():
        numbers = x[:, at]
        columns.append(mean(numbers) if isinstance(at, slice) else numbers)
    return np.stack(columns, axis=1)


def _take_mean(values: Array) -> Array:
    """Mean over tokens; NaN where there is none."""
    means = np.full(len(values), np.nan)
    if values.shape[1]:
        means = values.mean(axis=1)
    return means


def _take_geometric_mean(values: Array) -> Array:
    """The same of their logarithms."""
    means: Array = np.exp(_take_mean(np.log(values)))
    return means


def _describe_missing(column: str, norms: Mapping[str, Array], at: int | slice, dtype: str) -> str:
    """Why a value of one layer is missing; `norms` per token (n)."""
    tokens = at.stop - at.start if isinstance(at, slice) else 1
    if column == "anisotropy" and tokens < 2:
        return "fewer than three tokens"
    if tokens == 0:
        return "no token but the first"
    sources = SOURCES[column]
    if all(np.isfinite(norms[name][at]).all() for name in sources):
        return "norm of zero"
    if any(np.isnan(norms[name]).all() for name in sources):
        return f"not a number in {dtype}, or the module was not called on every token once"
    return f"norm not finite in {dtype}"


OUTPUTS = [name for name in TABLES["outputs"].columns if name != "run_id"]


def escape(token: str) -> str:
    """A token as text for a table: control characters and backslashes as in JSON, quotes as they
    are."""
    written = json.dumps(token, ensure_ascii=False)[1:-1]
    return written.replace('\\"', '"').replace("\x7f", "\\u007f")


def build_output_rows(
    prompt_ids: Sequence[str], logits: Tensor, decode: Callable[[int], str], dtype: str
) -> pd.DataFrame:
    """Table `outputs`, without run_id, from each prompt's last token's logits (batch × vocabulary).

    Values are missing where logits overflowed.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    log_p = wide.log_softmax(-1)
    p = log_p.exp()
    top_p, top = p.max(-1)
    terms = torch.where(p > 0, p * log_p, 0.0)
    columns = {
        "entropy": -terms.sum(-1),
        "top_probability": top_p,
        "logit_mean": wide.mean(-1),
        "logit_sd": wide.std(-1, correction=0),
        "logit_range": wide.amax(-1) - wide.amin(-1),
    }
    finite = torch.isfinite(wide).all(-1)
    rows: dict[str, Any] = {"prompt_id": prompt_ids, "top_token": [], "missing": []}
    for token, is_finite in zip(top.tolist(), finite.tolist(), strict=True):
        rows["top_token"].append(escape(decode(token)) if is_finite else "")
        rows["missing"].append("" if is_finite else f"logits not finite in {dtype}")
    for name, x in columns.items():
        numbers = torch.where(finite, x.double(), torch.nan)
        rows[name] = convert_to_array(numbers)
    return pd.DataFrame(rows, columns=OUTPUTS)
