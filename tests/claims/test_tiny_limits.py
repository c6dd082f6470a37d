"""A limit that no study can be expected to pass says what makes it so."""

from __future__ import annotations

import pytest

from thermostats.claims.calibration import TINY, Calibration, load_levels
from thermostats.claims.levels import SIDES

DESIGNS = list(load_levels().groupby(["rule", "n_models", "digest"]))
TINIEST = [
    pytest.param(rows, id=f"{rule} {n} {digest}")
    for (rule, n, digest), rows in DESIGNS
    if any(Calibration(rows).side(side).limit() < TINY for side in SIDES)
]


@pytest.mark.parametrize("rows", TINIEST)
def test_a_tiny_limit_names_the_world_that_makes_it(rows: object) -> None:
    known = Calibration(rows)
    for verdict in SIDES:
        side = known.side(verdict)
        if side.worst is not None and side.limit() < TINY:
            words = f"“{verdict}” is given "
            assert words in known.explain_tiny() and side.worst["words"] in known.explain_tiny()


def test_others_say_nothing_of_it() -> None:
    large = [Calibration(rows) for _, rows in DESIGNS]
    large = [one for one in large if all(not one.side(side).limit() < TINY for side in SIDES)]
    assert large and not any(one.explain_tiny() for one in large)
