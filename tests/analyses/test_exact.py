"""What a claim's page says exactly: figures of the committed table, of changes that leave gains and
entropies."""

import re

import pytest
from altered import analysis

from thermostats.errors import UsageError
from thermostats.formatting import format_figure, format_number
from thermostats.tables.invariants import read_effects

HEADS, BLOCK = "W_V × 8 and W_O / 8 in every block", "W_V × 32 and W_O / 32 in block 2"
MOVES = {
    "c05": (HEADS, format_number, ("wv_wo_ratio", "wv_norm")),
    "c06": (HEADS, format_number, ("wv_norm",)),
    "c08": (HEADS, format_figure, ("trace of exact", "trace of multi_head")),
    "c09": (
        BLOCK,
        format_number,
        ("L_star_first_sign_change_multi_head", "L_star_max_abs_gradient_multi_head"),
    ),
    "c16": (HEADS, format_number, ("operator_norm of exact",)),
}
"""The change that a claim names, how its figures are written, and what it says is moved."""
UNMOVED = ("unmoved", "contraction")
"""Findings on numbers that no change moves, of which more models are asked for."""
LEFT = (
    "penultimate_gain",
    "entropy",
    "contraction_ratio of exact",
    "L_star_minimum_contraction_ratio",
)


@pytest.mark.parametrize("claim", MOVES)
def test_a_claim_begins_with_a_change_that_moves_what_it_is_about_and_leaves_the_rest(
    claim: str,
) -> None:
    how, written, moved = MOVES[claim]
    rows, exact = read_effects("r03-1", how), analysis(claim).CLAIM.stated().exact
    assert how in exact
    for quantity in moved:
        row = rows[quantity]
        assert row["moved"] > 0.1
        assert re.search(
            rf"from {re.escape(written(row['before']))} to {re.escape(written(row['after']))}\b",
            exact,
        )
    assert {quantity: rows[quantity]["moved"] for quantity in LEFT} == dict.fromkeys(LEFT, 0)


HALVES = "W_V × 2 in every block, b_V with it, instead of W_O × 2"


@pytest.mark.parametrize("model", ["r03-1", "r07-5", "r15-2"])
def test_both_halves_of_the_ratio_do_one_thing_at_ratios_apart_by_the_square(model: str) -> None:
    rows = read_effects(model, HALVES)
    left = ("penultimate_gain", "entropy", "top_probability")
    assert {quantity: rows[quantity]["moved"] for quantity in left} == dict.fromkeys(left, 0)
    ratio = rows["wv_wo_ratio"]
    assert ratio["after"] / ratio["before"] == pytest.approx(4, rel=1e-5)
    unchanged = read_effects(model, HEADS)
    for quantity in left:
        assert rows[quantity]["before"] != pytest.approx(unchanged[quantity]["before"], rel=1e-4)


def test_c05_shows_both_halves() -> None:
    exact = analysis("c05").CLAIM.stated().exact
    ratio = read_effects("r03-1", HALVES)["wv_wo_ratio"]
    for value in (ratio["before"], ratio["after"]):
        assert format_number(value) in exact
    assert "equal outputs" in exact


def test_other_claims_say_nothing_exact_and_unknown_changes_are_refused() -> None:
    assert analysis("c01").CLAIM.exact == ""
    with pytest.raises(UsageError, match="no such change"):
        read_effects("r03-1", "W_V × 9")
    with pytest.raises(UsageError, match="no such model"):
        read_effects("r99", HEADS)


@pytest.mark.parametrize("claim", ["c05", "c06", "c08", "c09"])
def test_no_models_are_promised_for_what_can_be_set_at_will(claim: str) -> None:
    questions = analysis(claim).CLAIM.questions
    stored = [question for question in questions if question.name not in UNMOVED]
    assert stored and all(question.trial and not question.trial.larger for question in stored)
    assert all(
        question.trial and question.trial.larger
        for question in questions
        if question.name in UNMOVED
    )
