"""What there is, as rows: of a small store, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import finding, layer, model, run, table

from thermostats.cli import listing, table_listing
from thermostats.errors import DataError, UsageError
from thermostats.tables import spec_states, store
from thermostats.tables.feature_columns import FEATURES
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES


def test_tables_with_their_rows_and_keys(small_store: Path) -> None:
    rows, columns = listing.rows("tables", small_store)
    assert columns == ["table", "rows", "key", "meaning"]
    by = {row["table"]: row for row in rows}
    assert list(by) == list(TABLES)
    assert (by["layers"]["rows"], by["layers"]["key"]) == (6, "run_id, layer, prompt_id, position")
    assert (by["weights"]["rows"], by["prompts"]["rows"]) == (0, 2)
    assert by["runs"]["meaning"] == "one row per measurement of one model on one prompt set"
    assert set(rows[0]) == set(columns)


def test_columns_with_their_types_and_units() -> None:
    rows, columns = listing.rows("columns", "/nowhere")
    assert columns == ["table", "column", "key", "joined", "type", "unit", "meaning"]
    by = {(row["table"], row["column"]): row for row in rows}
    assert len(by) == sum(len(schema.columns) for schema in TABLES.values()) + len(FEATURES)
    meaning = "n_(l-1), Euclidean norm of the stream entering the block"
    assert list(by["layers", "norm_in"].values()) == ["layers", "norm_in", "", "optional", "float64", "norm", meaning]
    assert by["models", "norm_kind"]["meaning"] == "normalisation; empty: not stated; one of LayerNorm, RMSNorm"
    assert by["models", "norm_place"]["meaning"].count("pre") == 1  # its meaning tells the values already
    assert set(by["features", "comparable"]) == set(columns) and by["features", "comparable"]["joined"] == ""
    assert [by["layers", name]["key"] for name in ("run_id", "layer", "cosine")] == ["key", "key", ""]


def test_models_and_prompts(small_store: Path) -> None:
    (row,), columns = listing.rows("models", small_store)
    assert columns == [
        "model_id",
        "heritage",
        "family",
        "variant",
        "n_layers",
        "d_model",
        "n_heads",
        "d_head",
        "n_params",
    ]
    assert [row[name] for name in columns] == ["lab/small", "Lab", "small", "base", 3, 8, 2, 4, 2840]
    assert set(row) == set(TABLES["models"].columns)
    prompts = store.load("prompts", small_store).assign(category=["", "Odd"], text=["", "Hello"])
    store.save(prompts, "prompts", small_store / "prompts.csv")
    rows, columns = listing.rows("prompts", small_store)
    assert columns == ["prompt_set", "prompts", "texts", "categories"]
    assert rows == [{"prompt_set": "two", "prompts": 2, "texts": 1, "categories": "Odd"}]


def test_runs_then_what_is_not_measured(small_store: Path) -> None:
    state = spec_states.SpecState("lab/big", "main", "bfloat16", "two", "failed", "no such model")
    spec_states.write(small_store, "x", state)
    (done, failed), columns = listing.rows("runs", small_store)
    assert columns == ["run_id", "model_id", "revision", "dtype", "prompt_set", "source", "state", "reason"]
    assert done["run_id"] == run()["run_id"]
    assert [done[name] for name in columns[1:]] == ["lab/small", "main", "float32", "two", "tests", "done", ""]
    assert [failed[name] for name in columns] == [
        "",
        "lab/big",
        "main",
        "bfloat16",
        "two",
        "",
        "failed",
        "no such model",
    ]
    assert set(failed) == set(done) and failed["seconds"] is None and done["seconds"] is None


def test_architectures() -> None:
    rows, columns = listing.rows("architectures", "/nowhere")
    assert columns == ["architecture", "model_type", "values", "parallel", "additive", "when"]
    by = {row["architecture"]: row for row in rows}
    assert (by["gptj"]["model_type"], by["gptj"]["parallel"], by["gptj"]["when"]) == ("gptj", True, "")
    assert not by["gpt2"]["parallel"]
    assert any(" = " in row["when"] for row in rows)


def test_claims_of_the_package() -> None:
    rows, columns = listing.rows("claims")
    assert columns == ["claim", "reads", "needs", "title"]
    reads = {row["claim"]: row["reads"] for row in rows}
    assert (reads["C04"], reads["C15"], reads["N01"]) == ("study and measured", "study and measured", "nursery")
    assert all(row["title"] and row["said"] and row["rule"] for row in rows)
    plain = listing.rows("claims", rules=False)[0]  # as on a terminal, where no script is loaded
    assert plain == [{name: row[name] for name in columns} for row in rows]


def named(claim: str, estimand: str, headline: bool, **fields: object) -> dict[str, object]:
    """A row that has an id."""
    facts = {"published": '{"a": 1.5}', "n_models": 3, **fields}
    return finding(claim, finding=f"{claim}.{estimand}", estimand=estimand, headline=headline, **facts)


def test_findings_each_claim_s_headline_first(tmp_path: Path) -> None:
    rows = [named("C02", "x", True), named("C01", "a", False), named("C01", "b", True, estimate=0.5)]
    store.save(table("findings", *rows), "findings", tmp_path / "findings.csv")
    findings = table_listing.findings(tmp_path)
    assert [(row["claim"], row["estimand"]) for row in findings] == [("C01", "b"), ("C01", "a"), ("C02", "x")]
    assert (findings[0]["published"], findings[0]["reproduced"]) == ({"a": 1.5}, {})
    assert (findings[0]["estimate"], findings[1]["estimate"], findings[0]["n_models"]) == (0.5, None, 3)
    json.dumps(findings, allow_nan=False)


def test_findings_that_are_damaged(tmp_path: Path) -> None:
    store.save(table("findings", named("C01", "a", True, published="{")), "findings", tmp_path / "findings.csv")
    with pytest.raises(DataError, match="no JSON") as damaged:
        table_listing.findings(tmp_path)
    assert damaged.value.where == str(tmp_path / "findings.csv")
    store.save(table("layers", layer(run(), 1, 1.0)), "layers", tmp_path / "findings.csv")
    with pytest.raises(DataError, match="columns of table findings"):
        table_listing.findings(tmp_path)


def test_rows_of_one_s_own_store_stand_below_the_package_s(tmp_path: Path) -> None:
    join(table("prompts", {"prompt_set": "own", "prompt_id": "a"}), data=tmp_path / "mine")
    assert [listing.rows(name, tmp_path / "mine", yours=True)[0] for name in ("models", "runs")] == [[], []]
    first = [table("models", model("aaa/first")), table("runs", run("aaa/first", prompt_set="", prompt_sha=""))]
    join(first, data=tmp_path / "mine")
    for name in ("models", "runs"):
        rows, _ = listing.rows(name, tmp_path / "mine")
        shipped = store.load(name, store.shipped("data"))
        assert [row["model_id"] for row in rows] == [*shipped["model_id"], "aaa/first"]
        (row,), columns = listing.rows(name, tmp_path / "mine", yours=True)
        assert row == rows[-1] and set(columns) <= set(row)


def test_own_rows_alone_are_those_that_lie_in_the_folder(small_store: Path) -> None:
    assert listing.rows("models", small_store, yours=True) == listing.rows("models", small_store)
    with pytest.raises(UsageError, match="own rows are not listed separately") as caught:
        listing.rows("claims", small_store, yours=True)
    assert (caught.value.got, caught.value.allowed) == ("claims", "models, runs")
