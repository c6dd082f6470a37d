"""What an analysis prints when it runs as a script: its verdict on one screen, or with `--details` all it has."""

from __future__ import annotations

import itertools
import math
import shlex
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import thermostats
from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding, text_of, wrapped
from thermostats.claims.judge import two_verdicts
from thermostats.claims.result import UNMEASURED
from thermostats.errors import ThermostatsError
from thermostats.formatting import estimate_range
from thermostats.settings import DRAW_VARIABLE, variables
from thermostats.tables.folders import shipped
from thermostats.terminal import looked_at, print_json, readable_in_part, refuse

if TYPE_CHECKING:
    from thermostats.claims.claim import Claim

MOST_LINES, MOST_FINDINGS, WIDTH = 25, 12, 100
"""Lines on one screen, those of them that are findings, and characters of a line of prose."""
HEADS = ("finding", "verdict", "estimate [interval]", "set", "models / groups")
WIDTHS = {"verdict": 17, "estimate [interval]": 24, "set": 9}
IN_JSON = {"verdict", "reason", "leans", "unless", "provisional", "estimate", "lower", "upper", "interval"}
IN_JSON |= {"probability", "level", "limit", "p_worst", "evidence", "n_models", "n_heritages", "group"}
"""Columns of the table of findings that `--json` gives, next to `finding`."""


def run_as_script(claim: Claim) -> None:
    """Answer the command line of an analysis; the options are its help's."""
    options = _options(claim)
    try:
        with readable_in_part():
            if not options.json:
                print(f"{claim.id}  {claim.title}", flush=True)
            _answer(claim, options)
    except ThermostatsError as error:
        refuse(error, as_json=options.json)
        sys.exit(error.exit_code)


def _options(claim: Claim) -> Namespace:
    parser = ArgumentParser(description=f"{claim.id} {claim.title}. Prints its verdict; no report is written.")
    parser.add_argument("--data", type=Path, help="folder of your own rows, read together with the package's tables")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--details", action="store_true", help="rules, every set of evidence, fits, notes and tables")
    how.add_argument("--json", action="store_true", help="the findings as JSON")
    how.add_argument("--report", action="store_true", help="write the claim's page into the folder reports")
    parser.add_argument("--draw", action="store_true", help="with details, also draw the posteriors that need PyMC")
    return parser.parse_args()


def _answer(claim: Claim, options: Namespace) -> None:
    if options.report:
        folder = Path(sys.argv[0]).parent
        analyses = None if folder.resolve() == shipped("analyses").resolve() else folder
        made = thermostats.report(claim.id, data=options.data, analyses=analyses, draw=options.draw)
        print(made)
        sys.exit(not made.ok)
    evidence = Evidence(options.data)
    if options.json:
        print_json(as_json(claim, list(claim.decided(evidence))))
    elif options.details or options.draw:
        with variables({DRAW_VARIABLE: "1"}) if options.draw else nullcontext():
            _print_details(claim, evidence)
    else:
        _print_screen(claim, evidence, options.data)


def _print_details(claim: Claim, evidence: Evidence) -> None:
    """Everything that a page says of the findings."""
    if claim.exact:
        print("\n" + wrapped(f"Exact: {claim.exact}"))
    print("\n" + wrapped(f"Said: {claim.statement}") + "\n" + wrapped(f"Rule: {claim.stated().rule}"), flush=True)
    with _Progress("judging; about ten seconds a finding with a fit"):
        findings = claim.judge(evidence)
    for finding in findings:
        print("\n" + text_of(finding))


def _print_screen(claim: Claim, evidence: Evidence, data: Path | None) -> None:
    """The claim's words, a line a finding as each is decided, the verdict, and what to type next."""
    print(wrapped(f"Said: {claim.statement}"), flush=True)
    width = max(map(len, [HEADS[0], *(_name(question.id) for question in claim.questions)]))
    print("\n" + _line(HEADS, width), flush=True)
    findings, shown = [], 0
    for finding in _watched(claim.decided(evidence), len(claim.questions)):
        findings.append(finding)
        if shown < MOST_FINDINGS:
            print(_line(_cells(finding), width), flush=True)
            shown += 1
    if len(findings) > shown:
        print(f"  and {len(findings) - shown} more, which --details and --json have")
    leading = claim.first(findings)
    for line in verdict_lines([*leading, *(each for each in findings if each not in leading)]):
        print(line)
    words = ["python", sys.argv[0], *(["--data", str(data)] if data else [])]
    print(f"Next: {shlex.join([*words, '--details'])}, or with --report its page")


def verdict_lines(findings: Sequence[Finding]) -> list[str]:
    """The verdict of a claim's first question, which comes first, with its condition: on its own files, and on all."""
    own, every = two_verdicts(findings)
    sets = {"on the study’s own files": own, "on all evidence": every}
    said = [f"{where}: {finding.stands}" for where, finding in sets.items() if finding] or [findings[0].stands]
    filled = textwrap.fill("; ".join(said), WIDTH, initial_indent="Verdict ", subsequent_indent="  ")
    return ["", *filled.splitlines()]


def as_json(claim: Claim, findings: Sequence[Finding]) -> dict[str, Any]:
    """The claim and its findings by the names of columns; numbers that are not there are null."""
    rows = []
    for finding in findings:
        columns = {name: value for name, value in finding.columns().items() if name in IN_JSON}
        rows.append({"finding": finding.id, **{name: _plain(value) for name, value in columns.items()}})
    first = claim.first(findings)
    return {
        "claim": claim.id,
        "title": claim.title,
        "said": claim.statement,
        "verdict": first[0].stands,
        "findings": rows,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _name(finding: str) -> str:
    return finding.partition(".")[2]


def _cells(finding: Finding) -> tuple[str, ...]:
    head, sample = finding.headline, finding.sample
    estimate = estimate_range(head) if head.value is not None and finding.verdict != UNMEASURED else ""
    return _name(finding.id), finding.verdict, estimate, sample.evidence, f"{sample.n_models} / {sample.n_groups}"


def _line(cells: Sequence[str], width: int) -> str:
    widths = (width, *WIDTHS.values(), 0)
    return ("  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(cells, widths, strict=True))).rstrip()


def _watched(findings: Iterator[Finding], total: int) -> Iterator[Finding]:
    """The same findings; a terminal says meanwhile which of them is being decided."""
    for number in itertools.count(1):
        with _Progress(f"deciding finding {number} of {total}" if number <= total else "on other sets of evidence"):
            finding = next(findings, None)
        if finding is None:
            return
        yield finding


class _Progress:
    """A passing line on a terminal's standard error."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __enter__(self) -> None:
        if looked_at():
            print(f"\r\033[K  … {self.words}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if looked_at():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
