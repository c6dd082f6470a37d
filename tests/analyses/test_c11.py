"""C11: one flip is enough against it, many pairs without one support it, and what turns the magnitude."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, of, scaled

from thermostats.words import agrees, comparison


def test_no_flip_among_few_pairs_decides_nothing_and_the_gain_moves() -> None:
    found = judged(by_rules_alone("c11"), altered())
    assert {name: one.verdict for name, one in found.items()} == {"sign": OPEN, "magnitude": YES}
    assert "[0.41, 0.62]" in found["magnitude"].plain and "was not tuned from" in " ".join(found["sign"].notes)
    rows = [row for one in found.values() for row in comparison(one.published, one.reproduced)]
    assert len(rows) >= 23 and all(row.agrees for row in rows)
    assert agrees("", 0.498, found["magnitude"].reproduced["gemma-7b-it over its base"])


def test_one_flip_is_enough_against_it() -> None:
    flipped = altered(layers=scaled(of("gemma-7b-it", "twin"), 0.5))
    assert judged(by_rules_alone("c11"), flipped, "sign")["sign"].verdict == NO


@pytest.mark.parametrize(("pairs", "verdict"), [(36, YES), (35, OPEN), (2, OPEN)])
def test_many_pairs_without_a_flip_support_it(pairs: int, verdict: str) -> None:
    c11 = analysis("c11")
    rows = pd.DataFrame({"model_id": range(pairs), "heritage": "lab", "flips": False})
    assert c11.CANNOT.verdict(c11.flips(rows)) == verdict
    assert c11.CANNOT.verdict(c11.flips(rows.assign(flips=rows.index == 0))) == NO


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
