"""Statements that several findings ask: two of them with opposite decisive verdicts on one are an error."""

from __future__ import annotations

from collections.abc import Iterable

from thermostats.claims.finding import Finding
from thermostats.claims.verdict import AGAINST, SUPPORTED
from thermostats.errors import DataError


def must_agree(findings: Iterable[Finding]) -> None:
    """Raise DataError where one finding supports a declared statement and another is decided against it."""
    decided: dict[str, dict[str, str]] = {}
    for finding in findings:
        if finding.criterion.statement and finding.verdict in {SUPPORTED, AGAINST}:
            decided.setdefault(finding.criterion.statement, {})[finding.verdict] = finding.id
    for statement, by in decided.items():
        if len(by) > 1:
            raise DataError(
                "findings decide one statement both ways",
                where=f"{by[SUPPORTED]}, {by[AGAINST]}",
                got=f"“{statement}”: supported by the first, not supported by the second",
                allowed="one decisive verdict a statement",
                next_step="give the findings statements of their own where they differ, or judge their rows together",
            )
