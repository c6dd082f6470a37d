"""Whatever a file holds, its reader accepts it or refuses it with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import limited_memory
from damage import LEAVES, TREES, accept_or_refuse, damaged, place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import CONFIG, SHAPES, readers, safetensors

from thermostats.errors import DataError
from thermostats.measurement.checkpoint import read_safetensors
from thermostats.tables import folders

READERS = readers()
JSON = [
    name
    for name in READERS
    if READERS[name].file.endswith((".json", ".jsonl")) and "published" not in name
]
INCOMPLETE = ("findings", "rows as JSON lines", "sidecars")
"""Their seeds have the form alone."""
EXAMPLES = settings.default.max_examples
"""100 in the run of all tests."""


def some(share: float) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=max(1, round(EXAMPLES * share)), suppress_health_check=slow)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@some(0.2)
def test_a_damaged_file_is_accepted_or_refused(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(READERS[name].seeds), label="sound")
    accept_or_refuse(READERS[name], data.draw(damaged(seed), label="damaged"))


@pytest.mark.parametrize("name", [name for name in READERS if "published" not in name])
@given(content=st.binary(max_size=300))
@some(0.08)
def test_bytes_are_accepted_or_refused(name: str, content: bytes) -> None:
    accept_or_refuse(READERS[name], content)


@pytest.mark.parametrize("name", JSON)
@given(tree=TREES)
@some(0.08)
def test_any_json_is_accepted_or_refused(name: str, tree: Any) -> None:
    accept_or_refuse(READERS[name], json.dumps(tree).encode())


@given(
    changes=st.dictionaries(
        st.sampled_from([*CONFIG, "head_dim", "text_config", "auto_map"]), LEAVES, max_size=3
    )
)
@some(0.25)
def test_configurations(changes: dict[str, Any]) -> None:
    accept_or_refuse(READERS["model config"], json.dumps({**CONFIG, **changes}).encode())


@pytest.mark.parametrize(
    "name", [name for name in READERS if name not in INCOMPLETE and "published" not in name]
)
def test_a_reader_accepts_a_sound_file(name: str) -> None:
    with place(READERS[name]) as path:
        path.write_bytes(READERS[name].seeds[0])
        READERS[name].call(path)


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
    "a shape of a million dimensions": {
        "dtype": "F32",
        "shape": [1] * 1_000_000,
        "data_offsets": [0, 4],
    },
    "a shape that overflows": {"dtype": "F32", "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]},
    "a shape beyond memory": {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 2**64]},
    "no shape": {"dtype": "F32", "data_offsets": [0, 4]},
}


def refused(folder: Path, content: bytes, match: str | None = None) -> str:
    """What is said of a safetensors file."""
    path = folder / "model.safetensors"
    path.write_bytes(content)
    with limited_memory(), pytest.raises(DataError, match=match) as caught:
        read_safetensors(path)
    return str(caught.value)


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_refused_in_few_words(tmp_path: Path, lie: str) -> None:
    said = refused(tmp_path, safetensors(SHAPES, **{"wpe.weight": LIES[lie]}))
    assert str(tmp_path) in said
    assert len(said) < 1000


@pytest.mark.parametrize("length", [0, 1, 7, 2**31, 2**63, 2**64 - 1])
def test_headers_of_a_false_length_are_refused(tmp_path: Path, length: int) -> None:
    refused(tmp_path, length.to_bytes(8, "little") + safetensors(SHAPES)[8:])


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    entry = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    header = b"{" + entry + b"," + entry + b"}"
    refused(tmp_path, len(header).to_bytes(8, "little") + header + bytes(4), "twice")


@pytest.mark.slow
@pytest.mark.parametrize("unit", [b'"%07d":{},', b'"%07d":[[]],', b'"%07d":"",'])
def test_the_largest_header_fits_memory(tmp_path: Path, unit: bytes) -> None:
    text = (
        b"{"
        + b"".join(unit % number for number in range(folders.INDEX // (len(unit) + 4)))[:-1]
        + b"}"
    )
    refused(tmp_path, len(text).to_bytes(8, "little") + text)


LARGEST = {
    "model config": folders.CONFIG,
    "shard index": folders.INDEX,
    "prompts as text": folders.PROMPTS,
    "rows as CSV": folders.ROWS,
    "specs as JSON lines": folders.PROMPTS,
}


@pytest.mark.parametrize("name", LARGEST)
def test_a_file_of_a_terabyte_is_refused_before_it_is_read(name: str) -> None:
    with place(READERS[name]) as path, limited_memory():
        with path.open("wb") as stream:
            stream.truncate(10**12)
        with pytest.raises(DataError, match=rf"1000000000000 bytes.*at most {LARGEST[name]}"):
            READERS[name].call(path)
