"""Identity of a run: what was measured decides it, in one order, and nothing else does."""

from __future__ import annotations

import hashlib

import pytest
from conftest import run, table

from thermostats.errors import DataError
from thermostats.tables.runs import RECORDED, check_run_ids, prompt_sha, run_id
from thermostats.tables.schemas import TABLES

ROW = {
    "model_id": "lab/é",
    "revision": "main",
    "dtype": "float32",
    "attention": "eager",
    "prompt_set": "two",
    "prompt_sha": "0",
    "measure_version": "1",
    "source": "tests",
}


def test_it_is_a_hash_of_the_values_one_a_line() -> None:
    text = "lab/é\nmain\nfloat32\neager\ntwo\n0\n1\ntests"
    assert run_id(ROW) == hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    assert run_id(dict(reversed(ROW.items()))) == run_id(ROW)


@pytest.mark.parametrize("label", ROW)
def test_every_value_decides(label: str) -> None:
    assert run_id({**ROW, label: "other"}) != run_id(ROW)


def test_what_is_recorded_beside_it_does_not() -> None:
    beside = {"special_tokens": "<s>", "versions": "torch=2", "device": "cpu", "seconds": 3.0, "measured_at": "now"} | {
        "proof": "value=0"
    }
    assert run_id({**ROW, **beside}) == run_id(ROW)
    assert tuple(beside) == RECORDED
    assert {*ROW, *beside} == TABLES["runs"].columns.keys() - {"run_id"}


def test_a_set_of_prompts_is_the_hashes_of_its_texts_in_their_order() -> None:
    rows = [
        {"prompt_set": "s", "prompt_id": name, "text_sha256": letter * 64} for name, letter in (("b", "2"), ("a", "1"))
    ]
    prompts = table("prompts", *rows)
    expected = hashlib.sha256(("1" * 64 + "2" * 64).encode()).hexdigest()
    assert prompt_sha(prompts) == prompt_sha(prompts[::-1]) == expected


def test_an_id_that_does_not_follow_is_named_with_the_one_that_does() -> None:
    sound, other = run(), run("lab/other")
    check_run_ids(table("runs", sound, other))
    with pytest.raises(DataError, match="does not follow") as caught:
        check_run_ids(table("runs", sound, {**other, "run_id": "0123456789abcdef"}))
    assert caught.value.got == "run_id '0123456789abcdef' of model 'lab/other'"
    assert caught.value.allowed == repr(other["run_id"])
