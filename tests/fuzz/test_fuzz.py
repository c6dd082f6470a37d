"""A short version of `make fuzz`, and inputs by Hypothesis; figures of long ones are in benchmarks/results/fuzz.md."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fuzz import VALUES, Tally, limits, mutate, one_input, place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import CONFIG, SHAPES, Reader, readers, safetensors

from thermostats.errors import DataError
from thermostats.measurement.checkpoint import read_safetensors
from thermostats.tables import bounded

READERS = readers()
NAMES = [name for name in READERS if not name.startswith("published")]
JSON = [name for name in NAMES if READERS[name].file.endswith((".json", ".jsonl"))]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(VALUES)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
)


def sound(tally: Tally) -> None:
    assert tally.faults == {}
    assert tally.inputs > 0


@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_or_accepts_what_it_is_given(name: str) -> None:
    tally = mutate(READERS[name], inputs=40, seed=3, seconds=0.7)
    sound(tally)


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_accepts_its_seeds(name: str) -> None:
    if name in ("findings", "rows as JSON lines", "sidecars"):
        pytest.skip("its seeds are not whole ones")
    tally = Tally(name)
    with place(READERS[name]) as folder:
        one_input(READERS[name], READERS[name].seeds[0], folder, tally)
    assert (tally.accepted, tally.faults) == (1, {})


@pytest.mark.parametrize("name", NAMES)
@given(content=st.binary(max_size=300))
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_bytes(name: str, content: bytes) -> None:
    tally = Tally(name)
    with place(READERS[name]) as folder:
        one_input(READERS[name], content, folder, tally)
    sound(tally)


@pytest.mark.parametrize("name", JSON)
@given(tree=TREES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_trees(name: str, tree: Any) -> None:
    tally = Tally(name)
    with place(READERS[name]) as folder:
        one_input(READERS[name], json.dumps(tree).encode(), folder, tally)
    sound(tally)


@given(changes=st.dictionaries(st.sampled_from([*CONFIG, "head_dim", "text_config", "auto_map"]), LEAVES, max_size=3))
@settings(max_examples=25)
def test_configurations(changes: dict[str, Any]) -> None:
    tally = Tally("model config")
    with place(READERS["model config"]) as folder:
        one_input(READERS["model config"], json.dumps({**CONFIG, **changes}).encode(), folder, tally)
    sound(tally)


LIES: dict[str, dict[str, Any]] = {
    "a length beyond the file": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]},
    "a length below its shape": {"dtype": "F32", "shape": [100], "data_offsets": [0, 4]},
    "offsets that run backwards": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]},
    "offsets below zero": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]},
    "offsets that are no numbers": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]},
    "three offsets": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]},
    "another's bytes": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    "an unknown dtype": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]},
    "a dtype of another width": {"dtype": "F64", "shape": [4], "data_offsets": [0, 16]},
    "a dtype that is a list": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
    "a shape below zero": {"dtype": "F32", "shape": [-1, -4], "data_offsets": [0, 16]},
    "a shape of fractions": {"dtype": "F32", "shape": [4.0], "data_offsets": [0, 16]},
    "a shape of truths": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
    "a shape of a million dimensions": {"dtype": "F32", "shape": [1] * 1_000_000, "data_offsets": [0, 4]},
    "a shape that overflows": {"dtype": "F32", "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]},
    "a shape beyond memory": {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 2**64]},
    "no shape": {"dtype": "F32", "data_offsets": [0, 4]},
}


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_refused_quickly(tmp_path: Path, lie: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(SHAPES, **{"wpe.weight": LIES[lie]}))
    began = time.perf_counter()
    with limits(), pytest.raises(DataError) as caught:
        read_safetensors(path)
    assert time.perf_counter() - began < 5
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("length", [0, 1, 7, 2**31, 2**63, 2**64 - 1])
def test_headers_of_a_false_length_are_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + safetensors(SHAPES)[8:])
    with limits(), pytest.raises(DataError):
        read_safetensors(path)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    header = (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    )
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(DataError, match="twice"):
        read_safetensors(path)


BOMBS = {
    "model config": bounded.CONFIG,
    "shard index": bounded.INDEX,
    "prompts as text": bounded.PROMPTS,
    "rows as CSV": bounded.ROWS,
    "specs as JSON lines": bounded.PROMPTS,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_of_a_terabyte_is_refused_before_it_is_read(name: str) -> None:
    reader = READERS[name]
    with place(reader) as folder, limits():
        with (folder / reader.file).open("wb") as stream:
            stream.truncate(10**12)
        began = time.perf_counter()
        with pytest.raises(DataError, match=rf"1000000000000 bytes.*at most {BOMBS[name]}"):
            reader.call(folder / reader.file)
    assert time.perf_counter() - began < 10


@pytest.mark.slow
@pytest.mark.parametrize("unit", [b'"%07d":{},', b'"%07d":[[]],', b'"%07d":"",'])
def test_the_largest_header_fits_time_and_memory(tmp_path: Path, unit: bytes) -> None:
    text = b"{" + b"".join(unit % number for number in range(bounded.INDEX // (len(unit) + 4)))[:-1] + b"}"
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    began = time.perf_counter()
    with limits(), pytest.raises(DataError):
        read_safetensors(path)
    assert time.perf_counter() - began < 10


def test_the_fuzzer_sees_what_is_wrong(tmp_path: Path) -> None:
    def careless(path: Path) -> None:
        content = path.read_bytes()
        if content == b"hang":
            while True:
                pass
        if content == b"write":
            (path.parent / "new").write_bytes(b"")
        json.loads(content)

    reader = Reader("careless", "a.json", (b"{}",), careless)
    tally = Tally("careless")
    with limits():
        one_input(reader, b"{}", tmp_path, tally)
        assert tally.faults == {}
        one_input(reader, b"{", tmp_path, tally)
        one_input(reader, b"write", tmp_path, tally)
    assert any("JSONDecodeError" in fault for fault in tally.faults)
    assert any("the disk changed" in fault for fault in tally.faults)


def test_the_fuzzer_sees_a_hang_and_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fuzz

    monkeypatch.setattr(fuzz, "SECONDS", 1)

    def hang(_path: Path) -> None:
        while True:
            pass

    def flood(_path: Path) -> None:
        bytearray(3 * 1024**3)

    for name, call in (("Hang", hang), ("MemoryError", flood)):
        tally = Tally(name)
        with limits():
            one_input(Reader(name, "a", (b"",), call), b"", tmp_path, tally)
        assert any(fault.startswith(name) for fault in tally.faults), tally.faults
