"""Devices and GPUs are checked before anything is loaded."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from thermostats.errors import UsageError
from thermostats.measurement import spec
from thermostats.measurement.spec import check_device, check_set, count_gpus, require_device


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:0", "xpu:12"])
def test_names_of_devices(device: str) -> None:
    check_device(device)
    for wrong in (device.upper(), f"{device}:", f"{device}:-1", f" {device}"):
        with pytest.raises(UsageError, match="no such device"):
            check_device(wrong)


class Driver:
    """NVIDIA's driver with so many GPUs, or an error."""

    def __init__(self, count: int, error: int = 0) -> None:
        self.count, self.error = count, error

    def cuInit(self, _: int) -> int:
        return self.error

    def cuDeviceGetCount(self, count: object) -> int:
        count._obj.value = self.count  # type: ignore[attr-defined]
        return 0


@pytest.mark.parametrize(
    ("driver", "count"), [(Driver(2), 2), (Driver(2, error=100), 0), (None, 0)]
)
def test_gpus_are_counted_by_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: Driver | None, count: int
) -> None:
    def library(name: str) -> Driver:
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", library)
    monkeypatch.setattr(spec, "AMD", tmp_path / "kfd")
    assert count_gpus() == count
    there = [
        "auto",
        "cpu",
        *(f"cuda:{number}" for number in range(count)),
        *(["cuda"] if count else []),
    ]
    for device in there:
        require_device(device)
    with pytest.raises(
        UsageError, match=f"no such GPU on this machine.*got cuda:{count}; allowed: auto, cpu"
    ):
        require_device(f"cuda:{count}")
    (tmp_path / "kfd").touch()
    assert count_gpus() is None
    require_device("cuda:7")


def test_a_damaged_table_of_prompts_is_told_by_what_reads_it_whole(small_store: Path) -> None:
    check_set("two", small_store)
    with pytest.raises(
        UsageError, match=r"got 'too'; allowed: images, two, a file .*did you mean two\?"
    ):
        check_set("too", small_store)
    (small_store / "prompts.csv").write_bytes(b"\xff\xfe")
    check_set("too", small_store)
