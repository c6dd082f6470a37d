"""C06: late layers of labs and of recipes, apart by a factor that is put in."""

import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, analysis, judged, untried
from altered import verdict as said
from simulated_studies import Trained


@pytest.mark.parametrize(
    ("squared", "right", "verdict"),
    [(300.0, True, YES), (50.0, True, NO), (2000.0, True, NO), (300.0, False, UNMEASURED)],
)
def test_pairs_of_labs_are_judged_by_the_right_norms(
    monkeypatch: pytest.MonkeyPatch, squared: float, right: bool, verdict: str
) -> None:
    rows = pd.DataFrame(
        {"model_id": ["a", "a", "b", "b"], "heritage": ["EleutherAI"] * 2 + ["other"] * 2}
    )
    rows = rows.assign(depth=[0.5, 1.0] * 2, squared=[1.0, squared, 9.0, 1.0], right=right)
    c06 = analysis("c06")
    monkeypatch.setattr(c06, "build_squared_norms", lambda _: rows)
    assert said(c06, "late.labs", c06.PAIRED(c06.select_late_norms(None))) == verdict


@pytest.mark.parametrize(
    ("loud", "cut", "verdicts"),
    [
        (1.0, 5.0, [NO, NO]),
        (100.0, 1.0, [OPEN, OPEN]),
        (3.0, 1.0, [NO, NO]),
        (17.3, 1.0, [YES, YES]),
    ],
)
def test_a_recipe_apart_from_all_others(loud: float, cut: float, verdicts: list[str]) -> None:
    """Norms 17.3 times as large are 300-fold in the square; 100 times, 10,000-fold, is more than
    the claim allows."""
    trained = ("late.trained", "late.trained_published_slicing")
    found = judged(untried(analysis("c06")), Trained(96, loud=loud, cut=cut), *trained)
    assert [one.verdict for one in found.values()] == verdicts


def test_without_models_it_needs_measurement() -> None:
    found = judged(analysis("c06"), Trained(0), "late.trained")
    assert found["late.trained"].verdict == UNMEASURED
