"""`make worlds` where a world fails, and a short version of benchmarks/scale.py."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from thermostats.tables import store

ROOT = Path(__file__).resolve().parents[1]


def module(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module(name)


def test_worlds_that_are_finished_are_written_though_another_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = module("scripts", "worlds", monkeypatch)
    design = ("C01.depth", 22)
    question = SimpleNamespace(
        trial=SimpleNamespace(worlds=[SimpleNamespace(id=name) for name in ("a", "bad", "c")], searches=[])
    )

    def tried(claim: str, design: tuple[str, int], number: int, seconds: float) -> dict[str, object]:
        if number == 1:
            raise ValueError("no such rows")
        return {"rule": design[0], "n_models": design[1], "world": "abc"[number], "digest": "", "supported": 0.5}

    changed = {
        "TABLE": tmp_path / "worlds.csv",
        "tried": tried,
        "designs": lambda claim: {design: (question, None)},
        "todo": lambda claims, seconds: [("C01", design, number) for number in (0, 1, 2)],
        "current": lambda table, claims: table.iloc[:0],
        "ProcessPoolExecutor": lambda *_: ThreadPoolExecutor(1),
    }
    for name, value in changed.items():
        monkeypatch.setattr(worlds, name, value)
    with pytest.raises(RuntimeError, match=r"failed: C01\.depth on 22 rows, world bad") as raised:
        worlds.main(["C01"], 1.0)
    assert str(raised.value.__cause__) == "no such rows"
    assert pd.read_csv(tmp_path / "worlds.csv")["world"].tolist() == ["a", "c"]


def test_simulated_runs_are_sound_and_grow_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = module("benchmarks", "scale", monkeypatch)
    scale.make(tmp_path, runs=5, n_prompts=3)
    assert scale.step("load layers", tmp_path) == 5 * 32 * 3
    assert scale.step("features", tmp_path) == 5
    of_runs = {"models": 6, "prompts": 3, "runs": 5, "layers": 480, "summaries": 30, "transitions": 30, "weights": 320}
    assert {name: count for name, count in store.check(tmp_path).items() if count} == of_runs
    assert scale.step("check", tmp_path) == sum(of_runs.values())
    assert scale.step("join one run", tmp_path) == 1 + 32 * 3 + 6 + 6 + 64
    assert store.check(tmp_path)["runs"] == 6
