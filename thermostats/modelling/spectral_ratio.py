"""log gᵢ = a + b zᵢ + u_lab + εᵢ, z the standardised log(‖W_V‖/‖W_O‖): does the ratio of spectral
norms predict the gain?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.columns import check_columns, list_names, read_labels, read_numbers
from thermostats.modelling.crowding import ERRORS, SCALE, SPREADS, _read_models, declare_labs
from thermostats.modelling.draws import SEED, Array, Statistic
from thermostats.modelling.fit import Fit, build_fit
from thermostats.modelling.fit_calls import record_call
from thermostats.modelling.gaussian import Gaussian
from thermostats.modelling.laws import Law
from thermostats.modelling.leave_out import build_folds, build_model_and_lab_folds, leave_folds_out
from thermostats.modelling.lines import build_lab_statistics, compare, vary_line
from thermostats.modelling.mixed_model import Fixed, MixedDesign, declare_law, name_draws
from thermostats.modelling.model_gains import ModelGains
from thermostats.plots.general import draw_reference, draw_scatter, log_axis

SPECTRAL_SHARE = SCALE / 3**0.5
"""Slope over one SD of the ratio, labs and the rest share the prior scale of log gains, 0.5/√3
each."""
LEAST, FEW_LABS = 4, 5
"""Models without which nothing is fitted; labs below which it is said that they are few."""
MOST_NAMED = 8
THIRD = "a third of the variance of log gains"
RATIO = Fixed(
    column="log_ratio",
    sd=SPECTRAL_SHARE,
    symbol="b",
    why=f"slope over one SD of the log ratio: {THIRD}",
    term="z_i",
    quantity="slope",
    standardised=True,
)
LINE = declare_labs([RATIO], SPECTRAL_SHARE, THIRD, THIRD)
CONSTANT = declare_labs([], SPECTRAL_SHARE, THIRD, THIRD)
RATIOS = "z_i = log(‖W_V‖₂/‖W_O‖₂) of model i, mean over layers, standardised over the models"


def read_spectral_rows(
    table: pd.DataFrame, ratios: pd.DataFrame, estimand: str = "penultimate_gain", **chosen: Any
) -> ModelGains:
    """Join gains and ratios, as `fit_spectral` takes them and with its errors; the column log_ratio
    has the latter.

    `chosen`: source, error_from, prompt_counts.
    """
    check_columns(ratios, "model_id", "ratio")
    names = read_labels(ratios["model_id"], "model_id")
    ratio = pd.Series(read_numbers(ratios["ratio"], "ratio", positive=True), index=names)
    logs = np.log(ratio).groupby(level=0).mean()
    check_columns(table, "model_id")
    compared = table[table["model_id"].isin(list(logs.index))]
    models = _read_models(compared, estimand, LEAST, **chosen)
    rows = models.table.assign(log_ratio=models.table["model_id"].astype(str).map(logs))
    if (labs := rows["heritage"].nunique()) < 2:
        raise UsageError(
            "labs are predicted from the others",
            where="heritage",
            got=f"{labs} labs",
            allowed="2 labs or more",
        )
    read_numbers(rows["log_ratio"], "log ratio", varied=True)
    joined = replace(models, table=rows)
    warnings = (*models.warnings, *_collect_warnings(table, ratios, logs, joined, estimand))
    return replace(joined, warnings=warnings)


@record_call
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
    """Ask whether the ratio of the spectral norms of W_V and W_O predicts the gain.

        log g_i = a + b z_i + u_lab + ε_i, z the standardised log(‖W_V‖/‖W_O‖)

    It is compared with the same without z.

    Parameters
    ----------
    table : DataFrame
        As in `fit_crowding`.
    ratios : DataFrame
        One row per model (`model_id`, `ratio`, and `doubt`, what may be doubted of it, empty for
        none); of several rows of a model the mean log ratio is taken.
    estimand : str
        Column of the gain.
    source, error_from, prompt_counts, seed
        As in `fit_crowding`.

    Returns
    -------
    Fit
        Quantities: slope (change of log gain over one SD of z), elasticity (over an e-fold of the
        ratio), lab_sd, residual_sd. Tables: `left_out` (each lab predicted by the others with and
        without the ratio, intervals, sign right or not), `rivals` (evidence, leave one model out
        and leave one lab out), `across_labs` (what they come to, in one row).

    Raises
    ------
    UsageError
        For fewer than 4 models with gain and ratio, a ratio that is constant or not above 0, gains
        that are constant, fewer than 2 labs.

    Examples
    --------
    >>> import thermostats
    >>> from thermostats.studies.delia2026 import fit_spectral
    >>> rows = thermostats.features(evidence="pooled").dropna(subset="penultimate_gain")
    >>> ratios = rows[["model_id"]].assign(ratio=rows["n_layers"] / rows["n_heads"], doubt="")
    >>> sorted(fit_spectral(rows, ratios).reported)
    ['elasticity', 'lab_sd', 'residual_sd', 'slope']
    """
    spectral = read_spectral_rows(
        table, ratios, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts
    )
    tables = {
        "left_out": _list_lab_predictions,
        "rivals": _compare_spectral_rivals,
        "across_labs": _score_across_labs,
    }
    law = Law(
        name="spectral",
        of=LINE.design_rows,
        quantities=_compute_quantities,
        reported=("slope", "elasticity", *SPREADS),
        statements={"slope > 0": lambda q: q["slope"] > 0},
        statistics=_build_spectral_statistics,
        equations=(RATIOS, ERRORS),
        tables=tables,
        figures={"fit": _draw_spectral_figure},
    )
    return build_fit(
        declare_law(law, LINE, vary_line(LINE)),
        spectral.table,
        seed=seed,
        estimand=spectral.estimand,
        sources=spectral.sources,
        warnings=spectral.warnings,
        reads=_read_new_spectral,
    )


def _read_new_spectral(new: pd.DataFrame) -> pd.DataFrame:
    """Rows to predict: heritage, and ratio as in `ratios`."""
    check_columns(new, "heritage", "ratio")
    ratio = read_numbers(new["ratio"], "ratio", least=1, positive=True)
    return new.assign(log_ratio=np.log(ratio))


def _compute_quantities(values: Mapping[str, Array], design: MixedDesign) -> dict[str, Array]:
    drawn = name_draws(values, design)
    return {**drawn, "elasticity": drawn["slope"] / design.units["log_ratio"][1]}


def _build_spectral_statistics(design: MixedDesign) -> Mapping[str, Statistic]:
    ratios = design.table["log_ratio"].to_numpy()
    return build_lab_statistics(design.table["heritage"], ratios, "the log ratio")


def _collect_warnings(
    table: pd.DataFrame, ratios: pd.DataFrame, logs: pd.Series, models: ModelGains, estimand: str
) -> Iterator[str]:
    """Models that lack one of the two, matrices that are not W_V, labs that tell little."""
    rows = models.table
    taken = set(rows["model_id"])
    if without := set(logs.index) - taken:
        yield "ratio known, gain not: " + list_names(without, len(without))
    from_sources = table["source"].isin({*models.sources, ""})
    held = from_sources & table[estimand].notna()
    if without := set(table.loc[held, "model_id"]) - set(logs.index):
        yield "gain known, ratio not: " + list_names(without, MOST_NAMED)
    names = ratios["model_id"]
    several = set(names[names.duplicated() & names.isin(taken)])
    if several:
        words = "ratio in several rows, so the mean of its logarithm is used"
        yield f"{words}: {list_names(several)}"
    if "doubt" in ratios:
        doubts = ratios.groupby("model_id")["doubt"].first().reindex(rows["model_id"])
        for doubt, doubted in doubts.groupby(doubts):
            if doubt:
                yield f"{doubt}: {', '.join(doubted.index)}"
    sizes = rows.groupby("heritage").size()
    if len(sizes) < FEW_LABS:
        yield f"{len(sizes)} labs: prediction across labs is hardly tested"
    if (sizes == 1).all():
        yield "one model per lab: effects of lab and model cannot be separated"
    elif rows.groupby("heritage")["log_ratio"].agg(np.ptp).max() < 1e-9:
        yield "the ratio differs between labs only: its slope rests on the prior of the lab effects"


def _build_exact_models(rows: pd.DataFrame) -> dict[str, Gaussian]:
    """The line with the ratio and without."""
    exact_models: dict[str, Gaussian] = {}
    for name, line in (("ratio", LINE), ("constant", CONSTANT)):
        design = line.design_rows(rows)
        exact_models[name] = design.gaussian
    return exact_models


def _list_lab_predictions(fit: Fit) -> pd.DataFrame:
    labs = build_folds(fit.rows["heritage"].astype(str).tolist())
    predictions = []
    for model in _build_exact_models(fit.rows).values():
        draws = model.sample(seed=fit.seed)
        predictions.append(leave_folds_out(model, draws, labs, seed=fit.seed))
    ratio, constant = predictions
    lower, upper = ratio.interval()
    middle = np.median(ratio.draws, axis=0)
    y = fit.model.observed
    dampens = ratio.draws < 0
    rows = fit.rows[["model_id", "heritage", "log_ratio"]]
    return rows.assign(
        log_gain=y,
        with_ratio=middle,
        lower=lower,
        upper=upper,
        constant=np.median(constant.draws, axis=0),
        p_dampens=dampens.mean(axis=0),
        sign_right=(middle > 0) == (y > 0),
    )


def _compare_spectral_rivals(fit: Fit) -> pd.DataFrame:
    models = _build_exact_models(fit.rows)
    folds = build_model_and_lab_folds(fit.rows)
    return compare(models, folds, seed=fit.seed)


def _score_across_labs(fit: Fit) -> pd.DataFrame:
    """What leaving labs out comes to."""
    rivals = fit.table("rivals").set_index("rival")
    rows = fit.table("left_out")
    y = rows["log_gain"]
    errors = rows[["with_ratio", "constant"]].sub(y, axis=0).pow(2).mean()
    elpd = rivals["elpd_lab"]
    covered = (rows["lower"] <= y) & (y <= rows["upper"])
    scores = {
        "probability_ratio_rather_than_constant": rivals["probability"]["ratio"],
        "elpd_gain_across_labs": elpd["ratio"] - elpd["constant"],
        "r_squared_across_labs": 1 - errors["with_ratio"] / errors["constant"],
        "sign_right_across_labs": rows["sign_right"].mean(),
        "coverage_across_labs": covered.mean(),
        "largest_over_smallest_ratio": np.exp(np.ptp(rows["log_ratio"])),
    }
    return pd.DataFrame([scores])


def _draw_spectral_figure(fit: Fit, axes: Axes) -> Axes:
    table = fit.table("left_out")
    logs = ["log_ratio", "log_gain", "lower", "upper"]
    rows = table.assign(**np.exp(table[logs]))
    draw_scatter(
        rows, axes, x="log_ratio", y="log_gain", lower="lower", upper="upper", labels=False
    )
    draw_reference(axes, 1)
    log_axis(axes, "x")
    axes.set_xlabel("‖W_V‖ / ‖W_O‖, spectral norms, mean over layers")
    estimand = fit.estimand.replace("_", " ")
    axes.set_ylabel(f"{estimand}; bars: predicted from other labs")
    return axes
