"""`scripts/nuisances.py` makes nothing again that stands, and what changed anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scripts import nuisances as script
from thermostats.claims import bounds
from thermostats.claims.evidence import Evidence
from thermostats.errors import UsageError
from thermostats.modelling import nuisances
from thermostats.tables.folders import BOUNDS

ROWS = 24
SHIPPED = script.TABLE


def make_rows(moved: float = 0.0) -> pd.DataFrame:
    """Models of eight labs."""
    rng = np.random.default_rng(3)
    numbers = {name: rng.normal(size=ROWS) for name in ("log_L", "n_layers", script.VALUE)}
    rows = pd.DataFrame({"heritage": [f"lab {place % 8}" for place in range(ROWS)], **numbers})
    rows.loc[0, script.VALUE] += moved
    return rows


def make_outcome(rows: pd.DataFrame) -> script.Outcome:
    """Some outcome of these rows."""
    return script.Outcome(
        rows=lambda _: rows,
        removed=("log_L",),
        columns=("n_layers",),
        groups={"heritage": ()},
        unlike=("heritage",),
    )


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(script, "TABLE", tmp_path / BOUNDS)
    monkeypatch.setattr(bounds, "find_shipped", lambda _: tmp_path)
    few = make_rows().head(6)
    outcomes = {"one": make_outcome(make_rows()), "few": make_outcome(few)}
    monkeypatch.setattr(script, "OUTCOMES", outcomes)
    yield tmp_path
    bounds.load_bounds.cache_clear()


def test_lines_are_made_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main([])
    written = (folder / BOUNDS).read_bytes()
    assert "few" in capsys.readouterr().out
    bounds.load_bounds.cache_clear()
    found = bounds.read_bounds("one", column="n_layers", group="heritage")
    assert set(found.rows) == {"ar", "ratio", "share", "skew", "tails", "spread"}
    assert set(found.rows.values()) == {ROWS}

    made = list[str]()
    estimate = script.Job.estimate

    def counted(job: script.Job) -> list[dict[str, object]]:
        made.append(job.outcome)
        return estimate(job)

    monkeypatch.setattr(script.Job, "estimate", counted)
    script.main(["one"])
    assert not made and (folder / BOUNDS).read_bytes() == written
    script.main(["one"], anew=True)
    assert made and (folder / BOUNDS).read_bytes() == written
    made.clear()
    monkeypatch.setitem(script.OUTCOMES, "one", make_outcome(make_rows(moved=3.0)))
    script.main(["one"])
    assert len(made) == 4 and (folder / BOUNDS).read_bytes() != written
    monkeypatch.setattr(nuisances, "VERSION", nuisances.VERSION + 1)
    made.clear()
    script.main(["one"])
    assert len(made) == 4


def test_an_outcome_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no such outcome: got 'ones'.* did you mean one"):
        script.main(["ones"])
    assert not list(folder.iterdir())


def test_the_shipped_table_has_every_outcome_and_each_bound_once() -> None:
    bounds.load_bounds.cache_clear()
    table = bounds.load_bounds()
    assert SHIPPED.is_file() and set(table["outcome"]) == set(script.OUTCOMES)
    assert not table.duplicated(list(bounds.KEY)).any()
    assert table["upper"].notna().all() and (table["rows"] > nuisances.LEAST_FREE).all()
    within = {"ar": (0, 1), "ratio": (1, 60), "share": (0, 1), "tails": (0, 0.8)}
    for name, (low, high) in within.items():
        assert table.loc[table["nuisance"] == name, "upper"].between(low, high, "neither").all()
    skew = table[table["nuisance"] == "skew"]
    assert ((skew["lower"] <= 0) & (skew["upper"] >= 0)).all()
    for name in script.OUTCOMES:
        assert {"skew", "tails"} <= set(bounds.read_bounds(name).rows), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["penultimate_gain", "third_wv"])
def test_the_shipped_table_is_what_the_script_makes(name: str) -> None:
    bounds.load_bounds.cache_clear()
    shipped = bounds.load_bounds()
    rows = script.OUTCOMES[name].rows(Evidence())
    made, left_out = script.estimate_outcome(name, rows, bounds.build_empty_table())
    assert not left_out
    made = made.sort_values(list(bounds.KEY), ignore_index=True)
    expected = shipped[shipped["outcome"] == name].reset_index(drop=True)
    pd.testing.assert_frame_equal(made, expected, check_dtype=False, rtol=1e-3)
