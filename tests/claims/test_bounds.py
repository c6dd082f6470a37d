"""Bounds of an outcome: what the table has, what is declared, and the box that comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from thermostats.claims import bounds, noise, worlds
from thermostats.errors import DataError
from thermostats.modelling.nuisances import DECLARED
from thermostats.tables.folders import BOUNDS

LINES = (
    ("ar", "depth", "heritage", 0.47),
    ("ratio", "depth", "heritage", 2.1),
    ("share", "depth", "heritage", 0.5),
    ("share", "", "heritage", 0.4),
    ("share", "", "source", 0.3),
    ("skew", "", "", 0.28),
    ("tails", "", "", 0.3),
    ("spread", "", "heritage", 0.45),
)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A table of one outcome."""
    rows = pd.DataFrame(LINES, columns=["nuisance", "column", "group", "upper"])
    lower = [-0.33 if name == "skew" else None for name in rows["nuisance"]]
    whole = {"outcome": "some_gain", "rows": 43, "groups": 12, "median": 0.1, "digest": "x"}
    written = rows.assign(**whole, lower=lower)[list(bounds.COLUMNS)]
    written.to_csv(tmp_path / BOUNDS, index=False)
    monkeypatch.setattr(bounds, "find_shipped", lambda _: tmp_path)
    bounds.load_bounds.cache_clear()
    yield
    bounds.load_bounds.cache_clear()


def test_without_an_outcome_all_is_as_it_is_declared_today() -> None:
    declared = bounds.read_bounds()
    assert declared.plausible == DECLARED and not declared.rows
    assert declared.plausible.ar == noise.LARGEST_AR
    assert declared.plausible.ratio == noise.LARGEST_RATIO
    names = {"ar": "ar", "ratio": "ratio", "between": "share"}
    box = bounds.make_box(declared.plausible, names)
    assert box == {"ar": (0.0, 0.6), "ratio": worlds.RATIO, "between": worlds.BETWEEN}
    assert declared.describe("ar") == "0.6, declared"


@pytest.mark.usefixtures("table")
def test_bounds_are_those_of_the_outcome_along_its_column() -> None:
    found = bounds.read_bounds("some_gain", column="n_layers", group="heritage")
    plausible = found.plausible
    assert (plausible.ar, plausible.ratio, plausible.share) == (0.47, 2.1, 0.5)
    assert (plausible.skew, plausible.tails, plausible.spread) == ((-0.33, 0.28), 0.3, 0.45)
    assert found.describe("skew") == "−0.33 to 0.28, estimated of 43 rows"
    assert bounds.read_bounds("some_gain", "log_blocks", "heritage") == found, "depth as well"
    hostile = bounds.make_box(found.hostile, {"ratio": "ratio", "families": "share"})
    assert hostile == {
        "ratio": pytest.approx((1.0, 4.41, 1 / 4.41)),
        "families": pytest.approx((0.0, 0.8)),
    }


@pytest.mark.usefixtures("table")
def test_what_the_table_lacks_of_an_outcome_is_declared() -> None:
    other = bounds.read_bounds("some_gain", column="rho", group="source")
    assert (other.plausible.ar, other.plausible.ratio) == (DECLARED.ar, DECLARED.ratio)
    assert other.plausible.share == 0.3 and set(other.rows) == {"share", "skew", "tails"}
    assert other.describe("ratio") == "3, declared"
    nothing = bounds.read_bounds("some_gain", group="family").plausible
    assert (nothing.share, nothing.spread) == (DECLARED.share, DECLARED.spread)


@pytest.mark.usefixtures("table")
def test_unknown_outcomes_and_nuisances_are_refused() -> None:
    with pytest.raises(DataError, match=r"got some_gian.* did you mean some_gain"):
        bounds.read_bounds("some_gian")
    with pytest.raises(DataError, match="got skew; allowed: ar, ratio, share"):
        bounds.make_box(DECLARED, {"skewed": "skew"})
