"""The published gains as the third study's slopes predict them, about their mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from thermostats.claims.evidence import Evidence
from thermostats.claims.result import Estimate, Result
from thermostats.modelling.draws import Array
from thermostats.plots.general import reference
from thermostats.studies.delia2026.stated_facts import gains
from thermostats.studies.nursery.crossed import LOGS, lines, table
from thermostats.studies.nursery.study_rows import jackknife, with_logs

SAVED = "squared error saved"
QUARTER = 0.5
"""What would be of interest: predictions that correlate at 0.5, a quarter of the variance; the null is 0."""
UNITS = {"labs": "heritage", "models": "model_id"}


def published_rows(tables: Evidence) -> pd.DataFrame:
    """Comparable published models with C04's columns and the design's."""
    rows = gains(tables)
    return with_logs(rows[rows["comparable"]].reset_index(drop=True))


def slopes_of_all(rows: pd.DataFrame) -> Array:
    """Mean slopes on log L, log ρ and log d over recipes and corpora."""
    y, x, _ = table(rows)
    return np.asarray(lines(y, x - x.mean(axis=0))[0][..., 1:].mean(axis=(0, 1)))


def with_predictions(published: pd.DataFrame, slope: Array) -> pd.DataFrame:
    """Per published model: model_id, heritage, log_gain, and predicted by one row of slopes about the mean."""
    x = published[LOGS].to_numpy(np.float64)
    predicted = published["log_gain"].mean() + (x - x.mean(axis=0)) @ slope
    return published[["model_id", "heritage", "log_gain"]].assign(predicted=predicted)


def jackknifed_error_saved(predictions: pd.DataFrame) -> Estimate:
    """Mean squared error of the published mean minus that of the predictions, of rows of `with_predictions`.

    Its interval is the wider of two 95% jackknife t intervals, over labs and over models: of five labs of unequal size
    the one over labs alone can be a quarter of that over models.
    """
    y, predicted = (predictions[c].to_numpy(np.float64) for c in ("log_gain", "predicted"))

    def saved(remaining: npt.NDArray[np.bool_]) -> float:
        deviations, off = y[remaining] - y[remaining].mean(), predicted[remaining] - predicted[remaining].mean()
        return float(np.square(deviations).mean() - np.square(deviations - off).mean())

    left_out = {unit: jackknife(predictions[column], saved) for unit, column in UNITS.items()}
    unit, (estimate, _, half) = max(left_out.items(), key=lambda item: float(item[1][2][0]))
    interval = f"the wider of two 95% jackknife t intervals, over labs and over models (that over {unit})"
    return Estimate(float(estimate[0]), float(estimate[0] - half[0]), float(estimate[0] + half[0]), interval)


def scatter(axes: Axes, predictions: pd.DataFrame) -> None:
    """Published against predicted, with the line of agreement."""
    axes.scatter(predictions["predicted"], predictions["log_gain"], s=28, color="0.2")
    ends = [float(predictions["predicted"].min()), float(predictions["predicted"].max())]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    reference(axes, 0.0)
    axes.set_xlabel("log penultimate gain as predicted by the nursery")
    axes.set_ylabel("as published")


def by_predictions(rows: pd.DataFrame) -> Result:
    """Squared error that predictions save over the mean."""
    return Result.of(rows, {SAVED: jackknifed_error_saved(rows)})


def compared(predictions: pd.DataFrame) -> Result:
    """Squared error saved with its figure, and how predictions go with what was published."""
    r = float(np.corrcoef(predictions["predicted"], predictions["log_gain"])[0, 1])
    words = {"r": r, "variance": float(predictions["log_gain"].var(ddof=0))}
    return replace(by_predictions(predictions), draw=lambda axes: scatter(axes, predictions), words=words)
