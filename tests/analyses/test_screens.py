"""An analysis as a script: its verdict on one screen, that of the page, with progress, options and
refusals."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from altered import analysis, by_rules_alone, shipped

from thermostats.claims.claim import MOST_LINES, Claim
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding, Sample
from thermostats.claims.result import OPEN, Estimate
from thermostats.claims.study import list_scripts

ROOT = Path(__file__).parents[2]
SCRIPTS = list_scripts(ROOT / "analyses")
GOLDEN = json.loads((ROOT / "tests" / "golden" / "findings.json").read_text("utf-8"))
CPU_SECONDS = 10.0


def screen(
    claim: Claim, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    script = str(SCRIPTS[claim.id].relative_to(ROOT)) if claim.id in SCRIPTS else "u01_depth.py"
    monkeypatch.setattr(sys, "argv", [script, *words])
    claim.main()
    return capsys.readouterr().out


def stub(claim: Claim) -> list[Finding]:
    """A finding of every question on every set that it may be put to, of long words and numbers."""
    head = Estimate(-0.123456, -1234.5, 1234.5, "95% t", 0.01)
    asked = [
        (q.id, name)
        for q in claim.questions
        for name in (q.scope.evidence, *(q.views.sets if q.views else ()))
    ]
    return [
        Finding(i, i, OPEN, "", headline=head, sample=Sample(name, "", 1234, 321))
        for i, name in asked
    ]


def test_every_script_fits_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(SCRIPTS) >= 30
    for name in SCRIPTS:
        claim = analysis(name.lower()).CLAIM
        monkeypatch.setattr(Claim, "decided", lambda self, _: iter(stub(self)))
        lines = screen(claim, monkeypatch, capsys).splitlines()
        assert len(lines) <= MOST_LINES, name
        assert lines[0] == f"{claim.id}  {claim.title}"
        assert lines[1].startswith("  Said: "), name
        assert lines[-1].startswith("Next: python analyses/"), name


@pytest.mark.parametrize("name", ["c01", "c04"])
def test_what_a_screen_says_is_what_the_page_says(name: str) -> None:
    tables = shipped()
    by_id = {(f.id, f.sample.evidence): f for f in by_rules_alone(name).CLAIM.judge(tables)}
    started = time.process_time()
    decided = list(analysis(name).CLAIM.decided(tables))
    assert time.process_time() - started < CPU_SECONDS
    assert {f.id for f in decided} == {id_ for id_, _ in by_id}
    for finding in decided:
        other = by_id[finding.id, finding.sample.evidence]
        assert (finding.stands, finding.headline, finding.sample.n_models) == (
            other.stands,
            other.headline,
            other.sample.n_models,
        )


@pytest.mark.slow
def test_every_screen_says_what_is_frozen() -> None:
    differ, compared = [], 0
    for name in SCRIPTS:
        for finding in analysis(name.lower()).CLAIM.decided(shipped().fork()):
            sample = finding.sample
            key = f"{finding.id} on {sample.evidence}"
            frozen = GOLDEN.get(key if sample.view_of else finding.id, {})
            compared += bool(frozen)
            value, was = finding.headline.value, frozen.get("estimate")
            same = (value is None) == (was is None) and (
                value is None or math.isclose(value, was, rel_tol=1e-9)
            )
            if frozen.get("verdict") != finding.verdict or not same:
                differ.append((key, frozen.get("verdict"), finding.verdict, was, value))
    assert compared > 150
    assert differ == []


def test_the_verdict_stands_last_with_its_condition_and_the_next_line_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = analysis("c01").CLAIM
    first = next(iter(claim.decided(shipped().fork())))
    lines = screen(claim, monkeypatch, capsys).splitlines()
    verdict = " ".join(line.strip() for line in lines[lines.index("", 4) + 1 : -1])
    assert f"on the study’s own files: {first.stands}" in verdict
    assert "on all evidence: " in verdict
    typed = shlex.split(lines[-1].removeprefix("Next: ").partition(",")[0])
    asked = [sys.executable, *typed[1:-1], "--help"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert typed[-1] in done.stdout


def test_the_words_come_before_any_table_is_read_and_findings_as_they_are_decided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim, printed = analysis("c01").CLAIM, []

    def decided(self: Claim, evidence: Evidence) -> Iterator[Finding]:
        assert not evidence._loaded
        for finding in stub(self):
            printed.append(capsys.readouterr().out)
            yield finding

    monkeypatch.setattr(Claim, "decided", decided)
    screen(claim, monkeypatch, capsys)
    assert printed[0].startswith("C01  ")
    lines = [text.count("\n") for text in printed[1:]]
    assert lines[0] == 1, "a line as a finding is decided"
    assert lines == sorted(lines, reverse=True) and max(lines) == 1, "as many as a screen has"


def test_json_has_the_verdict_and_the_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = analysis("c01").CLAIM
    made = json.loads(screen(claim, monkeypatch, capsys, "--json"))
    assert (made["claim"], made["said"]) == ("C01", claim.statement)
    first = made["findings"][0]
    assert first["finding"] == "C01.depth.penultimate_gain"
    assert first["estimate"] == pytest.approx(GOLDEN["C01.depth.penultimate_gain"]["estimate"])
    assert made["verdict"].startswith(first["verdict"])


def test_report_writes_the_page_and_draw_reaches_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    class Made:
        ok = True

        def __str__(self) -> str:
            return "a page"

    monkeypatch.setattr(
        "thermostats.report", lambda *a, **k: asked.append((a, k)) or Made(), raising=False
    )
    with pytest.raises(SystemExit) as stopped:
        screen(analysis("c01").CLAIM, monkeypatch, capsys, "--report", "--draw")
    assert stopped.value.code == 0
    assert asked == [(("C01",), {"data": None, "analyses": None, "draw": True})]
    assert capsys.readouterr().out.endswith("a page\n")


def test_one_form_at_a_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        screen(analysis("c01").CLAIM, monkeypatch, capsys, "--json", "--details")
    assert stopped.value.code == 2
