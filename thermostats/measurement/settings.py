"""Settings of a measurement other than its models, checked before tables and torch are loaded."""

from __future__ import annotations

import csv
import ctypes
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from thermostats.errors import UsageError, did_you_mean, unknown
from thermostats.tables.folders import layers, own_files, shipped

ENGINES = ("local", "ray")
Item = TypeVar("Item")
MADE = "images"
"""Prompt set of images that code makes (`images.py`)."""

RETRIES = 2
"""How often what fails by no fault of its own is tried again."""


@dataclass(frozen=True)
class EngineSettings:
    """How to run many specs."""

    name: str = "local"
    cpus: int | None = None
    """Threads that a model is measured with."""
    device: str = "auto"
    spread: bool = False
    """Models are spread over all devices."""
    address: str | None = None
    """Address of a Ray cluster that exists."""
    gpu_memory: int | None = None
    """Bytes of one GPU of a cluster; without it models run on CPUs there."""
    gpus: int = 1
    """GPUs that a model may have, where one does not hold it."""

    @property
    def on_gpus(self) -> bool:
        """Models run on GPUs of a cluster."""
        return self.gpu_memory is not None and self.device != "cpu"

    def __post_init__(self) -> None:
        """Raise UsageError for an engine that does not exist."""
        if self.name not in ENGINES:
            raise unknown("no such engine", self.name, ENGINES, where="--set engine")


def in_shard(items: Sequence[Item], which: str) -> list[Item]:
    """Every N-th item from the K-th on, for `K/N`, such as 2/8; each item is in one of the N shards.

    Raises UsageError for what is not K/N with 1 ≤ K ≤ N.
    """
    parts = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", which)
    if parts is None or not 1 <= (number := int(parts[1])) <= (count := int(parts[2])):
        raise UsageError("no such shard", where="--shard", got=repr(which), allowed="K/N, such as 1/8 to 8/8")
    return list(items[number - 1 :: count])


@dataclass(frozen=True)
class Setting:
    """A setting that `measure --set` takes."""

    kind: type
    words: str


SETTINGS = {
    "name": Setting(str, "of the model in the tables, such as me/my-model; for one model"),
    "device": Setting(str, "auto, cpu, cuda, cuda:1, …"),
    "device_map": Setting(str, "auto spreads a model over several devices"),
    "token_budget": Setting(int, "largest number of tokens in a batch; a smaller one needs less memory"),
    "trust_remote_code": Setting(bool, "yes runs code that comes with a model"),
    "older": Setting(str, "runs of an older version of this name: same (of these weights) or again (measure again)"),
    "engine": Setting(str, "local or ray"),
    "address": Setting(str, "of a running Ray cluster, as ray start printed it"),
    "cpus": Setting(int, "threads per model; by default 4, on Ray 1"),
    "gpus": Setting(int, "GPUs of Ray that one model may be spread over"),
    "gpu_memory": Setting(float, "of one GPU of the cluster, in GB; without it, CPUs are used"),
    "retries": Setting(int, f"how often what fails for external reasons is tried again; by default {RETRIES}"),
    "disk_budget": Setting(float, "disk space for downloaded models, in GB; measured ones are deleted"),
}
"""Settings that are seldom needed, by name."""
SPEC = ("name", "device", "device_map", "token_budget", "trust_remote_code", "older")
"""Those that say how one model is measured; the others say where many are."""
FLAGS = {"yes": True, "true": True, "no": False, "false": False}


def parsed(texts: Sequence[str]) -> dict[str, Any]:
    """Settings of texts such as `device=cuda:1`, by name; raises UsageError for others, naming the setting."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in SETTINGS:
            raise unknown("no such setting", name, SETTINGS, where="--set")
        settings[name] = _value(name, value.strip())
    return settings


def _value(name: str, text: str) -> Any:
    kind = SETTINGS[name].kind
    try:
        value = FLAGS[text.lower()] if kind is bool else kind(text)
        if text and (kind in (bool, str) or value >= (name != "retries")):
            return value
    except (KeyError, ValueError):
        pass
    allowed = {bool: "yes or no", str: "text", int: "a whole number from 1", float: "a number from 1"}[kind]
    raise UsageError("no such value of a setting", where="--set", got=f"{name}={text}", allowed=allowed)


def settings_of(chosen: Mapping[str, Any]) -> EngineSettings:
    """How many specs are run, by settings as `parsed` gives them."""
    named = {name: chosen[name] for name in ("cpus", "device", "address", "gpus") if name in chosen}
    spread, memory = chosen.get("device_map") is not None, in_bytes(chosen.get("gpu_memory"))
    return EngineSettings(chosen.get("engine", "local"), **named, spread=spread, gpu_memory=memory)


def in_bytes(gigabytes: float | None) -> int | None:
    """GB as bytes."""
    return None if gigabytes is None else int(gigabytes * 1e9)


NAMES = re.compile(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?")
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""Ways to spread a model over devices that accelerate knows by name."""
AMD = Path("/dev/kfd")
"""There with the driver of AMD's GPUs, which torch calls cuda too."""


def check_device(device: str, device_map: str | None = None) -> None:
    """Raise UsageError for the name of a device that there is on no machine, or no way to spread a model."""
    if NAMES.fullmatch(device) is None:
        raise UsageError(
            "no such device", where="--set device", got=device, allowed="auto, cpu, cuda, cuda:1, mps, xpu, …"
        )
    if device_map is not None and device_map not in MAPS:
        raise UsageError("no such device map", where="--set device_map", got=device_map, allowed=", ".join(MAPS))


def check_here(device: str) -> None:
    """Raise UsageError for a GPU that this machine lacks; of what only torch can tell, nothing is said."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (count := count_gpus()) is None or int(number or 0) < count:
        return
    what, allowed = ("no such GPU on this machine", ", ".join(["auto", "cpu", *map("cuda:{}".format, range(count))]))
    step = "leave out --set device: the first GPU is used if there is one, otherwise the processor"
    raise UsageError(what, where="--set device", got=device, allowed=allowed, next_step=step)


def count_gpus() -> int | None:
    """GPUs that NVIDIA's driver counts, 0 without the driver; None where another maker's driver is there."""
    if AMD.exists():
        return None
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return 0 if failed else count.value


def check_set(name: str, folder: Path) -> None:
    """Raise UsageError where there is neither a prompt set of this name in a data folder nor a file at that path."""
    if name == MADE or Path(name).exists():
        return
    try:
        sets = set_names(folder)
    except (OSError, UnicodeDecodeError, csv.Error):
        return  # what is wrong with the table is said by what reads it whole
    if name not in sets:
        raise no_such_set(name, sets)


def set_names(folder: Path) -> set[str]:
    """Names of the prompt sets in a data folder's CSV files."""
    names: set[str] = set()
    for path in [path for layer in layers(folder) for path in own_files("prompts", layer) if path.suffix == ".csv"]:
        with path.open(encoding="utf-8", newline="") as lines:
            names |= {row.get("prompt_set") or "" for row in csv.DictReader(lines)}
    return names


@cache
def is_shipped_set(name: str) -> bool:
    """Whether a prompt set of this name ships: it is meant, though a file or folder here may be called the same."""
    return name in set_names(shipped("data"))


def no_such_set(name: str, sets: Iterable[str]) -> UsageError:
    """The error for a name that is none of these sets' and no file's."""
    names = sorted({*sets, MADE} - {""})
    allowed = ", ".join([*names, "a file .txt, .csv or .jsonl", "a folder of images"])
    near = did_you_mean(name, names, "thermostats ls prompts")
    if " " in name:  # a text, where a name is meant
        near = f"a prompt itself stands in a list: thermostats.measure(…, prompts=[{name!r}])"
    return UsageError("no such prompt set or file", got=repr(name), allowed=allowed, next_step=near)
