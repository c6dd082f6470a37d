"""The published models as the nursery's slopes predict them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.inference.draws import Array
from thermostats.plots.general import reference
from thermostats.studies.delia2026.gains import LEVEL, gains
from thermostats.studies.nursery.recipe_fit import GEOMETRY, SCALE, slopes

SLOPES = [*GEOMETRY, *SCALE]


def published_rows(tables: Evidence) -> pd.DataFrame:
    """Comparable published models with C04's columns and the design's."""
    rows = gains(tables)
    rows = rows[rows["comparable"]].reset_index(drop=True)
    logs = {
        "log_L": "n_layers",
        "log_H": "n_heads",
        "log_d_h": "d_head",
        "log_d": "d_model",
        "log_rho": "rho",
        "log_n": "n_params_nonembedding",
    }
    return rows.assign(**{name: np.log(rows[column].astype(float)) for name, column in logs.items()})


def drawn_slopes(fit: HeritageFit, rows: pd.DataFrame) -> Array:
    """Draws of the nursery's slopes on SLOPES, draws × slopes."""
    return np.column_stack([slopes(fit, rows, "geometry", GEOMETRY), slopes(fit, rows, "scale", SCALE)])


def error_saved(published: pd.DataFrame, slope: Array) -> Array:
    """Mean squared error of the published mean minus that of slopes about it, one number a row of slopes."""
    x, y = (published[c].to_numpy(np.float64) for c in (SLOPES, "log_gain"))
    x, y = x - x.mean(axis=0), y - y.mean()
    return np.asarray(np.square(y).mean() - np.square(y - np.atleast_2d(slope) @ x.T).mean(axis=-1))


def jackknifed_error_saved(published: pd.DataFrame, slope: Array) -> tuple[float, float, float]:
    """`error_saved` of one row of slopes with its 95 % jackknife t interval, labs left out."""
    whole = float(error_saved(published, slope)[0])
    labs = sorted(set(published["heritage"]))
    left = np.array([error_saved(published[published["heritage"] != lab], slope)[0] for lab in labs])
    error = float(np.sqrt((len(labs) - 1) / len(labs) * np.square(left - left.mean()).sum()))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(labs) - 1)) * error
    return whole, whole - half, whole + half


def with_predictions(published: pd.DataFrame, slope: Array) -> pd.DataFrame:
    """Per published model: model_id, heritage, log_gain, and predicted by one row of slopes about the mean."""
    x = published[SLOPES].to_numpy(np.float64)
    predicted = published["log_gain"].mean() + (x - x.mean(axis=0)) @ slope
    return published[["model_id", "heritage", "log_gain"]].assign(predicted=predicted)


def scatter(axes: Axes, shown: pd.DataFrame) -> None:
    """Published against predicted, with the line of agreement."""
    axes.scatter(shown["predicted"], shown["log_gain"], s=28, color="0.2")
    ends = [float(shown["predicted"].min()), float(shown["predicted"].max())]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    reference(axes, 0.0)
    axes.set_xlabel("log penultimate gain as predicted by the nursery")
    axes.set_ylabel("as published")
