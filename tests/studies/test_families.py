"""Families of several depths: models whose family nobody stated are of none."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from thermostats.claims.evidence import POOLED
from thermostats.studies.delia2026 import published_gains


def test_models_without_a_family_are_not_one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame(
        {
            "model_id": list("abcdef"),
            "family": ["", "", "", "f", "f", "f"],
            "n_layers": [6, 12, 24, 12, 6, 24],
            "comparable": True,
        }
    )
    monkeypatch.setattr(published_gains, "load_gains", lambda _: rows)
    kept = published_gains.load_family_gains(SimpleNamespace(name=POOLED))  # type: ignore[arg-type]
    assert kept["model_id"].tolist() == ["e", "d", "f"]
