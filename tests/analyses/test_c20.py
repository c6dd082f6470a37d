"""C20: one model that loses is enough against it."""

from altered import NO, OPEN, YES, altered, by_rules_alone, judged, of, scaled, shipped

from thermostats.words import agrees, comparison


def test_every_family_amplifies_and_the_products_follow() -> None:
    found = judged(by_rules_alone("c20"), shipped())
    assert [one.verdict for one in found.values()] == [YES, OPEN]
    product = found["with_input_and_norm"]
    rows = comparison(product.published, product.reproduced)
    assert len(rows) >= 12 and all(row.agrees for row in rows)
    assert agrees("", 17212.091, product.reproduced["product of Apertus-8B-2509"])


def test_one_family_that_loses_is_enough_against_it() -> None:
    losing = altered(layers=scaled(of("falcon-7b"), 0.8))
    assert judged(by_rules_alone("c20"), losing, "families")["families"].verdict == NO
