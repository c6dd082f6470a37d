"""Files read together are what they are alone; and what only one of them has wrong is said of that one."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from conftest import SHA, layer, run, table

from thermostats.errors import DataError
from thermostats.tables import reading, store

TEXTS = ("plain", 'a "quoted" word', "a, comma", "two\nlines", "ünïcode", "", " NA ", "x" * 3000)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Prompts, one a file, with every text that CSV has to quote; and gains with missing values."""
    for number, text in enumerate(TEXTS):
        row = {"prompt_set": f"s{number}", "prompt_id": "a", "text": text, "text_sha256": SHA, "complexity": None}
        store.save(table("prompts", row), "prompts", tmp_path / "measured" / "prompts" / f"{number}.csv")
        one = run(f"lab/m{number}")
        rows = [layer(one, n, 1.0 + 1 / (3 * n), name) for n in (1, 2) for name in "ab"]
        rows[0] |= {"gain_block": None, "missing": "left out"}
        store.save(table("layers", *rows), "layers", tmp_path / "measured" / "layers" / f"{one['run_id']}.csv")
    return tmp_path


@pytest.mark.parametrize("name", ["prompts", "layers"])
@pytest.mark.parametrize("at_once", [1, 300, 2**20])
def test_together_is_as_alone(name: str, at_once: int, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", at_once)
    paths = store.files(name, many)
    alone = store.validate(pd.concat([store.read(path, name) for path in paths]), name)
    pd.testing.assert_frame_equal(store.load(name, many), alone, check_exact=True)
    assert len(alone) == len(TEXTS) * (4 if name == "layers" else 1)


DAMAGE = {
    "half a line": (lambda content: content[:-9], None),
    "open quote": (lambda content: content + b'"', "."),
    "other header": (lambda content: b"x" + content, "columns of table layers are not as declared"),
    "no number": (lambda content: content.replace(b"1.3333333333333333", b"many"), "'many' is not a float64"),
    "no UTF-8": (lambda content: content.replace(b"left out", b"\xff"), "not UTF-8"),
    "a cell more": (lambda content: content[:-1] + b",1\n", "."),
    "empty": (lambda content: b"", "columns of table layers"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_named_as_when_it_is_read_alone(how: str, many: Path) -> None:
    damage, said = DAMAGE[how]
    path = store.files("layers", many)[3]
    path.write_bytes(damage(path.read_bytes()))
    try:
        store.read(path, "layers")
        alone = None
    except DataError as error:
        alone = error
    if alone is None:
        assert said is None
        assert len(store.load("layers", many)) <= 4 * len(TEXTS)
        return
    with pytest.raises(DataError, match=said) as found:
        store.load("layers", many)
    assert (str(found.value), Path(found.value.where).name) == (str(alone), path.name)


def test_of_some_runs_only_files_that_may_hold_them_are_read(many: Path) -> None:
    paths = store.files("layers", many)
    paths[0].rename(paths[0].with_name("by-hand.csv"))
    paths[1].write_bytes(b"damaged")
    wanted = paths[2].stem
    found = store.load("layers", many, runs={wanted})
    assert set(found["run_id"]) == {wanted, paths[0].stem}


@pytest.fixture
def plain(tmp_path: Path) -> list[Path]:
    """Eight files of four rows of layers each, as they are saved, all of a size."""
    head = ",".join(store.dtypes("layers"))
    paths = [tmp_path / f"{number}.csv" for number in range(8)]
    for number, path in enumerate(paths):
        lines = [f"r{number},{n},a,last,,1.3333333333333333,,,,,,,,left out" for n in range(1, 5)]
        path.write_text("\n".join([head, *lines]) + "\n")
    return paths


def read_all(paths: list[Path]) -> tuple[list[int], list[Path]]:
    """Rows of each table that comes of files of layers, and the files that were read alone."""
    alone: list[Path] = []

    def read(path: Path) -> pd.DataFrame:
        alone.append(path)
        return pd.DataFrame()

    frames = reading.read_all(paths, store.dtypes("layers"), read)
    return [len(frame) for frame in frames], alone


def test_sound_files_are_parsed_together_as_many_as_fit(plain: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    paths = plain
    assert read_all(paths) == ([4 * len(paths)], [])
    size = paths[0].stat().st_size
    assert {path.stat().st_size for path in paths} == {size}
    monkeypatch.setattr(reading, "AT_ONCE", 3 * size)
    assert read_all(paths) == ([16, 16], [])
    monkeypatch.setattr(reading, "AT_ONCE", 3 * size - 1)
    assert read_all(paths) == ([12, 12, 8], [])
    assert read_all([]) == ([], [])


ODD = {
    "a quote": lambda content: content.replace(b"left out", b'"left out', 1),
    "a carriage return": lambda content: content.replace(b"left out", b'"left\r out"'),
    "a zero": lambda content: content.replace(b"left out", b"left\0out"),
    "half a line": lambda content: content[:-1],
    "another header": lambda content: content.replace(b"gain_block", b"gain", 1),
    "a folder": None,
}


@pytest.mark.parametrize("how", ODD)
def test_a_file_that_may_change_how_others_are_read_is_read_alone(how: str, plain: list[Path]) -> None:
    paths = plain
    change = ODD[how]
    if change is None:
        paths[3].unlink()
        paths[3].mkdir()
    else:
        paths[3].write_bytes(change(paths[3].read_bytes()))
    counts, alone = read_all(paths)
    assert alone == [paths[3]]
    assert sorted(counts) == [0, 4 * (len(paths) - 1)]


def test_quotes_that_close_are_no_reason_to_read_alone(plain: list[Path]) -> None:
    paths = plain
    paths[3].write_bytes(paths[3].read_bytes().replace(b"left out", b'"left, out"'))
    assert read_all(paths) == ([4 * len(paths)], [])


@pytest.mark.parametrize("change", [(b",1.3333333333333333,", b",many,"), (b"left out", b'"left\nout"')])
def test_what_cannot_be_parsed_as_a_row_a_line_is_read_one_by_one(
    plain: list[Path], change: tuple[bytes, bytes]
) -> None:
    paths = plain
    paths[3].write_bytes(paths[3].read_bytes().replace(*change))
    counts, alone = read_all(paths)
    assert (counts, alone) == ([0] * len(paths), paths)


def test_an_empty_cell_of_a_number_is_missing_and_of_a_text_is_empty() -> None:
    frame = pd.read_csv(
        io.StringIO("run_id,tied_embeddings,n_layers,value\n,,,\nNA,True,1,0.1\nnan,False,2,1e-3\n"),
        **reading.options({"run_id": "str", "tied_embeddings": "boolean", "n_layers": "Int64", "value": "float64"}),
    )
    assert frame["run_id"].tolist() == ["", "NA", "nan"]
    assert frame["tied_embeddings"].tolist() == [pd.NA, True, False]
    assert frame["n_layers"].tolist() == [pd.NA, 1, 2]
    assert frame["value"].isna().tolist() == [True, False, False]
    for word in ("NA", "true", "1.5"):
        with pytest.raises((ValueError, TypeError)):
            pd.read_csv(io.StringIO(f"n_layers\n{word}\n"), **reading.options({"n_layers": "Int64"}))
