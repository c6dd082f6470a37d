"""What the controlled study foretells: models of recipes not seen, and the published models. Findings of N01."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from thermostats.claims.evidence import Evidence
from thermostats.claims.finding import Finding
from thermostats.claims.fits import beside
from thermostats.claims.posterior import Posterior
from thermostats.claims.verdict import OPEN, SENTENCES, if_above
from thermostats.modelling.heritage.fit import HeritageFit
from thermostats.modelling.heritage.held_out import HeldOut, leave_one_out
from thermostats.modelling.inference.draws import Array
from thermostats.plots.general import reference
from thermostats.plots.posterior import left_out_errors
from thermostats.studies.delia2026.gains import LEVEL, gains
from thermostats.studies.nursery.recipe_fit import GEOMETRY, NAMED_GAINS, SCALE, restated, slopes
from thermostats.words import number


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


def unseen(fit: HeritageFit, seed: int) -> Finding:
    """The finding on recipes not seen: exact refits without each recipe."""
    held = leave_one_out(fit, by="heritage", seed=seed)
    k = fit.n_heritages
    half = stats.t.ppf((1 + LEVEL) / 2, k - 1) * held.elpd_difference_error
    lower, upper = held.elpd_difference - half, held.elpd_difference + half
    decided = if_above(lower, upper, 0.0) if held.all_passed else OPEN
    return Finding(
        claim="N01",
        estimand=f"gain in log predictive density of unseen recipes by geometry and scale, {NAMED_GAINS[fit.estimand]}",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (geometry and scale foretell the models of a recipe not seen): knowing them "
        f"changes the log predictive density by {number(held.elpd_difference)} ({number(lower)} to {number(upper)}). "
        f"The root mean squared error of the log gain is {number(held.rmse)}, by the mean of the others "
        f"{number(held.rmse_baseline)}, and {held.coverage:.0%} lie in their 95 % intervals.",
        estimate=held.elpd_difference,
        lower=lower,
        upper=upper,
        interval="95 % t interval over recipes left out, exact refits",
        n_models=fit.n_models,
        n_heritages=k,
        table=held.predictions,
        draw=lambda axes: left_out_errors(held.predictions, axes),
        caption=caption_of(held),
    )


def caption_of(held: HeldOut) -> str:
    """What the figure of recipes left out shows."""
    return (
        f"Log gain of every model as foretold without any model of its recipe, and as measured: root mean squared "
        f"error {number(held.rmse)}, {number(held.rmse_rival)} without geometry and scale."
    )


def foretold(fit: HeritageFit, rows: pd.DataFrame, published: pd.DataFrame, known: Posterior) -> Finding:
    """The finding on the published models, foretold by slopes of the nursery about their own means."""
    b = np.column_stack([slopes(fit, rows, "geometry", GEOMETRY), slopes(fit, rows, "scale", SCALE)])
    names = [*GEOMETRY, *SCALE]

    def gained(chosen: pd.DataFrame, slope: Array) -> Array:
        x, y = (chosen[c].to_numpy(np.float64) for c in (names, "log_gain"))
        x, y = x - x.mean(axis=0), y - y.mean()
        return np.asarray(np.square(y).mean() - np.square(y - np.atleast_2d(slope) @ x.T).mean(axis=-1))

    middle = b.mean(axis=0)
    whole = float(gained(published, middle)[0])
    labs = sorted(set(published["heritage"]))
    left = np.array([gained(published[published["heritage"] != lab], middle)[0] for lab in labs])
    error = float(np.sqrt((len(labs) - 1) / len(labs) * np.square(left - left.mean()).sum()))
    half = stats.t.ppf((1 + LEVEL) / 2, len(labs) - 1) * error
    decided = if_above(whole - half, whole + half, 0.0)
    x = published[names].to_numpy(np.float64)
    shown = published[["model_id", "heritage", "log_gain"]].assign(
        foretold=published["log_gain"].mean() + (x - x.mean(axis=0)) @ middle
    )
    r = float(np.corrcoef(shown["foretold"], shown["log_gain"])[0, 1])
    listed = ", ".join(f"{name} {number(value)}" for name, value in zip(names, middle, strict=True))
    finding = Finding(
        claim="N01",
        estimand="mean squared error of the published models' mean less that of the nursery's slopes, log penultimate "
        "gain",
        verdict=decided,
        plain=f"{SENTENCES[decided]} (the nursery's slopes foretell the published gains better than their mean): the "
        f"mean squared error falls by {number(whole)} ({number(whole - half)} to {number(whole + half)}) of "
        f"{number(float(published['log_gain'].var(ddof=0)))}. Foretold and published log gains correlate at r = "
        f"{number(r)} over {len(published)} models.",
        estimate=whole,
        lower=whole - half,
        upper=whole + half,
        interval="95 % jackknife t interval, labs left out",
        n_models=len(published),
        n_heritages=len(labs),
        notes=(
            f"Slopes of the log gain in the nursery, posterior means: {listed}. The published models lie outside the "
            f"nursery's range of depth and width (L {published['n_layers'].min()} to {published['n_layers'].max()}, d "
            f"{published['d_model'].min()} to {published['d_model'].max()}), so that this extrapolates.",
        ),
        table=shown,
        draw=lambda axes: scatter(axes, shown),
        caption=f"Log penultimate gain of {len(published)} published models against what the nursery's slopes foretell "
        f"about their mean, r = {number(r)}.",
    )
    skill = gained(published, b).reshape(fit.draws["tau"].shape)
    told = restated(
        known,
        model="The same fit as above, with the same checks; its slopes applied to the published models.",
        statement="the nursery's slopes err less than the published mean",
        truth=skill > 0,
        classical=decided,
    )
    return beside(finding, fit, told)


def scatter(axes: Axes, shown: pd.DataFrame) -> None:
    """Published against foretold, with the line of agreement."""
    axes.scatter(shown["foretold"], shown["log_gain"], s=28, color="0.2")
    ends = [float(shown["foretold"].min()), float(shown["foretold"].max())]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    reference(axes, 0.0)
    axes.set_xlabel("log penultimate gain as foretold by the nursery")
    axes.set_ylabel("as published")
