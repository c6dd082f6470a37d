"""Files that would fill memory are refused before they do: huge ones, and small ones that unpack to
much."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import limited_memory

from thermostats.errors import DataError
from thermostats.tables import folders, incoming, store
from thermostats.tables.features import build_features
from thermostats.tables.folders import list_own_files
from thermostats.tables.join import join


@pytest.fixture
def two_gigabytes() -> Iterator[None]:
    """Memory of 2 GB beyond what is in use."""
    if sys.platform != "linux":
        pytest.skip("memory is limited on Linux")
    with limited_memory():
        yield


def sparse(path: Path, size: int) -> Path:
    """A file of zeros that takes no room on the disk."""
    path.touch()
    os.truncate(path, size)
    return path


@pytest.mark.parametrize("name", ["layers", "prompts"])
def test_a_table_of_four_gigabytes_is_refused_unread(
    name: str, small_store: Path, two_gigabytes: None
) -> None:
    path = list_own_files(name, small_store)[0]
    sparse(path, 4 * 1024**3)
    for read in (lambda: store.load(name, small_store), lambda: store.check(small_store)):
        with pytest.raises(DataError, match="larger than files of its kind") as caught:
            read()
        assert str(path) in str(caught.value)
    if name != "prompts":
        with pytest.raises(DataError, match="larger than files of its kind"):
            build_features(small_store)


@pytest.mark.parametrize("ending", list(incoming.READERS))
def test_a_file_of_rows_of_four_gigabytes_is_refused_unread(
    ending: str, small_store: Path, tmp_path: Path, two_gigabytes: None
) -> None:
    with pytest.raises(DataError, match="larger than files of its kind"):
        join(sparse(tmp_path / f"rows{ending}", 4 * 1024**3), data=small_store)


@pytest.mark.parametrize(
    ("name", "text", "enough"),
    [
        ("a.csv", "a,b,c\n" + "1,2,3\n" * 4, 15),
        ("a.tsv", "a\tb\n" + "1\t2\n" * 4, 10),
        ("a.json", '[{"a":1,"b":2},{"a":1,"b":2}]', 3),
        ("a.jsonl", '{"a":1,"b":2}\n{"a":1,"b":2}\n', 4),
    ],
)
def test_cells_are_counted_before_they_are_unpacked(
    name: str, text: str, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(folders, "CELLS", enough)
    assert len(incoming.read(tmp_path / name)) > 1
    monkeypatch.setattr(folders, "CELLS", enough - 1)
    with pytest.raises(DataError, match=f"unpacks to more.*{enough} cells"):
        incoming.read(tmp_path / name)


def test_a_file_of_just_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for size in (0, 9, 10):
        path.write_bytes(b"x" * size)
        assert folders.read_bytes(path, 10) == b"x" * size
    for size in (11, 500):
        path.write_bytes(b"x" * size)
        with pytest.raises(DataError, match=f"{size} bytes.*at most 10 bytes"):
            folders.read_bytes(path, 10)


def test_a_file_that_does_not_tell_its_size_is_read_whole() -> None:
    if not Path("/proc/self/status").is_file():
        pytest.skip("no such file on this system")
    assert len(folders.read_bytes(Path("/proc/cpuinfo"), 10**6)) > 100
    with pytest.raises(DataError):
        folders.read_bytes(Path("/proc/cpuinfo"), 20)
