"""The index tells the claims of the study, those of the nursery and a user's own apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from workplaces import make_workplace, write_analysis

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Finding, Sample
from thermostats.claims.run import load_claims
from thermostats.claims.study import list_further_statements
from thermostats.reporting.claim_page import Entry
from thermostats.reporting.pages.index import group_entries, index_text, put_headline_first
from thermostats.reporting.report import report
from thermostats.reporting.snapshot import read_findings
from thermostats.studies.delia2026 import STUDY
from thermostats.tables import folders


def entry(claim: str, verdict: str = "supported") -> Entry:
    finding = Finding(
        f"{claim}.share", "share", verdict, "So.", sample=Sample(n_models=48, n_groups=16)
    )
    return Entry(claim, Claim(claim, f"Title of {claim}", "", "", ""), (finding,))


def test_each_group_has_its_own_summary() -> None:
    entries = [entry("C01"), entry("C02", "inconclusive"), entry("N01"), entry("U01")]
    groups = group_entries(entries)
    assert [[e.id for e in own] for own in groups.values()] == [["C01", "C02"], ["N01"], ["U01"]]
    text = index_text(entries, {})
    assert "Of 2 claims put to the test, 1 came out as supported and 1 as inconclusive." in text
    assert "No verdict that leads a page rests on more than 48 models or 16 labs" in text
    assert "No claim has been put to the test yet." in index_text([Entry("N01", None)], {})


def test_the_index_adds_what_further_findings_say_in_short() -> None:
    """After the answer of the first; on another set of evidence it is said once."""
    first = entry("C02").findings[0]
    more = [
        replace(first, id="C02.exponent", short="It falls more slowly."),
        replace(first, id="C02.exponent", sample=Sample("pooled", "published")),
        replace(first, id="C02.total"),
    ]
    text = index_text([replace(entry("C02"), findings=(first, *more))], {})
    assert "So. It falls more slowly. (" in text
    assert text.count("It falls more slowly.") == 2


def test_claims_and_findings_of_one_observation_stand_below_all_others() -> None:
    """The study's first come first; none loses its row, and a finding's sentence is said once."""
    ids = ("C01", "C04", "C06", "C18", "N01", "R01")
    entries = [entry(claim) for claim in ids]
    first = entries[3].findings[0]
    apart = replace(first, id="C18.cliches", estimand="difference", short="It is less.")
    entries[3] = replace(entries[3], findings=(first, apart))
    text = index_text(entries, {})
    rows = re.findall(r"^(?:## (.*)|\| \[(\S+) .*)$", text.partition("## Details")[0], re.M)
    assert [title or id_ for title, id_ in rows] == [
        *("Claims of the study", "C04", "C01", "C18"),
        *("The nursery: a controlled study", "N01"),
        *("Further statements", "C06", "C18.cliches", "R01"),
    ]
    assert text.count("It is less.") == 1
    assert "| [C18.cliches Difference](c18/index.md) | It is less. | " in text


def test_statements_of_one_observation_name_claims_and_findings_that_there_are() -> None:
    kept = read_findings(folders.find_shipped("reports") / "snapshot" / "findings.csv")
    there = {*kept["claim"], *kept["finding"]}
    named = [*list_further_statements(), *STUDY.report.leading]
    assert named and set(named) <= there


def test_a_further_finding_never_stands_for_the_first_one_on_a_set_of_evidence() -> None:
    """It may be asked of all evidence before the first question is."""
    first = replace(entry("C02").findings[0], id="C02.share", sample=Sample("published"))
    other = replace(first, id="C02.exponent", verdict="inconclusive", sample=Sample("pooled"))
    view = replace(first, verdict="not supported", sample=Sample("pooled", "published"))
    assert put_headline_first((first, other, view)) == [first, view, other]
    text = index_text([replace(entry("C02"), findings=(first, other, view))], {})
    assert "| pooled | ✘ |" in text


def test_the_index_names_where_new_measurements_change_a_verdict() -> None:
    """Of the first finding alone; the controlled study is no new measurement of it, nor is what
    needs measurement."""
    of_set = {
        "published": "inconclusive",
        "pooled": "supported",
        "external": "supported",
        "nursery": "not supported",
    }
    first = entry("C03").findings[0]
    findings = [
        replace(first, id="C03.sign", sample=Sample(name), verdict=verdict)
        for name, verdict in of_set.items()
    ]
    further = [replace(each, id="C03.second", verdict="not supported") for each in findings]
    changed = replace(entry("C03"), findings=(*findings, *further))
    same = [replace(each, verdict="inconclusive") for each in findings[:2]]
    same += [replace(first, id="C03.sign", sample=Sample("measured"), verdict="needs measurement")]
    text = index_text([changed, replace(entry("C04"), findings=tuple(same))], {})
    lines = (
        text.partition("Where new measurements change a verdict")[2]
        .partition("\n\n\n")[0]
        .splitlines()
    )
    assert [line for line in lines if line.startswith("- ")] == [
        "- [C03](c03/index.md): inconclusive on the study’s files, supported on external and pooled"
    ]
    assert "Where new measurements" not in index_text([entry("C04")], {})


NAMES = "correlation|mean|median|interval|p-value|posterior|probability|variance|slope|estimate|share|coefficient"  # noqa: E501


def test_answers_of_the_claims_that_ship_are_short_and_name_no_statistic() -> None:
    shipped = load_claims(folders.find_shipped("analyses"))
    kept = read_findings(folders.find_shipped("reports") / "snapshot" / "findings.csv")
    given = kept[kept["headline"].astype(bool)].set_index("claim")["verdict"]
    assert len(shipped) == len(given)
    for claim in shipped:
        assert claim.answer(given[claim.id]), claim.id
        for said in (*claim.meanings.answers.values(), *claim.meanings.practice.values()):
            assert len(said.split()) <= 25 and not re.search(rf"\b({NAMES})", said), said


@pytest.mark.slow
def test_a_report_of_own_claims_says_nothing_of_the_study(tmp_path: Path) -> None:
    workplace = make_workplace(tmp_path)
    for path in workplace["analyses"].glob("*.py"):
        path.unlink()
    write_analysis(workplace["analyses"], "U01", "Meta", p=0.04)
    assert report(**workplace, processes=1).ok
    index = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "A 2026 preprint" not in index and "study’s own result files" not in index
    assert (
        "1 claim put to the test" in index
        and "belongs to the author of its script, and so does its rule" in index
    )
    assert "No verdict that leads a page rests on more than 1 model or 1 lab" in index
    write_analysis(workplace["analyses"], "U02", "TII", p=0.04)
    assert report(**workplace, processes=1).ok
    both = (workplace["out"] / "index.md").read_text(encoding="utf-8")
    assert "Of 2 claims put to the test, 2 came out as supported" in both
    assert "belong to the authors of their scripts, and so do their rules" in both
    page = (workplace["out"] / "u01" / "index.md").read_text(encoding="utf-8")
    assert not re.search(
        "fixed before its test was run|own figures were known|Source in the study|python anal", page
    )
    assert "thermostats report U01 --analyses ANALYSES --data DATA --out REPORT" in page
