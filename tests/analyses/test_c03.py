"""C03: all on their lab's side is supported, some clearly on the other side are not; 80% is a
difference alone."""

import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, by_rules_alone


def made(gains: list[float], width: float = 0.01) -> pd.DataFrame:
    """Made-up models of two labs with four families each, and intervals of some width."""
    n = len(gains)
    rows = pd.DataFrame({"model_id": [f"lab/m{i}" for i in range(n)], "gain": gains})
    rows["heritage"] = ["EleutherAI" if i < n // 2 else "Other" for i in range(n)]
    rows["family"] = [f"{lab}-{i % 4}" for i, lab in enumerate(rows["heritage"])]
    ends = {"lower": rows["gain"] - width, "upper": rows["gain"] + width}
    return rows.assign(**ends, n_prompts=25.0, comparable=True)


@pytest.mark.parametrize(
    ("gains", "width", "verdict"),
    [
        ([0.9] * 12 + [1.1] * 12, 0.01, YES),
        ([0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9] + [1.1] * 12, 0.01, NO),
        ([0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9, 0.9, 0.9, 1.1, 0.9, 0.9] + [1.1] * 12, 0.2, OPEN),
        ([1.1, 0.9] + [1.1] * 10 + [0.9] * 12, 0.2, NO),
        ([1.1] * 24, 0.01, NO),
        ([0.9] * 12 + [0.9] + [1.1] * 11, 0.01, OPEN),
        ([0.9] * 12 + [0.9] * 2 + [1.1] * 10, 0.01, NO),
        ([0.9, 1.1, 1.1, 1.1] + [1.1] * 3 + [0.9], 0.2, OPEN),
    ],
    ids=[
        "all as claimed",
        "80%",
        "80%, not clearly",
        "reversed",
        "none dampens",
        "one elsewhere",
        "two elsewhere",
        "nothing is clear",
    ],
)
def test_verdict(
    monkeypatch: pytest.MonkeyPatch, gains: list[float], width: float, verdict: str
) -> None:
    c03 = by_rules_alone("c03")
    monkeypatch.setattr(c03, "models", lambda _: made(gains, width))
    rows = c03.find_signs(altered().named("published"), c03.GAIN)
    assert c03.FIXES_THE_SIGN.verdict(c03.EXCEPTIONS(rows)) == verdict


def test_a_difference_is_asked_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    c03 = by_rules_alone("c03")
    monkeypatch.setattr(
        c03, "models", lambda _: made([0.9, 0.9, 0.9, 0.9, 1.1] + [0.9] * 7 + [1.1] * 12)
    )
    rows = c03.find_signs(altered().named("published"), c03.GAIN)
    assert c03.DIFFERS.verdict(c03.FAMILIES(rows)) == YES
    assert c03.permute_whole_labs(rows) == 1.0
    labs = ["EleutherAI"] * 2 + ["A", "B", "C"]
    assert (
        c03.permute_whole_labs(
            pd.DataFrame({"heritage": labs, "dampens": [True, False, False, False, False]})
        )
        == 0.25
    )
