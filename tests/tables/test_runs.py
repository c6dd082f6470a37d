"""Identity of a run: what was measured decides it, in one order, and nothing else does."""

from __future__ import annotations

import hashlib

import pytest
from conftest import run, table

from thermostats.errors import DataError
from thermostats.tables.runs import (
    MEASURED,
    RECORDED,
    check_run_ids,
    hash_prompts,
    mark_superseded,
    read_hashes,
    run_id,
)
from thermostats.tables.schemas import TABLES


def test_it_is_a_hash_of_the_values_that_were_measured_one_a_line() -> None:
    values = ["lab/é", "main", "float32", "eager", "two", "0", "1", "tests"]
    row = dict(zip(MEASURED, values, strict=True))
    expected = hashlib.sha256("lab/é\nmain\nfloat32\neager\ntwo\n0\n1\ntests".encode()).hexdigest()[
        :16
    ]
    assert run_id(row) == run_id(dict(reversed(row.items()))) == expected
    assert run_id({**row, **dict.fromkeys(RECORDED, "x")}) == expected
    assert {*MEASURED, "model_sha", *RECORDED} == TABLES["runs"].columns.keys() - {"run_id"}
    assert run_id({**row, "model_sha": ""}) == expected
    stated = hashlib.sha256(
        "lab/é\nmain\nfloat32\neager\ntwo\n0\n1\ntests\nabc".encode()
    ).hexdigest()[:16]
    assert run_id({**row, "model_sha": "abc"}) == stated
    assert {*RECORDED} == {
        name for name, each in TABLES["runs"].columns.items() if "recorded:" in each.description
    }


def test_a_run_gives_way_to_one_of_a_later_version_that_states_its_model() -> None:
    old, new = run(measure_version="1"), run(measure_version="2", model_sha="abc")
    other, elsewhere = run(measure_version="1", dtype="bfloat16"), run(measure_version="3")
    rows = table("runs", old, new, other, elsewhere)
    assert set(rows.loc[mark_superseded(rows), "run_id"]) == {old["run_id"]}
    assert not mark_superseded(table("runs", old, elsewhere)).any(), (
        "runs of others without a hash stand side by side"
    )


def test_a_set_of_prompts_is_the_hashes_of_its_texts_in_their_order() -> None:
    rows = [
        {"prompt_set": "s", "prompt_id": name, "text_sha256": letter * 64}
        for name, letter in (("b", "2"), ("a", "1"))
    ]
    prompts = table("prompts", *rows)
    expected = hashlib.sha256(("1" * 64 + "2" * 64).encode()).hexdigest()
    assert hash_prompts(prompts) == hash_prompts(prompts[::-1]) == expected


def test_an_id_that_does_not_follow_is_named_with_the_one_that_does() -> None:
    sound, other = run(), run("lab/other")
    check_run_ids(table("runs", sound, other))
    with pytest.raises(DataError, match="does not follow") as caught:
        check_run_ids(table("runs", sound, {**other, "run_id": "0123456789abcdef"}))
    assert caught.value.got == "run_id '0123456789abcdef' of model 'lab/other'"
    assert caught.value.allowed == repr(other["run_id"])


def test_a_hash_that_was_confirmed_stands_where_a_run_states_none() -> None:
    stated = [{"model_sha": "a", "confirmed_sha": "b"}, {"confirmed_sha": "b"}, {}]
    rows = [run(f"lab/{name}", **facts) for name, facts in zip("xyz", stated, strict=True)]
    runs = table("runs", *rows).set_index("model_id")
    assert read_hashes(runs).to_dict() == {"lab/x": "a", "lab/y": "b", "lab/z": ""}
