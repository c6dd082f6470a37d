"""Does knowing the lab help, and do geometry and scale transfer? The heritage model's error on models it has not seen.

Two questions, two designs: leave one model out within labs of two or more (its lab is known from its siblings), and
leave one lab out. Next to each, the same model without what the question is about: without labs and families for the
first, without geometry and scale for the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from thermostats.errors import UsageError, unknown
from thermostats.modelling.fit import Fit
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.heritage.law import HeritageDesign, groups_of
from thermostats.modelling.leave_out import held_out

WAYS = ("model", "heritage")


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Predictions of the log gain of models from fits that have not seen them."""

    left_out: str
    """`model` or `heritage`."""
    predictions: pd.DataFrame
    """Per model: observed, predicted, lower, upper, covered; baseline, the mean of all models left; lab_mean, that of
    the other models of its lab; and rival, predicted without the blocks in question."""
    rmse: float
    rmse_baseline: float
    rmse_lab_mean: float
    """NaN where labs are left out."""
    rmse_rival: float
    coverage: float
    """Share of models inside their prediction interval of the session's level."""
    elpd: float
    """Sum of the log predictive densities of what was left out, the models of a lab jointly."""
    elpd_difference: float
    """That minus the rival's: above 0, the blocks in question help."""
    elpd_difference_error: float
    """Its standard error over what was left out."""

    def table(self) -> pd.DataFrame:
        """One row of the figures."""
        return pd.DataFrame([{name: value for name, value in vars(self).items() if name != "predictions"}])


def left_out_table(fit: Fit) -> pd.DataFrame:
    """A row of figures for models, and one for labs."""
    return pd.concat([leave_one_out(fit, by=by).table() for by in WAYS], ignore_index=True)


def leave_one_out(fit: Fit, *, by: str) -> HeldOut:
    """Predict each model of labs of two or more (`by="model"`) or each lab (`by="heritage"`) from all others.

    Raises UsageError for another `by`, for fits without labs, and for residuals or lab effects that are not normal.
    """
    if by not in WAYS:
        raise unknown("nothing to leave out", by, WAYS)
    heritage, lab = fit.designed(HeritageDesign).heritage, fit.designed(HeritageDesign).lab
    if not lab or not isinstance(fit.model, Gaussian):
        raise UsageError(
            "models and labs are left out of fits with labs and normal residuals alone",
            got=f"blocks {', '.join(heritage.blocks)}; residuals {heritage.residuals}, lab_df {heritage.lab_df:g}",
            next_step='residuals="normal", lab_df=0',
        )
    labs = groups_of(fit.rows, heritage.blocks[lab])
    folds = labs if by == "heritage" else fit.rows["model_id"].astype(str)
    chosen = labs.duplicated(keep=False).to_numpy() | (by == "heritage")
    out = [name for name in heritage.blocks if (name in heritage.groups) == (by == "model")]
    rival = fit.under(replace(fit.law, of=heritage.without(*out).of))
    left, other = (
        held_out(f.model, f.draws, folds.tolist(), seed=fit.seed) for f in (fit, rival) if isinstance(f.model, Gaussian)
    )
    lower, upper = left.interval(fit.level)
    y = pd.Series(fit.model.y, index=fit.rows.index)
    predictions = pd.DataFrame(
        {
            "model_id": fit.rows["model_id"],
            "heritage": labs,
            "observed": y,
            "predicted": left.draws.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "covered": (lower <= y) & (y <= upper),
            "baseline": _mean_of_others(y, folds, pd.Series("all", index=y.index)),
            "lab_mean": _mean_of_others(y, folds, labs),
            "rival": other.draws.mean(axis=0),
        }
    )[chosen].reset_index(drop=True)
    gained = np.array([left.log_density[f] - other.log_density[f] for f in dict.fromkeys(folds[chosen])])
    return HeldOut(
        left_out=by,
        predictions=predictions,
        rmse=_rmse(predictions, "predicted"),
        rmse_baseline=_rmse(predictions, "baseline"),
        rmse_lab_mean=_rmse(predictions, "lab_mean"),
        rmse_rival=_rmse(predictions, "rival"),
        coverage=float(predictions["covered"].mean()),
        elpd=float(sum(left.log_density[f] for f in dict.fromkeys(folds[chosen]))),
        elpd_difference=float(gained.sum()),
        elpd_difference_error=float(gained.size**0.5 * gained.std(ddof=1)),
    )


def _mean_of_others(y: pd.Series, folds: pd.Series, groups: pd.Series) -> pd.Series:
    """Mean of every row's group without its fold; NaN where none is left."""
    sums, sizes = (y.groupby(groups).transform(how) for how in ("sum", "size"))
    both = [groups, folds]
    own_sums, own_sizes = (y.groupby(both).transform(how) for how in ("sum", "size"))
    return (sums - own_sums) / (sizes - own_sizes).where(sizes > own_sizes)


def _rmse(table: pd.DataFrame, column: str) -> float:
    """NaN where any prediction is missing."""
    return float(np.sqrt((table["observed"] - table[column]).pow(2).mean(skipna=False)))
