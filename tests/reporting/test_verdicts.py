"""Verdicts from intervals and from verdicts."""

import math

from thermostats.claims.verdict import AGAINST, OPEN, SUPPORTED, UNMEASURED, if_above, if_all, if_below


def test_an_interval_decides_only_where_it_lies_on_one_side():
    assert if_above(0.2, 0.4, 0.1) == SUPPORTED == if_below(0.2, 0.4, 0.5)
    assert if_above(0.2, 0.4, 0.5) == AGAINST == if_below(0.2, 0.4, 0.1)
    assert if_above(0.2, 0.4, 0.3) == OPEN == if_below(0.2, 0.4, 0.3)
    assert if_above(math.nan, 1.0, 0.5) == OPEN == if_below(math.nan, 0.0, 0.5)


def test_a_claim_of_parts_falls_with_one_of_them():
    assert if_all([SUPPORTED, AGAINST, OPEN]) == AGAINST
    assert if_all([SUPPORTED, SUPPORTED]) == SUPPORTED
    assert if_all([SUPPORTED, OPEN]) == OPEN == if_all([]) == if_all([SUPPORTED, UNMEASURED])
    assert if_all([UNMEASURED, UNMEASURED]) == UNMEASURED
