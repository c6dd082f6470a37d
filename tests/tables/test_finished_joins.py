"""Files whose rows are there are known by their hash, unread; a file that changed on either side is
not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import layer, run, snapshot, table

from thermostats.errors import DataError, UsageError
from thermostats.tables import finished_joins, store
from thermostats.tables import join as module
from thermostats.tables.join import join
from thermostats.tables.remedies import JoinCall
from thermostats.tables.store import CACHE_VARIABLE


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of a run and of its layers, and a cache of their own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    measured = run(source="elsewhere")
    paths = [tmp_path / "runs.csv", tmp_path / "layers.csv"]
    store.save(table("runs", measured), "runs", paths[0])
    store.save(
        table("layers", *(layer(measured, number, 1.25) for number in (1, 2, 3))),
        "layers",
        paths[1],
    )
    return paths


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Sources that are read, as they are."""
    seen: list[Any] = []
    read = module.read

    def counted(source: Any) -> Any:
        seen.append(source)
        return read(source)

    monkeypatch.setattr(module, "read", counted)
    return seen


def counts(done: list[module.Joined]) -> list[tuple[str, int, int, int]]:
    return [(each.table, each.added, each.unchanged, each.replaced) for each in done]


UNCHANGED = [("runs", 0, 1, 0), ("layers", 0, 3, 0)]


def test_files_that_were_joined_are_not_read_again(
    small_store: Path, files: list[Path], reads: list[Any]
) -> None:
    assert counts(join(files, data=small_store)) == [("runs", 1, 0, 0), ("layers", 3, 0, 0)]
    assert reads == files
    before = snapshot(small_store)
    for options in ({}, {"dry_run": True}, {"replace": True, "accept": True}):
        again = join(files, data=small_store, **options)
        assert counts(again) == UNCHANGED and [each.files for each in again] == [(), ()]
    assert reads == files and snapshot(small_store) == before


def test_a_cache_that_cannot_be_written_is_done_without(
    small_store: Path,
    files: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    assert counts(join(files, data=small_store)) == [("runs", 1, 0, 0), ("layers", 3, 0, 0)]
    assert capsys.readouterr().err.count("the cache cannot be written") == 1


def test_what_is_said_of_them_or_in_them_otherwise_is_read(
    small_store: Path, files: list[Path], reads: list[Any]
) -> None:
    join(files, data=small_store)
    assert counts(join(files[1], data=small_store)) == [("layers", 0, 3, 0)]
    assert counts(join(files[1], table="layers", data=small_store)) == [("layers", 0, 3, 0)]
    assert len(reads) == 4
    files[1].write_bytes(files[1].read_bytes().replace(b"1.25", b"1.5"))
    with pytest.raises(DataError, match="already has 3 of these rows"):
        join(files, data=small_store)


def test_a_folder_that_was_written_to_since_is_looked_at(
    small_store: Path, files: list[Path], reads: list[Any]
) -> None:
    join(files, data=small_store)
    own = next(
        (small_store / "measured" / "layers").glob(f"{run(source='elsewhere')['run_id']}.csv")
    )
    content = own.read_bytes()
    own.write_bytes(content.replace(b"1.25", b"1.26"))
    with pytest.raises(DataError, match="already has 3 of these rows"):
        join(files, data=small_store)
    own.unlink()
    assert counts(join(files, data=small_store)) == [("runs", 0, 1, 0), ("layers", 3, 0, 0)]
    assert own.read_bytes() == content and len(reads) == 6


def test_a_run_file_cut_in_half_is_named_and_comes_back_by_the_same_join(
    small_store: Path, files: list[Path]
) -> None:
    join(files, data=small_store)
    whole = snapshot(small_store)
    own = small_store / "measured" / "layers" / f"{run(source='elsewhere')['run_id']}.csv"
    content = own.read_bytes()
    own.write_bytes(content[: len(content) - len(content.splitlines()[-1]) // 2])
    cut = snapshot(small_store)
    for attempt in (
        lambda: store.load("layers", small_store),
        lambda: join(files, data=small_store),
    ):
        with pytest.raises(DataError, match="damaged") as caught:
            attempt()
        assert str(own) in str(caught.value) and snapshot(small_store) == cut
    own.unlink()
    join(files, data=small_store)
    assert snapshot(small_store) == whole


@pytest.mark.parametrize("cache", ["off", "damaged", "closed"])
def test_without_a_cache_rows_are_compared(
    cache: str,
    small_store: Path,
    files: list[Path],
    reads: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if cache == "off":
        monkeypatch.setenv(CACHE_VARIABLE, "off")
    if cache == "closed":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    join(files, data=small_store)
    for path in (tmp_path / "cache").rglob("*.json"):
        path.write_text('{"state": 1')
    assert counts(join(files, data=small_store)) == UNCHANGED and len(reads) == 4


def test_rows_in_memory_have_no_hash(small_store: Path, files: list[Path]) -> None:
    frames = [
        store.read_typed(path, name) for path, name in zip(files, ("runs", "layers"), strict=True)
    ]
    assert finished_joins.hash_call(module.JoinCall(sources=frames)) == ""
    join(frames, data=small_store)
    assert counts(join(frames, data=small_store)) == UNCHANGED


def test_a_file_that_needed_a_mapping_is_known_without_it_and_no_other_is(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("block,prompt,growth\n1,a,1.25\n2,a,1.5\n")
    using = {
        "table": "layers",
        "columns": {"block": "layer", "prompt": "prompt_id", "growth": "gain_block"},
        "constants": {"model_id": run()["model_id"], "source": "hooks", "position": "last"},
    }
    assert counts(join(theirs, mapping=using, data=small_store))[1] == ("layers", 2, 0, 0)
    assert counts(join(theirs, data=small_store)) == [("runs", 0, 1, 0), ("layers", 0, 2, 0)]
    before = snapshot(small_store)
    with theirs.open("a") as stream:
        stream.write("3,a,1.5\n")
    with pytest.raises(UsageError, match="its columns do not match any table"):
        join(theirs, data=small_store)
    assert snapshot(small_store) == before


def test_a_file_with_our_columns_is_read_by_what_a_call_says_of_it(
    small_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    rows = tmp_path / "layers.csv"
    measured = run(source="elsewhere")
    store.save(table("layers", layer(measured, 1, 1.25)), "layers", rows)
    join(table("runs", measured), data=small_store)
    join(rows, table="layers", data=small_store)
    bare = JoinCall(sources=[rows], data=small_store)
    assert finished_joins.find_finished_rows(finished_joins.hash_call(bare), small_store) is None
