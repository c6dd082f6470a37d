"""log gᵢ = a + b zᵢ + u_lab + εᵢ, z = log(‖W_V‖₂/‖W_O‖₂) standardised: does it predict gains in labs never seen?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.calls import fits
from thermostats.modelling.classical.estimates import columns_of, labels, named, numbers
from thermostats.modelling.draws import SEED, Array
from thermostats.modelling.fit import Fit, law_fitted
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.heritage.rows import ModelRows, log_gains_of_models
from thermostats.modelling.laws import Law
from thermostats.modelling.leave_out import by_model_and_lab, folds, held_out
from thermostats.modelling.lines import Line, LineDesign, gaussian_of, lab_statistics, line_law
from thermostats.modelling.predictions import LOG
from thermostats.modelling.rivals import compare
from thermostats.modelling.statements import Statistic
from thermostats.plots.general import reference, scatter_labelled
from thermostats.plots.scales import log_axis

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; slope over one SD of the ratio, labs and the rest share it, 0.5/√3 each."""
SHARE = SCALE / 3**0.5
LEAST, FEW_LABS = 4, 5
"""Models without which nothing is fitted; labs below which it is said that they are few."""
MOST_NAMED = 8
LINE = Line(
    outcome="log_gain", covariates=("log_ratio",), sd=(SCALE, SHARE), sigma=SHARE, tau=SHARE, error="error", scale=LOG
)
CONSTANT = Line(outcome="log_gain", sd=(SCALE,), sigma=SHARE, tau=SHARE, error="error")
EQUATIONS = (
    "log gᵢ = a + b zᵢ + u_lab(i) + εᵢ",
    "zᵢ = log(‖W_V‖₂/‖W_O‖₂) of model i, mean over layers, standardised over the models",
    "u_lab ~ N(0, τ²),  εᵢ ~ N(0, σ² + sᵢ²),  sᵢ the standard error of log gᵢ over prompts",
)
PRIORS = (
    ("a", f"N(0, {SCALE:g}²)", "mean log gain: a factor 1.6 either way is one standard deviation"),
    ("b", f"N(0, {SHARE:.2f}²)", "slope over one SD of the log ratio: a third of the variance of log gains"),
    ("τ", f"half-normal({SHARE:.2f})", "labs: a third of the variance of log gains"),
    ("σ", f"half-normal({SHARE:.2f})", "models within labs: a third of the variance of log gains"),
)


def spectral_rows(
    table: pd.DataFrame, ratios: pd.DataFrame, estimand: str = "penultimate_gain", **chosen: Any
) -> ModelRows:
    """Join gains and ratios, as `fit_spectral` takes them and with its errors; the column log_ratio has the latter.

    `chosen`: source, error_from, prompt_counts.
    """
    columns_of(ratios, "model_id", "ratio")
    names = labels(ratios["model_id"], "model_id")
    ratio = pd.Series(numbers(ratios["ratio"], "ratio", positive=True), index=names)
    logs = np.log(ratio).groupby(level=0).mean()
    models = log_gains_of_models(table[table["model_id"].isin(list(logs.index))], estimand, least=LEAST, **chosen)
    rows = models.table.assign(log_ratio=models.table["model_id"].astype(str).map(logs)).reset_index(drop=True)
    if (labs := rows["heritage"].nunique()) < 2:
        raise UsageError(
            "labs are predicted from the others", where="heritage", got=f"{labs} labs", allowed="2 labs or more"
        )
    numbers(rows["log_ratio"], "log ratio", varied=True)
    numbers(rows["log_gain"], "log gain", varied=True)
    warnings = (*models.warnings, *_warnings(table, ratios, logs, rows, estimand))
    return replace(models, table=rows, warnings=warnings)


@fits
def fit_spectral(
    table: pd.DataFrame,
    ratios: pd.DataFrame,
    estimand: str = "penultimate_gain",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int = SEED,
) -> Fit:
    """log g_i = a + b z_i + u_lab + ε_i, z the standardised log(‖W_V‖/‖W_O‖), against the same without z.

    `table`: rows of `features`, as `log_gains_of_models` takes them; `ratios`: one row per model (`model_id`, `ratio`,
    and `doubt`, what may be doubted of it, empty for none); of several rows of one model the mean log ratio is taken.
    Quantities: slope (change of log gain over one SD of z), elasticity (over an e-fold of the ratio), lab_sd,
    residual_sd. Tables: `left_out` (each lab predicted by the others with and without the ratio, intervals, sign right
    or not), `rivals` (evidence, leave one model out and leave one lab out), `across_labs` (what they come to, in one
    row).

    Raises UsageError for fewer than 4 models with gain and ratio, a ratio that is constant or not above 0, gains that
    are constant, fewer than 2 labs.
    """
    spectral = spectral_rows(table, ratios, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts)
    law = Law(
        name="spectral",
        of=LINE.of,
        quantities=_quantities,
        statements={"slope > 0": lambda q: q["slope"] > 0},
        statistics=partial(_statistics, spectral.table),
        equations=EQUATIONS,
        priors=PRIORS,
        tables={"left_out": _labs_predicted, "rivals": _rivals, "across_labs": _across_labs},
        figures={"fit": _figure},
    )
    return law_fitted(
        line_law(law, LINE),
        spectral.table,
        seed=seed,
        estimand=spectral.estimand,
        sources=spectral.sources,
        warnings=spectral.warnings,
        reads=_of_new,
    )


def _of_new(new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict: heritage, and ratio as in `ratios`."""
    columns_of(new, "heritage", "ratio")
    return new.assign(log_ratio=np.log(numbers(new["ratio"], "ratio", least=1, positive=True)))


def _quantities(values: Mapping[str, Array], design: LineDesign) -> dict[str, Array]:
    slope, scales = values["beta"][..., 1], values["scale"]
    spreads = {"residual_sd": scales[..., -1]} | ({"lab_sd": scales[..., 0]} if scales.shape[-1] > 1 else {})
    return {"slope": slope, "elasticity": slope / design.units["log_ratio"][1], **spreads}


def _statistics(rows: pd.DataFrame, design: LineDesign) -> Mapping[str, Statistic]:
    here = rows.loc[list(design.outcomes)]
    return lab_statistics(here["heritage"], here["log_ratio"].to_numpy(), "the log ratio")


def _warnings(
    table: pd.DataFrame, ratios: pd.DataFrame, logs: pd.Series, rows: pd.DataFrame, estimand: str
) -> Iterator[str]:
    """Models that lack one of the two, matrices that are not W_V, labs that tell little."""
    taken = set(rows["model_id"])
    if without := set(logs.index) - taken:
        yield "ratio known, gain not: " + named(without, len(without))
    held = table["source"].isin(set(rows["source"])) & table[estimand].notna()
    if without := set(table.loc[held, "model_id"]) - set(logs.index):
        yield "gain known, ratio not: " + named(without, MOST_NAMED)
    several = ratios.loc[ratios["model_id"].duplicated() & ratios["model_id"].isin(taken), "model_id"]
    if len(several):
        yield "ratio in several rows, so the mean of its logarithm is used: " + named(set(several))
    if "doubt" in ratios:
        doubts = ratios.groupby("model_id")["doubt"].first().reindex(rows["model_id"])
        yield from (f"{doubt}: {', '.join(part.index)}" for doubt, part in doubts.groupby(doubts) if doubt)
    sizes = rows.groupby("heritage").size()
    if len(sizes) < FEW_LABS:
        yield f"{len(sizes)} labs: prediction across labs is hardly tested"
    if (sizes == 1).all():
        yield "one model per lab: effects of lab and model cannot be separated"
    elif rows.groupby("heritage")["log_ratio"].agg(np.ptp).max() < 1e-9:
        yield "the ratio differs between labs only: its slope rests on the prior of the lab effects"


def _exact(rows: pd.DataFrame) -> dict[str, Gaussian]:
    """The line with the ratio and without."""
    return {"ratio": gaussian_of(LINE, rows), "constant": gaussian_of(CONSTANT, rows)}


def _labs_predicted(fit: Fit) -> pd.DataFrame:
    labs = folds(fit.rows["heritage"].astype(str).tolist())
    ratio, constant = (
        held_out(model, model.sample(seed=fit.seed), labs, seed=fit.seed) for model in _exact(fit.rows).values()
    )
    lower, upper = ratio.interval()
    middle, y = np.median(ratio.draws, axis=0), fit.model.observed
    return fit.rows[["model_id", "heritage", "log_ratio"]].assign(
        log_gain=y,
        with_ratio=middle,
        lower=lower,
        upper=upper,
        constant=np.median(constant.draws, axis=0),
        p_dampens=(ratio.draws < 0).mean(axis=0),
        sign_right=(middle > 0) == (y > 0),
    )


def _rivals(fit: Fit) -> pd.DataFrame:
    return compare(_exact(fit.rows), by_model_and_lab(fit.rows), seed=fit.seed)


def _across_labs(fit: Fit) -> pd.DataFrame:
    """What leaving labs out comes to."""
    rivals, rows = fit.table("rivals").set_index("rival"), fit.table("left_out")
    y = rows["log_gain"]
    errors = rows[["with_ratio", "constant"]].sub(y, axis=0).pow(2).mean()
    return pd.DataFrame(
        {
            "probability_ratio_rather_than_constant": [rivals["probability"]["ratio"]],
            "elpd_gain_across_labs": [rivals["elpd_lab"]["ratio"] - rivals["elpd_lab"]["constant"]],
            "r_squared_across_labs": [1 - errors["with_ratio"] / errors["constant"]],
            "sign_right_across_labs": [rows["sign_right"].mean()],
            "coverage_across_labs": [((rows["lower"] <= y) & (y <= rows["upper"])).mean()],
            "largest_over_smallest_ratio": [np.exp(np.ptp(rows["log_ratio"]))],
        }
    )


def _figure(fit: Fit, axes: Axes) -> Axes:
    table = fit.table("left_out")
    logs = ["log_ratio", "log_gain", "lower", "upper"]
    scatter_labelled(
        table.assign(**np.exp(table[logs])),
        axes,
        x="log_ratio",
        y="log_gain",
        lower="lower",
        upper="upper",
        labels=False,
    )
    reference(axes, 1)
    log_axis(axes, "x")
    axes.set_xlabel("‖W_V‖ / ‖W_O‖, spectral norms, mean over layers")
    axes.set_ylabel(f"{fit.estimand.replace('_', ' ')}; bars: predicted from other labs")
    return axes
