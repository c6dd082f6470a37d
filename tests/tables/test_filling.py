"""What joined rows need not say is filled in, and `ls columns` says the truth about it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import model, table

import thermostats
from thermostats.errors import DataError, ThermostatsError
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.mapping import NEEDED, OPTIONAL, REFUSED, hashes_of_sets, when_joined
from thermostats.tables.runs import prompt_sha
from thermostats.tables.schemas import TABLES

HELLO, BYE = (hashlib.sha256(text.encode()).hexdigest() for text in ("Hello", "Bye"))
PROMPTS = pd.DataFrame({"prompt_set": "own", "prompt_id": ["b", "a"], "text": ["Bye", "Hello"]})
GAINS = pd.DataFrame(
    {
        "layer": [1, 2],
        "prompt_id": "a",
        "position": "last",
        "gain_block": [1.1, 1.2],
        "model_id": "lab/small",
        "source": "own hooks",
        "prompt_set": "own",
    }
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    join(table("models", model()), data=tmp_path / "own")
    return tmp_path / "own"


def test_hashes_of_texts_and_of_their_set_are_filled_in(own: Path) -> None:
    join(PROMPTS, table="prompts", data=own)
    join(GAINS, table="layers", data=own)
    texts = store.load("prompts", own).query("prompt_set == 'own'")
    assert texts.set_index("prompt_id")["text_sha256"].to_dict() == {"a": HELLO, "b": BYE}
    (run,) = store.load("runs", own).query("source == 'own hooks'").to_dict("records")
    assert run["prompt_sha"] == hashlib.sha256((HELLO + BYE).encode()).hexdigest() == prompt_sha(texts)
    assert run["run_id"] == thermostats.run_id(run)
    again = join(GAINS, table="layers", data=own)
    assert [(done.table, done.added, done.unchanged) for done in again] == [("runs", 0, 1), ("layers", 0, 2)]
    thermostats.check(own)


def test_what_rows_say_themselves_stays(own: Path) -> None:
    join(PROMPTS.assign(text="", text_sha256=["0" * 64, "1" * 64]), table="prompts", data=own)
    assert set(store.load("prompts", own).query("prompt_set == 'own'")["text_sha256"]) == {"0" * 64, "1" * 64}
    join(GAINS.assign(prompt_sha="f" * 64), table="layers", data=own)
    assert set(store.load("runs", own).query("source == 'own hooks'")["prompt_sha"]) == {"f" * 64}


def test_a_set_whose_texts_nobody_knows_has_no_hash(own: Path) -> None:
    join(PROMPTS.drop(columns="text"), table="prompts", data=own)
    join(GAINS, table="layers", data=own)
    assert set(store.load("runs", own).query("source == 'own hooks'")["prompt_sha"]) == {""}
    assert hashes_of_sets(store.load("prompts", own))["own"] == ""
    with pytest.raises(DataError, match="prompt set that table prompts does not have"):
        join(GAINS.assign(prompt_set="other"), table="layers", data=own)


def test_a_run_is_filled_in_like_the_run_of_its_rows(own: Path) -> None:
    join(PROMPTS, table="prompts", data=own)
    join(GAINS[["model_id", "source", "prompt_set"]].head(1), table="runs", data=own)
    (run,) = store.load("runs", own).query("source == 'own hooks'").to_dict("records")
    assert [run[name] for name in ("revision", "dtype", "attention")] == ["main", "unstated", "unstated"]
    done = join(GAINS, table="layers", data=own)
    assert [(each.table, each.added, each.unchanged) for each in done] == [("runs", 0, 1), ("layers", 2, 0)]


@pytest.mark.parametrize("name", [name for name in TABLES if name not in REFUSED])
def test_rows_without_a_needed_column_are_refused_and_without_another_are_not_lacking_it(name: str, own: Path) -> None:
    columns = list(TABLES[name].columns)
    said = {label: when_joined(name, label) for label in columns}
    whole = pd.DataFrame({label: [""] for label in columns})
    if "run_id" in columns:
        whole = whole.drop(columns="run_id").assign(model_id="lab/small", source="x")
    for label in [label for label in columns if label in whole]:
        try:
            join(whole.drop(columns=label), table=name, data=own)
            message = ""
        except ThermostatsError as error:
            message = str(error)
        lacking = re.search(rf"without (run_id, )?{label}\.", message) or "which run they are of" in message
        assert bool(lacking) == (said[label] == NEEDED), (label, said[label], message)


def test_nothing_is_joined_to_the_findings() -> None:
    assert set(REFUSED) == {"findings"}
    assert {when_joined("findings", label) for label in TABLES["findings"].columns} == {""}
    assert when_joined("layers", "run_id") == "filled in from model_id and source"
    assert (when_joined("layers", "prompt_id"), when_joined("layers", "norm_in")) == (NEEDED, OPTIONAL)
    assert when_joined("runs", "dtype") == "filled in: unstated"
