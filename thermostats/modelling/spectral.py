"""Does ‖W_V‖₂/‖W_O‖₂ foretell the log gain of models of labs it was not fitted on?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from thermostats.errors import UsageError
from thermostats.modelling import linear
from thermostats.modelling.draws import Array
from thermostats.modelling.estimates import columns_of
from thermostats.modelling.fitted import Fitted, Part
from thermostats.modelling.gaussian import Lines, held_out
from thermostats.modelling.model_rows import lines, model_rows, standardised
from thermostats.modelling.rivals import compare, model_folds, rival

SCALE = 0.5
"""Prior scale of log gains, a factor 1.6; slope over one SD of the ratio, labs and the rest share it, 0.5/√3 each."""
SHARE = SCALE / 3**0.5
SLICINGS = {"right": "W_V", "published_thirds": "W_V_published_thirds"}
"""Which matrix is taken for W_V: the right one, or the fused matrix cut in thirds as the study cut it."""


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
    out and leave one lab out).

    Raises UsageError for fewer than 4 models with gain and ratio, a constant ratio, fewer than 2 labs.
    """
    columns_of(ratios, "model_id", "ratio")
    logs = np.log(ratios["ratio"].astype("float64")).groupby(ratios["model_id"]).mean()
    if not np.isfinite(logs).all():
        raise UsageError("a logarithm is taken of this column", where="ratio", got=float(ratios["ratio"].min()),
                         allowed="finite values above 0")  # fmt: skip
    rows = model_rows(
        table[table["model_id"].isin(list(logs.index))], estimand, source=source, error_from=error_from,
        prompt_counts=prompt_counts, least=4,
    )  # fmt: skip
    frame, said = rows.table, list(rows.warnings)
    without = sorted(set(logs.index) - set(frame["model_id"]))
    if without:
        said.append("ratio known, gain not: " + ", ".join(without))
    if "sliced" in ratios:
        kinds = ratios.groupby("model_id")["sliced"].first().reindex(frame["model_id"])
        cut = kinds[kinds == "published_thirds"].index.tolist()
        if cut:
            said.append("W_V cut in thirds, which is not W_V in these architectures: " + ", ".join(cut))
    labs = frame["heritage"].astype(str)
    if labs.nunique() < 2:
        raise UsageError("no other lab to predict", where="heritage", got=labs.unique()[0], allowed="2 labs or more")
    if labs.nunique() < 5:
        said.append(f"{labs.nunique()} labs: prediction across labs is hardly tested")
    ratio = frame["model_id"].map(logs)
    z, _, spread = standardised(ratio, "log ratio")
    y, error = frame["log_gain"].to_numpy(), frame["error"].to_numpy()
    one = np.ones((y.size, 1))

    def of(X: Array) -> Lines:
        return lines(frame, y, X, sd=[SCALE, SHARE][: X.shape[1]], sigma_scale=SHARE, tau_scale=SHARE, error=error)

    full, bare = of(np.column_stack([one, z])), of(one)
    fit = linear.sample(full, seed=seed, cache=cache)
    rivals = compare(
        {"ratio": rival(full), "constant": rival(bare)},
        {"model": model_folds(y.size, said), "lab": labs.tolist()},
    )
    left_out = _left_out(frame, y, ratio.to_numpy(), full, bare, labs.tolist(), seed)
    errors = left_out[["with_ratio", "constant"]].sub(y, axis=0).pow(2).mean()
    slope = fit.beta[..., 1]
    by_lab = rivals.set_index("rival")["elpd_lab"]
    return Fitted(
        family="spectral",
        estimand=estimand,
        sources=rows.sources,
        n_models=y.size,
        n_heritages=labs.nunique(),
        parts={"slope": _part(fit, z)},
        quantities={"slope": slope, "elasticity": slope / spread, "lab_sd": fit.tau, "residual_sd": fit.sigma},
        probabilities={
            "slope > 0": float((slope > 0).mean()),
            "ratio rather than constant": float(rivals.set_index("rival").loc["ratio", "probability"]),
        },
        numbers={
            "elpd_gain_across_labs": float(by_lab["ratio"] - by_lab["constant"]),
            "r_squared_across_labs": float(1 - errors["with_ratio"] / errors["constant"]),
            "sign_right_across_labs": float(left_out["sign_right"].mean()),
            "coverage_across_labs": float(((left_out["lower"] <= y) & (y <= left_out["upper"])).mean()),
            "largest_over_smallest_ratio": float(np.exp(np.ptp(ratio.to_numpy()))),
        },
        tables={"left_out": left_out, "rivals": rivals},
        warnings=tuple(said),
        figure=_figure,
        influence=partial(linear.without_each, full, labs.tolist(), lambda p: p.beta[:, 1], "slope"),
        seed=seed,
    )


def _left_out(
    frame: pd.DataFrame, y: Array, log_ratio: Array, full: Lines, bare: Lines, labs: list[str], seed: int
) -> pd.DataFrame:
    with_ratio, constant = held_out(full, labs, seed=seed), held_out(bare, labs, seed=seed)
    lower, upper = with_ratio.interval()
    middle = np.median(with_ratio.draws, axis=0)
    return frame[["model_id", "heritage"]].assign(
        log_ratio=log_ratio, log_gain=y, with_ratio=middle, lower=lower, upper=upper,
        constant=np.median(constant.draws, axis=0), p_dampens=(with_ratio.draws < 0).mean(axis=0),
        sign_right=(middle > 0) == (y > 0),
    )  # fmt: skip


def _part(fit: linear.LinesFit, z: Array) -> Part:
    return fit.part(
        {
            "share of dampeners": lambda y: (y < 0).mean(axis=-1),
            "covariance with the log ratio": lambda y: (y * z).mean(axis=-1),
            "spread": lambda y: y.std(axis=-1),
        },
        {"slope > 0": fit.beta[..., 1] > 0},
    )


def _figure(fitted: Fitted, axes: Axes) -> Axes:
    shown = fitted.table("left_out")
    for lab, own in shown.groupby("heritage"):
        axes.scatter(np.exp(own["log_ratio"]), np.exp(own["log_gain"]), label=str(lab), s=36, zorder=3)
    axes.vlines(np.exp(shown["log_ratio"]), np.exp(shown["lower"]), np.exp(shown["upper"]), alpha=0.3)
    axes.axhline(1, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("‖W_V‖ / ‖W_O‖, spectral norms, mean over layers")
    axes.set_ylabel(f"{fitted.estimand.replace('_', ' ')}; bars: predicted from other labs")
    axes.legend()
    return axes
