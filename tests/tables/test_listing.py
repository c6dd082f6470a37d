"""What there is, as rows: of a small store, by hand."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import finding, model, run, table

from thermostats.cli import listing
from thermostats.tables import store
from thermostats.tables.join import join
from thermostats.tables.schemas import TABLES


def test_tables_with_their_rows_and_keys(small_store: Path) -> None:
    rows, columns = listing.list_table_rows("tables", small_store)
    assert columns == ["table", "rows", "key", "meaning"]
    by = {row["table"]: row for row in rows}
    assert list(by) == list(TABLES)
    assert (by["layers"]["rows"], by["layers"]["key"]) == (6, "run_id, layer, prompt_id, position")
    assert (by["weights"]["rows"], by["prompts"]["rows"]) == (0, 2)
    assert by["runs"]["meaning"] == "one row per measurement of one model on one prompt set"
    assert set(rows[0]) == set(columns)


def test_claims_of_the_package() -> None:
    rows, columns = listing.list_table_rows("claims")
    assert columns == ["claim", "reads", "needs", "title"]
    reads = {row["claim"]: row["reads"] for row in rows}
    assert (reads["C04"], reads["C15"], reads["N01"]) == (
        "study, external and measured",
        "study, external and measured",
        "nursery",
    )
    assert all(row["title"] and row["said"] and row["rule"] for row in rows)
    plain = listing.list_table_rows("claims", rules=False)[
        0
    ]  # as on a terminal, where no script is loaded
    assert plain == [{name: row[name] for name in columns} for row in rows]


def named(claim: str, estimand: str, headline: bool, **fields: object) -> dict[str, object]:
    """A row that has an id."""
    facts = {"published": '{"a": 1.5}', "n_models": 3, **fields}
    return finding(
        claim, finding=f"{claim}.{estimand}", estimand=estimand, headline=headline, **facts
    )


def test_findings_each_claim_s_headline_first(tmp_path: Path) -> None:
    rows = [
        named("C02", "x", True),
        named("C01", "a", False),
        named("C01", "b", True, estimate=0.5),
    ]
    store.save(table("findings", *rows), "findings", tmp_path / "findings.csv")
    findings = listing.list_findings(tmp_path)
    assert [(row["claim"], row["estimand"]) for row in findings] == [
        ("C01", "b"),
        ("C01", "a"),
        ("C02", "x"),
    ]
    first = {row["finding"] for row in findings if row["headline"]}
    others = [
        named(
            "C01",
            name,
            False,
            view_of="published",
            evidence="measured",
            provisional="few",
            leans="supported",
        )
        for name in ("a", "b")
    ]
    store.save(table("findings", *rows, *others), "findings", tmp_path / "findings.csv")
    measured = [
        listing.describe_finding(row, first)
        for row in listing.list_findings(tmp_path, evidence="measured")
    ]
    assert [row["headline"] for row in measured] == ["claim", ""]
    assert measured[0]["verdict"].endswith(", leans to “supported”, provisional")
    assert (findings[0]["published"], findings[0]["reproduced"]) == ({"a": 1.5}, {})
    assert (findings[0]["estimate"], findings[1]["estimate"], findings[0]["n_models"]) == (
        0.5,
        None,
        3,
    )
    json.dumps(findings, allow_nan=False)


def test_rows_of_one_s_own_store_stand_below_the_package_s(tmp_path: Path) -> None:
    join(table("prompts", {"prompt_set": "own", "prompt_id": "a"}), data=tmp_path / "mine")
    assert [
        listing.list_table_rows(name, tmp_path / "mine", yours=True)[0]
        for name in ("models", "runs")
    ] == [[], []]
    first = [
        table("models", model("aaa/first")),
        table("runs", run("aaa/first", prompt_set="", prompt_sha="")),
    ]
    join(first, data=tmp_path / "mine")
    for name in ("models", "runs"):
        rows, _ = listing.list_table_rows(name, tmp_path / "mine")
        shipped = store.load(name, store.find_shipped("data"))
        assert [row["model_id"] for row in rows] == [*shipped["model_id"], "aaa/first"]
        (row,), columns = listing.list_table_rows(name, tmp_path / "mine", yours=True)
        assert row == rows[-1] and set(columns) <= set(row)
