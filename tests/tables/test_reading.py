"""Files read together are what they are alone; and what only one of them has wrong is said of that one."""

from __future__ import annotations

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
