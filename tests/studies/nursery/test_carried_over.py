"""What slopes of the nursery save of the published gains' error, and over which units its interval
is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from thermostats.claims.result import AGAINST, SUPPORTED
from thermostats.claims.rule import Above
from thermostats.studies.nursery.training_choices import PREDICTED, SAVED, add_predictions


@pytest.mark.parametrize(("slope", "verdict"), [(-0.2, SUPPORTED), (0.2, AGAINST)])
def test_gains_made_by_the_slopes_are_predicted_and_reversed_ones_are_not(
    slope: float, verdict: str
) -> None:
    rng, number = np.random.default_rng(5), np.arange(40)
    published = pd.DataFrame(
        {"model_id": [f"m{i}" for i in number], "heritage": [f"lab{i % 8}" for i in number]}
        | {name: rng.normal(size=40) for name in ("log_L", "log_rho", "log_d")}
    )
    made = published.assign(log_gain=slope * published["log_L"] + rng.normal(0, 0.02, 40))
    predicted = add_predictions(made, np.array([-0.2, 0.0, 0.0]))
    assert predicted["predicted"].mean() == pytest.approx(made["log_gain"].mean())
    assert Above(SAVED, 0).verdict(PREDICTED(predicted)) == verdict


@pytest.mark.parametrize("wider", ["models", "labs"])
def test_the_interval_of_a_prediction_is_the_wider_of_labs_and_of_models(wider: str) -> None:
    """Five labs that all agree say little, the models of each do not; and the other way round where
    labs differ."""
    rng, number = np.random.default_rng(3), np.arange(20)
    names = {"model_id": [f"m{i}" for i in number], "heritage": [f"lab{i % 5}" for i in number]}
    place = number % 5 if wider == "labs" else number // 5
    gains = rng.normal(size=5)[place] + 0.1 * rng.normal(size=20)
    predictions = pd.DataFrame(names).assign(log_gain=gains, predicted=rng.normal(size=5)[place])
    y, p = (predictions[name].to_numpy() for name in ("log_gain", "predicted"))

    def saved(rows: np.ndarray) -> float:
        return float(
            y[rows].var()
            - np.square((y[rows] - y[rows].mean()) - (p[rows] - p[rows].mean())).mean()
        )

    halves = {}
    for unit, words in (("model_id", "models"), ("heritage", "labs")):
        left = np.array(
            [saved((predictions[unit] != name).to_numpy()) for name in predictions[unit].unique()]
        )
        n = len(left)
        halves[words] = stats.t.ppf(0.975, n - 1) * np.sqrt(
            (n - 1) / n * np.square(left - left.mean()).sum()
        )
    assert max(halves, key=lambda words: halves[words]) == wider
    one = PREDICTED(predictions).headline
    assert one.value == pytest.approx(saved(y < np.inf)) and f"(that over {wider})" in one.interval
    assert [one.value - one.lower, one.upper - one.value] == pytest.approx([halves[wider]] * 2)
