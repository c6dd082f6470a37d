"""Does knowing the lab help, and do geometry and scale transfer? The heritage model's error on models it has not seen.

Two questions, two designs, both by exact refits: leave one model out within labs of two or more (its lab is known from
its siblings), and leave one lab out. Next to each, the same model without what the question is about: without heritage
for the first, without geometry and scale for the second. Importance sampling over prompt rows answers neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thermostats.errors import UsageError
from thermostats.modelling.heritage.averages import Averages
from thermostats.modelling.heritage.blocks import Design
from thermostats.modelling.heritage.closed_form import closed_form, start_of
from thermostats.modelling.heritage.densities import log_density_of
from thermostats.modelling.heritage.laws import NORMAL
from thermostats.modelling.heritage.model import CLOSED, HeritagePosterior
from thermostats.modelling.inference.draws import Array, Draws, Settings, equal_tailed

LIGHT = Settings(chains=2, draws=500)
"""Of refits whose residuals are not normal, which take seconds."""
LEFT_OUT = {"model": ("geometry", "scale", "model"), "heritage": ("heritage", "family", "model")}
"""What is left out, and the blocks of the rival that answers its question."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Predictions of the log gain of models from refits that have not seen them."""

    left_out: str
    """`model` or `heritage`."""
    method: str
    predictions: pd.DataFrame
    """Per model: observed, predicted, lower, upper, covered, log_density, baseline, lab_mean, status; and rival,
    rival_log_density of the same model without the blocks in question."""
    rmse: float
    rmse_baseline: float
    """Of the mean of all models left."""
    rmse_lab_mean: float
    """Of the mean of the other models of its lab; NaN where labs are left out."""
    rmse_rival: float
    """Of the model without heritage (models left out), or without geometry and scale (labs left out)."""
    coverage: float
    """Share of models inside their prediction interval of the session's level."""
    elpd: float
    """Sum of the log predictive densities of the models' observed means."""
    elpd_difference: float
    """That minus the rival's: above 0, the blocks in question help."""
    elpd_difference_error: float
    """Its standard error over what was left out (models, or labs with their models summed)."""
    all_passed: bool
    """Every refit passed its gate."""

    def table(self) -> pd.DataFrame:
        """One row of the figures."""
        names = [name for name in vars(self) if name != "predictions"]
        return pd.DataFrame([{name: getattr(self, name) for name in names}])


def leave_one_out(fit: HeritagePosterior, *, by: str, seed: int) -> HeldOut:
    """Refit without each model (`by="model"`, labs of two or more) or without each lab (`by="heritage"`).

    Refits are the closed form of the models' means. Raises UsageError for another `by`.
    """
    laid_out = fit.design
    if by not in LEFT_OUT:
        raise UsageError("nothing to leave out", got=by, allowed=", ".join(LEFT_OUT))
    if by == "model":
        held = [np.array([i]) for i in np.flatnonzero(laid_out.lab_sizes()[laid_out.lab] >= 2)]
    else:
        held = [np.flatnonzero(laid_out.lab == j) for j in range(len(laid_out.labs))]
    rows = []
    for number, out in enumerate(held):
        draws = refit_without(fit, out, seed=seed + number)
        rival = refit_without(fit, out, seed=seed + number, blocks=LEFT_OUT[by])
        rows.append(_predictions(fit, draws, rival, out, seed).assign(fold=number))
    table = pd.concat(rows, ignore_index=True)
    gained = (table["log_density"] - table["rival_log_density"]).groupby(table["fold"]).sum()
    return HeldOut(
        left_out=by,
        method=CLOSED,
        predictions=table.drop(columns="fold"),
        rmse=_rmse(table, "predicted"),
        rmse_baseline=_rmse(table, "baseline"),
        rmse_lab_mean=_rmse(table, "lab_mean"),
        rmse_rival=_rmse(table, "rival"),
        coverage=float(table["covered"].mean()),
        elpd=float(table["log_density"].sum()),
        elpd_difference=float(gained.sum()),
        elpd_difference_error=float(np.sqrt(len(gained)) * gained.std(ddof=1)),
        all_passed=bool((table["status"] == "passed").all()),
    )


def _predictions(fit: HeritagePosterior, draws: Draws, rival: Draws, out: NDArray[np.int64], seed: int) -> pd.DataFrame:
    """The rows of `HeldOut.predictions` of models left out together, from draws that have not seen them."""
    laid_out = fit.design
    means, errors = laid_out.means()
    rest, lab = np.setdiff1d(np.arange(laid_out.n_models), out), laid_out.lab
    siblings = [means[rest[lab[rest] == lab[i]]] for i in out]
    noise = [np.random.default_rng([seed, i]).normal(scale=errors[i], size=draws["tau"].size) for i in out]
    predictive = draws.flat("m")[:, out] + np.column_stack(noise)
    lower, upper = equal_tailed(predictive)
    return pd.DataFrame(
        {
            "model_id": [laid_out.models[i] for i in out],
            "heritage": [laid_out.labs[lab[i]] for i in out],
            "observed": means[out],
            "predicted": predictive.mean(axis=0),
            "lower": lower,
            "upper": upper,
            "covered": (lower <= means[out]) & (means[out] <= upper),
            "log_density": _log_density(fit, draws, out),
            "baseline": means[rest].mean(),
            "lab_mean": [own.mean() if own.size else np.nan for own in siblings],
            "status": draws.status,
            "rival": rival.flat("m")[:, out].mean(axis=0),
            "rival_log_density": _log_density(fit, rival, out),
        }
    )


def refit_without(
    fit: HeritagePosterior, models: NDArray[np.int64], *, seed: int, blocks: tuple[str, ...] | None = None
) -> Draws:
    """Draws of the model without the observations of some models (their numbers), whose log gains `m` are predicted.

    `blocks`: those that stay in the model. Raises UsageError for Student-t lab effects, which have no closed form.
    """
    if fit.lab_df:
        raise UsageError("no such refit", got=f"lab_df {fit.lab_df:g}", allowed=f"{CLOSED} with normal lab effects")
    return refit(fit, fit.design, np.arange(fit.design.n_models), seed=seed, blocks=blocks, unseen=models)


def refit(
    fit: HeritagePosterior,
    laid_out: Design,
    models: NDArray[np.int64],
    *,
    seed: int,
    blocks: Sequence[str] | None = None,
    unseen: Sequence[int] | NDArray[np.int64] = (),
    means: Averages | None = None,
) -> Draws:
    """The closed form of another design, of some of the fit's models (their numbers), by its priors and residuals.

    `blocks`, `unseen` and `means` are those of `closed_form`. Chains of the same blocks begin at the draws of the fit.
    """
    normal = fit.residuals == NORMAL
    begins = not normal and blocks is None and laid_out.blocks == fit.design.blocks
    return closed_form(
        laid_out,
        total_sd=fit.total_sd,
        concentration=fit.concentration,
        seed=seed,
        settings=Settings() if normal else LIGHT,
        blocks=blocks,
        unseen=unseen,
        means=means,
        residuals=fit.residuals,
        begin=start_of(fit.draws, fit.residuals, models) if begins else None,
    )


def _log_density(fit: HeritagePosterior, draws: Draws, out: NDArray[np.int64]) -> Array:
    """Log predictive density of the means of models left out, each alone, over all draws."""
    density = log_density_of(fit, draws, out)
    return np.asarray(np.logaddexp.reduce(density, axis=0) - np.log(len(density)))


def _rmse(table: pd.DataFrame, column: str) -> float:
    """NaN where any prediction is missing."""
    return float(np.sqrt((table["observed"] - table[column]).pow(2).mean(skipna=False)))
