"""C20: two models that lose are enough against it, one is not."""

import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone, judged, scaled, shipped

from thermostats.formatting import agrees, comparison


def test_every_family_amplifies_and_the_products_follow() -> None:
    found = judged(by_rules_alone("c20"), shipped())
    assert [one.verdict for one in found.values()] == [YES, OPEN]
    product = found["with_input_and_norm"]
    rows = comparison(product.audit.published, product.audit.reproduced)
    assert len(rows) >= 12 and all(row.agrees for row in rows)
    assert agrees("", 17212.091, product.audit.reproduced["product of Apertus-8B-2509"])


@pytest.mark.parametrize(("models", "verdict"), [("falcon-7b", OPEN), (("falcon-7b", "bloom-3b"), NO)])
def test_two_models_that_lose_are_enough_against_it(models: str, verdict: str) -> None:
    losing = altered(layers=scaled(lambda f: f["model_id"].str.endswith(models), 0.8))
    assert judged(by_rules_alone("c20"), losing, "families")["families"].verdict == verdict
