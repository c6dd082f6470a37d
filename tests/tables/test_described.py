"""Declarations: what a column and a table come to, and that what describes the shipped tables says the same."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import thermostats
from thermostats.tables import archive, store
from thermostats.tables.arrow_check import faults
from thermostats.tables.describe import CROISSANT, DATAPACKAGE, describe, descriptions, for_tools
from thermostats.tables.schemas import ABOVE, FLAG, FLOAT, INTEGER, TABLES, TEXT, Column, column, gain

SHIPPED = store.shipped("data")


def test_what_describes_the_shipped_tables_is_current() -> None:
    """`python -m thermostats.tables.describe` in a checkout makes it so."""
    stale = [name for name, content in descriptions(SHIPPED).items() if (SHIPPED / name).read_bytes() != content]
    assert stale == []


def test_what_is_current_is_not_written_again(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "models.csv", tmp_path)
    written = describe(tmp_path)
    assert sorted(path.name for path in written) == ["CODEBOOK.md", "croissant.json", "datapackage.json"]
    assert describe(tmp_path) == []
    (tmp_path / "datapackage.json").write_text("{}")
    assert describe(tmp_path) == [tmp_path / "datapackage.json"]
    told = json.loads((tmp_path / "datapackage.json").read_text(encoding="utf-8"))
    assert [(resource["name"], resource["path"]) for resource in told["resources"]] == [("models", "models.csv")]


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_as_a_program_it_describes_the_folder_that_is_named_and_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named, asked = tmp_path / "named", tmp_path / "asked"
    for folder in (named, asked):
        folder.mkdir()
    monkeypatch.setenv("THERMOSTATS_DATA", str(asked))
    for arguments, folder in (([str(named)], named), ([], asked)):
        monkeypatch.setattr(sys, "argv", ["describe", *arguments])
        runpy.run_module("thermostats.tables.describe", run_name="__main__")
        wrote = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert sorted(wrote) == sorted(folder.iterdir()) and len(wrote) == 3
        runpy.run_module("thermostats.tables.describe", run_name="__main__")
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("declared", "taken", "refused"),
    [
        (column(FLOAT, "x", lower=1.0, upper=2.0), [1.0, 2.0], [0.99, 2.01, None]),
        (column(INTEGER, "x", lower=0), [0], [-1, None]),
        (column(TEXT, "x", allowed=["a", ""]), ["a", ""], ["b"]),
        (column(FLAG, "x"), [True], [None]),
        (column(FLAG, "x", nullable=True), [True, None], []),
        (gain("x"), [1e-300, None], [0.0]),
    ],
)
def test_bounds_are_what_they_say(declared: Column, taken: list[object], refused: list[object]) -> None:
    for value in (*taken, *refused):
        alone = pa.chunked_array([pa.array([value], archive.ARROW[declared.dtype])])
        assert bool(list(faults(alone, declared))) == (value not in taken), value


def test_gains_and_norms_are_above_zero_and_nothing_else_is_bounded_so() -> None:
    """A bound that is left out itself is in no description: the standard has none."""
    columns = ((f"{name}.{label}", each) for name in TABLES for label, each in TABLES[name].columns.items())
    bounded = {name: check.error for name, each in columns for check in each.checks if check.kind == ABOVE}
    gains = ("gain_block", "gain_attention", "gain_mlp", "gain_sum_attention", "gain_sum_mlp")
    assert bounded == {f"layers.{name}": "above 0" for name in ("norm_in", *gains, "write_attention", "write_mlp")}


def test_a_data_package_of_a_part_refers_to_nothing_outside_it(tmp_path: Path) -> None:
    for files, keys in (({"layers": ["a.csv"], "runs": ["r.csv"]}, ["runs"]), ({"layers": ["a.csv", "b.csv"]}, [])):
        for path in (path for paths in files.values() for path in paths):
            (tmp_path / path).write_bytes(b"")
        told = json.loads(for_tools(tmp_path, files)[DATAPACKAGE])["resources"][0]
        assert (told["name"], told["path"]) == ("layers", files["layers"] if len(files["layers"]) > 1 else "a.csv")
        assert [each["reference"]["resource"] for each in told["schema"].get("foreignKeys", [])] == keys


def test_a_croissant_file_has_a_set_of_files_where_a_table_has_several(tmp_path: Path) -> None:
    (tmp_path / "models.csv").write_bytes(b"abc")
    many = ["measured/layers.parquet", "layers.csv", "measured/layers/1.csv", "measured/layers/2.csv"]
    (tmp_path / "measured").mkdir()
    (tmp_path / many[0]).write_bytes(b"abc")
    files = {"models": ["models.csv"], "layers": many, "runs": []}
    told = json.loads(for_tools(tmp_path, files)[CROISSANT])
    assert told["version"] == thermostats.__version__
    one, several, archive = told["distribution"]
    assert one["sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (one["@type"], one["@id"], one["contentUrl"]) == ("cr:FileObject", "models.csv", "models.csv")
    assert (several["@type"], several["includes"]) == ("cr:FileSet", ["layers.csv", "measured/layers/*.csv"])
    assert (archive["@id"], archive["encodingFormat"]) == (many[0], "application/vnd.apache.parquet")
    assert [each["@id"] for each in told["recordSet"]] == ["models", "layers", "layers-archive"]
    sources = [each["field"][0]["source"] for each in told["recordSet"]]
    assert sources[0] == {"fileObject": {"@id": "models.csv"}, "extract": {"column": "model_id"}}
    assert sources[1] == {"fileSet": {"@id": "files-layers"}, "extract": {"column": "run_id"}}
