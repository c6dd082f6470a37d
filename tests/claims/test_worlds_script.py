"""`scripts/worlds.py` keeps every rule that is through, whatever becomes of others, and does none
of them again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scripts import worlds
from thermostats.claims import calibration

CLAIM = "C14"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A table with a row of another claim and one of an earlier rule."""
    rows = [row("C02.bound", 22, "other"), row(f"{CLAIM}.variance", 275, "earlier")]
    pd.DataFrame(rows).reindex(columns=list(calibration.ORDER)).to_csv(
        tmp_path / "worlds.csv", index=False
    )
    monkeypatch.setattr(calibration, "find_shipped", lambda _: tmp_path)
    monkeypatch.setattr(worlds, "TABLE", tmp_path / "worlds.csv")
    monkeypatch.setattr(worlds, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    calibration.load_levels.cache_clear()
    yield tmp_path
    calibration.load_levels.cache_clear()


def row(rule: str, n: int, digest: str) -> dict[str, Any]:
    """One row of the table."""
    named = {
        "rule": rule,
        "n_models": n,
        "side": "supported",
        "box": "plausible",
        "point": "size=null",
        "words": "w",
    }
    return {**named, "studies": 10, "rate": 0.1, "bound_05": 0.01, "digest": digest}


def table() -> pd.DataFrame:
    calibration.load_levels.cache_clear()
    return calibration.load_levels()


def test_rules_that_are_through_stay_and_are_not_done_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[worlds.Key] = []

    def tried(claim: str, design: worlds.Key, seconds: float) -> tuple[list[dict[str, Any]], float]:
        done.append(design)
        if len(done) == 2:
            raise ValueError("no studies")
        question, rows = worlds.designs(claim)[design]
        return [row(question.key, len(rows), question.digest())], 1.0

    monkeypatch.setattr(worlds, "tried", tried)
    every = list(worlds.todo([CLAIM], []))
    assert len(every) > 2
    with pytest.raises(RuntimeError, match=rf"failed: {CLAIM}\.\S+ on \d+ rows"):
        worlds.main([CLAIM], 1, 1.0)
    assert set(table()["rule"].str[:3]) == {"C02", CLAIM} and "earlier" not in set(
        table()["digest"]
    )
    ((_, missing),) = worlds.todo([CLAIM], [])
    assert missing == done[1] and len(table()) == len(every)
    assert {rule for _, (rule, *_) in worlds.todo([CLAIM], [f"{CLAIM}.variance"], anew=True)} == {
        f"{CLAIM}.variance"
    }
    worlds.main([CLAIM], 1, 1.0)
    assert done[-1] == missing and len(done) == len(every) + 1 and len(table()) == len(every) + 1
    assert not list(worlds.todo([CLAIM], []))
    assert len(list(worlds.todo([CLAIM], [], anew=True))) == len(every)


def test_an_empty_table_is_filled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame(columns=list(calibration.ORDER)).to_csv(folder / "worlds.csv", index=False)
    made = {design: row(*design) for design in worlds.designs(CLAIM)}
    monkeypatch.setattr(worlds, "tried", lambda claim, design, seconds: ([made[design]], 1.0))
    worlds.main([CLAIM], 1, 1.0)
    assert len(table()) == len(made)


def test_tipping_points_are_asked_for_the_levels_of_every_finding_of_a_rule() -> None:
    (design,) = (each for each in worlds.designs(CLAIM) if each[:2] == (f"{CLAIM}.variance", 275))
    question, rows = worlds.designs(CLAIM)[design]
    levels = worlds.asked(CLAIM, design)
    assert all(
        level in levels[side] for side, level in worlds.measure_levels(question, rows).items()
    )
    assert max(map(len, levels.values())) > 1
