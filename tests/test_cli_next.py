"""`thermostats next` at the command line: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from thermostats.cli.planning import gigabytes
from thermostats.errors import UsageError

OWN = (
    "model_id,heritage,family,n_layers,n_heads,d_model,n_params\n"
    "me/one,Me,one,24,16,2048,1300000000\n"
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The command with words."""
    line = [sys.executable, "-m", "thermostats", *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_sizes_of_downloads() -> None:
    assert [gigabytes(text) for text in ("25GB", "1.5 tb", "800MB", "7")] == [25, 1500, 0.8, 7]
    for wrong in ("", "x", "-3GB", "0GB", "25 GiB"):
        with pytest.raises(UsageError, match="not a size of downloads"):
            gigabytes(wrong)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("next",), "a claim or --all is asked for"),
        (("next", "C21", "--all"), "a claim or --all is asked for"),
        (("next", "C99"), "no such claim"),
        (("next", "C21", "--budget", "much"), "not a size of downloads"),
        (("next", "C21", "--looks", "9"), "not a number of looks"),
        (("next", "C21", "--looks", "2", "--taken", "2"), "no declared look is left"),
        (("needs",), "a claim or --all is asked for"),
    ],
)
def test_wrong_use_is_told_with_a_line_that_works(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr and "Next: " in done.stderr
    assert "Traceback" not in done.stderr


def test_candidates_of_ones_own_are_judged_and_the_line_measures_them(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(OWN, encoding="utf-8")
    words = ("next", "C21", "--candidates", str(path), "--budget", "5GB")
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["lines"] == ["thermostats measure me/one --what gains --data mine"]
    (only,) = found["sets"]
    assert only["models"][0]["adds"].startswith("new lab Me, shape 24 × 16 × 2048 (")
    assert only["rows"] == found["rows"] + 1


def test_what_no_model_settles_is_no_failure() -> None:
    done = run("next", "C07")
    assert done.returncode == 0 and "No question of it is put to public models" in done.stdout
