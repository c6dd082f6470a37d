"""C03: the claim's own shares are supported, also with EleutherAI's models on both sides of 1."""

import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis

from thermostats.studies.delia2026 import audit
from thermostats.studies.delia2026.audit import Shares
from thermostats.words import comparison

STATED = Shares(focal=0.8, others=0.0, bound=0.001)


def made(gains: list[float]) -> pd.DataFrame:
    """Made-up models of two labs with two families each."""
    n = len(gains)
    rows = pd.DataFrame({"model_id": [f"lab/m{i}" for i in range(n)], "gain": gains})
    rows["heritage"] = ["EleutherAI" if i < n // 2 else "Other" for i in range(n)]
    rows["family"] = [f"{lab}-{i % 4}" for i, lab in enumerate(rows["heritage"])]
    return rows.assign(lower=rows["gain"] - 0.01, upper=rows["gain"] + 0.01)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.9] * 12 + [1.1] * 12, YES),
        ([0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9] + [1.1] * 12, YES),
        ([0.9, 1.1] * 12, NO),
        ([1.1, 0.9] + [1.1] * 10 + [0.9] * 12, NO),
        ([1.1] * 24, NO),
        ([0.9] * 12 + [0.9] + [1.1] * 11, OPEN),
        ([0.9, 1.1] * 4, OPEN),
    ],
    ids=["all as claimed", "80 %", "half and half", "reversed", "none dampens", "another lab dampens", "few models"],
)
def test_verdict(gains: list[float], verdict: str) -> None:
    c03 = analysis("c03")
    assert c03.FIXES_THE_SIGN.verdict(c03.compared(made(gains), "gain", STATED)) == verdict


def test_published_figures_that_do_not_follow() -> None:
    tables = altered().named("published")
    figures = audit.signs_of_labs(tables, analysis("c03").models(tables))
    rows = comparison(figures.published, figures.reproduced)
    assert len([row for row in rows if row.published]) >= 18
    wrong = {"others expand, %", "Fisher p <", "mean gain EleutherAI"}
    assert {row.name for row in rows if row.published and not row.agrees} == wrong
    assert f"{figures.reproduced['median gain EleutherAI']:.2f} {figures.reproduced['Fisher p <']:.3f}" == "0.99 0.036"
