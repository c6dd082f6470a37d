"""The store: what is saved is what is loaded, and what is wrong is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import layer, model, run, snapshot, table
from hypothesis import given
from hypothesis import strategies as st

from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.schemas import TABLES, key

SHIPPED = store.shipped("data")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", TABLES)
def test_saving_what_was_loaded_gives_the_same_bytes(name: str) -> None:
    for path in store.files(name, SHIPPED):
        assert store.to_csv(store.read(path, name), name) == path.read_bytes(), path


def test_shipped_tables_pass_their_check() -> None:
    counts = store.check(SHIPPED)
    assert set(counts) == set(TABLES)
    assert counts["models"] > 30


@given(value=st.floats(min_value=5e-324, max_value=1.7e308))
def test_floats_survive_the_file_exactly(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    frame = table("layers", layer(run(), 1, value))
    path = tmp_path_factory.mktemp("float") / "layers.csv"
    store.save(frame, "layers", path)
    assert store.read(path, "layers")["gain_block"][0] == value


@given(token=st.text(st.characters(blacklist_categories=["Cs", "Cc"])))
def test_text_survives_the_file_exactly(token: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("text") / "outputs.csv"
    store.save(table("outputs", {"run_id": "NA", "prompt_id": "null", "top_token": token}), "outputs", path)
    assert store.read(path, "outputs").iloc[0][["run_id", "prompt_id", "top_token"]].tolist() == ["NA", "null", token]


def test_a_table_is_all_its_files_sorted_by_key(small_store: Path) -> None:
    layers = store.load("layers", small_store)
    assert len(layers) == 6
    assert layers[key("layers")].apply(tuple, axis=1).is_monotonic_increasing
    assert store.load("weights", small_store).columns.tolist() == list(TABLES["weights"].columns)


def test_check_counts_rows(small_store: Path) -> None:
    counts = store.check(small_store)
    assert (counts["models"], counts["runs"], counts["layers"], counts["weights"]) == (1, 1, 6, 0)


@pytest.mark.parametrize(
    ("table_name", "old", "new", "words"),
    [
        ("layers", ",1.5,", ",-1.5,", ["gain_block", "-1.5", "above 0", "layer 2"]),
        ("layers", ",1.5,", ",much,", ["line 4", "gain_block", "'much'"]),
        ("layers", ",1.5,", ",inf,", ["gain_block", "infinite"]),
        ("layers", ",last,", ",end,", ["position", "'end'", "'last'"]),
        ("layers", ",2,a,", ",1,a,", ["twice", "layer 1"]),
        ("layers", "gain_block", "gain", ["lacking gain_block", "unknown 'gain'"]),
        ("models", ",2020,", ",1920,", ["year", "1920", "at least 2017"]),
        ("models", "2840", "2841", ["n_params", "2841", "2840"]),
        ("runs", "float32", "float16", ["run_id"]),
        ("runs", "lab/small", "lab/none", ["model_id 'lab/none' @ 'main'"]),
        ("prompts", ",Plain", ",Plain,", ["prompts"]),
    ],
)
def test_damage_is_named_with_its_place(
    small_store: Path, table_name: str, old: str, new: str, words: list[str]
) -> None:
    edit(store.files(table_name, small_store)[0], old, new)
    with pytest.raises(DataError) as caught:
        store.check(small_store)
    for word in words:
        assert word in str(caught.value)


def test_a_row_without_its_run_or_model_is_named(small_store: Path) -> None:
    orphan = run("lab/unknown")
    store.save(table("runs", orphan), "runs", small_store / "measured" / "runs" / "x.csv")
    with pytest.raises(DataError, match="model_id 'lab/unknown' @ 'main'"):
        store.check(small_store)


def test_binary_and_truncated_files_are_damaged_not_read(small_store: Path) -> None:
    path = store.files("layers", small_store)[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        store.load("layers", small_store)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="lacking"):
        store.load("layers", small_store)


def test_wrong_use_is_told_from_damage(small_store: Path) -> None:
    with pytest.raises(UsageError, match="no such table"):
        store.load("layer", small_store)
    with pytest.raises(UsageError, match="no such data folder"):
        store.load("layers", small_store / "none")


def test_a_failed_write_leaves_the_file_as_it_was(small_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(small_store)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left on device"):
        store.save(table("models", model()), "models", small_store / "models.csv")
    assert snapshot(small_store) == before


def test_private_texts_fill_in_what_may_not_be_shipped(small_store: Path) -> None:
    prompts = store.load("prompts", small_store)
    assert (prompts["text"] == "").all()
    store.save(prompts.iloc[:1].assign(text="Hello"), "prompts", small_store / "private" / "prompts.csv")
    assert (store.load("prompts", small_store)["text"] == "Hello").all()


def test_import_is_quick_and_loads_neither_torch_nor_pymc() -> None:
    code = "import sys, thermostats; print(*(m for m in ('torch', 'pymc', 'pandas', 'matplotlib') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_every_column_has_a_meaning_and_every_key_exists() -> None:
    for name, schema in TABLES.items():
        assert set(key(name)) <= set(schema.columns), name
        assert all(column.description for column in schema.columns.values()), name


def test_saving_an_unsorted_frame_sorts_it(tmp_path: Path) -> None:
    rows = table("layers", *(layer(run(), number, 1.0) for number in (1, 2, 3)))
    assert store.to_csv(rows.iloc[::-1], "layers") == store.to_csv(rows, "layers")
    assert isinstance(store.validate(rows, "layers"), pd.DataFrame)
