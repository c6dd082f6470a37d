"""Why pages are stale: parts of a record changed one by one, files edited or gone, a manifest not
to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from thermostats.claims.study import load_studies
from thermostats.errors import DataError
from thermostats.reporting import state
from thermostats.reporting import state as posteriors
from thermostats.reporting.pages import MANIFEST
from thermostats.reporting.state import LINKS, Record, find_stale_cause
from thermostats.tables.folders import BOUNDS, MOVES


def test_a_claim_is_stale_where_its_rules_are_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_studies()  # of the shipped data, before others stand in their place
    (tmp_path / "c01.py").write_text("")
    monkeypatch.setattr(state.folders, "find_shipped", lambda name: tmp_path / name)
    monkeypatch.setattr(state, "hash_package", lambda: "")
    (tmp_path / "data").mkdir()

    def of(rates: str) -> str:
        (tmp_path / "data" / "worlds.csv").write_text(rates)
        report = state.State(
            tmp_path, tmp_path / "data", {"C01": tmp_path / "c01.py"}, {}, all_claims=False
        )
        return report.build_record("C01").digest

    one = of("rule,world\nC01.depth,normal\nC02.bound,normal\n")
    assert (
        one
        == of("rule,world\nC01.depth,normal\nC02.bound,t3\n")
        != of("rule,world\nC01.depth,t3\n")
    )


def test_each_part_of_a_record_makes_its_pages_stale(tmp_path: Path) -> None:
    record = Record("1", links="3", rows="5")
    reasons = {
        "": (record, record),
        "not built yet": (None, record),
        "its script, its words, the error rates of its rules, the package or a library changed": (
            record,
            replace(record, digest="4"),
        ),
        "rows that it reads changed": (replace(record, rows="6"), record),
        LINKS: (record, replace(record, links="4")),
    }
    assert {
        why: find_stale_cause(before, now, lambda: "5", tmp_path)
        for why, (before, now) in reasons.items()
    } == {why: why for why in reasons}


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert state.read_manifest(tmp_path) == {}
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(
        DataError, match=r"the manifest of the report cannot be read .*Is a directory"
    ):
        state.read_manifest(tmp_path)


def test_in_a_checkout_every_file_of_the_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed, the version alone does."""
    monkeypatch.setattr(posteriors, "HERE", tmp_path / "thermostats")
    (tmp_path / "thermostats" / "plots").mkdir(parents=True)
    style = tmp_path / "thermostats" / "plots" / "house.mplstyle"

    def of(text: str) -> str:
        style.write_text(text)
        posteriors.hash_package.cache_clear()
        return posteriors.hash_package()

    monkeypatch.setattr(posteriors, "find_shipped", lambda _: tmp_path)
    tables = [tmp_path / name for name in (MOVES, BOUNDS)]
    for table in tables:
        table.write_text("")
    assert of("a") == of("b")
    (tmp_path / "pyproject.toml").touch()
    assert of("a") != of("b")
    for table in tables:
        before = of("a")
        table.write_text("other")
        assert of("a") != before
    posteriors.hash_package.cache_clear()
