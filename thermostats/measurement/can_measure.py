"""What can be measured of a model, what not and why, in which memory and time: from its configuration and headers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from thermostats.errors import DataError, ThermostatsError
from thermostats.measurement.architectures import STACKS, eager_is_wrong, lookup
from thermostats.measurement.checkpoint import open_checkpoint
from thermostats.measurement.engines.local import local_place
from thermostats.measurement.estimate import RATE, Need, estimate, refusal
from thermostats.measurement.hub import config_folder
from thermostats.measurement.model_row import stored_dtype
from thermostats.measurement.prompts import load_prompts
from thermostats.measurement.settings import MADE, Settings
from thermostats.measurement.spec import WHAT, RunSpec
from thermostats.measurement.spectra import read_config
from thermostats.measurement.switches import unsupported

TOKENS = 600
"""About how many tokens the prompt set `core` has; each costs two operations a weight."""


def can_measure(
    model: str, *, revision: str = "main", dtype: str = "float32", download: bool = True
) -> list[dict[str, Any]]:
    """One row for each kind of quantity: whether it can be measured here, why not, memory (GB) and time (s).

    A model of several stacks has such rows for each, named in the column `stack`.

    Nothing but the configuration is fetched of a model that is not on this machine.

    Raises ThermostatsError where the configuration cannot be had or read, and as `lookup` does for a class that is not
    measured.
    """
    folder = config_folder(model, revision=revision, download=download)
    whole = str(read_config(folder, "").get("model_type"))
    rows = []
    for reads in STACKS.get(whole, ("",)):
        stack = {"image": "vision"}.get(reads, reads)
        found = _of_stack(folder, reads or "text", RunSpec(model, revision, dtype))
        rows += [{"stack": stack, **row} if stack else row for row in found]
    return rows


def _of_stack(folder: Path, reads: str, asked: RunSpec) -> list[dict[str, Any]]:
    """Rows of the stack that reads ``text`` or ``image``; of a model of one stack, of the whole."""
    config = read_config(folder, reads)
    entry = lookup(config)
    place = local_place(Settings())
    quantised = ""
    try:
        stored_dtype(open_checkpoint(folder))
    except DataError as error:
        quantised = str(error) if "quantised" in str(error) else ""  # weights that are not here are no reason
    rows, lost = [], unsupported(config)
    for name in WHAT:
        spec = replace(asked, prompts=MADE if entry.reads == "image" else "core", what=(name,))
        why, need = quantised or lost.get(name, ""), None
        if name == "outputs" and not entry.has_head:
            why = "the model has no next-token distribution"
        elif name == "attention" and entry.depths:
            why = "the model attends within windows, whose graphs have no estimand here"
        elif name == "attention" and eager_is_wrong(entry, config):
            why = "eager attention is wrong for this model: it computes something else than its default one"
        if not why:
            need = _need(folder, spec, place.kind)
            refused = refusal(spec, need, place)
            why = "" if refused is None else str(refused)
        gigabytes = None if need is None else float(f"{need.total / 1e9:.3g}")
        seconds = None if need is None else float(f"{2 * need.n_params * TOKENS / RATE[place.kind]:.2g}")
        rows.append({"what": name, "measured": not why, "gigabytes": gigabytes, "seconds": seconds, "why": why})
    return rows


def _need(folder: Any, spec: RunSpec, kind: str) -> Need:
    texts = ["x" * 120]
    with suppress(ThermostatsError):
        texts = [str(text) for text in load_prompts(spec.prompts)["text"]]
    return estimate(folder, spec, texts, kind)
