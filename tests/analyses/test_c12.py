"""C12: the order falls when two models change places; families need several base models each."""

import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis, by_rules_alone, judged, of, scaled, untried

from thermostats.claims.rule import Always, Decide
from thermostats.studies.delia2026 import family_order


def test_the_order_falls_when_two_models_change_places() -> None:
    """At a level of 5%, whether or not the rules were tried; total amplification is out of order as
    published."""
    c12, swapped = (
        untried(by_rules_alone("c12")),
        altered(layers=scaled(of("Mistral-7B-v0.1", "thermo"), 2.0)),
    )
    before, after = (
        [each.verdict for each in judged(c12, rows).values()] for rows in (altered(), swapped)
    )
    assert (before, after) == ([OPEN, YES, NO], [NO, NO, NO])


def test_what_one_model_turns_round_counts_once() -> None:
    """Reversals that share no model: two of one model are one, of different models two."""
    rows = pd.DataFrame({"model_id": list("aAbBcC"), "place": [0, 0, 1, 1, 2, 2]})

    def count(*pairs: str) -> int:
        lower, higher = zip(*pairs, strict=True) if pairs else ((), ())
        order = pd.DataFrame({"lower": lower, "higher": higher, "ratio_upper": 0.9})
        return family_order.count_replicated(
            order.astype({"lower": object, "higher": object}), rows
        )

    assert [
        count(),
        count("ab"),
        count("ab", "Ab"),
        count("ab", "bc"),
        count("aB", "bC"),
        count("ab", "AB"),
    ] == [*(0, 1, 1, 1, 2, 2)]
    order = pd.DataFrame({"lower": list("ab"), "higher": list("bc"), "ratio_upper": [1.1, 0.9]})
    assert family_order.count_replicated(order, rows) == 1


@pytest.mark.parametrize(("bases", "verdict"), [(2, OPEN), (1, YES)])
def test_families_in_order_are_supported_only_with_several_base_models_each(
    bases: int, verdict: str
) -> None:
    c12 = by_rules_alone("c12")
    found = c12.CLAIM.questions[0]
    louder = altered(layers=scaled(of("gemma-7b-it", "twin"), 3.0))
    rule = Always(c12.REVERSED, c12.RISES & (bases <= c12.BASES))
    assert rule.verdict(found.answer(louder)) == verdict


def test_prompts_of_one_category_that_are_alike_do_not_support_the_order() -> None:
    c12 = analysis("c12")
    rows = c12.select_last_gains(altered())
    kinds = rows["category"].astype("category").cat.codes
    alike = rows.assign(log_gain=rows["place"] * (0.2 + 0.3 * (kinds == 0) - 0.3 * (kinds == 1)))
    rule, found = Decide(c12.RISES, c12.FALLS), c12.STEPS(alike)
    assert (found.rows["steps"]["ratio_lower"] > 1).all() and rule.verdict(found) == OPEN
    assert rule.verdict(c12.STEPS(alike.assign(log_gain=0.2 * rows["place"] + 0.01 * kinds))) == YES
