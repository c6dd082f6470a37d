"""X01: the lineage crosses; one that stays on its side decides nothing; a model without its base is
not counted."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, judged, of, scaled

SIGNS = ("sign.cls", "sign.mean")


def test_tuned_encoders_that_stay_on_their_side_decide_nothing() -> None:
    same = altered(layers=scaled(of("bert_pretrained"), 1.2))
    found = judged(analysis("x01"), same, *SIGNS)
    assert {one.verdict for one in found.values()} == {OPEN}


@pytest.mark.parametrize(
    ("pairs", "crossing", "verdict"), [(40, 0, NO), (40, 1, OPEN), (40, 2, YES), (5, 0, OPEN)]
)
def test_the_rule_on_many_pairs(pairs: int, crossing: int, verdict: str) -> None:
    x01 = analysis("x01")
    rng, parts = np.random.default_rng(0), []
    for pair in range(pairs):
        for role, level in (("base", -0.05), ("tuned", 0.05 if pair < crossing else -0.05)):
            own = {
                "model_id": f"{role}{pair}",
                "base_id": f"base{pair}",
                "role": role,
                "heritage": "lab",
            }
            parts.append(
                pd.DataFrame({"category": np.repeat(list("abcde"), 5), **own}).assign(
                    log_gain=level
                )
            )
    rows = pd.concat(parts, ignore_index=True)
    rows["log_gain"] += 0.001 * rng.normal(size=len(rows))
    assert x01.CAN.verdict(x01.CROSSINGS(rows)) == verdict
