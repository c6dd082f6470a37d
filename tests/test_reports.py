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
NEW_NAMES = {
    "thermostats.measurement.gguf_files": {"gguf_folder": "prepare_gguf_folder"},
    "thermostats.measurement.model_row": {"model_row": "build_model_row"},
    "thermostats.measurement.same_function": {"function_distance": "measure_function_distance"},
    "thermostats.modelling.classical.mixed": {"mixed_model": "fit_mixed_model"},
}
"""Functions that the cases call by the names of 0.4, module by module."""
RUNNER = f"""
import importlib, runpy, sys
for module, names in {NEW_NAMES!r}.items():
    module = importlib.import_module(module)
    for old, new in names.items():
        setattr(module, old, getattr(module, new))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.skipif(not NAMES, reason="the cases are not here")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_case_of_a_public_report_passes(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(CASES / name / "run.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=LIMIT,
        check=False,
    )
    verdicts = [line for line in done.stdout.splitlines() if line.startswith(("PASS ", "FAIL "))]
    assert verdicts, done.stderr[-2000:]
    assert done.returncode == 0
    assert verdicts[-1].startswith("PASS "), verdicts[-1]
