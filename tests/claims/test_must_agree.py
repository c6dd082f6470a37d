"""Opposite decisive verdicts under one declared statement are an error, of a claim and of a
report."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import shipped_tables

from thermostats.claims.claim import Claim
from thermostats.claims.finding import Criterion, Finding, check_agreement
from thermostats.claims.result import Estimate, Result
from thermostats.claims.rule import Above, Below
from thermostats.errors import DataError
from thermostats.reporting.build import About, Build
from thermostats.reporting.claim_page import Entry


def finding(name: str, verdict: str, statement: str = "one") -> Finding:
    return Finding(name, "an estimand", verdict, "Words.", criterion=Criterion(statement=statement))


YES, NO, OPEN = "supported", "not supported", "inconclusive"


def test_one_statement_is_not_decided_both_ways() -> None:
    with pytest.raises(DataError, match=r"N01\.a, N02\.b"):
        check_agreement([finding("N01.a", YES), finding("N01.c", OPEN), finding("N02.b", NO)])


@pytest.mark.parametrize("others", [("one", OPEN), ("one", YES), ("another", NO), ("", NO)])
def test_what_is_open_or_asks_something_else_does_not_contradict(others: tuple[str, str]) -> None:
    check_agreement(
        [finding("N01.a", YES), finding("N02.b", others[1], others[0]), finding("N03.c", NO, "")]
    )


def test_a_report_with_a_contradiction_is_not_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entries = [
        Entry(name[:3], None, (finding(name, said),))
        for name, said in (("N01.a", YES), ("N02.b", NO))
    ]
    build = Build(SimpleNamespace(out=tmp_path, about=(), records={}))  # type: ignore[arg-type]
    monkeypatch.setattr(About, "_entries", entries)
    with pytest.raises(DataError, match="decide one statement both ways"):
        build.write_remaining({}, [])


WORDS = (
    "# U01 Gains grow\n\n## Said\nGains grow.\n\n## Estimand\nthe gain\n\n## Identification\nNot "
    "causal.\n"
)


def test_a_claim_that_decides_both_ways_is_refused(tmp_path: Path) -> None:
    parts = "".join(
        f"\n## {name}\n### estimand\ngain\n### plain\nWords.\n" for name in ("one", "other")
    )
    (tmp_path / "u01.md").write_text(WORDS + parts, encoding="utf-8")
    claim = Claim.read(tmp_path / "u01.py")
    gain = Estimate(2.0, 1.9, 2.1, "95%")
    for name, rule in (("one", Above("gain", 1)), ("other", Below("gain", 1))):
        declare = claim.finding(name, primary=rule, evidence=None, statement="gains grow")
        declare(lambda evidence: Result(quantities={"gain": gain}))
    with pytest.raises(DataError, match=r"U01\.one, U01\.other"):
        claim.judge(shipped_tables())
