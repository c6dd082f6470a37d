"""Every case of public reports that lies beside the checkout prints PASS; without them nothing is
run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "reports"
NAMES = sorted(path.parent.name for path in CASES.glob("*/run.py"))
LIMIT = 900
"""Seconds that a case may take."""


@pytest.mark.slow
@pytest.mark.skipif(not NAMES, reason="the cases are not here")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_case_of_a_public_report_passes(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(CASES / name / "run.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=LIMIT,
        check=False,
    )
    said = done.stdout.splitlines()[-1:] or done.stderr.splitlines()[-1:]
    assert done.returncode == 0 and said[0].startswith("PASS"), said
