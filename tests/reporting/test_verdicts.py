"""Findings as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import thermostats
from thermostats.errors import UsageError

REPORTS = Path(__file__).resolve().parents[2] / "reports"


def test_findings_of_one_claim_and_of_all() -> None:
    every = thermostats.findings(out=REPORTS)
    assert every["claim"].nunique() > 20
    one = thermostats.findings("c04", out=REPORTS)
    assert set(one["claim"]) == {"C04"}
    assert one["headline"].iloc[0]
    assert (
        len(thermostats.findings(["C04", "C01"], out=REPORTS))
        == every["claim"].isin(["C01", "C04"]).sum()
    )


def test_claims_and_folders_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean C04"):
        thermostats.findings("C4", out=REPORTS)
    with pytest.raises(UsageError, match="no report yet"):
        thermostats.findings(out=tmp_path)
