"""C01: the verdict follows the gains."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, YES, altered, analysis
from conftest import shipped_tables

from thermostats.claims.judge import weigh
from thermostats.studies.delia2026.stated_facts import NAMED_GAINS


@pytest.mark.parametrize(
    ("gains", "verdict"), [([0.5, 0.02], NO), ([0.9, 0.0], OPEN)], ids=["rising", "irregular"]
)
def test_verdict_follows_the_gains(gains: list[float], verdict: str) -> None:
    def changed(layers: pd.DataFrame) -> pd.DataFrame:
        last = layers.groupby("run_id")["layer"].transform("max")
        irregular = 0.1 * (last.astype(float) % 5) * (gains[1] == 0)
        value = gains[0] + gains[1] * last + irregular
        return layers.assign(gain_block=layers["gain_block"].where(layers["layer"] < last, value))

    c01 = analysis("c01")
    assert (
        c01.FALLS.verdict(
            c01.BY_DEPTH(
                c01.select_outcomes(altered(layers=changed).named("published"), NAMED_GAINS[0])
            )
        )
        == verdict
    )


@pytest.mark.parametrize(("first", "slope", "verdict"), [(6, 0.0, OPEN), (29, -0.02, YES)])
def test_a_correlation_of_one_model_is_left_open(first: int, slope: float, verdict: str) -> None:
    """By the correlation alone both fall, p at most 0.05."""
    (question, *_) = analysis("c01").CLAIM.questions
    rows = pd.DataFrame(
        {
            "n_layers": [first, *range(30, 54)],
            "model_id": [f"m{i}" for i in range(25)],
            "family": "f",
        }
    )
    gains = slope * (rows["n_layers"] - 30) + 0.01 * np.cos(3 * rows.index)
    rows = rows.assign(heritage="lab", outcome=gains.where(rows.index > 0, 1.5))
    assert question.primary.verdict(question.trial.test(rows)) == YES
    untried = replace(question, trial=replace(question.trial, worlds=None))
    assert weigh(untried, shipped_tables(), question.trial.test(rows), rows).verdict == verdict
