"""Memory: what a model and a batch will take, what is free, and an error before it runs out."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from thermostats.errors import TransientError
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.estimate import pass_bytes
from thermostats.measurement.forward import Batch
from thermostats.measurement.modules import Decoder

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def memory_needed(folder: Path, dtype: str) -> int:
    """Bytes of the weights in memory at a precision, from the files' headers alone."""
    numbers = sum(math.prod(tensor.shape) for tensor in open_checkpoint(folder).values())
    return numbers * DTYPES[dtype].itemsize


def memory_available(device: torch.device) -> int | None:
    """Bytes free on a device: a GPU's own, else the machine's or its control group's; None where it cannot be told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")))
    except (OSError, StopIteration):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        statistics = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        if limit != "max":
            found.append(int(limit) - int(statistics["anon"]))
    except (OSError, KeyError, ValueError):
        pass  # no control group, or one of another version
    return min(found) if found else None


def check_memory(folder: Path, dtype: str, device: torch.device) -> None:
    """Raise ThermostatsError where the weights alone are more than the memory that is free."""
    needed, free = memory_needed(folder, dtype), memory_available(device)
    if free is not None and needed > free:
        raise TransientError(
            "not enough memory for the model",
            where=f"{folder.name} in {dtype} on {device}",
            got=f"{needed / 2**30:.1f} GiB of weights, {free / 2**30:.1f} GiB free",
            next_step="try --dtype bfloat16, --device-map auto over several devices, or --what weights, which reads "
            "the files alone",
        )


def activation_bytes(decoder: Decoder, batch: Batch, *, outputs: bool) -> int:
    """About how many bytes one forward pass holds at most above the model, see `estimate.pass_bytes`."""
    rows, n = batch.input_ids.shape
    return pass_bytes(
        decoder.entry,
        decoder.config,
        rows=rows,
        n=n,
        item=decoder.dtype.itemsize,
        eager=getattr(decoder.model.config, "_attn_implementation", "eager") == "eager",
        prompts=len(batch.indices) if outputs else 0,
    )


def check_batches(decoder: Decoder, batches: Sequence[Batch], *, outputs: bool = False) -> None:
    """Raise ThermostatsError where the largest batch would not fit beside the model."""
    needed, batch = max(((activation_bytes(decoder, b, outputs=outputs), b) for b in batches), key=lambda pair: pair[0])
    free = memory_available(decoder.device)
    if free is not None and needed > free:
        rows, n = batch.input_ids.shape
        raise TransientError(
            "not enough memory for a batch of prompts",
            where=f"on {decoder.device}",
            got=f"{rows} × {n} tokens take about {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free",
            next_step="try a smaller --token-budget, shorter prompts, or --dtype bfloat16; attention weights take "
            "H·n² numbers a prompt: leave out --what attention where prompts are long",
        )
