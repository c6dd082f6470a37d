"""Whose rows a claim says it reads are those of its findings' sets of evidence."""

import json
from pathlib import Path

import pytest
from conftest import shipped_tables

from thermostats.claims import run
from thermostats.claims.claim import Claim
from thermostats.claims.evidence import BESIDE, INTERVENED, ROWS
from thermostats.claims.result import Reason, Verdict
from thermostats.claims.run import find_needs, load_claim
from thermostats.claims.study import list_scripts

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = {name: load_claim(path) for name, path in list_scripts(ROOT / "analyses").items()}


def sets(claim: Claim) -> set[str]:
    views = {name for question in claim.questions if question.views for name in question.views.sets}
    return {question.scope.evidence for question in claim.questions} - {""} | views


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.questions])
def test_a_claim_says_whose_rows_it_reads(name: str) -> None:
    claim = CLAIMS[name]
    lines = [line for line, allowed in ROWS.items() if sets(claim) <= allowed]
    assert claim.basis.rows in lines and ("external" in claim.basis.rows) == (
        "external" in lines[0]
    )
    assert claim.basis.rows.startswith("study") == (name[0] not in "NX")


@pytest.mark.parametrize("name", CLAIMS)
def test_sentences_by_verdict_stand_under_a_verdict_or_a_reason_that_there_is(name: str) -> None:
    """A sentence under any other word would be shown nowhere."""
    claim = CLAIMS[name]
    assert {*claim.meanings.answers, *claim.meanings.practice} <= {
        str(verdict) for verdict in Verdict
    }
    assert {*claim.meanings.settles} <= {str(word) for word in (*Verdict, *Reason)} - {""}


def test_a_claim_is_asked_of_the_sets_that_have_rows_and_reads_those_that_it_names_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C01 asks of published rows first; no family of several depths is measured here, and
    `find_needs` says so. A note of it reads the blocks that were left out."""
    evidence, claim = shipped_tables(), CLAIMS["C01"]
    findings = claim.judge(evidence)
    assert {finding.sample.evidence for finding in findings if not finding.sample.view_of} == {
        "published"
    }
    unasked = sets(claim) - {finding.sample.evidence for finding in findings}
    assert unasked == {"measured"}
    assert all(finding.sample.n_models for finding in findings)
    selections = map(json.loads, evidence.selections)
    read = {parts[2] for parts in selections if parts[0] not in BESIDE}
    assert read == sets(claim) | {INTERVENED}
    monkeypatch.setattr(run, "Evidence", lambda _: evidence.fork())
    needed = {row["evidence"]: row["needs"] for row in find_needs(claim).sets}
    assert all("needs at least" in needed[name] for name in unasked)
