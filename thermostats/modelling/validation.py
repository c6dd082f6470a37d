"""Does knowing the lab help, and do geometry and scale transfer? The heritage model's error on models it has not seen.

Two questions, two designs, both by exact refits: leave one model out within labs of two or more (its lab is known from
its siblings), and leave one lab out. Importance sampling over prompt rows answers neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from thermostats.errors import UsageError
from thermostats.modelling import sampling
from thermostats.modelling.draws import Array, Settings, equal_tailed
from thermostats.modelling.heritage import HeritageFit, arrays, heritage_model, without

REFIT = Settings(draws=750, tune=500, target_accept=0.98)


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Predictions of the log gain of models from refits that have not seen them."""

    left_out: str
    """`model` or `heritage`."""
    predictions: pd.DataFrame
    """Per model: observed, predicted, lower, upper, covered, log_density, baseline, lab_mean, status."""
    rmse: float
    rmse_baseline: float
    """Of the mean of all models left."""
    rmse_lab_mean: float
    """Of the mean of the other models of its lab; NaN where labs are left out."""
    coverage: float
    """Share of models inside their prediction interval of `LEVEL`."""
    all_passed: bool
    """Every refit passed the sampler's gate."""


def leave_one_out(
    fit: HeritageFit, *, by: str, seed: int, settings: Settings = REFIT, cache: bool = True
) -> HeldOut:  # fmt: skip
    """Refit without each model (`by="model"`, labs of two or more) or without each lab (`by="heritage"`).

    Raises UsageError for another `by`, or where no lab has two models.
    """
    laid_out = fit.design
    sizes = laid_out.lab_sizes()[laid_out.lab]
    if by == "model":
        held = [np.array([i]) for i in range(laid_out.n_models) if sizes[i] >= 2]
    elif by == "heritage":
        held = [np.flatnonzero(laid_out.lab == j) for j in range(len(laid_out.labs))]
    else:
        raise UsageError("nothing to leave out", got=by, allowed="model, heritage")
    if not held:
        raise UsageError("no lab has two models", got=by, allowed="heritage")
    means, errors = laid_out.means()
    rows = []
    for number, out in enumerate(held):
        m, status = refit_without(fit, out, seed=seed + number, settings=settings, cache=cache)
        rest = np.setdiff1d(np.arange(laid_out.n_models), out)
        for i in out:
            siblings = rest[laid_out.lab[rest] == laid_out.lab[i]]
            predictive = m[:, i] + np.random.default_rng([seed, i]).normal(scale=errors[i], size=m.shape[0])
            lower, upper = equal_tailed(predictive)
            rows.append(
                {
                    "model_id": laid_out.models[i],
                    "heritage": laid_out.labs[laid_out.lab[i]],
                    "observed": means[i],
                    "predicted": predictive.mean(),
                    "lower": float(lower),
                    "upper": float(upper),
                    "covered": bool(lower <= means[i] <= upper),
                    "log_density": _log_density(m[:, i], means[i], errors[i]),
                    "baseline": means[rest].mean(),
                    "lab_mean": means[siblings].mean() if siblings.size else np.nan,
                    "status": status,
                }
            )
    table = pd.DataFrame(rows)
    return HeldOut(
        left_out=by,
        predictions=table,
        rmse=_rmse(table, "predicted"),
        rmse_baseline=_rmse(table, "baseline"),
        rmse_lab_mean=_rmse(table, "lab_mean"),
        coverage=float(table["covered"].mean()),
        all_passed=bool((table["status"] == "passed").all()),
    )


def refit_without(
    fit: HeritageFit, models: Array, *, seed: int, settings: Settings = REFIT, cache: bool = True
) -> tuple[Array, str]:
    """Draws (draws × M) of all models' log gains without the observations of some, and the refit's status."""
    data = arrays(
        without(fit.design, models), total_sd=fit.total_sd, concentration=fit.concentration, lab_df=fit.lab_df
    )
    draws = sampling.fit(heritage_model, data, seed=seed, settings=settings, keep=["m"], cache=cache, progress=False)
    return draws.flat("m"), draws.status


def _log_density(m: Array, observed: float, error: float) -> float:
    """Log predictive density of a mean: kernel of the draws' spread, widened by its standard error."""
    width = np.hypot(error, 1.06 * m.std() * m.size**-0.2)
    return float(
        np.logaddexp.reduce(-0.5 * np.square((observed - m) / width)) - np.log(m.size * width * np.sqrt(2 * np.pi))
    )


def _rmse(table: pd.DataFrame, column: str) -> float:
    error = (table["observed"] - table[column]).to_numpy(dtype=np.float64)
    return float(np.sqrt(np.mean(np.square(error)))) if np.isfinite(error).all() else float("nan")
