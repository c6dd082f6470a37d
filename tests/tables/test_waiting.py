"""Joins of many rows: rows of runs wait in files for their turn, and nothing else is different."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from conftest import layer, make_store, model, run, snapshot, table

from thermostats.errors import DataError
from thermostats.tables import incoming, sealed_runs, store, waiting
from thermostats.tables.join import Joined, join

MODELS = ("lab/one", "lab/two", "lab/three")
RUNS = [
    run(name, source=source, prompt_set="", prompt_sha="")
    for name in MODELS
    for source in ("mine", "others")
]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than four rows of runs wait, in groups of at least two."""
    monkeypatch.setattr(waiting, "MANY", 4)
    monkeypatch.setattr(waiting, "GROUP", 2)


def rows() -> list[pd.DataFrame]:
    """Rows of layers in two tables that share every run, norms, and what they refer to."""
    halves = [
        table("layers", *(layer(each, number, 1.0 + number / 64, "") for each in RUNS[::step]))
        for number, step in ((1, 1), (2, -1), (3, 1))
    ]
    norms = {"layer": 1, "head": "", "spectral_norm": 2.0, "frobenius_norm": 4.0, "stable_rank": 4}
    weights = [
        {"run_id": each["run_id"], "matrix": matrix, **norms}
        for each in RUNS
        for matrix in ("W_V", "W_O")
    ]
    models = [model(name) for name in MODELS]
    return [
        pd.concat(halves[:2]),
        table("weights", *weights),
        halves[2],
        table("models", *models),
        table("runs", *RUNS),
    ]


def count(done: Sequence[Joined]) -> list[tuple[object, ...]]:
    return [
        (each.table, each.added, each.unchanged, each.replaced, each.unstated, each.unread)
        for each in done
    ]


def join_at_once(sources: list[pd.DataFrame], folder: Path, **options: bool) -> list[Joined]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "MANY", 10**6)
        return join(sources, data=folder, **options)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("large", [2, 10**6])
def test_a_join_in_turns_does_what_one_at_once_does(
    tmp_path: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_runs, "LARGE", large)
    turns, once = make_store(tmp_path / "turns"), make_store(tmp_path / "once")
    sources = rows()
    before = snapshot(turns)
    dry = join(sources, data=turns, dry_run=True)
    assert snapshot(turns) == before
    done = join(sources, data=turns)
    assert count(dry) == count(done) == count(join_at_once(sources, once))
    assert {each.table: each.added for each in done} == {
        "models": 3,
        "runs": 6,
        "layers": 18,
        "weights": 12,
    }
    assert snapshot(turns) == snapshot(once)
    suffixes = {path.suffix for path in (turns / "measured" / "layers").iterdir()}
    assert (".parquet" in suffixes) == (large == 2)
    again = join(sources, data=turns)
    assert {each.table: each.unchanged for each in again} == {
        each.table: each.added for each in done
    }
    assert snapshot(turns) == snapshot(once)


@pytest.mark.usefixtures("few")
def test_a_turn_has_whole_models_and_every_row_has_one() -> None:
    held = waiting.Waiting()
    for frame in rows():
        name = "models" if "heritage" in frame else "runs" if "source" in frame else ""
        name = name or ("weights" if "matrix" in frame else "layers")
        held.add(name, store.validate(frame, name), "")
    first, *turns = held.split_turns(table("runs", *RUNS))
    assert set(first) == {"models", "runs"} and len(turns) == 3
    of = {each["run_id"]: each["model_id"] for each in RUNS}
    for turn in turns:
        assert set(turn) == {"layers", "weights"}
        assert len(turn["layers"]) == 6 and len(turn["weights"]) == 4
        assert len({of[run_id] for frame in turn.values() for run_id in frame["run_id"]}) == 1


@pytest.mark.usefixtures("few")
def test_rows_that_occur_twice_count_once_and_with_other_values_are_refused(
    small_store: Path,
) -> None:
    sources = rows()
    done = join([*sources, sources[0]], data=small_store)
    assert [each.added for each in done if each.table == "layers"] == [18]
    before = snapshot(small_store)
    other = sources[0].assign(gain_block=1.5)
    with pytest.raises(DataError, match="holds a key twice"):
        join([*sources, other], data=small_store)
    assert snapshot(small_store) == before


@pytest.mark.usefixtures("few")
def test_what_is_wrong_in_the_last_turn_leaves_the_folder_as_it_was(small_store: Path) -> None:
    before = snapshot(small_store)
    sources = rows()
    last = sources[2]["run_id"] == RUNS[-1]["run_id"]
    sources[2] = sources[2].assign(layer=sources[2]["layer"].where(~last, 99))
    with pytest.raises(DataError, match="a layer is beyond the model's last, in 1 row"):
        join(sources, data=small_store, accept=True)
    assert snapshot(small_store) == before
    sources = rows()
    sources[2] = sources[2].assign(gain_block=sources[2]["gain_block"].where(~last, 900.0))
    with pytest.raises(DataError, match="these rows are hardly what they say"):
        join(sources, data=small_store)
    assert snapshot(small_store) == before


@pytest.mark.usefixtures("few")
def test_rows_of_several_turns_are_replaced_in_a_file_that_they_share(tmp_path: Path) -> None:
    folders = [make_store(tmp_path / name) for name in ("turns", "once")]
    for folder in folders:
        join_at_once(rows(), folder)
        own = store.load("layers", folder)
        shared = own[own["run_id"].isin([each["run_id"] for each in RUNS])]
        store.save(shared, "layers", folder / "layers.csv")
        for run_id in shared["run_id"].unique():
            (folder / "measured" / "layers" / f"{run_id}.csv").unlink()
    new = [frame.assign(gain_block=frame["gain_block"] + 0.5) for frame in rows()[:3:2]]
    done = join(new, data=folders[0], replace=True)
    assert count(done) == count(join_at_once(new, folders[1], replace=True))
    assert [each.replaced for each in done] == [18]
    assert snapshot(folders[0]) == snapshot(folders[1])


@pytest.mark.parametrize("at_once", [20, 40, 10**6])
def test_a_file_is_read_alike_whatever_is_parsed_at_once(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\ufeff\nname,value\n" + "".join(f"name {i},{i}.5\n" for i in range(30)))
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'é' * 30},1\n")
    monkeypatch.setattr(incoming, "AT_ONCE", at_once)
    frame = incoming.read(path)
    assert list(frame) == ["name", "value"] and len(frame) == 31
    assert frame["name"].tolist()[-1] == "é" * 30 and frame["value"].tolist()[7] == "7.5"
    path.write_bytes(path.read_bytes() + b"\xff,1\n")
    with pytest.raises(DataError, match="file is damaged"):
        incoming.read(path)
