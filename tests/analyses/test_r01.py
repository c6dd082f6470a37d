"""R01: equal figures are found again, others are not, few decide nothing; what a figure may be
instead is named."""

import numpy as np
import pandas as pd
import pytest
from altered import NO, OPEN, UNMEASURED, YES, altered, analysis, judged


def of_the_study(frame: pd.DataFrame) -> pd.DataFrame:
    """What its own files say, alone."""
    return frame[frame["source"].str.endswith((".json", ".csv"))]


def again(by: float, models: int = 8, gain: str = "last_gain"):
    """A change of `features`: published rows of so many models once more, as measured by someone,
    times a factor."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame = of_the_study(frame)
        published = frame[frame[gain].notna()].drop_duplicates("model_id")
        more = published.head(models).assign(source="a lab", run_id=published["run_id"] + "-again")
        noise = np.exp(np.random.default_rng(1).normal(0, 0.01, len(more)))
        return pd.concat([frame, more.assign(**{gain: more[gain] * by * noise})])

    return change


def test_without_a_measured_model_of_the_study_it_needs_measurement() -> None:
    found = judged(analysis("r01"), altered(features=of_the_study))
    assert {one.verdict for one in found.values()} == {UNMEASURED} and len(found) == 5


@pytest.mark.parametrize(
    ("by", "models", "verdict"),
    [(1.0, 8, YES), (1.2, 8, NO), (1.05, 8, OPEN), (1.0, 4, UNMEASURED)],
)
def test_the_verdict_follows_the_ratio(by: float, models: int, verdict: str) -> None:
    found = judged(analysis("r01"), altered(features=again(by, models)), "ratio.last_gain")[
        "ratio.last_gain"
    ]
    assert found.verdict == verdict
    if verdict != UNMEASURED:
        assert (
            found.headline.value == pytest.approx(by, rel=0.02) and found.sample.n_models == models
        )


def test_a_figure_that_is_another_quantity_of_the_measurement_is_named() -> None:
    def swapped(frame: pd.DataFrame) -> pd.DataFrame:
        made = again(1.0)(frame)
        ours = made["source"] == "a lab"
        made.loc[ours, "normed_gain"] = made.loc[ours, "last_gain"]
        made.loc[ours, "last_gain"] *= 3.0
        return made

    found = judged(analysis("r01"), altered(features=swapped), "ratio.last_gain")["ratio.last_gain"]
    assert found.verdict == NO
    assert (
        sum("the published figure is the measured normed_gain" in note for note in found.notes) == 8
    )
