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
    ("ratio", "families", "expected"), [(0.85, 3, YES), (1.15, 3, NO), (0.85, 2, OPEN)]
)
def test_a_lab_that_lowers_the_gain_at_equal_shape_supports_it(
    ratio: float, families: int, expected: str
) -> None:
    """Of six families of which three are the lab's p is 1/20 at least; of four 1/6."""
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


def test_p_is_the_share_of_families_that_lie_as_far_to_that_side() -> None:
    """By hand: two shapes of two models each, of four families; the six ways to choose the lab's
    two."""
    c21 = analysis("c21")
    y = {"a": -0.3, "b": -0.1, "c": 0.1, "d": 0.4}
    design = pd.DataFrame(
        {c21.CELL: ["s", "s", "t", "t"], "family": ["a", "c", "b", "d"], "heritage": list("EOEO")}
    )
    design = design.assign(focal=design["heritage"] == "E", model_id=design["family"])
    result = c21.SHAPES(design.assign(log_outcome=design["family"].map(y)))
    # of the arrangements {a, b}, {a, d}, {b, c} and {c, d} hold both sides of both shapes, {a, c}
    # and {b, d} of none
    ratios = {
        "ab": (-0.4 - 0.5) / 2,
        "ad": (-0.4 + 0.5) / 2,
        "bc": (0.4 - 0.5) / 2,
        "cd": (0.4 + 0.5) / 2,
    }
    assert result.quantities["ratio"].value == pytest.approx(np.exp(ratios["ab"]))
    assert result.quantities["ratio"].p == 1 / 4


def test_on_the_study_s_files_four_families_leave_it_open_whatever_the_gains() -> None:
    for by in (1.0, 0.5):
        lowered = altered(layers=scaled(lambda f: f["model_id"].str.startswith("EleutherAI"), by))
        found = judged(untried(by_rules_alone("c21")), lowered, "shape.penultimate_gain")[
            "shape.penultimate_gain"
        ]
        assert found.verdict == OPEN and found.headline.p == 1 / 6
        assert "5 shapes" in found.plain and found.sample.n_models == 12


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
