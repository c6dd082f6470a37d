"""C21: gains that a lab lowers at equal shape support it, gains that it raises do not; few families
decide nothing."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from altered import (
    NO,
    OPEN,
    YES,
    altered,
    analysis,
    by_rules_alone,
    judged,
    scaled,
    untried,
    verdict,
)

from thermostats.claims.result import Result, TooFew
from thermostats.claims.rule import V
from thermostats.errors import UsageError


def rows(ratio: float, families: int, c21: Any) -> pd.DataFrame:
    """Six shapes with a model of each of `families` on either side, EleutherAI's gain `ratio` times
    the others'."""
    rng = np.random.default_rng(1)
    made = pd.DataFrame(
        {
            "cell": shape,
            "focal": focal,
            "family": f"{lab} {at}",
            "heritage": lab,
            "model_id": f"{lab} {at} {shape}",
        }
        for shape in range(6)
        for focal, lab in ((True, "EleutherAI"), (False, "another"))
        for at in range(families)
    )
    level = rng.normal(0, 0.3, 6)[made["cell"]] + np.log(ratio) * made["focal"]
    return made.rename(columns={"cell": c21.CELL}).assign(
        log_outcome=level + rng.normal(0, 0.02, len(made))
    )


@pytest.mark.parametrize(
    ("ratio", "families", "expected"), [(0.85, 3, YES), (1.15, 3, NO), (1.0, 4, OPEN)]
)
def test_a_lab_that_lowers_the_gain_at_equal_shape_supports_it(
    ratio: float, families: int, expected: str
) -> None:
    c21 = analysis("c21")
    result = c21.SHAPES(rows(ratio, families, c21))
    assert verdict(c21, "shape.penultimate_gain", result) == expected
    assert result.quantities["ratio"].value == pytest.approx(ratio, rel=0.03)


def test_many_studies_have_what_single_ones_have() -> None:
    c21, rng = analysis("c21"), np.random.default_rng(2)
    design = rows(1.0, 3, c21)
    outcomes = rng.normal(0, 0.1, (8, len(design)))
    many = Result(quantities=c21.compare_shapes(design, {"log_outcome": outcomes}))
    for place, y in enumerate(outcomes):
        single = c21.SHAPES(design.assign(log_outcome=y))
        for part in (V("ratio"), V("ratio").lower, V("ratio").upper, V("ratio").p):
            assert part.read_number(many)[place] == pytest.approx(part.read_number(single))


def test_three_families_carry_a_test_and_two_do_not() -> None:
    c21 = analysis("c21")
    design = rows(0.9, 2, c21)
    assert c21.SHAPES(design[design["family"] != "another 1"]).headline.p < 0.05
    with pytest.raises(UsageError, match="2 families in 6 cells; allowed: 3 families or more"):
        c21.SHAPES(rows(0.9, 1, c21))


def test_on_the_study_s_files_four_families_have_two_degrees_of_freedom() -> None:
    """Halved gains are lower whatever families do, which no choice of two of four families shows
    below 1/6."""
    found = {}
    for by in (1.0, 0.5):
        lowered = altered(layers=scaled(lambda f: f["model_id"].str.startswith("EleutherAI"), by))
        found[by] = judged(untried(by_rules_alone("c21")), lowered, "shape.penultimate_gain")[
            "shape.penultimate_gain"
        ]
        assert "5 shapes" in found[by].plain and found[by].sample.n_models == 12
    assert found[0.5].verdict == YES and found[0.5].headline.p < found[1.0].headline.p


def test_shapes_that_one_side_alone_has_are_left_out() -> None:
    c21 = analysis("c21")
    moved = altered(
        models=lambda f: f.assign(n_heads=f["n_heads"].where(f["heritage"] == "EleutherAI", 3))
    )
    assert c21.match_shapes(moved.named("published"), c21.GAINS[0]).empty
    with pytest.raises(TooFew):
        c21.VIEWS().check_rows(c21.match_shapes(moved.named("published"), c21.GAINS[0]))


def test_a_folder_without_a_comparable_model_has_no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    c21 = analysis("c21")
    every = c21.models(altered().named("published"))
    monkeypatch.setattr(c21, "models", lambda _: every.iloc[:0])
    none = c21.match_shapes(None, c21.GAINS[0])
    assert none.empty and c21.CELL in none
    monkeypatch.setattr(c21, "models", lambda _: every)
    shapes = c21.match_shapes(None, c21.GAINS[0])
    assert shapes[c21.CELL].str.fullmatch(r"\d+ × \d+ × \d+").all()
