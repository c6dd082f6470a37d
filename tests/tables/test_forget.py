"""Taking a join back: what one source brought goes, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import layer, model, run, snapshot, table

from thermostats.errors import UsageError
from thermostats.tables import store
from thermostats.tables.join import forget, join


def brought(source: str, model_id: str = "lab/small") -> list[object]:
    theirs = run(model_id, source=source)
    return [
        table("runs", theirs),
        table("layers", *(layer(theirs, number, 1.25) for number in (2, 3))),
    ]


def test_a_join_that_is_taken_back_leaves_the_bytes_that_were_there(small_store: Path) -> None:
    before = snapshot(small_store)
    join(brought("others"), data=small_store)
    assert forget("others", data=small_store, dry_run=True) == {"layers": 2, "runs": 1}
    assert snapshot(small_store) != before
    assert forget("others", data=small_store) == {"layers": 2, "runs": 1}
    assert snapshot(small_store) == before


def test_models_go_with_the_source_of_their_facts_unless_another_run_is_of_them(
    small_store: Path,
) -> None:
    theirs = [{**model(f"me/{name}"), "source": "others"} for name in ("alone", "used")]
    join(
        [table("models", *theirs), *brought("others", "me/alone"), *brought("mine", "me/used")],
        data=small_store,
    )
    assert forget("others", data=small_store) == {"layers": 2, "runs": 1, "models": 1}
    assert set(store.load("models", small_store)["model_id"]) == {"lab/small", "me/used"}
    assert store.check(small_store)["runs"] == 2


def test_a_source_that_is_not_there_is_named_with_those_that_are(
    small_store: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no own rows of this source") as caught:
        forget("test", data=small_store)
    assert "tests" in caught.value.allowed and "tests" in caught.value.next_step
    with pytest.raises(UsageError, match="no such data folder"):
        forget("tests", data=tmp_path / "none")
    assert not (tmp_path / "none").exists()
