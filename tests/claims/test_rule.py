"""Rules: every verdict they can come to, the mutants that would turn them, and how they state
themselves."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from thermostats.claims.judge import find_wanted_bounds, pick_headline
from thermostats.claims.result import (
    AGAINST,
    OPEN,
    SUPPORTED,
    UNMEASURED,
    Estimate,
    Inference,
    Result,
    combine_verdicts,
)
from thermostats.claims.rule import (
    NEVER,
    Above,
    Always,
    AtLeast,
    Below,
    Decide,
    Each,
    EveryRow,
    Given,
    Posterior,
    Rule,
    Some,
    Sometimes,
    V,
    Within,
)
from thermostats.errors import DataError


def at(lower: float, upper: float, p: float | None = None) -> Result:
    return Result(quantities={"x": Estimate((lower + upper) / 2, lower, upper, p=p)})


@pytest.mark.parametrize(
    ("rule", "verdicts"),
    [
        (Above("x", 1), (AGAINST, OPEN, SUPPORTED)),
        (Below("x", 1), (SUPPORTED, OPEN, AGAINST)),
        (Within("x", 0.9, 1.1), (AGAINST, OPEN, AGAINST)),
    ],
)
def test_an_interval_is_held_against_its_bar(rule: Decide, verdicts: tuple[str, ...]) -> None:
    assert (
        tuple(rule.verdict(at(*ends)) for ends in ((0.1, 0.5), (0.5, 1.5), (1.2, 2.0))) == verdicts
    )
    assert rule.verdict(at(float("nan"), float("nan"))) == OPEN
    assert rule.words().startswith("supported where the interval of x lies")


def test_an_interval_that_touches_its_bar_decides_nothing() -> None:
    assert Above("x", 1).verdict(at(1.0, 2.0)) == Below("x", 1).verdict(at(0.0, 1.0)) == OPEN
    assert Within("x", 0, 1).verdict(at(0.2, 0.8)) == SUPPORTED


@pytest.mark.parametrize(
    ("rule", "sentences"),
    [
        (
            Decide((V("r") < 0) & (V("r").p <= 0.05), V("r").lower > -0.3),
            [
                "Supported where r < 0 and its p-value ≤ 0.05.",
                "Not supported where the interval of r is above −0.3.",
            ],
        ),
        (
            Within("x", 0.9, 1.1),
            [
                "Supported where the interval of x is above 0.9 and below 1.1.",
                "Not supported where the interval of x is below 0.9, or above 1.1.",
            ],
        ),
        (
            Decide(Each("models", (V("x") > 2) & ((V("y") < 1) | (V("z").p < 0.1))), NEVER),
            [
                "Supported where in each of the models, x > 2 and (y < 1, or the p-value of z < "
                "0.1)."
            ],
        ),
        (
            Given(V("n") >= 10, Decide(V("x") > 1, NEVER)),
            ["Supported where x > 1.", "Too little data unless n ≥ 10."],
        ),
        (AtLeast(models=4), ["It needs at least 4 models."]),
        (
            Posterior("b < 0"),
            ["Supported where P(b < 0) is at least 0.95, not supported where it is at most 0.05."],
        ),
    ],
)
def test_a_rule_states_itself_in_short_sentences(rule: Rule, sentences: list[str]) -> None:
    assert rule.brief() == sentences


def test_conditions_join_and_compare_parts() -> None:
    rule = Decide((V("x") < 0) & (V("x").p <= 0.05), (V("x").lower > -0.3) | (V("x") > V("y")))
    result = {"y": Estimate(5.0)}
    for x, verdict in (
        (Estimate(-1.0, -2.0, 0.0, p=0.05), SUPPORTED),
        (Estimate(-1.0, -2.0, 0.0, p=0.06), OPEN),
        (Estimate(-0.1, -0.2, 0.0, p=0.5), AGAINST),
        (Estimate(6.0, -2.0, 9.0, p=0.5), AGAINST),
    ):
        assert rule.verdict(Result(quantities={"x": x, **result})) == verdict
    supported, against = rule.words().split("; ")
    assert supported == "supported where x < 0 and the p-value of x ≤ 0.05"
    assert against == "not supported where (the lower end of x > −0.3 or x > y)"
    with pytest.raises(DataError, match="lacks"):
        Above("z", 0).verdict(at(0, 1))


ROWS = pd.DataFrame(
    {"lab": ["a", "b"], "gain": [0.5, 2.0], "gain_lower": [0.4, 1.5], "gain_upper": [0.6, 2.5]}
)


def test_rows_are_read_by_their_columns() -> None:
    result, gain = Result(rows={"labs": ROWS, "none": ROWS.iloc[:0]}), V("gain")
    assert Each("labs", gain > 0.1).holds(result) and not Each("labs", gain.lower > 1).holds(result)
    assert Some("labs", gain.lower > 1).holds(result) and not Some("labs", gain > 3).holds(result)
    assert not Each("none", gain > 0).holds(result) and not Some("none", gain > 0).holds(result)
    assert EveryRow(Below("gain", 1), "labs").verdict(result) == AGAINST
    assert EveryRow(Below("gain", 1), "none").verdict(result) == OPEN
    with pytest.raises(DataError, match="lacks"):
        Each("models", gain > 0).holds(result)


def test_p_values_are_adjusted_over_the_rows() -> None:
    rows = Result(rows={"tests": pd.DataFrame({"p": [0.02, 0.03, 0.9]})})
    assert Some("tests", V("p") <= 0.05).holds(rows)
    assert not Some("tests", V("p") <= 0.05, adjust="holm").holds(rows)
    assert "adjusted by Holm" in Some("tests", V("p") <= 0.05, adjust="holm").words


def test_rules_join_as_parts_and_as_alternatives() -> None:
    up, down = Above("x", 0), Below("x", 10)
    assert (up & down).verdict(at(1, 2)) == SUPPORTED and (up & down).verdict(at(11, 12)) == AGAINST
    assert (up | down).verdict(at(11, 12)) == SUPPORTED and (down | Below("x", 9)).verdict(
        at(11, 12)
    ) == AGAINST
    assert (up | Below("x", 0)).verdict(at(-1, 2)) == OPEN and (up & down).verdict(
        at(-1, 2)
    ) == OPEN
    assert (
        combine_verdicts([]) == OPEN
        and combine_verdicts([SUPPORTED, UNMEASURED]) == OPEN
        and combine_verdicts([UNMEASURED]) == UNMEASURED
    )


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.95, SUPPORTED), (0.94, OPEN), (0.06, OPEN), (0.05, AGAINST)]
)
def test_a_posterior_is_sure_at_its_limits(share: float, verdict: str) -> None:
    truth = np.arange(100) < round(100 * share)
    assert Posterior("it").verdict(Result(inference=Inference(statements={"it": truth}))) == verdict


def test_a_counterexample_refutes_whatever_the_posterior() -> None:
    half = np.arange(100) < 50
    result = Result(quantities={"flips": Estimate(1)}, inference=Inference(statements={"it": half}))
    assert Posterior("it").verdict(result) == OPEN
    assert Posterior("it", refuted=V("flips") > 0).verdict(result) == AGAINST
    assert (
        "whatever the posterior, where flips > 0" in Posterior("it", refuted=V("flips") > 0).words()
    )
    with pytest.raises(DataError, match="lacks"):
        Posterior("else").verdict(result)


@pytest.mark.parametrize(
    ("strict", "near"),
    [
        (Above("x", 1), "supported where x > 1; not supported where x < 1"),
        (Decide(V("x").p < 0.05, NEVER), "supported where the p-value of x ≤ 0.2"),
        (Decide(NEVER, V("x").p > 0.1), "not supported where the p-value of x > 0.1"),
        (Decide(V("x").p <= 0.5, NEVER), "supported where the p-value of x ≤ 0.5"),
        (Decide(NEVER, V("x").lower > V("y").upper), "not supported where x > y"),
        (
            EveryRow(Below("x", 1), "labs"),
            "supported where in each of the labs, x < 1; not supported where in at ",
        ),
        (Given(V("n") >= 10, Below("x", 1)), "supported where x < 1; not supported where x > 1"),
        (
            Posterior("it"),
            "supported where P(it) is at least 0.8, not supported where it is at most 0.2",
        ),
        (Posterior("it", sure=0.6), "supported where P(it) is at least 0.6"),
    ],
)
def test_a_rule_knows_what_is_nearly_itself(strict: Rule, near: str) -> None:
    assert strict.nearly().words().startswith(near)
    assert strict.nearly().nearly().words() == strict.nearly().words()


def test_rows_and_adjusted_p_values_are_nearly_enough() -> None:
    rows = pd.DataFrame(
        {"x": [0.5, 0.9], "x_lower": [0.3, 0.7], "x_upper": [0.8, 1.2], "p": [0.1, 0.6]}
    )
    result = Result(rows={"labs": rows})
    below, least = Below("x", 1), V("x").p <= 0.05
    assert (
        EveryRow(below, "labs").verdict(result) == OPEN
        and EveryRow(below, "labs").nearly().verdict(result) == SUPPORTED
    )
    adjusted = Some("labs", least, adjust="holm")
    assert not adjusted.holds(result) and adjusted.nearly().holds(result)
    assert not Each("labs", least).nearly().holds(result) and not Some(
        "labs", V("x").p < 0.05
    ).holds(result)
    assert (
        Decide(NEVER & least, NEVER | least).nearly().words()
        == "not supported where the p-value of x ≤ 0.2"
    )


def test_a_counterexample_refutes_nearly_too() -> None:
    truth, flips = (
        np.arange(100) < 85,
        Result(quantities={"flips": Estimate(2, 0, 4)}, inference=Inference(statements={})),
    )
    rule = Posterior("it", refuted=V("flips").lower > 1)
    result = replace(flips, inference=Inference(statements={"it": truth}))
    assert rule.verdict(result) == OPEN and rule.nearly().verdict(result) == AGAINST
    assert replace(rule, refuted=NEVER).nearly().verdict(result) == SUPPORTED


def test_too_few_models_groups_or_rows_need_measurement() -> None:
    few = Result(n_models=5, n_groups=2, rows={"pairs": ROWS})
    assert AtLeast(models=5, groups=2, rows={"pairs": 2}).verdict(few) == SUPPORTED
    for needs in (AtLeast(models=6), AtLeast(groups=3), AtLeast(rows={"pairs": 3})):
        assert needs.verdict(few) == UNMEASURED
    assert AtLeast(models=6, groups=2).words() == "needs at least 6 models and 2 groups"


@pytest.mark.parametrize(
    ("rule", "above_and_below"),
    [
        (Above("x", 2), (2, None)),
        (Within("x", 1, 3), (1, 3)),
        (Decide((V("x") <= 0) & (V("x").p <= 0.05), V("x").lower > -0.3), (None, 0)),
        (EveryRow(Below("x", 1)), (None, 1)),
        (Given(V("n") >= 10, Above("x", 0.5)), (0.5, None)),
        (Decide((V("x").p <= 0.05) & (V("x").upper > 0.7), NEVER), (None, None)),
        (Decide((V("x").lower > 0) | (V("x").upper < 0), NEVER), (None, None)),
        (Above("y", 2), (None, None)),
        (Posterior("x > 2"), (None, None)),
        (None, (None, None)),
    ],
)
def test_the_numbers_that_an_estimate_is_compared_with(
    rule: Rule | None, above_and_below: tuple[float | None, float | None]
) -> None:
    assert find_wanted_bounds(rule, "x") == above_and_below


@pytest.mark.parametrize(
    ("against", "clearly", "upper", "verdict"),
    [
        (0, 0, 0.1, SUPPORTED),
        (0, 0, 0.4, OPEN),
        (1, 0, 0.1, OPEN),
        (1, 1, 0.1, OPEN),
        (5, 1, 0.9, OPEN),
        (2, 2, 0.1, AGAINST),
    ],
)
def test_two_clear_counterexamples_refute_a_statement_about_every_unit(
    against: int, clearly: int, upper: float, verdict: str
) -> None:
    quantities = {
        "above": Estimate(against),
        "clear": Estimate(clearly),
        "share": Estimate(0.0, 0.0, upper),
    }
    result = Result(quantities=quantities)
    assert Always("above", V("share").upper < 0.25, "clear").verdict(result) == verdict
    contrary = {SUPPORTED: AGAINST, AGAINST: SUPPORTED, OPEN: OPEN}[verdict]
    if against == clearly:
        assert Sometimes("clear", V("share").upper < 0.25).verdict(result) == contrary


def test_a_p_value_that_is_not_defined_is_none() -> None:
    defined, undefined = (
        pick_headline(Result(quantities={"share": Estimate(0.5, p=p, p_kind="one-sided p-value")}))
        for p in (0.2, float("nan"))
    )
    assert (defined.p, defined.p_kind) == (0.2, "one-sided p-value")
    assert (undefined.p, undefined.p_kind) == (None, "")
