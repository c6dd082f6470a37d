"""Whose rows a claim says it reads are those of its findings' sets of evidence."""

import json
from pathlib import Path

import pytest

from thermostats.claims.claim import Claim
from thermostats.claims.evidence import ROWS, Evidence
from thermostats.claims.run import claim_of
from thermostats.claims.scripts import scripts

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = {name: claim_of(path) for name, path in scripts(ROOT / "analyses").items()}


def sets(claim: Claim) -> set[str]:
    views = {name for question in claim.questions if question.views for name in question.views.sets}
    return {question.evidence for question in claim.questions} - {""} | views


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.questions])
def test_a_claim_says_whose_rows_it_reads(name: str) -> None:
    claim = CLAIMS[name]
    lines = [line for line, allowed in ROWS.items() if sets(claim) <= allowed]
    assert claim.rows in lines and ("external" in claim.rows) == ("external" in lines[0])
    assert claim.rows.startswith("study") == (name[0] not in "NX")


def test_a_claim_reads_the_sets_of_its_findings_alone() -> None:
    """C13 asks its questions of published rows first: every other selection is of a set that it names."""
    evidence = Evidence()
    findings = CLAIMS["C13"].judge(evidence)
    assert {finding.sample.evidence for finding in findings if not finding.sample.view_of} == {"published"}
    assert {finding.sample.evidence for finding in findings} == sets(CLAIMS["C13"])
    assert {json.loads(selection)[2] for selection in evidence.selections} == sets(CLAIMS["C13"])
