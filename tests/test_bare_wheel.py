"""The wheel in an environment without extras: every verb and every public function once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command

from thermostats.errors import UsageError, build_missing_error

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_every_verb_and_every_function_works_or_says_that_it_needs_torch(tmp_path: Path) -> None:
    """What it installs comes from the index that pip knows."""
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    script = ROOT / "scripts" / "smoke_wheel.py"
    asked = [sys.executable, str(script), str(wheel), sys.executable, "--bare"]
    done = subprocess.run(
        [*asked, "--folder", str(tmp_path / "smoke")], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_of_an_extra_that_is_missing_is_named_with_what_installs_it() -> None:
    error = ModuleNotFoundError(
        "No module named 'huggingface_hub.utils'", name="huggingface_hub.utils"
    )
    refused = build_missing_error(error, "this needs torch", "facts")
    assert isinstance(refused, UsageError) and "[measure]" in refused.next_step
    assert refused.allowed == "facts"
    assert build_missing_error(ModuleNotFoundError(name="polars"), "") is None
    assert build_missing_error(ImportError("torch"), "") is None


def test_a_function_that_needs_torch_says_so_where_it_is_looked_up() -> None:
    code = "import sys; sys.modules['huggingface_hub'] = None; import thermostats; "
    done = command(code=code + "thermostats.measure")
    assert done.returncode == 1
    assert "thermostats.measure needs torch and transformers" in done.stderr
    assert "pip install" in done.stderr.splitlines()[-1]
