"""log gᵢ = a + b zᵢ + u_lab + εᵢ, z = log(‖W_V‖₂/‖W_O‖₂) standardised: does it predict gains in labs never seen?

`mediation`: how much of an effect goes through such a ratio, c − c' = a·b by least squares within groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

from thermostats.errors import UsageError
from thermostats.modelling.classical import counterparts
from thermostats.modelling.classical.estimates import (
    Estimate,
    at_position,
    columns_of,
    labels,
    named,
    numbers,
    probability,
)
from thermostats.modelling.heritage.rows import lines, model_rows, standardised
from thermostats.modelling.inference.checks import Statistic
from thermostats.modelling.inference.draws import Array
from thermostats.modelling.inference.fitted import Fitted
from thermostats.modelling.inference.held_out import MOST_FOLDS, compare, few_folds, held_out, model_folds, rival
from thermostats.modelling.inference.quadrature import Lines
from thermostats.modelling.laws.lines import coefficient, fitted_line, sample
from thermostats.plots.marks import ABOVE, mark
from thermostats.plots.scales import log_axis

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; slope over one SD of the ratio, labs and the rest share it, 0.5/√3 each."""
SHARE = SCALE / 3**0.5
LEAST, FEW_LABS, MOST_LABS = 4, 5, 200
"""Models without which nothing is fitted; labs below which it is said that they are few; labs that are sampled."""
SHOWN = 8
SLICINGS = {"right": "W_V", "published_thirds": "W_V_published_thirds"}
"""Which matrix is taken for W_V: the right one, or the fused matrix cut in thirds as the study cut it."""

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


def norm_ratios(
    runs: pd.DataFrame, weights: pd.DataFrame, summaries: pd.DataFrame, *, slicing: str = "right"
) -> pd.DataFrame:
    """‖W_V‖/‖W_O‖, spectral norms averaged over layers, by model and source: model_id, source, wv, wo, ratio, sliced.

    From rows by layer where there are some, else from published means. With `published_thirds` the thirds are taken
    where they are held and the right matrix elsewhere, which is the same thing for architectures that do not fuse;
    `sliced` says which. Raises UsageError for another slicing.
    """
    if slicing not in SLICINGS:
        raise UsageError("no such slicing", got=slicing, allowed=", ".join(SLICINGS))
    whole = weights[(weights["head"] == "") & weights["spectral_norm"].notna()]
    by_layer = whole.groupby(["run_id", "matrix"])["spectral_norm"].mean().rename("norm").reset_index()
    stated = summaries[(summaries["prompt_id"] == "") & summaries["value"].notna()]
    names = {f"W_{m}_spectral_norm_mean{s}": f"W_{m}{s}" for m in ("V", "O") for s in ("", "_published_thirds")}
    stated = stated[stated["estimand"].isin(list(names))]
    means = stated.assign(matrix=stated["estimand"].map(names), norm=stated["value"])[["run_id", "matrix", "norm"]]
    both = pd.concat([by_layer, means]).merge(runs[["run_id", "model_id", "source"]], on="run_id")
    wide = both.groupby(["model_id", "source", "matrix"])["norm"].mean().unstack("matrix")
    wide = wide.reindex(columns=["W_V", "W_V_published_thirds", "W_O"])
    wv = wide["W_V"] if slicing == "right" else wide["W_V_published_thirds"].fillna(wide["W_V"])
    cut = np.where(wide["W_V_published_thirds"].notna() & (slicing != "right"), "published_thirds", "right")
    found = pd.DataFrame({"wv": wv, "wo": wide["W_O"], "ratio": wv / wide["W_O"], "sliced": cut}, index=wide.index)
    return found.dropna().reset_index()


@dataclass(frozen=True, kw_only=True)
class SpectralRows:
    """One row a model with gain and ratio, and the two models of it: with the ratio (`full`) and without (`bare`)."""

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
    table: pd.DataFrame,
    ratios: pd.DataFrame,
    estimand: str = "penultimate_gain",
    *,
    source: str | Sequence[str] | None = None,
    error_from: str | None = None,
    prompt_counts: Mapping[str, int] | None = None,
) -> SpectralRows:
    """Join gains and ratios, as `fit_spectral` takes them and with its errors."""
    columns_of(ratios, "model_id", "ratio")
    ratio = pd.Series(numbers(ratios["ratio"].astype("float64"), "ratio", positive=True), index=ratios["model_id"])
    logs = np.log(ratio).groupby(level=0).mean()
    known = model_rows(
        table[table["model_id"].isin(list(logs.index))],
        estimand,
        source=source,
        error_from=error_from,
        prompt_counts=prompt_counts,
        least=LEAST,
    )
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
    seed: int,
    cache: bool = True,
) -> Fitted:
    """log g_i = a + b z_i + u_lab + ε_i, z the standardised log(‖W_V‖/‖W_O‖), against the same without z.

    `table`: rows of `features`, taken by `model_rows`; `ratios`: a row a model (`model_id`, `ratio`), as `norm_ratios`
    gives them; of several sources of one model the mean log ratio is taken. Quantities: slope (change of log gain over
    one SD of z), elasticity (over an e-fold of the ratio), lab_sd, residual_sd. Tables: `left_out` (each lab predicted
    by the others with and without the ratio, intervals, sign right or not), `rivals` (evidence, exact leave one model
    out and leave one lab out), `sensitivity` (exact refits; t errors by weights), `classical` (as
    `counterparts.of_slopes` gives it).

    Raises UsageError for fewer than 4 models with gain and ratio, a ratio that is constant or not above 0, gains that
    are constant, fewer than 2 labs or more than `MOST_LABS`.
    """
    rows = spectral_rows(table, ratios, estimand, source=source, error_from=error_from, prompt_counts=prompt_counts)
    y, labs, said = rows.full.y, rows.labs, list(rows.warnings)
    fit = sample(rows.full, seed=seed, cache=cache)
    rivals = compare(
        {"ratio": rival(rows.full), "constant": rival(rows.bare)},
        {"model": model_folds(y.size, said), "lab": few_folds(labs, "labs", said)},
    )
    left_out = _left_out(rows, seed)
    errors = left_out[["with_ratio", "constant"]].sub(y, axis=0).pow(2).mean()
    slope, models = fit.beta[..., 1], rows.table["model_id"].tolist()
    by_rival = rivals.set_index("rival")
    return fitted_line(
        fit,
        rows.table,
        {"slope": coefficient(1)},
        judged=["slope"],
        ways=[labs, *([models] if len(models) <= MOST_FOLDS else [])],
        part="slope",
        statistics=_statistics(rows.z, rows.full.groups),
        decisive={"slope > 0": slope > 0},
        cache=cache,
        seed=seed,
        family="spectral",
        estimand=at_position(estimand, rows.table),
        sources=rows.sources,
        quantities={"slope": slope, "elasticity": slope / rows.spread, "lab_sd": fit.tau, "residual_sd": fit.sigma},
        probabilities={
            "slope > 0": float((slope > 0).mean()),
            "ratio rather than constant": float(by_rival["probability"]["ratio"]),
        },
        numbers={
            "elpd_gain_across_labs": float(by_rival["elpd_lab"]["ratio"] - by_rival["elpd_lab"]["constant"]),
            "r_squared_across_labs": float(1 - errors["with_ratio"] / errors["constant"]),
            "sign_right_across_labs": float(left_out["sign_right"].mean()),
            "coverage_across_labs": float(((left_out["lower"] <= y) & (y <= left_out["upper"])).mean()),
            "largest_over_smallest_ratio": float(np.exp(np.ptp(rows.log_ratio))),
        },
        tables={
            "left_out": left_out,
            "rivals": rivals,
            "classical": counterparts.of_slopes(y, rows.table["heritage"], {"log_ratio": rows.log_ratio}, seed=seed),
        },
        warnings=tuple(said),
        figure=_figure,
        equations=EQUATIONS,
        priors=PRIORS,
    )


def _said(
    table: pd.DataFrame, ratios: pd.DataFrame, logs: pd.Series, frame: pd.DataFrame, estimand: str
) -> Iterator[str]:
    """Warnings: models that lack one of the two, matrices that are not W_V, labs that tell little."""
    taken = set(frame["model_id"])
    if without := sorted(set(logs.index) - taken):
        yield "ratio known, gain not: " + ", ".join(without)
    held = table["source"].isin(set(frame["source"])) & table[estimand].notna()
    if without := sorted(set(table.loc[held, "model_id"]) - set(logs.index)):
        shown = ", ".join(without[:SHOWN]) + (f" and {len(without) - SHOWN} more" if len(without) > SHOWN else "")
        yield "gain known, ratio not: " + shown
    several = ratios.loc[ratios["model_id"].duplicated() & ratios["model_id"].isin(taken), "model_id"]
    if len(several):
        yield "ratio in several rows, the mean of its logarithm taken: " + named(set(several))
    if "sliced" in ratios:
        kinds = ratios.groupby("model_id")["sliced"].first().reindex(frame["model_id"])
        if cut := kinds[kinds == "published_thirds"].index.tolist():
            yield "W_V cut in thirds, which is not W_V in these architectures: " + ", ".join(cut)
    sizes = frame.groupby("heritage").size()
    if len(sizes) < FEW_LABS:
        yield f"{len(sizes)} labs: prediction across labs is hardly tested"
    if (sizes == 1).all():
        yield "one model a lab: what the lab does and what the model does cannot be told apart"
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


def _statistics(z: Array, groups: NDArray[np.int64]) -> dict[str, Statistic]:
    def lab_means(y: Array | NDArray[np.bool_]) -> Array:
        return np.bincount(groups, y) / np.bincount(groups)

    return {
        "share of dampeners": lambda y: float((y < 0).mean()),
        "spread of labs' shares of dampeners": lambda y: float(lab_means(y < 0).std()),
        "spread of lab means": lambda y: float(lab_means(y).std()),
        "covariance with the log ratio": lambda y: float((y * z).mean()),
        "spread": lambda y: float(y.std()),
        "largest": lambda y: float(y.max()),
        "skew": lambda y: float(((y - y.mean()) ** 3).mean() / y.std() ** 3),
    }


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("left_out")
    for lab, own in shown.groupby("heritage"):
        color, marker = mark(str(lab))
        x = np.exp(own["log_ratio"])
        axes.scatter(x, np.exp(own["log_gain"]), color=color, marker=marker, label=str(lab), s=36, zorder=3)
        axes.vlines(x, np.exp(own["lower"]), np.exp(own["upper"]), color=color, alpha=0.3)
    axes.axhline(1, linewidth=0.8)
    log_axis(axes, "x")
    axes.set_xlabel("‖W_V‖ / ‖W_O‖, spectral norms, mean over layers")
    axes.set_ylabel(f"{fitted.estimand.replace('_', ' ')}; bars: predicted from other labs")
    axes.legend(**ABOVE)
    return axes


@dataclass(frozen=True, kw_only=True)
class Mediation(Estimate):
    """The indirect effect a·b as the estimate, with total and direct effect."""

    total: float
    direct: float
    n_groups: int


def mediation(
    frame: pd.DataFrame,
    outcome: str,
    cause: str,
    mediator: str,
    others: Sequence[str],
    *,
    group: str,
    level: float = 0.95,
) -> Mediation:
    """Indirect effect c − c' = a·b (MacKinnon, Warsi and Dwyer 1995, doi:10.1207/s15327906mbr3001_3).

    c is the slope of the outcome on the cause given `others`, c' the same given the mediator too; every column is
    centred within its group, so that groups have levels of their own. The interval is that of the jackknife over k
    groups, (c − c') ± t_{k−1} se, se² = (k − 1)/k Σ (value without a group − their mean)². It is the effect through the
    mediator only where nothing that was left out moves mediator and outcome both: the cause may be randomised, the
    mediator never is.

    Raises UsageError for missing columns or values, a cause or mediator that is constant within groups or follows from
    the others, fewer than 3 groups, or no residual degree of freedom.
    """
    columns_of(frame, outcome, cause, mediator, group, *others)
    probability(level)
    group_of = labels(frame[group], group)
    names = [cause, mediator, *others, outcome]
    values = pd.DataFrame({name: numbers(frame[name].astype("float64"), name, least=3) for name in names})
    centred = (values - values.groupby(group_of).transform("mean")).to_numpy()
    groups, codes = np.unique(group_of, return_inverse=True)
    if groups.size < 3:
        raise UsageError("too few groups to leave one out", where=group, got=groups.size, allowed="3 or more")
    rank = np.linalg.matrix_rank(centred[:, :-1])
    if rank - np.linalg.matrix_rank(centred[:, 2:-1]) < 2 or len(frame) - groups.size - rank < 1:
        raise UsageError(
            "the slopes on cause and mediator are not determined",
            where=f"{cause}, {mediator}",
            got=f"{len(frame)} rows, {groups.size} groups, rank {rank}",
            allowed="both vary within groups apart from the other columns, and rows are left over",
        )
    moments = np.stack([centred[codes == g].T @ centred[codes == g] for g in range(groups.size)])
    total, direct = _slopes(moments.sum(axis=0)[None])
    without = np.subtract(*_slopes(moments.sum(axis=0) - moments))
    k, estimate = groups.size, float(total[0] - direct[0])
    error = np.sqrt((k - 1) / k * np.square(without - without.mean()).sum())
    half = float(stats.t.ppf((1 + level) / 2, k - 1) * error)
    return Mediation(
        test=f"indirect effect of {cause} on {outcome} through {mediator}",
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        level=level,
        interval=f"jackknife t interval over {k} groups",
        p_value=float("nan"),
        n=len(frame),
        total=float(total[0]),
        direct=float(direct[0]),
        n_groups=k,
    )


def _slopes(moments: Array) -> tuple[Array, Array]:
    """Total and direct slope on the cause from cross products (… × columns × columns): cause, mediator, others, y."""
    size = moments.shape[-1] - 1
    direct, total = list(range(size)), [0, *range(2, size)]

    def first(columns: list[int]) -> Array:
        inside = moments[:, columns][:, :, columns]
        return np.asarray((np.linalg.pinv(inside, hermitian=True)[:, 0] * moments[:, columns, -1]).sum(axis=1))

    return first(total), first(direct)
