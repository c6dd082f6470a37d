"""C11: two flips are enough against it, one is not, many pairs without one support it, and what turns the magnitude."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, of


@pytest.mark.parametrize(("flip", "verdict"), [(["gemma-7b-it"], OPEN), (["gemma-7b-it", "3.1-8B-Instruct"], NO)])
def test_two_flips_are_enough_against_it(flip: list[str], verdict: str) -> None:
    flipped = altered(layers=lambda f: f.assign(gain_block=f["gain_block"] * np.where(any_of(flip)(f), 0.5, 1)))
    assert judged(by_rules_alone("c11"), flipped, "sign")["sign"].verdict == verdict


def any_of(models: list[str]) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda f: np.logical_or.reduce([of(model, "twin")(f) for model in models])


@pytest.mark.parametrize(("pairs", "verdict"), [(36, YES), (35, OPEN), (2, OPEN)])
def test_many_pairs_without_a_flip_support_it(pairs: int, verdict: str) -> None:
    c11 = analysis("c11")
    rows = pd.DataFrame({"model_id": range(pairs), "heritage": "lab", "flips": False})
    assert c11.CANNOT.verdict(c11.flips(rows)) == verdict
    assert c11.CANNOT.verdict(c11.flips(rows.assign(flips=rows.index == 0))) == OPEN
    assert c11.CANNOT.verdict(c11.flips(rows.assign(flips=rows.index < 2))) == NO


@pytest.mark.parametrize(
    ("change", "spread", "verdict"), [(0.5, 0.01, YES), (1.0, 0.001, NO), (1.1, 0.2, OPEN)], ids=["half", "none", "?"]
)
def test_the_magnitude_is_judged_over_categories_of_prompts(change: float, spread: float, verdict: str) -> None:
    c11 = analysis("c11")
    wobble = np.tile([-1.0, -0.5, 0.0, 0.5, 1.0], 5)  # the same in every prompt of a category
    categories = np.tile(list("abcde"), 5)
    rows = pd.DataFrame({"model_id": "m", "heritage": "lab", "category": categories, "pairs": 2})
    rule = next(q.primary for q in c11.CLAIM.questions if q.name == "magnitude")
    assert rule.verdict(c11.changes(rows.assign(log_ratio=np.log(change) + spread * wobble))) == verdict
