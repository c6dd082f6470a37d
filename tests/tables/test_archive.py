"""Archives of many runs, and a folder of a user's own runs as an earlier version of the package
wrote it."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import layer, model, run, snapshot, table

import thermostats
from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.features import build_features
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES, list_key_columns, list_optional

USER = Path(__file__).parent / "user_folder"
"""A model of random weights measured, rows joined under other names, and two rows of the package
replaced."""
PACK = Path(__file__).parents[2] / "scripts" / "pack_runs.py"


def pack(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pack_runs.py", *map(str, arguments)])
        runpy.run_path(str(PACK), run_name="__main__")


@pytest.fixture
def packed(small_store: Path) -> Path:
    """The small store, its only run in an archive."""
    pack(small_store, "measured", "tests")
    return small_store


@pytest.mark.parametrize("name", [name for name in TABLES if name != "findings"])
def test_a_folder_that_an_earlier_version_wrote_loads_with_the_same_rows(name: str) -> None:
    loaded = store.load(name, USER).set_index(list_key_columns(name), drop=False).sort_index()
    paths = [USER / f"{name}.csv", *(USER / "measured" / name).glob("*.csv")]
    rows = [
        row
        for path in paths
        if path.is_file()
        for row in csv.DictReader(path.open(encoding="utf-8", newline=""))
    ]
    for row in rows:
        at = tuple(
            int(row[label]) if store.list_dtypes(name)[label] == "Int64" else row[label]
            for label in list_key_columns(name)
        )
        held = loaded.loc[at if len(at) > 1 else at[0]]
        for label, dtype in store.list_dtypes(name).items():
            if label not in row:  # added later
                assert pd.isna(held[label]) or held[label] == list_optional(name)[label]
            elif dtype == "str":
                assert held[label] == row[label]
            elif row[label] == "":
                assert pd.isna(held[label])
            else:
                assert held[label] == (
                    row[label] == "True" if dtype == "boolean" else float(row[label])
                )
    shipped = store.load(name)
    keys = {tuple(row[label] for label in list_key_columns(name)) for row in rows}
    beneath = {
        tuple(map(str, row))
        for row in shipped[list_key_columns(name)].itertuples(index=False, name=None)
    }
    assert len(loaded) == len(shipped) + len(keys - beneath)


def test_rows_are_the_same_once_their_runs_are_packed(small_store: Path) -> None:
    tables = {name: store.load(name, small_store) for name in TABLES}
    rows = build_features(small_store)
    pack(small_store, "measured", "others")
    assert not list(small_store.rglob("*.parquet"))
    pack(small_store, "measured", "tests")
    left = {"measured/layers.parquet", "measured/runs.parquet", "models.csv", "prompts.csv"}
    assert snapshot(small_store).keys() == left
    for name, frame in tables.items():
        pd.testing.assert_frame_equal(store.load(name, small_store), frame, check_exact=True)
    pd.testing.assert_frame_equal(build_features(small_store), rows, check_exact=True)


def test_what_is_measured_later_is_packed_beside_and_what_is_there_stays(packed: Path) -> None:
    later = run(dtype="bfloat16")
    join([table("runs", later), table("layers", layer(later, 2, 1.5))], data=packed)
    with pytest.raises(SystemExit, match=r"runs\.parquet.*layers\.parquet.*--release"):
        pack(packed, "measured", "tests")
    before = {
        name: content for name, content in snapshot(packed).items() if name.endswith(".parquet")
    }
    pack(packed, "measured", "tests", "--release", "0.2")
    after = snapshot(packed)
    assert {name: after[name] for name in before} == before
    assert {"measured/runs-0.2.parquet", "measured/layers-0.2.parquet"} <= set(after)
    assert (len(store.load("runs", packed)), len(store.load("layers", packed))) == (2, 7)


def test_rows_of_some_runs_and_without_some(packed: Path) -> None:
    (measured,) = store.load("runs", packed)["run_id"]
    assert store.has_run("layers", measured, packed) and not store.has_run(
        "weights", measured, packed
    )
    assert not store.has_run("layers", "0" * 16, packed)
    assert len(store.load("layers", packed, runs=[measured])) == 6
    assert (
        len(store.load("layers", packed, runs=["0" * 16]))
        == len(store.load("layers", packed, runs=[]))
        == 0
    )
    assert thermostats.load("layers", packed, without=measured).empty


def test_a_row_replaced_stands_over_that_of_the_archive_which_stays(packed: Path) -> None:
    before = {
        name: content for name, content in snapshot(packed).items() if name.endswith(".parquet")
    }
    other = table("layers", layer(run(), 2, 1.75))
    with pytest.raises(DataError, match=r"there 1\.5, new 1\.75"):
        join(other, data=packed)
    join(other, data=packed, replace=True)
    assert store.load("layers", packed).query("layer == 2")["gain_block"].tolist() == [1.75, 1.5]
    assert {name: snapshot(packed)[name] for name in before} == before


def test_a_damaged_archive_and_one_of_other_columns_are_named(packed: Path) -> None:
    path = packed / "measured" / "layers.parquet"
    content = path.read_bytes()
    for damage in (
        b"",
        b"PAR1",
        content[: len(content) // 2],
        content[:200] + b"\0" * 80 + content[280:],
    ):
        path.write_bytes(damage)
        with pytest.raises(DataError, match=r"layers\.parquet"):
            store.load("layers", packed)
        with pytest.raises(DataError, match=r"layers\.parquet"):
            build_features(packed)
    pq.write_table(pa.table({"run_id": ["a"], "layer": [1.0]}), path)
    with pytest.raises(DataError, match=r"not as declared.*layer double"):
        store.read_typed(path, "layers")
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"layers\.parquet"):
        store.load("layers", packed)


def test_values_that_are_hard_to_keep_come_back(tmp_path: Path) -> None:
    prompt = {"prompt_set": "s", "text": 'a, "b"\nc', "text_sha256": "0" * 64}
    rows = table(
        "prompts", {**prompt, "prompt_id": "b"}, {**prompt, "prompt_id": "a", "complexity": 3}
    )
    models = table("models", model(), {**model("lab/é"), "year": None, "tied_embeddings": False})
    gains = table(
        "layers",
        *(layer(run(), at, value) for at, value in enumerate((0.1 + 0.2, 5e-324, 1e308), 1)),
    )
    for name, frame in (("prompts", rows), ("models", models), ("layers", gains)):
        runpy.run_path(str(PACK))["write"](frame, name, tmp_path / f"{name}.parquet")
        pd.testing.assert_frame_equal(
            store.read_typed(tmp_path / f"{name}.parquet", name), frame, check_exact=True
        )
