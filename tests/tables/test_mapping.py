"""From other people's columns to ours: what a mapping may say, what comes of rows under it, the
runs that they tell."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pandas as pd
import pytest

import thermostats
from thermostats.errors import DataError, ThermostatsError, UsageError
from thermostats.tables import store
from thermostats.tables.column_map import (
    NEEDED,
    OPTIONAL,
    REFUSED,
    ColumnMap,
    describe_requirement,
    load_map,
)
from thermostats.tables.join import join
from thermostats.tables.mapping import add_runs, map_rows
from thermostats.tables.runs import hash_prompts, run_id
from thermostats.tables.schemas import TABLES


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "map.toml").write_text(text, encoding="utf-8")
    return tmp_path / "map.toml"


def test_a_mapping_file_says_what_it_says(tmp_path: Path) -> None:
    text = """table = "layers"\nignore = ["a", 3]
    [columns]\nblock = "layer"\nwho = "model_id"
    [factors]\nnorm_in = 2\nseconds = 0.5
    [constants]\nposition = "last"\n"""
    columns, factors = {"block": "layer", "who": "model_id"}, {"norm_in": 2, "seconds": 0.5}
    expected = ColumnMap("layers", columns, factors, {"position": "last"}, ("a", "3"))
    assert load_map(written(tmp_path, text)) == expected
    assert load_map(str(written(tmp_path, 'table = "models"\nignore = "*"\n'))) == ColumnMap(
        "models", ignore="*"
    )


@pytest.mark.parametrize(
    ("text", "words", "got"),
    [
        ("", "the mapping names no table", "no table of ours has all columns that it names"),
        ('table = "layrs"', "the mapping names no table.*did you mean layers", "'layrs'"),
        ("table = 3", "table of the mapping is not valid", "3"),
        ('table = "layers"\ncolumns = "x"', "columns of the mapping is not valid", "'x'"),
        (
            'table = "layers"\n[columns]\na.b = "layer"',
            "columns .* not valid.*quote a name",
            "a = {'b': 'layer'}",
        ),
        (
            '[wide]\ncolumns = "l*"\nname = ["layer"]\nvalue = "gain"',
            "wide .* not valid",
            "name = ['layer']",
        ),
        ('table = "layers"\nfactors = []', "factors of the mapping is not valid", "[]"),
        ('table = "layers"\nconstants = 1', "constants of the mapping is not valid", "1"),
        ('table = "layers"\nignore = 1', "ignore of the mapping is not valid", "1"),
        ('table = "layers"\n[column]', "has no such entry.*did you mean columns", "'column'"),
        (
            'table = "layers"\n[columns]\na = "gain_blok"',
            "columns .* our columns.*mean gain_block",
            "'gain_blok'",
        ),
        (
            'table = "layers"\n[columns]\na = 1',
            "columns .* one of our.*thermostats ls columns layers",
            "1",
        ),
        (
            'table = "layers"\n[factors]\na = 1',
            "factors of the mapping is not one of our columns",
            "'a'",
        ),
        (
            'table = "models"\n[constants]\nseconds = 1',
            "constants .* one of our columns",
            "'seconds'",
        ),
        (
            'table = "layers"\n[factors]\nnorm_in = "1"',
            "a factor is a number for a column",
            "norm_in = '1'",
        ),
        (
            'table = "layers"\n[factors]\nnorm_in = true',
            "a factor is a number for a column",
            "norm_in = True",
        ),
        (
            'table = "layers"\n[factors]\nposition = 2',
            "a factor is a number for a column",
            "position = 2",
        ),
        ('table = "layers"\n[wide]\ncolumns = "l*"', r"\[wide\] lacks name", ""),
    ],
)
def test_a_mapping_that_says_what_cannot_be_is_refused(
    tmp_path: Path, text: str, words: str, got: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=words) as caught:
        load_map(path)
    assert (caught.value.got, caught.value.where) == (got, str(path))


TYPES = {
    "position": "one of 'last', 'first', 'mean', 'cls', 'patches', 'all', 'mean_norm', 'unstated'",
    "dtype": "one of 'float32', 'bfloat16', 'float16', 'float64', 'mixed', 'unstated'",
}


@pytest.mark.parametrize(
    ("constant", "got", "allowed"),
    [
        ('position = "end"', "position = 'end'", TYPES["position"]),
        ('dtype = "float8"', "dtype = 'float8'", TYPES["dtype"]),
        ("layer = 1.5", "layer = 1.5", "a whole number; at least 1"),
        ("layer = 0", "layer = 0", "at least 1"),
        ('layer = ""', "layer = ''", "at least 1"),
        ('gain_block = "high"', "gain_block = 'high'", "a number; above 0"),
        ("gain_block = -2", "gain_block = -2", "above 0"),
        ("norm_in = inf", "norm_in = inf", "a number; above 0"),
        ('source = ["a", "b"]', "source = ['a', 'b']", "one value, the same in every row"),
    ],
)
def test_a_constant_that_its_column_may_not_have_is_told_as_one(
    tmp_path: Path, constant: str, got: str, allowed: str
) -> None:
    path = written(tmp_path, f'table = "layers"\n[constants]\n{constant}\n')
    with pytest.raises(
        UsageError, match="a constant of the mapping does not fit its column"
    ) as caught:
        load_map(path)
    assert (caught.value.got, caught.value.allowed, caught.value.where) == (got, allowed, str(path))
    table = "runs" if got.startswith(("dtype", "source")) else "layers"
    assert caught.value.next_step == f"thermostats ls columns {table}"


def test_a_mapping_file_that_cannot_be_read_is_told_from_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="no such mapping file"):
        load_map(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_map(tmp_path)
    (tmp_path / "map.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        load_map(tmp_path / "map.toml")


THEIRS = pd.DataFrame(
    {"block": ["1", "2"], "n": ["1500", ""], "gain_block": ["1.5", "2"], "note": "x", "more": "y"}
)
FACTORS = {"norm_in": 0.001, "cosine": 2.0}
USING = ColumnMap("layers", {"block": "layer", "n": "norm_in"}, FACTORS, {"position": "last"}, "*")


def test_rows_under_a_mapping() -> None:
    rows = map_rows(THEIRS, USING, "here")["layers"]
    assert rows["layer"].tolist() == ["1", "2"]
    assert rows["norm_in"].tolist()[0] == 1.5 and pd.isna(rows["norm_in"][1])
    assert rows["gain_block"].tolist() == ["1.5", "2"]
    assert rows["position"].tolist() == ["last", "last"]
    assert {"note", "more", "block", "n"}.isdisjoint(rows.columns)
    assert (
        rows["cosine"].isna().all() and (rows["missing"] == "").all()
    )  # also where they have a factor
    assert THEIRS["n"].tolist() == ["1500", ""]
    with pytest.raises(
        DataError, match="column norm_in is to be converted but does not hold only numbers"
    ):
        map_rows(THEIRS.assign(n=["1", "many"]), USING, "here")


@pytest.mark.parametrize(
    ("using", "words", "got"),
    [
        ({"columns": {"blok": "layer"}}, "a column that the mapping names is missing", "'blok'"),
        (
            {"ignore": ("note",)},
            "columns that are not ours and that the mapping does not name",
            "more",
        ),
        (
            {"ignore": ()},
            "columns that are not ours and that the mapping does not name",
            "note, more",
        ),
        ({"constants": {"gain_block": 1.0}}, "one of our columns is filled twice", "gain_block"),
        (
            {"columns": {"block": "layer", "n": "gain_block"}},
            "one of our columns is filled twice",
            "gain_block",
        ),
    ],
)
def test_rows_that_do_not_fit_a_mapping_are_refused(
    using: dict[str, object], words: str, got: str
) -> None:
    options = {"columns": USING.columns, "ignore": "*", **using}
    with pytest.raises(UsageError, match=words) as caught:
        map_rows(THEIRS, ColumnMap("layers", **options), "here")  # type: ignore[arg-type]
    assert (caught.value.got, caught.value.where) == (got, "here")
    assert (
        len(
            map_rows(THEIRS, ColumnMap("layers", USING.columns, ignore=("note", "more")), "here")[
                "layers"
            ]
        )
        == 2
    )


def test_runs_are_made_of_what_their_rows_tell() -> None:
    versions = {"measure_version": [1.0, 1.0, 2.0], "seconds": [3.0, 4.0, 5.0], "layer": [1, 2, 1]}
    frame = pd.DataFrame(
        {"model_id": "m", "source": ["x", "x", "y"], **versions, "gain_block": 2.0}
    )
    rows, runs = add_runs(frame, "layers")
    assert runs is not None
    facts = {"model_id": "m", "revision": "main", "dtype": "unstated", "attention": "unstated"}
    facts |= {"prompt_set": "", "prompt_sha": "", "measure_version": "1", "source": "x"}
    first, second = run_id(facts), run_id({**facts, "measure_version": "2", "source": "y"})
    assert rows["run_id"].tolist() == [first, first, second]
    assert set(rows.columns) == {"layer", "gain_block", "run_id"}
    assert runs.set_index("run_id")["seconds"].to_dict() == {first: 3.0, second: 5.0}
    assert {name: runs.iloc[0][name] for name in facts} == facts
    stated, stated_runs = add_runs(
        frame.assign(dtype="float16", revision="r", attention="sdpa"), "layers"
    )
    assert stated_runs is not None
    assert stated_runs.iloc[0][["dtype", "revision", "attention"]].tolist() == [
        "float16",
        "r",
        "sdpa",
    ]
    assert stated["run_id"].nunique() == 2


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


def test_hashes_of_texts_and_of_their_set_are_filled_in(small_store: Path) -> None:
    join(PROMPTS, table="prompts", data=small_store)
    join(GAINS, table="layers", data=small_store)
    texts = store.load("prompts", small_store).query("prompt_set == 'own'")
    assert texts.set_index("prompt_id")["text_sha256"].to_dict() == {"a": HELLO, "b": BYE}
    (run,) = store.load("runs", small_store).query("source == 'own hooks'").to_dict("records")
    assert (
        run["prompt_sha"]
        == hashlib.sha256((HELLO + BYE).encode()).hexdigest()
        == hash_prompts(texts)
    )
    assert run["run_id"] == thermostats.run_id(run)
    again = join(GAINS, table="layers", data=small_store)
    assert [(done.table, done.added, done.unchanged) for done in again] == [
        ("runs", 0, 1),
        ("layers", 0, 2),
    ]
    thermostats.check(small_store)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in REFUSED])
def test_only_rows_without_a_needed_column_are_said_to_lack_it(
    name: str, small_store: Path
) -> None:
    columns = list(TABLES[name].columns)
    needs = {label: describe_requirement(name, label) for label in columns}
    complete = pd.DataFrame({label: [""] for label in columns})
    if "run_id" in columns:
        complete = complete.drop(columns="run_id").assign(model_id="lab/small", source="x")
    for label in [label for label in columns if label in complete]:
        try:
            join(complete.drop(columns=label), table=name, data=small_store)
            message = ""
        except ThermostatsError as error:
            message = str(error)
        lacking = (
            re.search(rf"without (run_id, )?{label}\.", message)
            or "to which run they belong" in message
        )
        assert bool(lacking) == (needs[label] == NEEDED), (label, needs[label], message)


def test_constants_that_their_columns_may_have_are_taken(tmp_path: Path) -> None:
    constants = {
        "layer": "3",
        "n_tokens": "",
        "norm_in": 2,
        "prompt_id": 7,
        "seconds": 0.5,
        "dtype": "mixed",
        "missing": "",
    }
    lines = "\n".join(f"{name} = {value!r}" for name, value in constants.items())
    assert (
        load_map(written(tmp_path, f'table = "layers"\n[constants]\n{lines}\n')).constants
        == constants
    )
    flags = "gated_mlp = true\ntied_embeddings = 'False'\nvariant = ''\nyear = 2024"
    assert (
        load_map(written(tmp_path, f'table = "models"\n[constants]\n{flags}\n')).constants[
            "gated_mlp"
        ]
        is True
    )


def test_nothing_is_joined_to_the_findings() -> None:
    assert set(REFUSED) == {"candidates", "findings"}
    assert {
        describe_requirement("candidates", label) for label in TABLES["candidates"].columns
    } == {""}
    assert {describe_requirement("findings", label) for label in TABLES["findings"].columns} == {""}
    assert describe_requirement("layers", "run_id") == "filled in from model_id and source"
    assert (
        describe_requirement("layers", "prompt_id"),
        describe_requirement("layers", "norm_in"),
    ) == (NEEDED, OPTIONAL)
    assert describe_requirement("runs", "dtype") == "filled in: unstated"
