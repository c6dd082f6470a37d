"""The index tells the claims of the study, those of the nursery and a user's own apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from workplaces import make_workplace, write_analysis

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding, Sample
from thermostats.claims.run import claims
from thermostats.claims.scripts import chosen
from thermostats.errors import UsageError
from thermostats.reporting.pages.entry import Entry
from thermostats.reporting.pages.index import by_group, index_text
from thermostats.reporting.pages.means import means_text
from thermostats.reporting.report import report
from thermostats.reporting.snapshot import read_findings
from thermostats.tables import folders


def entry(claim: str, verdict: str = "supported") -> Entry:
    finding = Finding(f"{claim}.share", "share", verdict, "So.", sample=Sample(n_models=48, n_groups=16))
    return Entry(claim, Claim(claim, f"Title of {claim}", "", "", "", ""), (finding,))


def test_each_group_has_its_own_summary() -> None:
    entries = [entry("C01"), entry("C02", "inconclusive"), entry("N01"), entry("U01")]
    groups = by_group(entries)
    assert [[e.id for e in own] for own in groups.values()] == [["C01", "C02"], ["N01"], ["U01"]]
    text = index_text(entries, {})
    assert "Of 2 claims put to the test, 1 came out as supported and 1 as inconclusive." in text
    assert "No verdict that leads a page rests on more than 48 models or 16 labs" in text
    assert "No claim has been put to the test yet." in index_text([Entry("N01", None)], {})


def test_the_summary_takes_each_group_in_turn_what_rests_on_most_labs_first() -> None:
    entries = [entry("C01"), entry("C02"), entry("C03", "inconclusive"), entry("N01"), entry("N02", "not supported")]
    most = replace(entries[1].findings[0], sample=Sample(n_models=48, n_groups=20))
    entries[1] = replace(entries[1], findings=(most,))
    summary = index_text(entries, {}).partition("\n## ")[0]
    lines = [line.split(" (")[-1][:4] for line in summary.splitlines() if line.startswith(("- ", "**What"))]
    assert lines == ["**Wh", "[C02", "[N01", "[C01", "**Wh", "[N02", "**Wh", "[C03"]


def test_a_matrix_has_the_first_verdict_of_every_claim_on_every_set_of_evidence() -> None:
    both = entry("C01")
    published, nursery = (replace(both.findings[0], sample=Sample(name)) for name in ("published", "nursery"))
    other = [replace(nursery, verdict=word) for word in ("not supported", "supported")]
    both = replace(both, findings=(published, *other))
    lines = index_text([both, entry("C02")], {}).splitlines()
    assert [line.rstrip() for line in lines if re.match(r"\| (published|nursery|overall|measured) ", line)] == [
        "| published | ✔ |  |",
        "| nursery | ✘ |  |",
        "| overall |  | ✔ |",
    ]


def test_the_index_names_where_new_measurements_change_a_verdict() -> None:
    """Of the first finding alone; the controlled study is no new measurement of it, nor is what needs measurement."""
    of_set = {"published": "inconclusive", "pooled": "supported", "external": "supported", "nursery": "not supported"}
    first = entry("C03").findings[0]
    findings = [replace(first, id="C03.sign", sample=Sample(name), verdict=verdict) for name, verdict in of_set.items()]
    further = [replace(each, id="C03.second", verdict="not supported") for each in findings]
    changed = replace(entry("C03"), findings=(*findings, *further))
    same = [replace(each, verdict="inconclusive") for each in findings[:2]]
    same += [replace(first, id="C03.sign", sample=Sample("measured"), verdict="needs measurement")]
    text = index_text([changed, replace(entry("C04"), findings=tuple(same))], {})
    lines = text.partition("Where new measurements change a verdict")[2].partition("\n\n\n")[0].splitlines()
    assert [line for line in lines if line.startswith("- ")] == [
        "- [C03](c03/index.md): inconclusive on the study’s files, supported on external and pooled"
    ]
    assert "Where new measurements" not in index_text([entry("C04")], {})


NAMES = "correlation|mean|median|interval|p-value|posterior|probability|variance|slope|estimate|share|coefficient"


def test_answers_of_the_claims_that_ship_are_short_and_name_no_statistic() -> None:
    shipped = claims(folders.shipped("analyses"))
    kept = read_findings(folders.shipped("reports") / "snapshot" / "findings.csv")
    given = kept[kept["headline"].astype(bool)].set_index("claim")["verdict"]
    assert len(shipped) == len(given)
    for claim in shipped:
        assert claim.answer(given[claim.id]), claim.id
        for said in (*claim.answers.values(), *claim.practice.values()):
            assert len(said.split()) <= 25 and not re.search(rf"\b({NAMES})", said), said


def test_what_this_means_is_a_line_a_claim_under_its_verdict() -> None:
    practice = {"supported": "Rely on it.", "inconclusive": "Whether it is so."}
    entries = [entry("C01"), entry("C02", "inconclusive"), entry("C03", "not supported")]
    entries = [replace(one, claim=replace(one.claim, practice=practice)) for one in entries if one.claim]
    holds, fails, unknown = means_text(entries).split("## ")[1:]
    assert "- Rely on it. ([C01](c01/index.md))" in holds and "C0" not in fails
    assert "- Whether it is so. ([C02](c02/index.md))" in unknown


def test_a_first_page_holds_the_groups_that_there_are(tmp_path: Path) -> None:
    workplace = make_workplace(tmp_path)
    analyses, out = workplace["analyses"], workplace["out"]
    assert report(**workplace, processes=1).ok
    text = (out / "index.md").read_text(encoding="utf-8")
    assert "Claims of the study" not in text and "drawn at random" not in text
    write_analysis(analyses, "N01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    for name in ("index.html", "index.md"):
        text = (out / name).read_text(encoding="utf-8")
        study, nursery = text.index("Claims of the study"), text.index("The nursery: a controlled study")
        assert study < text.index("c02/index", study) < nursery < text.index("n01/index", nursery)
        assert "drawn at random" in text and "Of 2 claims put to the test" in text


def test_a_report_of_own_claims_says_nothing_of_the_study(tmp_path: Path) -> None:
    workplace = make_workplace(tmp_path)
    for path in workplace["analyses"].glob("*.py"):
        path.unlink()
    write_analysis(workplace["analyses"], "U01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    index = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "A 2026 preprint" not in index and "study’s own result files" not in index
    assert "1 claim put to the test" in index and "belongs to the author of its script, and so does its rule" in index
    assert "No verdict that leads a page rests on more than 1 model or 1 lab" in index
    write_analysis(workplace["analyses"], "U02", "TII", p=0.04)
    assert report(**workplace, processes=1).ok
    both = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "Of 2 claims put to the test, 2 came out as supported" in both
    assert "belong to the authors of their scripts, and so do their rules" in both
    page = (workplace["out"] / "u01" / "index.md").read_text(encoding="utf-8")
    assert not re.search("fixed before its test was run|own figures were known|Source in the study|python anal", page)
    assert "thermostats report U01 --analyses ANALYSES --data DATA --out REPORT" in page


def test_a_claim_of_the_package_is_not_looked_for_among_ones_own() -> None:
    with pytest.raises(UsageError, match="claims that ship with the package are reported without --analyses"):
        chosen(["C04"], {"U01": Path("u01_a.py")})
