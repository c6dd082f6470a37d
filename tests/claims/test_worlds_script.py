"""`scripts/worlds.py` keeps every world that is through, whatever becomes of others, and does none of them again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import Any

import pandas as pd
import pytest

from scripts import worlds
from thermostats.claims import error_rates, simulation

CLAIM, LIMIT = "C20", 60.0
KEY = ["rule", "n_models", "world"]


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pd.DataFrame]:
    """The committed rows, in place of which stand one of another claim and one of an earlier rule."""
    table, folder = error_rates.table(), tmp_path_factory.mktemp("data")
    other, earlier = (table[table["rule"].str.startswith(claim)].head(1) for claim in ("C02.", f"{CLAIM}."))
    pd.concat([other, earlier.assign(world="of an earlier rule", digest="earlier")]).to_csv(
        folder / "worlds.csv", index=False
    )
    monkeypatch.setattr(error_rates, "shipped", lambda _: folder)
    monkeypatch.setattr(worlds, "TABLE", folder / "worlds.csv")
    monkeypatch.setattr(worlds, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    error_rates.table.cache_clear()
    yield table
    error_rates.table.cache_clear()


def test_worlds_that_are_through_stay_and_are_not_done_again(
    committed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int, str]] = []

    def tried(claim: str, design: worlds.Key, number: int, seconds: float) -> dict[str, Any]:
        world = worlds.worlds_of(worlds.designs(claim)[design][0])[number].id
        done.append((*design, world))
        if len(done) == 2:
            raise ValueError("no studies")
        return dict(committed.set_index(KEY, drop=False).loc[(*design, world)])

    def table() -> pd.DataFrame:
        error_rates.table.cache_clear()
        return error_rates.table()

    monkeypatch.setattr(worlds, "tried", tried)
    with pytest.raises(RuntimeError, match=r"failed: C20\.\w+ on \d+ rows, world"):
        worlds.main([CLAIM], LIMIT)
    other, *rows = table()[[*KEY, "digest"]].itertuples(index=False, name=None)
    assert other[0].startswith("C02.")
    assert sorted(row[:3] for row in rows) == sorted({*done} - {done[1]}) and "earlier" not in {row[3] for row in rows}
    (missing,) = worlds.todo([CLAIM], LIMIT)
    assert missing[1] == done[1][:2]
    worlds.main([CLAIM], LIMIT)
    short = table()["simulations"].iloc[1:] < simulation.SIMULATIONS
    assert done[-1] == done[1] and len(done) == len(rows) + 2 and not list(worlds.todo([CLAIM], LIMIT))
    assert len(list(worlds.todo([CLAIM], inf))) == short.sum() > 0
