"""C20: two models that lose are enough against it, one is not."""

import pytest
from altered import NO, OPEN, altered, by_rules_alone, judged, scaled, untried


@pytest.mark.parametrize(
    ("models", "verdict"), [("falcon-7b", OPEN), (("falcon-7b", "bloom-3b"), NO)]
)
def test_two_models_that_lose_are_enough_against_it(models: str, verdict: str) -> None:
    losing = altered(layers=scaled(lambda f: f["model_id"].str.endswith(models), 0.8))
    assert judged(untried(by_rules_alone("c20")), losing, "families")["families"].verdict == verdict
