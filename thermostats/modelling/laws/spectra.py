"""log gᵢ = a + b zᵢ + u_lab + εᵢ, z = log(‖W_V‖₂/‖W_O‖₂) standardised: does it predict gains in labs never seen?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling.classical.estimates import at_position, columns_of, named, numbers
from thermostats.modelling.heritage.rows import lines, model_rows, standardised
from thermostats.modelling.inference.draws import SEED, Array
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import MOST_FOLDS, compare, few_folds, held_out, model_folds, rival
from thermostats.modelling.inference.quadrature import Lines
from thermostats.modelling.laws.lines import fitted_line, lab_statistics
from thermostats.plots.general import reference, scatter_labelled
from thermostats.plots.scales import log_axis

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; slope over one SD of the ratio, labs and the rest share it, 0.5/√3 each."""
SHARE = SCALE / 3**0.5
LEAST, FEW_LABS, MOST_LABS = 4, 5, 200
"""Models without which nothing is fitted; labs below which it is said that they are few; labs that are sampled."""
SHOWN = 8
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


@dataclass(frozen=True, kw_only=True)
class SpectralRows:
    """One row per model with gain and ratio, and the two models of it: with the ratio (`full`) and without (`bare`)."""

    table: pd.DataFrame
    log_ratio: Array
    z: Array
    """Log ratio, standardised over these models."""
    spread: float
    """Standard deviation of the log ratio."""
    full: Lines
    bare: Lines
    sources: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def labs(self) -> list[str]:
        """Lab of every row."""
        return [str(lab) for lab in self.table["heritage"]]


def spectral_rows(
    table: pd.DataFrame, ratios: pd.DataFrame, estimand: str = "penultimate_gain", **chosen: Any
) -> SpectralRows:
    """Join gains and ratios, as `fit_spectral` takes them and with its errors.

    `chosen`: source, error_from, prompt_counts.
    """
    columns_of(ratios, "model_id", "ratio")
    ratio = pd.Series(numbers(ratios["ratio"].astype("float64"), "ratio", positive=True), index=ratios["model_id"])
    logs = np.log(ratio).groupby(level=0).mean()
    known = model_rows(table[table["model_id"].isin(list(logs.index))], estimand, least=LEAST, **chosen)
    frame = known.table
    said = [*known.warnings, *_said(table, ratios, logs, frame, estimand)]
    labs = frame["heritage"].astype(str)
    if not 2 <= labs.nunique() <= MOST_LABS:
        raise UsageError(
            "labs are predicted from the others",
            where="heritage",
            got=f"{labs.nunique()} labs",
            allowed=f"2 to {MOST_LABS} labs",
        )
    log_ratio = frame["model_id"].map(logs)
    z, _, spread = standardised(log_ratio, "log ratio")
    y, error = numbers(frame["log_gain"], "log gain", varied=True), frame["error"].to_numpy()
    one = np.ones((y.size, 1))

    def of(X: Array) -> Lines:
        return lines(frame, y, X, sd=[SCALE, SHARE][: X.shape[1]], sigma_scale=SHARE, tau_scale=SHARE, error=error)

    return SpectralRows(
        table=frame,
        log_ratio=log_ratio.to_numpy(),
        z=z,
        spread=spread,
        full=of(np.column_stack([one, z])),
        bare=of(one),
        sources=known.sources,
        warnings=tuple(said),
    )


def fit_spectral(
    table: pd.DataFrame,
    ratios: pd.DataFrame,
    estimand: str = "penultimate_gain",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
    seed: int = SEED,
) -> Fitted:
    """log g_i = a + b z_i + u_lab + ε_i, z the standardised log(‖W_V‖/‖W_O‖), against the same without z.

    `table`: rows of `features`, for `model_rows`; `ratios`: one row per model (`model_id`, `ratio`, and `doubt`, what
    may be doubted of it, empty for none); of several rows of one model the mean log ratio is taken. Quantities: slope
    (change of log gain over one SD of z), elasticity (over an e-fold of the ratio), lab_sd, residual_sd. Tables:
    `left_out` (each lab predicted by the others with and without the ratio, intervals, sign right or not), `rivals`
    (evidence, exact leave one model out and leave one lab out).

    Raises UsageError for fewer than 4 models with gain and ratio, a ratio that is constant or not above 0, gains that
    are constant, fewer than 2 labs or more than `MOST_LABS`.
    """
    rows = spectral_rows(table, ratios, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts)
    y, labs, said = rows.full.y, rows.labs, list(rows.warnings)
    rivals = compare(
        {"ratio": rival(rows.full), "constant": rival(rows.bare)},
        {"model": model_folds(y.size, said), "lab": few_folds(labs, "labs", said)},
    )
    left_out = _left_out(rows, seed)
    errors = left_out[["with_ratio", "constant"]].sub(y, axis=0).pow(2).mean()
    models = rows.table["model_id"].tolist()
    by_rival = rivals.set_index("rival")
    return fitted_line(
        rows.full,
        rows.table,
        lambda found: {
            "slope": found.beta[..., 1],
            "elasticity": found.beta[..., 1] / rows.spread,
            "lab_sd": found.tau,
            "residual_sd": found.sigma,
        },
        ways=[labs, *([models] if len(models) <= MOST_FOLDS else [])],
        part="slope",
        statistics=lab_statistics(rows.full.groups, rows.z, "the log ratio"),
        statements={"slope > 0": lambda q: q["slope"] > 0},
        seed=seed,
        family="spectral",
        estimand=at_position(estimand, rows.table),
        sources=rows.sources,
        probabilities={"ratio rather than constant": float(by_rival["probability"]["ratio"])},
        numbers={
            "elpd_gain_across_labs": float(by_rival["elpd_lab"]["ratio"] - by_rival["elpd_lab"]["constant"]),
            "r_squared_across_labs": float(1 - errors["with_ratio"] / errors["constant"]),
            "sign_right_across_labs": float(left_out["sign_right"].mean()),
            "coverage_across_labs": float(((left_out["lower"] <= y) & (y <= left_out["upper"])).mean()),
            "largest_over_smallest_ratio": float(np.exp(np.ptp(rows.log_ratio))),
        },
        tables={"left_out": left_out, "rivals": rivals},
        warnings=tuple(said),
        figure=_figure,
        labels={"beta": ("intercept", "log ratio")},
        equations=EQUATIONS,
        priors=PRIORS,
    )


def _said(
    table: pd.DataFrame, ratios: pd.DataFrame, logs: pd.Series, frame: pd.DataFrame, estimand: str
) -> Iterator[str]:
    """Warnings: models that lack one of the two, matrices that are not W_V, labs that tell little."""
    taken = set(frame["model_id"])
    if without := set(logs.index) - taken:
        yield "ratio known, gain not: " + named(without, len(without))
    held = table["source"].isin(set(frame["source"])) & table[estimand].notna()
    if without := set(table.loc[held, "model_id"]) - set(logs.index):
        yield "gain known, ratio not: " + named(without, SHOWN)
    several = ratios.loc[ratios["model_id"].duplicated() & ratios["model_id"].isin(taken), "model_id"]
    if len(several):
        yield "ratio in several rows, so the mean of its logarithm is used: " + named(set(several))
    if "doubt" in ratios:
        doubts = ratios.groupby("model_id")["doubt"].first().reindex(frame["model_id"])
        yield from (f"{doubt}: {', '.join(own.index)}" for doubt, own in doubts.groupby(doubts) if doubt)
    sizes = frame.groupby("heritage").size()
    if len(sizes) < FEW_LABS:
        yield f"{len(sizes)} labs: prediction across labs is hardly tested"
    if (sizes == 1).all():
        yield "one model per lab: effects of lab and model cannot be separated"
    elif frame["model_id"].map(logs).groupby(frame["heritage"]).agg(np.ptp).max() < 1e-9:
        yield "the ratio differs between labs only: its slope rests on the prior of the lab effects"


def _left_out(rows: SpectralRows, seed: int) -> pd.DataFrame:
    folds = few_folds(rows.labs, "labs")
    with_ratio, constant = (held_out(model, folds, seed=seed) for model in (rows.full, rows.bare))
    lower, upper = with_ratio.interval()
    middle, y = np.median(with_ratio.draws, axis=0), rows.full.y
    return rows.table[["model_id", "heritage"]].assign(
        log_ratio=rows.log_ratio,
        log_gain=y,
        with_ratio=middle,
        lower=lower,
        upper=upper,
        constant=np.median(constant.draws, axis=0),
        p_dampens=(with_ratio.draws < 0).mean(axis=0),
        sign_right=(middle > 0) == (y > 0),
    )


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("left_out")
    logs = ["log_ratio", "log_gain", "lower", "upper"]
    rows = shown.assign(**np.exp(shown[logs]))
    scatter_labelled(rows, axes, x="log_ratio", y="log_gain", lower="lower", upper="upper", labels=False)
    reference(axes, 1)
    log_axis(axes, "x")
    axes.set_xlabel("‖W_V‖ / ‖W_O‖, spectral norms, mean over layers")
    axes.set_ylabel(f"{fitted.estimand.replace('_', ' ')}; bars: predicted from other labs")
    return axes
