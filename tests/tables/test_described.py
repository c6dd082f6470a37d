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
from thermostats.errors import DataError
from thermostats.tables import archive, store
from thermostats.tables.arrow_check import faults
from thermostats.tables.describe import croissant, datapackage, describe, descriptions
from thermostats.tables.schemas import (
    ABOVE,
    FLAG,
    FLOAT,
    INTEGER,
    TABLES,
    TEXT,
    Column,
    column,
    gain,
    key,
    references,
    table,
)

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


def accepts(declared: Column, *values: object) -> list[bool]:
    """Which values a column declared so takes, each alone."""
    kind = archive.ARROW[declared.dtype]
    return [not list(faults(pa.chunked_array([pa.array([value], kind)]), declared)) for value in values]


def test_bounds_are_what_they_say() -> None:
    assert accepts(column(FLOAT, "x", lower=1.0, upper=2.0), 0.99, 1.0, 2.0, 2.01) == [False, True, True, False]
    assert accepts(column(FLOAT, "x", above=0.0), 0.0, 1e-300) == [False, True]
    assert accepts(column(INTEGER, "x", lower=0), -1, 0) == [False, True]
    assert accepts(column(TEXT, "x", allowed=["a", ""]), "a", "", "b") == [True, True, False]
    assert accepts(gain("x"), 0.0, 0.5, None) == [False, True, True]


def test_a_value_may_be_missing_only_where_it_is_said() -> None:
    assert accepts(column(INTEGER, "x"), 1, None) == [True, False]
    assert accepts(column(FLAG, "x"), True, None) == [True, False]
    assert accepts(column(FLAG, "x", nullable=True), True, None) == [True, True]


def test_what_a_check_says() -> None:
    checks = column(FLOAT, "x", allowed=["a", "b"], lower=0.5, above=0.25, upper=1e6).checks
    assert [check.error for check in checks] == ["one of 'a', 'b'", "at least 0.5", "above 0.25", "at most 1e+06"]


def test_a_table_has_its_columns_in_their_order_and_no_key_twice() -> None:
    schema = table("t", "a table", ["a"], {"a": column(TEXT, "a"), "b": column(TEXT, "b")}, a="runs")
    assert (schema.name, schema.description, [*schema.columns]) == ("t", "a table", ["a", "b"])
    assert (schema.key, schema.references) == (("a",), {"a": "runs"})
    assert [column.name for column in schema.columns.values()] == ["a", "b"]
    rows = store.load("sources")
    assert [*store.validate(rows[rows.columns[::-1]], "sources")] == [*TABLES["sources"].columns]
    for bad in (rows.assign(c="more"), rows.drop(columns="bytes"), rows.assign(file="x")):
        with pytest.raises(DataError):
            store.validate(bad, "sources")


def test_keys_and_references() -> None:
    assert key("layers") == ["run_id", "layer", "prompt_id", "position"]
    assert (references("runs"), references("models")) == ({"model_id": "models"}, {})
    ours = {name for name in TABLES if "run_id" in TABLES[name].columns and name != "runs"}
    assert {name for name in TABLES if references(name) == {"run_id": "runs"}} == ours
    assert all(TABLES[name].name == name for name in TABLES)


def test_texts_that_are_free_are_those_of_prompts_and_tokens() -> None:
    free = {(name, label) for name in TABLES for label, each in TABLES[name].columns.items() if each.free}
    assert free == {("prompts", "text"), ("outputs", "top_token")}


def test_gains_and_norms_are_above_zero_and_nothing_else_is_bounded_so() -> None:
    """A bound that is left out itself is in no description: the standard has none."""
    bounded = {
        f"{name}.{label}": str(check.error)
        for name in TABLES
        for label, each in TABLES[name].columns.items()
        for check in each.checks
        if check.kind == ABOVE
    }
    names = ("norm_in", "gain_block", "gain_attention", "gain_mlp", "write_attention", "write_mlp")
    names += ("gain_sum_attention", "gain_sum_mlp")
    assert bounded == {f"layers.{name}": "above 0" for name in names}


def test_a_data_package_of_a_part_refers_to_nothing_outside_it() -> None:
    told = {
        each["name"]: each
        for each in datapackage({"layers": ["a.csv", "b.csv"], "runs": [], "models": []})["resources"]
    }
    assert list(told) == ["layers"]
    assert told["layers"]["path"] == ["a.csv", "b.csv"]
    assert told["layers"]["schema"]["foreignKeys"][0]["reference"] == {"resource": "runs", "fields": ["run_id"]}
    (alone,) = datapackage({"layers": ["a.csv"]})["resources"]
    assert "foreignKeys" not in alone["schema"]


def test_a_croissant_file_has_a_set_of_files_where_a_table_has_several(tmp_path: Path) -> None:
    (tmp_path / "models.csv").write_bytes(b"abc")
    many = ["measured/layers.parquet", "layers.csv", "measured/layers/1.csv", "measured/layers/2.csv"]
    (tmp_path / "measured").mkdir()
    (tmp_path / many[0]).write_bytes(b"abc")
    told = croissant(tmp_path, {"models": ["models.csv"], "layers": many, "runs": []})
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
