"""The README says what is true: its code runs and prints what stands below it, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_code_prints_what_stands_below_it() -> None:
    code, output = re.findall(r"```(?:python|text)\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == output


def test_links_within_the_project_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(links) > 3
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_verb_named_exists() -> None:
    from typer.main import get_command

    from thermostats.cli import app

    verbs = set(get_command(app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`thermostats (\w+)", README)) <= verbs
