"""Two reports held against one another."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agreement", ROOT / "scripts/agreement.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["agreement"] = loaded  # dataclasses look there
    spec.loader.exec_module(loaded)
    return loaded


def report(folder: Path, verdict: str = "supported", estimate: float = 0.5, mean: float = 1.0) -> Path:
    row: dict[str, Any] = {"quantity": "slope", "mean": mean, "mcse": 0.01}
    posterior = {"probability": 0.9, "probability_error": 0.005, "summary": [row]}
    finding = {
        "claim": "C01",
        "estimand": "slope",
        "verdict": verdict,
        "estimate": estimate,
        "lower": None,
        "upper": None,
        "probability": None,
        "posterior": posterior,
    }
    (folder / "c01").mkdir(parents=True)
    (folder / "c01" / "findings.json").write_text(json.dumps({"findings": [finding]}))
    return folder


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({}, 0, "0 verdicts differ"),
        ({"mean": 1.03}, 0, "largest 2.12"),
        ({"mean": 1.08}, 1, "posterior slope: 1 and 1.08"),
        ({"estimate": 0.50001}, 1, "estimate: 0.5 and 0.50001"),
        ({"verdict": "inconclusive"}, 1, "supported and inconclusive"),
    ],
)
def test_what_chance_does_not_explain_is_named(
    agreement: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changed: dict[str, Any],
    code: int,
    said: str,
) -> None:
    assert agreement.main(report(tmp_path / "one"), report(tmp_path / "other", **changed)) == code
    assert said in capsys.readouterr().out
