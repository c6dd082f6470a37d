from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from thermostats.claims.result import Estimate
from thermostats.formatting import (
    compare_figures,
    count_decimals,
    escape_markdown,
    format_apart,
    format_bytes,
    format_declared,
    format_estimate,
    format_figure,
    format_number,
    format_p_value,
    format_probability,
    format_range,
    is_reproduced,
    take_sentences,
)

KINDS = ("p-value", "one-sided p-value")


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        (0.087, 0.025, ("0.087", "0.025")),
        (0.001923, 0.00187, ("0.00192", "0.00187")),
        (0.0018731, 0.0018724, ("0.001873", "0.001872")),
        (0.0019, 0.0019, ("0.0019", "0.0019")),
    ],
)
def test_two_numbers_have_as_many_digits_as_tell_them_apart(
    first: float, second: float, texts: tuple[str, str]
) -> None:
    assert format_apart(first, second) == texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.8123, "−0.812"),
        (62696.4, "62,696"),
        (3e-7, "3.00 × 10⁻⁷"),
        (0.0, "0"),
        (9.996, "10.0"),
        (-1e9, "−1.00 × 10⁹"),
        (None, ""),
        (float("nan"), ""),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((-0.8784, -0.9778, -0.4561), "−0.88 [−0.98, −0.46]"),
        ((0.0187, -0.4027, 0.4401), "0.02 [−0.40, 0.44]"),
        ((-0.0561, -0.0944, -0.0178), "−0.056 [−0.094, −0.018]"),
        ((0.2708, -16.7359, 17.2776), "0 [−17, 17]"),
        ((-0.001, -0.4, 0.4), "0.00 [−0.40, 0.40]"),
        ((1.0, 0.7151, 1.0), "1.00 [0.72, 1.00]"),
        ((0.3, 0.0041, 0.61), "0.300 [0.004, 0.610]"),
        ((0.3, 1e-9, 0.61), "0.3000 [0.0000, 0.6100]"),
        ((5234.0, 4100.0, 6400.0), "5,234 [4,100, 6,400]"),
        ((2e-9, 1e-9, 3e-9), "2.00 × 10⁻⁹ [1.00 × 10⁻⁹, 3.00 × 10⁻⁹]"),
        ((0.4375, None, None), "0.438"),
        ((1.0, 1.0, 1.0), "1.00 [1.00, 1.00]"),
        ((float("nan"), 0.2, 0.5), "[0.20, 0.50]"),
    ],
)
def test_an_estimate_has_the_digits_that_its_interval_supports(
    numbers: tuple[float, ...], text: str
) -> None:
    assert format_estimate(*numbers) == text
    assert format_range(*numbers[1:]) == text[text.find("[") :] * ("[" in text)


@pytest.mark.parametrize(
    ("name", "published", "reproduced", "expected"),
    [
        ("r", -0.81, -0.8134, True),
        ("r", -0.81, -0.8051, True),
        ("r", -0.81, -0.8049, False),
        ("r", -0.81, 0.81, False),
        ("trace", 62696, 62695.6, True),
        ("trace", 62696, 62695.4, False),
        ("p <", 0.001, 1e-7, True),
        ("p <", 0.001, 0.002, False),
        ("G >", 1, 1.2, True),
        ("stored", 0.9445249826020732, 0.94452498260207, True),
    ],
)
def test_agreement_to_the_printed_digits(
    name: str, published: float, reproduced: float, expected: bool
) -> None:
    assert is_reproduced(name, published, reproduced) is expected


def test_comparison_keeps_what_stands_on_one_side() -> None:
    rows = compare_figures(
        {"r": -0.81, "figure only": 5.6, "not a number": 1.0},
        {"r": -0.9, "new": 2.0, "not a number": float("nan")},
    )
    assert [(row.name, row.agrees) for row in rows] == [
        ("r", False),
        ("figure only", None),
        ("not a number", None),
        ("new", None),
    ]
    assert rows[1].reproduced == "" and rows[3].published == ""


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("<i>&", "&lt;i&gt;&amp;"),
        ("`x` *y* [z]", "\\`x\\` \\*y\\* \\[z\\]"),
        ("W_V and _em_", "W_V and \\_em\\_"),
        ("# head", "\\# head"),
        ("1. one", "1\\. one"),
        ("0.35", "0.35"),
        ("two\nlines\n", "two lines"),
        ("$a$", "\\$a\\$"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, escaped: str) -> None:
    assert escape_markdown(text) == escaped


def test_whole_numbers_have_no_decimals() -> None:
    assert [format_figure(value, 5) for value in (31.0, 8192.0, -3.0, 0.5, None)] == [
        "31",
        "8,192",
        "−3",
        "0.50000",
        "",
    ]
    assert compare_figures({"n": 100.0}, {"n": 100.0})[0].reproduced == "100"
    near_one = compare_figures({"p": 1 - 8e-11}, {"p": 1 - 8e-11})[0]
    assert near_one.published == near_one.reproduced == "1 − 8.0 × 10⁻¹¹"


@pytest.mark.parametrize(
    ("function", "cases"),
    [
        (format_p_value, {0.0141: "= 0.014", 2e-9: "< 0.0001", 1.0: "= 1", 0.9996: "> 0.99"}),
        (count_decimals, {-0.81: 2, 62696.0: 0, 0.0001: 4, 80.0: 0, 0.9445249826020732: 6}),
        (
            format_declared,
            {0.05: "0.05", -0.3: "−0.3", 1 - 0.95: "0.05", 1000.0: "1,000", -0.07039: "−0.0704"},
        ),
        (
            format_bytes,
            {
                0: "0 B",
                812: "812 B",
                999.4: "999 B",
                999.6: "1 kB",
                38_540: "38.5 kB",
                999_600: "1 MB",
                4.2e9: "4.2 GB",
                2e15: "2000 TB",
            },
        ),
        (
            take_sentences,
            {
                "Pythia 1.4B has G = 0.9. The limit. The "
                "rest.": "Pythia 1.4B has G = 0.9. The limit.",
                "Meta vs. Google, i.e. BERT. More. Rest.": "Meta vs. Google, i.e. BERT. More.",
                "No stop": "No stop",
            },
        ),
    ],
)
def test_numbers_and_sentences_as_they_are_shown(
    function: Callable[[Any], Any], cases: dict[Any, Any]
) -> None:
    assert {given: function(given) for given in cases} == cases


def test_sides_of_p_values_are_said() -> None:
    two, one = (Estimate(1.0, p=0.03, p_kind=kind) for kind in KINDS)
    assert (format_probability(two), format_probability(one)) == (
        "p = 0.030",
        "one-sided p = 0.030",
    )


def test_a_command_in_a_sentence_stays_one() -> None:
    assert escape_markdown("`thermostats next C04` says *more*.") == (
        "`thermostats next C04` says \\*more\\*."
    )
    assert escape_markdown("`thermostats <b>` and `x`") == "\\`thermostats &lt;b&gt;\\` and \\`x\\`"
