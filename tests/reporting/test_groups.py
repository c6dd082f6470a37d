"""The index tells the claims of the study, those of the nursery and a user's own apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from workplaces import make_workplace, write_analysis

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding
from thermostats.claims.scripts import chosen
from thermostats.errors import UsageError
from thermostats.reporting.pages.claim import Entry
from thermostats.reporting.pages.index import by_group, index_text
from thermostats.reporting.report import report


def entry(claim: str, verdict: str = "supported") -> Entry:
    finding = Finding(claim, "share", verdict, "So.", n_models=48, n_heritages=16)
    return Entry(claim, Claim(claim, f"Title of {claim}", "", "", "", ""), (finding,))


def test_each_group_has_its_own_summary() -> None:
    entries = [entry("C01"), entry("C02", "inconclusive"), entry("N01"), entry("U01")]
    groups = by_group(entries)
    assert [[e.id for e in own] for own in groups.values()] == [["C01", "C02"], ["N01"], ["U01"]]
    text = index_text(entries, {})
    assert "Of 2 claims put to the test, 1 came out as supported and 1 as inconclusive." in text
    assert "No verdict rests on more than 48 models or 16 labs" in text
    assert "No claim has been put to the test yet." in index_text([Entry("N01", None)], {})


def test_a_first_page_holds_the_groups_that_there_are(tmp_path: Path) -> None:
    workplace = make_workplace(tmp_path)
    analyses, out = workplace["analyses"], workplace["out"]
    assert report(**workplace, processes=1).ok
    text = (out / "index.md").read_text(encoding="utf-8")
    assert "Claims of the study" not in text and "recipes assigned by design" not in text
    write_analysis(analyses, "N01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    for name in ("index.html", "index.md"):
        text = (out / name).read_text(encoding="utf-8")
        study, nursery = text.index("Claims of the study"), text.index("The nursery: a controlled study")
        assert study < text.index("c02/index") < nursery < text.index("n01/index", nursery)
        assert "recipes assigned by design" in text and "Of 2 claims put to the test" in text


def test_a_report_of_own_claims_says_nothing_of_the_study(tmp_path: Path) -> None:
    workplace = make_workplace(tmp_path)
    for path in workplace["analyses"].glob("*.py"):
        path.unlink()
    write_analysis(workplace["analyses"], "U01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    index = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "A 2026 preprint" not in index and "study’s own result files" not in index
    assert "1 claim put to the test" in index and "of whoever wrote its script, and so is its rule" in index
    assert "No verdict rests on more than 1 model or 1 lab" in index
    write_analysis(workplace["analyses"], "U02", "TII", p=0.04)
    assert report(**workplace, processes=1).ok
    both = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "Of 2 claims put to the test, 2 came out as supported" in both
    assert "of whoever wrote their scripts, and so are their rules" in both
    page = (workplace["out"] / "u01" / "index.md").read_text(encoding="utf-8")
    assert not re.search("fixed before its test was run|own figures were known|Source in the study|python anal", page)
    assert "thermostats report U01 --analyses ANALYSES --data DATA --out REPORT" in page


@pytest.mark.parametrize(
    ("asked", "there", "step"),
    [
        ("C04", "U01", "claims that ship are reported without --analyses"),
        ("C99", "C01 C04", "thermostats ls claims"),
        ("C4", "C01 C04", "did you mean C04?"),
    ],
)
def test_a_claim_that_a_folder_lacks_is_looked_for_where_it_is(asked: str, there: str, step: str) -> None:
    found = {name: Path(f"{name.lower()}_a.py") for name in there.split()}
    with pytest.raises(UsageError, match="no such claim") as caught:
        chosen([asked], found)
    assert caught.value.next_step == step
