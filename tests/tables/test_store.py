"""The store: what is saved is what is loaded, and what is wrong is named."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import layer, model, run, table
from hypothesis import given, settings
from hypothesis import strategies as st

from thermostats.errors import DataError
from thermostats.tables import store
from thermostats.tables.folders import list_own_files
from thermostats.tables.schemas import TABLES

SHIPPED = store.find_shipped("data")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", TABLES)
def test_saving_what_was_loaded_gives_the_same_bytes(name: str) -> None:
    for path in list_own_files(name, SHIPPED):
        assert (
            path.suffix == ".parquet"
            or store.encode_csv(store.read_typed(path, name), name) == path.read_bytes()
        ), path


def test_rows_that_are_kept_in_memory_are_those_of_the_files_and_no_ones_to_change(
    small_store: Path,
) -> None:
    """A file of the same size and times is read again where its bytes are others."""
    before = store.load("layers", small_store)
    mine = store.load("layers", small_store)
    mine.loc[0, "gain_block"] = 9.0
    mine["norm_in"] = 7.0
    assert store.load("layers", small_store).equals(before)
    (path,) = list_own_files("layers", small_store)
    stat, lines = path.stat(), path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = lines[0].strip().split(",").index("gain_block")
    cells = lines[1].split(",")
    cells[place] = cells[place].translate(str.maketrans("123456789", "234567891"))
    path.write_text("".join([lines[0], ",".join(cells), *lines[2:]]), encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size
    rows = store.load("layers", small_store)
    assert rows["gain_block"].tolist() == [float(cells[place]), *before["gain_block"][1:]]


def test_shipped_tables_pass_their_check() -> None:
    counts = store.check(SHIPPED)
    assert set(counts) == set(TABLES)
    assert counts["models"] > 30


@given(values=st.lists(st.floats(min_value=5e-324, max_value=1.7e308), min_size=1, max_size=40))
@settings(max_examples=20)
def test_floats_survive_the_file_exactly(
    values: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    frame = table(
        "layers", *(layer(run(), number, value) for number, value in enumerate(values, 1))
    )
    path = tmp_path_factory.mktemp("float") / "layers.csv"
    store.save(frame, "layers", path)
    assert store.read_typed(path, "layers")["gain_block"].tolist() == values


@given(
    tokens=st.lists(
        st.text(st.characters(blacklist_categories=["Cs", "Cc"])), min_size=1, max_size=9
    )
)
@settings(max_examples=20)
def test_text_survives_the_file_exactly(
    tokens: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = ["null", "NA", *"1234567"][: len(tokens)]
    path = tmp_path_factory.mktemp("text") / "outputs.csv"
    rows = [
        {"run_id": "NA", "prompt_id": name, "top_token": token}
        for name, token in zip(names, tokens, strict=True)
    ]
    store.save(table("outputs", *rows), "outputs", path)
    read = store.read_typed(path, "outputs")[["run_id", "prompt_id", "top_token"]].to_dict(
        "records"
    )
    assert sorted(read, key=lambda row: row["prompt_id"]) == sorted(
        rows, key=lambda row: row["prompt_id"]
    )


@pytest.mark.parametrize(
    ("table_name", "old", "new", "words"),
    [
        ("layers", ",1.5,", ",-1.5,", ["gain_block", "-1.5", "above 0", "layer 2"]),
        ("layers", ",1.5,", ",much,", ["line 4, column gain_block: 'much' is not a number"]),
        ("layers", ",1.5,", ",inf,", ["gain_block", "infinite"]),
        ("layers", ",last,", ",end,", ["position", "'end'", "'last'"]),
        ("layers", ",2,a,", ",1,a,", ["twice", "layer 1"]),
        ("models", ",2020,", ",1920,", ["year", "1920", "at least 2017"]),
        ("models", ",2020,", ",2020.5,", ["line 2, column year: '2020.5' is not a whole number"]),
        (
            "models",
            ",True,",
            ",yes,",
            ["line 2, column tied_embeddings: 'yes' is not true or false"],
        ),
        ("models", "2840", "2841", ["n_params", "2841", "2840"]),
        ("runs", "float32", "float16", ["run_id"]),
        ("runs", "lab/small", "lab/none", ["model_id 'lab/none' @ 'main'"]),
        ("prompts", ",Plain", ",Plain,", ["prompts"]),
    ],
)
def test_damage_is_named_with_its_place(
    small_store: Path, table_name: str, old: str, new: str, words: list[str]
) -> None:
    path = list_own_files(table_name, small_store)[0]
    edit(path, old, new)
    with pytest.raises(DataError) as caught:
        store.check(small_store)
    for word in (*words, str(path) if "line" in words[0] else ""):
        assert word in str(caught.value)


def test_what_no_csv_file_can_hold_is_refused_and_the_rest_comes_back(tmp_path: Path) -> None:
    texts = ["a\rb", "a\nb", "a\r\nb", "\x1e", 'a"b', "a,b", " "]
    rows = [
        {"run_id": "r", "prompt_id": f"p{i}", "top_token": text} for i, text in enumerate(texts)
    ]
    path = tmp_path / "outputs.csv"
    store.save(table("outputs", *rows), "outputs", path)
    assert store.read_typed(path, "outputs")["top_token"].tolist() == texts
    with pytest.raises(DataError, match="holds characters that a CSV file cannot"):
        store.encode_csv(table("outputs", {**rows[0], "top_token": "a\x1e\r\nb"}), "outputs")


def test_of_some_runs_the_files_of_others_are_not_read(small_store: Path) -> None:
    other = run(source="elsewhere")
    place = small_store / "measured" / "layers"
    store.save(table("layers", layer(other, 1, 2.0)), "layers", place / f"{other['run_id']}.csv")
    (place / "0123456789abcdef.csv").write_text("damaged")
    wanted = {str(other["run_id"])}
    assert store.load("layers", small_store, runs=wanted)["gain_block"].tolist() == [2.0]
    assert store.load("layers", small_store, runs=set()).empty
    (place / "0123456789abcdeg.csv").write_text("damaged")  # named after no run: it may hold any
    with pytest.raises(DataError, match="columns of table layers"):
        store.load("layers", small_store, runs=wanted)


def test_what_a_row_refers_to_must_be_there() -> None:
    models = table("models", model(), model("lab/other"))
    store.check_reference(table("runs", run()), "runs", "model_id", models, "models")
    with pytest.raises(
        DataError, match="table runs refers to a row that table models does not have"
    ) as caught:
        store.check_reference(
            table("runs", run(revision="step1")), "runs", "model_id", models, "models"
        )
    assert caught.value.got == "model_id 'lab/small' @ 'step1'"
    assert caught.value.next_step.startswith("add it to models first: thermostats.join([dict(")
    rows = table("layers", layer({"run_id": "r"}, 1, 1.0))
    with pytest.raises(
        DataError,
        match=r"runs.* got run_id 'r'.* Next: add it to runs, for instance by thermostats join "
        r"FILES",
    ):
        store.check_reference(rows, "layers", "run_id", table("runs", run()), "runs")
    prompts = table("prompts", {"prompt_set": "two", "prompt_id": "a", "text_sha256": "0" * 64})
    store.check_prompts(table("runs", run(), run(prompt_set="")), prompts)
    with pytest.raises(DataError, match=r"refers to a prompt set.* got three, x"):
        store.check_prompts(table("runs", run(prompt_set="x"), run(prompt_set="three")), prompts)


@pytest.fixture
def longest_cell() -> Iterator[None]:
    """The longest cell that Python's reader takes, as it is before a library of the tests has
    raised it."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.mark.usefixtures("longest_cell")
def test_a_file_that_cannot_be_read_is_told_from_one_that_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="table cannot be read") as caught:
        store.read_typed(tmp_path, "layers")
    assert (caught.value.got, caught.value.where) == ("Is a directory", str(tmp_path))
    path = tmp_path / "layers.csv"
    for content, message in (
        (b"run_id\n\xc3\x28", "table is not UTF-8 text .*got byte 0xc3 at 7"),
        (b'"' + b"x" * 200_000, "table is damaged: field larger than"),
        (b"", "lacking run_id"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            store.read_typed(path, "layers")


def test_of_many_files_read_at_once_the_one_to_blame_is_named(small_store: Path) -> None:
    place = small_store / "measured" / "layers"
    others = [run(source=f"other {number}") for number in range(4)]
    for each in others:
        rows = table("layers", layer(each, 1, 2.0), layer(each, 2, 3.0))
        store.save(rows, "layers", place / f"{each['run_id']}.csv")
    before = len(store.load("layers", small_store))
    path = place / f"{others[2]['run_id']}.csv"
    content = path.read_bytes()
    for wrong, message in (
        (content[:-5], "damaged"),
        (content.replace(b",2.0,", b",much,"), "line 2, column gain_block: 'much' is not a number"),
        (content.replace(b"run_id", b"run", 1), "lacking run_id"),
        (content + b"\xff", "not UTF-8|damaged"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(DataError, match=message) as caught:
            store.load("layers", small_store)
        assert str(path) in str(caught.value)
    path.write_bytes(content.rstrip(b"\n"))
    assert len(store.load("layers", small_store)) == before
    path.write_bytes(content.replace(b"\n", b"\r\n"))
    assert len(store.load("layers", small_store)) == before
    path.write_bytes(content.replace(b",last,", b',"last",'))
    assert len(store.load("layers", small_store)) == before
