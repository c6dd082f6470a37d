"""What a folder keeps of a report: nothing of it is rewritten unasked, and what differs from it is
said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import finding, table
from conftest import snapshot as files_of
from workplaces import make_workplace, write_analysis, write_fitted

from thermostats.cli import listing
from thermostats.errors import UsageError
from thermostats.reporting.report import ReportRun, report
from thermostats.reporting.snapshot import list_differences
from thermostats.reporting.state import State
from thermostats.tables import store

KEPT = {"findings.csv", "index.md", "gain.svg", "c01.md", "c01.svg", "c02.md", "c02.svg", "c03.md"}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")
    monkeypatch.setattr(State, "pages", {})
    places = make_workplace(tmp_path, draws=True)
    write_fitted(places["analyses"], "C03", "TII")
    return places


@pytest.fixture
def build(workplace: dict[str, Path]) -> Callable[..., ReportRun]:
    return lambda **options: report(**workplace, processes=1, **options)


def kept(out: Path) -> dict[str, bytes]:
    return files_of(out / "snapshot")


@pytest.mark.slow
def test_a_snapshot_is_written_when_asked_for_and_left_alone_otherwise(
    build: Callable[..., ReportRun], workplace: dict[str, Path]
) -> None:
    out = workplace["out"]
    assert build(snapshot=True).ok
    before = kept(out)
    assert set(before) == KEPT
    page = before["c01.md"].decode()
    assert (
        page.startswith("# C01. Gains of Meta") and "](c01.svg)" in page and "](index.md)" in page
    )
    assert (
        "published | recomputed" in page
        and "**Decision rule" in page
        and "Numbers behind" not in page
    )
    assert before["c01.svg"] == (out / "c01" / "figure.svg").read_bytes()
    index = before["index.md"].decode()
    assert "](c01.md)" in index and "](gain.svg)" in index and "methods.md" not in index
    again = build()
    assert again.ok and again.differ == again.written == again.removed == ()
    write_analysis(workplace["analyses"], "C01", "Meta", p=0.5, draws=True)
    (workplace["analyses"] / "c02_gains.py").unlink()
    changed = build()
    assert kept(out) == before
    assert [line.split(":")[0] for line in changed.differ] == ["C01.mean-gain", "C02.mean-gain"]
    assert "probability 0.0300000, now 0.500000" in str(changed) and "no longer found" in str(
        changed
    )
    assert [row["probability"] for row in listing.list_findings(out)] == [0.5, 0.973]
    assert [line.split(":")[0] for line in report("C03", **workplace, processes=1).differ] == [
        "C01.mean-gain"
    ]
    assert "snapshot/c02.md" in build(snapshot=True).removed
    assert set(kept(out)) == KEPT - {"c02.md", "c02.svg"}
    assert build().differ == ()
    shutil.copytree(out / "snapshot", out.parent / "anew" / "snapshot")
    elsewhere = {**workplace, "out": out.parent / "anew"}
    with pytest.raises(UsageError, match=r"would lose claims.*got C03.*report --all --snapshot"):
        report("C01", **elsewhere, processes=1, snapshot=True)
    assert kept(elsewhere["out"]) == kept(out)
    (out / "findings.csv").unlink()
    assert {row["claim"] for row in listing.list_findings(out)} == {"C01", "C03"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"posterior": 0.92}, []),
        ({"posterior": 0.94}, ["posterior 0.900000, now 0.940000"]),
        ({"estimate": 0.50001}, ["estimate 0.500000, now 0.500010"]),
        ({"estimate": 0.5 + 1e-8}, []),
        ({"verdict": "inconclusive"}, ["supported, now inconclusive"]),
        ({"estimate": None}, ["estimate 0.500000, now "]),
        ({"evidence": "measured"}, ["new", "no longer found"]),
    ],
)
def test_what_chance_does_not_explain_is_named(
    tmp_path: Path, changed: dict[str, object], said: list[str]
) -> None:
    numbers = {"estimate": 0.5, "posterior": 0.9, "mc_error": 0.005}
    row = finding("C01", finding="C01.slope", evidence="published", **numbers)
    kept = tmp_path / "snapshot" / "findings.csv"
    store.save(table("findings", row), "findings", kept)
    found = list_differences(kept, table("findings", row | changed))
    assert [line.split(": ", 1)[1] for line in found] == said
