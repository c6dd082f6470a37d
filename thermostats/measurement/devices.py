"""Devices by name, and whether this machine has them: told without torch, which takes seconds to load."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

from thermostats.errors import UsageError

NAMES = re.compile(r"auto|cpu|mps|(cuda|xpu)(:[0-9]{1,3})?")
MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""Ways to spread a model over devices that accelerate knows by name."""
AMD = Path("/dev/kfd")
"""There with the driver of AMD's GPUs, which torch calls cuda too."""


def check_device(device: str, device_map: str | None = None) -> None:
    """Raise UsageError for the name of a device that there is on no machine, or no way to spread a model."""
    if NAMES.fullmatch(device) is None:
        raise UsageError("no such device", where="--device", got=device, allowed="auto, cpu, cuda, cuda:1, mps, xpu, …")
    if device_map is not None and device_map not in MAPS:
        raise UsageError("no such device map", where="--device-map", got=device_map, allowed=", ".join(MAPS))


def check_here(device: str) -> None:
    """Raise UsageError for a GPU that this machine lacks; of what only torch can tell, nothing is said."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (count := count_gpus()) is None or int(number or 0) < count:
        return
    raise UsageError(
        "there is no such GPU on this machine",
        where="--device",
        got=device,
        allowed=", ".join(["auto", "cpu", *(f"cuda:{i}" for i in range(count))]),
        next_step="leave --device out: the first GPU is taken where there is one, else the processor",
    )


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
