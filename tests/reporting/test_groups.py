"""The index tells the claims of the study and those of the nursery apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from workplaces import make_workplace, write_analysis

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding
from thermostats.claims.scripts import chosen
from thermostats.errors import UsageError
from thermostats.reporting.pages.claim import Entry
from thermostats.reporting.pages.index import adjusted_p_values, by_group, family_words, summary
from thermostats.reporting.report import report


def entry(claim: str, verdict: str = "supported", p: float | None = None, **found: float) -> Entry:
    finding = Finding(
        claim,
        "share of it",
        verdict,
        "So.",
        probability=p,
        probability_kind="p-value" if p else "",
        n_models=48,
        n_heritages=16,
        **found,
    )
    return Entry(claim, Claim(claim, f"Title of {claim}", "", "", "", ""), (finding,))


def test_the_nursery_is_a_group_of_its_own_and_a_family_of_its_own() -> None:
    entries = [entry("C01", p=0.02), entry("C02", p=0.03), entry("N01", p=0.04), entry("U01", p=0.05)]
    groups = by_group(entries)
    assert [[e.id for e in own] for own in groups.values()] == [["C01", "C02"], ["N01"], ["U01"]]
    families = {title: adjusted_p_values(own) for title, own in groups.items()}
    assert [list(family.values()) for family in families.values()] == [[0.04, 0.04], [0.04], [0.05]]
    assert "2 claims of “Claims of the study”, and apart from them over the 1 claim of" in family_words(families)
    assert family_words({"a": {"C01": 0.1}, "b": {}}) == "1 claim"


def test_a_group_is_summed_up_from_its_findings() -> None:
    said = summary([entry("N01", estimate=0.31, lower=0.1, upper=0.5), entry("N02", "inconclusive")])
    assert "Of 2 claims put to the test, 1 came out as supported and 1 as inconclusive." in said
    assert "No verdict rests on more than 48 models or 16 labs" in said
    assert summary([]) == summary([Entry("N01", None)]) == "No claim has been put to the test yet."


@pytest.mark.parametrize("name", ["index.html", "index.md"])
def test_groups_stand_apart_on_the_first_page(tmp_path: Path, name: str) -> None:
    workplace = make_workplace(tmp_path)
    assert report(**workplace, processes=1).ok
    text = (workplace["out"] / name).read_text(encoding="utf-8")
    assert "Claims of the study" not in text and "recipes assigned by design" not in text
    write_analysis(workplace["analyses"], "N01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    text = (workplace["out"] / name).read_text(encoding="utf-8")
    study, nursery = text.index("Claims of the study"), text.index("The nursery: a controlled study")
    assert study < nursery and "recipes assigned by design" in text and "Of 2 claims put to the test" in text
    assert text.index("c02/index") < nursery < text.index("n01/index", nursery)
    if name == "index.md":
        rows = {line[3:6]: line for line in text.splitlines() if line.startswith("| [")}
        assert "= 0.040" in rows["C01"] and "= 0.040" in rows["N01"]


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_report_of_own_claims_says_nothing_of_the_study(tmp_path: Path, kind: str) -> None:
    workplace = make_workplace(tmp_path)
    for path in workplace["analyses"].glob("*.py"):
        path.unlink()
    write_analysis(workplace["analyses"], "U01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    index = (workplace["out"] / f"index.{kind}").read_text(encoding="utf-8")
    assert "A 2026 preprint" not in index and "study’s own result files" not in index
    assert "1 claim put to the test" in index and "of whoever wrote its script, and so is its rule" in index
    assert "No verdict rests on more than 1 model or 1 lab" in index
    write_analysis(workplace["analyses"], "U02", "TII", p=0.04)
    assert report(**workplace, processes=1).ok
    both = (workplace["out"] / f"index.{kind}").read_text(encoding="utf-8")
    assert "Of 2 claims put to the test, 2 came out as supported" in both
    assert "of whoever wrote their scripts, and so are their rules" in both
    page = (workplace["out"] / "u01" / f"index.{kind}").read_text(encoding="utf-8")
    assert "fixed before its test was run" not in page and "own figures were known" not in page
    assert "Source in the study" not in page
    assert "thermostats report U01 --analyses ANALYSES --data DATA --out REPORT" in page
    assert "python analyses/" not in page


def test_a_claim_that_a_folder_lacks_is_looked_for_where_it_is() -> None:
    ours, own = {"C01": Path("c01_a.py"), "C04": Path("c04_b.py")}, {"U01": Path("u01_a.py")}
    for asked, found, step in (
        ("C04", own, "claims that ship are reported without --analyses"),
        ("C99", ours, "thermostats ls claims"),
        ("C4", ours, "did you mean C04?"),
    ):
        with pytest.raises(UsageError, match="no such claim") as caught:
            chosen([asked], found)
        assert caught.value.next_step == step
