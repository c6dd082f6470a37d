"""Short versions of `make mutants`, `make robustness` and benchmarks/scale.py; long ones: benchmarks/results."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from thermostats.tables import store

ROOT = Path(__file__).resolve().parents[1]


def module(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / folder))
    found: ModuleType = importlib.import_module(name)
    return found


SOURCE = '''
"""Words for people."""
LIMIT: int = 3

def f(a, b=True):
    """More words."""
    if a < LIMIT and not b:
        raise ValueError("a sentence")
    print(a)
    return a + 1
'''
CHANGES = {
    "3 + 1": "LIMIT: int = 4",
    "True turned": "def f(a, b=False):",
    "condition turned": "if not (a < LIMIT and (not b)):",
    "And to Or": "if a < LIMIT or not b:",
    "Lt to LtE": "if a <= LIMIT and (not b):",
    "Not dropped": "if a < LIMIT and (not not b):",
    "print(a) dropped": "    None\n",
    "returns None": "return None",
    "Add to Sub": "return a - 1",
    "1 + 1": "return a + 2",
}


def test_every_rule_changes_one_thing_and_words_for_people_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = module("scripts", "mutation_rules", monkeypatch).mutants(SOURCE)
    by = {mutant.what.split(" ", 2)[2]: mutant.source() for mutant in found}
    assert by.keys() == CHANGES.keys()
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for what, text in by.items():
        assert CHANGES[what] in text, (what, text)
        assert sum(one != other for one, other in zip(plain, text.splitlines(), strict=True)) == 1
    lines = {mutant.what.split(" ", 2)[2]: mutant.lines for mutant in found}
    assert (lines["3 + 1"], lines["Add to Sub"]) == (range(3, 4), range(10, 11))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_mutants_are_noticed_and_run_once(tmp_path: Path) -> None:
    results = tmp_path / "mutants.jsonl"
    command = [sys.executable, "scripts/mutants.py", "--modules", "thermostats/tables/caching", "--sample", "4"]
    for _ in range(2):
        subprocess.run([*command, "--results", str(results)], cwd=ROOT, check=True, capture_output=True)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(lines) == 4 and {line["outcome"] for line in lines} == {"killed"}
    assert all(line["tests"] for line in lines)


def line(mutant: str, outcome: str, sha: str = "b", code: str = "x = 1") -> dict[str, Any]:
    return {"module": "a.py", "sha": sha, "of": 9, "mutant": mutant, "code": code, "tests": 3, "outcome": outcome}


def test_the_page_counts_each_mutant_once_and_shows_what_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    robustness = module("scripts", "robustness", monkeypatch)
    monkeypatch.setattr(robustness, "equivalents", lambda: {("a.py", "x = 1", "4 1 + 1"): "nobody reads it"})
    noted = [
        line("line 1:4 1 + 1", "survived", sha="a"),
        line("line 1:4 1 + 1", "survived"),
        line("line 2:4 1 + 1", "killed"),
        line("line 3:4 returns None", "survived"),
        line("line 3:4 returns None", "timeout"),
        line("line 4:0 Add to Sub", "survived", code="y = 1 + 2"),
    ]
    page = robustness.mutants(noted, [])
    assert "Another draw" not in page
    assert "| a.py | 9 | 4 | 1 | 2 | 50 % | 67 % |" in page
    assert "| all | 9 | 4 | 1 | 2 | 50 % | 67 % |" in page
    assert "| a.py | `y = 1 + 2` | line 4:0 Add to Sub | 3 |" in page
    assert "| a.py | `x = 1` | line 1:4 1 + 1 | nobody reads it |" in page
    other = robustness.mutants(noted, [line("line 5:0 Add to Sub", "killed"), line("line 6:0 Add to Sub", "survived")])
    assert "1 of 2 killed, 50 %" in other and "from 1 modules" in other and "| line 6:0 Add to Sub | 3 |" in other


def test_every_reason_names_a_line_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for (name, code, changed), reason in module("scripts", "robustness", monkeypatch).equivalents().items():
        lines = [each.strip() for each in (ROOT / name).read_text(encoding="utf-8").splitlines()]
        assert code in lines, f"{name} has no line {code!r}: judge it anew, or leave it out"
        assert reason and changed


def test_simulated_runs_are_sound_and_grow_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = module("benchmarks", "scale", monkeypatch)
    monkeypatch.setenv("THERMOSTATS_CACHE", "off")  # put back at the end: a step sets its own
    scale.make(tmp_path, runs=5, n_prompts=3)
    assert scale.step("load layers", tmp_path) == 5 * 32 * 3
    assert scale.step("features", tmp_path) == 5
    of_runs = {"models": 6, "prompts": 3, "runs": 5, "layers": 480, "summaries": 30, "transitions": 30, "weights": 320}
    assert {name: count for name, count in store.check(tmp_path).items() if count} == of_runs
    assert scale.step("check", tmp_path) == sum(of_runs.values())
    assert scale.step("join one run", tmp_path) == 1 + 32 * 3 + 6 + 6 + 64
    assert scale.step("features again", tmp_path) == 6
    assert store.check(tmp_path)["runs"] == 6
