from __future__ import annotations

import re
from typing import Any

import pytest

from thermostats.claims.finding import Finding, read_finding
from thermostats.reporting.pages import index


def finding(**known: Any) -> Finding:
    return read_finding(
        {
            "id": "C01.mean",
            "estimand": "mean",
            "verdict": "supported",
            "plain": "",
            "estimate": None,
            **known,
        }
    )


@pytest.mark.parametrize(
    ("known", "place"),
    [
        ({"estimate": 3.0, "lower": 2.0, "upper": 5.0, "above": 1.0}, (2.0, 1.0, 4.0)),
        ({"estimate": 3.0, "lower": 2.0, "upper": 5.0, "below": 1.0}, (-2.0, -4.0, -1.0)),
        ({"estimate": 0.0, "lower": 0.0, "upper": 0.5, "below": 0.1}, (0.2, -0.8, 0.2)),
        (
            {"estimate": 1.2, "lower": 1.0, "upper": 1.4, "above": 1.0, "below": 3.0},
            (1.0, 0.0, 2.0),
        ),
    ],
)
def test_one_scale_counts_half_widths_from_the_number_compared_with(
    known: dict[str, float], place: tuple[float, ...]
) -> None:
    found = index.place_finding(finding(**known))
    assert found and (found.estimate, found.lower, found.upper) == pytest.approx(place)


@pytest.mark.parametrize(
    "known",
    [
        {"estimate": 1.0, "above": 0.5},
        {"estimate": 1.0, "lower": 0.0, "upper": 2.0},
        {"estimate": 1.0, "lower": 1.0, "upper": 1.0, "above": 0.5},
    ],
)
def test_without_an_interval_or_a_number_to_compare_with_there_is_no_picture(
    known: dict[str, float],
) -> None:
    assert index.place_first_findings([finding(**known)]) == []


def test_a_set_of_evidence_has_one_line_and_what_lies_beyond_an_arrow() -> None:
    sets = ("published", "measured", "published", "a new one")
    values = {"estimate": 9.0, "lower": 8.0, "upper": 10.0}
    estimates = index.place_first_findings(
        [finding(evidence=name, above=0.0, **values) for name in sets]
    )
    assert [one.evidence for one in estimates] == ["published", "measured", "a new one"]
    drawn = index.render_picture(estimates).decode()
    assert re.findall(r">([^<>\n]+)</text>", drawn) == ["published", "measured", "a new one"]
    assert drawn.count("v3.6z") == 3
    assert max(float(x) for x in re.findall(r"[MH]([\d.]+)", drawn)) <= index.RIGHT
