"""Bounds of an outcome: what the table has, what is declared, and the box that comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

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
    names = {"ar": "ar", "ratio": "ratio", "between": "share"}
    box = bounds.make_box(declared.plausible, names)
    assert box == {"ar": (0.0, 0.6), "ratio": (1.0, 3.0, 1 / 3), "between": (0.0, 0.6)}
    assert (box["ratio"], box["between"]) == (worlds.RATIO, worlds.BETWEEN)
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


@pytest.mark.usefixtures("table")
def test_worlds_of_an_outcome_end_where_its_residuals_do() -> None:
    line = worlds.build_line_worlds("y", "n_layers", 0.5, measured="some_gain")
    assert line.box == {
        "ar": (0.0, 0.47),
        "ratio": (1.0, 2.1, pytest.approx(1 / 2.1)),
        "between": (0.0, 0.5),
    }
    assert {"long-tailed", "upward skewed", "downward skewed", "unlike labs"} < set(line.kinds)
    assert not {"t3", "t4", "lognormal", "heteroscedastic labs"} & set(line.kinds)
    corners = [point for point in line.plausible() if point["ar"] == 0.47 and point["ratio"] == 2.1]
    assert {"ar": 0.47, "ratio": 2.1, "between": 0.25} in corners
    (up, down) = line.hostile()
    assert up["ratio"] == pytest.approx(2.1**2) and down["ratio"] == pytest.approx(2.1**-2)
    assert up["between"] == pytest.approx(0.8) and up["wide"] == 1
    beyond = line.build_world("null", "upward skewed", **up)
    assert beyond.errors.kind_words == "log-normal errors of σ 0.56"
    assert line.describe_nuisances(**up).startswith("neighbours in depth err alike (0.77)")
    said = line.describe_bounds()
    assert said.startswith("Bounds: correlation of neighbours up to 0.47, estimated of 43 rows, ")
    assert "σ of log-normal errors from −0.33 to 0.28, estimated of 43 rows" in said
    assert said.endswith("logarithm of labs' SDs up to 0.45, estimated of 43 rows.")


def test_without_an_outcome_worlds_are_as_they_were() -> None:
    line = worlds.build_line_worlds("y", "n_layers", 0.5)
    assert line.kinds == tuple(noise.ERRORS) and not line.limits.outcome
    assert line.hostile() == [{"ar": 0.6, "ratio": end, "between": 0.6} for end in (3.0, 1 / 3)]
    assert line.describe_bounds() == "All bounds of nuisances are declared."


@pytest.mark.usefixtures("table")
def test_sources_have_sds_of_their_own_where_they_are_the_groups() -> None:
    descent = worlds.build_descent_worlds("y", 0.6, "log_n", group="source", measured="some_gain")
    assert "unlike sources" in descent.kinds
    rows = pd.DataFrame({"heritage": "lab", "source": ["a", "b"] * 500, "log_n": range(1000)})
    errors = noise.Errors("unlike sources", group="source", limits=descent.limits)
    drawn = errors.draw(rows, noise.Random(np.random.default_rng(1), 4000))
    ratio = drawn[:, ::2].std(axis=1) / drawn[:, 1::2].std(axis=1)
    assert np.log(ratio).std() == pytest.approx(DECLARED.spread * 2**0.5, rel=0.05)


@pytest.mark.parametrize(("kind", "skewness"), [("upward skewed", 1), ("downward skewed", -1)])
def test_skewed_errors_have_the_skewness_of_their_sigma(kind: str, skewness: int) -> None:
    limits = noise.Limits("some", DECLARED.__class__(skew=(-0.3, 0.3)))
    rows = pd.DataFrame({"heritage": range(2000)})
    drawn = noise.Errors(kind, limits=limits).draw(rows, noise.Random(np.random.default_rng(1), 50))
    assert stats.skew(drawn.ravel()) == pytest.approx(
        skewness * stats.lognorm(0.3).stats("s"), rel=0.1
    )
    assert drawn.var() == pytest.approx(1, rel=0.02) and drawn.mean() == pytest.approx(0, abs=0.02)


def test_levels_of_the_focal_group_are_more_or_less_unlike_than_its_errors() -> None:
    shift = worlds.build_shift_worlds("y", 0.1, 1.0, by="focal", families=True, group="family")
    assert shift.box["between"] == (0.5, 0.6, 0.0) and shift.box["unlike"] == worlds.RATIO
    rows = pd.DataFrame({"family": np.arange(4000) // 2, "heritage": "lab"})
    rows = rows.assign(focal=(rows["family"] % 2).astype(float))
    made = shift.build_world("null", unlike=3.0).change(rows, np.random.default_rng(1))
    means = made.groupby("family").agg(y=("y", "mean"), focal=("focal", "first"), own=("y", "var"))
    spread = means.groupby("focal")["y"].var() - means.groupby("focal")["own"].mean() / 2
    assert (spread[1] / spread[0]) ** 0.5 == pytest.approx(3, rel=0.15)
    own = means.groupby("focal")["own"].mean()
    assert own[1] == pytest.approx(own[0], rel=0.1)
