"""Tables for other tools: what is written comes back, and is described as it is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import command, snapshot

from thermostats.errors import DataError, UsageError
from thermostats.tables import store
from thermostats.tables.export import DATAPACKAGE, export
from thermostats.tables.folders import list_own_files
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES

SHIPPED = store.find_shipped("data")


def kind(path: Path) -> str:
    """What an archive's name says after the table's; the columns of a CSV file."""
    if path.suffix == ".parquet":
        return path.stem.removeprefix(path.stem.partition("-")[0])
    return path.read_text(encoding="utf-8").partition("\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param("shipped", marks=pytest.mark.long), "exported"])
def test_the_data_package_is_valid(where: str, tmp_path: Path) -> None:
    frictionless = pytest.importorskip("frictionless")
    folder = SHIPPED
    if where == "exported":
        export(folder := tmp_path / "out")
    done = frictionless.validate(str(folder / DATAPACKAGE))
    assert done.flatten(["message"]) == []
    formats = {
        (name, path.suffix, kind(path)) for name in TABLES for path in list_own_files(name, SHIPPED)
    }
    assert done.stats["tasks"] == len(
        formats if where == "shipped" else {name for name, *_ in formats}
    )


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_what_is_exported_comes_back(small_store: Path, tmp_path: Path, format_: str) -> None:
    done = export(tmp_path / "out", data=small_store, format=format_)
    assert {each.table: each.rows for each in done} == {
        "models": 1,
        "prompts": 2,
        "runs": 1,
        "layers": 6,
    }
    assert [each.unchanged for each in join([each.path for each in done], data=small_store)] == [
        1,
        2,
        1,
        6,
    ]
    assert (tmp_path / "out" / "CODEBOOK.md").is_file()
    assert (tmp_path / "out" / DATAPACKAGE).is_file() == (format_ == "csv")


def test_parquet_lies_in_folders_by_model(small_store: Path, tmp_path: Path) -> None:
    export(
        out := tmp_path / "out",
        ["layers", "models", "prompts"],
        data=small_store,
        format="parquet",
        partition="model_id",
    )
    assert [path.name for path in (out / "layers").iterdir()] == ["model_id=lab%2Fsmall"]
    back = pd.read_parquet(out / "layers")
    assert back["model_id"].astype(str).unique().tolist() == ["lab/small"]
    pd.testing.assert_frame_equal(
        store.validate(back.drop(columns="model_id"), "layers"), store.load("layers", small_store)
    )
    assert (out / "prompts.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tables": ["layer"]}, "did you mean layers"),
        ({"format": "parket"}, "did you mean parquet"),
        ({"partition": "model_id"}, "only Parquet"),
        ({"partition": "modelid", "format": "parquet"}, "did you mean model_id"),
        ({"out": "data"}, "not empty"),
    ],
)
def test_a_wrong_export_writes_nothing(
    small_store: Path,
    tmp_path: Path,
    arguments: dict[str, Any],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(UsageError, match=words):
        export(**{"out": "out", "data": small_store, **arguments})
    assert snapshot(tmp_path) == before


def test_private_texts_are_not_exported(small_store: Path, tmp_path: Path) -> None:
    prompts = store.load("prompts", small_store)
    store.save(
        prompts.iloc[:1].assign(text="Hello"), "prompts", small_store / "private" / "prompts.csv"
    )
    assert "Hello" in set(store.load("prompts", small_store)["text"])
    export(tmp_path / "out", ["prompts"], data=small_store)
    assert "Hello" not in (tmp_path / "out" / "prompts.csv").read_text()


def test_own_rows_alone_are_written_with_what_they_are_of(tmp_path: Path) -> None:
    """Unless the package's are asked for; a model and prompts that ship are written where own rows
    are of them."""
    gains = pd.DataFrame({"layer": [11, 12], "prompt_id": ["a", "b"], "gain_block": [1.31, 1.12]})
    stated = {"position": "last", "model_id": "EleutherAI/pythia-160m", "source": "my hooks"}
    mine = tmp_path / "mine"
    join(gains, mapping={"table": "layers", "constants": stated}, data=mine)
    done = {each.table: each for each in export(tmp_path / "out", data=mine)}
    assert {name: each.rows for name, each in done.items()} == {"models": 1, "runs": 1, "layers": 2}
    models, runs, layers = (pd.read_csv(done[name].path) for name in ("models", "runs", "layers"))
    assert models["model_id"].tolist() == ["EleutherAI/pythia-160m"]
    assert runs["source"].tolist() == ["my hooks"]
    assert set(layers["run_id"]) == set(runs["run_id"])
    (alone,) = export(tmp_path / "runs", "runs", data=mine)
    assert alone.rows == 1
    (both,) = export(tmp_path / "both", "runs", data=mine, shipped=True)
    assert both.rows == 1 + len(store.load("runs"))
    (package,) = export(tmp_path / "package", "runs")
    assert package.rows == len(store.load("runs"))


def test_the_command_writes_own_rows_unless_those_shipped_are_asked_for(tmp_path: Path) -> None:
    stated = {"position": "last", "model_id": "EleutherAI/pythia-160m", "source": "my hooks"}
    gains = pd.DataFrame({"layer": [11], "prompt_id": ["a"], "gain_block": [1.31]})
    join(gains, mapping={"table": "layers", "constants": stated}, data=tmp_path / "mine")
    rows = {}
    for words in ((), ("--shipped",)):
        asked = ("export", f"out{len(words)}", "runs", "--data", "mine", "--json", *words)
        (written,) = json.loads(command(*asked, cwd=tmp_path).stdout)
        rows[words] = written["rows"]
    assert rows == {(): 1, ("--shipped",): 1 + len(store.load("runs"))}
    said = command("export", "again", "runs", "--data", "mine", cwd=tmp_path).stderr
    line = said.strip().rpartition("Next: ")[2]
    assert line.startswith("python -c")
    run = [sys.executable, *shlex.split(line)[1:]]
    subprocess.run(run, cwd=tmp_path, check=True)
    written = pd.read_csv(tmp_path / "gains.csv")
    assert written["model_id"].tolist() == [stated["model_id"]]
    assert list(written) == [
        *("model_id", "heritage", "n_layers"),
        *("penultimate_gain", "penultimate_gain_n"),
    ]
    asked = command("export", "again", "gains", "--data", "mine", cwd=tmp_path)
    assert asked.returncode == 2
    assert asked.stderr.strip().rpartition("Next: ")[2] == line


def test_an_export_that_cannot_be_written_says_what_to_do(small_store: Path) -> None:
    (small_store.parent / "file").write_text("")
    with pytest.raises(DataError, match="cannot export; nothing was written") as caught:
        export(small_store.parent / "file" / "out", data=small_store)
    assert caught.value.next_step == "free space or choose a folder that can be written"
