"""Memory, time and devices that measuring a spec takes, and what this machine has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from thermostats.errors import ThermostatsError, TransientError
from thermostats.measurement.batching import BUDGET
from thermostats.measurement.checkpoint import open_checkpoint, read_geometry
from thermostats.measurement.empty_models import count_parameters
from thermostats.measurement.lookup import lookup, select_decoder_config
from thermostats.measurement.model_class import Architecture, Config
from thermostats.measurement.model_row import FEED_FORWARD
from thermostats.measurement.spec import MADE, WHAT, RunSpec, is_shipped_set
from thermostats.measurement.spectra import read_config

if TYPE_CHECKING:
    import torch

    from thermostats.measurement.forward import Batch, Decoder


WIDTHS = 10
"""Tensors of the stream's width alive at once in a block: stream, normed, q, k, v, rotated ones,
what is written."""
HIDDEN = 3
"""Tensors of the feed-forward layer's width: gate, up, their product."""
SCORES = 3
"""Matrices of attention weights in float32 at once, where they are computed at all: scores, masked
scores, weights."""
LOGITS = 4
"""Tensors over the vocabulary in float32: logits, log p, p, p log p."""
ITEM = {"float32": 4, "bfloat16": 2, "float16": 2}
BYTES_PER_TOKEN = 4
PROCESS = 600 * 2**20
"""Bytes of a process without its model: torch and transformers take 500 MiB once an empty model was
measured."""
RATE = {"cpu": 5e10, "accelerator": 3e13}
"""Multiplications and additions a second that a forward pass comes to, about: a desktop's
processor, one GPU."""


@dataclass(frozen=True)
class Place:
    """Where a model is measured: memory of one device in bytes (None: unknown), how many of them
    one model may have."""

    kind: str
    """cpu or accelerator."""
    each: int | None
    devices: int = 1

    @property
    def room(self) -> float:
        """Bytes that one model may have in all; a processor has one memory."""
        if self.each is None:
            return math.inf
        return self.each if self.kind == "cpu" else self.each * self.devices


@dataclass(frozen=True)
class Need:
    """Bytes that measuring a spec takes: of the weights at the precision asked for, and of the
    largest batch."""

    n_params: int
    weights: int
    activations: int

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.activations


def estimate_pass_bytes(
    entry: Architecture,
    config: Config,
    *,
    rows: int,
    n: int,
    item: int,
    eager: bool,
    prompts: int = 0,
) -> int:
    """About how many bytes one forward pass holds at most above the model, from the shapes alone.

    T(10 d + 3 d_ff) at the model's precision for T = rows · n tokens, padding included; 3·4·H·n² a
    row under eager attention; and 4·4·V for each of the prompts that the head is run on.
    """
    g = read_geometry(entry, config)
    decoder = select_decoder_config(config)
    stated = (int(decoder[key]) for key in FEED_FORWARD if decoder.get(key))
    d_ff = next(stated, 4 * g.d_model)
    width = max(g.d_model, g.n_heads * g.d_head)
    per_token = WIDTHS * width + HIDDEN * d_ff
    size = rows * n * per_token * item
    if eager:
        size += SCORES * 4 * rows * g.n_heads * n**2
    return size + LOGITS * 4 * prompts * int(decoder.get("vocab_size") or 0)


def estimate(folder: Path, spec: RunSpec, texts: Sequence[str], kind: str) -> Need:
    """Memory for a spec whose configuration is in a folder, on a device of a kind (cpu or
    accelerator).

    Raises ThermostatsError where the configuration is missing, damaged or of a model that cannot be
    measured.
    """
    is_folder = Path(spec.prompts).is_dir() and not is_shipped_set(spec.prompts)
    images = spec.prompts == MADE or is_folder
    config = read_config(folder, "image" if images else "text")
    entry = lookup(config)
    n_params = count_parameters(folder, entry.loader, **entry.set_values)
    if all(WHAT[name][0] == "weights" for name in spec.what):
        return Need(n_params, 0, 0)  # matrices are read one by one
    longest = max(map(estimate_tokens, texts))
    budget = spec.token_budget or BUDGET[kind]
    rows = max(1, min(len(texts), budget // longest))
    item = ITEM[spec.dtype]
    eager = "attention" in spec.what
    prompts = rows if "outputs" in spec.what else 0
    activations = estimate_pass_bytes(
        entry, config, rows=rows, n=longest, item=item, eager=eager, prompts=prompts
    )
    return Need(n_params, n_params * item, activations)


def estimate_seconds(n_params: int, texts: Sequence[str], passes: int, kind: str) -> float:
    """About how long so many forward passes over texts take: 2 n_params operations a token at the
    rate of the kind."""
    n_tokens = sum(map(estimate_tokens, texts))
    return 2 * n_params * n_tokens * passes / RATE[kind]


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, a special one in front."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN) + 1


def count_devices(need: Need, place: Place) -> int:
    """Devices that a model is spread over: 1 where it fits into one, else as many as hold it."""
    if place.each is None or place.kind == "cpu":
        return 1
    return max(1, math.ceil((need.total + PROCESS) / place.each))


def find_refusal(spec: RunSpec, need: Need, place: Place) -> ThermostatsError | None:
    """The error for a spec that cannot fit, with what would; None where it fits or nobody can
    tell."""
    if place.each is None or need.weights == 0 or need.total <= (room := place.room):
        return None
    would = []
    if spec.dtype == "float32":
        half = replace(need, weights=need.weights // 2, activations=need.activations // 2)
        if half.total <= room:
            would.append(f"--dtype bfloat16 ({format_gib(half.total)})")
    if place.kind != "cpu":
        would.append(
            f"--set device_map=auto over {count_devices(need, place)} devices of "
            f"{format_gib(place.each)}"
        )
    if need.activations > need.weights:
        would.append("a smaller --set token_budget=N or shorter prompts")
    if place.kind == "cpu":
        would.append(f"a machine with {format_gib(need.total + PROCESS)} free")
    else:
        would.append("--set device=cpu")
    would.append("--what weights, which reads only the files")
    what = "the model cannot fit into memory and was not loaded"
    needed = (
        f"{format_gib(need.weights)} of weights and {format_gib(need.activations)} of activations"
    )
    got = f"{needed}, {format_gib(room)} there are"
    where = f"{spec.model} in {spec.dtype}"
    return ThermostatsError(
        what, where=where, got=got, next_step="what would fit: " + "; ".join(would)
    )


def format_gib(n_bytes: float) -> str:
    """Bytes in GiB, as text."""
    return f"{n_bytes / 2**30:.3g} GiB"


def find_free_memory(device: torch.device) -> int | None:
    """Bytes free on a device: a GPU's own, or else the machine's or its control group's; None if
    unknown."""
    import psutil  # noqa: PLC0415
    import torch  # noqa: PLC0415

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    with suppress(
        OSError, KeyError, ValueError
    ):  # no control group, one of another version, or one without limit
        statistics = dict(
            line.split()
            for line in (group / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        most = int((group / "memory.max").read_text(encoding="ascii"))
        free = min(free, most - int(statistics["anon"]))
    return free


def check_memory(folder: Path, dtype: str, device: torch.device) -> None:
    """Raise ThermostatsError where the weights alone are more than the memory that is free."""
    tensors = open_checkpoint(folder).values()
    needed = ITEM[dtype] * sum(math.prod(tensor.shape) for tensor in tensors)
    free = find_free_memory(device)
    if free is not None and needed > free:
        where = f"{folder.name} in {dtype} on {device}"
        got = f"{format_gib(needed)} of weights, {format_gib(free)} free"
        step = "try --dtype bfloat16, --set device_map=auto over several devices, or --what weights"
        raise TransientError(
            "not enough memory for the model", where=where, got=got, next_step=step
        )


def estimate_activation_bytes(decoder: Decoder, batch: Batch, *, outputs: bool) -> int:
    """About how many bytes one forward pass holds at most above the model, see
    `estimate_pass_bytes`."""
    rows, n = batch.mask.shape
    settings = getattr(decoder.model, "config", None)
    attention = getattr(settings, "_attn_implementation", "eager")
    return estimate_pass_bytes(
        decoder.entry,
        decoder.config,
        rows=rows,
        n=n,
        item=decoder.dtype.itemsize,
        eager=attention == "eager",
        prompts=len(batch.indices) if outputs else 0,
    )


def check_batches(decoder: Decoder, batches: Sequence[Batch], *, outputs: bool = False) -> None:
    """Raise ThermostatsError if the largest batch would not fit into memory together with the
    model."""
    needs = [estimate_activation_bytes(decoder, batch, outputs=outputs) for batch in batches]
    needed = max(needs)
    free = find_free_memory(decoder.device)
    if free is not None and needed > free:
        rows, n = batches[needs.index(needed)].mask.shape
        what = "not enough memory for a batch of prompts"
        got = f"{rows} × {n} tokens take {format_gib(needed)}, {format_gib(free)} free"
        step = (
            "--set token_budget=512, shorter prompts, --dtype bfloat16, or no attention in --what"
        )
        options = ("--set", "token_budget=512")
        where = f"on {decoder.device}"
        raise TransientError(what, where=where, got=got, next_step=step, options=options)
